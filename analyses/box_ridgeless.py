"""Fixed points without weight decay and δ > 1: box (ii).

σ² = 0.1, P_* = Bernoulli(0.1). Left: errors over δ; points: least squares, which the flow ends at, at d = 500
(quick: 200), 10 draws (quick: 6), bars of one standard deviation. Right: law of the coordinates at δ = 2: the
target plus Gaussian noise.
"""

import numpy as np
from _boxes import compute_box, draw_box

ORDER = 10
PAPER = "Figure 11"


def compute(run):
    """Box (ii) along δ."""
    values, places = np.linspace(1.4, 6, run.pick(25, 55)), np.array([1.5, 2.0, 3.0, 4.0, 5.0])
    return compute_box(run, "dln_fixed_point_ridgeless", "delta", values, places, ("E_train", "E_test"), 2.0, sigma2=0.1)


def draw(data):
    """Errors and coordinates."""
    return draw_box(data, r"samples per weight $\delta$", r"$\delta = 2$")
