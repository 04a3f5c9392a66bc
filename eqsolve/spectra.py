"""Limiting spectral laws of random matrices, usable on their own: the Marchenko-Pastur law of sample covariances."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from eqsolve.errors import ParameterError
from eqsolve.numerics.increasing import increasing_roots

__all__ = ["MarchenkoPastur", "SpectrumError"]

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
RealLike = TypeVar("RealLike", float, NDArray[Any])


class SpectrumError(ParameterError, ValueError):
    """An argument a spectral law cannot accept; the message says what, got and expected."""


def check_integer(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int, or raise when it is not an integer >= `minimum`."""
    if isinstance(value, int | np.integer) and int(value) >= minimum:
        return int(value)
    raise SpectrumError(f"`{name}` is not usable: got {value!r}, expected an integer >= {minimum}")


def _array(name: str, value: object, kinds: str = "iuf", expected: str = "real numbers") -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in kinds:
        raise SpectrumError(f"`{name}` is not usable: got dtype {array.dtype}, expected {expected}")
    return array


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


def _half_rule(index: NDArray[Any], n: Any, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Solve ``(n+1) phi + psi(phi) = index pi``, |psi| < pi/2; return ``phi/2`` and weights."""
    target, count = (part.ravel() for part in np.broadcast_arrays(index * np.pi, n))
    ends = ((target + side * 0.5 * np.pi) / (count + 1) for side in ((-1, 0) if rho >= 0 else (0, 1)))

    def value_and_slope(angle: Floats, places: Any) -> tuple[Floats, Floats]:
        along, distance = _resolvent(angle, rho, one_minus_rho)
        return (count[places] + 1) * angle + np.arctan2(rho * np.sin(angle), along), count[places] + along / distance

    angle = increasing_roots(value_and_slope, target, *ends).reshape(np.broadcast_shapes(np.shape(index), np.shape(n)))
    along, distance = _resolvent(angle, rho, one_minus_rho)
    return 0.5 * angle, 2.0 * np.sin(angle) ** 2 / (distance * n + along)


def _resolvent(angle: Floats, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Return the real part of ``1 - rho e^{i phi}`` and its squared modulus, free of cancellation."""
    square = np.sin(0.5 * angle) ** 2
    return one_minus_rho + 2.0 * rho * square, one_minus_rho**2 + 4.0 * rho * square


def _larger_sum(a: Complexes, root: Complexes, denominator: Complexes) -> Complexes:
    """Return ``(a + root)/denominator = 2/(a - root)`` from whichever sum does not cancel."""
    plus, minus = a + root, a - root
    return np.where(np.abs(plus) > np.abs(minus), plus / denominator, 2.0 / minus)


@dataclass(frozen=True)
class MarchenkoPastur:
    """Limiting law of the eigenvalues of ``X^T X / delta``, X being n x d with iid entries of variance 1/d.

    With ``n/d -> delta`` and ``lambda_± = (1 ± 1/sqrt(delta))^2``,

    ``dmu = max(1 - delta, 0) delta_0(dx) + delta sqrt((lambda_+ - x)(x - lambda_-)) / (2 pi x) dx``.

    Methods are vectorised; scalars in give scalars out. Their relative error is below ``1e-13 (1 +
    condition number)`` for 1e-3 <= delta <= 1e3, including delta = 1 and its neighbourhood.

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
        given: object = self.delta
        if isinstance(given, bool) or not isinstance(given, Real) or not 0.0 < float(given) < np.inf:
            raise SpectrumError(f"`delta` is not usable: got {given!r}, expected a positive finite real number")
        object.__setattr__(self, "delta", float(given))

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

    def density(self, x: RealLike) -> RealLike:
        """Return the density of the continuous part: 0 off its support, inf at x = 0 when delta = 1."""
        points = _array("x", x).astype(np.float64)
        below, above = points - self.lambda_minus, self.lambda_plus - points
        inside = (below >= 0.0) & (above >= 0.0)
        root = np.sqrt(np.where(inside, below, 0.0)) * np.sqrt(np.where(inside, above, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.delta * root / (2.0 * np.pi * points)
        values = np.where(inside, values, np.where(np.isnan(points), np.nan, 0.0))
        if self.delta == 1.0:
            values = np.where(points == 0.0, np.inf, values)
        return shaped_like(values, x)

    def _fold(self) -> tuple[float, float]:
        """Return ``rho = min(sqrt(delta), 1/sqrt(delta))``, which fixes the bulk's shape, and ``1 - rho``."""
        root = math.sqrt(self.delta)
        if self.delta <= 1.0:
            return root, (1.0 - self.delta) / (1.0 + root)
        return 1.0 / root, (self.delta - 1.0) / (root * (1.0 + root))

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
        point = _array("z", z, "iufc", "numbers").astype(np.complex128)
        # With c = 1/delta, c z s^2 + (z + c - 1) s + 1 = 0. With w = sqrt(z - lambda_-) sqrt(z -
        # lambda_+) (principal roots: w ~ z at infinity, cut on the support) s = (1 - c - z + w) /
        # (2 c z) = 2 / (1 - c - z - w) and 1 + c s = (z + 1 - c + w) / (2 z) = 2 / (z + 1 - c - w);
        # of each pair the form that adds terms of equal sign is used. s' = -s (1 + c s) / w and s''
        # = -(s'/w) (1 + 2 c s + (z - 1 - c)/w).
        ratio, gap = 1.0 / self.delta, (self.delta - 1.0) / self.delta
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            root = np.sqrt(point - self.lambda_minus) * np.sqrt(point - self.lambda_plus)
            values = s = _larger_sum(gap - point, root, 2.0 * ratio * point)
            if order >= 1:
                companion = _larger_sum(point + gap, root, 2.0 * point)
                values = slope = -s * companion / root
            if order == 2:
                values = -(slope / root) * (companion + ratio * s + (point - 1.0 - ratio) / root)
        if order >= 1:  # one-sided limits from outside the support
            values = np.where(point == self.lambda_minus, np.inf, values)
            values = np.where(point == self.lambda_plus, np.inf if order == 1 else -np.inf, values)
        if self.delta <= 1.0:
            values = np.where(point == 0.0, np.inf, values)
        values = np.asarray(values + 0.0, dtype=np.complex128)  # + 0.0: no negative zeros
        return values.item() if np.ndim(z) == 0 else values

    def laplace(self, t: RealLike, k: int = 0, *, scaled: bool = False) -> RealLike:
        """Return ``int x^k e^{-x t} dmu`` for t >= 0 and k = 0, 1, 2, ...

        Parameters
        ----------
        t
            Times, finite and >= 0; there is no upper limit (cost and accuracy do not depend on t).
        k
            Power of x.
        scaled
            Return ``e^{lambda_minus t}`` times the contribution of the continuous part instead: it decays
            like a power of t, so it does not underflow.
        """
        times, order = _array("t", t).astype(np.float64), check_integer("k", k, 0)
        bad = ~(np.isfinite(times) & (times >= 0.0))
        if bad.any():
            raise SpectrumError(f"`t` is not usable: got {times[bad][0]}, expected finite values >= 0")
        # By the Gauss rule of the bulk, in which the pole of the density at x = 0 does not matter
        # however close it is: a sum of positive terms. With x = lambda_- + 4
        # sin^2(phi/2)/sqrt(delta) and tau = 4 t/sqrt(delta) the Chebyshev coefficients of e^{-tau
        # sin^2(phi/2)} fall like e^{-n^2/tau}, so that n ~ 3 sqrt(tau) nodes are exact to rounding;
        # x^k with k >= 2 costs sqrt(2) more. Only O(10) of them carry weight, whatever t is.
        width, flat, bulk = 4.0 / math.sqrt(self.delta), times.reshape(-1, 1), np.empty(times.size)
        cut = 46.0 + 10.0 * math.sqrt(max(order - 1, 0)) + 2.0 * max(order - 1, 0)  # of the exponent
        rows = 2**20 // (64 + 2 * order)  # entries of the largest temporary array
        for block in (slice(start, start + rows) for start in range(0, times.size, rows)):
            tau = width * flat[block]
            n = np.ceil((3.25 if order < 2 else 4.6) * np.sqrt(tau)) + 14 + order
            last = np.minimum(n, np.ceil(2 / np.pi * (n + 1) * np.arcsin(np.sqrt(cut / np.maximum(tau, cut)))))
            index = np.arange(1.0, float(np.max(last, initial=0.0)) + 1.0)
            half, weights = _half_rule(np.minimum(index, last), n, *self._fold())
            square = np.sin(half) ** 2
            terms = weights * (self.lambda_minus + width * square) ** order * np.exp(-tau * square)
            bulk[block] = min(self.delta, 1.0) * np.sum(np.where(index <= last, terms, 0.0), axis=1)
        values = bulk.reshape(times.shape)
        if not scaled:
            values = values * np.exp(-self.lambda_minus * times) + (self.atom if order == 0 else 0.0)
        return shaped_like(values, t)

    def quadrature(self, n: int) -> tuple[Floats, Floats]:
        """Return nodes (ascending) and weights, exact for polynomials of degree <= 2n - 1, in O(n).

        The Gauss rule of the continuous part: the eigenvalues of the Jacobi matrix with ``a_0 =
        1``, ``a_k = 1 + 1/delta``, ``b_k = 1/sqrt(delta)`` when delta >= 1. When delta < 1 the
        continuous part is delta times the law of 1/delta stretched by 1/delta, and the node 0 of
        weight `atom` comes first, which makes n + 1 nodes.
        """
        count, (rho, one_minus_rho), width = check_integer("n", n, 1), self._fold(), 4.0 / math.sqrt(self.delta)
        low, weights_low = _half_rule(np.arange(1, (count + 1) // 2 + 1), count, rho, one_minus_rho)
        # the upper half is the lower half of the reflected law: angles near pi keep their relative
        # accuracy
        high, weights_high = _half_rule(np.arange(count // 2, 0, -1), count, -rho, 1.0 + rho)
        nodes = np.concatenate([self.lambda_minus + width * np.sin(low) ** 2, self.lambda_plus - width * np.sin(high) ** 2])
        weights = np.concatenate([weights_low, weights_high])
        if self.delta >= 1.0:
            return nodes, weights
        return np.concatenate([[0.0], nodes]), np.concatenate([[self.atom], self.delta * weights])

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator | int | None = None) -> Floats:
        """Return independent draws of the given shape, exactly distributed.

        Rejection from uniform angles: ``sin^2(phi) <= 1 + rho^2 - 2 rho cos(phi)`` for every rho,
        and half of the proposals are accepted whatever delta is.
        """
        for length in size if isinstance(size, tuple) else (size,):
            check_integer("size", length, 0)
        generator = np.random.default_rng(rng)
        draws = np.zeros(size)
        flat = draws.reshape(-1)
        bulk = np.flatnonzero(generator.random(flat.size) < self.delta)
        rho, one_minus_rho = self._fold()
        while bulk.size:
            square = np.sin(0.5 * np.pi * generator.random(bulk.size)) ** 2
            bound = generator.random(bulk.size) * (one_minus_rho**2 + 4.0 * rho * square)
            accepted = bound < 4.0 * square * (1.0 - square)
            flat[bulk[accepted]] = self.lambda_minus + 4.0 / math.sqrt(self.delta) * square[accepted]
            bulk = bulk[~accepted]
        return draws
