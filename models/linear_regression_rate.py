"""Exponential rate of ridge regression by gradient flow: the lower edge of the Marchenko–Pastur law, plus λ.

R(p) is p + λ times the Laplace transform of R_w, which removes the pole at p = −λ of the directions without data
(δ < 1). The transform is algebraic, and its rightmost singularity is the square-root branch point
p = −λ − (1 − δ^{−1/2})²: the same equation as for a diagonal network whose preconditioner x is one.
"""

from eqsolve import Eq, Singularity, param, unknown

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
p, R = unknown("p R")
u = p + lam + R

model = Singularity(
    "linear_regression_rate",
    transform=Eq(R, u / (delta * (u + 1))),
    variable=p,
    unknown=R,
    defaults={delta: 0.5, lam: 0},
    observables={"gamma": -p, "u": u, "A": 1 / (u + 1)},
)
