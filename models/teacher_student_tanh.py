"""A tanh unit learns another one by gradient flow with weight decay: a loss that is not linear in the fields.

Labels tanh(x·w*), output tanh(x·w), half the squared error; w' = −(g + λw) from w(0) ~ N(0, 1/4). The mean-field system
has a process for the coordinates, w, and one for the samples, f.
"""

from sympy import tanh

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
w_0 = random("w_0", Normal(0, 0.25), about="a weight at the start")
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

model = Flow(
    "teacher_student_tanh",
    state={w: w_0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[(tanh(f) - tanh(f_star)) * (1 - tanh(f)**2), 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, lam: 0},
    observables={"train_loss": E((tanh(f) - tanh(f_star))**2), "m": E(w * w_star), "q": E(w**2)},
)
