"""A perceptron learns a teacher's signs by gradient flow of the squared hinge loss.

The label is sign(x·w*), the loss max(0, κ − y x·w)²/2. Margins beyond κ are left alone; the gradient bends where one
crosses κ. (The hinge loss itself has a gradient that jumps there, on which samples get stuck: support vectors.) ``E_gen`` is
how often the signs of x·w and x·w* differ for a fresh input, arccos(m/√(q ρ²))/π with m = E[w w*], q = E[w²], ρ² = E[w*²].
"""

from sympy import Max, acos, pi, sign, sqrt

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
kappa = param("kappa", positive=True, about="margin: larger ones cost nothing")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

lack = Max(0, kappa - sign(f_star) * f)
m, q, rho2 = E(w * w_star), E(w**2), E(w_star**2)

model = Flow(
    "perceptron_hinge",
    state={w: 0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[-sign(f_star) * lack, 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, kappa: 1, lam: 0.1},
    observables={"train_loss": E(lack**2) / 2, "m": m, "q": q, "E_gen": acos(m / sqrt(q * rho2)) / pi},
    cite="cortes1995support",
)
