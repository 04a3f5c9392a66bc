"""Derivatives of a solved stochastic system along parameters: the linearised equations of the means, at the solution.

In the enlarged system (every unknown beside its derivative) a sweep maps the means D of derivatives
affinely, D ↦ J D + b, with J the linearisation of the sweep in the means and b its explicit
derivative by the parameter. D = (1 − J)⁻¹ b is found by Anderson's iteration, which on an affine
map is GMRES (Walker & Ni, SIAM J. Numer. Anal. 49, 1715 (2011), doi:10.1137/10078356X),
preconditioned by the mean responses: with the points of the solution, then with sets of finer ones.

Errors: the changes by the last set of points, and by panels of another order. Cost: see
``LinearisedEnsemble``; some ten sweeps with the points of the solution, three with each set.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.forms import DISCRETE, STOCHASTIC
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.compile.stochastic import EnsembleProgram
from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array, chunk
from eqsolve.numerics.backend import memory
from eqsolve.numerics.gaussian import Level, align, refine_level
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.secants import Secants
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.ensembles import carried
from eqsolve.solvers.paths.error_control import ErrorControl, Errors
from eqsolve.solvers.paths.follow import Driven, PathOperators, Paths, evaluate, follow, path_operators, read_inputs
from eqsolve.solvers.paths.iterate import DEFAULT_ITERATION, PathSolution, improve, pack, unpack, weigh
from eqsolve.solvers.paths.means import Averages, average
from eqsolve.solvers.paths.modes import Choice, Drawn, Group, choose, draw, groups_of
from eqsolve.solvers.paths.responses import enter, follow_tangents, respond
from eqsolve.solvers.paths.sweep import Design, Engine, Kept, Means, Work, collect, count_paths, sweep
from eqsolve.solvers.paths.transfer import transfer

# --- One set of points at a solution, and the affine map of the derivatives' means onto themselves
# that it makes.
#
# Paths are followed once, with the resolvents P = (1 − O S)⁻¹ of their linearised equations, which
# are those of their derivatives too: a sweep is Dx = P r for the paths, and ∂Dx/∂z = P (O DS + DO
# S) ∂x/∂z for their tangents. Cost: the resolvents once, nodes³ × paths / 3 for every unknown; then
# about 4 nodes³ × paths products a sweep and parameter.


@dataclass(frozen=True, eq=False)
class LinearisedEnsemble:
    """A set of points at a solution; ``engine`` is that of the derivatives, at known kernels."""

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
        groups = groups_of(self.engine.program.covariances, kernels, averaged=True)
        return tuple(item.sweep(kernels, groups) for item in self.ensembles)


def linearise(
    own: Engine, engine: Engine, base: PathSolution, level: Level | None, before: tuple[Averages, ...] | None = None
) -> LinearisedEnsemble:
    """Follow the paths of a solution with the points of a level, or with its own, and prepare what is linear at it.

    ``own`` is the engine of the solution, ``engine`` that of its derivatives; ``before`` holds
    paths of the same points.
    """
    groups = groups_of(own.program.covariances, base.kernels, averaged=True)
    before = before or base.averages
    made = []
    for plan in engine.ensembles:
        place = next((k for k, item in enumerate(own.ensembles) if {*item.unknowns} <= {*plan.unknowns}), None)
        if place is None or {*own.ensembles[place].constants} != {*plan.constants}:
            raise SolverError("the derivatives couple ensembles that are separate in the system")
        mine, item = own.ensembles[place], before[place]
        actions = path_operators(mine, base.kernels)
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
        paths = follow([Driven(mine, actions, choice.points, drawn, guess)], base.kernels, own.accuracy)[0]
        made.append(_Ensemble(plan, choice, paths, {}, {}))
    return LinearisedEnsemble(engine, base.means, tuple(made))


@dataclass(frozen=True, eq=False)
class _Ensemble:
    """Paths of a solution, and the plan of their derivatives.

    ``pieces`` keep resolvents and tangents of some paths, ``reactions`` mean responses to noises
    that follow others.
    """

    plan: EnsembleProgram
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
        plan = self.plan
        drawn = draw(plan, [group for group in groups if group.noises[0] in plan.noises], self.choice, aligned=False)
        paths = self._follow(kernels, path_operators(plan, kernels), drawn)
        if not self.reactions and self.choice.layout.kind == "sparse":
            followers = [noise for noise in plan.noises if noise not in self.paths.plan.noises]
            self.reactions.update({noise: respond(paths, noise, [], tangents=self._tangents)[1] for noise in followers})
        return average(paths, self.choice, known=self.reactions, tangents=self._tangents)

    def _follow(self, kernels: Kernels, actions: PathOperators, drawn: Drawn) -> Paths:
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
        signals, slopes = evaluate(plan, inputs, slice(size), unknowns)
        for (unknown, signal), matrix in actions.operators.items():
            right[unknown] += matrix @ signals[signal]
        self._compare(actions, slopes)
        for part, resolvent, _ in self._each():
            for members in self.companions:
                rows = right[members][:, :, part].reshape(-1, part.stop - part.start)
                made = np.matmul(resolvent, rows.T[:, :, None])[:, :, 0].T
                unknowns[members, :, part] = made.reshape(len(members), size, -1)
        signals, slopes = evaluate(plan, inputs, slice(size), unknowns)
        return Paths(plan, kernels, actions, points, drawn, unknowns, signals, slopes)

    def _compare(self, actions: PathOperators, slopes: Array) -> None:
        """Raise unless the paths and their derivatives have the same linearised equations."""
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
        each = width * size * size * (width + len(noises))  # numbers of resolvents and tangents
        step = chunk(2 * each)
        entries = {} if self.pieces else {noise: enter(paths, noise) for noise in noises}
        keep = 8.0 * count * each < 0.05 * memory()  # else they are found again in every sweep
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


def _reacting(actions: PathOperators, slopes: Array, members: Sequence[int]) -> Array:
    """Return O diag(slopes) between some unknowns: (unknown, unknown, node, node, path)."""
    size, count = slopes.shape[2:]
    made = np.zeros((len(members), len(members), size, size, count))
    for (unknown, signal), matrix in actions.operators.items():
        if unknown in members:
            for column, other in enumerate(members):
                made[list(members).index(unknown), column] += matrix[:, :, None] * slopes[signal, other][None]
    return made


# --- The linear equations of the derivatives, and their errors.


@dataclass(frozen=True)
class Effort:
    most: int = 30  # sweeps
    stop: float = PathsControls.settled  # largest residual of the iteration, in units of rtol
    krylov: float = 0.1  # residual that the Krylov method may leave: a sweep follows
    sets: int = PathsControls.sets  # most sets of other points
    enough: float = 3.0  # error, in tolerances, that needs no further set: derivatives change signs
    most_growth: float = 60.0  # most paths of a set, relative to those of the solution
    free_work: float = PathsControls.free_work  # paths × nodes³ below which there may be more
    share: float = PathsControls.carried_share  # least error, in units of the move before the last


def add_derivatives(
    result: Result, own: Engine, solved: PathSolution, beside: tuple[Plan, Values], options: Options
) -> Result:
    """Return a result with the derivatives of all its functions of time and kernels, as the enlarged system names them.

    ``own`` is the engine of the solution.
    """
    plan, values = beside
    program = at(plan.program(STOCHASTIC if options.step is None else DISCRETE), values.numbers)
    engine = Engine(program, {**own.laws, **values.all_laws(program)}, Work(), accuracy=1e-5 * options.rtol)
    with np.errstate(all="ignore"):
        found, errors = _SensitivitySolve(own, engine, solved, options).run()
    return _attached(result, engine, found, errors, options)


@dataclass(frozen=True, eq=False)
class _SensitivitySolve:
    """Derivatives being looked for at a solution."""

    own: Engine
    engine: Engine
    base: PathSolution
    options: Options
    effort: Effort = Effort()

    def run(self) -> tuple[PathSolution, Errors]:
        """Return the solution with its derivatives, and the errors of everything."""
        judge, effort, base = ErrorControl(self.engine, self.options), self.effort, self.base
        alone = self.alone(base)
        few = linearise(self.own, alone, base, None)
        begun = {mean.name: np.zeros((base.grid.size,) * (1 if mean.kind == "one" else 2)) for mean in alone.means}
        found = self.iterate(few, begun, Secants(effort.most))
        final, curves = found, judge.curves(found)
        nothing = {name: np.zeros_like(values) for name, values in curves.all.items()}
        by_panels = self.other_panels(judge, found) if self.options.step is None else nothing
        moved = errors = nothing
        level, most = base.averages[0].choice.level, max(effort.most_growth * base.paths, effort.free_work / base.grid.size**3)
        ways = _ways(self.own, base)
        for number in range(1, effort.sets + 1) if ways else ():
            finer = replace(_finer(level, ways, number), rotation_seed=number)
            if number > 2 and self.count(finer) > most:
                break
            level, last = finer, curves
            try:
                points = linearise(self.own, alone, base, finer)
                final = self.iterate(points, {name: final.means[name] for name in begun}, Secants(effort.most))
            except (SolverError, MemoryError) as reason:
                logger.info("derivatives: no more paths: %s", reason)
                break
            curves = judge.curves(final)
            before, moved = moved, judge.distances(last, curves)
            errors = judge.error_of_changes(curves, [moved, {name: effort.share * change for name, change in before.items()}])
            worst = judge.worst(curves, errors)
            logger.info("derivatives: set %d of paths, %d of them; their error is %.2g times the tolerance",
                        number, points.paths, worst)  # fmt: skip
            if number > 1 and worst + judge.worst(curves, by_panels) <= effort.enough:
                break
        return final, judge.total(final, by_panels, errors, rounding=1e-13)

    def alone(self, base: PathSolution) -> Engine:
        """Return the engine of the derivatives alone: the means and the kernels of the solution are known to it."""
        plan = self.engine.program
        ensembles = tuple(
            replace(item, means=tuple(mean for mean in item.means if mean.name not in base.means)) for item in plan.ensembles
        )
        return replace(self.engine, program=replace(plan, ensembles=ensembles), known=base.kernels)

    def count(self, level: Level) -> int:
        return count_paths(self.own, self.base.kernels, Design(level, None, self.base.shapes))

    def iterate(self, points: LinearisedEnsemble, means: Means, secants: Secants) -> PathSolution:
        """Solve the linearised equations of the means with a set of points, and secants of others."""
        engine, grid = points.engine, points.grid
        secants.interrupt()
        left, controls = np.inf, replace(DEFAULT_ITERATION, accuracy=self.effort.krylov)
        for count in range(1, self.effort.most + 1):
            averages = points.sweep(means)
            made = collect(averages)
            made = {name: made[name] for name in means}
            weights = weigh(engine, grid, made)
            before, after = pack(engine, means), pack(engine, made)
            left = float(np.abs((after - before) * weights).max(initial=0.0))
            if not math.isfinite(left):
                raise SolverError("the linearised equations of the means do not stay finite")
            whole = {**points.known, **means}
            image = before + improve(engine, whole, after - before, averages, weights, controls)
            means = unpack(engine, secants.next(before, image, weights), made)
            logger.info("derivatives: round %d of the linear solver, residual %.2g", count, left)
            if left <= self.effort.stop * self.options.rtol:
                break
        whole = {**points.known, **means}
        return PathSolution(grid, whole, engine.kernels(grid, whole), averages, secants, DEFAULT_ITERATION.leaves * left)

    def other_panels(self, judge: ErrorControl, found: PathSolution) -> Errors:
        """Return the errors of the panels: how far panels of another order move everything.

        Modes, points and paths are carried there, so that nothing but the panels differs. The
        solution is balanced there first, up to what its points ask for, which is not the panels'.
        """
        own, base = self.own, self.base
        old = base.grid.panels
        assert old is not None
        grid = OperatorGrid.from_panels(old.of_another_order(8, 1.1))
        design = Design(base.averages[0].choice.level)
        swept: Sequence[Averages | Kept] = carried(own, base, grid)
        here = collect(sweep(own, base.grid, base.means, design, base.averages))
        asked = {name: here[name] - value for name, value in base.means.items()}
        points = pack(own, transfer(asked, own.responses, base.grid, grid))
        means = transfer(base.means, own.responses, base.grid, grid)
        for _ in range(2):
            averages = sweep(own, grid, means, design, swept)
            image, weights, before = collect(averages), weigh(own, grid, means), pack(own, means)
            residual = pack(own, {name: image[name] for name in means}) - before - points
            means = unpack(own, before + improve(own, means, residual, averages, weights), image)
            swept = averages
        there = replace(base, grid=grid, means=means, kernels=own.kernels(grid, means), averages=averages)
        alone = self.alone(there)
        begun = {name: found.means[name] for name in (mean.name for mean in alone.means)}
        begun = transfer(begun, alone.responses, base.grid, grid)
        other = self.iterate(linearise(own, alone, there, None), begun, Secants(self.effort.most))
        return judge.panel_errors(found, other)


def _ways(engine: Engine, solved: PathSolution) -> list[str]:
    """Return the ways in which there may be more points."""
    rough = [item for item in solved.averages if item.choice.layout.kind != "cubic"]
    ways = ["sample"] if any(item.choice.layout.kind == "sample" for item in rough) else []
    if any(item.choice.layout.kind == "sparse" and item.paths.plan.noises for item in rough):
        ways += ["modes", "first mode"]
    if any(engine.laws[name].has_density for item in rough for name in item.paths.plan.constants):
        ways.append("constants")
    return ways


def _finer(level: Level, ways: list[str], number: int) -> Level:
    for way in ways:
        if way == "first mode" and number % 2:
            continue
        level = refine_level(level, way, None if number == 1 else 7.5)
    return level


def _attached(result: Result, engine: Engine, found: PathSolution, errors: Errors, options: Options) -> Result:
    """Return the result with every curve and kernel that it does not have yet."""
    curves = ErrorControl(engine, options).curves(found)
    data, grid = result.dataset.copy(deep=False), result.grid
    assert grid is not None
    responses = set(curves.values)
    for name, values in {**curves.single, **curves.tables, **curves.values}.items():
        if name in data:
            continue
        if values.ndim == 1:
            data[name], data[name + "_error"] = ("t", values), ("t", errors[name])
        elif "row" in data.coords and data.sizes["row"] == len(values):
            shown = np.tril(values) if name in responses else values
            data[name] = (("row", "column"), shown, {"symmetric": int(name not in responses)})
            data[name + "_error"] = (("row", "column"), errors[name])
    return replace(result, table=data, stats={**result.stats, "sweeps of derivatives": engine.work.sweeps})
