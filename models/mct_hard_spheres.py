"""Mode-coupling theory of hard spheres: density correlators of a hundred coupled wave numbers.

Brownian dynamics with diameter 1 and short-time diffusion 1, the Percus–Yevick structure factor, wave numbers 0.4 (k + 1/2).
At the packing fraction 0.5159 the liquid becomes a glass: the correlators stay at the plateaus of `mct_hard_spheres_plateau`.
"""

import numpy as np

from eqsolve import Eq, Int, Sum, System, function, index, param, table, times

STEP = 0.4  # between wave numbers


def direct_correlation(q, eta):
    """Return the Percus–Yevick direct correlation function c(q) of hard spheres of diameter 1 (Wertheim 1963)."""
    a = (1 + 2 * eta) ** 2 / (1 - eta) ** 4
    b = -6 * eta * (1 + eta / 2) ** 2 / (1 - eta) ** 4
    c = eta * a / 2
    s, co = np.sin(q), np.cos(q)
    first = a * (s - q * co) / q**3
    second = b * (2 * q * s - (q**2 - 2) * co - 2) / q**4
    third = c * (-(q**4) * co + 4 * ((3 * q**2 - 6) * co + (q**3 - 6 * q) * s + 6)) / q**6
    return -4 * np.pi * (first + second + third)


def hard_spheres(eta, wave_numbers):
    """Return the frequencies q²/S(q) and the vertices V[q, k, p] of the memory kernel."""
    half = np.arange(int(wave_numbers)) + 0.5
    density = 6 * eta / np.pi
    c = direct_correlation(STEP * half, eta)
    S = 1 / (1 - density * c)
    q, k, p = half[:, None, None], half[None, :, None], half[None, None, :]
    inside = (np.abs(q - k) + 0.5 <= p) & (p <= q + k - 0.5)
    flow = (q**2 + k**2 - p**2) * c[None, :, None] + (q**2 + p**2 - k**2) * c[None, None, :]
    weight = S[:, None, None] * S[None, :, None] * S[None, None, :] * k * p / q**5
    vertices = density * STEP**3 / (32 * np.pi**2) * weight * flow**2
    return (STEP * half) ** 2 / S, np.where(inside, vertices, 0.0)


t, s = times("t s")
eta = param("eta", domain=(0, 0.7), positive=True, about="packing fraction")
N = param("wave_numbers", integer=True, positive=True, about="number of wave numbers")
k, p, q = index("k p q", N)
Omega, V = table("Omega", k), table("V", k, p, q)
phi, m = function("phi", k), function("m", k)

model = System(
    "mct_hard_spheres",
    eqs=[
        Eq(phi[k](t).diff(t), -Omega[k] * (phi[k](t) + Int(m[k](t - s) * phi[k](s).diff(s), (s, 0, t)))),
        Eq(m[k](t), Sum(V[k, p, q] * phi[p](t) * phi[q](t), p, q)),
    ],
    init={phi[k]: 1},
    tables={(Omega, V): hard_spheres},
    defaults={eta: 0.515, N: 100},
    cite="franosch1997asymptotic",
)
