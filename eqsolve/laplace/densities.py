"""Densities of laws in coordinates in which they are smooth, and panels on which Gauss rules resolve integrands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sympy import Expr, S, Symbol, cos, exp, gamma, lambdify, oo, pi, sin, sinh, sqrt

from eqsolve.errors import UsageError
from eqsolve.language.laws import GaussBernoulli, Laplace, Law, MarchenkoPastur, Mixture, Normal, StudentT, Uniform

__all__ = ["Part", "density_parts", "legendre_panels", "part_functions", "precise_rule_of", "split"]

Array = np.ndarray[Any, np.dtype[Any]]
ORDER = 16
DEPTH = 60
PANELS = 400
TOLERANCE = 2e-15
_Y = Symbol("y", real=True)


@dataclass(frozen=True)
class Part:
    """A part of a law with a density: x = point(y), with the density in y, for low < y < high.

    The ends leave out what has no weight in double precision; ``support`` are the true ends, of x.
    """

    mass: Expr
    point: Expr
    density: Expr
    low: Expr
    high: Expr
    support: tuple[Expr, Expr]


def density_parts(law: Law, digits: int | None = None) -> list[Part]:
    """Return the parts of a law that have a density, each smooth in its own coordinate."""
    reach = S(40) if digits is None else S(int(2.2 * digits**0.5 * 2) + 10)
    match law:
        case Normal():
            mean, variance = law.args
            return [_gaussian(S.One, mean, variance, reach)] if variance != 0 else []
        case GaussBernoulli():
            p, variance = law.args
            return [_gaussian(p, S.Zero, variance, reach)] if variance != 0 and p != 0 else []
        case Uniform():
            low, high = law.args
            return [Part(S.One, _Y, 1 / (high - low), low, high, (low, high))]
        case Laplace():
            (scale,) = law.args
            wide = scale * (S(40) if digits is None else S(3 * digits))
            halves = ((-wide, S.Zero, _Y, (-oo, S.Zero)), (S.Zero, wide, -_Y, (S.Zero, oo)))
            return [Part(S.Half, _Y, exp(sign / scale) / scale, low, high, ends) for low, high, sign, ends in halves]
        case StudentT():
            (df,) = law.args
            top = S(40 if digits is None else 3 * digits) / df + 2
            norm = gamma((df + 1) / 2) / (sqrt(pi) * gamma(df / 2))
            density = norm * (1 + sinh(_Y) ** 2) ** (-df / 2)
            return [Part(S.One, sqrt(df) * sinh(_Y), density, -top, top, (-oo, oo))]
        case MarchenkoPastur():
            (delta,) = law.args
            if delta == 1:  # the lower edge is the hard wall at 0
                return [Part(S.One, 2 - 2 * cos(_Y), (1 + cos(_Y)) / pi, S.Zero, pi, (S.Zero, S(4)))]
            middle, half = 1 + 1 / delta, 2 / sqrt(delta)
            point = middle - half * cos(_Y)
            inside = delta * half**2 * sin(_Y) ** 2 / (2 * pi * point)
            return [Part(S.One, point, inside, S.Zero, pi, (middle - half, middle + half))]
        case Mixture():
            return [
                Part(weight * part.mass, part.point, part.density, part.low, part.high, part.support)
                for weight, component in law.args
                for part in density_parts(component, digits)
            ]
    if law.has_density:
        raise UsageError(f"the law {law} has a density that the singularity search does not know how to integrate")
    return []


def _gaussian(mass: Expr, mean: Expr, variance: Expr, reach: Expr) -> Part:
    width = sqrt(variance)
    return Part(mass, mean + width * _Y, exp(-(_Y**2) / 2) / sqrt(2 * pi), -reach, reach, (-oo, oo))


@functools.lru_cache(maxsize=128)
def part_functions(point: Expr, density: Expr) -> tuple[Any, Any]:
    return lambdify(_Y, point, "numpy"), lambdify(_Y, density, "numpy")


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
        left, right = (
            np.concatenate([left[rough], middle[rough]]),
            np.concatenate([middle[rough], right[rough]]),
        )
    else:
        done.append(left)
    return np.append(np.sort(np.concatenate(done)), high)


def precise_rule_of(part: Part, edges: Array, digits: int) -> tuple[Array, Array]:
    """Return a rule in mpmath numbers on the same panels, with as many nodes as the digits need."""
    import mpmath

    with mpmath.workdps(digits + 15):
        nodes, weights = _precise_legendre(int(1.5 * digits) + 10, digits + 15)
        point, density = (lambdify(_Y, expr, "mpmath") for expr in (part.point, part.density))
        mass, low, high = (mpmath.mpf(str(value.evalf(digits + 15))) for value in (part.mass, part.low, part.high))
        ends = [low, *(mpmath.mpf(float(edge)) for edge in edges[1:-1]), high]
        xs, ws = [], []
        for a, b in pairwise(ends):
            for node, weight in zip(nodes, weights, strict=True):
                y = a + (b - a) * (node + 1) / 2
                xs.append(point(y))
                ws.append(mass * weight * (b - a) / 2 * density(y))
        return np.array(xs, dtype=object), np.array(ws, dtype=object)


@functools.lru_cache(maxsize=4)
def _precise_legendre(order: int, digits: int) -> tuple[list[Any], list[Any]]:
    """Return Gauss-Legendre nodes and weights in mpmath numbers, by Newton's method from the double ones."""
    import mpmath

    start, _ = np.polynomial.legendre.leggauss(order)
    nodes, weights = [], []
    with mpmath.workdps(digits + 10):
        for x0 in start:
            x = mpmath.mpf(float(x0))
            for _ in range(12):
                before, value = mpmath.mpf(1), x
                for k in range(2, order + 1):
                    before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
                slope = order * (x * value - before) / (x * x - 1)
                step = value / slope
                x -= step
                if abs(step) < mpmath.mpf(10) ** (-digits - 5):
                    break
            before, value = mpmath.mpf(1), x
            for k in range(2, order + 1):
                before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
            slope = order * (x * value - before) / (x * x - 1)
            nodes.append(x)
            weights.append(2 / ((1 - x * x) * slope**2))
    return nodes, weights
