"""Means of functions of Gaussian arguments: Hermite coefficients by node, tables by their series, planes where that is slow.

Rows of nodes are read block after block; what was read of earlier ones is kept.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.compile.gaussian import ByParts, FactorPlan
from eqsolve.numerics.arrays import ROUNDING, Array
from eqsolve.numerics.quadrature import LineRule, expand_line, mehler, plane_means, product_rule
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.gaussian.law import GaussianLaw
from eqsolve.solvers.paths.modes import Group

_LEAST = ROUNDING / 10  # of E f²: no series is asked to be better


@dataclass(eq=False)
class LawMeans:
    """What is known of the means of one law, node by node.

    ``accuracy`` is relative to √(E f² E g²); ``terms`` is how long series of smooth functions are.
    """

    law: GaussianLaw
    rule: LineRule
    accuracy: float
    size: int
    terms: int = 32  # terms of a series to begin with
    series: dict[int, Array] = field(default_factory=dict)
    breaks: dict[int, Array] = field(default_factory=dict)
    equal: dict[tuple[int, int], Array] = field(default_factory=dict)
    _now: tuple[Kernels, tuple[Group, ...]] | None = None
    _covariances: dict[tuple[int, int], Array] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments, factors = len(self.law.law.arguments), len(self.law.law.factors)
        self.centres, self.spreads = np.zeros((arguments, self.size)), np.zeros((arguments, self.size))
        self.mean, self.magnitude = np.zeros((factors, self.size)), np.zeros((factors, self.size))
        self.power, self.rest = np.zeros((factors, self.size)), np.zeros((factors, self.size))

    @property
    def factors(self) -> tuple[FactorPlan, ...]:
        return self.law.law.factors

    # --- node by node
    def read(self, kernels: Kernels, groups: tuple[Group, ...], rows: slice, wanted: frozenset[int]) -> None:
        """Read the law on rows, for some of the factors; rows before are known."""
        self._now = (kernels, groups)
        self._covariances, self._pairs = {}, {}
        law = self.law.law
        terms = [item for pair, items in law.moments.items() if wanted.issuperset(pair) for item in items]
        wanted |= {place for item in terms for place in (item.first, item.second)}
        wanted |= {factor for place in wanted & law.parts.keys() for factor, _ in law.parts[place]}
        for argument in sorted({place for factor in wanted for place in self.factors[factor].arguments}):
            self.centres[argument, rows] = self.law.mean(argument, rows, groups)
            own = np.diagonal(self._covariance(argument, argument, rows)[:, rows])
            self.spreads[argument, rows] = np.sqrt(np.maximum(own, 0.0))
            self.equal.setdefault((argument, argument), np.zeros(self.size))[rows] = own
        for link in {link for item in terms for link in item.links if len({side for side, _ in link}) < len(link)}:
            first, second = (place for _, place in link)
            made = self.equal.setdefault((first, second), np.zeros(self.size))
            made[rows] = np.diagonal(self._covariance(first, second, rows)[:, rows])
        for place in sorted(wanted, key=lambda place: place in law.parts):
            self._read_parts(place, rows, wanted) if place in law.parts else self._read(place, rows)
        kinds = {place: self.factors[place] for place in sorted(wanted)}
        smooth = [p for p, item in kinds.items() if len(item.arguments) == 1 and item.degree is None and not item.bends]
        least = max(self.accuracy, _LEAST)
        while self.terms < self.rule.most and (self.rest[smooth, rows] > least * self.power[smooth, rows]).any():
            self.terms *= 2
            for place in smooth:
                self.series.pop(place)
                self._read(place, slice(0, rows.stop))

    def _covariance(self, first: int, second: int, rows: slice) -> Array:
        assert self._now is not None
        if (first, second) not in self._covariances:
            self._covariances[first, second] = self.law.covariance(first, second, rows, self._now[1])
        return self._covariances[first, second]

    def _call(self, place: int, rows: slice | Array) -> Callable[[Sequence[Array]], Array]:
        """Return a factor as a function of its arguments on rows, (rows, points) each."""
        assert self._now is not None
        beside = [np.asarray(item)[:, None] if np.ndim(item) else item for item in self.law.beside(self._now[0], rows)]
        function: Any = self.factors[place].function
        return lambda arguments: np.asarray(function(*arguments, *beside)[0], float)

    def _read(self, place: int, rows: slice) -> None:
        plan, height = self.factors[place], rows.stop - rows.start
        function = self._call(place, rows)
        if not plan.arguments:
            values = np.broadcast_to(function([]), (height, 1))[:, 0]
            self.mean[place, rows], self.magnitude[place, rows], self.power[place, rows] = values, np.abs(values), values**2
        elif len(plan.arguments) > 1:
            self._read_product(place, rows)
        else:
            (argument,) = plan.arguments
            centre, spread = self.centres[argument, rows, None], self.spreads[argument, rows, None]
            if plan.degree is not None:
                count = plan.degree + 1
            else:
                count = self.rule.most_bent if plan.bends else self.terms
            if place not in self.series:
                self.series[place] = np.zeros((self.size, count))
            bends = self._breaks(place, rows, centre, spread) if plan.bends else None
            made = expand_line(lambda x: function([centre + spread * x]), height, bends, count, self.rule)
            self.series[place][rows] = made.coefficients
            self.mean[place, rows], self.magnitude[place, rows] = made.coefficients[:, 0], made.size
            self.power[place, rows], self.rest[place, rows] = made.power, made.rest if plan.degree is None else 0.0

    def _breaks(self, place: int, rows: slice, centre: Array, spread: Array) -> Array:
        """Return where a factor bends or jumps, in units of its argument's spread."""
        assert self._now is not None
        plan, beside = self.factors[place], self.law.beside(self._now[0], rows)
        height = rows.stop - rows.start
        zero, one = (
            np.array([np.broadcast_to(value, height) for value in plan.switches(point, *beside)], float)
            for point in (0.0, 1.0)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            found = ((-zero / (one - zero)).T - centre) / spread
        found = np.nan_to_num(found, nan=0.0, posinf=1e3, neginf=-1e3)
        if place not in self.breaks:
            self.breaks[place] = np.zeros((self.size, plan.bends))
        self.breaks[place][rows] = found
        return np.asarray(found)

    def _read_product(self, place: int, rows: slice) -> None:
        """Average a factor of several arguments at one time."""
        arguments = self.factors[place].arguments
        for first in arguments:
            for second in arguments:
                made = self.equal.setdefault((first, second), np.zeros(self.size))
                made[rows] = np.diagonal(self._covariance(first, second, rows)[:, rows])
        joint = np.array([[self.equal[a, b][rows] for b in arguments] for a in arguments]).transpose(2, 0, 1)
        # this is done for every node, not for every pair of them: few arguments can have more
        # points
        more = max(1, 4 // (len(arguments) - 1)) if self.factors[place].degree is None else 1
        points, weights = product_rule(len(arguments), more * self._nodes(place, None))
        spread = _roots(joint) @ points.T
        values = self._call(place, rows)([self.centres[a, rows, None] + spread[:, i] for i, a in enumerate(arguments)])
        values = np.broadcast_to(values, (rows.stop - rows.start, len(weights)))
        self.mean[place, rows], self.magnitude[place, rows] = values @ weights, np.abs(values) @ weights
        self.power[place, rows] = values**2 @ weights

    def _read_parts(self, place: int, rows: slice, wanted: frozenset[int]) -> None:
        """Average a polynomial in some of its arguments at one time, where that is asked for; bound its size."""
        root = np.zeros(rows.stop - rows.start)
        for factor, linear in self.law.law.parts[place]:
            sizes = [np.hypot(self.centres[item, rows], self.spreads[item, rows]) for item in linear]
            root += np.sqrt(self.power[factor, rows]) * np.prod(sizes, axis=0)
        self.power[place, rows], self.magnitude[place, rows], self.mean[place, rows] = root**2, root, 0.0
        alone = [
            other for other in sorted(wanted) if (place, other) in self.law.law.moments and not self.factors[other].arguments
        ]
        for moment in self.law.law.moments[place, alone[0]] if alone else ():
            linked = math.prod((self._link(link, rows)[:, 0] for link in moment.links), start=1.0)
            self.mean[place, rows] += linked * self.mean[moment.first, rows]

    def _link(self, link: tuple[tuple[int, int], ...], rows: slice) -> Array:
        """Return the mean of an argument, or the covariance of two, t on rows and t' on all nodes up to their last."""
        (side, place), *other = link
        if other and other[0][0] != side:
            return self._covariance(place, other[0][1], rows)
        values = self.equal[place, other[0][1]] if other else self.centres[place]
        return values[: rows.stop] if side else values[rows, None]

    def _nodes(self, first: int, second: int | None) -> int:
        """Return how many nodes per variable a product rule needs: few for polynomials."""
        degrees = [self.factors[place].degree for place in (first, second) if place is not None]
        known = [degree for degree in degrees if degree is not None]
        return sum(known) // 2 + 1 if len(known) == len(degrees) else self.rule.product

    # --- pairs
    def pairs(self, first: int, second: int, rows: slice) -> Array:
        """Return E f(t) g(t') with t on rows and t' on all nodes up to the last of them."""
        if (first, second) not in self._pairs:
            self._pairs[first, second] = self._pair(first, second, rows)
        return self._pairs[first, second]

    def _pair(self, first: int, second: int, rows: slice) -> Array:
        stop = rows.stop
        if (first, second) in self.law.law.moments:
            return self._by_parts(self.law.law.moments[first, second], rows)
        left, right = self.factors[first].arguments, self.factors[second].arguments
        if not left or not right:
            return np.multiply.outer(self.mean[first, rows], self.mean[second, :stop])
        if len(left) + len(right) > 2:
            return self._product(first, second, rows)
        covariance = self._covariance(left[0], right[0], rows)
        sizes = np.multiply.outer(self.spreads[left[0], rows], self.spreads[right[0], :stop])
        rho = np.divide(covariance, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        count = min(self.series[place].shape[1] for place in (first, second))
        rho = np.clip(rho, -1.0, 1.0) if count > 2 else rho  # of what is linear the size divides out
        made = mehler(self.series[first][rows, :count], self.series[second][:stop, :count], rho)
        if self.factors[first].degree is not None or self.factors[second].degree is not None:
            return made
        self._mend(made, first, second, rows, rho, count)
        return made

    def _by_parts(self, moments: tuple[ByParts, ...], rows: slice) -> Array:
        total = np.zeros((rows.stop - rows.start, rows.stop))
        for moment in moments:
            linked = math.prod((self._link(link, rows) for link in moment.links), start=1.0)
            if np.any(linked):
                total += linked * self.pairs(moment.first, moment.second, rows)
        return total

    def _mend(self, made: Array, first: int, second: int, rows: slice, rho: Array, count: int) -> None:
        """Integrate over the plane where a series may leave too much."""
        rests, powers = [], []
        for place, part in ((first, rows), (second, slice(0, rows.stop))):
            beyond = (self.series[place][part, count:] ** 2).sum(axis=1)
            rests.append(np.sqrt(self.rest[place, part] + beyond))
            powers.append(np.sqrt(self.power[place, part]))
        left = np.abs(rho) ** count * np.multiply.outer(*rests)
        row, column = np.nonzero(left > max(2 * self.accuracy, _LEAST) * np.multiply.outer(*powers))
        if not len(row):
            return
        nodes = (row + rows.start, column)

        def along(side: int, place: int) -> Callable[[Array, Array], Array]:
            (argument,) = self.factors[place].arguments

            def function(pairs: Array, points: Array) -> Array:
                here = nodes[side][pairs]
                values = self.centres[argument, here, None] + self.spreads[argument, here, None] * points
                return np.asarray(np.broadcast_to(self._call(place, here)([values]), points.shape))

            return function

        bends = tuple(self.breaks[place][at] if place in self.breaks else np.zeros((len(at), 0))
                      for place, at in zip((first, second), nodes, strict=True))  # fmt: skip
        made[row, column] = plane_means(along(0, first), along(1, second), (bends[0], bends[1]), rho[row, column], self.rule)

    def _product(self, first: int, second: int, rows: slice) -> Array:
        """Average a pair of factors with more than two arguments by a product rule."""
        left, right = self.factors[first].arguments, self.factors[second].arguments
        both, split = [*((0, a) for a in left), *((1, b) for b in right)], len(left)
        stop, height = rows.stop, rows.stop - rows.start
        joint = np.zeros((height, stop, len(both), len(both)))
        for (i, one), (j, other) in itertools.product(enumerate(both), repeat=2):
            joint[:, :, i, j] = self._link(tuple(sorted((one, other))), rows)
        points, weights = product_rule(len(both), self._nodes(first, second))
        made = np.empty((height, stop))
        step = max(1, 2_000_000 // (len(weights) * len(both)))  # numbers held at once
        for row in range(height):
            for begin in range(0, stop, step):
                part = slice(begin, min(begin + step, stop))
                spread = _roots(joint[row, part]) @ points.T
                here = np.full(part.stop - part.start, row + rows.start)
                there = np.arange(part.start, part.stop)
                f = self._call(first, here)([self.centres[a, here, None] + spread[:, i] for i, a in enumerate(left)])
                g = self._call(second, there)([self.centres[a, there, None] + spread[:, split + i]
                                               for i, a in enumerate(right)])  # fmt: skip
                made[row, part] = np.broadcast_to(f * g, (len(there), len(weights))) @ weights
        return made


def _roots(joint: Array) -> Array:
    """Return factors L with L Lᵀ the covariances, negative eigenvalues taken as zero."""
    values, vectors = np.linalg.eigh((joint + np.swapaxes(joint, -1, -2)) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])
