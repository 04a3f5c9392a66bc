"""Grokking times collapse in t/log(α).

δ = 0.5, λ = 0.2, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 1000, 4 draws
(quick: 200, 3), bars of one standard error. Test error alone: it falls a second time at t/log(α) = 2/λ (dotted).
"""

import numpy as np
from _dynamics import draw_learning
from _large import LAM, compute_large

from eqsolve.plotting.paper import panels

ORDER = 5.5
PAPER = "Figure 3(b)"
GROUP = "large"


def compute(run):
    """The curves of the large initializations."""
    return compute_large(run)


def draw(data):
    """The test error."""
    figure, axes = panels()
    draw_learning(data, axes, ("E_test",), lambda a, t: t / np.log(a))
    axes[0].axvline(2 / LAM, color="0.5", ls=":", lw=0.9)
    axes[0].set(xlabel=r"$t/\log\alpha$", xscale="log", xlim=(1e-4, 40))
    return figure
