"""Langevin dynamics of soft spins with random couplings: the equations of Sompolinsky and Zippelius.

One spin x of a large system x_i' = −x_i − u x_i³ + Σ_j J_ij x_j + ξ_i at temperature T, couplings of variance J²/N, whose
two directions have correlation κ: symmetric couplings for κ = 1, independent ones for κ = 0. The field of the others is
Gaussian with the spins' own correlation, and of symmetric couplings the spin's past acts back on it.
"""

from eqsolve import GP, E, Eq, Int, Resp, System, White, correlation, param, process, random, response, times
from eqsolve.laws import Normal

t, tp, s = times("t t' s")
u = param("u", nonnegative=True, about="strength of the quartic potential")
T = param("T", nonnegative=True, about="temperature")
J = param("J", nonnegative=True, about="standard deviation of the couplings, times √N")
kappa = param("kappa", real=True, about="correlation of J_ij and J_ji")
x, eta, xi = process("x eta xi")
C = correlation("C")
R = response("R")
x0 = random("x0", Normal(0, 1), latex="x_0", about="a spin at the start")

model = System(
    "soft_spin",
    eqs=[
        Eq(C(t, tp), E(x(t) * x(tp))),
        Eq(R(t, tp), E(Resp(x(t), xi(tp)))),
        Eq(x(t).diff(t), -x(t) - u * x(t)**3 + J * eta(t) + kappa * J**2 * Int(R(t, s) * x(s), (s, 0, t)) + xi(t)),
    ],
    laws={eta: GP(C(t, tp)), xi: White(2 * T)},
    init={x: x0},
    defaults={u: 1, T: 0.5, J: 1, kappa: 1},
    observables={"q": C(t, t)},
    cite="sompolinsky1982relaxational",
)
