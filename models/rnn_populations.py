"""Random recurrent network of populations with coupling statistics of their own: `rnn_ei` for any number.

A neuron of population a of x_a' = −x_a + h_a + Σ_b Σ_j J_ab,j tanh x_b,j, the couplings from population b having mean J_ab/N_b
and variance g_ab²/N_b: its input is Gaussian, independent between populations.
"""

import numpy as np
from sympy import tanh

from eqsolve import GP, E, Eq, Sum, System, correlation, function, index, param, process, random, table, times
from eqsolve.laws import Normal

t, tp = times("t t'")
K = param("populations", integer=True, positive=True, about="number of populations")
gain = param("gain", nonnegative=True, about="factor of all spreads of the couplings")
a, b = index("a b", K)
g, J, h = table("g", a, b), table("J", a, b), table("h", a)
x, eta = process("x eta", a)
r = function("r", a)
C, F = correlation("C F", a)
x0 = random("x0", Normal(0, 1), a, about="a neuron at the start")


def ring(populations):
    """Return couplings that fall with the distance of populations on a ring: spreads, means, inputs."""
    place = np.arange(int(populations))
    away = np.abs(place[:, None] - place)
    near = np.exp(-np.minimum(away, int(populations) - away))
    return near, 0.5 * near * (-1.0) ** place, 0.3 + 0.1 * place


model = System(
    "rnn_populations",
    eqs=[
        Eq(C[a](t, tp), E(x[a](t) * x[a](tp))),
        Eq(F[a](t, tp), E(tanh(x[a](t)) * tanh(x[a](tp)))),
        Eq(r[a](t), E(tanh(x[a](t)))),
        Eq(x[a](t).diff(t), -x[a](t) + eta[a](t)),
    ],
    laws={eta[a]: GP(gain**2 * Sum(g[a, b]**2 * F[b](t, tp), b), h[a] + Sum(J[a, b] * r[b](t), b))},
    init={x[a]: x0[a]},
    tables={(g, J, h): ring},
    defaults={K: 4, gain: 1},
    observables={"q": C[a](t, t)},
    cite="kadmon2015transition",
)
