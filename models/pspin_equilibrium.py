"""Equilibrium correlation of the spherical p-spin glass above its dynamical transition.

φ(τ) is the limit of C(t, t − τ) of `pspin` for t → ∞ when T lies above T_d, √(3/8) for p = 3: the memory is a function of
the time difference, and response and correlation are bound by the fluctuation–dissipation theorem.
"""

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
p = param("p", integer=True, domain=(2, None), about="number of spins in a coupling")
T = param("T", positive=True, about="temperature")
phi = function("phi")

model = System(
    "pspin_equilibrium",
    eqs=[Eq(phi(t).diff(t), -T * phi(t) - p / (2 * T) * Int(phi(t - s)**(p - 1) * phi(s).diff(s), (s, 0, t)))],
    init={phi: 1},
    defaults={p: 3, T: 0.7},
    cite="cugliandolo1993analytical",
)
