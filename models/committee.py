"""A soft committee machine of two units learns another one by gradient flow: several outputs of one flow.

Output (1/√K) Σ_k φ(x·w_k), φ(x) = erf(x/√2), K = 2; labels from a teacher with two units of its own, half the squared error,
weight decay λ. Unit k starts with an overlap ``m_0`` with the k-th unit of the teacher: without one they would stay alike.
Units are Python lists; each is a weight, a field and a gradient of its own. ``m_00`` and ``m_01`` are the overlaps of a unit
with its teacher and with the other one; ``test_loss`` follows from all overlaps in closed form (Saad and Solla).
"""

from sympy import asin, erf, pi, sqrt

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

UNITS = range(2)

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
m_0 = param("m_0", about="overlap of a unit with its teacher's at the start")
w = [state(f"w_{k}") for k in UNITS]
w_0 = [random(f"start_{k}", Normal(0, 0.25), latex=f"w_{k}(0)", about="a weight of the unit at the start") for k in UNITS]
w_star = [random(f"w_star_{k}", Normal(0, 1), latex=f"w^*_{k}", about="a weight of the teacher's unit") for k in UNITS]
f = [field(f"f_{k}") for k in UNITS]
f_star = [field(f"f_star_{k}") for k in UNITS]
g = [gradient(f"g_{k}") for k in UNITS]
g_star = [gradient(f"g_star_{k}") for k in UNITS]


def unit(x):
    return erf(x / sqrt(2))


def product(a, b, i, k):  # E[φ(a_i) φ(b_k)] for fields of fresh inputs, whose covariances are those of the weights
    size = sqrt((1 + E(a[i]**2)) * (1 + E(b[k]**2)))
    return 2 / pi * asin(E(a[i] * b[k]) / size)


error = sum(unit(f[k]) - unit(f_star[k]) for k in UNITS) / sqrt(len(UNITS))
test = sum(
    product(w, w, i, k) - 2 * product(w, w_star, i, k) + product(w_star, w_star, i, k) for i in UNITS for k in UNITS
) / (2 * len(UNITS))

model = Flow(
    "committee",
    state={w[k]: w_0[k] + m_0 * w_star[k] for k in UNITS},
    weights=[*w, *w_star],
    fields=[*f, *f_star],
    loss_gradient=[*(error * error.diff(f[k]) for k in UNITS), *(0 for k in UNITS)],
    gradients=[*g, *g_star],
    drift={w[k]: -(g[k] + lam * w[k]) for k in UNITS},
    defaults={delta: 4, lam: 0.01, m_0: 0.3},
    observables={
        "train_loss": E(error**2) / 2,
        "test_loss": test,
        **{f"m_0{k}": E(w[0] * w_star[k]) for k in UNITS},
        "q_00": E(w[0]**2),
    },
    cite="saad1995line",
)
