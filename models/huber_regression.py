"""Regression with outliers by gradient flow of Huber's loss: errors beyond k count linearly.

Labels y = x·w* + s ξ with ξ a standard normal and s = 0.2, or 3 with probability ``outliers``; the loss gradient is the
error cut off at ±k, which bends where a sample's error crosses k. For k → ∞ it is least squares.
"""

from sympy import Abs, Max, Min, Piecewise

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Discrete, Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
k = param("k", positive=True, about="error from which on the loss is linear")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
outliers = param("outliers", domain=(0, 1), about="probability of an outlier")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
xi = random("xi", Normal(0, 1), about="label noise, of unit size")
size = random("size", Discrete([0.2, 3], [1 - outliers, outliers]), about="size of the label noise")
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
