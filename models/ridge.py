"""Ridge regression: argmin (1/2δ)|y − Xw|² + λ Σ w²/2.

The equations of the lasso with another penalty; the limit for random X is w = (w* + τG)/(1 + λ/(1 − b)). The error is the
integral of (λ²ρ² + σ²x/δ)/(x + λ)² over the Marchenko–Pastur law of the eigenvalues x of XᵀX/δ, a closed form that the
solver is tested against.
"""

from eqsolve import Minimiser, load, proximal, symbol

lasso = load("lasso")
delta, lam, sigma2, b, w_star = lasso.symbols("delta lam sigma2 b w_star")
y = symbol("y")

J = y**2 / 2
w, slope = proximal(J, y, lasso.variables["observation"], lam / (1 - b))

model = lasso.subs({lasso.variables["w"]: w, lasso.variables["slope"]: slope}).replace(
    "ridge",
    observables={"P_w_zero": None},
    minimises=Minimiser(
        y, penalty=J, strength=lam, target=w_star, ratio=delta, noise=sigma2,
        measures={"C_w": "error", "E_train": "residual", "E_test": "prediction error"},
    ),
)
