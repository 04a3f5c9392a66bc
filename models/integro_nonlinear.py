"""A nonlinear Volterra integro-differential equation with the solution a/(1 + at): decay slowed down by its own past.

The integral of y² is a − a/(1 + at) = a − y, so that the equation reduces to y' = −y² on its solution.
"""

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
a = param("a", positive=True)
y = function("y")

model = System(
    "integro_nonlinear",
    eqs=[Eq(y(t).diff(t), -y(t) * (a - Int(y(s)**2, (s, 0, t))))],
    init={y: a},
    defaults={a: 1},
    exact={y: a / (1 + a * t)},
)
