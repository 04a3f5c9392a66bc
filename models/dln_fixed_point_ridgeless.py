"""Limit of gradient flow without weight decay for δ > 1: ridgeless regression, case (ii) (eq. fix_case2).

There is one minimizer, whatever α: the target plus a Gaussian error, or just the target when σ² = 0. As
printed. The fraction of zero coordinates is that of the target for σ² = 0, and 0 with noise.
"""

from sympy import Abs, Piecewise

from eqsolve import E, Eq, FixedPoint, Minimiser, normal, param, random, symbol, unknown
from eqsolve.laws import Bernoulli

delta = param("delta", positive=True, about="samples per dimension, n/d")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
C_w, chi_w, C_f = unknown("C_w chi_w C_f", nonnegative=True)
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
z = normal("z", variance=delta * C_f)
y = symbol("y")

w = w_star - z / (delta - 1)
P_target_zero = 1 - E(Piecewise((1, Abs(w_star) > 0), (0, True)))

model = FixedPoint(
    "dln_fixed_point_ridgeless",
    eqs=[
        Eq(C_w, sigma2 / (delta - 1)),
        Eq(chi_w, 1 / (delta - 1)),
        Eq(C_f, (delta - 1) / delta * sigma2),
    ],
    defaults={delta: 2, sigma2: 0.1},
    conditions=[delta > 1],
    exact={C_w: sigma2 / (delta - 1), chi_w: 1 / (delta - 1), C_f: (delta - 1) / delta * sigma2},
    observables={
        "E_train": C_f,
        "E_test": C_w + sigma2,
        "P_w_zero": Piecewise((0, sigma2 > 0), (P_target_zero, True)),
    },
    variables={"w": w},
    flow="dln_flow",
    minimises=Minimiser(
        y, penalty=y**2 / 2, target=w_star, ratio=delta, noise=sigma2,
        measures={"C_w": "error", "C_f": "residual", "E_train": "residual", "E_test": "prediction error"},
    ),
    cite="nishiyama2026precise",
)
