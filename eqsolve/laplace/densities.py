"""Densities of laws in coordinates in which they are smooth, and panels on which Gauss rules resolve integrands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gauss_legendre import precise_legendre
from eqsolve.numerics.laws import GaussBernoulli, Laplace, Law, MarchenkoPastur, Mixture, Normal, StudentT, Uniform

__all__ = ["Part", "density_parts", "legendre_panels", "precise_rule_of", "split"]

Coordinate = Callable[[Any, Any], Any]
ORDER = 16
DEPTH = 60
PANELS = 400
TOLERANCE = 2e-15


@dataclass(frozen=True)
class Part:
    """A part of a law with a density: x = point(y), with the density in y, for low < y < high.

    The functions take y and the library whose functions they use, numpy or mpmath; the numbers are floats or mpmath's, as
    those of the law are. The ends leave out what has no weight in double precision; ``support`` are the true ends, of x.
    """

    mass: Any
    point: Coordinate
    density: Coordinate
    low: Any
    high: Any
    support: tuple[Any, Any] = (-np.inf, np.inf)


def density_parts(law: Law, digits: int | None = None) -> list[Part]:
    """Return the parts of a law that have a density, each smooth in its own coordinate."""
    reach = 40 if digits is None else int(2.2 * digits**0.5 * 2) + 10
    match law:
        case Normal():
            return [_gaussian(1, law.mean, law.variance, reach)] if law.variance != 0 else []
        case GaussBernoulli():
            p, variance = law.probability, law.variance
            return [_gaussian(p, 0, variance, reach)] if variance != 0 and p != 0 else []
        case Uniform():
            width = law.high - law.low
            return [Part(1, lambda y, lib: y, lambda y, lib: 1 / width + 0 * y, law.low, law.high, (law.low, law.high))]
        case Laplace():
            scale = law.scale
            wide = scale * (40 if digits is None else 3 * digits)
            below = Part(0.5, lambda y, lib: y, lambda y, lib: lib.exp(y / scale) / scale, -wide, 0 * wide, (-np.inf, 0.0))
            above = Part(0.5, lambda y, lib: y, lambda y, lib: lib.exp(-y / scale) / scale, 0 * wide, wide, (0.0, np.inf))
            return [below, above]
        case StudentT():
            return [_student(law.freedom, (40 if digits is None else 3 * digits) / law.freedom + 2)]
        case MarchenkoPastur():
            return [_marchenko_pastur(law.delta)]
        case Mixture():
            return [
                Part(weight * part.mass, part.point, part.density, part.low, part.high, part.support)
                for weight, component in zip(law.probabilities, law.laws, strict=True)
                for part in density_parts(component, digits)
            ]
    if law.has_density:
        raise UsageError(f"the law {law} has a density that the singularity search does not know how to integrate")
    return []


def _gaussian(mass: Any, mean: Any, variance: Any, reach: int) -> Part:
    width = variance**0.5
    return Part(
        mass, lambda y, lib: mean + width * y, lambda y, lib: lib.exp(-(y**2) / 2) / lib.sqrt(2 * lib.pi), -reach, reach
    )


def _student(freedom: Any, top: Any) -> Part:
    import mpmath

    norm = type(freedom)(1 / mpmath.beta(freedom / 2, 0.5))
    return Part(
        1, lambda y, lib: freedom**0.5 * lib.sinh(y), lambda y, lib: norm * (1 + lib.sinh(y) ** 2) ** (-freedom / 2), -top, top
    )


def _marchenko_pastur(delta: Any) -> Part:
    def point(y: Any, lib: Any) -> Any:
        return 1 + 1 / delta - 2 / delta**0.5 * lib.cos(y)

    def density(y: Any, lib: Any) -> Any:
        if delta == 1:  # the lower edge is the hard wall at 0
            return (1 + lib.cos(y)) / lib.pi
        return 2 * lib.sin(y) ** 2 / (lib.pi * point(y, lib))

    import mpmath

    ends = ((1 - delta**-0.5) ** 2, (1 + delta**-0.5) ** 2)
    return Part(1, point, density, 0, np.pi if isinstance(delta, float) else +mpmath.pi, ends)


@functools.lru_cache(maxsize=4)
def _legendre(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


def legendre_panels(edges: Array) -> tuple[Array, Array]:
    nodes, weights = _legendre(ORDER)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()


def split(integrands: Callable[[Array], Array], low: float, high: float, tolerance: float = TOLERANCE) -> Array:
    """Return the edges of panels on each of which a Gauss rule and its two halves agree, for every integrand."""
    nodes, weights = _legendre(ORDER)
    left = np.linspace(low, high, 9)[:-1]
    right = np.linspace(low, high, 9)[1:]
    done: list[Array] = []
    total: Any = 0.0

    def integrate(a: Array, b: Array) -> tuple[Array, Array]:
        half = (b - a)[:, None] / 2
        values = integrands(a[:, None] + half * (nodes + 1))
        return np.sum(values * (half * weights), axis=-1), np.sum(np.abs(values) * (half * weights), axis=-1)

    for depth in range(DEPTH):
        middle = (left + right) / 2
        whole, size = integrate(left, right)
        first, second = integrate(left, middle)[0], integrate(middle, right)[0]
        if depth == 0:
            total = size.sum(axis=1, keepdims=True)
        gap = np.abs(whole - first - second)
        total = np.maximum(total, size.max(axis=1, keepdims=True))
        rough = ~(gap <= tolerance * total + 1e-300).all(axis=0) & (gap > 4e-16 * size).any(axis=0)
        rough &= right - left > 1e-14 * (high - low) * (0.01 + np.abs(middle) / max(abs(low), abs(high)))
        done.append(left[~rough])
        if not rough.any():
            break
        if sum(map(len, done)) + 2 * rough.sum() > PANELS:  # an integrand with a pole on the support
            done.append(left[rough])
            break
        left, right = (np.concatenate([left[rough], middle[rough]]), np.concatenate([middle[rough], right[rough]]))
    else:
        done.append(left)
    return np.append(np.sort(np.concatenate(done)), high)


def precise_rule_of(part: Part, edges: Array, digits: int) -> tuple[Array, Array]:
    """Return a rule in mpmath numbers on panels, with as many nodes as the digits need; ``part`` is of a law with digits."""
    import mpmath

    with mpmath.workdps(digits + 15):
        reference = precise_legendre(int(1.5 * digits) + 10, digits + 25)
        mass, low, high = (mpmath.mpf(value) for value in (part.mass, part.low, part.high))
        ends = [low, *(mpmath.mpf(float(edge)) for edge in edges[1:-1]), high]
        xs, ws = [], []
        for a, b in pairwise(ends):
            for node, weight in reference:
                y = a + (b - a) * (node + 1) / 2
                xs.append(part.point(y, mpmath))
                ws.append(mass * weight * (b - a) / 2 * part.density(y, mpmath))
        return np.array(xs, dtype=object), np.array(ws, dtype=object)
