"""Exponential rate of convergence without weight decay: rightmost singularity (eq. convergence_rate_eqn).

R(p) is p times the Laplace transform of R_w. E_train decays as exp(−2γt + o(t)), with the factor t^{−3/2}
of a square-root branch point (printed with o(1)); E_test decays at the rate γ in general. x = √(w² + α⁴)
holds for two layers; for L ≥ 3 it is ½(u^{2L−2} + v^{2L−2}), where u and v are found from
w = (u^L − v^L)/L and u^{2−L} + v^{2−L} = 2α^{2−L}.
"""

from sympy import Piecewise, sqrt

from eqsolve import E, Eq, Inverse, Singularity, param, random, symbol, unknown

alpha = param("alpha", positive=True, about="size of the weights at the start")
delta = param("delta", positive=True, about="samples per dimension, n/d")
L = param("L", integer=True, domain=(2, None), about="number of layers")
p, R = unknown("p R")
w = random("w", about="a weight in the limit of long times")  # its law comes from the fixed point
y = symbol("y")


def u(s):
    """Return u of a deep network (L ≥ 3) at s = −½(L−2) α^{L−2} ∫g dt; v is u(−s)."""
    return alpha * (1 - s)**(-1 / (L - 2))


s = Inverse((u(y)**L - u(-y)**L) / L, y, domain=(-1, 1))(w)
x = Piecewise((sqrt(w**2 + alpha**4), L < 3), ((u(s)**(2 * L - 2) + u(-s)**(2 * L - 2)) / 2, True))

model = Singularity(
    "dln_rate",
    transform=Eq(R, (p + R) / delta * E(x / (p + R + x))),
    variable=p,
    unknown=R,
    law_of=[(delta < 1, "dln_fixed_point_min_norm"), (delta > 1, "dln_fixed_point_ridgeless")],
    defaults={alpha: 0.1, delta: 0.5, L: 2},
    observables={"gamma": -p, "u": p + R, "A": E(x / (p + R + x))},
    variables={"x": x},
    cite="nishiyama2026precise",
)
