"""Stochastic systems solved to a tolerance: a causal start, whole-window sweeps, then refined panels and points.

Method (see ``sweeps``, ``paths``, ``gaussian``, ``operators``). First the panels: with few points, grids of growing
density are compared until the change, divided by what the order promises, is small enough. Then the points, on that
grid: each way to have more of them (along the leading mode, in further modes, in random constants, in a sample) is
probed by one sweep, and the change it makes is carried to the solution by what past sweeps taught about the map; a way
that matters is taken and the rest is left. The result has the probed changes in it. Its error is the sum of the
changes under denser panels and under more points, and of what the iteration left.
Chosen for systems with processes that have memory or Gaussian drives. Cost: sweeps × paths × nodes³ / 3.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.language.binding import Binding
from eqsolve.errors import MemoryLimitError, SolverError, UsageError
from eqsolve.language.system import System
from eqsolve.passes.forms.path_form import derive_path_form
from eqsolve.passes.rewrite.substitution import apply_substitutions
from eqsolve.results.result import Result
from eqsolve.numerics.gaussian import Level
from eqsolve.numerics.grids import Array, PanelGrid
from eqsolve.numerics.levels import make_level, refine
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.stochastic.path_means import PathSolver
from eqsolve.solvers.recording import recorded
from eqsolve.numerics.rows import RowStore
from eqsolve.solvers.shortening import stop_early
from eqsolve.solvers.stochastic.errors import KINKS, Curves, Judge
from eqsolve.solvers.stochastic.sweeps import Means, Solved, Sweeper
from eqsolve.solvers.tolerance import allowance

__all__ = ["solve_stochastic"]

logger = logging.getLogger("eqsolve")

_FIRST, _GROWTH = 1.5, 2.0  # the first panel in units of the first time scale, and how each follows from the last
_RATIO = math.sqrt(2.0)
_ROUNDS = 8
_SAMPLE, _SETS = 1024, 4  # paths kept to look at laws, in sets whose differences show the error
_FEW = 10.0  # when more points change so much, panels are looked at again
_SHARE = 0.45  # of the tolerance for panels, and for points
_TRUST = 0.05  # of the tolerance: errors said to be smaller are tripled, up to this
_REMAINS = 0.2, 0.5  # of the change under more points, in the error after they were taken in: least and most


def solve_stochastic(binding: Binding, options: Options) -> Result:
    """Solve a system with stochastic processes to the tolerance asked for."""
    system = binding.model
    assert isinstance(system, System)
    changed = system if options.step is not None else apply_substitutions(system)  # exact in continuous time only
    bound = changed.subs(dict(binding.values))
    by_name = {item.name: law for item, law in binding.laws.items()}  # a law in parameters makes a new symbol
    laws = {**binding.laws, **{item: by_name[item.name] for item in bound.randoms if item.name in by_name}}
    form = derive_path_form(bound)
    sweeper = Sweeper(form, laws)
    begin = binding.number(system.start)
    if options.t_max <= begin:
        raise UsageError(f"t_max = {options.t_max:g} does not lie after the start, {begin:g}")

    def control(end: float) -> _Control:
        return _Control(binding, Sweeper(form, laws), replace(options, t_max=end, at=(), checkpoint=None), begin)

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        whole = _Control(binding, sweeper, options, begin)
        try:
            return whole.solve()
        except MemoryLimitError:
            raise
        except SolverError as error:
            if whole.best is not None:
                with contextlib.suppress(SolverError):  # the sample of paths may not go on either
                    error.partial = whole.so_far("stopped", str(error))  # type: ignore[attr-defined]
                raise
            end = options.t_max
            raise stop_early(error, begin, end, lambda t: control(t).begin_window(), lambda t: control(t).solve()) from None


class _Control(Judge):
    """Chooses grids, points and tolerances for one solve."""

    def __init__(self, binding: Binding, sweeper: Sweeper, options: Options, begin: float) -> None:
        super().__init__(sweeper, options)
        self.binding, self.begin = binding, begin
        self.best: tuple[Solved, dict[str, Array], str] | None = None
        self.rough = make_level(1e-2, options.seed)
        self.order = options.order or (5 if options.rtol > 3e-4 else 7 if options.rtol > 3e-5 else 8)

    def solve(self) -> Result:
        """Solve; an interruption returns what there is, with the error it has."""
        self.samples: list[tuple[PathSolver, ...]] = []
        self.sweeper.notify, self.sweeper.checkpoint = self._notify, self.options.checkpoint
        try:
            return self._solve()
        except (KeyboardInterrupt, MemoryError) as reason:
            if self.best is None:
                raise
            what = "interrupted" if isinstance(reason, KeyboardInterrupt) else "out of memory"
            return self.so_far(what, what)

    def so_far(self, what: str, why: str) -> Result:
        """Return the best solution there is, and why there is no better one."""
        assert self.best is not None
        solved, errors, stage = self.best
        curves = self._curves(solved)
        result = self._package(solved, curves, errors, self._worst(curves, errors))
        return result.stopped(what, f"{why} {stage}; the errors are those of what was done by then")

    def _solve(self) -> Result:
        options, sweeper = self.options, self.sweeper
        stop = 1e-2 * options.rtol
        wanted = make_level(min(1e-2, 10 * options.rtol), options.seed)
        self.level = make_level(max(1e-3, wanted.accuracy), options.seed)  # panels are settled with few points
        start = self.begin_window()
        grid = start.grid
        self._keep(start, None, "after the start")
        sweeper.learn(start)
        self.stage = "panels"
        base = sweeper.iterate(grid, start.means, self.level, stop)
        if options.step is None:
            solved, time_error, by_time = self._settle_panels(base, stop)
        else:
            solved, time_error, by_time = base, self._nothing(base), 0.0
        self.stage = "points"
        if wanted != self.level:
            self.level = wanted
            sweeper.learn(solved)
            solved = sweeper.iterate(solved.grid, solved.means, self.level, stop)
        return self._settle_points(solved, time_error, by_time, stop)

    def begin_window(self) -> Solved:
        """Return a rough solution over the whole time."""
        self.stage = "start"
        if self.options.step is not None:
            return self._start(OperatorGrid.discrete(self.options.step, self.begin, self.options.t_max))
        return self._start(OperatorGrid.from_panels(self._first_panels(self.rough)))

    def _start(self, grid: OperatorGrid) -> Solved:
        try:
            return self.sweeper.start(grid, self.rough)
        except SolverError:
            logger.info("the start fails with few points; trying more")
            self.rough = make_level(1e-3, self.options.seed)
            return self.sweeper.start(grid, self.rough)

    def _keep(self, solved: Solved, errors: dict[str, Array] | None, stage: str) -> None:
        """Remember a solution in case of an interruption; without known errors they are as large as the values."""
        if errors is None:
            curves = self._curves(solved)
            errors = {name: np.abs(values) for name, values in curves.all.items()}
        self.best = (solved, errors, stage)

    def _notify(self, until: float, sweep: int, left: float) -> None:
        done = {"start": 0.3 * until / self.options.t_max, "panels": 0.4, "points": 0.7, "paths": 0.95}[self.stage]
        self.options.report(done * self.options.t_max, f"{self.stage}: t = {until:.4g}, sweep {sweep}, residual {left:.1g}")

    def _settle_panels(
        self, base: Solved, stop: float, ratios: Array | None = None
    ) -> tuple[Solved, dict[str, Array], float]:
        """Return the solution with few points on panels that are dense enough, and the error of the panels."""
        assert base.grid.panels is not None
        ratios = np.full(base.grid.panels.panels, _RATIO) if ratios is None else ratios
        for _ in range(_ROUNDS):
            dense = self._denser(base, stop, ratios)
            errors = self._compare(base, dense, ratios)
            curves = self._curves(dense)
            worst = self._worst(curves, errors)
            logger.info("panels: %d nodes, error %.2g of the tolerance", dense.grid.size, worst)
            self._keep(dense, None, f"with {dense.grid.size} nodes")
            if worst <= _SHARE:
                break
            base, ratios = dense, self._ratios(curves, errors, dense)
        return dense, errors, worst

    def _check_panels(self, solved: Solved, stop: float) -> tuple[Solved, dict[str, Array], float]:
        """Compare with wider panels, now that there are more points; have denser ones where that shows too large an error."""
        assert solved.grid.panels is not None
        shapes = self.sweeper.shapes
        coarse = self._denser(solved, stop, np.full(solved.grid.panels.panels, 1 / _RATIO))
        self.sweeper.shapes = shapes
        assert coarse.grid.panels is not None
        overall = solved.grid.panels.panels / coarse.grid.panels.panels
        errors = self._compare(coarse, solved, np.full(coarse.grid.panels.panels, overall))
        curves = self._curves(solved)
        worst = self._worst(curves, errors)
        logger.info("panels: %d nodes with %d paths, error %.2g", solved.grid.size, self._paths(solved), worst)
        if worst <= _SHARE:
            return solved, errors, worst
        return self._settle_panels(solved, stop, self._ratios(curves, errors, solved))

    def _ratios(self, curves: Curves, errors: dict[str, Array], solved: Solved) -> Array:
        """Return how much denser each panel and its neighbours should be."""
        watched = [name for name in self._excesses(curves, errors) if name in curves.single]
        if not watched:
            return np.full(len(solved.grid.blocks) - 1, _RATIO)
        over = np.max([self._over(curves, errors, name) for name in watched], axis=0)
        panels = np.array([over[part].max() for part in solved.grid.blocks[1:]])
        panels = np.maximum(panels, np.maximum(np.append(panels[1:], 0), np.append(0, panels[:-1])))
        return np.clip((panels / (0.3 * _SHARE)) ** (1 / (self.order + 1)), 1.1, 2.0)

    def _settle_points(self, solved: Solved, time_error: dict[str, Array], by_time: float, stop: float) -> Result:
        """Probe more points in every way there is, take those that matter, until the error is small enough."""
        sweeper = self.sweeper
        sweeper.learn(solved)
        earlier: dict[str, float] = {}
        falls: dict[str, float] = {}  # how much less the next change is, at worst so far
        for number in range(1, _ROUNDS + 1):
            curves = self._curves(solved)
            self.plain = sweeper.solvers(self.level)
            same = sweeper.sweep(solved.grid, solved.means, self.plain)
            for solver in self.plain:
                solver.frozen = True
            means, errors, effects = dict(solved.means), {name: np.zeros_like(e) for name, e in time_error.items()}, {}
            known = dict(time_error)  # of the solution as it is, the changes not yet taken in
            for way in ("choice", *self._ways(solved)):
                step = self._probe(solved, same, way)
                means = {key: value + step[key] for key, value in means.items()}
                changed = self._change(curves, solved, {key: value + step[key] for key, value in solved.means.items()})
                effects[way] = self._worst(curves, changed)
                if earlier.get(way):
                    falls[way] = max(falls.get(way, _REMAINS[0]), 1.5 * effects[way] / earlier[way])
                remains = min(falls.get(way, 1.0), _REMAINS[1])
                errors = {name: error + remains * changed[name] for name, error in errors.items()}
                known = {name: error + changed[name] for name, error in known.items()}
            earlier = dict(effects)
            by_points = self._worst(curves, errors)
            text = ", ".join(f"{way} {effect:.2g}" for way, effect in effects.items())
            logger.info("points: %d paths, error %.2g of the tolerance (%s)", self._paths(solved), by_points, text)
            logger.debug("points: %s", {name: f"{value:.2g}" for name, value in self._excesses(curves, errors).items()})
            self._keep(solved, known, f"with {self._paths(solved)} paths")
            if by_points + by_time <= 1.0 or number == _ROUNDS or len(effects) == 1:  # no way to have more points
                break
            choice = effects.pop("choice")
            for way, effect in effects.items():
                if effect > 0.3 * max(effects.values()) or (way == "modes" and choice > max(effects.values())):
                    self.level = refine(self.level, way, effect)
            sweeper.learn(solved)
            try:
                solved = sweeper.iterate(solved.grid, means, self.level, stop)
                if self.options.step is None and number == 1 and max(effects.values()) > _FEW:
                    solved, time_error, by_time = self._check_panels(solved, stop)
            except SolverError as reason:
                logger.info("more points cannot be had: %s", reason)
                break
        final = replace(solved, means=means, state=sweeper.closure.evaluate(solved.grid, means))
        self.stage = "paths"
        final, bent = self._average_kinks(final)
        curves = self._curves(final)
        errors |= {name: bent[name] for name in bent if name in self._bent()}
        remain = 2.0 * max(solved.left, 1e-14)
        for name, error in time_error.items():
            errors[name] = errors[name] + error + remain * self._size_of(name, curves, final)
            if name in curves.single:  # probes of very small errors are trusted to a factor only
                allowed = allowance(curves.single[name], self.options, 0.1, scale=curves.sizes.get(name, 0.0))
                errors[name] = np.maximum(errors[name], np.minimum(_TRUST * allowed, 3 * errors[name]))
        return self._package(final, curves, errors, self._worst(curves, errors))

    def _average_kinks(self, solved: Solved) -> tuple[Solved, dict[str, Array]]:
        """Average functions with a kink over samples of paths; return the error that the samples' differences show."""
        sweeper = self.sweeper
        self.samples = [sweeper.sample(solved, _SAMPLE, self.options.seed + number) for number in range(_SETS)]
        found = [{key: value for solver in sample for key, value in solver.ones().items()} for sample in self.samples]
        bent = [key for key in found[0] if key.has(*KINKS) and key not in sweeper.fed]
        if not bent:
            return solved, {}
        table = {key: np.array([entry[key] for entry in found]) for key in bent}
        means = solved.means | {key: values.mean(axis=0) for key, values in table.items()}
        spread = {key: 2 * values.std(axis=0, ddof=1) / math.sqrt(_SETS) for key, values in table.items()}
        made = replace(solved, means=means, state=sweeper.closure.evaluate(solved.grid, means))
        return made, self._change(self._curves(made), made, {**means, **{key: means[key] + spread[key] for key in bent}})

    @recorded
    def _probe(self, solved: Solved, same: Means, way: str) -> Means:
        """Return how far all means would move with more points in one way, or with modes chosen anew ("choice").

        ``same`` are the means after one sweep with as many points, but modes chosen anew.
        """
        sweeper = self.sweeper
        if way == "choice":
            solvers, direct = solved.solvers, {key: same[key] - solved.means[key] for key in same}
        else:
            solvers = sweeper.solvers(refine(self.level, way))
            image = sweeper.sweep(solved.grid, solved.means, solvers)
            direct = {key: image[key] - same[key] for key in image}
        residual, weights = sweeper.pack(direct), sweeper.weigh(solved.means)
        if any(solver.reacts for solver in solvers):
            packed = sweeper.improve(solved.grid, solved.means, residual, solvers, weights)
        else:
            packed = solved.secants.extrapolate(residual, residual, weights)
        step = sweeper.unpack(packed, direct)
        aside = [key for key in step if key not in sweeper.fed]
        if aside:  # what is only reported follows what acts back
            moved = {key: value + step[key] if key in sweeper.fed else value for key, value in solved.means.items()}
            after = sweeper.reported(solved.grid, moved, tuple(copy.copy(solver) for solver in self.plain))
            step |= {key: direct[key] + after[key] - same[key] for key in aside}
        return step

    def _ways(self, solved: Solved) -> list[str]:
        """Return the ways in which there may be more points."""
        rough = [solver for solver in solved.solvers if solver.used.kind != "cubic"]
        ways = ["sample"] if any(solver.used.kind == "sample" for solver in rough) else []
        if any(solver.used.kind == "sparse" and solver.compiled.source.noises for solver in rough):
            ways += ["sharp", "modes"]
        if any(law.has_density for solver in rough for law in solver.laws.values()):
            ways.append("constants")
        return ways

    def _first_panels(self, level: Level) -> PanelGrid:
        """Return geometric panels whose first length follows from how fast paths move at the start."""
        rate = self.sweeper.rate(self.begin, level)
        span = self.options.t_max - self.begin
        step = min(_FIRST / max(rate, 1e-12), span / 4)
        steps = [step]
        while sum(steps) < span:
            steps.append(_GROWTH * steps[-1])
        edges = np.concatenate([[0.0], np.cumsum(steps)])
        return PanelGrid(self.begin + edges * (span / edges[-1]), self.order)

    def _denser(self, solved: Solved, stop: float, ratios: Array) -> Solved:
        """Return the solution on denser panels, with the same points."""
        old = solved.grid.panels
        assert old is not None
        wanted = np.append(0.0, np.cumsum(ratios))
        position = np.linspace(0, wanted[-1], math.ceil(wanted[-1]) + 1)
        grid = OperatorGrid.from_panels(PanelGrid(np.interp(position, wanted, old.edges), old.order))

        means = self.sweeper.transfer(solved.means, solved.grid, grid)
        self.sweeper.move_shapes(solved.grid, grid)
        try:
            return self.sweeper.iterate(grid, means, self.level, stop, layouts=solved.layouts)
        except SolverError:
            self.sweeper.shapes = None
            start = self.sweeper.start(grid, self.rough)
            self.sweeper.learn(start)
            return self.sweeper.iterate(grid, start.means, self.level, stop, layouts=solved.layouts)

    # --- output -----------------------------------------------------------------------------------------------------
    def _package(self, solved: Solved, final: Curves, errors: dict[str, Array], worst: float) -> Result:
        import xarray as xr

        grid = solved.grid.panels or PanelGrid(solved.grid.nodes, 1)
        data: dict[str, Any] = {}
        coordinates: dict[str, Any] = {"t": grid.nodes, "row": grid.nodes, "column": grid.nodes}
        for name, values in final.single.items():
            data[name] = ("t", values)
            data[name + "_error"] = ("t", errors[name])
        extended: dict[str, Array] = {}
        for name, table in final.tables.items():
            data[name] = (("row", "column"), table, {"symmetric": 1})
            data[name + "_error"] = (("row", "column"), errors[name])
            extended[name] = table
        for name, table in final.values.items():
            data[name] = (("row", "column"), np.tril(table), {"symmetric": 0})
            data[name + "_error"] = (("row", "column"), np.tril(errors[name]))
            extended[name] = table
        self._add_paths(solved, data, coordinates)
        status = "ok" if worst <= 1.0 else "tolerance not met"
        message = (
            ""
            if status == "ok"
            else f"the error estimate is {worst:.3g} times the tolerance rtol={self.options.rtol:g}"
        )
        stats = {
            "panels": grid.panels, "nodes": grid.size, "paths": self._paths(solved), "sweeps":
            self.sweeper.total_sweeps,
            "left": solved.left,
        }  # fmt: skip
        store = RowStore.from_tables(grid, extended) if extended else None
        return Result(
            xr.Dataset(data, coords=coordinates), model=self.sweeper.form.name, kind="dynamics", status=status,
            message=message, params=self.binding.settings(), stats=stats, grid=grid, rows=store,
        )  # fmt: skip

    def _add_paths(self, solved: Solved, data: dict[str, Any], coordinates: dict[str, Any]) -> None:
        """Keep a sample of the paths with their weights, so that laws can be looked at; one set per ensemble."""
        samples = self.samples or [self.sweeper.sample(solved, _SAMPLE, self.options.seed)]
        for place, solvers in enumerate(zip(*samples, strict=True)):
            path = "path" if place == 0 else f"path_{place + 1}"
            points = [solver.points for solver in solvers if solver.points is not None]
            weights = np.concatenate([item.weights for item in points]) / len(points)
            coordinates["weight" if place == 0 else f"weight_{place + 1}"] = (path, weights)
            for item in points[0].constants:
                coordinates[item.name] = (path, np.concatenate([entry.constants[item] for entry in points]))
            values = [solver.process_values() for solver in solvers]
            data |= {name: ((path, "t"), np.concatenate([entry[name] for entry in values])) for name in values[0]}
