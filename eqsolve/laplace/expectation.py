"""Expectations of a transform by adaptive panels of Gauss rules: points with weights, laws with densities.

A source gives a `Rule`, points and weights, that is good for integrands like the one it is shown;
atoms are exact, and densities are cut into panels until each is resolved. So a singularity that
comes close to the support of a law costs panels there, not accuracy.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import mpmath
import numpy as np

from eqsolve.errors import UsageError
from eqsolve.laplace.controls import CONTROLS, GUARD, TINY
from eqsolve.numerics.arrays import EPSILON, Array, tensor_rule
from eqsolve.numerics.laws import LaplaceLaw, MarchenkoPasturLaw, MixtureLaw, NormalLaw, NumericLaw, StudentTLaw, UniformLaw
from eqsolve.numerics.quadrature import LineRule, legendre, panel_nodes, precise_legendre

# Densities of laws in coordinates in which they are smooth, panels on which Gauss rules resolve
# integrands, whole supports. A transform is singular wherever a random denominator vanishes on the
# support, however improbable that is: sequences that go out to its ends find where.


Coordinate = Callable[[Any, Any], Any]
_STEPS = 10.0 ** np.arange(-1, 150.5, 0.5)  # outwards to an infinite end, or, one over it, towards a point


@dataclass(frozen=True)
class DensityPart:
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


def density_parts(law: NumericLaw, digits: int | None = None) -> list[DensityPart]:
    """Return the parts of a law that have a density, each smooth in its own coordinate."""
    reach = 40 if digits is None else int(2.2 * digits**0.5 * 2) + 10
    match law:
        case NormalLaw():
            mean, width = law.mean, law.variance**0.5
            made = DensityPart(
                1, lambda y, lib: mean + width * y, lambda y, lib: lib.exp(-(y**2) / 2) / lib.sqrt(2 * lib.pi), -reach, reach
            )
            return [made] if law.variance != 0 else []
        case UniformLaw():
            ends, span = (law.low, law.high), law.high - law.low
            return [DensityPart(1, lambda y, lib: y, lambda y, lib: 1 / span + 0 * y, *ends, ends)]
        case LaplaceLaw():
            scale = law.scale
            wide = scale * (40 if digits is None else 3 * digits)
            sides = ((-wide, 0 * wide, (-np.inf, 0.0)), (0 * wide, wide, (0.0, np.inf)))
            return [
                DensityPart(0.5, lambda y, lib: y, lambda y, lib: lib.exp(-abs(y) / scale) / scale, *side) for side in sides
            ]
        case StudentTLaw():
            freedom, top = law.freedom, (40 if digits is None else 3 * digits) / law.freedom + 2
            norm = type(freedom)(1 / mpmath.beta(freedom / 2, 0.5))
            made = DensityPart(
                1, lambda y, lib: freedom**0.5 * lib.sinh(y), lambda y, lib: norm * lib.cosh(y) ** -freedom, -top, top
            )
            return [made]
        case MarchenkoPasturLaw():
            return [_marchenko_pastur(law.delta)]
        case MixtureLaw():
            return [
                replace(part, mass=weight * part.mass)
                for weight, component in zip(law.probabilities, law.laws, strict=True)
                if weight != 0
                for part in density_parts(component, digits)
            ]
    if law.has_density:
        raise UsageError(f"the law {law} has a density that the singularity search does not know how to integrate")
    return []


def _marchenko_pastur(delta: Any) -> DensityPart:
    def point(y: Any, lib: Any) -> Any:
        return 1 + 1 / delta - 2 / delta**0.5 * lib.cos(y)

    def density(y: Any, lib: Any) -> Any:
        if delta == 1:  # the lower edge is the hard wall at 0
            return (1 + lib.cos(y)) / lib.pi
        return 2 * lib.sin(y) ** 2 / (lib.pi * point(y, lib))

    ends = ((1 - delta**-0.5) ** 2, (1 + delta**-0.5) ** 2)
    return DensityPart(1, point, density, 0, np.pi if isinstance(delta, float) else +mpmath.pi, ends)


def split(integrands: Callable[[Array], Array], low: float, high: float, tolerance: float = 8 * EPSILON) -> Array:
    """Return the edges of panels on each of which a Gauss rule and its two halves agree, for every integrand."""
    nodes, weights, _ = legendre(LineRule.nodes)
    left = np.linspace(low, high, 9)[:-1]
    right = np.linspace(low, high, 9)[1:]
    done: list[Array] = []
    total: Any = 0.0

    def integrate(a: Array, b: Array) -> tuple[Array, Array]:
        half = (b - a)[:, None] / 2
        values = integrands(a[:, None] + half * (nodes + 1))
        return np.sum(values * (half * weights), axis=-1), np.sum(np.abs(values) * (half * weights), axis=-1)

    for depth in itertools.count():  # panels that are one point are not halved
        middle = (left + right) / 2
        whole, size = integrate(left, right)
        first, second = integrate(left, middle)[0], integrate(middle, right)[0]
        if depth == 0:
            total = size.sum(axis=1, keepdims=True)
        gap = np.abs(whole - first - second)
        total = np.maximum(total, size.max(axis=1, keepdims=True))
        rough = ~(gap <= tolerance * total + TINY).all(axis=0) & (gap > 2 * EPSILON * size).any(axis=0)
        rough &= right - left > 1e-14 * (high - low) * (0.01 + np.abs(middle) / max(abs(low), abs(high)))
        done.append(left[~rough])
        if not rough.any():
            break
        if sum(map(len, done)) + 2 * rough.sum() > CONTROLS.pieces:  # an integrand with a pole on the support
            done.append(left[rough])
            break
        left, right = (np.concatenate([left[rough], middle[rough]]), np.concatenate([middle[rough], right[rough]]))
    return np.append(np.sort(np.concatenate(done)), high)


def law_ladders(law: NumericLaw) -> list[Array]:
    """Return sequences of values that go out to the infinite ends of a law's support, and to 0 and finite ends from inside."""
    ladders = []
    for part in density_parts(law):
        low, high = (float(end) for end in part.support)
        for end, sign in ((low, -1.0), (high, 1.0)):
            ladders.append(sign * _STEPS if np.isinf(end) else end - sign / _STEPS)
        ladders += [sign / _STEPS for sign in (1.0, -1.0)]
        ladders = [ladder[(ladder >= low) & (ladder <= high)] for ladder in ladders[-4:]] + ladders[:-4]
    return [ladder for ladder in ladders if len(ladder) > 20]


@np.errstate(all="ignore")
def extreme_places(look: Callable[[Array], tuple[list[Array], Array]], places: Array) -> list[float]:
    """Return the values at which each column is smallest, and largest."""
    values = []
    for k, column in enumerate(look(places)[0]):
        for sign in (1.0, -1.0):
            place = int(np.argmin(np.where(np.isfinite(column), sign * column, np.inf)))
            low, high = places[max(place - 1, 0)], places[min(place + 1, len(places) - 1)]
            centre = places[place]
            for _ in range(7):  # thirty times closer each time
                grid = np.append(np.linspace(low, high, 65), centre)
                on_grid = look(grid)[0][k]
                centre = grid[int(np.argmin(np.where(np.isfinite(on_grid), sign * on_grid, np.inf)))]
                width = (high - low) / 30
                low, high = max(centre - width, places[0]), min(centre + width, places[-1])
            values.append(float(look(np.array([centre]))[1][0]))
    return values


Probe = Callable[[Mapping[str, Array]], Array]


@dataclass(frozen=True)
class Rule:
    """Points by the names of the random variables, their weights, and the ends of the panels of densities."""

    values: Mapping[str, Array]
    weights: Array
    ends: Mapping[str, Array] = field(default_factory=dict)


class Source:
    """Random variables of a transform: rules for expectations, and where functions of the variables are extreme.

    A subclass offers ``names`` and ``rule``, and overrides what it can say beyond the points of a rule.
    """

    names: tuple[str, ...]
    has_density: bool = False  # whether rules are good away from the support only, as those of a density are

    def stated_laws(self) -> Mapping[str, Any]:
        """Return the laws that were given, by the name of their variable, as messages state them."""
        return {}

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        """Return a rule for integrands like ``probe``, or a general one; ``digits`` asks for mpmath numbers."""
        raise NotImplementedError

    def extremes(self, function: Callable[[Mapping[str, Array]], list[Array]]) -> Mapping[str, Array]:
        """Return where functions are smallest and largest over the support of the law, however little weight that has."""
        return {}

    def ladders(self) -> list[dict[str, Array]]:
        """Return sequences of values that go out to the ends of the support of each variable."""
        return []

    def tail(self, probe: Probe) -> float:
        """Return the share of an expectation from right before the ends of rules of infinite supports."""
        return 0.0


@dataclass(frozen=True)
class PointSource(Source):
    """Finitely many points with their weights."""

    values: Mapping[str, Any]
    weights: Any

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.values)

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        if digits is None:
            return Rule({key: np.asarray(v, dtype=float) for key, v in self.values.items()}, np.asarray(self.weights, float))
        return Rule({key: _exact(v) for key, v in self.values.items()}, _exact(self.weights))


def _exact(values: Any) -> Array:
    return np.array([mpmath.mpf(v) for v in values], dtype=object)


class HasLaw(Protocol):
    """A law in floats, or in mpmath's numbers: a declared law, or a numeric one."""

    def numeric(self, digits: int | None = None) -> NumericLaw: ...


@dataclass(frozen=True)
class LawSource(Source):
    """Independent random variables with given laws; one of them may have a density, or several with few features."""

    laws: Mapping[str, HasLaw]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.laws)

    def stated_laws(self) -> Mapping[str, Any]:
        return self.laws

    @functools.cached_property
    def _smooth(self) -> list[str]:
        return [name for name, law in self.laws.items() if density_parts(law.numeric())]

    @property
    def has_density(self) -> bool:  # type: ignore[override]
        return len(self._smooth) == 1

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        names, smooth = list(self.laws), self._smooth
        atoms = {name: _atoms(self.laws[name], digits) for name in names}
        if len(smooth) != 1:
            more = {name: _join(atoms[name], _resolved(self.laws[name], None, digits)[:2]) for name in smooth}
            return _product({**atoms, **more})
        (name,) = smooth
        rest = _product({key: value for key, value in atoms.items() if key != name})
        pieces = [_product(atoms)] if len(atoms[name][1]) else []
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

    def ladders(self) -> list[dict[str, Array]]:
        usual = {name: self._usual(name) for name in self.laws}
        return [
            {key: ladder if key == name else np.full(len(ladder), usual[key]) for key in self.laws}
            for name in self.laws
            for ladder in law_ladders(self.laws[name].numeric())
        ]

    def _usual(self, name: str) -> float:
        law = self.laws[name]
        points, weights = _atoms(law, None)
        if density_parts(law.numeric()):
            points, weights = _join((points, weights), _resolved(law, None, None)[:2])
        return float(points[int(np.argmax(weights))])

    def tail(self, probe: Probe) -> float:
        largest = 0.0
        usual = {name: self._usual(name) for name in self.laws}
        for name, law in self.laws.items():
            for part in density_parts(law.numeric()):
                y = np.linspace(float(part.low), float(part.high), 401)
                x = part.point(y, np) * np.ones_like(y)
                bodies = probe({key: x if key == name else np.full(len(x), value) for key, value in usual.items()})
                shares = np.nan_to_num(np.abs(bodies * part.density(y, np)), nan=0.0)
                for place, end in ((0, part.support[0]), (-1, part.support[1])):
                    if np.isinf(float(end)):
                        largest = max(largest, float((shares[:, place] / (np.sum(shares, axis=1) + 1e-300)).max()))
        return largest

    def extremes(self, function: Callable[[Mapping[str, Array]], list[Array]]) -> Mapping[str, Array]:
        # one variable may have a density; it is looked at on a grid, and again around the best
        # places, ever closer
        if not self.has_density:
            return {}
        (name,), laws = self._smooth, {name: law.numeric() for name, law in self.laws.items()}
        grids = [part.point(np.linspace(float(part.low), float(part.high), 305), np) for part in density_parts(laws[name])]
        places = np.unique(np.concatenate([*grids, *law_ladders(laws[name])]))
        others = {key: [float(value) for value, _ in law.atoms_of()] for key, law in laws.items() if key != name}
        found: dict[str, list[float]] = {key: [] for key in laws}
        for values in itertools.product(*others.values()):
            given = dict(zip(others, values, strict=True))

            def look(x: Array, given: Mapping[str, float] = given) -> tuple[list[Array], Array]:
                return function({name: x, **{key: np.full(len(x), value) for key, value in given.items()}}), x

            for value in extreme_places(look, places):
                for key in laws:
                    found[key].append(value if key == name else given[key])
        return {key: np.array(column) for key, column in found.items()}


def _atoms(law: HasLaw, digits: int | None) -> tuple[Array, Array]:
    if digits is None:
        table = np.array(law.numeric().atoms_of(), dtype=float).reshape(-1, 2)
        return table[:, 0], table[:, 1]
    with mpmath.workdps(digits + GUARD):
        pairs = law.numeric(digits + GUARD).atoms_of()
        return _exact([value for value, _ in pairs]), _exact([share for _, share in pairs])


def _join(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _product(tables: Mapping[str, tuple[Array, Array]]) -> Rule:
    points, weights = tensor_rule(list(tables.values()))
    return Rule(dict(zip(tables, points, strict=True)), weights)


def _resolved(
    law: HasLaw, probe: Probe | None, digits: int | None, name: str = "", fixed: Mapping[str, Any] | None = None
) -> tuple[Array, Array, Array]:
    rules, corners = [], []
    parts = density_parts(law.numeric(), digits)
    precise: list[Any] = [None] * len(parts)
    if digits is not None:
        with mpmath.workdps(digits + GUARD):
            precise = density_parts(law.numeric(digits + GUARD), digits)
    for part, twin in zip(parts, precise, strict=True):

        def integrands(y: Array, part: DensityPart = part) -> Array:
            x, weight = part.point(y, np), part.density(y, np)
            if probe is None:
                return weight[None] * np.stack([np.ones_like(x), x / (1 + x**2)])
            others = {key: np.full(y.size, float(value)) for key, value in (fixed or {}).items()}
            values = probe({name: x.ravel(), **others})
            return (values * weight.ravel()).reshape(-1, *y.shape)

        edges = split(integrands, part.low, part.high)
        corners.append(part.point(edges, np))
        if digits is None:
            (y,), (weights,) = panel_nodes(edges[None], LineRule.nodes)
            rules.append((part.point(y, np), part.mass * weights * part.density(y, np)))
        else:
            with mpmath.workdps(digits + GUARD):  # as many nodes as the digits need
                ends = [mpmath.mpf(end) for end in (twin.low, *edges[1:-1].tolist(), twin.high)]
                panels = itertools.product(pairwise(ends), precise_legendre(int(1.5 * digits) + 10, digits + 25))
                rule = [(a + (b - a) * (node + 1) / 2, (b - a) / 2 * weight) for (a, b), (node, weight) in panels]
                masses = [twin.mass * mass * twin.density(y, mpmath) for y, mass in rule]
                points = [twin.point(y, mpmath) for y, _ in rule]
            rules.append((np.array(points, dtype=object), np.array(masses, dtype=object)))
    return (*functools.reduce(_join, rules), np.concatenate(corners))


def as_source(laws: Any, names: tuple[str, ...] = ()) -> Source:
    """Return the source behind laws by name, a distribution of a solved fixed point, or a source itself."""
    if hasattr(laws, "source") and names and set(names) <= set(laws.names):
        first = [name for name in names if name == laws.names[0]]
        return laws.source((*first, *(name for name in names if name not in first)))
    if laws is None:
        return PointSource({}, [1.0])
    if isinstance(laws, Source):
        return laws
    if hasattr(laws, "values") and hasattr(laws, "weights") and hasattr(laws, "names"):
        return PointSource(dict(zip(laws.names, laws.values, strict=True)), laws.weights)
    if isinstance(laws, Mapping):
        named = {str(getattr(key, "name", key)): value for key, value in laws.items()}
        for key, value in named.items():
            if not hasattr(value, "numeric"):
                raise UsageError(f"the law of `{key}` must be a law such as Normal(0, 1), got {value!r}")
        return LawSource(named)
    raise UsageError(f"laws= takes a mapping of random variables to laws, or a distribution; got {laws!r}")
