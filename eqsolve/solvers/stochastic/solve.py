"""Stochastic systems solved to a tolerance: a causal start, whole-window sweeps, then refined panels and points.

First the panels: with few points, grids of growing density are compared until the change, divided by what the order
promises, is small enough; then with panels of another order, whose difference is the error. Then the points, on that grid:
each way to have more of them (along the leading mode, in further modes, in random constants, in a sample) is probed by one
sweep, and the change it makes is carried to the solution by the mean responses; a way that matters is taken and the rest is
left. The result has the probed changes in it. Its error: two sets of points that share nothing with those that gave the
solution (modes of all noises turned against each other at random, other rules, another sample) are swept at the solution,
and how far that moves it is the error of the points. Averages of functions with a kink are taken over samples of paths at
the end, and their error from the spread of independent samples.

Chosen for systems with processes that have memory or Gaussian drives. Order 2m − 1 in the panels' length (Radau IIA with
m nodes; Hairer & Wanner 1996, doi:10.1007/978-3-642-05221-7). Cost: sweeps × paths × nodes³ / 3; memory: paths × nodes.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan
from eqsolve.compile.values import Values
from eqsolve.errors import MemoryLimitError, SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.levels import make_level, refine
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver
from eqsolve.solvers.options import Options
from eqsolve.solvers.shortening import stop_early
from eqsolve.solvers.stochastic.control import Control
from eqsolve.solvers.stochastic.iterate import Solved, iterate, start
from eqsolve.solvers.stochastic.judge import Curves, Errors, Judge, is_known
from eqsolve.solvers.stochastic.kinks import average_kinks
from eqsolve.solvers.stochastic.package import package
from eqsolve.solvers.stochastic.probing import other_points, probe
from eqsolve.solvers.stochastic.sweep import (
    Design,
    Engine,
    Means,
    Shapes,
    Work,
    count_paths,
    rate,
    sample,
    sweep,
    variation,
)
from eqsolve.solvers.stochastic.transfer import move_shapes, transfer

__all__ = ["StochasticSolver"]

logger = logging.getLogger("eqsolve")


class StochasticSolver(Solver):
    __doc__ = __doc__
    name = "stochastic"
    discrete = True

    def why_not(self, plan: Plan) -> str:
        facts = plan.facts
        if facts.kind != "System":
            return f"it solves a System, and this is a {facts.kind}"
        if facts.noises or (facts.processes and (facts.memory or facts.kernels)):
            return ""
        return "there is neither noise nor memory of paths in it"

    def why(self, plan: Plan) -> str:
        noises = plan.facts.noises
        driven = f"driven by {', '.join(noises)}" if noises else "with memory"
        return f"processes {driven}: sweeps over all paths on one grid, modes by quadrature"

    def solve(self, plan: Plan, values: Values, options: Options, control: Control | None = None) -> Result:
        """Solve to the tolerance asked for; an interruption returns what there is."""
        control = control or Control()
        program = at(plan.program("stochastic" if options.step is None else "discrete stochastic"), values.numbers)
        begin = float(program.start()[0])
        options.demand_after(begin)
        laws = {**values.laws, **{name: law.at(values.numbers, values.laws) for name, law in program.laws}}
        accuracy = control.paths_to * control.stop * options.rtol

        def part(asked: Options) -> _Solve:
            engine = Engine(program, laws, Work(checkpoint=asked.checkpoint), accuracy)
            return _Solve(engine, asked, control, begin, values.settings)

        def until(end: float) -> _Solve:
            return part(replace(options, t_max=end, at=(), checkpoint=None))

        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            whole = part(options)
            try:
                return whole.run()
            except MemoryLimitError:
                raise
            except SolverError as error:
                if whole.best is not None:
                    with contextlib.suppress(SolverError):  # the sample of paths may not go on either
                        error.partial = whole.so_far("stopped", str(error))  # type: ignore[attr-defined]
                    raise
                end = options.t_max
                raise stop_early(error, begin, end, lambda t: until(t).begin_window(), lambda t: until(t).run()) from None


class _Solve:
    """One solve on its way: its stage, and the best that there is by now."""

    def __init__(self, engine: Engine, options: Options, control: Control, begin: float, params: Mapping[str, Any]) -> None:
        self.engine, self.options, self.control, self.begin, self.params = engine, options, control, begin, params
        self.judge = Judge(engine, options)
        self.order = options.order or (5 if options.rtol > 3e-4 else 7 if options.rtol > 3e-5 else 8)
        self.tolerance = control.stop * options.rtol
        self.stage = "start"
        self.moved: list[Means] = []  # what the last check's points ask for
        self.best: tuple[Solved, Errors, str] | None = None
        engine.work.notify = self._notify

    def run(self) -> Result:
        """Solve; an interruption returns what there is, with the error it has."""
        try:
            return self._run()
        except (KeyboardInterrupt, MemoryError) as reason:
            if self.best is None:
                raise
            what = "interrupted" if isinstance(reason, KeyboardInterrupt) else "out of memory"
            return self.so_far(what, what)

    def so_far(self, what: str, why: str) -> Result:
        """Return the best solution there is, and why there is no better one."""
        assert self.best is not None
        solved, errors, stage = self.best
        return self._package(solved, errors).stopped(what, f"{why} {stage}; the errors are those of what was done by then")

    def begin_window(self) -> Solved:
        """Return a rough solution over the whole time."""
        options, rough = self.options, make_level(1e-2, self.options.seed)
        if options.step is not None:
            grid = OperatorGrid.discrete(options.step, self.begin, options.t_max)
        else:
            grid = OperatorGrid.from_panels(self._first_panels(rough))
        return self._start(grid, rough)

    def _run(self) -> Result:
        options, engine = self.options, self.engine
        wanted = make_level(min(1e-2, 10 * options.rtol), options.seed)
        few = make_level(max(1e-3, wanted.accuracy), options.seed)  # panels are settled with few points
        begun = self.begin_window()
        self._keep(begun, None, "after the start")
        self.stage = "panels"
        shapes = variation(begun.averages)
        solved = iterate(engine, begun.grid, begun.means, Design(few, None, shapes), self.tolerance)
        by_panels = self.judge.nothing(solved)
        if options.step is None:
            solved, by_panels = self._settle_panels(solved, Design(few, None, shapes))
        self.stage = "points"
        if wanted != few:
            shapes = variation(solved.averages)
            solved = iterate(engine, solved.grid, solved.means, Design(wanted, None, shapes), self.tolerance, solved.how)
        final, by_panels, by_points = self._settle_points(solved, by_panels, wanted)
        self.stage = "paths"
        by_panels = self.judge.without_noise(self.judge.curves(final), by_panels)
        final, bent = average_kinks(self.judge, final, self.moved, by_panels, self.control)
        return self._package(final, self._sum_errors(final, by_panels, by_points | bent))

    # --- panels -------------------------------------------------------------------------------------------------------
    def _first_panels(self, level: Level) -> PanelGrid:
        """Return geometric panels whose first length follows from how fast paths move at the start."""
        span = self.options.t_max - self.begin
        steps = [min(self.control.first / max(rate(self.engine, self.begin, level), 1e-12), span / 4)]
        while sum(steps) < span:
            steps.append(self.control.growth * steps[-1])
        edges = np.concatenate([[0.0], np.cumsum(steps)])
        return PanelGrid(self.begin + edges * (span / edges[-1]), self.order)

    def _start(self, grid: OperatorGrid, rough: Level) -> Solved:
        try:
            return start(self.engine, grid, rough)
        except SolverError:
            logger.info("the start fails with few points; trying more")
            return start(self.engine, grid, make_level(1e-3, self.options.seed))

    def _settle_panels(self, base: Solved, design: Design, ratios: Array | None = None) -> tuple[Solved, Errors]:
        """Return the solution with few points on panels that are dense enough, and the error of the panels."""
        assert base.grid.panels is not None
        ratios = np.full(base.grid.panels.panels, self.control.ratio) if ratios is None else ratios
        for _ in range(self.control.rounds):
            dense, shapes = self._denser(base, design, ratios)
            design = replace(design, shapes=shapes)
            errors = self.judge.compare(base, dense, ratios)
            curves = self.judge.curves(dense)
            worst = self.judge.worst(curves, errors)
            logger.info("panels: %d nodes, error %.2g of the tolerance", dense.grid.size, worst)
            self._keep(dense, None, f"with {dense.grid.size} nodes")
            if self._unsettled(dense):
                break
            if worst <= self.control.share:
                errors = self._check_panels(dense, design)
                if self.judge.worst(curves, errors) <= self.control.share:
                    break
            base, ratios = dense, self._ratios(curves, errors, dense)
        return dense, errors

    def _unsettled(self, solved: Solved) -> bool:
        """Whether the iteration leaves so much that neither panels nor points are worth refining."""
        if solved.left <= self.control.settled * self.options.rtol:
            return False
        logger.info("the iteration leaves %.2g, which more panels and points do not mend", solved.left)
        return True

    def _check_panels(self, solved: Solved, design: Design) -> Errors:
        """Return the error that other panels, of another order, show: the next one, as far as responses are known in it."""
        old = solved.grid.panels
        assert old is not None
        order = old.order + 1 if old.order < self.control.highest else old.order - 1
        position = np.linspace(0, old.panels, math.ceil(self.control.other * old.size / order) + 1)
        edges = np.interp(position, np.arange(old.panels + 1), old.edges)
        other, _ = self._move(solved, design, PanelGrid(edges, order))
        errors = self.judge.differ(solved, other)
        worst = self.judge.worst(self.judge.curves(solved), errors)
        logger.info("panels: %d nodes with %d paths, error %.2g beside %d others of order %d",
                    solved.grid.size, solved.paths, worst, other.grid.size, order)  # fmt: skip
        return errors

    def _ratios(self, curves: Curves, errors: Errors, solved: Solved) -> Array:
        """Return how much denser each panel and its neighbours should be."""
        watched = [name for name in self.judge.excesses(curves, errors) if name in curves.single]
        if not watched:
            return np.full(len(solved.grid.blocks) - 1, self.control.ratio)
        over = np.max([self.judge.over(curves, errors, name) for name in watched], axis=0)
        panels = np.array([over[part].max() for part in solved.grid.blocks[1:]])
        panels = np.maximum(panels, np.maximum(np.append(panels[1:], 0), np.append(0, panels[:-1])))
        return np.clip((panels / (0.3 * self.control.share)) ** (1 / (self.order + 1)), 1.1, 2.0)

    def _denser(self, solved: Solved, design: Design, ratios: Array) -> tuple[Solved, Shapes | None]:
        """Return the solution on denser panels, with the same points."""
        old = solved.grid.panels
        assert old is not None
        wanted = np.append(0.0, np.cumsum(ratios))
        position = np.linspace(0, wanted[-1], math.ceil(wanted[-1]) + 1)
        return self._move(solved, design, PanelGrid(np.interp(position, wanted, old.edges), old.order))

    def _move(self, solved: Solved, design: Design, panels: PanelGrid) -> tuple[Solved, Shapes | None]:
        """Return the solution on other panels, with the same points, and what is known about responses there."""
        engine, grid = self.engine, OperatorGrid.from_panels(panels)
        means = transfer(solved.means, engine.responses, solved.grid, grid)
        shapes = move_shapes(design.shapes, solved.grid, grid)
        found = []
        with contextlib.suppress(SolverError):
            made = iterate(engine, grid, means, Design(design.level, solved.layouts, shapes), self.tolerance, solved.how)
            if not self._unsettled(made):
                return made, shapes
            found.append((made, shapes))
        try:  # from the start again, on these panels
            begun = self._start(grid, make_level(1e-2, self.options.seed))
            learnt = variation(begun.averages)
            again = Design(design.level, solved.layouts, learnt)
            found.append((iterate(engine, begun.grid, begun.means, again, self.tolerance), learnt))
        except SolverError:
            if not found:
                raise
        return min(found, key=lambda pair: pair[0].left)

    # --- points -------------------------------------------------------------------------------------------------------
    def _settle_points(self, solved: Solved, by_panels: Errors, level: Level) -> tuple[Solved, Errors, Errors]:
        """Probe more points in every way there is, take those that matter, until other points find the error small enough.

        Returned are the solution, the error of its panels, and that of its points.
        """
        engine, judge, control = self.engine, self.judge, self.control
        design = Design(level, None, variation(solved.averages))
        for number in range(1, control.rounds + 1):
            curves = judge.curves(solved)
            by_time = judge.worst(curves, by_panels)
            try:
                final, known, effects = self._probed(solved, curves, design)
            except SolverError as reason:  # far from a solution: nothing is known about it
                logger.info("more points cannot be tried: %s", reason)
                return solved, by_panels, {name: np.abs(values) for name, values in curves.all.items()}
            self._keep(solved, _sum(known, by_panels), f"with {solved.paths} paths")
            exact = len(effects) == 1  # no way to have more points: every mean is exact
            errors, by_points = (judge.nothing(solved), 0.0) if exact else (known, control.hope * max(effects.values()))
            if not exact and (by_points + by_time <= 1.0 or number == control.rounds):
                errors, by_points = self._check(final, design, effects)
                if by_points + by_time > 1.0 and max(effects.values()) < by_points:  # the other points may be worse
                    errors, by_points = self._check(final, design, dict.fromkeys(effects, 1.0))
            text = ", ".join(f"{way} {effect:.2g}" for way, effect in effects.items())
            logger.info("points: %d paths, error %.2g of the tolerance (%s)", solved.paths, by_points, text)
            if by_points + by_time <= 1.0 or number == control.rounds or exact:
                break
            if self._unsettled(solved):
                break
            design = Design(self._refined(design.level, effects), None, variation(solved.averages))
            try:
                solved = iterate(engine, solved.grid, final.means, design, self.tolerance, solved.how)
                if self.options.step is None and number == 1 and max(list(effects.values())[1:]) > control.few:
                    by_panels = self._check_panels(solved, design)
                    curves = judge.curves(solved)
                    if judge.worst(curves, by_panels) > control.share:
                        ratios = self._ratios(curves, by_panels, solved)
                        solved, by_panels = self._settle_panels(solved, design, ratios)
                    design = replace(design, shapes=variation(solved.averages))
            except SolverError as reason:
                logger.info("more points cannot be had: %s", reason)
                break
        return final, by_panels, errors

    def _probed(self, solved: Solved, curves: Curves, design: Design) -> tuple[Solved, Errors, dict[str, float]]:
        """Return a solution with the changes that more points make, these changes added up, and each in tolerances."""
        same = sweep(self.engine, solved.grid, solved.means, design)
        means, total, effects = dict(solved.means), self.judge.nothing(solved), {}
        for way in ("choice", *self._ways(solved)):
            step = probe(self.engine, solved, same, design, way)
            means = {name: value + step[name] for name, value in means.items()}
            changed = self.judge.change(curves, solved.grid, {name: solved.means[name] + step[name] for name in means})
            effects[way] = self.judge.worst(curves, changed)
            total = _sum(total, changed)
        return replace(solved, means=means, kernels=self.engine.kernels(solved.grid, means)), total, effects

    def _check(self, final: Solved, design: Design, effects: dict[str, float]) -> tuple[Errors, float]:
        """Return how far a solution moves under points that share nothing with those that gave it, and that in tolerances.

        There are more of these in the ways that had an effect, as long as they are not too dear.
        """
        finer = design.level
        most = max(self.control.dearest * final.paths, self.control.cheap / final.grid.size**3)
        ways = sorted((way for way in effects if way != "choice"), key=lambda way: -effects[way])
        for last, way in enumerate((*ways, "constants")):  # rules of constants that converge slowly err alike: many more there
            if last == len(ways) or effects[way] > self.control.negligible:
                more = refine(finer, way)
                wanted = replace(design, level=replace(more, twist=1))
                if count_paths(self.engine, final.kernels, wanted) <= most:
                    finer = more
        for level in (finer, design.level):
            try:
                twists = range(1, self.control.checks + 1)
                self.moved = [other_points(self.engine, final, replace(design, level=replace(level, twist=k))) for k in twists]
                break
            except MemoryLimitError:
                if level is design.level:
                    raise
        curves = self.judge.curves(final)
        errors = self.judge.spread(curves, [self.judge.change(curves, final.grid, means) for means in self.moved])
        return errors, self.judge.worst(curves, errors)

    def _refined(self, level: Level, effects: dict[str, float]) -> Level:
        """Return a level with more points in the ways that matter."""
        choice, ways = effects["choice"], {way: effect for way, effect in effects.items() if way != "choice"}
        largest = max(ways.values())
        for way, effect in ways.items():
            if effect > self.control.matters * largest or (way == "modes" and choice > largest):
                level = refine(level, way, effect)
        return level

    def _sum_errors(self, final: Solved, by_panels: Errors, by_points: Errors) -> Errors:
        """Return all errors: of panels, of points, and of what the iteration left."""
        curves = self.judge.curves(final)
        remain = 2.0 * max(final.left, 1e-14)
        errors = {}
        for name, error in by_panels.items():
            errors[name] = by_points[name] + error + remain * self.judge.size(name, curves, final.grid)
            if is_known(by_points[name]) and is_known(error):
                errors[name].flat[0] = 1e-14 * abs(curves.all[name].flat[0])
        return errors

    def _ways(self, solved: Solved) -> list[str]:
        """Return the ways in which there may be more points."""
        rough = [item for item in solved.averages if item.choice.layout.kind != "cubic"]
        ways = ["sample"] if any(item.choice.layout.kind == "sample" for item in rough) else []
        if any(item.choice.layout.kind == "sparse" and item.paths.plan.noises for item in rough):
            ways += ["sharp", "modes"]
        if any(self.engine.laws[name].has_density for item in rough for name in item.paths.plan.constants):
            ways.append("constants")
        return ways

    # --- on the way -----------------------------------------------------------------------------------------------------
    def _keep(self, solved: Solved, errors: Errors | None, stage: str) -> None:
        """Remember a solution in case of an interruption; without known errors they are as large as the values."""
        if errors is None:
            errors = {name: np.abs(values) for name, values in self.judge.curves(solved).all.items()}
        self.best = (solved, errors, stage)

    def _notify(self, until: float, sweeps: int, left: float) -> None:
        done = {"start": 0.3 * until / self.options.t_max, "panels": 0.4, "points": 0.7, "paths": 0.95}[self.stage]
        text = f"{self.stage}: t = {until:.4g}, sweep {sweeps}, residual {left:.1g}"
        self.options.report(done * self.options.t_max, text)

    def _package(self, solved: Solved, errors: Errors) -> Result:
        curves = self.judge.curves(solved)
        over = self.judge.excesses(curves, errors, kinks=True)
        try:
            paths = sample(self.engine, solved.kernels, solved.averages, self.control.kept, self.options.seed)
        except (SolverError, MemoryError) as reason:  # what was solved is returned all the same
            logger.info("no paths are kept: %s", reason)
            paths = ()
        return package(self.engine, solved, curves, errors, over, paths, self.options, self.params)


def _sum(errors: Errors, more: Errors) -> Errors:
    return {name: error + more[name] for name, error in errors.items()}
