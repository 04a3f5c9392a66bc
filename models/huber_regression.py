"""Regression with outliers by gradient flow of Huber's loss: errors beyond k count linearly.

Labels y = x·w* + s ξ with ξ a standard normal and s = 0.2, or 3 with probability ``outliers``; the loss gradient is the
error cut off at ±k, which bends where a sample's error crosses k. For k → ∞ it is least squares.
"""

from sympy import Abs, Max, Min, Piecewise

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Discrete, Normal

delta, k = param("delta k", positive=True)
lam = param("lam", nonnegative=True, latex=r"\lambda")
outliers = param("outliers", domain=(0, 1))
w_star = random("w_star", Normal(0, 1), latex="w^*")
xi = random("xi", Normal(0, 1))
size = random("size", Discrete([0.2, 3], [1 - outliers, outliers]))
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

error = f - f_star - size * xi

model = Flow(
    "huber_regression",
    state={w: 0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[Max(-k, Min(k, error)), 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, k: 1, lam: 0.1, outliers: 0.1},
    observables={
        "train_loss": E(Piecewise((error**2 / 2, Abs(error) < k), (k * Abs(error) - k**2 / 2, True))),
        "m": E(w * w_star),
        "q": E(w**2),
    },
    cite="huber1964robust",
)
