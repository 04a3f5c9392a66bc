"""A ReLU unit learns another one by gradient flow of the matching loss.

Labels max(0, x·w*), output max(0, x·w); the loss max(0, f)²/2 − y f is convex, and its gradient is the error
max(0, f) − y itself. (That of the squared error has a factor that jumps where a unit becomes active.)
"""

from sympy import Max

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
w_0 = random("w_0", Normal(0, 0.25), about="a weight at the start")
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

error = Max(0, f) - Max(0, f_star)

model = Flow(
    "relu_student",
    state={w: w_0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[error, 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, lam: 0.1},
    observables={"train_error": E(error**2) / 2, "m": E(w * w_star), "q": E(w**2)},
    cite="auer1995exponentially",
)
