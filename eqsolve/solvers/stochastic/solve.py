"""Stochastic systems solved to a tolerance: a causal start, whole-window sweeps, then refined panels and points.

First the panels: with few points, grids of growing density are compared until the change, divided by what the order
promises, is small enough. Then the points, on that grid: each way to have more of them (along the leading mode, in further
modes, in random constants, in a sample) is probed by one sweep, and the change it makes is carried to the solution by the
mean responses; a way that matters is taken and the rest is left. The result has the probed changes in it. Its error is
the sum of the changes under denser panels and under more points, and of what the iteration left.

Chosen for systems with processes that have memory or Gaussian drives. Order 2m − 1 in the panels' length (Radau IIA with
m nodes; Hairer & Wanner 1996, doi:10.1007/978-3-642-05221-7). Cost: sweeps × paths × nodes³ / 3; memory: paths × nodes.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from eqsolve.solvers.stochastic.iterate import Solved, improve, iterate, pack, start, unpack, weigh
from eqsolve.solvers.stochastic.judge import Curves, Errors, Judge
from eqsolve.solvers.stochastic.means import Averages, average_single
from eqsolve.solvers.stochastic.package import package
from eqsolve.solvers.stochastic.paths import Paths
from eqsolve.solvers.stochastic.recording import recorded
from eqsolve.solvers.stochastic.sweep import (
    Design,
    Engine,
    Means,
    Shapes,
    Work,
    collect,
    rate,
    report,
    sample,
    sweep,
    variation,
)
from eqsolve.solvers.stochastic.transfer import move_shapes, transfer

__all__ = ["Control", "StochasticSolver"]

logger = logging.getLogger("eqsolve")


@dataclass(frozen=True)
class Control:
    """What a solve is steered by.

    Attributes
    ----------
    first, growth
        The first panel in units of the first time scale, and how each follows from the last.
    ratio
        Density of the panels that a solution is compared with.
    rounds
        Of refinement, at most.
    share
        Of the tolerance, for panels, and for points.
    stop
        Of the tolerance: what the iteration may leave.
    paths_to
        Of what the iteration may leave: the accuracy to which paths are followed.
    few
        When more points change the solution by so many tolerances, panels are looked at again.
    trust
        Of the tolerance: errors said to be smaller are tripled, up to this.
    remains
        Of the change under more points, in the error after they were taken in: least and most.
    matters
        Of the largest effect: ways to have more points that have less are left.
    paths, sets
        Paths kept to look at laws, in sets whose differences show the error of averages with a kink.
    """

    first: float = 1.5
    growth: float = 2.0
    ratio: float = math.sqrt(2.0)
    rounds: int = 8
    share: float = 0.45
    stop: float = 1e-2
    paths_to: float = 1e-3
    few: float = 10.0
    trust: float = 0.05
    remains: tuple[float, float] = (0.2, 0.5)
    matters: float = 0.3
    paths: int = 1024
    sets: int = 4


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
        laws = {**values.laws, **{name: law.at(values.numbers) for name, law in program.laws}}
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

    def __init__(
        self, engine: Engine, options: Options, control: Control, begin: float, params: Mapping[str, Any]
    ) -> None:
        self.engine, self.options, self.control, self.begin, self.params = engine, options, control, begin, params
        self.judge = Judge(engine, options)
        self.order = options.order or (5 if options.rtol > 3e-4 else 7 if options.rtol > 3e-5 else 8)
        self.tolerance = control.stop * options.rtol
        self.stage = "start"
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
        result = self._package(solved, errors, self._sample(solved, 1))
        return result.stopped(what, f"{why} {stage}; the errors are those of what was done by then")

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
        shapes = variation(engine, begun.averages)
        solved = iterate(engine, begun.grid, begun.means, Design(few, None, shapes), self.tolerance)
        by_panels = self.judge.nothing(solved)
        if options.step is None:
            solved, by_panels = self._settle_panels(solved, Design(few, None, shapes))
        self.stage = "points"
        if wanted != few:
            shapes = variation(engine, solved.averages)
            solved = iterate(engine, solved.grid, solved.means, Design(wanted, None, shapes), self.tolerance)
        solved, errors = self._settle_points(solved, by_panels, wanted)
        self.stage = "paths"
        samples = self._sample(solved, self.control.sets)
        solved, bent = self._average_kinks(solved, samples)
        return self._package(solved, errors | bent, samples)

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

    def _settle_panels(
        self, base: Solved, design: Design, ratios: Array | None = None
    ) -> tuple[Solved, Errors]:
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
            if worst <= self.control.share:
                break
            base, ratios = dense, self._ratios(curves, errors, dense)
        return dense, errors

    def _check_panels(self, solved: Solved, design: Design) -> tuple[Solved, Errors]:
        """Compare with wider panels, now that there are more points; have denser ones where that shows too large an error."""
        assert solved.grid.panels is not None
        coarse, _ = self._denser(solved, design, np.full(solved.grid.panels.panels, 1 / self.control.ratio))
        assert coarse.grid.panels is not None
        overall = solved.grid.panels.panels / coarse.grid.panels.panels
        errors = self.judge.compare(coarse, solved, np.full(coarse.grid.panels.panels, overall))
        curves = self.judge.curves(solved)
        worst = self.judge.worst(curves, errors)
        logger.info("panels: %d nodes with %d paths, error %.2g", solved.grid.size, solved.paths, worst)
        if worst <= self.control.share:
            return solved, errors
        return self._settle_panels(solved, design, self._ratios(curves, errors, solved))

    def _ratios(self, curves: Curves, errors: Errors, solved: Solved) -> Array:
        """Return how much denser each panel and its neighbours should be."""
        watched = [name for name in self.judge.excesses(curves, errors) if name in curves.single]
        if not watched:
            return np.full(len(solved.grid.blocks) - 1, self.control.ratio)
        over = np.max([errors[name] / (self.judge.allowed(curves, name) + 1e-300) for name in watched], axis=0)
        panels = np.array([over[part].max() for part in solved.grid.blocks[1:]])
        panels = np.maximum(panels, np.maximum(np.append(panels[1:], 0), np.append(0, panels[:-1])))
        return np.clip((panels / (0.3 * self.control.share)) ** (1 / (self.order + 1)), 1.1, 2.0)

    def _denser(self, solved: Solved, design: Design, ratios: Array) -> tuple[Solved, Shapes | None]:
        """Return the solution on denser panels, with the same points."""
        old, engine = solved.grid.panels, self.engine
        assert old is not None
        wanted = np.append(0.0, np.cumsum(ratios))
        position = np.linspace(0, wanted[-1], math.ceil(wanted[-1]) + 1)
        grid = OperatorGrid.from_panels(PanelGrid(np.interp(position, wanted, old.edges), old.order))
        means = transfer(solved.means, engine.responses, solved.grid, grid)
        shapes = move_shapes(design.shapes, solved.grid, grid)
        try:
            made = iterate(engine, grid, means, Design(design.level, solved.layouts, shapes), self.tolerance)
        except SolverError:
            begun = self._start(grid, make_level(1e-2, self.options.seed))
            shapes = variation(engine, begun.averages)
            made = iterate(engine, grid, begun.means, Design(design.level, solved.layouts, shapes), self.tolerance)
        return made, shapes

    # --- points -------------------------------------------------------------------------------------------------------
    def _settle_points(self, solved: Solved, by_panels: Errors, level: Level) -> tuple[Solved, Errors]:
        """Probe more points in every way there is, take those that matter, until the error is small enough."""
        engine, judge, control = self.engine, self.judge, self.control
        design = Design(level, None, variation(engine, solved.averages))
        earlier: dict[str, float] = {}
        falls: dict[str, float] = {}  # how much less the next change is, at worst so far
        for number in range(1, control.rounds + 1):
            curves = judge.curves(solved)
            same = sweep(engine, solved.grid, solved.means, design)
            means, known = dict(solved.means), dict(by_panels)  # known: of the solution as it is, the changes not taken in
            errors, effects = {name: np.zeros_like(error) for name, error in by_panels.items()}, {}
            for way in ("choice", *self._ways(solved)):
                step = _probe(engine, solved, same, design, way)
                means = {name: value + step[name] for name, value in means.items()}
                changed = judge.change(curves, solved.grid, {name: solved.means[name] + step[name] for name in means})
                effects[way] = judge.worst(curves, changed)
                if earlier.get(way):
                    falls[way] = max(falls.get(way, control.remains[0]), 1.5 * effects[way] / earlier[way])
                remains = min(falls.get(way, 1.0), control.remains[1])
                errors = {name: error + remains * changed[name] for name, error in errors.items()}
                known = {name: error + changed[name] for name, error in known.items()}
            earlier = dict(effects)
            by_points = judge.worst(curves, errors)
            text = ", ".join(f"{way} {effect:.2g}" for way, effect in effects.items())
            logger.info("points: %d paths, error %.2g of the tolerance (%s)", solved.paths, by_points, text)
            self._keep(solved, known, f"with {solved.paths} paths")
            enough = by_points + judge.worst(curves, by_panels) <= 1.0
            if enough or number == control.rounds or len(effects) == 1:  # no way to have more points
                break
            level = self._refined(level, effects)
            design = Design(level, None, variation(engine, solved.averages))
            try:
                solved = iterate(engine, solved.grid, means, design, self.tolerance)
                if self.options.step is None and number == 1 and max(list(effects.values())[1:]) > control.few:
                    solved, by_panels = self._check_panels(solved, design)
                    design = Design(level, None, variation(engine, solved.averages))
            except SolverError as reason:
                logger.info("more points cannot be had: %s", reason)
                break
        final = replace(solved, means=means, kernels=engine.kernels(solved.grid, means))
        return final, self._sum_errors(final, by_panels, errors)

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
            if name in curves.single:  # probes of very small errors are trusted to a factor only
                doubt = np.minimum(self.control.trust * self.judge.allowed(curves, name), 3 * errors[name])
                errors[name] = np.maximum(errors[name], doubt)
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

    def _sample(self, solved: Solved, sets: int) -> list[tuple[Paths, ...]]:
        """Return sets of paths through a solution."""
        count, seed = self.control.paths, self.options.seed
        return [sample(self.engine, solved.kernels, solved.averages, count, seed + number) for number in range(sets)]

    def _average_kinks(self, solved: Solved, samples: list[tuple[Paths, ...]]) -> tuple[Solved, Errors]:
        """Average functions with a kink over samples of paths; return the error that the samples' differences show."""
        plan = self.engine.plan
        means = [mean for item in plan.ensembles for mean in item.means]
        bent = [mean.name for mean in means if mean.bent and not mean.acts and mean.kind == "one"]
        if not bent:
            return solved, {}
        found = [{name: v for paths in sets for name, v in average_single(paths)[0].items()} for sets in samples]
        table = {name: np.array([entry[name] for entry in found]) for name in bent}
        centre = solved.means | {name: values.mean(axis=0) for name, values in table.items()}
        spread = {name: 2 * values.std(axis=0, ddof=1) / math.sqrt(len(samples)) for name, values in table.items()}
        made = replace(solved, means=centre, kernels=self.engine.kernels(solved.grid, centre))
        moved = {**centre, **{name: centre[name] + spread[name] for name in bent}}
        changes = self.judge.change(self.judge.curves(made), made.grid, moved)
        return made, {name: changes[name] for name in plan.bent}

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

    def _package(self, solved: Solved, errors: Errors, samples: list[tuple[Paths, ...]]) -> Result:
        curves = self.judge.curves(solved)
        worst = self.judge.worst(curves, errors)
        return package(self.engine, solved, curves, errors, worst, samples, self.options, self.params)


@recorded()
def _probe(engine: Engine, solved: Solved, same: tuple[Averages, ...], design: Design, way: str) -> Means:
    """Return how far all means would move with more points in one way, or with modes chosen anew ("choice").

    ``same`` is a sweep with as many points, but modes chosen anew.
    """
    plain = collect(same)
    if way == "choice":
        used, direct = solved.averages, {name: value - solved.means[name] for name, value in plain.items()}
    else:
        used = sweep(engine, solved.grid, solved.means, replace(design, level=refine(design.level, way)))
        direct = {name: value - plain[name] for name, value in collect(used).items()}
    residual, weights = pack(engine, direct), weigh(engine, solved.means)
    if any(item.reacts for item in used):
        packed = improve(engine, solved.means, residual, used, weights)
    else:
        packed = solved.secants.extrapolate(residual, residual, weights)
    step = unpack(engine, packed, direct)
    fed = engine.fed
    aside = [name for name in step if name not in fed]
    if aside:  # what is only reported follows what acts back
        moved = {name: value + step[name] if name in fed else value for name, value in solved.means.items()}
        after = report(engine, solved.grid, moved, design, same)
        step |= {name: direct[name] + after[name] - plain[name] for name in aside}
    return step
