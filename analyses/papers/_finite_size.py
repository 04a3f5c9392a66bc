"""Systems of finite size, simulated without eqsolve: the points beside the lines of several papers."""

from __future__ import annotations

import numpy as np


def retrieve(N, load, rng):
    """Share of wrong spins where a Hopfield network ends that starts from a stored pattern, spins turned one at a time."""
    patterns = rng.choice([-1.0, 1.0], (round(load * N), N))
    J = patterns.T @ patterns / N
    np.fill_diagonal(J, 0)
    s = patterns[0].copy()
    h = J @ s
    while h[worst := np.argmin(h * s)] * s[worst] < 0:
        s[worst] *= -1
        h += 2 * s[worst] * J[worst]
    return (1 - s @ patterns[0] / N) / 2


def largest_margin(N, load, rng):
    """Largest margin of N couplings on a sphere for random patterns: least distance by Lawson and Hanson."""
    from scipy.optimize import nnls

    patterns = rng.standard_normal((round(load * N), N))
    solution, _ = nnls(np.vstack([patterns.T, np.ones(len(patterns))]), np.eye(N + 1)[-1], maxiter=50 * N)
    w = patterns.T @ solution
    return (patterns @ w / np.linalg.norm(w)).min()


def binary_entropy(N, loads, rng):
    """Logarithm of the number of ±1 solutions per coupling, or 0 where there is none, at several loads: all 2ᴺ counted."""
    w, made = 1 - 2 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1).astype(np.float32), [np.log(2)]
    for _ in range(round(max(loads) * N)):
        w = w[w @ rng.standard_normal(N).astype(np.float32) > 0]
        made.append(np.log(max(len(w), 1)) / N)
    return np.interp(loads, np.arange(len(made)) / N, made)
