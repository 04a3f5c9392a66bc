"""A linear Volterra integro-differential equation, solved by e^{−t} sin(2t)/2.

The smallest equation with memory: its Laplace transform is 1/(p² + 2p + 5).
"""

from sympy import exp, sin

from eqsolve import Eq, Int, System, function, times

t, s = times("t s")
y = function("y")

model = System(
    "volterra_linear",
    eqs=[Eq(y(t).diff(t), 1 - 2 * y(t) - 5 * Int(y(s), (s, 0, t)))],
    init={y: 0},
    exact={y: exp(-t) * sin(2 * t) / 2},
)
