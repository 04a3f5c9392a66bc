"""The spherical p-spin equations on a dense uniform grid: trapezoid rule and Richardson extrapolation.

Shares nothing with eqsolve. Second order on one grid; each halving of the step removes one even power of it. Cost n³.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

Array = np.ndarray


def trapezoid(p: int, temperature: float, t_max: float, n: int, tolerance: float = 1e-9) -> Array:
    """C(t_i, t_j) for j ≤ i on n steps; each step is iterated to the tolerance from a second-order prediction."""
    h = t_max / n
    C, R = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    C[0, 0] = R[0, 0] = 1.0

    def slopes(i: int) -> tuple[Array, Array]:
        """∂_t C and ∂_t R on row i; the ends of every integral count half."""
        c, r, full, low = C[i, : i + 1], R[i, : i + 1], C[: i + 1, : i + 1], R[: i + 1, : i + 1]
        memory, vertex = c ** (p - 2) * r, c ** (p - 1)
        whole = np.full(i + 1, h if i else 0.0)
        whole[[0, -1]] /= 2
        mu = temperature + p**2 / 2 * (vertex * r) @ whole
        diagonal = low.diagonal()
        response = h * (memory @ low) - h / 2 * (memory * diagonal + memory[-1] * r)
        noise = h * (low @ vertex) - h / 2 * (diagonal * vertex + low[:, 0] * vertex[0])
        strength = p * (p - 1) / 2
        return strength * ((memory * whole) @ full) + p / 2 * noise - mu * c, strength * response - mu * r

    old = new = slopes(0)
    for i in range(n):
        trend = [f - np.append(g, f[len(g) :]) for f, g in zip(new, old, strict=True)]
        guess = [row[i, : i + 1] + h * (f + d / 2) for row, f, d in zip((C, R), new, trend, strict=True)]
        for _ in range(50):
            C[i + 1, : i + 1], R[i + 1, : i + 1] = guess
            C[i + 1, i + 1] = R[i + 1, i + 1] = 1.0
            C[: i + 1, i + 1] = guess[0]
            later = slopes(i + 1)
            better = [row[i, : i + 1] + h / 2 * (f + g[:-1]) for row, f, g in zip((C, R), new, later, strict=True)]
            change = max(np.abs(a - b).max() for a, b in zip(better, guess, strict=True))
            guess = better
            if change < tolerance:
                break
        old, new = new, later
    return C


def richardson(p: int, temperature: float, t_max: float, n: int, levels: int = 2, samples: int = 20) -> tuple[Array, Array]:
    """C(t, 0) and C(t, t/2) at t = t_max (1..samples)/samples, extrapolated from n, 2n, ... steps."""
    assert n % (2 * samples) == 0
    tables = []
    for level in range(levels):
        steps = n * 2**level
        C, rows = trapezoid(p, temperature, t_max, steps), steps * np.arange(1, samples + 1) // samples
        tables.append(np.stack([C[rows, 0], C[rows, rows // 2]]))
    for level in range(1, levels):
        tables = [(4**level * b - a) / (4**level - 1) for a, b in pairwise(tables)]
    return tables[0][0], tables[0][1]
