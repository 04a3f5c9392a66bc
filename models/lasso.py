"""ℓ1-regularized regression: argmin (1/2δ)|y − Xw|² + λ Σ|w|.

The limit of the lasso for random X: each weight is the soft threshold at λ/(1 − b) of its target plus Gaussian noise
of variance τ² = (C_w + σ²)/δ, where b is the fraction of weights that are not zero, divided by δ. The same as case (i)
of the diagonal network with χ_w = b/(1 − b).
"""

from sympy import Abs, Piecewise, sqrt

from eqsolve import E, Eq, FixedPoint, Minimiser, normal, param, proximal, random, symbol, unknown
from eqsolve.laws import Bernoulli

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="strength of the penalty")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
C_w, tau2 = unknown("C_w tau2", positive=True)
b = unknown("b", domain=(0, 1))
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
G = normal("G")
y = symbol("y")

J = Abs(y)
observation = w_star + sqrt(tau2) * G
w, slope = proximal(J, y, observation, lam / (1 - b))

model = FixedPoint(
    "lasso",
    eqs=[
        Eq(C_w, E((w - w_star)**2)),
        Eq(b, E(slope) / delta),
        Eq(tau2, (C_w + sigma2) / delta),
    ],
    defaults={delta: 0.5, lam: 0.1, sigma2: 0},
    conditions=[lam > 0],
    observables={
        "E_train": (C_w + sigma2) * (1 - b)**2, "E_test": C_w + sigma2,
        "P_w_zero": E(Piecewise((0, Abs(observation) > lam / (1 - b)), (1, True))),
    },
    variables={"w": w, "slope": slope, "observation": observation},
    minimises=Minimiser(
        y, penalty=J, strength=lam, target=w_star, ratio=delta, noise=sigma2,
        measures={"C_w": "error", "E_train": "residual", "E_test": "prediction error", "P_w_zero": "zeros"},
    ),
)
