"""One set of points at a solution, and the affine map of the derivatives' means onto themselves that it makes.

The paths of the solution are followed once, with the resolvents P = (1 − O S)⁻¹ of their linearised equations, path by path.
The equations of their derivatives are linear with the same resolvent: a sweep is then Dx = P r for the paths, and
∂Dx/∂z = P (O DS + DO S) ∂x/∂z for their tangents, products alone.

Cost: the resolvents once, nodes³ × paths / 3 for every unknown; then about 4 nodes³ × paths products a sweep and parameter.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import EnsemblePlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Level, align
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.paths.iterate import Solved
from eqsolve.solvers.paths.means import Averages, average
from eqsolve.solvers.paths.modes import Choice, Drawn, Group, choose, draw, groups_of
from eqsolve.solvers.paths.paths import Actions, Paths, act, follow, read_inputs
from eqsolve.solvers.paths.responses import enter, follow_tangents, respond
from eqsolve.solvers.paths.sweep import Engine, Means

_TOGETHER = 200_000  # numbers of one array of tangents, of the processor's cache
_KEPT = 40_000_000  # numbers of resolvents and tangents that are kept; of more they are found again in every sweep


@dataclass(frozen=True, eq=False)
class Linearised:
    """A set of points at a solution; ``engine`` is that of the derivatives alone, the kernels of the solution known to it."""

    engine: Engine
    known: Means
    ensembles: tuple[_Ensemble, ...]

    @property
    def grid(self) -> OperatorGrid:
        return self.ensembles[0].paths.kernels.grid

    @property
    def paths(self) -> int:
        return sum(len(item.choice.points.weights) for item in self.ensembles)

    def sweep(self, means: Means) -> tuple[Averages, ...]:
        """Return the averages over paths for given means of the derivatives."""
        self.engine.work.sweeps += 1
        kernels = self.engine.kernels(self.grid, {**self.known, **means})
        groups = groups_of(self.engine.plan.covariances, kernels)
        return tuple(item.sweep(kernels, groups) for item in self.ensembles)


def linearise(
    own: Engine, engine: Engine, base: Solved, level: Level | None, before: tuple[Averages, ...] | None = None
) -> Linearised:
    """Follow the paths of a solution with the points of a level, or with its own, and prepare what is linear at it.

    ``own`` is the engine of the solution, ``engine`` that of its derivatives; ``before`` holds paths of the same points.
    """
    groups = groups_of(own.plan.covariances, base.kernels)
    before = before or base.averages
    made = []
    for plan in engine.plan.ensembles:
        place = next((k for k, item in enumerate(own.plan.ensembles) if {*item.unknowns} <= {*plan.unknowns}), None)
        if place is None or {*own.plan.ensembles[place].constants} != {*plan.constants}:
            raise SolverError("the paths' derivatives are not those of the paths one by one")
        mine, item, actions = own.plan.ensembles[place], before[place], act(own.plan.ensembles[place], base.kernels)
        inside = [group for group in groups if group.noises[0] in mine.noises]
        if level is None:
            choice, guess = item.choice, item.paths.unknowns
        else:
            shapes = base.averages[place].choice.shapes
            choice, guess = choose(mine, base.kernels, inside, actions.drives, own.laws, level, None, shapes), None
        if level is None:
            pairs = zip(inside, choice.factors, strict=True)
            choice = replace(choice, factors=tuple(align(group.leading_modes, was) for group, was in pairs))
        drawn = draw(mine, inside, choice, aligned=False)
        paths = follow(mine, base.kernels, actions, choice.points, drawn, own.accuracy, guess)
        made.append(_Ensemble(plan, choice, paths, {}, {}))
    return Linearised(engine, base.means, tuple(made))


@dataclass(frozen=True, eq=False)
class _Ensemble:
    """Paths of a solution, and the plan of their derivatives.

    What is found once is kept: in ``pieces`` the resolvents and tangents of some paths, in ``reactions`` the mean responses to
    what follows the noises.
    """

    plan: EnsemblePlan
    choice: Choice
    paths: Paths
    pieces: dict[int, tuple[Array, dict[str, Array]]]
    reactions: dict[str, list[Array]]

    @functools.cached_property
    def places(self) -> list[int]:
        """Where the solution's unknowns stand among all."""
        return [self.plan.unknowns.index(name) for name in self.paths.plan.unknowns]

    @functools.cached_property
    def companions(self) -> list[list[int]]:
        """Where their derivatives stand, parameter by parameter, in the same order."""
        rest = [place for place in range(len(self.plan.unknowns)) if place not in self.places]
        width = len(self.places)
        return [rest[begin : begin + width] for begin in range(0, len(rest), width)]

    def sweep(self, kernels: Kernels, groups: Sequence[Group]) -> Averages:
        """Return the averages for given kernels of the derivatives."""
        plan = self.plan
        drawn = draw(plan, [group for group in groups if group.noises[0] in plan.noises], self.choice, aligned=False)
        paths = self._follow(kernels, act(plan, kernels), drawn)
        if not self.reactions and self.choice.layout.kind == "sparse":
            followers = [noise for noise in plan.noises if noise not in self.paths.plan.noises]
            self.reactions.update({noise: respond(paths, noise, [], tangents=self._tangents)[1] for noise in followers})
        return average(paths, self.choice, known=self.reactions, tangents=self._tangents)

    def _follow(self, kernels: Kernels, actions: Actions, drawn: Drawn) -> Paths:
        """Return the paths with their derivatives, whose equations are linear."""
        plan, points, (size, count) = self.plan, self.choice.points, self.paths.shape
        inputs = read_inputs(plan, kernels, points, drawn)
        right = np.zeros((len(plan.unknowns), size, count))
        for index, start in enumerate(plan.starts(*(item[0] for item in inputs.constants))):
            right[index] += start
        for drive, matrix in zip(plan.drives, actions.drives, strict=True):
            right[drive.unknown] += matrix @ drawn.noises[plan.noises.index(drive.noise)]
        unknowns = np.zeros_like(right)
        unknowns[self.places] = self.paths.unknowns
        signals, slopes = self._evaluate(inputs, unknowns)
        for (unknown, signal), matrix in actions.operators.items():
            right[unknown] += matrix @ signals[signal]
        self._compare(actions, slopes)
        for part, resolvent, _ in self._each():
            for members in self.companions:
                rows = right[members][:, :, part].reshape(-1, part.stop - part.start)
                made = np.matmul(resolvent, rows.T[:, :, None])[:, :, 0].T
                unknowns[members, :, part] = made.reshape(len(members), size, -1)
        signals, slopes = self._evaluate(inputs, unknowns)
        return Paths(plan, kernels, actions, points, drawn, unknowns, signals, slopes)

    def _evaluate(self, inputs: Any, unknowns: Array) -> tuple[Array, Array]:
        """Return the signals and their slopes."""
        plan, shape = self.plan, unknowns.shape[1:]
        made = np.empty((plan.count * (1 + len(unknowns)), *shape))
        for place, value in enumerate(plan.signals(*inputs.at(slice(0, shape[0]), unknowns))):
            made[place] = value
        return made[: plan.count], made[plan.count :].reshape(plan.count, len(unknowns), *shape)

    def _compare(self, actions: Actions, slopes: Array) -> None:
        """Raise unless derivatives react to themselves as the paths do, on which all this rests."""
        if self.pieces:
            return
        some = slice(0, min(4, slopes.shape[-1]))
        wanted = _reacting(self.paths.actions, self.paths.slopes[..., some], range(len(self.places)))
        for members in self.companions:
            if not np.allclose(
                _reacting(actions, slopes[..., some], members), wanted, rtol=1e-6, atol=1e-9 * np.abs(wanted).max()
            ):
                raise SolverError("the equations of the paths' derivatives are not the linearised ones of the paths")

    def _each(self) -> Iterator[tuple[slice, Array, dict[str, Array]]]:
        """Return, some paths at a time, their resolvents (path, row, column) and the tangents of the solution by noise."""
        paths, (size, count) = self.paths, self.paths.shape
        width, noises = len(self.places), paths.plan.noises
        step = max(1, _TOGETHER // (width * size) ** 2)
        entries = {} if self.pieces else {noise: enter(paths, noise) for noise in noises}
        keep = count * width * size * size * (width + len(noises)) <= _KEPT
        for begin in range(0, count, step):
            part = slice(begin, min(begin + step, count))
            if begin in self.pieces:
                yield part, *self.pieces[begin]
                continue
            slopes, operators = np.ascontiguousarray(paths.slopes[..., part]), paths.actions.operators
            resolvent = np.empty((part.stop - begin, width, size, width, size))
            for column in range(width):
                unit = np.zeros((width, size, size))
                unit[column] = np.eye(size)
                found = follow_tangents(operators, paths.kernels.grid.blocks, slopes, unit, None)
                resolvent[:, :, :, column] = found.transpose(2, 0, 1, 3)
            flat = resolvent.reshape(part.stop - begin, width * size, width * size)
            tangents = {noise: self._apply(flat, _sources(paths, entry, part)) for noise, entry in entries.items()}
            if keep:
                self.pieces[begin] = (flat, tangents)
            yield part, flat, tangents

    @staticmethod
    def _apply(resolvent: Array, right: Array) -> Array:
        """Return P r for r on (unknown, node, path, node of the noise)."""
        width, size, count, columns = right.shape
        made = np.matmul(resolvent, right.transpose(2, 0, 1, 3).reshape(count, width * size, columns))
        return np.ascontiguousarray(made.reshape(count, width, size, columns).transpose(1, 2, 0, 3))

    def _tangents(self, paths: Paths, noise: str) -> Iterator[tuple[slice, Array]]:
        """Return the tangents of the paths and of their derivatives, some paths at a time."""
        size, places, entry = paths.shape[0], self.places, enter(paths, noise)
        for part, resolvent, tangents in self._each():
            count = part.stop - part.start
            made = _sources(paths, entry, part)
            if noise in tangents:
                made[places] = own = tangents[noise]
                acted = {
                    signal: _acted(paths.slopes[signal][places][:, :, part], own)
                    for signal in sorted({signal for unknown, signal in paths.actions.operators if unknown not in places})
                }
                for (unknown, signal), matrix in paths.actions.operators.items():
                    effect = acted.get(signal)
                    if unknown not in places and effect is not None:
                        made[unknown] += (matrix @ effect.reshape(size, -1)).reshape(size, count, size)
            for members in self.companions:
                if made[members].any():
                    made[members] = self._apply(resolvent, made[members])
            yield part, made


def _sources(paths: Paths, entry: tuple[Array, Array | None], part: slice) -> Array:
    """Return how a noise enters equations: (unknown, node, path, node of the noise)."""
    source, by_noise = entry
    made = np.repeat(source[:, :, None, :], part.stop - part.start, axis=2)
    if by_noise is not None:
        for (unknown, signal), matrix in paths.actions.operators.items():
            slope = by_noise[signal][:, part]
            if slope.any():
                made[unknown] += matrix[:, None, :] * slope.T
    return made


def _acted(slopes: Array, tangents: Array) -> Array | None:
    """Return Σ over unknowns of slope × tangent; None where all slopes vanish."""
    total: Array | None = None
    for slope, tangent in zip(slopes, tangents, strict=True):
        if slope.any():
            part = slope[:, :, None] * tangent
            total = part if total is None else total + part
    return total


def _reacting(actions: Actions, slopes: Array, members: Sequence[int]) -> Array:
    """Return O diag(slopes) between some unknowns: (unknown, unknown, node, node, path)."""
    size, count = slopes.shape[2:]
    made = np.zeros((len(members), len(members), size, size, count))
    for (unknown, signal), matrix in actions.operators.items():
        if unknown in members:
            for column, other in enumerate(members):
                made[list(members).index(unknown), column] += matrix[:, :, None] * slopes[signal, other][None]
    return made
