"""Masses of the two ends of the Marchenko-Pastur bulk, each with full relative accuracy.

With ``x = lambda_- + (lambda_+ - lambda_-) sin^2(phi/2)`` and ``rho = min(sqrt(delta), 1/sqrt(delta))`` the
bulk, normalised to mass one, is ``(2/pi) sin^2(phi) / (1 + rho^2 - 2 rho cos(phi)) dphi`` on ``[0, pi]``.
Reflecting ``phi -> pi - phi`` is ``rho -> -rho``, so one function of a signed ``rho`` serves both ends.
"""

from __future__ import annotations

import numpy as np

from eqsolve.spectra._arguments import Floats

# Below this |rho| the closed form loses a factor 1/rho^2 while 16 Gauss-Legendre nodes are exact to rounding:
# the nearest pole, at phi = i log(1/rho), then lies outside the Bernstein ellipse of parameter 3.7.
_SMALL_RHO = 0.3
_LEGENDRE_NODES = 16
_SERIES_RADIUS = 0.4
_SERIES_TERMS = 21


def split_mass(below: Floats, above: Floats, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Return the fractions of the bulk on the left and on the right of points.

    Parameters
    ----------
    below, above
        Distances ``x - lambda_-`` and ``lambda_+ - x`` of the points to the edges, both >= 0.
    rho, one_minus_rho
        ``min(sqrt(delta), 1/sqrt(delta))`` and one minus it, the latter free of cancellation.

    Returns
    -------
    left, right
        They sum to one; the smaller of the two is computed, the other is its complement.
    """
    near_lower = below <= above
    # tan(phi/2), or its inverse in the upper half, so that it never exceeds one
    tangent = np.sqrt(np.where(near_lower, below, above) / np.where(near_lower, above, below))
    left, right = np.empty_like(below), np.empty_like(below)
    left[near_lower] = _end_mass(tangent[near_lower], rho, one_minus_rho)
    right[near_lower] = 1.0 - left[near_lower]
    right[~near_lower] = _end_mass(tangent[~near_lower], -rho, 1.0 + rho)
    left[~near_lower] = 1.0 - right[~near_lower]
    return left, right


def _end_mass(tangent: Floats, rho: float, one_minus_rho: float) -> Floats:
    """Return ``(2/pi) int_0^phi sin^2 u / (1 + rho^2 - 2 rho cos u) du`` for ``tangent = tan(phi/2) <= 1``.

    The antiderivative is ``(1/pi) [phi + sin(phi)/rho - (1 - rho^2)/rho^2 psi]`` with
    ``psi = arctan(kappa T) - arctan(T)``, ``T = tan(phi/2)``, ``kappa = (1 + rho)/(1 - rho)``. Its terms
    linear in T cancel, which is done here by hand, leaving ``A(x) = x - arctan(x)``.
    """
    if abs(rho) < _SMALL_RHO:
        return _end_mass_by_quadrature(tangent, rho, one_minus_rho)
    one_plus_rho = 1.0 + rho
    product = one_minus_rho * one_plus_rho
    deficit = _arctan_deficit(tangent)
    # product * A(kappa T): by the series of A, or as (1 + rho)^2 T - ..., which stays finite at rho = 1
    stretched = one_plus_rho * tangent
    nearby = stretched <= _SERIES_RADIUS * one_minus_rho
    near = product * _arctan_deficit(np.where(nearby, stretched, 0.0) / (one_minus_rho or 1.0))
    far = one_plus_rho * stretched - product * np.arctan2(stretched, one_minus_rho)
    pulled = np.where(nearby, near, far)
    cubic = 2.0 * tangent**3 / (rho * (1.0 + tangent**2))
    return ((pulled - product * deficit) / rho**2 - 2.0 * deficit - cubic) / np.pi


def _end_mass_by_quadrature(tangent: Floats, rho: float, one_minus_rho: float) -> Floats:
    half_angle = np.arctan(tangent)
    total = np.zeros_like(tangent)
    for node, weight in zip(*np.polynomial.legendre.leggauss(_LEGENDRE_NODES), strict=True):
        half = half_angle * (0.5 * (1.0 + node))
        total += weight * np.sin(2.0 * half) ** 2 / (one_minus_rho**2 + 4.0 * rho * np.sin(half) ** 2)
    return total * half_angle * (2.0 / np.pi)


def _arctan_deficit(x: Floats) -> Floats:
    """Return ``x - arctan(x)`` for x >= 0 with full relative accuracy (``x^3/3`` at the origin)."""
    square = np.minimum(x, _SERIES_RADIUS) ** 2
    series = np.zeros_like(square)
    for order in range(_SERIES_TERMS, 0, -1):
        series = 1.0 / (2 * order + 1) - square * series
    return np.where(x > _SERIES_RADIUS, x - np.arctan(x), x * square * series)
