"""The Stieltjes transform of the Marchenko-Pastur law and its inverse, free of cancellation.

With ``c = 1/delta``, ``s(z) = int dmu / (x - z)`` solves ``c z s^2 + (z + c - 1) s + 1 = 0``. With
``w(z) = sqrt(z - lambda_-) sqrt(z - lambda_+)`` (principal roots: w ~ z at infinity, cut on the support),

    s = (1 - c - z + w) / (2 c z) = 2 / (1 - c - z - w),
    1 + c s = (z + 1 - c + w) / (2 z) = 2 / (z + 1 - c - w);

of each pair the form that adds terms of equal sign is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsolve.spectra._arguments import Complexes, Floats, SpectrumError

_EDGE_TOLERANCE = 32 * np.finfo(np.float64).eps


def stieltjes(z: Complexes, derivative: int, delta: float, edges: tuple[float, float]) -> Complexes:
    """Return the transform (or its first or second derivative) at z.

    Notes
    -----
    ``s' = -s (1 + c s) / w`` and ``s'' = -(s'/w) (1 + 2 c s + (z - 1 - c)/w)``.
    """
    ratio, gap = 1.0 / delta, (delta - 1.0) / delta
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(z - edges[0]) * np.sqrt(z - edges[1])
        s = _larger_sum(gap - z, root, 2.0 * ratio * z)
        if derivative >= 1:
            companion = _larger_sum(z + gap, root, 2.0 * z)
            slope = -s * companion / root
        if derivative == 2:
            result = -(slope / root) * (companion + ratio * s + (z - 1.0 - ratio) / root)
        else:
            result = slope if derivative == 1 else s
    if derivative >= 1:  # one-sided limits from outside the support
        result = np.where(z == edges[0], np.inf, result)
        result = np.where(z == edges[1], np.inf if derivative == 1 else -np.inf, result)
    if delta <= 1.0:
        result = np.where(z == 0.0, np.inf, result)
    return np.asarray(result + 0.0, dtype=np.complex128)  # + 0.0: no negative zeros


def _larger_sum(a: Complexes, root: Complexes, denominator: Complexes) -> Complexes:
    """Return ``(a + root)/denominator = 2/(a - root)`` from whichever sum does not cancel."""
    plus, minus = a + root, a - root
    return np.where(np.abs(plus) > np.abs(minus), plus / denominator, 2.0 / minus)


def stieltjes_edges(delta: float) -> tuple[float, float]:
    """Return ``s(lambda_-) = delta/(sqrt(delta) - 1)``, inf at delta = 1, and ``s(lambda_+)``."""
    one_plus_root = 1.0 + float(np.sqrt(delta))
    lower = np.inf if delta == 1.0 else delta * one_plus_root / (delta - 1.0)
    return lower, -delta / one_plus_root


def inverse_stieltjes(s: NDArray[Any], delta: float) -> NDArray[Any]:
    """Return ``z = -1/s + 1/(1 + c s)``, real for real s, checking that s is a value of the transform."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z: NDArray[Any] = ((delta - 1.0) / delta - 1.0 / s) / (1.0 + s / delta)
        if s.dtype.kind == "c":
            z, reached = _check_complex(s, z, delta)
        else:
            reached = _is_real_value(s, delta)
    if not np.all(reached):
        raise SpectrumError(
            f"`s` is not a value of the Stieltjes transform for delta = {delta:g}: "
            f"got {s[~reached][0]}, expected {_describe(delta)}"
        )
    return z


def _is_real_value(s: Floats, delta: float) -> NDArray[np.bool_]:
    lower, upper = stieltjes_edges(delta)
    right_of_support = (s < 0.0) & (s >= upper * (1.0 + _EDGE_TOLERANCE))
    if delta < 1.0:
        left_of_support = (s > 0.0) | (s <= lower * (1.0 - _EDGE_TOLERANCE))
    else:
        left_of_support = (s > 0.0) & (s <= lower * (1.0 + _EDGE_TOLERANCE))
    return (right_of_support | left_of_support) & np.isfinite(s)


def _check_complex(s: Complexes, z: Complexes, delta: float) -> tuple[Complexes, NDArray[np.bool_]]:
    """Return z without rounding errors of Im z across the support, and where s is a value of the transform.

    It is one if and only if Im z and Im s have the same sign: the imaginary part of the other root of the
    quadratic is opposite to that of z everywhere.
    """
    sign = np.sign(s.imag)
    rounding = _EDGE_TOLERANCE * (1.0 / np.abs(s) + 1.0 / np.abs(1.0 + s / delta))
    height = z.imag * sign
    reached = np.where(sign == 0.0, _is_real_value(s.real, delta), height >= -rounding)
    return z.real + 1j * (sign * np.maximum(height, 0.0)), reached


def _describe(delta: float) -> str:
    lower, upper = stieltjes_edges(delta)
    if delta < 1.0:
        real = f"s <= {lower:.6g}, {upper:.6g} <= s < 0 or s > 0"
    else:
        real = f"{upper:.6g} <= s < 0 or 0 < s" + (f" <= {lower:.6g}" if delta > 1.0 else "")
    return f"real {real}, or complex s with |1 + s/delta| >= |s|/sqrt(delta)"
