"""Limit of gradient flow with weight decay: ℓ1-regularized regression, case (i) (eq. fix_case1).

Each coordinate ends at the soft threshold of a noisy observation of its target. As the box is printed. In
the text around it, what has to exceed the threshold (1 + χ_w)λ is the observation (printed: w), and the
equation of χ_w lacks its expectation.
"""

from sympy import Abs, Max, Piecewise, sign

from eqsolve import E, Eq, FixedPoint, Minimiser, normal, param, random, symbol, unknown
from eqsolve.laws import Bernoulli

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
C_w, chi_w, C_f = unknown("C_w chi_w C_f", positive=True)
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
z = normal("z", variance=delta * C_f)
y = symbol("y")

observation = w_star - (1 + chi_w) / delta * z
threshold = (1 + chi_w) * lam
w = sign(observation) * Max(Abs(observation) - threshold, 0)  # ST(observation; threshold)
slope = Piecewise((1, Abs(observation) > threshold), (0, True))  # its derivative: 1 where w is not zero

model = FixedPoint(
    "dln_fixed_point_l1",
    eqs=[
        Eq(C_w, E((w - w_star)**2)),
        Eq(chi_w, (1 + chi_w) / delta * E(slope)),
        Eq(C_f, (C_w + sigma2) / (1 + chi_w)**2),
    ],
    defaults={delta: 0.5, lam: 0.1, sigma2: 0},
    conditions=[lam > 0],
    observables={"E_train": C_f, "E_test": C_w + sigma2, "P_w_zero": 1 - E(slope)},
    variables={"w": w, "slope": slope, "observation": observation},
    flow="dln_flow",
    minimises=Minimiser(
        y, penalty=Abs(y), strength=lam, target=w_star, ratio=delta, noise=sigma2,
        measures={
            "C_w": "error", "C_f": "residual", "E_train": "residual", "E_test": "prediction error", "P_w_zero": "zeros",
        },
    ),
    cite="nishiyama2026precise",
)
