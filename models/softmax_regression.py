"""Softmax regression by gradient flow with weight decay: three classes, labels from a teacher's softmax.

The student says p_k = e^{x·w_k}/Σ_j e^{x·w_j}, the teacher, given its fields, the same with w*_k and a sharpness ``beta``; the
loss is the cross-entropy −Σ_k p*_k log p_k, and all w_k start from 0. ``m_00`` and ``m_01`` are the overlaps of the weights of
a class with those of its teacher and of another one.
"""

from sympy import exp, log

from eqsolve import E, Flow, Sum, field, gradient, index, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
beta = param("beta", positive=True, about="sharpness of the teacher's softmax")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
k, j = index("k j", 3)
w = state("w", k)
w_star = random("w_star", Normal(0, 1), k, latex="w^*", about="a weight of the teacher's class")
f, f_star = field("f f_star", k)
g, g_star = gradient("g g_star", k)

total = Sum(exp(f[j]), j)
label = exp(beta * f_star[k]) / Sum(exp(beta * f_star[j]), j)

model = Flow(
    "softmax_regression",
    state={w[k]: 0},
    weights=[w[k], w_star[k]],
    fields=[f[k], f_star[k]],
    loss_gradient=[exp(f[k]) / total - label, 0],
    gradients=[g[k], g_star[k]],
    drift={w[k]: -(g[k] + lam * w[k])},
    defaults={delta: 3, beta: 1, lam: 0.1},
    observables={
        "train_loss": E(log(total) - Sum(label * f[k], k)),
        "m_00": E(w[0] * w_star[0]),
        "m_01": E(w[0] * w_star[1]),
        "q_00": E(w[0]**2),
    },
)
