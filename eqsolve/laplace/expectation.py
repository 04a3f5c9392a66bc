"""Where the expectations of a transform are taken: points with weights, laws with densities, solved distributions.

A source gives a `Rule`, points and weights, that is good for integrands like the one it is shown; atoms are exact, and
densities are cut into panels until each is resolved. So a singularity that comes close to the support of a law costs
panels there, not accuracy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from sympy import Expr, Rational, S, Symbol, cos, exp, gamma, lambdify, pi, sin, sinh, sqrt

from eqsolve.errors import UsageError
from eqsolve.language.laws import (
    GaussBernoulli,
    Laplace,
    Law,
    MarchenkoPastur,
    Mixture,
    Normal,
    StudentT,
    Uniform,
)

__all__ = ["LawSource", "PointSource", "Rule", "Source", "as_source"]

Array = np.ndarray[Any, np.dtype[Any]]
Probe = Callable[[Mapping[str, Array]], Array]
ORDER = 16
DEPTH = 60
PANELS = 400
TOLERANCE = 2e-15


@dataclass(frozen=True)
class Rule:
    """Points by the names of the random variables, their weights, and the ends of the panels of densities."""

    values: Mapping[str, Array]
    weights: Array
    ends: Mapping[str, Array] = field(default_factory=dict)

    def mean(self, function: Callable[..., Array]) -> Any:
        """Return the expectation of a function of the variables, in the order of their names."""
        return function(**self.values) @ self.weights


class Source(Protocol):
    """Anything that offers a rule: for integrands like ``probe``, or a general one; ``digits`` asks for mpmath numbers."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule: ...


@dataclass(frozen=True)
class PointSource:
    """Finitely many points with their weights."""

    values: Mapping[str, Any]
    weights: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        if digits is None:
            return Rule({key: np.asarray(v, dtype=float) for key, v in self.values.items()}, np.asarray(self.weights, float))
        return Rule({key: _exact(v) for key, v in self.values.items()}, _exact(self.weights))


def _exact(values: Any) -> Array:
    import mpmath

    return np.array([mpmath.mpf(v) for v in values], dtype=object)


@dataclass(frozen=True)
class Part:
    """A part of a law with a density: x = point(y), with the density in y, for low < y < high."""

    mass: Expr
    point: Expr
    density: Expr
    low: Expr
    high: Expr


_Y = Symbol("y", real=True)


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
            return [Part(S.One, _Y, 1 / (high - low), low, high)]
        case Laplace():
            (scale,) = law.args
            wide = scale * (S(40) if digits is None else S(3 * digits))
            halves = ((-wide, S.Zero, _Y), (S.Zero, wide, -_Y))
            return [Part(S.Half, _Y, exp(sign / scale) / scale, low, high) for low, high, sign in halves]
        case StudentT():
            (df,) = law.args
            top = S(40 if digits is None else 3 * digits) / df + 2
            norm = gamma((df + 1) / 2) / (sqrt(pi) * gamma(df / 2))
            density = norm * (1 + sinh(_Y) ** 2) ** (-df / 2)
            return [Part(S.One, sqrt(df) * sinh(_Y), density, -top, top)]
        case MarchenkoPastur():
            (delta,) = law.args
            if delta == 1:  # the lower edge is the hard wall at 0
                return [Part(S.One, 2 - 2 * cos(_Y), (1 + cos(_Y)) / pi, S.Zero, pi)]
            middle, half = 1 + 1 / delta, 2 / sqrt(delta)
            point = middle - half * cos(_Y)
            inside = delta * half**2 * sin(_Y) ** 2 / (2 * pi * point)
            return [Part(S.One, point, inside, S.Zero, pi)]
        case Mixture():
            return [
                Part(weight * part.mass, part.point, part.density, part.low, part.high)
                for weight, component in law.args
                for part in density_parts(component, digits)
            ]
    if law.has_density:
        raise UsageError(f"the law {law} has a density that the singularity search does not know how to integrate")
    return []


def _gaussian(mass: Expr, mean: Expr, variance: Expr, reach: Expr) -> Part:
    width = sqrt(variance)
    return Part(mass, mean + width * _Y, exp(-(_Y**2) / 2) / sqrt(2 * pi), -reach, reach)


@dataclass(frozen=True)
class LawSource:
    """Independent random variables with given laws; one of them may have a density, or several with few features."""

    laws: Mapping[str, Law]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.laws)

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        names = list(self.laws)
        smooth = [name for name in names if density_parts(self.laws[name])]
        atoms = {name: _atoms(self.laws[name], digits) for name in names}
        tables = {name: atoms[name] for name in names}
        if len(smooth) > 1:
            for name in smooth:
                tables[name] = _join(atoms[name], _resolved(self.laws[name], None, digits)[:2])
            return _product(tables)
        base = _product(tables)
        if not smooth:
            return base
        name = smooth[0]
        rest = _product({key: value for key, value in atoms.items() if key != name})
        pieces = [] if not len(atoms[name][1]) else [base]
        corners: dict[str, list[Array]] = {key: [] for key in names}
        for index in range(len(rest.weights)):
            fixed = {key: value[index] for key, value in rest.values.items()}
            points, weights, ends = _resolved(self.laws[name], probe, digits, name, fixed)
            for key in names:
                corners[key].append(ends if key == name else np.full(len(ends), fixed[key]))
            values = {key: np.full(len(points), fixed[key]) if key != name else points for key in names}
            pieces.append(Rule(values, weights * rest.weights[index]))
        return Rule(
            {key: np.concatenate([piece.values[key] for piece in pieces]) for key in names},
            np.concatenate([piece.weights for piece in pieces]),
            {key: np.concatenate(column) for key, column in corners.items()} if digits is None else {},
        )


def _atoms(law: Law, digits: int | None) -> tuple[Array, Array]:
    pairs = law.atoms_of()
    if digits is None:
        table = np.array(pairs, dtype=float).reshape(-1, 2)
        return table[:, 0], table[:, 1]
    # probabilities and values are spelled in decimals; the floats stand for them
    return tuple(_exact([_rational(pair[k]) for pair in pairs]) for k in (0, 1))  # type: ignore[return-value]


def _rational(value: float) -> Any:
    import mpmath

    near = Rational(repr(value)).limit_denominator(10**9)
    chosen = near if abs(float(near) - value) <= 4e-16 * abs(value) else Rational(value)
    return mpmath.mpf(chosen.p) / chosen.q


def _join(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _product(tables: Mapping[str, tuple[Array, Array]]) -> Rule:
    if not tables:
        return Rule({}, np.ones(1))
    grids = np.meshgrid(*(points for points, _ in tables.values()), indexing="ij")
    weights = functools.reduce(np.multiply.outer, (w for _, w in tables.values()))
    return Rule({name: grid.ravel() for name, grid in zip(tables, grids, strict=True)}, np.asarray(weights).ravel())


def _resolved(
    law: Law, probe: Probe | None, digits: int | None, name: str = "", fixed: Mapping[str, Any] | None = None
) -> tuple[Array, Array, Array]:
    found, corners = [], []
    for part in density_parts(law, digits):
        point, density = _functions(part.point, part.density)
        low, high, mass = float(part.low), float(part.high), float(part.mass)

        def integrands(y: Array, point: Any = point, density: Any = density) -> Array:
            x = point(y) * np.ones_like(y)
            weight = density(y) * np.ones_like(y)
            if probe is None:
                return weight[None] * np.stack([np.ones_like(x), x / (1 + x**2)])
            others = {key: np.full(y.size, float(value)) for key, value in (fixed or {}).items()}
            values = probe({name: x.ravel(), **others})
            return (values * weight.ravel()).reshape(-1, *y.shape)

        edges = split(integrands, low, high)
        corners.append(point(edges) * np.ones_like(edges))
        if digits is None:
            y, weights = _legendre_panels(edges)
            found.append((point(y) * np.ones_like(y), mass * weights * density(y)))
        else:
            found.append(_precise(part, edges, digits))
    return (*functools.reduce(_join, found), np.concatenate(corners))


@functools.lru_cache(maxsize=128)
def _functions(point: Expr, density: Expr) -> tuple[Any, Any]:
    return lambdify(_Y, point, "numpy"), lambdify(_Y, density, "numpy")


@functools.lru_cache(maxsize=4)
def _legendre(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


def _legendre_panels(edges: Array) -> tuple[Array, Array]:
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


def _precise(part: Part, edges: Array, digits: int) -> tuple[Array, Array]:
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


def as_source(laws: Any) -> Source:
    """Return the source behind laws by name, a distribution of a solved fixed point, or a source itself."""
    if laws is None:
        return PointSource({}, [1.0])
    if hasattr(laws, "rule") and hasattr(laws, "names"):
        return laws
    if hasattr(laws, "values") and hasattr(laws, "weights") and hasattr(laws, "names"):
        return PointSource(dict(zip(laws.names, laws.values, strict=True)), laws.weights)
    if isinstance(laws, Mapping):
        named = {str(getattr(key, "name", key)): value for key, value in laws.items()}
        for key, value in named.items():
            if not isinstance(value, Law):
                raise UsageError(f"the law of `{key}` must be a law such as Normal(0, 1), got {value!r}")
        return LawSource(named)
    raise UsageError(f"laws= takes a mapping of random variables to laws, or a distribution; got {laws!r}")
