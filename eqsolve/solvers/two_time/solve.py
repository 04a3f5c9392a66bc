"""Closed systems of one- and two-time functions, solved to a tolerance: adaptive panels, then a refined second solution.

Method. An adaptive march (see ``march``) places the panels; a second march on panels denser by a factor q is the solution
that is reported. Its error is estimated from the difference of the two (see ``errors``); the panels are refined until that
meets the tolerance. Chosen for systems without processes that have memory or two-time functions; where the horizon asks for
very many panels ``aging`` is chosen instead.

Collocation at Radau nodes: order 2m − 1 at panel ends, m + 1 in between (Brunner, Collocation Methods for Volterra Integral
and Related Functional Differential Equations, 2004, doi:10.1017/CBO9780511543234). Cost per panel: columns²; memory: rows ×
columns.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.forms import TWO_TIME
from eqsolve.compile.plan import Plan
from eqsolve.compile.two_time import CompiledPlan
from eqsolve.compile.values import Values
from eqsolve.errors import SolverError, UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import memory
from eqsolve.numerics.grids import PanelGrid, over_panels
from eqsolve.numerics.richardson import error_share
from eqsolve.numerics.rows import RowStore, mirrored, spread_to_times
from eqsolve.results.dynamics import Kernel, dynamics_result
from eqsolve.results.result import Result
from eqsolve.solvers.contract import HandOver, Solver, why_not_closed
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import (
    KERNEL_FLOOR,
    NOT_SMOOTH,
    NoConvergenceError,
    NotFiniteError,
    Pace,
    Stop,
    Worst,
    cannot_go_on,
    excess,
    find_worst,
    nodes_per_panel,
    with_numbers,
)
from eqsolve.solvers.two_time.march import March, advance, begin_march, panels_ahead
from eqsolve.solvers.two_time.panel import SMALLEST_SIZE

# --- Error estimates of a two-time solution, from its difference to a rougher one.
#
# Both the panels and the tolerances of the rougher solution are larger, by known factors. If q is the ratio of the numbers of
# panels, the error of the finer solution is at most about |difference| / (q^k − 1): k = m + 1 for functions of one time
# (their order between nodes), k = m for kernels (their order across a panel on the diagonal). Half of that is added for
# safety. What a comparison of panels does not show is added: rounding, the iteration's tolerance, and what merging columns
# changed.
_ROUNDING = 1e-13
_MOST_OUTPUT_TIMES = 300


@dataclass(frozen=True)
class Accuracy:
    """What one march is asked for, relative to the size of each unknown."""

    resolution: float
    rough: bool = False  # whether the solution is only a first one, to place the panels

    @property
    def merging(self) -> float:
        return self.resolution

    @property
    def iteration(self) -> float:
        return max((1e-2 if self.rough else 1e-3) * self.resolution, 1e-14)

    def finer(self, gain: float) -> Accuracy:
        return Accuracy(max(self.resolution / gain, 1e-13))


@dataclass(frozen=True, eq=False)
class KernelSolution:
    """The march that is reported and its error estimates.

    ``worst`` is the largest estimate in units of the tolerance, ``least`` what rounding alone would make of it.
    """

    march: March
    store: RowStore | None
    times: Array
    tables: dict[str, Array]
    table_errors: dict[str, Array]
    curves: dict[str, Array]
    curve_errors: dict[str, Array]
    worst: Worst
    least: float
    panels: tuple[int, ...]


def compare(fine: March, coarse: March, ratio: float, options: Options, panels: tuple[int, ...]) -> KernelSolution:
    """Return the finer of two solutions with its error estimates."""
    ratio, m = max(ratio, 1.2), fine.m
    iteration = _ROUNDING + 3 * fine.iteration_error
    merging = fine.merger.effect if fine.merger is not None else 0.0
    pointwise = fine.merger.changes if fine.merger is not None else {}
    grid, other = fine.grid(), coarse.grid()
    curves, rough = fine.curves(), coarse.curves()
    errors: dict[str, Array] = {}
    for name, values in curves.items():
        change = np.abs(values - other.interpolate(rough[name], grid.nodes))
        share = error_share(ratio, min(m + 1, 9))
        errors[name] = share * over_panels(change, m) + (iteration + merging) * _sizes(values)
    observed = [equation.name for equation in fine.plan.observables] or list(curves)
    worst = find_worst(observed, curves, errors, grid.nodes, options)
    rounding = {name: _ROUNDING * _sizes(curves[name]) for name in observed}
    least = max((excess(curves[name], rounding[name], options) for name in observed), default=0.0)
    store, old = fine.rows(), coarse.rows()
    times, tables, table_errors = np.empty(0), {}, {}
    if store is not None and old is not None:
        times = _output_times(fine)
        between = (times[1:] + times[:-1]) / 2
        tables, here, there = store.tables(times), store.tables(between), old.tables(between)
        for equation in fine.plan.kernels:
            name = equation.name
            change = spread_to_times(np.abs(here[name] - there[name]))
            unseen = _ROUNDING * np.abs(tables[name]).max() + 3 * fine.iteration_errors[name] + pointwise.get(name, 0.0)
            table_errors[name] = error_share(ratio, min(m, 8)) * change + unseen
            if equation.symmetric:
                tables[name], table_errors[name] = mirrored(tables[name]), mirrored(table_errors[name])
        if options.kernels:
            worst = max(worst, find_worst(tables, tables, table_errors, times, options, KERNEL_FLOOR))
    return KernelSolution(fine, store, times, tables, table_errors, curves, errors, worst, least, panels)


def _sizes(values: Array) -> Array:
    magnitude = np.abs(values)
    return np.maximum(magnitude, SMALLEST_SIZE * magnitude.max())


def _output_times(march: March) -> Array:
    """Return the times of the tables: the rows' nodes, or the columns' nodes or edges, as many as are handy."""
    columns = PanelGrid(march.history.edges, march.m)
    for times in (march.grid().nodes, columns.nodes, columns.edges):
        if len(times) <= _MOST_OUTPUT_TIMES:
            return times
    kept = np.unique(np.linspace(0, columns.panels, _MOST_OUTPUT_TIMES).astype(int))
    return columns.edges[kept]


# --- Closed systems of one- and two-time functions, solved to a tolerance: adaptive panels, then a refined second solution.
logger = logging.getLogger("eqsolve")

_FIRST = 0.25  # share of the first march in the work, if one march over twice as many columns follows
_LEAST_RATIO, _LARGEST_RATIO = math.sqrt(2.0), 2.0
_LOOK = 100  # panels after which the memory needed is estimated again
_LOOKS = (8, 40)  # panels after which the horizon is looked at
_TOO_MANY = 400  # panels ahead from which another solver takes over; here they take seconds to minutes


class TwoTimeSolver(Solver):
    __doc__ = __doc__
    name = "two_time"

    def why_not(self, plan: Plan) -> str:
        shifted = "it reads functions at shifted times, such as `x(t - s)`" if plan.facts.shifted else ""
        return why_not_closed(plan) or shifted

    def why(self, plan: Plan) -> str:
        return "closed equations of one and two times with memory: collocation on panels"

    def instead(self, plan: Plan, values: Values, options: Options) -> HandOver | None:
        """A few panels show the fastest scale; where very many of them would follow, rows that grow with t are better."""
        if not (plan.facts.kernels and plan.facts.memory):
            return None
        compiled, begin = with_numbers(plan.program(TWO_TIME), values)
        if not compiled.separable or options.t_max <= begin:
            return None
        order = nodes_per_panel(replace(options, order=None))
        with np.errstate(all="ignore"):
            for panels in _LOOKS:
                march = begin_march(compiled, order, begin, options.t_max, options.rtol, panels)
                if march is None or march.panels < panels or (ahead := panels_ahead(march, options.t_max)) < _TOO_MANY:
                    return None
        reason = f"a long horizon: about {ahead:.2g} panels of the fastest scale; rows whose panels grow with time"
        return HandOver(reason, "aging")

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve a closed system of one- and two-time functions to the tolerance asked for."""
        compiled, begin = with_numbers(plan.program(TWO_TIME), values)
        options.demand_after(begin)
        order = nodes_per_panel(options)
        accuracy = Accuracy(max(0.3 * options.rtol, 1e-12), rough=True)
        with np.errstate(all="ignore"):
            coarse, stop, accuracy = _place_panels(compiled, order, begin, options, accuracy)
            if not coarse.panels:
                assert stop is not None
                raise SolverError(stop.message)
            solution, later = _refine(compiled, coarse, options, accuracy)
            stop = later or stop
        result = _package(plan.name, values, compiled, solution, options, stop)
        if stop is not None:
            raise SolverError(stop.message, partial=result)
        return result


def _place_panels(
    compiled: CompiledPlan, order: int, begin: float, options: Options, accuracy: Accuracy
) -> tuple[March, Stop | None, Accuracy]:
    """March adaptively. An early end is doubted first: a rough solution may blow up where a better one does not."""
    march, stop = _adaptive(compiled, order, begin, options, accuracy)
    for _ in range(3):  # how often an early end is doubted
        if stop is None:
            break
        before, accuracy = stop, replace(accuracy, resolution=accuracy.resolution / 100)
        march, stop = _adaptive(compiled, order, begin, options, accuracy)
        if stop is not None and abs(stop.time - before.time) < 0.01 * (before.time - begin):
            break
    return march, stop, accuracy


def _adaptive(
    compiled: CompiledPlan, order: int, begin: float, options: Options, accuracy: Accuracy
) -> tuple[March, Stop | None]:
    """March with panels as long as the resolution allows."""
    try:
        march = March(compiled, order, begin, accuracy.iteration, accuracy.merging, checkpoint=options.checkpoint)
    except NotFiniteError as failure:
        raise SolverError(str(failure)) from None
    going = advance(march, options.t_max, accuracy.resolution)
    while True:
        try:
            step = next(going)
        except StopIteration as ended:
            return march, Stop(march.end, _blow_up(march, ended.value)) if ended.value else None
        _watch_memory(march, 0)
        _tell(march, options, march.m * (options.t_max - march.end) / step, 0.0, _FIRST)


def _blow_up(march: March, reason: object) -> str:
    sizes = march.history.largest
    largest = max(sizes, key=lambda name: sizes[name])
    equation = next(eq for eq in (*march.plan.kernels, *march.plan.functions) if eq.name == largest)
    return cannot_go_on(march.end, reason, equation, sizes[largest])


def _refine(compiled: CompiledPlan, coarse: March, options: Options, accuracy: Accuracy) -> tuple[KernelSolution, Stop | None]:
    """Solve on denser panels until the difference to the previous solution meets the tolerance."""
    ratio, panels, stalled = _LEAST_RATIO, [coarse.panels], 0
    best: KernelSolution | None = None
    for round_number in range(1, 9):
        accuracy = accuracy.finer(ratio ** (coarse.m + 1))
        edges = coarse.grid().denser(np.full(coarse.panels, ratio)).edges
        fine, stop = _fixed(compiled, coarse, edges, options, accuracy)
        actual = (len(edges) - 1) / panels[-1]
        panels.append(fine.panels)
        solution = compare(fine, coarse, actual, options, tuple(panels))
        logger.info("time grid: %d panels (round %d); against a coarser grid its error is %.2g times the tolerance",
                    panels[-1], round_number, solution.worst.excess)  # fmt: skip
        if stop is not None:
            return solution, stop
        stalled = stalled + 1 if best is not None and solution.worst.excess > 0.7 * best.worst.excess else 0
        if best is None or solution.worst < best.worst:
            best = solution
        if best.worst.excess <= max(1.0, 10 * best.least) or stalled == 2 or options.is_short_of_time():
            break
        ratio = float(np.clip((1.5 * solution.worst.excess) ** (1 / (fine.m + 1)), _LEAST_RATIO, _LARGEST_RATIO))
        coarse = fine
    assert best is not None
    return best, None


def _fixed(
    compiled: CompiledPlan, coarse: March, edges: Array, options: Options, accuracy: Accuracy
) -> tuple[March, Stop | None]:
    """March over given panels, halving those on which the iteration does not converge."""
    guide = coarse.as_guide()
    march = March(compiled, coarse.m, edges[0], accuracy.iteration, accuracy.merging, guide, options.checkpoint)
    pending = list(edges[:0:-1])
    smallest = 1e-8 * (edges[-1] - edges[0])
    reason = otherwise = "the iteration on a panel does not converge"
    tries, pace = 0, Pace(edges[0], edges[-1])
    while pending:
        now, tries = march.end, tries + 1
        if little := pace.stalled(now, tries):
            return march, Stop(now, _blow_up(march, f"the last {pace.patience} panels tried {little}"))
        try:
            march.add_panel(pending[-1] - now)
        except (NoConvergenceError, NotFiniteError) as failure:
            if isinstance(failure, NotFiniteError):
                reason = str(failure)
            if pending[-1] - now < smallest:
                if not march.panels:
                    raise SolverError(_blow_up(march, reason)) from None
                return march, Stop(now, _blow_up(march, reason))
            pending.append((pending[-1] + now) / 2)
            continue
        march.accept()
        reason = otherwise
        march.history.row_edges[-1] = pending.pop()
        _tell(march, options, march.m * len(pending), _FIRST, 1.0)
        _watch_memory(march, len(pending))
    return march, None


def _tell(march: March, options: Options, ahead: float, low: float, high: float) -> None:
    """Report the work of a march between two shares of the whole: it goes with the square of the columns, those ahead too."""
    share = (march.columns / max(march.columns + ahead, 1.0)) ** 2
    options.report_share(low + (high - low) * share, f"{march.columns} columns, t = {march.end:.4g}")


def _watch_memory(march: March, left: int) -> None:
    """Refuse to go on when the solution, with so many panels still to come, would not fit into memory.

    Rows grow with the panels; columns do too, unless they are merged.
    """
    if march.panels % _LOOK:
        return
    rows = march.rows()
    used = 0 if rows is None else rows.nbytes
    predicted = used * (1 + left / march.panels) ** (2 if march.merger is None else 1)
    available = memory()
    if predicted > 0.5 * available:
        raise UsageError(
            f"the two-time functions would need about {predicted / 1e9:.1f} GB of the machine's {available / 1e9:.1f} GB; "
            "shorten t_max or raise rtol"
        )


def _package(
    name: str, values: Values, compiled: CompiledPlan, solution: KernelSolution, options: Options, stop: Stop | None
) -> Result:
    every = (*compiled.kernels, *compiled.functions, *compiled.observables)
    labels = {item.name: f"the {item.label}" for item in every}
    failure = solution.worst.failure(options, NOT_SMOOTH, labels)
    if stop is not None:
        failure = (f"stopped at t = {stop.time:.8g}", stop.message)
    grid = solution.march.grid()
    shown = [item for item in compiled.kernels if not item.hidden] if solution.store is not None else []
    kernels = {
        item.name: Kernel(solution.tables[item.name], solution.table_errors[item.name], item.symmetric) for item in shown
    }
    stats = {
        "panels": solution.panels[-1],
        "nodes per panel": solution.march.m,
        "nodes": grid.size,
        "columns": solution.march.columns,
        "iterations": solution.march.iterations,
        "refinements": len(solution.panels) - 1,
    }
    return dynamics_result(
        model=name, params=values.settings, grid=grid, curves=solution.curves, errors=solution.curve_errors, stats=stats,
        kernels=kernels, times=solution.times if kernels else None, rows=solution.store, failure=failure,
    )  # fmt: skip
