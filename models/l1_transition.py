"""The largest sparsity at which ℓ1 minimisation finds a signal from few measurements without noise.

A step of soft thresholding, at z standard deviations of a noise that is small, multiplies its variance by M(ε, z)/δ, where
a fraction ε = ρδ of the signal is not zero (Donoho, Maleki and Montanari). The transition ρ is where the best threshold z just
fails to make it shrink: M = δ and ∂M/∂z = 0.
"""

from sympy import Abs, Max

from eqsolve import E, Eq, FixedPoint, normal, param, unknown

delta = param("delta", domain=(0, 1), about="measurements per dimension, n/N")
rho = unknown("rho", domain=(0, 1))
z = unknown("z", positive=True)
G = normal("G")

left = Max(0, Abs(G) - z)  # what is left of the noise where the signal is zero
share = rho * delta

model = FixedPoint(
    "l1_transition",
    eqs=[
        Eq(delta, share * (1 + z**2) + (1 - share) * E(left**2)),
        Eq(z, (1 / share - 1) * E(left)),
    ],
    defaults={delta: 0.5},
    cite="donoho2009message",
)
