"""The law of a random variable of a solved fixed point: exact atoms, density, cumulative probabilities, expectations.

A variable is a function of points and Gaussians, smooth between kinks. Its law is the image of theirs: where the
function is constant along a Gaussian there is an atom, elsewhere a density φ(x)/|slope| summed over the places where
the value is met.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import logger
from eqsolve.laplace.controls import CONTROLS
from eqsolve.laplace.expectation import Probe, Rule, Source, extreme_places
from eqsolve.numerics.arrays import Array, special
from eqsolve.numerics.constants import draw_constants
from eqsolve.numerics.increasing import increasing_roots
from eqsolve.numerics.quadrature import (
    Evaluator,
    LineRule,
    LineSet,
    adapt,
    expectations,
    lines_along,
    normal_density,
    stacked,
)
from eqsolve.results.distribution import Distribution, Histogram, midpoints, probabilities, shaped

if TYPE_CHECKING:
    from eqsolve.solvers.fixed_point.solve import FixedPointSolution


# --- The law of some variables of a solved fixed point, as the expectations of a transform take it:
# with its tails.
_LOOK = np.linspace(-38, 38, 760)  # where extremes of a law are looked for first, ends of pieces
_ACROSS = tuple(LineRule.nodes * 2**k for k in range(5))  # nodes across lines, tried until expectations converge
_OUTWARDS = 10.0 ** np.arange(0, 8.25, 0.25)  # of a Gaussian variable, to see whether something has a bound


def _general(values: Mapping[str, Array]) -> Array:
    """What a rule for no integrand in particular must resolve."""
    v = next(iter(values.values()))
    return np.stack([np.ones_like(v), v, np.sqrt(1 + v * v)])


class VariableEvaluator(Evaluator):
    """Evaluates functions of the variables of a law, a row each, instead of the fixed point's own integrands."""

    def __init__(self, law: FixedPointLaw, function: Callable[[Array], Array]) -> None:
        problem = law.solution.problem
        super().__init__(problem.plan, problem.parameters, law.solution.point.values[:, None])
        self.law, self.function = law, function

    def values(self, lines: LineSet, at: Array, x: Array, signs: Sequence[Array]) -> Array:
        return self.function(self.law.at(self, lines, at, x, signs))


def _probed(law: FixedPointLaw, probe: Probe) -> VariableEvaluator:
    return VariableEvaluator(law, lambda columns: probe(dict(zip(law.names, columns, strict=True))))


@dataclass(frozen=True, eq=False)
class SolutionSource(Source):
    """The joint law of some variables of a solved fixed point, as a source of expectations; its points are not used."""

    law: FixedPointLaw
    names: tuple[str, ...]
    precise_solution: Any = None
    has_density = True

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        law, integrands = self.law, _probed(self.law, probe or _general)
        if digits is not None:
            # in mpmath numbers, on panels that resolve the transform's integrands too
            columns, weights = self.precise_solution.law_nodes(self.names, integrands, law.lines(self.names), digits)
            return Rule(dict(zip(self.names, columns, strict=True)), weights)
        # nodes across, for transforms of several variables
        lines = law.lines(self.names, None if len(self.names) == 1 else _ACROSS[2])
        mesh = adapt(integrands, lines, tolerance=1e-15, rounds=40, most=CONTROLS.pieces)
        at, x, share, signs = mesh.nodes()
        values = law.at(integrands, lines, at, x, signs)
        return Rule({name: values[law.names.index(name)] for name in self.names}, share)

    def extremes(self, function: Callable[[Mapping[str, Array]], list[Array]]) -> Mapping[str, Array]:
        """Return where functions of the variable are smallest and largest over its support, however improbable that is.

        Every line of the law is looked at on a grid, and again around the best place, ever closer.
        """
        if len(self.names) > 1:
            return {}
        law, lines = self.law, self.law.lines(self.names)
        integrands, name = _probed(law, _general), self.names[0]

        def look(at: Array, x: Array) -> tuple[list[Array], Array]:
            values = law.at(integrands, lines, np.broadcast_to(at, x.shape), x, None)[law.names.index(name)]
            return function({name: values}), values

        line = np.repeat(np.arange(len(lines.weight)), len(_LOOK))
        columns, _ = look(line, np.tile(_LOOK, len(lines.weight)))
        best = {int(line[place(column)]) for column in columns for place in (np.nanargmin, np.nanargmax)}
        extremes = [value for row in best for value in extreme_places(functools.partial(look, np.array(row)), _LOOK)]
        return {name: np.unique(extremes)}

    def ladders(self) -> list[dict[str, Array]]:
        """Return values of the variables that go out along every Gaussian direction, as far as they can be computed."""
        law, lines = self.law, self.law.lines(self.names, None if len(self.names) == 1 else 2)
        going, size = np.flatnonzero(~lines.is_point), len(_OUTWARDS)
        if not len(going):
            return []
        x = np.tile(np.concatenate([_OUTWARDS, -_OUTWARDS]), len(going))
        columns = law.at(_probed(law, _general), lines, np.repeat(going, 2 * size), x, None)
        ladders = []
        for begin in range(0, len(x), size):
            part = columns[:, begin : begin + size]
            good = np.isfinite(part).all(axis=0)
            if good.sum() > size // 2:
                ladders.append({name: part[law.names.index(name)][good] for name in self.names})
        return ladders


def _normal_mass(low: Array, high: Array) -> Array:
    """Return the normal probability between two values, from the nearer tail."""
    return np.where(high > 0, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))


@dataclass(frozen=True)
class _Segments:
    """Short pieces of the lines on which a variable is monotone: places, signs, values at both ends, probabilities."""

    lines: LineSet
    row: Array
    left: Array
    right: Array
    signs: Array
    low: Array
    high: Array
    mass: Array
    constant: Array


@dataclass(frozen=True, eq=False, repr=False)
class FixedPointLaw(Distribution):
    """The exact law of a variable with the random constants; the points and weights are those of the quadrature."""

    solution: FixedPointSolution
    _made_lines: dict[Any, LineSet] = field(default_factory=dict, init=False)
    _made: dict[int, _Segments] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, solution: FixedPointSolution, name: str) -> FixedPointLaw:
        """Return the law of a variable of a solved model, jointly with the random constants."""
        empty = cls.without_points(solution, name)
        integrands = VariableEvaluator(empty, lambda values: np.stack([np.ones_like(values[0]), values[0], values[0] ** 2]))
        lines = empty.lines(empty.names)
        at, x, share, signs = adapt(integrands, lines).nodes()
        return cls(empty.names, empty.at(integrands, lines, at, x, signs), share, solution)

    @classmethod
    def without_points(cls, solution: FixedPointSolution, name: str) -> FixedPointLaw:
        """Return the same law for everything but its points and weights, which are left out."""
        names = (name, *(item for item in solution.problem.plan.constants if item != name))
        return cls(names, np.zeros((len(names), 1)), np.ones(1), solution)

    def at(self, integrands: Evaluator, lines: LineSet, at: Array, x: Array, signs: Sequence[Array] | None) -> Array:
        """Return the variables at points of lines."""
        full = integrands.arguments(lines, at, x, signs)
        with np.errstate(all="ignore"):
            return stacked(self.solution.problem.plan.piece("variables", *self.names)(*full), len(x))

    def source(self, names: tuple[str, ...]) -> SolutionSource:
        """Return the law of some variables as the expectations of a transform take it: with its tails, not as points."""
        return SolutionSource(FixedPointLaw.without_points(self.solution, names[0]), names)

    @functools.cached_property
    def _evaluator(self) -> Evaluator:
        return self.solution.problem.integrands(self.solution.point.values)

    def lines(self, names: Sequence[str], outer: int | None = None) -> LineSet:
        """Return lines that suit functions of some variables: along the first of them, with nodes across for the others."""
        problem = self.solution.problem
        across = outer if outer is not None else None if len(names) == 1 else _ACROSS[0]
        key = (names[0], across)
        if key not in self._made_lines:
            self._made_lines[key] = lines_along(
                problem.plan, problem.parts, problem.parameters, self._evaluator.unknowns, names[0], across
            )
        return self._made_lines[key]

    # --- expectations
    def expect(self, function: Callable[..., Any]) -> Any:
        """Return the mean of a function of the variables, refined to about 1e-14 where the function is smooth.

        The function takes arrays, and may return several rows; its arguments are matched by name.
        """

        def rows_of(columns: Array) -> Array:
            rows, size = self.call(function, columns), columns.shape[1]
            return np.array(np.broadcast_to(np.asarray(rows, dtype=float), (*np.shape(rows)[:-1], size))).reshape(-1, size)

        integrands, names = VariableEvaluator(self, rows_of), self.used(function)
        lines = self.lines(names)
        if not lines.exact or (len(names) > 1 and lines.turned):
            means = self._converged(integrands, names)
        else:
            means = expectations(integrands, adapt(integrands, lines))[:, 0]
        return float(means[0]) if len(means) == 1 else means

    def _converged(self, integrands: Evaluator, names: Sequence[str]) -> Array:
        """Return means over several Gaussians, with more nodes across until they no longer change."""
        before, gap = np.array([np.inf]), np.inf
        for outer in _ACROSS:
            means = expectations(integrands, adapt(integrands, self.lines(names, outer)))[:, 0]
            with np.errstate(invalid="ignore"):
                gap = float(np.max(np.abs(means - before) / np.maximum(np.abs(means), 1e-300)))
            if gap < 1e-13 or (gap < 1e-11 and outer > _ACROSS[1]):
                return means
            before = means
        logger.warning("a mean over several Gaussians is known to %.0e only: the function is not smooth in all", gap)
        return means

    def used(self, function: Callable[..., Any]) -> tuple[str, ...]:
        """Return the variables that a function takes, in their own order."""
        words = self.words(function)
        if words and set(words) <= set(self.names):
            return tuple(name for name in self.names if name in words)
        return self.names[: len(words) or len(self.names)]

    def mean(self, name: str | None = None) -> float:
        return float(self.marginal(self.names[self._place(name)]).expect(lambda value: value))

    def var(self, name: str | None = None) -> float:
        mean = self.mean(name)
        return float(self.marginal(self.names[self._place(name)]).expect(lambda value: (value - mean) ** 2))

    def sample(self, n: int, seed: int = 0) -> Array:
        """Draw n points exactly: the random constants and Gaussians are drawn, the variables computed from them."""
        plan, laws = self.solution.problem.plan, self.solution.at.laws
        rng = np.random.default_rng(seed)
        drawn = draw_constants({name: laws[name] for name in plan.constants}, n, rng)
        constants, normals = drawn.values(), [rng.standard_normal(n) for _ in plan.normals]
        return self._variables(self.names, [*normals, *constants], n)

    def _variables(self, names: Sequence[str], random: Sequence[Array], n: int) -> Array:
        """Return variables at values of the Gaussians and the random constants."""
        problem = self.solution.problem
        full = problem.plan.run_stages([*problem.parameters, *self.solution.point.values, *random], n)
        with np.errstate(all="ignore"):
            return stacked(problem.plan.piece("variables", *names)(*full), n)

    def given_constants(self, count: int, most: int) -> list[tuple[Array, float, Array]] | None:
        """Return (values of the random constants, their probability, the variable at equally likely points, in order).

        Only where the constants have at most ``most`` values together, and one Gaussian variable is left; None otherwise.
        """
        problem = self.solution.problem
        plan, parts = problem.plan, problem.parts
        smooth = any(not part.exact or part.numbers[2].any() for part in parts)
        if smooth or len(plan.normals) != 1 or len(parts) > most:
            return None
        gaussian = special.ndtri(midpoints(count))
        parts_given = []
        for part in parts:
            share, constants, _ = part.numbers
            values = self._variables(self.names[:1], [gaussian, *(np.full(count, c) for c in constants)], count)[0]
            parts_given.append((constants, share, np.sort(values)))
        return parts_given

    # --- one variable
    def _segments(self, name: str | None) -> _Segments:
        place = self._place(name)
        if place not in self._made:
            self._made[place] = self._cut(place)
        return self._made[place]

    def _cut(self, place: int) -> _Segments:
        lines, integrands = self.lines((self.names[place],)), self._evaluator
        moving = np.flatnonzero(~lines.is_point)
        kinks = integrands.kinks(lines)[moving]
        ends = np.sort(np.concatenate([np.broadcast_to(_LOOK, (len(moving), len(_LOOK))), kinks], axis=1), axis=1)
        row = np.repeat(moving, ends.shape[1] - 1)
        left, right = ends[:, :-1].ravel(), ends[:, 1:].ravel()
        keep = right > left
        points = np.flatnonzero(lines.is_point)
        row = np.concatenate([row[keep], points])
        left, right = (np.concatenate([side[keep], np.zeros(len(points))]) for side in (left, right))
        middle = (left + right) / 2
        signs = integrands.signs(lines, row, middle)
        low, centre, high = (self.at(integrands, lines, row, x, list(signs.T))[place] for x in (left, middle, right))
        mass = np.where(right > left, _normal_mass(left, right), 1.0) * lines.weight[row]
        constant = (low == high) & (low == centre)
        return _Segments(lines, row, left, right, signs, low, high, mass, constant)

    def _crossings(self, x: Array, name: str | None) -> tuple[Array, Array, Array, Array]:
        """Return (which x, segment, place on the row, slope there) of every place where the variable equals an x."""
        pieces, place = self._segments(name), self._place(name)
        small, large = np.minimum(pieces.low, pieces.high), np.maximum(pieces.low, pieces.high)
        inside = (x[:, None] > small) & (x[:, None] < large) & ~pieces.constant
        which, segment = np.nonzero(inside)
        row, signs = pieces.row[segment], pieces.signs[segment]
        up = np.where(pieces.high[segment] > pieces.low[segment], 1.0, -1.0)
        plan, lines, variable = self.solution.problem.plan, pieces.lines, self.names[place]

        def value_and_slope(at: Array, places: Array) -> tuple[Array, Array]:
            here = row[places]
            full = self._evaluator.arguments(lines, here, at, list(signs[places].T))
            value = stacked(plan.piece("variables", *self.names)(*full), len(at))[place]
            slopes = stacked(plan.piece("variable slopes", variable)(*full), len(at))
            slope = (slopes * (lines.scale[here] * lines.direction[here]).T).sum(axis=0)
            return up[places] * value, up[places] * slope

        ends = (pieces.left[segment], pieces.right[segment])
        with np.errstate(all="ignore"):
            found = increasing_roots(value_and_slope, up * x[which], *ends) if len(which) else np.zeros(0)
            slope = value_and_slope(found, np.arange(len(found)))[1] if len(which) else np.zeros(0)
        return which, segment, found, slope

    def density(self, x: Any, name: str | None = None) -> Any:
        """Return the density of the continuous part (atoms are left out)."""
        wanted = np.atleast_1d(np.asarray(x, dtype=float))
        which, segment, place, slope = self._crossings(wanted, name)
        pieces = self._segments(name)
        weights = pieces.lines.weight[pieces.row[segment]] * normal_density(place) / slope
        return shaped(np.bincount(which, weights=weights, minlength=len(wanted)), x)

    def cdf(self, x: Any, name: str | None = None) -> Any:
        """Return the probability of values up to and including x."""
        return shaped(self._below(np.atleast_1d(np.asarray(x, float)), name, strictly=False), x)

    def _below(self, x: Array, name: str | None, strictly: bool) -> Array:
        pieces = self._segments(name)
        total, side = np.zeros(len(x)), "left" if strictly else "right"
        for constant in (False, True):
            chosen = pieces.constant == constant
            large, masses = np.maximum(pieces.low, pieces.high)[chosen], pieces.mass[chosen]
            order = np.argsort(large, kind="stable")
            sums = np.append(0.0, np.cumsum(masses[order]))
            total += sums[np.searchsorted(large[order], x, side=side if constant else "right")]  # type: ignore[call-overload]
        which, segment, place, _ = self._crossings(x, name)
        rising = pieces.high[segment] > pieces.low[segment]
        start = np.where(rising, pieces.left[segment], place)
        stop = np.where(rising, place, pieces.right[segment])
        masses = _normal_mass(start, stop) * pieces.lines.weight[pieces.row[segment]]
        total += np.bincount(which, weights=masses, minlength=len(x))
        return np.minimum(total, 1.0)

    def atoms(self, name: str | None = None) -> list[tuple[float, float]]:
        """Return the exact (value, probability) pairs of the point masses."""
        pieces = self._segments(name)
        values, inverse = np.unique(np.round(pieces.low[pieces.constant], 13), return_inverse=True)
        mass = np.bincount(inverse.ravel(), weights=pieces.mass[pieces.constant], minlength=len(values))
        return [(float(v) + 0.0, float(m)) for v, m in zip(values, mass, strict=True) if m > 0]

    def quantile(self, q: Any, name: str | None = None) -> Any:
        """Return the smallest value whose cumulative probability reaches q; more than 200 levels are interpolated."""
        wanted = probabilities(q)
        values, below, upto = self._table(name)
        if len(wanted) > 200:
            places, levels = np.repeat(values, 2), np.stack([below, upto], axis=1).ravel()
            return np.interp(wanted, levels, places)
        place = np.minimum(np.searchsorted(upto, wanted, side="left"), len(values) - 1)
        high = values[place]
        low = np.where(place > 0, values[np.maximum(place - 1, 0)], high)
        exact = below[place] < wanted  # the level falls into the jump at this value
        values_at, between = high.copy(), ~exact & (high > low)

        def value_and_slope(at: Array, places: Array) -> tuple[Array, Array]:
            return self._below(at, name, strictly=False), self.density(at, name)

        if between.any():
            values_at[between] = increasing_roots(value_and_slope, wanted[between], low[between], high[between])
        return shaped(values_at, q)

    def _table(self, name: str | None) -> tuple[Array, Array, Array]:
        """Return values of the variable with the probabilities of less, and of at most, each."""
        pieces = self._segments(name)
        values = np.unique(np.concatenate([pieces.low, pieces.high]))
        values = values[np.isfinite(values)]
        return values, self._below(values, name, strictly=True), self._below(values, name, strictly=False)

    def histogram(self, bins: Any = 50, name: str | None = None) -> Histogram:
        """Return the exact probabilities of bins."""
        edges = self._edges(bins, name)
        below = self._below(edges, name, strictly=True)
        below[-1] = self._below(edges[-1:], name, strictly=False)[0]
        return Histogram(edges, np.diff(below))

    def marginal(self, name: str) -> FixedPointLaw:
        return FixedPointLaw((name,), self[name][None], self.weights, self.solution)
