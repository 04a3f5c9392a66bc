"""Where logistic regression with weight decay ends: argmin (1/δ) Σ log(1 + e^{−y x·w}) + λ|w|²/2.

Labels y = ζ sign(x·w*), ζ = −1 with probability ``flip``, as in `logistic_regression`, whose limit of long times this is. With
m = E[w w*], ρ² = E[w*²], q = E[w²] and σ² = q − m²/ρ², a weight is w = (m/ρ²) w* + σG. A sample of which the other weights say
h = y x·w has the margin p = argmin (p − h)²/2V + ℓ(p), ℓ(p) = log(1 + e^{−p}), and pulls with −ℓ'(p):

    m = √(2/π)(1 − 2 flip) ρ δ V E[−ℓ'(p)], h = σG,    σ² = δ V² E[ℓ'(p)²],    λV = 1/δ − 1 + E[∂p/∂h].

In the last two h is normal of variance q, weighted by twice the chance that the label agrees with its sign:
1 + (1 − 2 flip) erf(m h/√(2qρ²σ²)). The equations of Salehi, Abbasi and Hassibi, for labels that are signs.
"""

from sympy import acos, erf, exp, log, pi, sqrt

from eqsolve import E, Eq, FixedPoint, normal, param, proximal, random, symbol, unknown
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="strength of the penalty")
flip = param("flip", domain=(0, 1), about="probability that a label is flipped")
m = unknown("m")
sigma2 = unknown("sigma2", positive=True, latex=r"\sigma^2")
V = unknown("V", positive=True)
rho2 = unknown("rho2", positive=True, latex=r"\rho^2")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
G = normal("G")
y = symbol("y")

loss = log(1 + exp(-y))
q = sigma2 + m**2 / rho2
margin, slope = proximal(loss, y, sqrt(q) * G, V)
unseen, _ = proximal(loss, y, sqrt(sigma2) * G, V)  # the margin of an input that the teacher is undecided about
weight = 1 + (1 - 2 * flip) * erf(m * G / sqrt(2 * rho2 * sigma2))
angle = acos(m / sqrt(q * rho2)) / pi

model = FixedPoint(
    "logistic_fixed_point",
    eqs=[
        Eq(m, sqrt(2 / pi) * (1 - 2 * flip) * sqrt(rho2) * delta * V * E(-loss.diff(y).subs(y, unseen))),
        Eq(sigma2, delta * V**2 * E(weight * loss.diff(y).subs(y, margin)**2)),
        Eq(lam * V, 1 / delta - 1 + E(weight * slope)),
        Eq(rho2, E(w_star**2)),
    ],
    defaults={delta: 2, lam: 0.1, flip: 0.1},
    conditions=[lam > 0],
    observables={
        "q": q, "train_loss": E(weight * loss.subs(y, margin)), "E_gen": angle, "E_test": flip + (1 - 2 * flip) * angle,
    },
    variables={"w": m / rho2 * w_star + sqrt(sigma2) * G},
    flow="logistic_regression",
    cite="salehi2019impact",
)
