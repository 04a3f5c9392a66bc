"""Limit of gradient flow without weight decay for δ < 1: minimum norm, case (iii) (eq. fix_case3).

Of all interpolators the flow picks the one of least Σ Q(w), where Q'(w) = −∫g dt. It is solved for q = Q'(w),
of which u, v and w are explicit functions, w an increasing one. For two layers u = α e^{q/2} and
w = α² sinh q, so that q = asinh(w/α²) and x = 1/Q''(w) = √(w² + α⁴), as printed; the print holds for L = 2
only. For L ≥ 3 layers, integrating u' = −½ u^{L−1} g gives u^{−(L−2)} = α^{−(L−2)} − (L−2) q/2, and v is u
at −q.
"""

from sympy import Piecewise, exp, oo

from eqsolve import E, Eq, FixedPoint, Inverse, normal, param, random, symbol, unknown
from eqsolve.laws import Bernoulli

alpha, delta = param("alpha delta", positive=True)
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2")
L = param("L", integer=True, domain=(2, None))
C_w, R_w = unknown("C_w R_w", positive=True)
Cf_tilde = unknown("Cf_tilde", latex=r"\tilde C_f", positive=True)
w_star = random("w_star", Bernoulli(0.1), latex="w^*")
z = normal("z", variance=delta * Cf_tilde, latex=r"\tilde z")
y = symbol("y")


def u(q):
    """Return u where −∫g dt = q; v is u(−q)."""
    deep = (1 - (L - 2) * alpha**(L - 2) * q / 2)**(-1 / (L - 2))
    return alpha * Piecewise((exp(q / 2), L < 3), (deep, True))


def weight(q):
    """Return w = (u^L − v^L)/L, increasing in q."""
    return (u(q)**L - u(-q)**L) / L


q_max = Piecewise((oo, L < 3), (2 / ((L - 2) * alpha**(L - 2)), True))
q = Inverse(weight(y) + R_w * y, y, domain=(-q_max, q_max))(w_star - R_w / delta * z)
w = weight(q)
x = (u(q)**(2 * L - 2) + u(-q)**(2 * L - 2)) / 2

model = FixedPoint(
    "dln_fixed_point_min_norm",
    eqs=[
        Eq(C_w, E((w - w_star)**2)),
        Eq(delta, E(1 / (1 + R_w / x))),
        Eq(Cf_tilde, (C_w + sigma2) / R_w**2),
    ],
    defaults={alpha: 0.1, delta: 0.5, sigma2: 0, L: 2},
    conditions=[delta < 1],
    observables={"E_test": C_w + sigma2},
    variables={"w": w, "x": x, "u": u(q), "v": u(-q), "q": q},
    flow="dln_flow",
    cite="nishiyama2026precise",
)
