"""The Gaussian law of an ensemble on a grid: every unknown as a linear functional of its noises and constants.

U = (1 − O)⁻¹ (start + drives) is solved block after block in time, for functionals instead of paths: a row of U is a row of
weights of the noises at all earlier nodes, of the Gaussian constants, and of one. White noise is a unit normal for each step
between nodes. Means and covariances of everything that is affine follow by matrix products, one law for each combination of
the constants that are conditioned on. Cost: nodes² per node, unknown and noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.compile.gaussian import ByParts, FactorPlan, JointPlan
from eqsolve.compile.stochastic import EnsembleProgram
from eqsolve.numerics.arrays import ROUNDING, Array
from eqsolve.numerics.constants import make_paths
from eqsolve.numerics.laws import NormalLaw
from eqsolve.numerics.quadrature import LineRule, expand_line, mehler, plane_means, product_rule, stacked
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.solvers.paths.modes import Group


@dataclass(frozen=True, eq=False)
class Condition:
    """Values of the constants that are conditioned on, the weight of these, and mean and variance of the Gaussian ones.

    A constant that is affine but not Gaussian has its value as mean, and no variance.
    """

    weight: float
    values: Mapping[str, float]
    centres: Array
    variances: Array


def conditions(plan: JointPlan, names: Sequence[str], laws: Mapping[str, Any], order: int) -> list[Condition]:
    """Return every combination of values of the constants that are not Gaussian coordinates; densities by Gauss rules."""
    free = [name for name in plan.affine if isinstance(laws[name], NormalLaw) and laws[name].variance > 0]
    given = {name: laws[name] for name in names if name not in free}
    nodes = make_paths(given, [{name: order for name, law in given.items() if law.has_density}])
    combinations = []
    for place, weight in enumerate(nodes.weights):
        values = {name: float(column[place]) for name, column in nodes.values.items()}
        centres = [laws[name].mean if name in free else values[name] for name in plan.affine]
        spreads = [laws[name].variance if name in free else 0.0 for name in plan.affine]
        combinations.append(Condition(float(weight), values, np.array(centres, float), np.array(spreads, float)))
    return combinations


@dataclass(eq=False)
class GaussianLaw:
    """The law of one ensemble given one condition; rows are filled in block after block."""

    plan: EnsembleProgram
    law: JointPlan
    condition: Condition
    whites: Mapping[str, Pointwise]  # strengths of the white noises that kick unknowns
    answered: tuple[str, ...]  # those whose responses are asked for
    # weights of the unknowns: (unknown, node, drive, node), and (unknown, node, constant), the last
    # being the weight of one. Drives are the noises, the white ones that are answered, and the
    # steps of all white ones; the weight of a step stands at the node behind it.
    noises: Array
    constants: Array
    by_noises: Array  # those of the signals
    by_constants: Array
    arguments: Array  # those of the Gaussian arguments of what is averaged
    argument_constants: Array

    @classmethod
    def empty(
        cls, plan: EnsembleProgram, law: JointPlan, condition: Condition, size: int, whites: Mapping[str, Pointwise]
    ) -> GaussianLaw:
        mine = {kick.noise: whites[kick.noise] for kick in plan.kicks}
        answered = tuple(name for name in mine if any(mean.noise == name for mean in plan.means))
        drives, fixed = len(plan.noises) + len(answered) + len(mine), len(law.affine) + 1

        def pair(count: int) -> tuple[Array, Array]:
            return np.zeros((count, size, drives, size)), np.zeros((count, size, fixed))

        pairs = [array for count in (len(plan.unknowns), plan.count, len(law.arguments)) for array in pair(count)]
        return cls(plan, law, condition, mine, answered, *pairs)

    @property
    def drives(self) -> tuple[str, ...]:
        """The noises, and the white ones that are answered."""
        return (*self.plan.noises, *self.answered)

    @property
    def steps(self) -> slice:
        """The places of the steps of white noises among the drives."""
        return slice(len(self.drives), len(self.drives) + len(self.whites))

    # --- filling in
    def advance(self, kernels: Kernels, rows: slice) -> None:
        """Fill in the rows of one block of nodes; those before are known."""
        plan, stop, height = self.plan, rows.stop, rows.stop - rows.start
        count, drives, fixed = len(plan.unknowns), self.noises.shape[2], len(self.law.affine) + 1
        offsets, slopes, by_noise, by_constant = self.signals(kernels, rows)
        right = np.zeros((count, height, drives, stop))
        still = np.zeros((count, height, fixed))
        for place, column in enumerate(self._starts()):
            still[place] += column
        local = np.zeros((count, height, count, height))
        here = np.arange(rows.start, stop)
        for link in plan.links:
            matrix = self._outer(kernels, rows, link.unknown, link.coefficient)
            if link.kernel is not None:
                matrix = matrix @ kernels.operator(link.kernel)
            past, own, signal = matrix[:, : rows.start], matrix[:, rows], link.signal
            if rows.start:
                flat = self.by_noises[signal, : rows.start, :, : rows.start].reshape(rows.start, -1)
                right[link.unknown, :, :, : rows.start] += (past @ flat).reshape(height, drives, rows.start)
                still[link.unknown] += past @ self.by_constants[signal, : rows.start]
            still[link.unknown] += own @ np.concatenate([by_constant[signal], offsets[signal][:, None]], axis=1)
            for noise in range(len(plan.noises)):
                right[link.unknown][:, noise, rows] += own * by_noise[signal, noise]
            for other in range(count):
                local[link.unknown, :, other] += own * slopes[signal, other]
        for drive in plan.drives:
            matrix = self._outer(kernels, rows, drive.unknown, drive.coefficient)
            right[drive.unknown, :, plan.noises.index(drive.noise)] += matrix
        for kick in plan.kicks:
            if kick.noise in self.answered:
                matrix = self._outer(kernels, rows, kick.unknown, kick.coefficient)
                right[kick.unknown, :, self.drives.index(kick.noise)] += matrix
            place = self.steps.start + list(self.whites).index(kick.noise)
            # what the steps before the nodes add; strengths may vanish: by their mean
            strength = np.maximum(kernels.vector(self.whites[kick.noise])[:stop], 0.0)
            sizes = np.zeros(stop)
            sizes[1:] = np.sqrt((strength[1:] + strength[:-1]) / 2 * np.diff(kernels.grid.nodes[:stop]))
            if kick.coefficient is not None:
                scale = kernels.vector(kick.coefficient)[:stop]
                sizes[1:] *= (scale[1:] + scale[:-1]) / 2
            right[kick.unknown, :, place] += np.tri(height, stop, rows.start) * sizes
        size = count * height
        everything = np.concatenate([right.reshape(size, drives * stop), still.reshape(size, fixed)], axis=1)
        solved = np.linalg.solve(np.eye(size) - local.reshape(size, size), everything)
        self.noises[:, rows, :, :stop] = solved[:, : drives * stop].reshape(count, height, drives, stop)
        self.constants[:, rows] = solved[:, drives * stop :].reshape(count, height, fixed)
        self.by_noises[:, rows, :, :stop] = np.einsum("kun,undj->kndj", slopes, self.noises[:, rows, :, :stop])
        for noise in range(len(plan.noises)):
            self.by_noises[:, here, noise, here] += by_noise[:, noise]
        self.by_constants[:, rows] = np.einsum("kun,unc->knc", slopes, self.constants[:, rows])
        self.by_constants[:, rows, :-1] += by_constant
        self.by_constants[:, rows, -1] += offsets
        self._arguments(kernels, rows, here)

    def _outer(self, kernels: Kernels, rows: slice, unknown: int, coefficient: Any) -> Array:
        """Return the rows of [J] diag(coefficient)."""
        size = kernels.grid.size
        values = np.ones(size) if coefficient is None else kernels.vector(coefficient)
        rule = kernels.grid.integration[rows] if self.plan.integrated[unknown] else np.eye(size)[rows]
        return np.asarray(rule * values)

    def _starts(self) -> Array:
        """Return the weights of the starts, (unknown, constant)."""
        zero, ones = self._constants(), [self._constants(place) for place in range(len(self.law.affine))]
        first = np.array([float(value) for value in self.plan.starts(*zero)])
        slopes = [np.array([float(value) for value in self.plan.starts(*point)]) - first for point in ones]
        return np.stack([*slopes, first], axis=1)

    def _constants(self, unit: int | None = None) -> list[float]:
        """Return the arguments that are constants, affine ones zero but for one of them."""
        affine = {name: float(place == unit) for place, name in enumerate(self.law.affine)}
        return [affine[name] if name in affine else self.condition.values[name] for name in self.plan.constants]

    def signals(self, kernels: Kernels, rows: slice) -> tuple[Array, Array, Array, Array]:
        """Return signals where all that is Gaussian vanishes, and their slopes by unknowns, noises and constants."""
        plan, height = self.plan, rows.stop - rows.start
        count, drives = len(plan.unknowns), len(plan.noises)
        times, functions = kernels.grid.nodes[rows], [kernels.functions[name][rows] for name in plan.functions]

        def at(function: Callable[..., list[Any]], unit: int | None = None) -> Array:
            return stacked(function(times, *(0.0,) * (count + drives), *self._constants(unit), *functions), height)

        table = at(plan.signals)
        offsets, slopes = table[: plan.count], table[plan.count :].reshape(plan.count, count, height)
        moved = [at(plan.signals, place)[: plan.count] - offsets for place in range(len(self.law.affine))]
        by_constant = np.stack(moved, axis=2) if moved else np.zeros((plan.count, height, 0))
        by_noise = np.zeros((plan.count, drives, height))
        if plan.noise_slopes is not None:
            by_noise = at(plan.noise_slopes).reshape(plan.count, drives, height)
        return offsets, slopes, by_noise, by_constant

    def other_arguments(self, kernels: Kernels, rows: slice | Array) -> list[Any]:
        """Return what functions of Gaussian arguments read besides: time, conditions, functions of time."""
        functions = [kernels.functions[name][rows] for name in self.law.functions]
        return [kernels.grid.nodes[rows], *(self.condition.values[name] for name in self.law.conditions), *functions]

    def _arguments(self, kernels: Kernels, rows: slice, here: Array) -> None:
        stop, other_arguments = rows.stop, self.other_arguments(kernels, rows)
        for place, item in enumerate(self.law.arguments):
            by_noise, by_constant = self.arguments[place], self.argument_constants[place]
            by_noise[rows], by_constant[rows] = 0.0, 0.0
            for (kind, index), value in zip(item.variables, item.coefficients(*other_arguments), strict=True):
                slope = np.broadcast_to(np.asarray(value, float), rows.stop - rows.start)
                if kind == "unknown":
                    by_noise[rows, :, :stop] += slope[:, None, None] * self.noises[index, rows, :, :stop]
                    by_constant[rows] += slope[:, None] * self.constants[index, rows]
                elif kind == "noise":
                    by_noise[here, index, here] += slope
                else:
                    by_constant[rows, index] += slope

    # --- reading
    def mean(self, argument: int, rows: slice, groups: Sequence[Group]) -> Array:
        still = self.argument_constants[argument, rows]
        mean = still[:, :-1] @ self.condition.centres + still[:, -1]
        for group in groups:
            for noise, centre in zip(group.noises, group.centres, strict=True):
                if centre.any():
                    mean = mean + self.arguments[argument, rows, self.plan.noises.index(noise), : len(centre)] @ centre
        return np.asarray(mean)

    def covariance(self, first: int, second: int, rows: slice, groups: Sequence[Group]) -> Array:
        """Return the covariance of an argument on rows with another one on all nodes up to the last of them."""
        stop, condition = rows.stop, self.condition
        mine, yours = self.arguments[first, rows, :, :stop], self.arguments[second, :stop, :, :stop]
        fixed = self.argument_constants[first, rows, :-1] * condition.variances
        total = fixed @ self.argument_constants[second, :stop, :-1].T
        for place in range(self.steps.start, self.steps.stop):
            total = total + mine[:, place] @ yours[:, place].T
        for group in groups:
            places = [self.plan.noises.index(noise) for noise in group.noises]
            size = len(group.centres[0])
            left = mine[:, places].reshape(len(mine), -1)
            if size != stop:
                left = np.pad(mine[:, places], ((0, 0), (0, 0), (0, size - stop))).reshape(len(mine), -1)
            carried = (left @ group.covariance).reshape(len(mine), len(places), size)[:, :, :stop]
            for index, place in enumerate(places):
                total = total + carried[:, index] @ yours[:, place].T
        return np.asarray(total)


# --- Means of functions of Gaussian arguments: Hermite coefficients by node, tables by their
# series, planes where that is slow.
#
# Rows of nodes are read block after block; what was read of earlier ones is kept.

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
    terms: int = 2 * LineRule.nodes  # of a series to begin with
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
        other_arguments = [
            np.asarray(item)[:, None] if np.ndim(item) else item for item in self.law.other_arguments(self._now[0], rows)
        ]
        function: Any = self.factors[place].function
        return lambda arguments: np.asarray(function(*arguments, *other_arguments)[0], float)

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
                count = self.rule.most // 4 if plan.bends else self.terms
            if place not in self.series:
                self.series[place] = np.zeros((self.size, count))
            bends = self._breaks(place, rows, centre, spread) if plan.bends else None
            expansion = expand_line(lambda x: function([centre + spread * x]), height, bends, count, self.rule)
            self.series[place][rows] = expansion.coefficients
            self.mean[place, rows], self.magnitude[place, rows] = expansion.coefficients[:, 0], expansion.size
            self.power[place, rows], self.rest[place, rows] = expansion.power, expansion.rest if plan.degree is None else 0.0

    def _breaks(self, place: int, rows: slice, centre: Array, spread: Array) -> Array:
        """Return where a factor bends or jumps, in units of its argument's spread."""
        assert self._now is not None
        plan, other_arguments = self.factors[place], self.law.other_arguments(self._now[0], rows)
        height = rows.stop - rows.start
        zero, one = (
            np.array([np.broadcast_to(value, height) for value in plan.switches(point, *other_arguments)], float)
            for point in (0.0, 1.0)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            places = ((-zero / (one - zero)).T - centre) / spread
        places = np.nan_to_num(places, nan=0.0, posinf=1e3, neginf=-1e3)
        if place not in self.breaks:
            self.breaks[place] = np.zeros((self.size, plan.bends))
        self.breaks[place][rows] = places
        return np.asarray(places)

    def _read_product(self, place: int, rows: slice) -> None:
        """Average a factor of several arguments at one time."""
        arguments = self.factors[place].arguments
        for first in arguments:
            for second in arguments:
                equal = self.equal.setdefault((first, second), np.zeros(self.size))
                equal[rows] = np.diagonal(self._covariance(first, second, rows)[:, rows])
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
        return sum(known) // 2 + 1 if len(known) == len(degrees) else self.rule.inner

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
        means = mehler(self.series[first][rows, :count], self.series[second][:stop, :count], rho)
        if self.factors[first].degree is not None or self.factors[second].degree is not None:
            return means
        self._integrate_over_plane(means, first, second, rows, rho, count)
        return means

    def _by_parts(self, moments: tuple[ByParts, ...], rows: slice) -> Array:
        total = np.zeros((rows.stop - rows.start, rows.stop))
        for moment in moments:
            linked = math.prod((self._link(link, rows) for link in moment.links), start=1.0)
            if np.any(linked):
                total += linked * self.pairs(moment.first, moment.second, rows)
        return total

    def _integrate_over_plane(self, made: Array, first: int, second: int, rows: slice, rho: Array, count: int) -> None:
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
        means = np.empty((height, stop))
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
                means[row, part] = np.broadcast_to(f * g, (len(there), len(weights))) @ weights
        return means


def _roots(joint: Array) -> Array:
    """Return factors L with L Lᵀ the covariances, negative eigenvalues taken as zero."""
    values, vectors = np.linalg.eigh((joint + np.swapaxes(joint, -1, -2)) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])
