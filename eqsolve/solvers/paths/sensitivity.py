"""Derivatives of a solved stochastic system along parameters: the linearised equations of the means, at the solution.

The enlarged system (every unknown beside its derivative) has known means, and those of its derivatives, which a sweep maps
affinely onto themselves: D ↦ J D + b, with J the exact linearisation of the sweep in the means and b its explicit derivative
by the parameter. D = (1 − J)⁻¹ b is found by Anderson's iteration, which on an affine map is GMRES (Walker & Ni, SIAM J.
Numer. Anal. 49, 1715 (2011), doi:10.1137/10078356X), preconditioned by the mean responses: with the points of the solution
first, then with sets of finer points that share nothing. All parameters go together.

Errors: how far the last set moved the derivatives is that of the points, how far panels of another order do that of the
panels.

Cost: see ``linearised``; some ten sweeps with the points of the solution, and three with each set.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.forms import DISCRETE, STOCHASTIC
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan
from eqsolve.compile.stochastic import MeanPlan
from eqsolve.compile.values import Values
from eqsolve.errors import SolverError
from eqsolve.numerics.gaussian import Level, refine
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.secants import Secants
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.ensembles import carried
from eqsolve.solvers.paths.iterate import USUAL, Solved, improve, pack, unpack, weigh
from eqsolve.solvers.paths.judge import Errors, Judge
from eqsolve.solvers.paths.linearised import Linearised, linearise
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.sweep import Design, Engine, Kept, Means, Work, collect, count_paths, sweep
from eqsolve.solvers.paths.transfer import transfer

logger = logging.getLogger("eqsolve")


@dataclass(frozen=True)
class Effort:
    """What is spent on derivatives."""

    # sweeps, at most, and what the iteration may leave, of the tolerance
    most: int = 30
    stop: float = 0.3
    # residual that the Krylov method of mean responses may leave: a sweep follows
    krylov: float = 0.1
    sets: int = 4  # sets of other points, at most
    # tolerances, as an error that needs no further set: a derivative changes its sign somewhere,
    # and what is allowed there is a tenth of what it is elsewhere
    enough: float = 3.0
    # paths of a set, relative to those of the solution, at most; unless paths × nodes³ is below
    # `cheap`
    dearest: float = 60.0
    cheap: float = 1e8
    # of the move before the last that the error is at least: every set is finer than the last
    share: float = 0.04


def add_derivatives(
    result: Result, own: Engine, solved: Solved, beside: tuple[Plan, Values], options: Options, effort: Effort | None = None
) -> Result:
    """Return a result with the derivatives of all its functions of time and kernels, as the enlarged system names them.

    ``own`` is the engine of the solution.
    """
    plan, values = beside
    effort = effort or Effort()
    program = at(plan.program(STOCHASTIC if options.step is None else DISCRETE), values.numbers)
    drawn = {name: law.at(values.numbers, values.laws) for name, law in program.laws}
    engine = Engine(program, {**own.laws, **values.laws, **drawn}, Work(), accuracy=1e-5 * options.rtol)
    with np.errstate(all="ignore"):
        found, errors = _Search(own, engine, solved, options, effort).run()
    return _attached(result, engine, found, errors, options)


@dataclass(frozen=True, eq=False)
class _Search:
    """Derivatives being looked for at a solution."""

    own: Engine
    engine: Engine
    base: Solved
    options: Options
    effort: Effort

    def run(self) -> tuple[Solved, Errors]:
        """Return the solution with its derivatives, and the errors of everything."""
        judge, effort, base = Judge(self.engine, self.options), self.effort, self.base
        alone = self.alone(base)
        few = linearise(self.own, alone, base, None)
        begun = {mean.name: np.zeros((base.grid.size,) * (1 if mean.kind == "one" else 2)) for mean in _means(alone)}
        found = self.iterate(few, begun, Secants(effort.most))
        final, curves = found, judge.curves(found)
        nothing = {name: np.zeros_like(values) for name, values in curves.all.items()}
        by_panels = self.other_panels(judge, found) if self.options.step is None else nothing
        moved = errors = nothing
        level, most = base.averages[0].choice.level, max(effort.dearest * base.paths, effort.cheap / base.grid.size**3)
        ways = _ways(self.own, base)
        for number in range(1, effort.sets + 1) if ways else ():
            finer = replace(_finer(level, ways, number), twist=number)
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
            before, moved = moved, judge.apart(last, curves)
            errors = judge.spread(curves, [moved, {name: effort.share * change for name, change in before.items()}])
            worst = judge.worst(curves, errors)
            logger.info("derivatives: set %d of paths, %d of them; their error is %.2g times the tolerance",
                        number, points.paths, worst)  # fmt: skip
            if number > 1 and worst + judge.worst(curves, by_panels) <= effort.enough:
                break
        return final, judge.total(final, by_panels, errors, rounding=1e-13)

    def alone(self, base: Solved) -> Engine:
        """Return the engine of the derivatives alone: the means and the kernels of the solution are known to it."""
        plan = self.engine.plan
        ensembles = tuple(
            replace(item, means=tuple(mean for mean in item.means if mean.name not in base.means)) for item in plan.ensembles
        )
        return replace(self.engine, plan=replace(plan, ensembles=ensembles), known=base.kernels)

    def count(self, level: Level) -> int:
        return count_paths(self.own, self.base.kernels, Design(level, None, self.base.shapes))

    def iterate(self, points: Linearised, means: Means, secants: Secants) -> Solved:
        """Solve the linearised equations of the means with a set of points; what others taught about them helps."""
        engine, grid = points.engine, points.grid
        secants.interrupt()
        left, how = np.inf, replace(USUAL, accuracy=self.effort.krylov)
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
            image = before + improve(engine, whole, after - before, averages, weights, how)
            means = unpack(engine, secants.next(before, image, weights), made)
            logger.info("derivatives: round %d of the linear solver, residual %.2g", count, left)
            if left <= self.effort.stop * self.options.rtol:
                break
        whole = {**points.known, **means}
        return Solved(grid, whole, engine.kernels(grid, whole), averages, secants, USUAL.leaves * left)

    def other_panels(self, judge: Judge, found: Solved) -> Errors:
        """Return the errors of the panels: how far panels of another order move everything.

        Modes, points and paths are carried there, so that nothing but the panels differs. The solution is balanced there
        first, up to what its points ask for, which is not the panels'.
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
        begun = {name: found.means[name] for name in (mean.name for mean in _means(alone))}
        begun = transfer(begun, alone.responses, base.grid, grid)
        other = self.iterate(linearise(own, alone, there, None), begun, Secants(self.effort.most))
        return judge.differ(found, other)


def _means(engine: Engine) -> list[MeanPlan]:
    return [mean for item in engine.plan.ensembles for mean in item.means]


def _ways(engine: Engine, solved: Solved) -> list[str]:
    """Return the ways in which there may be more points."""
    rough = [item for item in solved.averages if item.choice.layout.kind != "cubic"]
    ways = ["sample"] if any(item.choice.layout.kind == "sample" for item in rough) else []
    if any(item.choice.layout.kind == "sparse" and item.paths.plan.noises for item in rough):
        ways += ["modes", "sharp"]
    if any(engine.laws[name].has_density for item in rough for name in item.paths.plan.constants):
        ways.append("constants")
    return ways


def _finer(level: Level, ways: list[str], number: int) -> Level:
    for way in ways:
        if way == "sharp" and number % 2:
            continue
        level = refine(level, way, None if number == 1 else 7.5)
    return level


def _attached(result: Result, engine: Engine, found: Solved, errors: Errors, options: Options) -> Result:
    """Return the result with every curve and kernel that it does not have yet."""
    curves = Judge(engine, options).curves(found)
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
