"""ζ'(s) of real arrays, to rounding: Euler and Maclaurin's sum from −1/2 on, the functional equation below.

Reference: Edwards, Riemann's Zeta Function (1974), 6.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["zeta_slope"]

Array = np.ndarray[Any, np.dtype[np.float64]]

_TERMS, _CORRECTIONS = 24, 14
_TINY = 1e-40  # imaginary step: the derivative of an analytic formula without a difference


def zeta_slope(s: Array) -> Array:
    """Return the derivative of Riemann's ζ; nan at its pole."""
    from scipy.special import gamma, psi, zeta

    s = np.asarray(s, dtype=float)
    direct = s >= -0.5  # closer to 0 the terms of the functional equation cancel
    right = np.where(direct, s, 1 - s)
    here = np.imag(_sum(right + 1j * _TINY)) / _TINY
    here = np.where(right == 1, np.nan, here)
    sine, cosine = np.sin(np.pi * s / 2), np.cos(np.pi * s / 2)
    with np.errstate(all="ignore"):  # also computed where it is not used
        factor = 2**s * np.pi ** (s - 1) * gamma(right)
        bracket = (np.log(2 * np.pi) - psi(right)) * sine + np.pi / 2 * cosine
        below = factor * (zeta(right) * bracket - sine * here)
    return np.asarray(np.where(direct, here, below))


def _sum(s: Any) -> Any:
    """Return ζ(s) = Σ_{n<N} n^{−s} + N^{1−s}/(s−1) + N^{−s}/2 + Σ_k B_{2k}/(2k)! s(s+1)…(s+2k−2) N^{1−s−2k}."""
    from scipy.special import bernoulli, factorial

    numbers = bernoulli(2 * _CORRECTIONS)
    last = np.exp(-s * np.log(_TERMS))
    total = sum((np.exp(-s * np.log(n)) for n in range(1, _TERMS)), last * (_TERMS / (s - 1) + 0.5))
    product = s
    for k in range(1, _CORRECTIONS + 1):
        total = total + numbers[2 * k] / factorial(2 * k) * product * last * float(_TERMS) ** (1 - 2 * k)
        product = product * (s + 2 * k - 1) * (s + 2 * k)
    return total
