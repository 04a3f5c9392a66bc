"""Nonergodicity parameter of the F12 model of mode coupling: where `mct_f12` stays in the glass.

The largest solution of f/(1 − f) = v1 f + v2 f². Apart from f = 0 it is quadratic in 1/(1 − f); D, the root of its
discriminant, is positive at the largest solution and vanishes at the transition with v2 > 1, as f − f_c does.
"""

from sympy import Max, Min, sqrt

from eqsolve import Eq, FixedPoint, param, unknown

v1 = param("v1", nonnegative=True, about="linear coupling in the memory kernel")
v2 = param("v2", nonnegative=True, about="quadratic coupling in the memory kernel")
f = unknown("f", domain=(0, 1))
D = unknown("D", positive=True)

model = FixedPoint(
    "mct_f12_plateau",
    eqs=[
        Eq(D**2, (v1 + v2)**2 - 4 * v2),
        Eq(1 / (1 - f), (v1 + v2 + D) / 2),
    ],
    defaults={v1: 1, v2: 1.5},
    conditions=[Max(v1 - 1, Min(v2 - 1, (v1 + v2)**2 - 4 * v2)) > 0],
    exact={f: (v2 - v1 + sqrt((v1 + v2)**2 - 4 * v2)) / (2 * v2)},
    observables={"memory": v1 * f + v2 * f**2},
    cite="gotze2009complex",
)
