"""Stochastic systems solved to a tolerance: a causal start, whole-window sweeps, then refined panels and points.

Where few modes of the noises carry everything, expectations are sparse grids. With few points,
panels of growing density are compared until the change is small enough, then with panels of another
order, whose difference is the error. On these panels sets of finer, independent points are swept,
and what each changes is carried to the solution by the mean responses; how far the last set moved
it is the error of the points. Elsewhere paths are sampled (``ensembles``). Averages of functions
with a kink are taken at the end, and every solve ends with plain sampled paths as a check.

Chosen for systems with processes that have memory or Gaussian drives. Order 2m − 1 in the panels'
length (Radau IIA with m nodes; Hairer & Wanner 1996, doi:10.1007/978-3-642-05221-7). Cost: sweeps ×
paths × nodes³ / 3; memory: paths × nodes.
"""

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.forms import DISCRETE, STOCHASTIC, Form
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import BudgetSpentError, MemoryLimitError, SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Level, make_level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.secants import Secants
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_driven
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import EnsembleControls, NestedStepControls, PathsControls
from eqsolve.solvers.paths.ensembles import ByGrid, Ensembles
from eqsolve.solvers.paths.error_control import Curves, ErrorControl, Errors, disagreement, package
from eqsolve.solvers.paths.follow import LostPathError
from eqsolve.solvers.paths.iterate import IterationControls, PathSolution, iterate, start
from eqsolve.solvers.paths.kinks import average_kinks
from eqsolve.solvers.paths.nested_steps import extrapolate_steps, on_fine_steps, step_errors, steps_in_time
from eqsolve.solvers.paths.point_refinement import PointRefinement, RefinedSolution, is_clear, is_far
from eqsolve.solvers.paths.self_consistent import self_consistent_start
from eqsolve.solvers.paths.sensitivity import add_derivatives
from eqsolve.solvers.paths.sweep import (
    Design,
    Engine,
    Sample,
    Shapes,
    Work,
    collect,
    count_paths,
    count_values,
    rate,
    sample,
    sweep,
    variation,
)
from eqsolve.solvers.paths.transfer import move_shapes, transfer
from eqsolve.solvers.paths.warm_start import WARM_ITERATION, WarmStart, guess_from_warm_start, make_warm_start
from eqsolve.solvers.threads import one_each
from eqsolve.solvers.tolerance import stop_early

# Shares of the work, between those of four solves of three models, which differ widely: points take
# 0.2 to 0.8 of it.
_SHARES = {"start": (0.0, 0.06), "time grid": (0.06, 0.3), "paths": (0.3, 0.85), "averages": (0.85, 1.0)}
_ALL = 1e-12  # accuracy of a sparse grid that has too many points wherever anything is not linear: a sample takes its place
_DENSER = 2.0  # nodes of the panels that are settled on, relative to those of the start: 1.5 to 3 in `benchmarks/corners.py`
_GUARD = 7_919  # apart from the seeds of the solve


class StochasticSolver(Solver):
    __doc__ = __doc__
    name = "stochastic"
    generic = True
    discrete = True
    on_card = True

    def starts(self, plan: Plan) -> bool:
        return not plan.facts.white_noises

    def linearises(self, plan: Plan) -> bool:
        return not plan.facts.white_noises

    def why_not(self, plan: Plan) -> str:
        return why_not_driven(plan)

    def form(self, discrete: bool) -> Form[Any]:
        return DISCRETE if discrete else STOCHASTIC

    def why(self, plan: Plan) -> str:
        noises, whites = plan.facts.noises, plan.facts.white_noises
        if whites:
            return f"white noise {', '.join(whites)}: sample paths in time steps, iterated to self-consistent averages"
        driven = f"driven by {', '.join(noises)}" if noises else "with memory"
        return f"processes {driven}: sample paths on one time grid, iterated to self-consistent averages"

    def solve(self, plan: Plan, values: Values, options: Options, control: PathsControls | None = None) -> Result:
        """Solve to the tolerance asked for; an interruption returns what there is."""
        control = control or PathsControls()
        program = at(plan.program(self.form(options.step is not None or bool(plan.facts.white_noises))), values.numbers)
        begin = float(program.start()[0])
        options.demand_after(begin)
        laws = values.all_laws(program)
        accuracy = control.path_accuracy_share * control.stop * options.rtol

        def part(asked: Options) -> _StochasticSolve:
            work = Work(checkpoint=asked.checkpoint, cluster=asked.cluster)
            engine = Engine(program, laws, work, accuracy, asked.device, asked.threads)
            return _StochasticSolve(engine, asked, control, begin, values.settings)

        def until(end: float) -> _StochasticSolve:
            return part(replace(options, t_max=end, at=(), checkpoint=None))

        with np.errstate(all="ignore"), one_each():  # matrices of some hundred rows: more threads are slower
            whole = part(options)
            try:
                result = whole.run()
                if options.sensitivity is None or whole.best is None or not result.is_finished:
                    return result
                return add_derivatives(result, whole.engine, whole.best[0], options.sensitivity, options, control)
            except MemoryLimitError:
                raise
            except SolverError as error:
                if whole.best is not None:
                    with contextlib.suppress(SolverError):  # the sample of paths may not go on either
                        error.partial = whole.so_far("stopped", str(error))
                    raise
                end = options.t_max
                raise stop_early(error, begin, end, lambda t: until(t).rough_solution(), lambda t: until(t).run()) from None


class _StochasticSolve:
    """One solve on its way: its stage, and the best that there is by now."""

    def __init__(
        self, engine: Engine, options: Options, control: PathsControls, begin: float, params: Mapping[str, Any]
    ) -> None:
        self.engine, self.options, self.control, self.begin, self.params = engine, options, control, begin, params
        nonlinear = any(plan.degree is None for plan in engine.ensembles)
        orders = [
            3 if item.integrated else 2
            for item in engine.program.covariances
            if item.cusp and (nonlinear or not item.integrated)
        ]
        self.judge = ErrorControl(engine, options, cusps=min(orders, default=None))
        self.order = options.order or (5 if options.rtol > 3e-4 else 7 if options.rtol > 3e-5 else 8)
        self.tolerance, self.rough = control.stop * options.rtol, control.rough * options.rtol
        self.stage = "start"
        self.mover = PointRefinement(engine, self.judge, control, self.tolerance)
        kinked = any(plan.kinked for plan in engine.ensembles)
        self.ensembles = Ensembles(engine, replace(self.judge, kinks=kinked), EnsembleControls(), options.seed, options.rtol)
        self.chance = 1.0  # tolerances that two small ensembles differ by, where it was measured
        self.hidden = 0.0  # tolerances that a sparse grid may err by as a random sample says, where it was drawn
        self.near: WarmStart | None = None
        self.levels: tuple[PathSolution, ...] = ()  # of nested steps, where there is white noise
        self.best: tuple[PathSolution, Errors | None, str] | None = None
        self._kinked = kinked
        self.jumps = any(plan.jumping for plan in engine.ensembles)
        engine.work.notify = self._notify

    def run(self) -> Result:
        """Solve; an interruption returns what there is, with the error it has."""
        try:
            return self._run()
        except (KeyboardInterrupt, MemoryError, BudgetSpentError) as reason:
            if self.best is None:
                raise
            if isinstance(reason, BudgetSpentError):
                return self.so_far("tolerance not met", "the budget was spent")
            what = "interrupted" if isinstance(reason, KeyboardInterrupt) else "out of memory"
            return self.so_far(what, what)

    def so_far(self, what: str, why: str) -> Result:
        """Return the best solution there is, and why there is no better one."""
        assert self.best is not None
        solved, errors, stage = self.best
        return self._package(solved, errors).with_status(what, f"{why} {stage}; the errors are those of what was done by then")

    def rough_solution(self) -> PathSolution:
        """Return a rough solution over the whole time."""
        options, rough = self.options, self._level(1e-2)
        if options.step is not None:
            grid = OperatorGrid.discrete(options.step, self.begin, options.t_max)
        else:
            grid = OperatorGrid.from_panels(self._first_panels())
        return self._grow_window(grid, rough)

    def _level(self, accuracy: float) -> Level:
        """Return the points for an accuracy; for paths with kinks a small sample."""
        level = make_level(accuracy, self.options.seed)
        return replace(level, most=self.control.probe) if self._kinked else level

    def _run(self) -> Result:
        """Solve: in steps with white noise, else on panels that are refined with few points first.

        A sample replaces a sparse grid that needs more points, has no solution, or is shown to err.
        """
        options = self.options
        if self.engine.program.whites or (self.jumps and options.step is None):
            return self._run_in_nested_steps()
        wanted = self._level(min(1e-2, 10 * options.rtol))
        few = self._level(max(1e-3, wanted.accuracy))  # panels are settled with few points
        begun = self._from_warm_start(few)
        if begun is None:
            rough_window = self.rough_solution()
            window = self._coarsened(rough_window)
            if self._needs_sample(window):
                try:
                    return self._run_sampled(window)
                except SolverError as reason:
                    if not self._kinked:
                        raise
                    logger.info("paths: no solution with sampled paths (%s); continuing with a sparse grid", reason)
            found = self._solve_sparse(window, few)
            if found is None and window is not rough_window:  # longer panels may leave the iteration no solution
                found = self._solve_sparse(rough_window, few)
            if found is None:
                return self._run_sampled(self._self_consistent_window(self._slower(window.grid), self._level(1e-2)))
            solved, by_panels, level = found
            wanted = wanted if level == few else level
        else:
            (solved, by_panels), level = begun, few
            if isinstance(near := self.options.warm_start, WarmStart) and near.sampled:
                return self._run_sampled(solved)
        self.stage = "paths"
        if wanted != level:
            design = Design(wanted, None, variation(solved.averages))
            solved = iterate(self.engine, solved.grid, solved.means, design, self.tolerance, solved.controls)
        final, by_panels, by_points = self._settle_points(solved, by_panels, wanted)
        curves = self.judge.curves(final)
        by_panels, by_points = (self.judge.without_noise(curves, errors) for errors in (by_panels, by_points))
        if any(layout.kind == "sparse" for layout in final.layouts):  # samples hide nothing
            for name, error in by_points.items():
                by_points[name] = error + np.where(error > 0, self.hidden, 0.0) * self.judge.allowed(curves, name)
            # many weak modes may do together what none of them does: grids agree then, and err
            beyond = self._beyond(final, self.judge.total(final, by_panels, by_points))
            for name in beyond.keys() - self.engine.program.kinked:  # averages of kinks are taken below
                by_points[name] = by_points[name] + beyond[name]
            excess = self.judge.worst(curves, beyond) if beyond else 0.0
            if excess > self.control.negligible:
                logger.info("paths: random samples differ from sparse grids by %.2g tolerances beyond their error", excess)
                missed = self.judge.worst(curves, self.judge.total(final, by_panels, by_points)) > 1.0
                if missed and self.ensembles.suffices(excess, final.grid.size):
                    with contextlib.suppress(SolverError):
                        return self._run_sampled(final)
        self.near = self._warm_start(final, by_panels)
        return self._average_kinks(final, by_panels, by_points)

    def _beyond(self, final: PathSolution, errors: Errors) -> Errors:
        """Return what random samples show of a sparse grid's errors beyond those known; nothing where they cannot be drawn."""
        try:
            return self.ensembles.unexplained_difference(final, errors, self.control.small_set_work)
        except (SolverError, MemoryError) as reason:
            logger.info("paths: no random samples to compare with (%s)", reason)
            return {}

    def _needs_sample(self, window: PathSolution) -> bool:
        """Whether a sparse grid of the accuracy wanted errs, at a rough solution, by more than sampled paths do."""
        if not any(item.choice.order.size for item in window.averages):
            return False
        if self._kinked or self.options.step is not None:
            return self._kinked
        if window.is_sampled:
            return True
        design = Design(make_level(self.options.rtol, self.options.seed), None, variation(window.averages))
        # the paths that a sample needs grow with the accuracy, and so may those of a sparse grid
        sampled = self.ensembles.control
        power = 1.0 / sampled.rate
        more = max(1.0, (1e-3 / self.options.rtol) ** power)
        if (count := count_paths(self.engine, window.kernels, design)) > self.control.sampled_from * more:
            return True
        grid, means = window.grid, window.means
        levels = [replace(design.level, rotation_seed=seed) for seed in (0, 1)]
        try:
            first, other = (collect(sweep(self.engine, grid, means, replace(design, level=level))) for level in levels)
            apart, chance, alone = self.ensembles.compare(window, first, other)
        except SolverError:  # too many paths, or one without a solution
            return False
        logger.info("paths: two sparse grids of %d paths differ by %.2g tolerances, from a random sample by %.2g (it scatters "
                    "by %.2g)", count, alone, apart, chance)  # fmt: skip
        self.chance = chance
        control = self.control
        # errors of both fall with the number of paths by about the same power: samples are taken
        # where they need fewer, and at 1e-3 and above where grids differ by a hundredth of values
        small = 2 * sampled.sets * sampled.small
        sampling_costs_less = small * max(1.0, chance) ** power < count * max(1.0, alone) ** power
        grids_disagree = alone > control.large * (1.0 if sampling_costs_less else max(1.0, 1e-3 / self.options.rtol))
        sample_disagrees = apart > max(control.large, 3.0 * chance)
        # many weak modes may do together what none of them does: the grids agree then, and err. Of
        # two ensembles one ratio in eight exceeds five by chance
        hidden = apart > max(2 * control.negligible, 0.5 * control.large * chance)
        self.hidden = min(apart, control.negligible)
        errs = grids_disagree or sample_disagrees or hidden
        return errs and (chance < 3.0 * alone or self.ensembles.suffices(chance, _DENSER * window.grid.size))

    def _run_sampled(self, window: PathSolution) -> Result:
        """Solve by sampled paths, from a rough solution on."""
        self._keep(window, None, "after the start")
        self.stage = "time grid"
        ensembles = self.ensembles
        small = self._small_ensemble(window)
        self._keep(small, None, f"with {small.paths} paths")
        levels: tuple[PathSolution, ...] = (small,)
        by_panels: ByGrid = lambda levels: self.judge.zero_errors(levels[0])  # noqa: E731
        if small.grid.panels is not None:
            levels, by_panels = ensembles.settle_panels(small)
        self._keep(levels[0], None, f"with {levels[0].grid.size} nodes")
        self.stage = "paths"
        final, errors, by_points = self._refine_sampled(levels, by_panels)
        self._keep(final, _sum(by_points, errors), "with large ensembles")
        self.near = None if self._kinked else self._warm_start(final, errors)
        return self._average_kinks(final, errors, by_points)

    def _refine_sampled(self, small: Sequence[PathSolution], by_panels: ByGrid) -> tuple[PathSolution, Errors, Errors]:
        """Return a small ensemble's solution moved to the average of large ones, the error of panels and that of points."""

        def smooth(levels: Sequence[PathSolution]) -> Errors:
            errors = by_panels(levels)
            return errors if self._kinked else self.judge.without_noise(self.judge.curves(levels[0]), errors)

        levels, by_points = self.ensembles.refine(small, smooth)
        return levels[0], smooth(levels), by_points

    def _average_kinks(self, final: PathSolution, by_panels: Errors, by_points: Errors) -> Result:
        """Return the result, with averages of functions with a kink."""
        self.stage = "averages"
        self.options.report_share(_SHARES["averages"][0], "averages over paths")
        errors = self.judge.total(final, by_panels, by_points)
        if all(layout.kind != "sparse" for layout in final.layouts):  # large ensembles have averaged kinks as well
            over = self.judge.excesses(self.judge.curves(final), errors, kinks=True)
            if self._kinked or max(over.values(), default=0.0) <= 1.0:
                return self._package(final, errors)
        final, kinked = average_kinks(self.judge, final, errors, self.control)
        self._keep(final, None, "at the end")
        by_points = by_points | {name: error + by_points[name] for name, error in kinked.items()}
        return self._package(final, self.judge.total(final, by_panels, by_points))

    def _small_ensemble(self, window: PathSolution) -> PathSolution:
        """Return the small ensemble's solution; from a march, then on denser panels, where it does not come near one."""
        best: PathSolution | None = None
        own, slower = window.grid, math.sqrt(self.control.slower)
        for grid in (own, self._slower(own), self._slower(own, slower), None):
            try:
                small = self.ensembles.solve_small(window)
                best = small if best is None or small.residual < best.residual else best
                if small.residual <= self.options.rtol:
                    break
            except SolverError as reason:
                logger.info("paths: no solution from this start (%s)", reason)
                if grid is None and best is None:
                    raise
            if grid is not None:
                try:
                    window = self._self_consistent_window(grid, self._level(1e-2))
                except SolverError:
                    if best is None:
                        raise
                    break
        assert best is not None
        return best

    def _run_in_nested_steps(self) -> Result:
        """Solve with white noise: a small ensemble chooses steps, then large ones on nested steps."""
        judge, ensembles, control, options = self.ensembles.judge, self.ensembles, self.ensembles.steps, self.options
        level = replace(self._level(1e-2), accuracy=_ALL, most=self._sampled_paths)
        count, last = control.first, math.inf
        grid = steps_in_time(self.begin, options, count, control)
        rough = start(self.engine, grid, level)
        for number in range(control.rounds):
            self.stage = "time grid"
            small = ensembles.solve_small(rough)
            middle = ensembles.on_coarser_steps(small)
            final: tuple[PathSolution, ...] = (small, middle, ensembles.on_coarser_steps(middle))
            by_steps, worst = self._judge_steps(final, control)
            by_points, drawn = judge.zero_errors(final[1]), any(layout.kind != "cubic" for layout in final[0].layouts)
            if drawn:  # of one small ensemble nothing is known
                by_points = {name: np.abs(values) for name, values in judge.curves(final[1]).all.items()}
            self._keep_levels(final, by_steps, by_points)
            if drawn and (worst <= 1.0 or worst > last):  # may be sampling error, not that of the steps
                self.stage = "paths"
                final, by_points = ensembles.refine(
                    final, lambda levels: step_errors([judge.curves(item) for item in levels], control, levels[0].grid.nodes)
                )
                by_steps, worst = self._judge_steps(final, control)
                self._keep_levels(final, by_steps, by_points)
                drawn = False
            if (worst <= control.enough and not drawn) or number == control.rounds - 1 or options.is_short_of_time():
                break
            more = min(max((worst / control.aim) ** (1 / control.order), 1.2), control.growth)
            count, last = count * more, 2 * worst * more**-control.order
            grid = steps_in_time(self.begin, options, count, control)
            means = transfer(final[0].means, self.engine.responses, final[0].grid, grid)
            averages = sweep(self.engine, grid, means, Design(final[0].averages[0].choice.level, final[0].layouts))
            rough = PathSolution(grid, means, self.engine.kernels(grid, means), averages, Secants(), 1.0)
        assert self.best is not None
        return self._package(*self.best[:2])

    def _keep_levels(self, levels: Sequence[PathSolution], by_steps: Errors, by_points: Errors) -> None:
        self.levels = tuple(levels)
        errors = self.judge.total(levels[1], by_steps, by_points)
        self._keep(levels[0], errors, f"with {levels[0].grid.size - 1} steps")

    def _judge_steps(self, levels: Sequence[PathSolution], control: NestedStepControls) -> tuple[Errors, float]:
        """Return the error of the steps, and its largest value in units of the tolerance."""
        curves = [self.judge.curves(item) for item in levels]
        errors = step_errors(curves, control, levels[0].grid.nodes)
        worst = self.ensembles.judge.worst(extrapolate_steps(curves, control), errors)
        logger.info("time grid: %d steps; their error is %.2g times the tolerance", levels[0].grid.size - 1, worst)
        return errors, worst

    def _solve_sparse(self, window: PathSolution, few: Level) -> tuple[PathSolution, Errors, Level] | None:
        """Return a solution with few points on panels that are dense enough, their error, and its level of points.

        None where few points have no solution, and sampled paths may.
        """
        begun, solved, design = self._first_solution(window, few)
        if not begun.is_sampled and self._stagnates(solved):
            logger.info("paths: the sparse grid gives no solution; continuing with sampled paths")
            if self.options.step is None:
                return None
            with contextlib.suppress(SolverError):
                found = self._first_solution(self._self_consistent_window(self._slower(begun.grid), self._level(1e-2)), few)
                begun, solved, design = found if found[1].residual < solved.residual else (begun, solved, design)
        solved, design = self.mover.more(solved, design, self.rough, self.control.settled * self.options.rtol)
        by_panels = self.judge.zero_errors(solved)
        if self.options.step is None:
            solved, by_panels = self._settle_panels(solved, design)
        return solved, by_panels, design.level

    def _first_solution(self, begun: PathSolution, few: Level) -> tuple[PathSolution, PathSolution, Design]:
        """Return a start, the solution that is iterated from it, and how its points are chosen."""
        self._keep(begun, None, "after the start")
        self.stage = "time grid"
        design = Design(begun.averages[0].choice.level if begun.is_sampled else few, None, variation(begun.averages))
        return begun, iterate(self.engine, begun.grid, begun.means, design, self.rough), design

    @property
    def _sampled_paths(self) -> int:
        """How many paths there are for every value of the constants where few are sampled."""
        return max(self.control.probe // 8, self.control.probe // count_values(self.engine))

    def _from_warm_start(self, few: Level) -> tuple[PathSolution, Errors] | None:
        """Return a solution from a warm start and the error of its panels; None without a usable one."""
        options, near = self.options, self.options.warm_start
        if not isinstance(near, WarmStart):
            return None
        begun = guess_from_warm_start(near, self.engine, options, self.order, self.begin, self._rate)
        if isinstance(begun, str):
            logger.info("the solution given to begin with is not used: %s", begun)
            return None
        self.stage = "time grid"
        design = Design(few, None, begun.shapes)
        try:
            solved = iterate(self.engine, begun.grid, begun.means, design, self.rough, WARM_ITERATION)
            if self._stagnates(solved):
                return None
        except SolverError as reason:
            logger.info("the solution given to begin with does not lead to this one (%s); beginning without it", reason)
            return None
        logger.info(
            "begun with a solution at other parameters: time grid of %d nodes, %d paths", solved.grid.size, solved.paths
        )
        self._keep(solved, None, "after the start")
        by_panels = self.judge.zero_errors(solved)
        if options.step is None:
            by_panels = self._check_panels(solved, design)
            curves = self.judge.curves(solved)
            if self.judge.worst(curves, by_panels) > self.control.share:
                solved, by_panels = self._settle_panels(solved, design, self._ratios(curves, by_panels, solved))
        return solved, by_panels

    # --- panels
    @functools.cached_property
    def _rate(self) -> float:
        """How fast paths move at the start."""
        return rate(self.engine, self.begin, self._level(1e-2))

    def _first_panels(self, growth: float | None = None) -> PanelGrid:
        """Return geometric panels whose first length follows from how fast paths move at the start."""
        span = self.options.t_max - self.begin
        first = min(self.control.first / max(self._rate, 1e-12), span / 4)
        return PanelGrid.geometric(self.begin, self.options.t_max, first, growth or self.control.growth, self.order,
                                   self.options.breaks)  # fmt: skip

    def _slower(self, grid: OperatorGrid, growth: float | None = None) -> OperatorGrid:
        """Return first panels that grow more slowly, where a grid has panels."""
        return grid if grid.panels is None else OperatorGrid.from_panels(self._first_panels(growth or self.control.slower))

    def _grow_window(self, grid: OperatorGrid, rough: Level) -> PathSolution:
        try:
            return start(self.engine, grid, rough)
        except SolverError:
            logger.info("paths: the sparse grid gives no start; continuing with sampled paths")
            return self._self_consistent_window(self._slower(grid), rough)

    def _self_consistent_window(self, grid: OperatorGrid, rough: Level) -> PathSolution:
        """Return a start by a self-consistent ensemble, else by samples on a growing window."""
        level = replace(rough, accuracy=_ALL, most=self._sampled_paths)
        try:
            means = self_consistent_start(self.engine, grid, rough, self.options.seed)
            averages = sweep(self.engine, grid, means, Design(level))
        except SolverError as reason:
            logger.info("paths: the start by a self-consistent ensemble failed (%s)", reason)
            return start(self.engine, grid, level)
        logger.info("time grid: a start on %d nodes by a self-consistent ensemble", grid.size)
        return PathSolution(grid, means, self.engine.kernels(grid, means), averages, Secants(), 1.0)

    def _coarsened(self, begun: PathSolution) -> PathSolution:
        """Return a rough solution on longer panels where its functions of time are quiet: half as long as these allow."""
        if begun.grid.panels is None:
            return begun
        wanted = 2.0 * self.judge.resolution(self.judge.curves(begun), begun.grid.panels)
        if (wanted >= 1.0).all():
            return begun
        grid = OperatorGrid.from_panels(begun.grid.panels.denser(np.clip(wanted, self.control.quiet, 1.0)))
        level = begun.averages[0].choice.level
        for again in (False, True):
            with contextlib.suppress(SolverError):
                if again:
                    means = self_consistent_start(self.engine, grid, level, self.options.seed)
                else:
                    means = transfer(begun.means, self.engine.responses, begun.grid, grid)
                averages = sweep(self.engine, grid, means, Design(level))
                logger.info("time grid: coarsened to %d nodes by the Legendre tails on %d", grid.size, begun.grid.size)
                return PathSolution(grid, means, self.engine.kernels(grid, means), averages, Secants(), 1.0)
        return begun

    def _settle_panels(self, base: PathSolution, design: Design, ratios: Array | None = None) -> tuple[PathSolution, Errors]:
        """Return the solution with few points on panels that are dense enough, and the error of the panels."""
        assert base.grid.panels is not None
        ratios = np.full(base.grid.panels.panels, self.control.ratio) if ratios is None else ratios
        checked, errors = math.inf, Errors()
        for _ in range(self.control.rounds):
            assert base.grid.panels is not None
            dense, shapes = self._move(base, design, base.grid.panels.denser(ratios, keep=True))
            design = replace(design, shapes=shapes)
            errors = self.judge.keep_errors(self.judge.panel_differences(base, dense, ratios), errors, base, dense)
            curves = self.judge.curves(dense)
            worst = self.judge.worst(curves, errors)
            logger.info("time grid: %d nodes; compared with a coarser grid its error is %.2g times the tolerance",
                        dense.grid.size, worst)  # fmt: skip
            self._keep(dense, None, f"with {dense.grid.size} nodes")
            if self._stagnates(dense):
                break
            if worst <= self.control.share:
                coarser, errors = errors, self._check_panels(dense, design)
                errors = self.judge.keep_errors(errors, coarser, dense, dense)  # in both orders they err alike
                worst = self.judge.worst(curves, errors)
                if worst <= self.control.share or worst > self.control.stuck * checked:
                    break  # what denser panels leave is of the points, whose modes are others on every grid
                checked = worst
            if self.options.is_short_of_time():
                break
            base, ratios = dense, self._ratios(curves, errors, dense)
        return dense, errors

    def _stagnates(self, solved: PathSolution) -> bool:
        """Whether the iteration leaves so much that neither panels nor points are worth refining."""
        if solved.residual <= self.control.settled * self.options.rtol:
            return False
        logger.info(
            "the iteration stagnates at a residual of %.2g: a finer grid or more paths would not help", solved.residual
        )
        return True

    def _check_panels(self, solved: PathSolution, design: Design) -> Errors:
        """Return the error of panels by the difference to those of the next order that is allowed."""
        old = solved.grid.panels
        assert old is not None
        panels = old.of_another_order(self.control.highest, self.control.check_ratio)
        other, _ = self._move(solved, design, panels, replace(solved.controls, choose=(), most=WARM_ITERATION.most))
        errors = self.judge.panel_errors(solved, other)
        worst = self.judge.worst(self.judge.curves(solved), errors)
        logger.info("time grid: %d nodes; compared with an independent grid of %d nodes its error is %.2g times the tolerance",
                    solved.grid.size, other.grid.size, worst)  # fmt: skip
        return errors

    def _ratios(self, curves: Curves, errors: Errors, solved: PathSolution, bounds: tuple[float, float] = (1.1, 2.0)) -> Array:
        """Return how much denser each panel and its neighbours should be."""
        wanted = self.judge.ratios(curves, errors, solved.grid, 0.3 * self.control.share)
        wanted = np.maximum(wanted, np.maximum(np.append(wanted[1:], 0), np.append(0, wanted[:-1])))
        return np.clip(wanted, *bounds)

    def _move(
        self, solved: PathSolution, design: Design, panels: PanelGrid, controls: IterationControls | None = None
    ) -> tuple[PathSolution, Shapes | None]:
        """Return the solution on other panels, with the same points, and what is known about responses there."""
        engine, grid = self.engine, OperatorGrid.from_panels(panels)
        means = transfer(solved.means, engine.responses, solved.grid, grid)
        shapes = move_shapes(design.shapes, engine.noises, solved.grid, grid)
        found = []
        with contextlib.suppress(SolverError):
            made = iterate(
                engine, grid, means, Design(design.level, solved.layouts, shapes), self.rough, controls or solved.controls
            )
            if made.residual <= solved.residual or not self._stagnates(made):
                return made, shapes
            found.append((made, shapes))
        try:  # from the start again, on these panels
            begin = self._self_consistent_window if solved.is_sampled else self._grow_window
            begun = begin(grid, self._level(1e-2))
            learnt = variation(begun.averages)
            again = Design(design.level, solved.layouts, learnt)
            found.append((iterate(engine, begun.grid, begun.means, again, self.rough), learnt))
        except SolverError:
            if not found:
                raise
        return min(found, key=lambda pair: pair[0].residual)

    # --- points
    def _settle_points(self, solved: PathSolution, by_panels: Errors, level: Level) -> tuple[PathSolution, Errors, Errors]:
        """Move a solution from one set of points to the next, finer one until it stays where it is.

        Returned are the solution, the error of its panels, and that of its points. When it does not
        stay, every way to have more points is probed, and it is iterated again with more in those
        that matter.
        """
        judge, control = self.judge, self.control
        ways = self.mover.ways(solved)
        if not ways:  # every mean is exact
            return solved, by_panels, judge.zero_errors(solved)
        design, matter = Design(level, None, variation(solved.averages)), frozenset(ways)
        final, errors = solved, {name: np.abs(values) for name, values in judge.curves(solved).all.items()}
        for number in range(1, control.rounds + 1):
            try:
                moved, by_panels = self._move_points(solved, design, matter, by_panels)
                final, errors = moved.final, moved.errors
                curves = judge.curves(final)
                self._keep(final, _sum(errors, by_panels), f"with {solved.paths} paths")
                # averages of kinks, or what is hidden, err beside that
                enough = 0.8 if self.engine.program.kinked else min(0.95, 1.0 - self.hidden)
                if judge.worst(curves, errors) + judge.worst(curves, by_panels) <= enough or self._stagnates(solved):
                    break
                if number == control.rounds or matter == {"sample"} or not moved.trend:
                    break  # of samples there are no larger ones
                if self.options.is_short_of_time():
                    break
                effects = self.mover.effects(solved, design)
                matter = frozenset(way for way in ways if effects[way] > control.negligible)
                design = Design(self.mover.refined(design.level, effects), None, variation(solved.averages))
                begin = final if judge.worst(curves, errors) <= control.large else solved
                solved = iterate(self.engine, solved.grid, begin.means, design, self.tolerance, solved.controls)
                rough = number == 1 and max(effects[way] for way in ways) > control.large
                rough |= judge.worst(curves, by_panels) > control.share
                if self.options.step is None and rough:
                    by_panels, curves = self._check_panels(solved, design), judge.curves(solved)
                    if judge.worst(curves, by_panels) > control.share:
                        solved, by_panels = self._settle_panels(solved, design, self._ratios(curves, by_panels, solved))
                    design = replace(design, shapes=variation(solved.averages))
            except SolverError as reason:  # too many points, or far from a solution
                logger.info("no more paths: %s", reason)
                if not isinstance(reason, LostPathError) or solved.grid.panels is None:
                    break
                try:  # on shorter panels
                    solved, by_panels = self._settle_panels(solved, design, np.full(solved.grid.panels.panels, 2.0))
                except SolverError:
                    break
                design = replace(design, shapes=variation(solved.averages))
        return final, by_panels, errors

    def _move_points(
        self, solved: PathSolution, design: Design, ways: frozenset[str], by_panels: Errors
    ) -> tuple[RefinedSolution, Errors]:
        """Return a solution moved by sets of finer points, or by large ensembles of sampled paths where these do not do."""
        judge, control = self.judge, self.control
        if "sample" in ways and "constants" not in ways:
            (final,), errors = self.ensembles.refine([solved], lambda _: by_panels)
            return RefinedSolution(final, errors), by_panels
        moved = self.mover.move(solved, design, ways, by_panels)
        room = max(1.0 - judge.worst(judge.curves(moved.final), by_panels), control.share)
        settled = moved.trend[-1][1] <= room or not (is_clear(moved.trend) or is_far(moved.trend, control.large))
        if settled or "modes" not in ways or "constants" in ways:
            return moved, by_panels
        if not self.ensembles.suffices(self.chance, solved.grid.size):
            return moved, by_panels
        small: tuple[PathSolution, ...] = (self.ensembles.solve_small(solved),)
        of_panels: ByGrid = lambda _: by_panels  # noqa: E731
        if self.options.step is None and judge.worst(judge.curves(solved), by_panels) > control.share:
            small, of_panels = self.ensembles.settle_panels(small[0])  # of few points it may not be the panels' error
        final, panels, errors = self._refine_sampled(small, of_panels)
        sampled = RefinedSolution(final, errors)
        worst, other = (judge.worst(judge.curves(item.final), item.errors) for item in (moved, sampled))
        return (sampled, panels) if other < worst else (moved, by_panels)

    # --- on the way
    def _keep(self, solved: PathSolution, errors: Errors | None, stage: str) -> None:
        """Remember a solution in case of an interruption; without known errors they are as large as the values."""
        self.best = (solved, errors, stage)

    def _notify(self, until: float, sweeps: int, residual: float) -> None:
        self.options.demand_time(f"in the stage '{self.stage}', up to t = {until:.4g}")
        low, high = _SHARES[self.stage]
        settled = math.log(min(max(residual, self.tolerance), 1.0)) / math.log(self.tolerance)
        inside = (until - self.begin) / (self.options.t_max - self.begin) if self.stage == "start" else settled
        text = f"{self.stage}, up to t = {until:.4g}: iteration {sweeps}, residual {residual:.1g}"
        self.options.report_share(low + (high - low) * inside, text)

    def _package(self, solved: PathSolution, errors: Errors | None) -> Result:
        curves = self.judge.curves(solved)
        if errors is None:
            errors = {name: np.abs(values) for name, values in curves.all.items()}
        doubt, times = self._doubt(solved, errors, curves), None
        if self.levels:
            every, control = [self.judge.curves(item) for item in self.levels], self.ensembles.steps
            curves, times = extrapolate_steps(every, control), self.levels[1].grid.nodes
        over = self.judge.excesses(curves, errors, kinks=True)
        if self.levels:
            curves, errors = on_fine_steps(every, errors, control, solved.grid.nodes)
        kept = self._sample(solved)
        near = None if doubt else self.near
        made = package(self.engine, solved, curves, errors, over, kept, self.options, self.params, near, times)
        return made.with_status("tolerance not met", doubt) if doubt else made

    def _doubt(self, solved: PathSolution, errors: Errors, curves: Curves) -> str:
        """Return how a plain Monte Carlo check contradicts a solution, or ""."""
        try:
            drawn = sample(self.engine, solved.kernels, solved.averages, self.control.sample, self.options.seed + _GUARD)
            return disagreement(solved, drawn, errors, curves)
        except (SolverError, MemoryError) as reason:
            logger.info("no Monte Carlo check: %s", reason)
            return ""

    def _warm_start(self, final: PathSolution, by_panels: Errors) -> WarmStart | None:
        """Return a warm start for other parameters, on as many panels as are needed here."""
        if self._stagnates(final):
            return None
        ratios = None
        if final.grid.panels is not None:
            ratios = self._ratios(self.judge.curves(final), by_panels, final, self.control.handed)
        return make_warm_start(self.engine, final, self._rate, ratios)

    def _sample(self, solved: PathSolution) -> tuple[Sample, ...]:
        """Return the paths that are kept, if they are wanted."""
        if not self.options.paths:
            return ()
        try:
            return sample(self.engine, solved.kernels, solved.averages, self.control.paths_shown, self.options.seed)
        except (SolverError, MemoryError) as reason:  # what was solved is returned all the same
            logger.info("no sample of paths is kept in the result: %s", reason)
            return ()


def _sum(errors: Errors, more: Errors) -> Errors:
    return {name: error + more[name] for name, error in errors.items()}
