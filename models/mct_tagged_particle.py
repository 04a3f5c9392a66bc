"""A tagged particle in a liquid of hard spheres by mode coupling: correlators and mean-squared displacement.

Beside the collective correlators of `mct_hard_spheres`: those of one particle, φ^s_k, and the mean-squared displacement δ(t),
with the kernel of vanishing wave number, ``friction``. At late times δ = 6 D t with D = 1/(1 + ∫ friction), in units of the
short-time diffusion.
"""

import numpy as np

from eqsolve import Eq, Int, Sum, function, load, table, times

liquid = load("mct_hard_spheres")
t, s = times("t s")
((Omega, V),) = liquid.tables
k, p, q = V.axes
phi = function("phi", k)
phi_s, m_s = function("phi_s m_s", k)
msd, friction = function("msd friction")
Omega_s, V_s, V_0 = table("Omega_s", k), table("V_s", k, p, q), table("V_0", k)
(structure,) = liquid.tables.values()
STEP = 0.4  # between wave numbers, as in the liquid


def tagged(eta, wave_numbers):
    """Return the frequencies q², the vertices of the tagged particle's kernel, and those at vanishing wave number."""
    half = np.arange(int(wave_numbers)) + 0.5
    density = 6 * eta / np.pi
    S = (STEP * half) ** 2 / structure.arrays({"eta": eta, "wave_numbers": wave_numbers})["Omega"]
    c = (1 - 1 / S) / density
    q, k, p = half[:, None, None], half[None, :, None], half[None, None, :]
    inside = (np.abs(q - k) + 0.5 <= p) & (p <= q + k - 0.5)
    weight = density * STEP**3 / (16 * np.pi**2) * k * p / q**5 * (S * c**2)[None, :, None]
    at_zero = density * STEP**5 / (6 * np.pi**2) * half**4 * S * c**2
    return (STEP * half) ** 2, np.where(inside, weight * (q**2 + k**2 - p**2) ** 2, 0.0), at_zero


model = liquid.replace(
    "mct_tagged_particle",
    eqs=[
        Eq(phi_s[k](t).diff(t), -Omega_s[k] * (phi_s[k](t) + Int(m_s[k](t - s) * phi_s[k](s).diff(s), (s, 0, t)))),
        Eq(m_s[k](t), Sum(V_s[k, p, q] * phi[p](t) * phi_s[q](t), p, q)),
        Eq(msd(t), 6 * t - Int(friction(t - s) * msd(s), (s, 0, t))),
        Eq(friction(t), Sum(V_0[k] * phi[k](t) * phi_s[k](t), k)),
    ],
    init={phi_s[k]: 1},
    tables={(Omega_s, V_s, V_0): tagged},
    cite="fuchs1998asymptotic",
)
