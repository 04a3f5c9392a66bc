"""A soft committee machine learns another one online: closed equations for the overlaps of their units.

Outputs Σ g(x·J_a), g(x) = erf(x/√2), of K units that learn and of those of a teacher; a fresh input at every step, of size
η/N, with α steps per dimension (Saad and Solla). Units a = 0 … K − 1 learn, the others are the teacher's; ``C[a, b]`` is their
overlap, Q among learners, R between both and T among the teacher's. It moves by the means ⟨δ_a x_b⟩ and ⟨δ_a δ_b⟩, where
δ_a = g'(x_a) (Σ_teacher g − Σ_learner g), both of them closed forms of the overlaps. ``error`` is half the mean squared error.
"""

import numpy as np
from sympy import asin, pi, sqrt

from eqsolve import Eq, Sum, System, function, index, param, table, times

alpha = times("alpha")
eta = param("eta", positive=True, about="learning rate")
K = param("K", integer=True, positive=True, about="units that learn")
U = param("units", integer=True, positive=True, about="units of both machines together")
start = param("asymmetry", nonnegative=True, about="overlap of a unit with its teacher's at the start")
a, b, c, d = index("a b c d", U)
learns, sign, C0 = table("learns", a), table("sign", a), table("C0", a, b)
C = function("C", a, b)


def machines(K, units, asymmetry):
    """Return which units learn, the sign of each in the error, and the overlaps at the start."""
    K, M = int(K), int(units) - int(K)
    first = np.diag([0.2 + 0.1 * place / K for place in range(K)] + [1.0] * M)
    for place in range(min(K, M)):
        first[place, K + place] = first[K + place, place] = asymmetry * (1 - 0.5 * place / K)
    return np.repeat([1.0, 0.0], [K, M]), np.repeat([-1.0, 1.0], [K, M]), first


def o(i, j):  # an overlap, of a unit with itself plus 1
    return C[i, j](alpha) + (1 if i == j else 0)


def slope(i, j, k):  # ⟨g'(x_i) x_j g(x_k)⟩
    return (
        2 / pi * (C[j, k](alpha) - C[i, j](alpha) * C[i, k](alpha) / o(i, i)) / sqrt(o(i, i) * o(k, k) - C[i, k](alpha) ** 2)
    )


def rest(i, j, k, l):  # covariance of x_k and x_l times the determinant of i and j, less what these two explain
    both = o(i, i) * o(j, j) - C[i, j](alpha) ** 2
    cross = C[i, k](alpha) * C[j, l](alpha) + C[i, l](alpha) * C[j, k](alpha)
    alone = C[j, k](alpha) * C[j, l](alpha) * o(i, i) + C[i, k](alpha) * C[i, l](alpha) * o(j, j)
    return both * o(k, l) - alone + C[i, j](alpha) * cross


def product(i, j, k, l):  # ⟨g'(x_i) g'(x_j) g(x_k) g(x_l)⟩
    both = o(i, i) * o(j, j) - C[i, j](alpha) ** 2
    return 4 / pi**2 * asin((rest(i, j, k, l)) / sqrt(rest(i, j, k, k) * rest(i, j, l, l))) / sqrt(both)


model = System(
    "soft_committee",
    eqs=[
        Eq(
            C[a, b](alpha).diff(alpha),
            eta * Sum(sign[c] * (learns[a] * slope(a, b, c) + learns[b] * slope(b, a, c)), c)
            + eta**2 * learns[a] * learns[b] * Sum(sign[c] * sign[d] * product(a, b, c, d), c, d),
        ),
    ],
    init={C[a, b]: C0[a, b]},
    tables={(learns, sign, C0): machines},
    defaults={K: 2, U: 4, eta: 0.1, start: 0.01},
    observables={"error": Sum(sign[a] * sign[b] * asin(C[a, b](alpha) / sqrt(o(a, a) * o(b, b))), a, b) / pi},
    cite="saad1995line",
)
