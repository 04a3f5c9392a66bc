"""Learning from a large initialization in the time t/log(α).

δ = 0.5, λ = 0.2, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 1000, 4 draws
(quick: 200, 3), bars of one standard error. The transition to the rich phase comes at t/log(α) = 2/λ (dotted).
"""

import numpy as np
from _large import LAM, compute_large, draw_large

ORDER = 6.3
PAPER = "Figure 6"
GROUP = "large"


def compute(run):
    """The curves of the large initializations."""
    return compute_large(run)


def draw(data):
    """Both errors."""
    figure, _ = draw_large(data, lambda a, t: t / np.log(a), r"$t/\log\alpha$", mark=2 / LAM, span=(1e-4, 40))
    return figure
