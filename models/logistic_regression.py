"""Logistic regression by gradient flow with weight decay, on a teacher's labels with a fraction flipped.

The label is y = ζ sign(x·w*), ζ = −1 with probability ``flip``; the loss log(1 + e^{−y x·w}); w starts from 0. How often the
signs of x·w and x·w* differ for a fresh input follows from the angle between w and w*: ``E_gen`` = arccos(m/√(q ρ²))/π, with
m = E[w w*], q = E[w²] and ρ² = E[w*²]. A fresh label, which may be flipped, is missed by ``E_test``.
"""

from sympy import acos, exp, log, pi, sign, sqrt

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Discrete, Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
flip = param("flip", domain=(0, 1), about="probability that a label is flipped")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
zeta = random("zeta", Discrete([1, -1], [1 - flip, flip]), about="-1 where the label is flipped")
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

margin = zeta * sign(f_star) * f
m, q, rho2 = E(w * w_star), E(w**2), E(w_star**2)
angle = acos(m / sqrt(q * rho2)) / pi

model = Flow(
    "logistic_regression",
    state={w: 0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[-zeta * sign(f_star) / (1 + exp(margin)), 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, lam: 0.1, flip: 0.1},
    observables={
        "train_loss": E(log(1 + exp(-margin))), "m": m, "q": q, "E_gen": angle, "E_test": flip + (1 - 2 * flip) * angle,
    },
)
