"""Averages of functions with a kink at a solution, and their error.

They act back on nothing, so that paths are enough, without responses. By pre-integration (Griebel,
Kuo & Sloan, Math. Comp. 82, 383 (2013), doi:10.1090/S0025-5718-2012-02578-6): along lines in which
the function switches most, paths are interpolated and the function is integrated finely; over the
lines a sparse grid averages. Where that does not converge, or paths themselves have kinks:
independent scrambled Sobol sets of paths, as large as their spread asks for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import EnsembleProgram, MeanProgram
from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import EPSILON, Array, chunk
from eqsolve.numerics.gaussian import Level, PointLayout, spread_lines, star
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.paths.controls import EnsembleControls, PathsControls
from eqsolve.solvers.paths.error_control import ErrorControl, Errors, margin_of, standard_error
from eqsolve.solvers.paths.follow import Paths, path_operators
from eqsolve.solvers.paths.iterate import PathSolution
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.modes import Choice, choose
from eqsolve.solvers.paths.sweep import Engine, Means, add_by_parts, count_values, follow_later

# smallest cosine between the rows of a window and its leading direction: then the transverse part
# is a third of the other
_AGREE = 0.95
_WINDOWS = math.pi / math.acos(_AGREE)  # of a function, at most: its direction turns by half a turn


def average_kinks(
    judge: ErrorControl, solved: PathSolution, known: Errors, control: PathsControls
) -> tuple[PathSolution, Errors]:
    """Return a solution with averages of functions with a kink, and the error that other points show.

    ``known`` is the error of the solution, which more paths do not change.
    """
    engine = judge.engine
    kinked = [mean.name for mean in engine.means if mean.kinked and not mean.acts]
    kinked = [name for name in kinked if solved.means[name].ndim == 1]
    if not kinked:
        return solved, {}
    curves = judge.curves(solved)
    best = solved, {name: np.abs(curves.single[name]) for name in engine.program.kinked}
    least, kinks = math.inf, _Kinks(judge, solved, kinked, control)
    for rounds in (kinks.by_lines(), kinks.by_samples()):
        try:
            for centre, spread, text in rounds:
                means = solved.means | centre
                made = replace(solved, means=means, kernels=engine.kernels(solved.grid, means))
                curves = judge.curves(made)
                found = judge.curve_changes(
                    curves, made.grid, means | {name: means[name] + value for name, value in spread.items()}
                )
                errors = {name: found[name] for name in engine.program.kinked}
                parts = [known, {name: value + known[name] for name, value in errors.items()}]
                left, worst = (max(judge.excess(curves, part, name) for name in errors) for part in parts)
                logger.info("means with kinks: %s; their error is %.2g times the tolerance", text, worst)
                if worst < least:
                    best, least = (made, errors), worst
                if worst <= left + max(0.95 - left, 0.05) or judge.options.is_short_of_time():
                    return best
                kinks.missed = (worst - left) / max(0.95 - left, 0.05)
        except (SolverError, MemoryError) as reason:
            logger.info("means with kinks: no more paths: %s", reason)
    return best


Round = tuple[Means, Means, str]
"""Averages, the error that other points show, and what they are of."""


@dataclass(eq=False)
class _Kinks:
    """Averages with a kink by growing sets; ``missed`` is the last error over the budget left."""

    judge: ErrorControl
    solved: PathSolution
    kinked: list[str]
    control: PathsControls
    missed: float = math.inf

    @property
    def most(self) -> int:
        """Paths of a set, at most: without responses they cost nodes² each."""
        most = max(self.control.most_sample, self.control.small_set_work / (32 * self.solved.grid.size**2))
        return int(2 ** math.floor(math.log2(most)))

    def _largest(self, changes: Sequence[Means], centre: Means) -> Means:
        """Return how far averages move, at most."""
        return {
            name: np.max([0 * value, *(np.abs(item[name] - value) for item in changes)], axis=0)
            for name, value in centre.items()
        }

    def by_lines(self) -> Iterator[Round]:
        """Go through finer and finer sets of lines while these are few enough."""
        kernels, engine, control = self.solved.kernels, self.judge.engine, self.control
        pairs = [(item, mean) for item in self.solved.averages for mean in item.paths.plan.means if mean.name in self.kinked]
        if any(
            item.paths.plan.kinked or item.choice.layout.kind != "sparse" or not item.choice.order.size for item, _ in pairs
        ):
            return
        bases = [_Base(engine, kernels, item, mean, 2 * control.sample) for item, mean in pairs]
        windows = [window for base in bases for window in base.windows()]
        if len(windows) > _WINDOWS * len(bases):
            return
        sets: list[Means] = []
        for number in range(1 + math.ceil(math.log10(self.judge.options.rtol / EPSILON))):
            made, total = {name: np.zeros(self.solved.grid.size) for name in self.kinked}, 0
            for window in windows:
                lines = window.lines(number, self.judge.options.rtol)
                if lines is None or lines.normals.shape[1] > self.most:
                    return
                total += lines.normals.shape[1]
                name, part, average = window.base.mean.name, window.part, lines.average(window)
                made[name][part] = average @ lines.weights
                window.learn(average)
            sets.append(made)
            if number:  # two sets may agree by chance: part of the change before the last counts too
                last, before = self._largest(sets[-2:-1], made), self._largest(sets[-3:-1], sets[-2])
                spread = {
                    name: np.maximum(2.0 * value, control.carried_share_if_alike * before[name])
                    for name, value in last.items()
                }
                yield made, spread, f"{total} paths along lines"

    def by_samples(self) -> Iterator[Round]:
        """Go through more and larger independent sets of sampled paths, until they have cost all they may."""
        control, seed, paths, total = EnsembleControls(), self.judge.options.seed, self.control.sample, 0
        sets: list[tuple[int, Means]] = []
        while total <= 2 * self.most:
            sets = [item for item in sets if control.growth * item[0] >= paths]
            numbers = range(control.sets if sets else 2 * control.sets)  # four may agree by chance
            sets += [(paths, self._sample(self.solved.kernels, paths, seed + 1 + total + k)) for k in numbers]
            weights, made = np.array([item[0] for item in sets]) ** (2 * control.rate), [item[1] for item in sets]
            centre = {name: np.average([item[name] for item in made], axis=0, weights=weights) for name in self.kinked}
            apart = [{name: np.abs(item[name] - value) for name, value in centre.items()} for item in made]
            spread = {n: margin_of(len(sets)) * value for n, value in standard_error(apart, weights).items()}
            yield centre, spread, f"{len(sets)} independent sets of {paths} paths"
            total += paths
            lacking = ((control.safety * self.missed) ** 2 - 1) * weights.sum() / control.sets
            more = max(lacking, 0.0) ** (0.5 / control.rate)
            paths = 2 ** math.ceil(math.log2(min(self.most, max(more, paths / 2), control.growth * paths)))

    def _sample(self, kernels: Kernels, count: int, seed: int) -> Means:
        """Return averages over about ``count`` sampled paths of every ensemble, without their responses."""
        made: Means = {}
        engine = self.judge.engine
        for item in self.solved.averages:
            plan, points = item.paths.plan, item.choice.points
            wanted = [mean for mean in plan.means if mean.name in self.kinked]
            if not wanted:
                continue
            values = {name: value for name, value in points.constants.items() if name not in points.scales}
            combinations = len({*zip(*values.values(), strict=True)}) if values else 1
            most = 2 ** max(5, round(math.log2(count / combinations)))
            rule = math.ceil((1.5 if seed % 2 else 2) * item.choice.level.constants)  # so that sets differ in that respect too
            level = replace(item.choice.level, most=most, seed=seed, constants=rule)
            choice = _choose(engine, kernels, plan, level, item.choice.shapes)
            made |= add_by_parts(engine, kernels, plan, choice, functools.partial(_add, wanted))
        return made


def _add(wanted: Sequence[MeanProgram], paths: Paths, *_: object) -> Means:
    return {mean.name: paths.values(mean.factors)[0] @ paths.points.weights for mean in wanted}


def _choose(
    engine: Engine, kernels: Kernels, plan: EnsembleProgram, level: Level, shapes: Any,
    given: tuple[Array, Array] | None = None,
) -> Choice:  # fmt: skip
    """Return sampled points of an ensemble, or points at ``given`` coordinates of the modes."""
    groups, drives = engine.groups(kernels, plan), path_operators(plan, kernels).drives
    return choose(plan, kernels, groups, drives, engine.laws, level, PointLayout("single"), shapes, given=given)


class _Base:
    """An average of a function with kinks at the zeros of some expressions.

    ``rows`` (time, expression, mode) are the unit vectors of their linear regressions on the modes'
    coordinates, over a sample of paths.
    """

    def __init__(self, engine: Engine, kernels: Kernels, item: Averages, mean: MeanProgram, paths: int) -> None:
        self.engine, self.kernels, self.plan, self.mean, self.own = engine, kernels, item.paths.plan, mean, item.choice
        values = count_values(engine, self.own.level.constants)
        choice = self.choose(None, max(32, paths // values))
        found, points = follow_later(engine, kernels, self.plan, choice).follow(), choice.points
        share, rows = np.sqrt(points.weights), []
        blocks = np.eye(points.values).repeat(len(share) // points.values, axis=1)  # of the values of constants
        known = np.vstack([points.normals, blocks]) * share
        for switch in found.values(mean.switches):
            effect = np.linalg.lstsq(known.T, (switch * share).T, rcond=1e-6)[0][: len(points.normals)].T
            sizes = np.linalg.norm(effect, axis=1)[:, None]
            rows.append(np.where(sizes > 1e-8 * sizes.max(initial=1e-300), effect / np.maximum(sizes, 1e-300), 0.0))
        self.rows = np.array(rows).transpose(1, 0, 2)

    def choose(self, given: tuple[Array, Array] | None, most: int = 1, finer: float = 1.0) -> Choice:
        """Return points at given coordinates of the modes, or sampled ones; with ``finer`` rules of constants."""
        plan, kernels, own = self.plan, self.kernels, self.own.level
        level = replace(own, most=most, constants=math.ceil(finer * own.constants))
        return _choose(self.engine, kernels, plan, level, self.own.shapes, given)

    def windows(self) -> list[_Window]:
        """Return parts of the time in which all rows have about one direction."""
        made, total, begin = [], np.zeros(self.rows.shape[2:] * 2), 0
        for place, rows in enumerate(self.rows):
            total += rows.T @ rows
            leading = np.linalg.eigh(total)[1][:, -1]
            inside = self.rows[begin : place + 1].reshape(-1, len(leading))
            if (np.abs(inside @ leading)[inside.any(axis=1)] < _AGREE).any():
                made.append(_Window(self, slice(begin, place)))
                total, begin = rows.T @ rows, place
        return [*made, _Window(self, slice(begin, len(self.rows)))]


class _Window:
    """A part of the time: directions along which its averages are taken, that of the lines first.

    ``effects`` are the relative second differences of the average along the others.
    """

    def __init__(self, base: _Base, part: slice) -> None:
        self.base, self.part = base, part
        self.directions = np.linalg.svd(base.rows[part].reshape(-1, base.rows.shape[2]))[2].T
        self.effects: Array | None = None

    def lines(self, number: int, rtol: float) -> _Lines | None:
        """Return a set of lines, at first with three points along each direction; None if there are too many."""
        from scipy.interpolate import make_interp_spline

        if self.effects is None:
            others, weights = star(len(self.directions) - 1)
        else:
            spread = spread_lines(self.effects, rtol * 10.0 ** (1 - number))
            if spread is None:
                return None
            others, weights = spread
        along, reach = 17 + 8 * number, math.sqrt(-2 * math.log(1e-2 * rtol))
        # the trapezoidal rule errs by the square of the spacing at a kink: sets differ in it, so
        # that it is seen
        finely = 2 * math.ceil((4 + number) * reach / (4 * math.sqrt(rtol))) + number % 2
        nodes, dense = np.linspace(-reach, reach, along), np.linspace(-reach, reach, finely)
        normals = self.directions @ np.vstack([np.tile(nodes, len(weights)), np.repeat(others, along, axis=1)])
        rule, mass = (np.exp(-(places**2) / 2) for places in (nodes, dense))
        given = normals, np.multiply.outer(weights, rule / rule.sum()).ravel()
        fine = make_interp_spline(nodes, np.eye(along), k=5)(dense)
        return _Lines(normals, weights, self.base.choose(given, finer=1.0 + number / 2), fine, mass / mass.sum())

    def learn(self, average: Array) -> None:
        """Keep the second differences of the average over the first set of lines."""
        if self.effects is None:
            centre, pairs = average[:, :1], average[:, 1:].reshape(len(average), -1, 2)
            change = np.abs(pairs.sum(axis=2) - 2 * centre) / 6
            self.effects = (change / np.maximum(np.abs(centre), 1e-300)).max(axis=0)


@dataclass(frozen=True, eq=False)
class _Lines:
    """Points on lines (modes, lines × points), weights of lines, and the points as a choice.

    ``fine`` interpolates from them to the points on which functions are summed, with weights
    ``mass``.
    """

    normals: Array
    weights: Array
    choice: Choice
    fine: Array
    mass: Array

    def average(self, window: _Window) -> Array:
        """Return the average of a function with a kink over each line (times, lines), in a part of the time."""
        base, whole = window.base, window.part
        paths = follow_later(base.engine, base.kernels, base.plan, self.choice).follow()
        values, along = self.choice.points.values, self.fine.shape[1]
        shares = paths.points.weights.reshape(values, -1).sum(axis=1)  # of the values of constants
        (count, many), made = paths.shape, []
        step = chunk(many // along * len(self.mass))
        for begin in range(whole.start, whole.stop, step):
            part = slice(begin, min(begin + step, whole.stop))
            arguments = []
            for place, item in enumerate(paths.arguments):
                table = np.asarray(item)
                table = table[part] if len(table) == count else table
                if place in base.mean.reads and table.shape[-1] == many:
                    table = table.reshape(len(table), -1, along) @ self.fine.T
                else:
                    table = table[..., :1, None]
                arguments.append(table)
            shape = (part.stop - begin, many // along, len(self.mass))
            integral = np.broadcast_to(base.mean.factors(*arguments)[0], shape) @ self.mass
            made.append(np.einsum("v,tvl->tl", shares, integral.reshape(len(integral), values, -1)))
        return np.concatenate(made)
