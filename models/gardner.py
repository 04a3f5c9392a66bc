"""The space of couplings of a spherical perceptron that stores random patterns with a margin.

αN patterns with random labels, each to be stored with a stability of at least κ by N couplings on a sphere (Gardner). q is the
overlap of two solutions; it tends to 1 at the capacity α_c(κ) = 1/E[(z + κ)₊²], which is 2 without a margin.
"""

from sympy import Max, erfc, exp, pi, sqrt

from eqsolve import E, Eq, FixedPoint, normal, param, unknown

alpha = param("alpha", positive=True, about="load: patterns per coupling")
kappa = param("kappa", about="margin: the least stability of a pattern")
q = unknown("q", domain=(0, 1))
z = normal("z", about="the field of a pattern, in units of its deviation")

lack = (kappa + sqrt(q) * z) / sqrt(1 - q)
pull = sqrt(2 / pi) * exp(-(lack**2) / 2) / erfc(lack / sqrt(2))  # −d log H/dx, H(x) the Gaussian tail beyond x

model = FixedPoint(
    "gardner",
    eqs=[Eq(q, alpha * (1 - q) * E(pull**2))],
    defaults={alpha: 1, kappa: 0},
    observables={"capacity": 1 / E(Max(0, z + kappa)**2)},
    cite="gardner1988space",
)
