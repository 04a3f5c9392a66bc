"""Limit of gradient flow of a diagonal linear network: the box that holds for the given λ and δ.

With weight decay the limit is ℓ1-regularized regression, case (i). Without it, it depends on whether there are more
observations than weights: ridgeless regression, case (ii), for δ > 1, and the interpolator of minimum norm, case (iii),
for δ < 1. At δ = 1 and λ = 0 there is none: the error diverges there. `solve` says which case was solved.
"""

from eqsolve import Cases, param

alpha = param("alpha", positive=True, about="size of the weights at the start")
delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")

model = Cases(
    "dln_fixed_point",
    cases=[
        (lam > 0, "dln_fixed_point_l1"),
        (delta > 1, "dln_fixed_point_ridgeless"),
        (delta < 1, "dln_fixed_point_min_norm"),
    ],
    defaults={alpha: 0.1, delta: 0.5, lam: 0, sigma2: 0},
    cite="nishiyama2026precise",
)
