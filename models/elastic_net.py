"""Elastic net: argmin (1/2δ)|y − Xw|² + λ Σ (|w| + ½κ w²).

The equations of the lasso with another penalty; the limit for random X is the soft threshold of the observation, shrunk by
1 + κλ/(1 − b). κ → 0 gives the lasso.
"""

from sympy import Abs

from eqsolve import load, param, proximal, symbol

lasso = load("lasso")
lam, b = lasso.symbols("lam b")
kappa = param("kappa", positive=True, about="strength of the quadratic penalty, beside |w|")
y = symbol("y")

J = Abs(y) + kappa * y**2 / 2
w, slope = proximal(J, y, lasso.variables["observation"], lam / (1 - b))

model = lasso.subs({Abs(y): J, lasso.variables["w"]: w, lasso.variables["slope"]: slope}).replace(
    "elastic_net", defaults={kappa: 1},
)
