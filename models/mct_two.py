"""Mode-coupling theory with two correlators and inertia.

φ_i'' + ν φ_i' + Ω_i² (φ_i + ∫ m_i(φ(t − s)) φ_i'(s) ds) = 0 with m_i = Σ V_ijk φ_j φ_k, the second derivatives written
through the velocities u_i = φ_i'. Short times oscillate, long ones relax through the plateaus of both correlators.
"""

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
nu = param("nu", nonnegative=True, about="friction")
Omega_1 = param("Omega_1", positive=True, about="frequency of the first correlator")
Omega_2 = param("Omega_2", positive=True, about="frequency of the second correlator")
V_111, V_112, V_122, V_211, V_212, V_222 = param(
    "V_111 V_112 V_122 V_211 V_212 V_222", nonnegative=True, about="coupling V_ijk of φ_j φ_k in the kernel of φ_i"
)
phi_1, phi_2, u_1, u_2, m_1, m_2 = function("phi_1 phi_2 u_1 u_2 m_1 m_2")

model = System(
    "mct_two",
    eqs=[
        Eq(m_1(t), V_111 * phi_1(t)**2 + V_112 * phi_1(t) * phi_2(t) + V_122 * phi_2(t)**2),
        Eq(m_2(t), V_211 * phi_1(t)**2 + V_212 * phi_1(t) * phi_2(t) + V_222 * phi_2(t)**2),
        Eq(phi_1(t).diff(t), u_1(t)),
        Eq(phi_2(t).diff(t), u_2(t)),
        Eq(u_1(t).diff(t), -nu * u_1(t) - Omega_1**2 * (phi_1(t) + Int(m_1(t - s) * u_1(s), (s, 0, t)))),
        Eq(u_2(t).diff(t), -nu * u_2(t) - Omega_2**2 * (phi_2(t) + Int(m_2(t - s) * u_2(s), (s, 0, t)))),
    ],
    init={phi_1: 1, phi_2: 1, u_1: 0, u_2: 0},
    defaults={nu: 1, Omega_1: 1, Omega_2: 2, V_111: 3.5, V_112: 0, V_122: 0, V_211: 0, V_212: 8, V_222: 0},
    cite="gotze2009complex",
)
