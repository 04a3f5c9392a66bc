"""Fixed points with weight decay: box (i).

λ = 0.1, σ² = 0.05, P_* = Bernoulli(0.1). Left: errors over δ; points: the lasso, which the flow ends at, at d = 500
(quick: 200), 10 draws (quick: 6), bars of one standard deviation. Right: law of the coordinates at δ = 0.5; the
arrow is the delta spike at w = 0, its height its mass over the width of a bin.
"""

import numpy as np
from _boxes import compute_box, draw_box

ORDER = 9
PAPER = "Figure 10"
PARAMS = {"lam": 0.1, "sigma2": 0.05}


def compute(run):
    """Box (i) along δ."""
    values, places = np.linspace(0.3, 3, run.pick(25, 55)), np.array([0.4, 0.75, 1.0, 1.5, 2.0, 2.75])
    return compute_box(run, "dln_fixed_point_l1", "delta", values, places, ("E_train", "E_test"), 0.5, **PARAMS)


def draw(data):
    """Errors and coordinates."""
    return draw_box(data, r"samples per weight $\delta$", r"$\delta = 0.5$")
