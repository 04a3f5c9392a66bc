"""Spherical p-spin glass after a quench from infinite temperature (the Cugliandolo–Kurchan equations).

Langevin dynamics at temperature T of N spins on a sphere with random p-body couplings of variance
p!/(2N^{p−1}), as N → ∞. The multiplier μ keeps C(t, t) = 1; the energy is per spin.
"""

from eqsolve import Eq, Int, System, correlation, function, param, response, times

t, tp, s = times("t t' s")
p = param("p", integer=True, domain=(2, None), about="number of spins in a coupling")
T = param("T", nonnegative=True, about="temperature")
mu = function("mu")
C = correlation("C")
R = response("R")

model = System(
    "pspin",
    eqs=[
        Eq(mu(t), T + p**2 / 2 * Int(C(t, s)**(p - 1) * R(t, s), (s, 0, t))),
        Eq(R(t, tp).diff(t), -mu(t) * R(t, tp)
           + p * (p - 1) / 2 * Int(C(t, s)**(p - 2) * R(t, s) * R(s, tp), (s, tp, t))),
        Eq(C(t, tp).diff(t), -mu(t) * C(t, tp)
           + p * (p - 1) / 2 * Int(C(t, s)**(p - 2) * R(t, s) * C(s, tp), (s, 0, t))
           + p / 2 * Int(C(t, s)**(p - 1) * R(tp, s), (s, 0, tp))),
    ],
    init={C(t, t): 1, R(t, t): 1},
    defaults={p: 3, T: 0.5},
    observables={"energy": -p / 2 * Int(C(t, s)**(p - 1) * R(t, s), (s, 0, t))},
    cite="cugliandolo1993analytical",
)
