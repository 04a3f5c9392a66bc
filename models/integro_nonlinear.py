"""A nonlinear Volterra integro-differential equation, solved by a/(1 + at).

Decay that its own past slows down. The integral of y² is a − a/(1 + at) = a − y, so that y' = −y² along the
solution.
"""

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
a = param("a", positive=True, about="value at the start")
y = function("y")

model = System(
    "integro_nonlinear",
    eqs=[Eq(y(t).diff(t), -y(t) * (a - Int(y(s)**2, (s, 0, t))))],
    init={y: a},
    defaults={a: 1},
    exact={y: a / (1 + a * t)},
)
