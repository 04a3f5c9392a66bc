"""State evolution of approximate message passing at its fixed point, for a convex penalty J (eq. fix_se).

J(w) = |w| here, whose proximal operator η is the soft threshold. Any convex J may stand in its place (a kink at 0
allowed): η and η' are derived from it, in closed form or as an implicit function. As printed. The observables map the
fixed point to the quantities of case (i) (eq. map_se_dmft), which describe the same minimizer.
"""

from sympy import Abs, sqrt

from eqsolve import E, Eq, FixedPoint, Minimiser, normal, param, proximal, random, symbol, unknown
from eqsolve.laws import Bernoulli

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="strength of the penalty")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
b_star = unknown("b_star", domain=(0, 1))
t_star = unknown("t_star", positive=True)
sigma2_star = unknown("sigma2_star", latex=r"\sigma_*^2", positive=True)
w_star = random("w_star", Bernoulli(0.1), latex="W^*", about="a weight of the teacher")
G = normal("G")
y = symbol("y")

J = Abs(y)
observation = w_star + sqrt(sigma2_star) * G
w, slope = proximal(J, y, observation, t_star)  # η(observation; t_*) and η'
active = proximal(Abs(y), y, observation, t_star)[1]  # 1 where w is not zero

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
        "P_w_zero": 1 - E(active),
    },
    variables={"w": w, "slope": slope, "observation": observation},
    minimises=Minimiser(
        y, penalty=J, strength=lam, target=w_star, ratio=delta, noise=sigma2,
        measures={"C_w": "error", "E_train": "residual", "E_test": "prediction error", "P_w_zero": "zeros"},
    ),
    cite="nishiyama2026precise",
)
