"""A soft committee machine of two units learns another one by gradient flow: several outputs of one flow.

Output (1/√K) Σ_k φ(x·w_k), φ(x) = erf(x/√2), K = 2; labels from a teacher with two units of its own, half the squared error,
weight decay λ. Unit k starts with an overlap ``m_0`` with the k-th unit of the teacher: without one they would stay alike.
``m_00`` and ``m_01`` are the overlaps of a unit with its teacher and with the other one; ``test_loss`` follows from all
overlaps in closed form (Saad and Solla).
"""

from sympy import asin, erf, exp, pi, sqrt

from eqsolve import E, Flow, Sum, field, gradient, index, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
m_0 = param("m_0", about="overlap of a unit with its teacher's at the start")
k, j = index("k j", 2)
w = state("w", k)
w_0 = random("start", Normal(0, 0.25), k, latex="w(0)", about="a weight of the unit at the start")
w_star = random("w_star", Normal(0, 1), k, latex="w^*", about="a weight of the teacher's unit")
f, f_star = field("f f_star", k)
g, g_star = gradient("g g_star", k)


def unit(x):
    return erf(x / sqrt(2))


def product(a, b):  # E[φ(a) φ(b)] for fields of fresh inputs, whose covariances are those of the weights
    return 2 / pi * asin(E(a * b) / sqrt((1 + E(a**2)) * (1 + E(b**2))))


error = Sum(unit(f[j]) - unit(f_star[j]), j) / sqrt(2)

model = Flow(
    "committee",
    state={w[k]: w_0[k] + m_0 * w_star[k]},
    weights=[w[k], w_star[k]],
    fields=[f[k], f_star[k]],
    loss_gradient=[error * sqrt(2 / pi) * exp(-f[k]**2 / 2) / sqrt(2), 0],
    gradients=[g[k], g_star[k]],
    drift={w[k]: -(g[k] + lam * w[k])},
    defaults={delta: 4, lam: 0.01, m_0: 0.3},
    observables={
        "train_loss": E(error**2) / 2,
        "test_loss": Sum(product(w[k], w[j]) - 2 * product(w[k], w_star[j]) + product(w_star[k], w_star[j]), k, j) / 4,
        "m_00": E(w[0] * w_star[0]),
        "m_01": E(w[0] * w_star[1]),
        "q_00": E(w[0]**2),
    },
    cite="saad1995line",
)
