"""Softmax regression by gradient flow with weight decay: three classes, labels from a teacher's softmax.

The student says p_k = e^{x·w_k}/Σ_j e^{x·w_j}, the teacher, given its fields, the same with w*_k and a sharpness ``beta``; the
loss is the cross-entropy −Σ_k p*_k log p_k, and all w_k start from 0. Classes are Python lists. ``m_00`` and ``m_01`` are the
overlaps of the weights of a class with those of its teacher and of another one.
"""

from sympy import exp, log

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

CLASSES = range(3)

delta = param("delta", positive=True, about="samples per dimension, n/d")
beta = param("beta", positive=True, about="sharpness of the teacher's softmax")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
w = [state(f"w_{k}") for k in CLASSES]
w_star = [random(f"w_star_{k}", Normal(0, 1), latex=f"w^*_{k}", about="a weight of the teacher's class") for k in CLASSES]
f = [field(f"f_{k}") for k in CLASSES]
f_star = [field(f"f_star_{k}") for k in CLASSES]
g = [gradient(f"g_{k}") for k in CLASSES]
g_star = [gradient(f"g_star_{k}") for k in CLASSES]

total = sum(exp(f[k]) for k in CLASSES)
label = [exp(beta * f_star[k]) / sum(exp(beta * f_star[j]) for j in CLASSES) for k in CLASSES]

model = Flow(
    "softmax_regression",
    state={w[k]: 0 for k in CLASSES},
    weights=[*w, *w_star],
    fields=[*f, *f_star],
    loss_gradient=[*(exp(f[k]) / total - label[k] for k in CLASSES), *(0 for k in CLASSES)],
    gradients=[*g, *g_star],
    drift={w[k]: -(g[k] + lam * w[k]) for k in CLASSES},
    defaults={delta: 3, beta: 1, lam: 0.1},
    observables={
        "train_loss": E(log(total) - sum(label[k] * f[k] for k in CLASSES)),
        **{f"m_0{k}": E(w[0] * w_star[k]) for k in (0, 1)},
        "q_00": E(w[0]**2),
    },
)
