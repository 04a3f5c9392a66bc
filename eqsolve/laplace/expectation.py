"""Where the expectations of a transform are taken: points with weights, laws with densities, solved distributions.

A source gives a `Rule`, points and weights, that is good for integrands like the one it is shown;
atoms are exact, and densities are cut into panels until each is resolved. So a singularity that
comes close to the support of a law costs panels there, not accuracy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.laplace.densities import (
    Part,
    density_parts,
    law_extremes,
    law_ladders,
    legendre_panels,
    precise_rule_of,
    split,
)
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import Law

Probe = Callable[[Mapping[str, Array]], Array]


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
    """Anything that offers a rule: for integrands like ``probe``, or a general one; ``digits`` asks for mpmath numbers.

    It may also offer ``first_rule(probe)``, a cheap one to begin with, ``rule_beside(probe)``, for integrands like those of
    the last rule, and ``extremes(function)``, where functions of its variables are smallest and largest over the support
    of its law, however little weight that has.
    """

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


class HasLaw(Protocol):
    """A law in floats, or in mpmath's numbers: a declared law, or a numeric one."""

    def numeric(self, digits: int | None = None) -> Law: ...


@dataclass(frozen=True)
class LawSource:
    """Independent random variables with given laws; one of them may have a density, or several with few features."""

    laws: Mapping[str, HasLaw]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.laws)

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        names = list(self.laws)
        smooth = [name for name in names if density_parts(self.laws[name].numeric())]
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

    def ladders(self) -> list[dict[str, Array]]:
        """Return values that go out to the ends of the support of each variable, with the others at some place of theirs."""
        usual = {name: self._usual(name) for name in self.laws}
        return [
            {key: ladder if key == name else np.full(len(ladder), usual[key]) for key in self.laws}
            for name in self.laws
            for ladder in law_ladders(self.laws[name].numeric())
        ]

    def _usual(self, name: str) -> float:
        points, weights = _join(_atoms(self.laws[name], None), self._continuous(name))
        return float(points[int(np.argmax(weights))])

    def _continuous(self, name: str) -> tuple[Array, Array]:
        law = self.laws[name]
        return _resolved(law, None, None)[:2] if density_parts(law.numeric()) else (np.zeros(0), np.zeros(0))

    def tail(self, probe: Probe) -> float:
        """Return how much of an expectation comes from right before the ends at which a rule cuts an infinite support off."""
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
        """Return where functions of the variables are smallest and largest over the whole support."""
        return law_extremes({name: law.numeric() for name, law in self.laws.items()}, function)


def _atoms(law: HasLaw, digits: int | None) -> tuple[Array, Array]:
    if digits is None:
        table = np.array(law.numeric().atoms_of(), dtype=float).reshape(-1, 2)
        return table[:, 0], table[:, 1]
    import mpmath

    with mpmath.workdps(digits + 15):
        pairs = law.numeric(digits + 15).atoms_of()
        return _exact([value for value, _ in pairs]), _exact([share for _, share in pairs])


def _join(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _product(tables: Mapping[str, tuple[Array, Array]]) -> Rule:
    if not tables:
        return Rule({}, np.ones(1))
    grids = np.meshgrid(*(points for points, _ in tables.values()), indexing="ij")
    weights = functools.reduce(np.multiply.outer, (w for _, w in tables.values()))
    return Rule({name: grid.ravel() for name, grid in zip(tables, grids, strict=True)}, np.asarray(weights).ravel())


def _resolved(
    law: HasLaw, probe: Probe | None, digits: int | None, name: str = "", fixed: Mapping[str, Any] | None = None
) -> tuple[Array, Array, Array]:
    found, corners = [], []
    parts = density_parts(law.numeric(), digits)
    precise: list[Any] = [None] * len(parts) if digits is None else _precise_parts(law, digits)
    for part, twin in zip(parts, precise, strict=True):

        def integrands(y: Array, part: Part = part) -> Array:
            x, weight = part.point(y, np), part.density(y, np)
            if probe is None:
                return weight[None] * np.stack([np.ones_like(x), x / (1 + x**2)])
            others = {key: np.full(y.size, float(value)) for key, value in (fixed or {}).items()}
            values = probe({name: x.ravel(), **others})
            return (values * weight.ravel()).reshape(-1, *y.shape)

        edges = split(integrands, part.low, part.high)
        corners.append(part.point(edges, np))
        if digits is None:
            y, weights = legendre_panels(edges)
            found.append((part.point(y, np), part.mass * weights * part.density(y, np)))
        else:
            found.append(precise_rule_of(twin, edges, digits))
    return (*functools.reduce(_join, found), np.concatenate(corners))


def _precise_parts(law: HasLaw, digits: int) -> list[Part]:
    import mpmath

    with mpmath.workdps(digits + 15):
        return density_parts(law.numeric(digits + 15), digits)


def as_source(laws: Any, names: tuple[str, ...] = ()) -> Source:
    """Return the source behind laws by name, a distribution of a solved fixed point, or a source itself."""
    if hasattr(laws, "source") and names and set(names) <= set(laws.names):
        first = [name for name in names if name == laws.names[0]]
        return laws.source((*first, *(name for name in names if name not in first)))
    if laws is None:
        return PointSource({}, [1.0])
    if hasattr(laws, "rule") and hasattr(laws, "names"):
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
