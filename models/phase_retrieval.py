"""Phase retrieval by gradient flow: the squares of the teacher's outputs are known, not their signs.

Half the squared error of x·w squared over two, ℓ = (f² − f*²) f/2, with weight decay λ; w starts near 0 and, through its
law, with an overlap ``m_0`` with w*, without which it would not move towards either sign.
"""

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
m_0 = param("m_0", about="overlap with the teacher at the start")
w_star = random("w_star", Normal(0, 1), latex="w^*", about="a weight of the teacher")
w_0 = random("w_0", Normal(0, 0.25), about="a weight at the start")
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

model = Flow(
    "phase_retrieval",
    state={w: w_0 + m_0 * w_star},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[(f**2 - f_star**2) * f / 2, 0],
    gradients=[g, g_star],
    drift={w: -(g + lam * w)},
    defaults={delta: 4, lam: 0, m_0: 0.3},
    observables={"train_loss": E((f**2 - f_star**2)**2), "m": E(w * w_star), "q": E(w**2)},
)
