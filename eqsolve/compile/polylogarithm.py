"""Polylogarithms of real arrays up to 1, by series and a Fermi–Dirac integral, to rounding.

Li_s(z) = Σ zᵏ/kˢ for small z; close to 1, with μ = log z, Li_s(e^μ) = Γ(1−s)(−μ)^{s−1} + Σ ζ(s−k) μᵏ/k!, the singular
term and one of the others joining to μ^{s−1}(H_{s−1} − log(−μ))/(s−1)! at whole s; below −1/2, for s > 0, the integral
of t^{s−1}/(e^{t−μ} + 1) by the trapezoidal rule in x, t = exp(x − e^{−x}).
References: Lewin, Polylogarithms and Associated Functions (1981), 7; Press et al., Numerical Recipes (2007), 6.10 (the rule).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["polylogarithm"]

Array = np.ndarray[Any, np.dtype[np.float64]]

_TERMS = 60
_CLOSE = 1e-2  # to a whole order, at which the series close to 1 cancels
_LARGEST_ORDER = 20.0
_FARTHEST = 30.0  # log(−z) up to which the integral is known to rounding


def polylogarithm(order: Array, argument: Array) -> Array:
    """Return Li_s(z) where it is real and one of the formulas holds, else nan."""
    shape = np.broadcast_shapes(np.shape(order), np.shape(argument))
    values = np.full(shape, np.nan)
    orders, z = np.broadcast_to(order, shape), np.broadcast_to(np.asarray(argument, dtype=float), shape)
    for s in np.unique(order):
        if not abs(s) <= _LARGEST_ORDER:
            continue
        mine = orders == s
        negative = (z < -0.5) & (z > -np.exp(_FARTHEST))
        ranges = ((np.abs(z) <= 0.5, _small), ((z > 0.5) & (z <= 1), _close), (negative, _negative))
        for part, formula in ((mine & where, formula) for where, formula in ranges):
            if part.any():
                values[part] = formula(float(s), z[part])
    return values


def _small(s: float, z: Array) -> Array:
    k = np.arange(1, _TERMS + 1)
    return np.asarray(np.polynomial.polynomial.polyval(z, np.concatenate([[0.0], k ** (-s)])))


def _close(s: float, z: Array) -> Array:
    from scipy.special import factorial, gamma, psi, zeta

    mu, k, whole = np.log(z), np.arange(_TERMS // 2), round(s)
    if s != whole and abs(s - whole) < _CLOSE:
        return np.full(z.shape, np.nan)
    weights = np.array([0.0 if s - place == 1 else zeta(s - place) for place in k]) / factorial(k)
    regular = np.polynomial.polynomial.polyval(mu, weights)
    if s != whole or whole <= 0:
        return np.asarray(gamma(1 - s) * (-mu) ** (s - 1) + regular)
    logarithm = np.log(-mu)
    singular = mu ** (whole - 1) / factorial(whole - 1) * (psi(whole) + np.euler_gamma - logarithm)
    return np.asarray(np.where(mu == 0, np.inf if whole == 1 else regular, singular + regular))


def _negative(s: float, z: Array) -> Array:
    from scipy.special import gamma

    if s <= 0:
        return np.full(z.shape, np.nan)
    mu = np.log(-z)[:, None]
    step = 1 / 64
    x = np.arange(-4.5, 9.0, step)
    t = np.exp(x - np.exp(-x))
    weight = t ** (s - 1) * t * (1 + np.exp(-x)) * step
    return np.asarray(-np.sum(weight / (np.exp(np.minimum(t - mu, 700.0)) + 1), axis=1) / gamma(s))
