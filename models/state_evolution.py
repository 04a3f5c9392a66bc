"""State evolution of approximate message passing with the ℓ1 penalty, at its fixed point (eq. fix_se).

The penalty J(w) = |w| makes the proximal operator η the soft threshold. As printed. The observables map the
fixed point to the quantities of case (i) (eq. map_se_dmft), which describe the same minimizer.
"""

from sympy import Abs, Max, Piecewise, sign, sqrt

from eqsolve import E, Eq, FixedPoint, normal, param, random, unknown
from eqsolve.laws import Bernoulli

delta = param("delta", positive=True)
lam = param("lam", nonnegative=True, latex=r"\lambda")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2")
b_star = unknown("b_star", domain=(0, 1))
t_star = unknown("t_star", positive=True)
sigma2_star = unknown("sigma2_star", latex=r"\sigma_*^2", positive=True)
w_star = random("w_star", Bernoulli(0.1), latex="W^*")
G = normal("G")

observation = w_star + sqrt(sigma2_star) * G
w = sign(observation) * Max(Abs(observation) - t_star, 0)  # η(observation; t_*)
slope = Piecewise((1, Abs(observation) > t_star), (0, True))  # η'

model = FixedPoint(
    "state_evolution",
    eqs=[
        Eq(b_star, E(slope) / delta),
        Eq(sigma2_star, (sigma2 + E((w_star - w)**2)) / delta),
        Eq(t_star, lam + b_star * t_star),
    ],
    defaults={delta: 0.5, lam: 0.1, sigma2: 0},
    conditions=[lam > 0],
    observables={
        "chi_w": b_star / (1 - b_star),
        "C_w": delta * sigma2_star - sigma2,
        "C_f": delta * sigma2_star * (1 - b_star)**2,
        "E_train": delta * sigma2_star * (1 - b_star)**2,
        "E_test": delta * sigma2_star,
        "P_w_zero": 1 - E(slope),
    },
    variables={"w": w, "slope": slope, "observation": observation},
    cite="nishiyama2026precise",
)
