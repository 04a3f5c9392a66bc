"""Limit of gradient flow without weight decay for δ < 1: minimum norm, case (iii) (eq. fix_case3).

Of all interpolators the flow picks the one of least Σ Q(w), where q = Q'(w) = −∫g dt. For two layers u = α e^{q/2}
and w = α² sinh q, so that q = asinh(w/α²) and x = 1/Q''(w) = √(w² + α⁴), as printed; the print holds for L = 2 only.
For L ≥ 3 layers, integrating u' = −½ u^{L−1} g gives u^{−(L−2)} = α^{−(L−2)} − (L−2) q/2, and v is u at −q. It is
solved for θ, an increasing function of w: θ = q for two layers, tanh θ = ½(L−2) α^{L−2} q for more, so that u, v, w and x
are explicit. w − w* would be a difference of nearly equal numbers, one of them a root: it is written as the equation of w
gives it.
"""

from sympy import Piecewise, atanh, exp, tanh

from eqsolve import E, Eq, FixedPoint, Inverse, Minimiser, normal, param, random, symbol, unknown
from eqsolve.laws import Bernoulli

alpha = param("alpha", positive=True, about="size of the weights at the start")
delta = param("delta", positive=True, about="samples per dimension, n/d")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
L = param("L", integer=True, domain=(2, None), about="number of layers")
C_w, R_w = unknown("C_w R_w", positive=True)
Cf_tilde = unknown("Cf_tilde", latex=r"\tilde C_f", positive=True)
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
z = normal("z", variance=delta * Cf_tilde, latex=r"\tilde z")
y = symbol("y")


def u(t):
    """Return u at θ = t; v is u(−t)."""
    return Piecewise((alpha * exp(t / 2), L < 3), (alpha * (1 - tanh(t))**(-1 / (L - 2)), True))


def slope(t):
    """Return Q'(w) = −∫g dt at θ = t."""
    return Piecewise((t, L < 3), (2 * tanh(t) / ((L - 2) * alpha**(L - 2)), True))


def angle(s):
    """Return θ where Q'(w) = s."""
    return Piecewise((s, L < 3), (atanh((L - 2) * alpha**(L - 2) * s / 2), True))


def weight(t):
    """Return w at θ = t, increasing."""
    return (u(t)**L - u(-t)**L) / L


def speed(t):
    """Return x = 1/Q''(w) at θ = t."""
    return (u(t)**(2 * L - 2) + u(-t)**(2 * L - 2)) / 2


theta = Inverse(weight(y) + R_w * slope(y), y)(w_star - R_w / delta * z)  # w + R_w Q'(w) = w* − (R_w/δ) z
w, q, x = weight(theta), slope(theta), speed(theta)
error = -R_w * (q + z / delta)  # w − w*

model = FixedPoint(
    "dln_fixed_point_min_norm",
    eqs=[
        Eq(C_w, E(error**2)),
        Eq(delta, E(x / (x + R_w))),
        Eq(Cf_tilde, (C_w + sigma2) / R_w**2),
    ],
    defaults={alpha: 0.1, delta: 0.5, sigma2: 0, L: 2},
    conditions=[delta < 1],
    observables={"E_test": C_w + sigma2},
    variables={"w": w, "x": x, "u": u(theta), "v": u(-theta), "q": q, "error": error, "theta": theta},
    flow="dln_flow",
    minimises=Minimiser(
        y, inverse_slope=weight(angle(y)), target=w_star, ratio=delta, noise=sigma2,
        measures={"C_w": "error", "E_test": "prediction error"},
    ),
    cite="nishiyama2026precise",
)
