"""Elastic net: argmin (1/2δ)|y − Xw|² + λ Σ (|w| + ½κ w²).

The equations of the lasso with another penalty; the limit for random X is the soft threshold of the observation, shrunk by
1 + κλ/(1 − b). κ → 0 gives the lasso.
"""

from sympy import Abs

from eqsolve import E, Eq, Minimiser, load, param, proximal, symbol

lasso = load("lasso")
delta, lam, sigma2, C_w, b, w_star = lasso.symbols("delta lam sigma2 C_w b w_star")
kappa = param("kappa", positive=True)
y = symbol("y")

J = Abs(y) + kappa * y**2 / 2
w, slope = proximal(J, y, lasso.variables["observation"], lam / (1 - b))

model = lasso.replace(
    "elastic_net",
    eqs=[
        Eq(C_w, E((w - w_star)**2)),
        Eq(b, E(slope) / delta),
    ],
    defaults={kappa: 1},
    variables={"w": w},
    minimises=Minimiser(
        y, penalty=J, strength=lam, target=w_star, ratio=delta, noise=sigma2,
        measures={"C_w": "error", "E_train": "residual", "E_test": "prediction error", "P_w_zero": "zeros"},
    ),
)
