"""Logistic regression by gradient flow with weight decay, on a teacher's labels with a fraction flipped.

The label is y = ζ sign(x·w*), ζ = −1 with probability ``flip``; the loss log(1 + e^{−y x·w}); w starts from 0. The error
of a fresh input follows from the angle between w and w*: arccos(m/√(q ρ²))/π, with m = E[w w*] and q = E[w²].
"""

from sympy import exp, log, sign

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Discrete, Normal

delta = param("delta", positive=True)
lam = param("lam", nonnegative=True, latex=r"\lambda")
flip = param("flip", domain=(0, 1))
w_star = random("w_star", Normal(0, 1), latex="w^*")
zeta = random("zeta", Discrete([1, -1], [1 - flip, flip]))
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

margin = zeta * sign(f_star) * f

model = Flow(
    "logistic_regression",
    state={w: 0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[-zeta * sign(f_star) / (1 + exp(margin)), 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, lam: 0.1, flip: 0.1},
    observables={"train_loss": E(log(1 + exp(-margin))), "m": E(w * w_star), "q": E(w**2)},
)
