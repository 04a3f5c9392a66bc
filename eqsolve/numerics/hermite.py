"""Means of functions of one and of two jointly Gaussian variables, for many pairs at once, to a tolerance.

With f(m + s x) = Σ aₖ Heₖ(x)/√k! and g alike, E f g = Σ aₖ bₖ ρᵏ (Mehler 1866): one row of coefficients per function, one
power series in the correlation coefficient ρ per pair. What a series cut after K terms leaves is at most |ρ|ᴷ √(T_f T_g), T
being the part of the variance beyond K, which is known since E f² is. For analytic f the coefficients fall like e^{−c√k};
where f bends or jumps they fall as powers, and pairs with ρ near one are integrated over the plane, piece by piece between
kinks.

Smooth functions are integrated along the line by evenly spaced points, which converge geometrically (Trefethen & Weideman,
SIAM Review 56, 385 (2014), doi:10.1137/130932132), others by Gauss–Legendre panels between kinks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.numerics.arrays import Array

_REACHES = (12.5, 18.0, 26.0, 37.0)  # e^{−x²/4} is 1e-17 at the first, and the largest double at the last, squared
_NEGLIGIBLE = 1e-15  # of the largest value of f e^{−x²/4}: the line ends where it is less
_PLANE = 7.5  # reach in the plane, where densities are e^{−x²/2}
_EVEN, _FAINT = 8.0, 1e-14  # reach of evenly spaced points in several dimensions, and weights that are left out
_LAYER = 7.0  # widths of the layer that a kink of g leaves in E[g | x]
_CHUNK = 4_000_000  # numbers held at once


@dataclass(frozen=True)
class LineRule:
    """How finely lines and planes are integrated."""

    # of evenly spaced points: at most, and the smallest that is tried
    step: float = 0.2
    finest: float = 0.01
    # of Gauss–Legendre panels between kinks, in units of the shortest wave of the series
    width: float = 12.0
    nodes: int = 16
    # gauss–Legendre nodes per panel in the plane
    outer: int = 16
    inner: int = 14
    product: int = 14  # gauss–Hermite nodes per variable where there are more than two
    # step of evenly spaced points in two dimensions, half as many in each of three
    even: float = 0.3
    # terms of a series, at most; of functions with a kink
    most: int = 2048
    most_bent: int = 512

    def other(self) -> LineRule:
        """Return a rule that shares no points with this one, and is no worse."""
        return replace(self, step=0.83 * self.step, width=0.87 * self.width, nodes=self.nodes + 3, outer=self.outer + 4,
                       inner=self.inner + 4, product=self.product + 3, even=0.87 * self.even)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions of standard normal variables, a row each, by their Hermite coefficients.

    ``power`` is E f², ``size`` E|f|, ``rest`` the part of E f² beyond the last coefficient, ``rough`` what half of the
    points would change, relative to E f².
    """

    coefficients: Array
    power: Array
    size: Array
    rest: Array
    rough: float


def expand_line(function: Callable[[Array], Array], rows: int, breaks: Array | None, count: int, rule: LineRule) -> Expansion:
    """Return ``count`` Hermite coefficients of f(x) for every row, x a standard normal variable.

    ``function`` takes points of shape (points,) or (rows, points); ``breaks`` are the places, of shape (rows, kinks), where
    functions bend or jump.
    """
    if breaks is not None and breaks.shape[1]:
        return _by_panels(function, breaks, count, rule)
    reach = _REACHES[0]
    step = min(rule.step, math.pi / (math.sqrt(count) + 4.0))
    while True:
        half = math.ceil(reach / step)
        points = step * np.arange(-half, half + 1)
        values = np.broadcast_to(function(points), (rows, len(points)))
        faded = np.abs(values) * np.exp(-(points**2) / 4)
        if reach < _REACHES[-1] and (faded[:, [0, -1]] > _NEGLIGIBLE * faded.max(axis=1)[:, None]).any():
            reach = next(item for item in _REACHES if item > reach)
            continue
        weights = step / math.sqrt(2 * math.pi) * np.exp(-(points**2) / 2)
        power = (values**2) @ weights
        coarse = 2 * (values[:, half % 2 :: 2] ** 2) @ weights[half % 2 :: 2]
        rough = float((np.abs(power - coarse) / np.maximum(power, 1e-300)).max(initial=0.0))
        if rough < 1e-5 or step <= rule.finest:
            break
        step /= 2
    basis = _basis(points, count)
    coefficients = (values * weights) @ basis
    rest = np.maximum(power - (coefficients**2).sum(axis=1), 0.0)
    return Expansion(coefficients, power, np.abs(values) @ weights, rest, rough)


_kept: dict[tuple[int, float, int], Array] = {}


def _basis(points: Array, count: int) -> Array:
    """Return Heₖ/√k! at points, shape (points, count)."""
    key = (len(points), float(points[-1]), count)
    if key not in _kept:
        if len(_kept) > 8:
            _kept.clear()
        made = np.empty((count, len(points)))
        for place, row in enumerate(_polynomials(points, count)):
            made[place] = row
        _kept[key] = np.ascontiguousarray(made.T)
    return _kept[key]


def _polynomials(points: Array, count: int) -> list[Array]:
    made = [np.ones_like(points), points]
    for k in range(1, count - 1):
        made.append((points * made[-1] - math.sqrt(k) * made[-2]) / math.sqrt(k + 1))
    return made[:count]


def _by_panels(function: Callable[[Array], Array], breaks: Array, count: int, rule: LineRule) -> Expansion:
    """Return the coefficients of functions that are smooth between their breaks."""
    rows, reach = len(breaks), _REACHES[0]
    panels = math.ceil(2 * reach * (math.sqrt(count) + 4.0) / rule.width)
    base = np.broadcast_to(np.linspace(-reach, reach, panels + 1), (rows, panels + 1))
    points, weights = _panels(np.concatenate([base, np.clip(breaks, -reach, reach)], axis=1), rule.nodes)
    weights = weights * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    values = np.broadcast_to(function(points), points.shape)
    weighted = values * weights
    coefficients = np.empty((rows, count))
    last, now = np.zeros_like(points), np.ones_like(points)
    for k in range(count):
        coefficients[:, k] = (weighted * now).sum(axis=1)
        last, now = now, (points * now - math.sqrt(k) * last) / math.sqrt(k + 1)
    power = (weighted * values).sum(axis=1)
    rest = np.maximum(power - (coefficients**2).sum(axis=1), 0.0)
    return Expansion(coefficients, power, np.abs(weighted).sum(axis=1), rest, 0.0)


@functools.lru_cache(maxsize=16)
def _legendre(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


def _panels(edges: Array, order: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre points and weights between sorted edges, a row each."""
    edges = np.sort(edges, axis=1)
    nodes, masses = _legendre(order)
    widths = np.diff(edges, axis=1)
    points = (edges[:, :-1, None] + widths[:, :, None] * (nodes + 1) / 2).reshape(len(edges), -1)
    return points, (widths[:, :, None] * masses / 2).reshape(len(edges), -1)


def mehler(first: Array, second: Array, correlation: Array) -> Array:
    """Return Σ aₖ bₖ ρᵏ for all pairs of rows."""
    count = min(first.shape[1], second.shape[1])
    total = np.multiply.outer(first[:, count - 1], second[:, count - 1])
    part = np.empty_like(total)
    for k in range(count - 2, -1, -1):
        total *= correlation
        np.multiply(first[:, k, None], second[None, :, k], out=part)
        total += part
    return total


def plane_means(
    first: Callable[[Array, Array], Array], second: Callable[[Array, Array], Array], breaks: tuple[Array, Array],
    correlation: Array, rule: LineRule,
) -> Array:  # fmt: skip
    """Return E f(x) g(y) pair by pair for standard normal x, y of given correlation.

    Functions take the places of the pairs and points, (pairs, points); ``breaks`` are where f and g bend or jump, (pairs,
    kinks) each. y = ρ x + √(1−ρ²) v: over v the integral is cut at the kinks of g, over x at those of f and around the layer
    that a kink of g leaves in E[g | x].
    """
    pairs = len(correlation)
    made = np.empty(pairs)
    panels = 7 + breaks[0].shape[1] + 3 * breaks[1].shape[1]
    each = panels * rule.outer * (6 + breaks[1].shape[1]) * rule.inner
    step = max(1, _CHUNK // each)
    for begin in range(0, pairs, step):
        places = np.arange(begin, min(begin + step, pairs))
        made[places] = _plane(first, second, places, breaks[0][places], breaks[1][places], correlation[places], rule)
    return made


def _plane(
    first: Callable[[Array, Array], Array], second: Callable[[Array, Array], Array], places: Array, mine: Array, yours: Array,
    correlation: Array, rule: LineRule,
) -> Array:  # fmt: skip
    count, rho = len(places), correlation[:, None]
    width = np.sqrt(np.maximum(1 - rho**2, 1e-28))
    steep = np.where(np.abs(rho) > 1e-3, rho, 1e-3)
    centre, layer = yours / steep, _LAYER * width / np.abs(steep)
    base = np.broadcast_to(np.linspace(-_PLANE, _PLANE, 8), (count, 8))
    edges = np.concatenate([base, mine, centre, centre - layer, centre + layer], axis=1)
    points, weights = _panels(np.clip(edges, -_PLANE, _PLANE), rule.outer)
    outer = weights * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi) * first(places, points)
    flat = points.reshape(-1)
    cuts = (yours[:, None, :] - (rho * points)[:, :, None]) / width[:, :, None]
    base = np.broadcast_to(np.linspace(-_PLANE, _PLANE, 7), (len(flat), 7))
    inner, masses = _panels(np.concatenate([base, np.clip(cuts.reshape(len(flat), -1), -_PLANE, _PLANE)], axis=1), rule.inner)
    masses = masses * np.exp(-(inner**2) / 2) / math.sqrt(2 * math.pi)
    there = (rho * points)[:, :, None] + width[:, :, None] * inner.reshape(count, points.shape[1], -1)
    values = np.broadcast_to(second(places, there.reshape(count, -1)), (count, there[0].size)).reshape(there.shape)
    inside = (values * masses.reshape(there.shape)).sum(axis=2)
    return np.asarray((outer * inside).sum(axis=1))


@functools.lru_cache(maxsize=8)
def even_rule(dimensions: int, step: float) -> tuple[Array, Array]:
    """Return evenly spaced points, (points, dimensions), and weights of a standard normal vector: exact for analytic functions
    up to what falls like e^{−2π y/step}, y being how far from the real axis they are analytic."""
    half = math.ceil(_EVEN / step)
    line = step * np.arange(-half, half + 1)
    masses = np.exp(-(line**2) / 2)
    masses /= masses.sum()
    places = np.indices((len(line),) * dimensions).reshape(dimensions, -1)
    weights = masses[places].prod(axis=0)
    kept = weights > _FAINT * weights.max()
    return line[places[:, kept]].T, weights[kept]


@functools.lru_cache(maxsize=32)
def product_rule(dimensions: int, nodes: int) -> tuple[Array, Array]:
    """Return the points, (points, dimensions), and weights of a product of Gauss–Hermite rules."""
    from scipy.special import roots_hermitenorm

    line, masses = roots_hermitenorm(nodes)
    masses = masses / masses.sum()
    places = np.indices((nodes,) * dimensions).reshape(dimensions, -1)
    return line[places].T, masses[places].prod(axis=0)
