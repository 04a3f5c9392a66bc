"""Fixed points without weight decay and δ < 1: box (iii).

δ = 0.5, σ² = 0.05, P_* = Bernoulli(0.1). Left: test error over α (the training error is zero); points: the
interpolator of least potential, which the flow ends at, at d = 500 (quick: 200), 10 draws (quick: 6), bars of one
standard deviation. With noise there is a best α. Right: law of the coordinates at α = 0.3; it has no spike.
"""

import numpy as np
from _boxes import compute_box, draw_box

ORDER = 11
PAPER = "Figure 12"


def compute(run):
    """Box (iii) along α."""
    values, places = np.geomspace(0.02, 10, run.pick(25, 55)), np.array([0.03, 0.1, 0.3, 1.0, 3.0])
    params = {"delta": 0.5, "sigma2": 0.05}
    return compute_box(run, "dln_fixed_point_min_norm", "alpha", values, places, ("E_test",), 0.3, **params)


def draw(data):
    """Error and coordinates."""
    return draw_box(data, r"initialization $\alpha$", r"$\alpha = 0.3$", log=True)
