"""Exponential integrals of the Marchenko-Pastur bulk for every t >= 0, from sums of positive terms.

Notation: ``c = 1/delta``, ``r = sqrt(c)``, ``x(phi) = lambda_- + 4 r sin^2(phi/2)``,
``dmu = (2/pi) sin^2(phi)/x dphi`` on ``[0, pi]``, ``tau = 4 r t``.
"""

from __future__ import annotations

import math

import numpy as np

from eqsolve.spectra._arguments import Floats

_CHUNK = 2**20  # entries of the largest temporary array


def scaled_laplace(t: Floats, k: int, delta: float, lambda_minus: float) -> Floats:
    """Return ``e^{lambda_- t} int x^k e^{-x t} dmu`` over the bulk, for a flat array of t.

    Notes
    -----
    The trapezoidal rule with M points for the periodic ``(1/pi) sin^2(phi) x^{k-1} e^{-tau sin^2(phi/2)}``.
    Moving the contour up by b, its error is ``exp(-(M b - tau sinh^2(b/2)))``, least at
    ``sinh(b) = 2 M / tau``; ``M ~ 6.5 sqrt(tau)`` makes it smaller than rounding, and only O(10) of the M
    nodes carry weight. For k = 0 the contour passes the pole x = 0 at ``phi = i a``, ``a = |log(delta)|/2``,
    which may be arbitrarily close to the real axis; its residue adds
    ``|delta - 1| e^{lambda_- t} / (e^{M a} - 1)``, positive like every other term (its limit 2/M at delta = 1
    is the node phi = 0).
    """
    result = np.empty_like(t)
    rows = _CHUNK // (64 + 2 * k)
    for start in range(0, t.size, rows):
        block = slice(start, start + rows)
        result[block] = _trapezoid(t[block], k, delta, lambda_minus)
    return result


def _trapezoid(t: Floats, k: int, delta: float, lambda_minus: float) -> Floats:
    spread = 4.0 / math.sqrt(delta)
    tau = spread * t
    # x^{k-1} with k >= 2 grows along the shifted contour, which costs sqrt(2) more nodes
    points = np.ceil((6.5 if k < 2 else 9.2) * np.sqrt(tau)) + 14 + 2 * k
    exponent_cut = 46.0 + 10.0 * math.sqrt(max(k - 1, 0)) + 2.0 * max(k - 1, 0)
    reach = np.arcsin(np.sqrt(np.minimum(1.0, exponent_cut / np.maximum(tau, exponent_cut))))
    last = np.minimum(np.ceil(points / 2) - 1, np.ceil(reach * points / np.pi))
    index = np.arange(1.0, float(np.max(last, initial=0.0)) + 1.0)
    square = np.sin(np.pi * index / points[:, None]) ** 2
    x = lambda_minus + spread * square
    terms = 4.0 * square * (1.0 - square) * x ** (k - 1) * np.exp(-tau[:, None] * square)
    total: Floats = np.sum(np.where(index <= last[:, None], terms, 0.0), axis=1) * (4.0 / points)
    if k == 0:
        total += _pole_term(tau, points, delta)
    return total


def _pole_term(tau: Floats, points: Floats, delta: float) -> Floats:
    """Return ``|delta - 1| e^{lambda_- t} / (e^{M a} - 1)`` where the contour passes the pole, else 0."""
    if delta == 1.0:
        return 2.0 / points
    height = 0.5 * abs(math.log1p(delta - 1.0) if 0.5 < delta < 2.0 else math.log(delta))
    passed = math.sinh(height) * tau <= 2.0 * points
    decay = np.where(passed, points * height, 1.0)
    growth = np.where(passed, tau * math.sinh(0.5 * height) ** 2, 0.0)
    return np.where(passed, abs(delta - 1.0) * np.exp(growth - decay) / -np.expm1(-decay), 0.0)


def logarithmic_rule(t_max: float, delta: float, edges: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return nodes x and weights of the bulk that resolve every scale down to ``1/t_max`` or ``lambda_-``.

    Notes
    -----
    The trapezoidal rule in ``u = log tan(phi/2)``, where with ``T = e^u``
    ``dmu = (16/pi) T^3 / ((1 + T^2)^2 (lambda_- + lambda_+ T^2)) du``. The poles of ``1/x`` are at
    ``Im u = pi/2`` for every delta, and ``e^{-x t}`` is bounded up to ``Im u = pi/4``, so the step 1/8 leaves
    ``exp(-4 pi^2) = 7e-18``. To the left, what `integrated` sums decays like T, like T^3 once x ~ lambda_-.
    """
    lower, upper = edges
    left = -0.5 * math.log(max(1.0, 4.0 / math.sqrt(delta) * t_max)) - 38.0
    if lower > 0.0:
        left = max(left, 0.5 * math.log(lower / upper) - 14.0)
    step = 0.125
    square = np.exp(2.0 * np.arange(left, 14.0, step))
    scaled = lower + upper * square
    return scaled / (1.0 + square), (16.0 / np.pi) * step * square**1.5 / ((1.0 + square) ** 2 * scaled)


def integrated(t: Floats, x: Floats, weights: Floats) -> Floats:
    """Return ``sum_i w_i (1 - e^{-x_i t}) / x_i`` for a flat array of t."""
    result = np.empty_like(t)
    rows = max(1, _CHUNK // x.size)
    for start in range(0, t.size, rows):
        result[start : start + rows] = -np.expm1(-np.outer(t[start : start + rows], x)) @ (weights / x)
    return result


def integrated_pair(t: Floats, other: Floats, x: Floats, weights: Floats) -> Floats:
    """Return ``sum_i w_i (1 - e^{-x_i t}) (1 - e^{-x_i t'}) / x_i`` for flat arrays of equal length."""
    first, first_at = np.unique(t, return_inverse=True)
    second, second_at = np.unique(other, return_inverse=True)
    if first.size * second.size <= 4 * t.size:  # a grid of pairs: one matrix product
        left = np.expm1(-np.outer(first, x)) * (weights / x)
        table: Floats = left @ np.expm1(-np.outer(second, x)).T
        return table[first_at, second_at]
    result = np.empty_like(t)
    rows = max(1, _CHUNK // x.size)
    for start in range(0, t.size, rows):
        block = slice(start, start + rows)
        product = np.expm1(-np.outer(t[block], x)) * np.expm1(-np.outer(other[block], x))
        result[block] = product @ (weights / x)
    return result
