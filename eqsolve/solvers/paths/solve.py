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
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.forms import DISCRETE, STOCHASTIC, Form
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import BudgetSpentError, MemoryLimitError, SolverError, logger
from eqsolve.numerics.gaussian import Level, make_level, refine_level
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_driven
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import EnsembleControls, NestedStepControls, PathsControls
from eqsolve.solvers.paths.ensembles import ByGrid, Ensembles
from eqsolve.solvers.paths.error_control import Curves, ErrorControl, Errors, disagreement, margin_of, package
from eqsolve.solvers.paths.follow import LostPathError
from eqsolve.solvers.paths.iterate import PathSolution, iterate, start, sweep_once
from eqsolve.solvers.paths.kinks import average_kinks
from eqsolve.solvers.paths.large_ensembles import LargeEnsembles
from eqsolve.solvers.paths.nested_steps import extrapolate_steps, on_fine_steps, step_errors, steps_in_time
from eqsolve.solvers.paths.panel_refinement import PanelRefinement
from eqsolve.solvers.paths.point_refinement import PointRefinement, RefinedSolution, is_clear, is_far
from eqsolve.solvers.paths.sensitivity import add_derivatives
from eqsolve.solvers.paths.starts import Starts
from eqsolve.solvers.paths.sweep import (
    Design,
    Engine,
    Sample,
    Work,
    collect,
    count_paths,
    sample,
    sweep,
    variation,
)
from eqsolve.solvers.paths.transfer import transfer
from eqsolve.solvers.paths.warm_start import WARM_ITERATION, WarmStart, guess_from_warm_start, make_warm_start
from eqsolve.solvers.threads import one_each
from eqsolve.solvers.tolerance import stop_early

# Shares of the work, between those of four solves of three models, which differ widely: points take
# 0.2 to 0.8 of it.
_SHARES = {"start": (0.0, 0.06), "time grid": (0.06, 0.3), "paths": (0.3, 0.85), "averages": (0.85, 1.0)}


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
                raise stop_early(error, begin, end, lambda t: until(t).starts.window(), lambda t: until(t).run()) from None


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
        order = options.order or (5 if options.rtol > 3e-4 else 7 if options.rtol > 3e-5 else 8)
        self.starts = Starts(engine, self.judge, options, control, begin, order)
        self.panels = PanelRefinement(engine, self.judge, options, control, self.starts, self._keep)
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
            return self._solve_system()
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

    def _solve_system(self) -> Result:
        """Solve: in steps with white noise, else on panels that are refined with few points first.

        A sample replaces a sparse grid that needs more points, has no solution, or is shown to err.
        """
        options = self.options
        if self.engine.program.whites or (self.jumps and options.step is None):
            return self._solve_with_white_noise()
        wanted = self.starts.level(min(1e-2, 10 * options.rtol))
        few = self.starts.level(max(1e-3, wanted.accuracy))  # panels are settled with few points
        begun = self._from_warm_start(few)
        if begun is None:
            begun_window = self.starts.window()
            window = self.starts.coarsened(begun_window)
            if self._needs_sample(window):
                try:
                    return self._solve_by_ensembles(window)
                except SolverError as reason:
                    if not self._kinked:
                        raise
                    logger.info("paths: no solution with sampled paths (%s); continuing with a sparse grid", reason)
            found = self._solve_sparse(window, few)
            if found is None and window is not begun_window:  # longer panels may leave the iteration no solution
                found = self._solve_sparse(begun_window, few)
            if found is None:
                return self._solve_by_ensembles(self.starts.march(self.starts.more_slowly(window.grid)))
            solved, by_panels, level = found
            wanted = wanted if level == few else level
        else:
            (solved, by_panels), level = begun, few
            if isinstance(near := self.options.warm_start, WarmStart) and near.sampled:
                return self._solve_by_ensembles(solved)
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
                        return self._solve_by_ensembles(final)
        self.near = self._warm_start(final)
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
        if (count := count_paths(self.engine, window.kernels, design)) > 2 * sampled.small * more:
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
        # many weak modes may do together what none of them does: the grids agree then, and err
        hidden = apart > max(2 * control.negligible, margin_of(2) * chance)  # of two ensembles, by chance once in seven
        self.hidden = min(apart, control.negligible)
        errs = grids_disagree or sample_disagrees or hidden
        return errs and (chance < 3.0 * alone or self.ensembles.suffices(chance, self.control.ratio**2 * window.grid.size))

    def _solve_by_ensembles(self, window: PathSolution) -> Result:
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
        final, errors, by_points = self._refine_ensembles(levels, by_panels)
        self._keep(final, _sum(by_points, errors), "with large ensembles")
        self.near = None if self._kinked else self._warm_start(final)
        return self._average_kinks(final, errors, by_points)

    def _refine_ensembles(self, small: Sequence[PathSolution], by_panels: ByGrid) -> tuple[PathSolution, Errors, Errors]:
        """Return a small ensemble's solution moved to the average of large ones, the error of panels and that of points."""

        def smooth(levels: Sequence[PathSolution]) -> Errors:
            errors = by_panels(levels)
            return errors if self._kinked else self.judge.without_noise(self.judge.curves(levels[0]), errors)

        levels, by_points = LargeEnsembles(self.ensembles, small, smooth).refine()
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
        own, slower = window.grid, self.control.growth**0.25
        for grid in (own, self.starts.more_slowly(own), self.starts.more_slowly(own, slower), None):
            try:
                small = self.ensembles.begin(window)
                best = small if best is None or small.residual < best.residual else best
                if small.residual <= self.options.rtol:
                    break
            except SolverError as reason:
                logger.info("paths: no solution from this start (%s)", reason)
                if grid is None and best is None:
                    raise
            if grid is not None:
                try:
                    window = self.starts.march(grid)
                except SolverError:
                    if best is None:
                        raise
                    break
        assert best is not None
        return best

    def _solve_with_white_noise(self) -> Result:
        """Solve with white noise: a small ensemble chooses steps, then large ones on nested steps."""
        judge, ensembles, control, options = self.ensembles.judge, self.ensembles, self.ensembles.steps, self.options
        level = self.starts.sampled(self.starts.level(1e-2))
        count, last = control.first, math.inf
        grid = steps_in_time(self.begin, options, count, control)
        rough = start(self.engine, grid, level)
        for number in range(self.control.rounds):
            self.stage = "time grid"
            small = ensembles.begin(rough)
            middle = ensembles.on_coarser_steps(small)
            final: tuple[PathSolution, ...] = (small, middle, ensembles.on_coarser_steps(middle))
            by_steps, worst = self._judge_steps(final, control)
            by_points, drawn = judge.zero_errors(final[1]), any(layout.kind != "cubic" for layout in final[0].layouts)
            if drawn:  # of one small ensemble nothing is known
                by_points = {name: np.abs(values) for name, values in judge.curves(final[1]).all.items()}
            self._keep_levels(final, by_steps, by_points)
            if drawn and (worst <= 1.0 or worst > last):  # may be sampling error, not that of the steps
                self.stage = "paths"
                by_grid: ByGrid = lambda levels: step_errors(  # noqa: E731
                    [judge.curves(item) for item in levels], control, levels[0].grid.nodes
                )
                final, by_points = LargeEnsembles(ensembles, final, by_grid).refine()
                by_steps, worst = self._judge_steps(final, control)
                self._keep_levels(final, by_steps, by_points)
                drawn = False
            if (worst <= control.enough and not drawn) or number == self.control.rounds - 1 or options.is_short_of_time():
                break
            # chosen by an order more than the weak one, which extrapolation gains at least
            more = (ensembles.control.safety * worst / self.control.share) ** (1 / (control.order + 1))
            more = min(max(more, 1.2), ensembles.control.growth)
            count, last = count * more, 2 * worst * more ** -(control.order + 1)
            grid = steps_in_time(self.begin, options, count, control)
            means = transfer(final[0].means, self.engine.responses, final[0].grid, grid)
            rough = sweep_once(self.engine, grid, means, Design(final[0].averages[0].choice.level, final[0].layouts))
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
        if not begun.is_sampled and self.panels.stagnates(solved):
            logger.info("paths: the sparse grid gives no solution; continuing with sampled paths")
            if self.options.step is None:
                return None
            with contextlib.suppress(SolverError):
                again = self.starts.march(self.starts.more_slowly(begun.grid))
                found = self._first_solution(again, few)
                begun, solved, design = found if found[1].residual < solved.residual else (begun, solved, design)
        by_panels = self.judge.zero_errors(solved)
        if self.options.step is None:
            solved, by_panels = self.panels.settle(solved, design)
        return solved, by_panels, design.level

    def _first_solution(self, begun: PathSolution, few: Level) -> tuple[PathSolution, PathSolution, Design]:
        """Return a start, the solution that is iterated from it, and how its points are chosen."""
        self._keep(begun, None, "after the start")
        self.stage = "time grid"
        design = Design(begun.averages[0].choice.level if begun.is_sampled else few, None, variation(begun.averages))
        return begun, iterate(self.engine, begun.grid, begun.means, design, self.rough), design

    def _from_warm_start(self, few: Level) -> tuple[PathSolution, Errors] | None:
        """Return a solution from a warm start and the error of its panels; None without a usable one."""
        options, near = self.options, self.options.warm_start
        if not isinstance(near, WarmStart):
            return None
        begun = guess_from_warm_start(near, self.engine, options, self.starts.order, self.begin, self.starts.rate)
        if isinstance(begun, str):
            logger.info("the solution given to begin with is not used: %s", begun)
            return None
        self.stage = "time grid"
        design = Design(few, None, begun.shapes)
        try:
            solved = iterate(self.engine, begun.grid, begun.means, design, self.rough, WARM_ITERATION)
            if self.panels.stagnates(solved):
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
            by_panels = self.panels.check(solved, design)
            curves = self.judge.curves(solved)
            if self.judge.worst(curves, by_panels) > self.control.share:
                solved, by_panels = self.panels.settle(solved, design, self.panels.ratios(curves, by_panels, solved))
        return solved, by_panels

    # --- points
    def _settle_points(self, solved: PathSolution, by_panels: Errors, level: Level) -> tuple[PathSolution, Errors, Errors]:
        """Move a solution from one set of points to the next, finer one until it stays where it is.

        Returned are the solution, the error of its panels, and that of its points. When it does not
        stay, it is iterated again with more of its own points.
        """
        judge, control = self.judge, self.control
        ways = self.mover.ways(solved)
        if not ways:  # every mean is exact
            return solved, by_panels, judge.zero_errors(solved)
        design = Design(level, None, variation(solved.averages))
        final, errors = solved, {name: np.abs(values) for name, values in judge.curves(solved).all.items()}
        for number in range(1, control.rounds + 1):
            try:
                moved, by_panels = self._move_points(solved, design, frozenset(ways), by_panels)
                final, errors = moved.final, moved.errors
                curves = judge.curves(final)
                self._keep(final, _sum(errors, by_panels), f"with {solved.paths} paths")
                # averages of kinks, or what is hidden, err beside that
                enough = 0.8 if self.engine.program.kinked else min(0.95, 1.0 - self.hidden)
                if judge.worst(curves, errors) + judge.worst(curves, by_panels) <= enough or self.panels.stagnates(solved):
                    break
                if number == control.rounds or ways == ["sample"] or not moved.trend:
                    break  # of samples there are no larger ones
                if self.options.is_short_of_time():
                    break
                worst, level = judge.worst(curves, errors), design.level
                for way in ways:
                    level = refine_level(level, way, worst)
                design = Design(level, None, variation(solved.averages))
                begin = final if worst <= control.large else solved
                solved = iterate(self.engine, solved.grid, begin.means, design, self.tolerance, solved.controls)
                rough = (number == 1 and worst > control.large) or judge.worst(curves, by_panels) > control.share
                if self.options.step is None and rough:
                    by_panels, curves = self.panels.check(solved, design), judge.curves(solved)
                    if judge.worst(curves, by_panels) > control.share:
                        solved, by_panels = self.panels.settle(solved, design, self.panels.ratios(curves, by_panels, solved))
                    design = replace(design, shapes=variation(solved.averages))
            except SolverError as reason:  # too many points, or far from a solution
                logger.info("no more paths: %s", reason)
                if not isinstance(reason, LostPathError) or solved.grid.panels is None:
                    break
                try:  # on shorter panels
                    solved, by_panels = self.panels.settle(solved, design, np.full(solved.grid.panels.panels, 2.0))
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
            (final,), errors = LargeEnsembles(self.ensembles, [solved], lambda _: by_panels).refine()
            return RefinedSolution(final, errors), by_panels
        moved = self.mover.move(solved, design, ways, by_panels)
        room = max(1.0 - judge.worst(judge.curves(moved.final), by_panels), control.share)
        settled = moved.trend[-1][1] <= room or not (is_clear(moved.trend) or is_far(moved.trend, control.large))
        if settled or "modes" not in ways or "constants" in ways:
            return moved, by_panels
        if not self.ensembles.suffices(self.chance, solved.grid.size):
            return moved, by_panels
        small: tuple[PathSolution, ...] = (self.ensembles.begin(solved),)
        of_panels: ByGrid = lambda _: by_panels  # noqa: E731
        if self.options.step is None and judge.worst(judge.curves(solved), by_panels) > control.share:
            small, of_panels = self.ensembles.settle_panels(small[0])  # of few points it may not be the panels' error
        final, panels, errors = self._refine_ensembles(small, of_panels)
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
            drawn = sample(self.engine, solved.kernels, solved.averages, self.control.sample, self.options.seed + 1)
            return disagreement(solved, drawn, errors, curves)
        except (SolverError, MemoryError) as reason:
            logger.info("no Monte Carlo check: %s", reason)
            return ""

    def _warm_start(self, final: PathSolution) -> WarmStart | None:
        """Return a warm start for other parameters."""
        return None if self.panels.stagnates(final) else make_warm_start(self.engine, final, self.starts.rate)

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
