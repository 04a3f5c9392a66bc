"""Descent times collapse in t/log(1/α).

δ = 0.5, λ = 0, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 200, 8 draws
(quick: 3), bars of one standard error. Training error alone.
"""

import numpy as np
from _small import compute_small, draw_small

ORDER = 5.6
PAPER = "Figure 3(c)"
GROUP = "small"


def compute(run):
    """The curves of the small initializations."""
    return compute_small(run)


def draw(data):
    """The errors."""
    return draw_small(data, lambda a, t: t / np.log(1 / a), r"$t/\log(1/\alpha)$", ("E_train",))
