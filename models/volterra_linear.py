"""A linear Volterra integro-differential equation with the solution e^{−t} sin(2t)/2: the smallest memory equation.

Its Laplace transform is 1/(p² + 2p + 5).
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
