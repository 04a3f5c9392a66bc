"""Retrieval in the Hopfield model at zero temperature: the overlap with a stored pattern against the load.

N spins store αN random patterns by Hebb's rule (Amit, Gutfreund and Sompolinsky). m is the overlap with one of them, r the
strength of the noise that all the others make, C the susceptibility. Retrieval, m > 0, ends at α = 0.138 by a jump.
"""

from sympy import erf, exp, pi, sqrt

from eqsolve import Eq, FixedPoint, param, unknown

alpha = param("alpha", positive=True, about="load: stored patterns per spin")
m = unknown("m", domain=(0, 1))
r = unknown("r", positive=True)
C = unknown("C", domain=(0, 1))

model = FixedPoint(
    "hopfield",
    eqs=[
        Eq(m, erf(m / sqrt(2 * alpha * r))),
        Eq(r, 1 / (1 - C)**2),
        Eq(C, sqrt(2 / (pi * alpha * r)) * exp(-(m**2) / (2 * alpha * r))),
    ],
    defaults={alpha: 0.1},
    observables={"errors": (1 - m) / 2},
    cite="amit1985storing",
)
