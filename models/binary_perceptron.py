"""A perceptron with couplings ±1 that stores random patterns: the replica-symmetric entropy of its solutions.

q is the overlap of two solutions, q̂ its conjugate (Krauth and Mézard). ``entropy`` is the logarithm of the number
of solutions per coupling. It vanishes at the capacity 0.833, where q is still below 1: solutions are isolated.
"""

from sympy import cosh, erfc, exp, log, pi, sqrt, tanh

from eqsolve import E, Eq, FixedPoint, normal, param, unknown

alpha = param("alpha", positive=True, about="load: patterns per coupling")
kappa = param("kappa", about="margin: the least stability of a pattern")
q = unknown("q", domain=(0, 1))
q_hat = unknown("q_hat", positive=True, latex=r"\hat q")
z = normal("z", about="the field of a pattern, in units of its deviation")

lack = (kappa + sqrt(q) * z) / sqrt(1 - q)
pull = sqrt(2 / pi) * exp(-(lack**2) / 2) / erfc(lack / sqrt(2))
coupling = sqrt(q_hat) * z

model = FixedPoint(
    "binary_perceptron",
    eqs=[
        Eq(q, E(tanh(coupling)**2)),
        Eq(q_hat, alpha / (1 - q) * E(pull**2)),
    ],
    defaults={alpha: 0.5, kappa: 0},
    observables={"entropy": -q_hat * (1 - q) / 2 + E(log(2 * cosh(coupling))) + alpha * E(log(erfc(lack / sqrt(2)) / 2))},
    cite="krauth1989storage",
)
