"""The Marchenko-Pastur law: the limiting eigenvalue law of sample covariance matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from eqsolve.errors import ParameterError, SolverError

# What the spectral laws share about arguments: the error they raise, checks, scalars in -> scalars
# out.


Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
RealLike = TypeVar("RealLike", float, NDArray[Any])


class SpectrumError(ParameterError, ValueError):
    """An argument a spectral law cannot accept; the message says what, got and expected."""


def check_positive(name: str, value: object) -> float:
    """Return `value` as a float, or raise when it is not a positive finite real number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if 0.0 < number < np.inf:
            return number
    raise SpectrumError(f"`{name}` is not usable: got {value!r}, expected a positive finite real number")


def check_integer(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int, or raise when it is not an integer >= `minimum`."""
    if isinstance(value, int | np.integer) and int(value) >= minimum:
        return int(value)
    raise SpectrumError(f"`{name}` is not usable: got {value!r}, expected an integer >= {minimum}")


def check_times(name: str, value: object) -> Floats:
    """Return `value` as a float array, or raise unless all entries are finite and >= 0."""
    times = real_array(name, value)
    bad = ~(np.isfinite(times) & (times >= 0.0))
    if bad.any():
        raise SpectrumError(f"`{name}` is not usable: got {times[bad][0]}, expected finite values >= 0")
    return times


def real_array(name: str, value: object) -> Floats:
    """Return `value` as a float array, or raise when it is complex or not numeric."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise SpectrumError(f"`{name}` is not usable: got dtype {array.dtype}, expected real numbers")
    return array.astype(np.float64)


def complex_array(name: str, value: object) -> Complexes:
    """Return `value` as a complex array, or raise when it is not numeric."""
    array = np.asarray(value)
    if array.dtype.kind not in "iufc":
        raise SpectrumError(f"`{name}` is not usable: got dtype {array.dtype}, expected numbers")
    return array.astype(np.complex128)


def shaped_like(result: Floats, argument: RealLike) -> RealLike:
    """Return `result` as a float when the argument was a scalar, else as the array it is."""
    return cast(RealLike, result.item() if np.ndim(argument) == 0 else result)


# Gauss quadrature of the Marchenko-Pastur bulk, in O(n) and without an eigenvalue problem. The
# monic orthogonal polynomials of the law with ``c = 1/delta <= 1``, ``rho = sqrt(c)``, have the
# Jacobi numbers ``a_0 = 1, a_k = 1 + c, b_k = rho``, so ``p_n = rho^n (U_n + rho U_{n-1})((x - 1 -
# c) / (2 rho))`` with Chebyshev polynomials of the second kind. In ``x = 1 + c - 2 rho cos(phi)``
# the zeros of p_n solve ``sin((n+1) phi) = rho sin(n phi)``, that is, with ``psi = -arg(1 - rho
# e^{i phi})``, (n + 1) phi + psi(phi) = k pi, k = 1 ... n, and the weights are ``(2/pi)
# sin^2(phi)/x`` times ``pi / (n + 1 + psi'(phi))``.


_ROUNDING = 16 * np.finfo(np.float64).eps
_FIRST_NODES = 16
_MAX_NODES = 2**14


class Expectation(NamedTuple):
    """An integral against a law: its value, an absolute error estimate, and the nodes spent on it."""

    value: Any
    error: Any
    nodes: int


def gauss_bulk(n: int, rho: float, one_minus_rho: float) -> tuple[Floats, Floats, Floats]:
    """Return the n-point Gauss rule of the bulk with ``sqrt(c) = rho <= 1``, normalised to mass one.

    Returns
    -------
    from_lower, from_upper
        ``sin^2(phi/2)`` and ``cos^2(phi/2)`` of the nodes, each with full relative accuracy.
    weights
        Summing to one.
    """
    count_low = (n + 1) // 2
    half_low, weights_low = _half_rule(np.arange(1, count_low + 1), n, rho, one_minus_rho)
    # the upper half is the lower half of the reflected law: angles near pi keep their relative accuracy
    half_high, weights_high = _half_rule(np.arange(n - count_low, 0, -1), n, -rho, 1.0 + rho)
    from_lower = np.concatenate([np.sin(half_low), np.cos(half_high)]) ** 2
    from_upper = np.concatenate([np.cos(half_low), np.sin(half_high)]) ** 2
    return from_lower, from_upper, np.concatenate([weights_low, weights_high])


def _half_rule(index: NDArray[np.int_], n: int, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Solve ``(n+1) phi + psi(phi) = index pi`` by bracketed Newton steps; return ``phi/2`` and weights."""
    target = index * np.pi
    low, high = (target - 0.5 * np.pi, target) if rho >= 0 else (target, target + 0.5 * np.pi)
    low, high = low / (n + 1), high / (n + 1)
    angle = 0.5 * (low + high)
    for _ in range(100):
        along, distance = _resolvent(angle, rho, one_minus_rho)
        residual = (n + 1) * angle + np.arctan2(rho * np.sin(angle), along) - target
        low, high = np.where(residual <= 0, angle, low), np.where(residual >= 0, angle, high)
        newton = angle - residual / (n + along / distance)
        proposal = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        settled = bool(np.all(np.abs(proposal - angle) <= 2e-16 * angle))
        angle = proposal
        if settled:
            break
    along, distance = _resolvent(angle, rho, one_minus_rho)
    return 0.5 * angle, 2.0 * np.sin(angle) ** 2 / (distance * n + along)


def _resolvent(angle: Floats, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Return the real part of ``1 - rho e^{i phi}`` and its squared modulus, free of cancellation."""
    square = np.sin(0.5 * angle) ** 2
    return one_minus_rho + 2.0 * rho * square, one_minus_rho**2 + 4.0 * rho * square


def expect_by_doubling(
    rule: Callable[[int], tuple[Floats, Floats]], f: Callable[[Floats], Any], atom: float, tol: float
) -> Expectation:
    """Double the nodes until two successive values over the bulk agree within `tol` times the bulk of |f|.

    The tolerance being relative, and the atom (exact, and possibly larger) left out of it, an f that is not
    resolved is noticed unless it vanishes at every node; so a sum of zeros is believed only with the largest
    number of nodes.
    """
    exact, exact_scale = _apply(f, np.zeros(1), np.array([atom])) if atom > 0.0 else (0.0, 0.0)
    n = _FIRST_NODES
    previous, _ = _apply(f, *rule(n))
    while n < _MAX_NODES:
        n *= 2
        value, scale = _apply(f, *rule(n))
        difference = np.abs(value - previous)
        seen = (scale > 0.0) | (n == _MAX_NODES)
        if np.all(seen & (difference <= max(tol, _ROUNDING) * scale)):
            return Expectation((exact + value)[()], (difference + _ROUNDING * (exact_scale + scale))[()], n)
        previous = value
    raise SolverError(
        f"`expect` did not settle: got a difference of {np.max(difference):.1e} with {n} nodes, expected "
        f"<= {tol:.1e} times the integral of |f|; give a larger `tol`, or split f where it is not smooth"
    )


def _apply(f: Callable[[Floats], Any], nodes: Floats, weights: Floats) -> tuple[Any, Any]:
    """Return the sums of f and of its modulus over the last axis, which must run over the nodes."""
    values = np.asarray(f(nodes))
    if values.shape[-1:] != nodes.shape:
        raise SpectrumError(
            f"`f` is not usable: got values of shape {values.shape} for {nodes.size} nodes, "
            "expected its last axis to run over the nodes"
        )
    return np.asarray(values @ weights), np.asarray(np.abs(values) @ weights)


# The Stieltjes transform of the Marchenko-Pastur law and its inverse, free of cancellation. With
# ``c = 1/delta``, ``s(z) = int dmu / (x - z)`` solves ``c z s^2 + (z + c - 1) s + 1 = 0``. With
# ``w(z) = sqrt(z - lambda_-) sqrt(z - lambda_+)`` (principal roots: w ~ z at infinity, cut on the
# support), s = (1 - c - z + w) / (2 c z) = 2 / (1 - c - z - w), 1 + c s = (z + 1 - c + w) / (2 z) =
# 2 / (z + 1 - c - w); of each pair the form that adds terms of equal sign is used.


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


# Exponential integrals of the Marchenko-Pastur bulk for every t >= 0, from sums of positive terms.
# Notation: ``c = 1/delta``, ``r = sqrt(c)``, ``x(phi) = lambda_- + 4 r sin^2(phi/2)``, ``dmu =
# (2/pi) sin^2(phi)/x dphi`` on ``[0, pi]``, ``tau = 4 r t``.


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


# Masses of the two ends of the Marchenko-Pastur bulk, each with full relative accuracy. With ``x =
# lambda_- + (lambda_+ - lambda_-) sin^2(phi/2)`` and ``rho = min(sqrt(delta), 1/sqrt(delta))`` the
# bulk, normalised to mass one, is ``(2/pi) sin^2(phi) / (1 + rho^2 - 2 rho cos(phi)) dphi`` on
# ``[0, pi]``. Reflecting ``phi -> pi - phi`` is ``rho -> -rho``, so one function of a signed
# ``rho`` serves both ends.


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


NumberLike = TypeVar("NumberLike", float, complex, NDArray[Any])


@dataclass(frozen=True)
class MarchenkoPastur:
    """Limiting law of the eigenvalues of ``X^T X / delta``, X being n x d with iid entries of variance 1/d.

    With ``n/d -> delta`` and ``lambda_± = (1 ± 1/sqrt(delta))^2``,

    ``dmu = max(1 - delta, 0) delta_0(dx) + delta sqrt((lambda_+ - x)(x - lambda_-)) / (2 pi x) dx``.

    Methods are vectorised; scalars in give scalars out. Their relative error is below
    ``1e-13 (1 + condition number)`` for 1e-3 <= delta <= 1e3, including delta = 1 and its neighbourhood.

    Parameters
    ----------
    delta
        The aspect ratio n/d, a positive finite real number.

    References
    ----------
    Marchenko and Pastur, Math. USSR Sbornik 1 (1967) 457.
    """

    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_positive("delta", self.delta))

    @property
    def lambda_minus(self) -> float:
        """Lower edge ``(1 - 1/sqrt(delta))^2``, with full relative accuracy near delta = 1."""
        return ((self.delta - 1.0) / (1.0 + math.sqrt(self.delta))) ** 2 / self.delta

    @property
    def lambda_plus(self) -> float:
        """Upper edge ``(1 + 1/sqrt(delta))^2``."""
        return (1.0 + math.sqrt(self.delta)) ** 2 / self.delta

    @property
    def edges(self) -> tuple[float, float]:
        """The edges ``(lambda_minus, lambda_plus)`` of the continuous part."""
        return self.lambda_minus, self.lambda_plus

    @property
    def atom(self) -> float:
        """Mass ``max(1 - delta, 0)`` at x = 0."""
        return max(1.0 - self.delta, 0.0)

    @property
    def stieltjes_edges(self) -> tuple[float, float]:
        """``(s(lambda_minus), s(lambda_plus))``; the first is inf at delta = 1."""
        return stieltjes_edges(self.delta)

    def density(self, x: RealLike) -> RealLike:
        """Return the density of the continuous part: 0 off its support, inf at x = 0 when delta = 1."""
        points = real_array("x", x)
        below, above = points - self.lambda_minus, self.lambda_plus - points
        inside = (below >= 0.0) & (above >= 0.0)
        root = np.sqrt(np.where(inside, below, 0.0)) * np.sqrt(np.where(inside, above, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.delta * root / (2.0 * np.pi * points)
        values = np.where(inside, values, np.where(np.isnan(points), np.nan, 0.0))
        if self.delta == 1.0:
            values = np.where(points == 0.0, np.inf, values)
        return shaped_like(values, x)

    def cdf(self, x: RealLike) -> RealLike:
        """Return ``mu((-inf, x])``, the atom included, accurate down to the lower edge."""
        points = real_array("x", x)
        left, right = self._bulk_masses(points)
        values = np.where(left <= right, self.atom + left, 1.0 - right)
        return shaped_like(np.where(points < 0.0, 0.0, values), x)

    def sf(self, x: RealLike) -> RealLike:
        """Return the survival function ``mu((x, inf)) = 1 - cdf(x)``, accurate up to the upper edge."""
        points = real_array("x", x)
        left, right = self._bulk_masses(points)
        values = np.where(left <= right, min(self.delta, 1.0) - left, right)
        return shaped_like(np.where(points < 0.0, 1.0, values), x)

    def _bulk_masses(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the masses of the continuous part on the left and on the right of points."""
        below = np.clip(points - self.lambda_minus, 0.0, self.lambda_plus - self.lambda_minus)
        above = np.clip(self.lambda_plus - points, 0.0, self.lambda_plus - self.lambda_minus)
        left, right = split_mass(below, above, *self._fold())
        mass = min(self.delta, 1.0)
        return mass * left, mass * right

    def _fold(self) -> tuple[float, float]:
        """Return ``rho = min(sqrt(delta), 1/sqrt(delta))``, which fixes the bulk's shape, and ``1 - rho``."""
        root = math.sqrt(self.delta)
        if self.delta <= 1.0:
            return root, (1.0 - self.delta) / (1.0 + root)
        return 1.0 / root, (self.delta - 1.0) / (root * (1.0 + root))

    @overload
    def moment(self, k: int) -> float: ...
    @overload
    def moment(self, k: NDArray[Any]) -> Floats: ...
    def moment(self, k: Any) -> Any:
        """Return ``int x^k dmu`` for integers k, correctly rounded (inf where it diverges or overflows).

        ``m_k = sum_{j<k} C(k, j) C(k-1, j)/(j+1) delta^{-j}`` (Narayana numbers), summed in exact arithmetic.
        For delta > 1, ``x -> lambda_- lambda_+ / x`` gives the negative ones,
        ``m_{-k-1} = m_k (1 - 1/delta)^{-2k-1}``; for delta <= 1 they diverge.
        """
        orders = np.asarray(k)
        if orders.dtype.kind not in "iu":
            raise SpectrumError(f"`k` is not usable: got {k!r}, expected integers")
        values = np.array([_moment(order, self.delta) for order in orders.ravel().tolist()], dtype=np.float64)
        return values.item() if np.ndim(k) == 0 else values.reshape(orders.shape)

    @overload
    def stieltjes(self, z: complex, derivative: int = 0) -> complex: ...
    @overload
    def stieltjes(self, z: NDArray[Any], derivative: int = 0) -> Complexes: ...
    def stieltjes(self, z: Any, derivative: int = 0) -> Any:
        """Return ``s(z) = int dmu / (x - z)`` or its derivative of order 1 or 2; always complex.

        ``s ~ -1/z`` at infinity, and Im s has the sign of Im z. On the support, real z and ``x + 0j`` give
        the limit from the upper half plane (``Im s = pi density``), an imaginary part -0.0 the one from the
        lower. Off the support, real z give a zero imaginary part. Where the integral diverges (z = 0 for
        delta <= 1, derivatives at the edges) the value is a real infinity.
        """
        order = check_integer("derivative", derivative, 0)
        if order > 2:
            raise SpectrumError(f"`derivative` is not usable: got {order}, expected 0, 1 or 2")
        values = stieltjes(complex_array("z", z), order, self.delta, self.edges)
        return values.item() if np.ndim(z) == 0 else values

    def inverse_stieltjes(self, s: NumberLike) -> NumberLike:
        """Return the z with ``stieltjes(z) = s``: ``z = -1/s + 1/(1 + s/delta)``.

        Real s give the real z off the support (up to the edges, whose s are `stieltjes_edges`); complex s
        give the z in the same half plane, or the point of the support of which s is the limit.

        Raises
        ------
        SpectrumError
            When s is not a value of the transform (the formula would return a point of the other sheet).
        """
        values = np.asarray(s)
        values = values.astype(np.complex128) if values.dtype.kind == "c" else real_array("s", s)
        return _number_like(inverse_stieltjes(values, self.delta), s)

    def laplace(self, t: RealLike, k: int = 0, *, scaled: bool = False) -> RealLike:
        """Return ``int x^k e^{-x t} dmu`` for t >= 0 and k = 0, 1, 2, ...

        Parameters
        ----------
        t
            Times, finite and >= 0; there is no upper limit (cost and accuracy do not depend on t).
        k
            Power of x. For k = -1 see `laplace_integrated`.
        scaled
            Return ``e^{lambda_minus t}`` times the contribution of the continuous part instead: it decays
            like a power of t, so it does not underflow.
        """
        times, order = check_times("t", t), check_integer("k", k, 0)
        bulk = scaled_laplace(times.ravel(), order, self.delta, self.lambda_minus).reshape(times.shape)
        if not scaled:
            bulk = bulk * np.exp(-self.lambda_minus * times) + (self.atom if order == 0 else 0.0)
        return shaped_like(bulk, t)

    def laplace_integrated(self, t: RealLike) -> RealLike:
        """Return ``int_0^t laplace(u) du = int (1 - e^{-x t})/x dmu``; the atom contributes ``t atom``."""
        times = check_times("t", t)
        nodes, weights = self._logarithmic_rule(times)
        bulk = integrated(times.ravel(), nodes, weights).reshape(times.shape)
        return shaped_like(bulk + self.atom * times, t)

    @overload
    def laplace_integrated_pair(self, t: float, other: float) -> float: ...
    @overload
    def laplace_integrated_pair(self, t: NDArray[Any], other: float | NDArray[Any]) -> Floats: ...
    @overload
    def laplace_integrated_pair(self, t: float, other: NDArray[Any]) -> Floats: ...
    def laplace_integrated_pair(self, t: Any, other: Any) -> Any:
        """Return ``int (1 - e^{-x t}) (1 - e^{-x t'}) / x dmu``, to which the atom does not contribute.

        Equals ``D(t) + D(t') - D(t + t')`` with D = `laplace_integrated`, without its cancellation at short
        times. The arguments broadcast; ``t[:, None]`` with ``t[None, :]`` costs one matrix product.
        """
        first, second = np.broadcast_arrays(check_times("t", t), check_times("other", other))
        nodes, weights = self._logarithmic_rule(np.maximum(first, second))
        values = integrated_pair(first.ravel(), second.ravel(), nodes, weights).reshape(first.shape)
        return values.item() if np.ndim(t) == np.ndim(other) == 0 else values

    def _logarithmic_rule(self, times: Floats) -> tuple[Floats, Floats]:
        return logarithmic_rule(float(np.max(times, initial=0.0)), self.delta, self.edges)

    def quadrature(self, n: int) -> tuple[Floats, Floats]:
        """Return nodes (ascending) and weights, exact for polynomials of degree <= 2n - 1, in O(n).

        The Gauss rule of the continuous part: the eigenvalues of the Jacobi matrix with ``a_0 = 1``,
        ``a_k = 1 + 1/delta``, ``b_k = 1/sqrt(delta)`` when delta >= 1. When delta < 1 the continuous part is
        delta times the law of 1/delta stretched by 1/delta, and the node 0 of weight `atom` comes first,
        which makes n + 1 nodes.
        """
        nodes, weights = self._bulk_rule(check_integer("n", n, 1))
        if self.delta >= 1.0:
            return nodes, weights
        return np.concatenate([[0.0], nodes]), np.concatenate([[self.atom], weights])

    def _bulk_rule(self, n: int) -> tuple[Floats, Floats]:
        """Return the n-point Gauss rule of the continuous part."""
        from_lower, from_upper, weights = gauss_bulk(n, *self._fold())
        width = 4.0 / math.sqrt(self.delta)
        nodes = np.where(from_lower <= 0.5, self.lambda_minus + width * from_lower, self.lambda_plus - width * from_upper)
        return nodes, min(self.delta, 1.0) * weights

    def expect(self, f: Callable[[Floats], Any], tol: float = 1e-12) -> Expectation:
        """Return ``int f dmu`` with an error estimate, doubling the Gauss nodes until two values agree.

        Parameters
        ----------
        f
            Smooth on the support (finite at 0 when delta < 1); maps an array of nodes to real or complex
            values whose last axis runs over the nodes.
        tol
            Accepted difference, relative to the integral of ``|f|`` over the continuous part (the atom is
            exact).

        Raises
        ------
        SolverError
            When 16384 nodes do not suffice.
        """
        return expect_by_doubling(self._bulk_rule, f, self.atom, check_positive("tol", tol))

    def r_transform(self, z: NumberLike) -> NumberLike:
        """Return ``R(z) = 1/(1 - z/delta)``; ``s(R(z) + 1/z) = -z``, the free cumulants are delta^{1-k}."""
        return _number_like(1.0 / (1.0 - np.asarray(z) / self.delta), z)

    def s_transform(self, z: NumberLike) -> NumberLike:
        """Return ``S(z) = 1/(1 + z/delta) = (1 + z)/z chi(z)``, where chi inverts ``sum_{k>=1} m_k x^k``."""
        return _number_like(1.0 / (1.0 + np.asarray(z) / self.delta), z)

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator | int | None = None) -> Floats:
        """Return independent draws of the given shape, exactly distributed.

        Rejection from uniform angles: ``sin^2(phi) <= 1 + rho^2 - 2 rho cos(phi)`` for every rho, and half of
        the proposals are accepted whatever delta is.
        """
        for length in size if isinstance(size, tuple) else (size,):
            check_integer("size", length, 0)
        generator = np.random.default_rng(rng)
        draws = np.zeros(size)
        flat = draws.reshape(-1)
        bulk = np.flatnonzero(generator.random(flat.size) < self.delta)
        rho, one_minus_rho = self._fold()
        while bulk.size:
            half_angle = 0.5 * np.pi * generator.random(bulk.size)
            square = np.sin(half_angle) ** 2
            bound = generator.random(bulk.size) * (one_minus_rho**2 + 4.0 * rho * square)
            accepted = bound < 4.0 * square * (1.0 - square)
            flat[bulk[accepted]] = self.lambda_minus + 4.0 / math.sqrt(self.delta) * square[accepted]
            bulk = bulk[~accepted]
        return draws


def _number_like(result: NDArray[Any], argument: NumberLike) -> NumberLike:
    return cast(NumberLike, result.item() if np.ndim(argument) == 0 else result)


def _moment(k: int, delta: float) -> float:
    """Return the k-th moment of the law from Narayana numbers in exact rational arithmetic."""
    top, bottom = delta.as_integer_ratio()
    if k < 0:
        if delta <= 1.0:
            return math.inf
        order = -k - 1
        numerator, denominator = _narayana_sum(order, top, bottom)
        numerator *= top ** (2 * order + 1)
        denominator *= (top - bottom) ** (2 * order + 1)
    else:
        numerator, denominator = _narayana_sum(k, top, bottom)
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf


def _narayana_sum(k: int, top: int, bottom: int) -> tuple[int, int]:
    """Return top and bottom of ``sum_{j<k} C(k, j) C(k-1, j)/(j+1) (bottom/top)^j``; 1 for k = 0."""
    if k == 0:
        return 1, 1
    total, narayana, power = 1, 1, 1
    for j in range(1, k):
        narayana = narayana * (k - j + 1) * (k - j) // (j * (j + 1))
        power *= bottom
        total = total * top + narayana * power
    return total, top ** (k - 1)
