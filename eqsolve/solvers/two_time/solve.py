"""Closed systems of one- and two-time functions, solved to a tolerance: adaptive panels, then a refined second solution.

Method. An adaptive march (see ``march``) places the panels; a second march on panels denser by a factor q is the solution
that is reported. Its error is estimated from their difference; panels are refined until it meets
the tolerance. Chosen for systems without processes that have memory or two-time functions; where
the horizon asks for very many panels ``aging`` is chosen instead.

Collocation at Radau nodes: order 2m − 1 at panel ends, m + 1 in between (Brunner, Collocation
Methods for Volterra Integral and Related Functional Differential Equations, 2004,
doi:10.1017/CBO9780511543234). Cost per panel: columns²; memory: rows × columns.
"""

import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from eqsolve.compile.forms import TWO_TIME
from eqsolve.compile.plan import Plan, Values
from eqsolve.compile.two_time import TwoTimeProgram
from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import ROUNDING, Array, error_share
from eqsolve.numerics.backend import demand_memory
from eqsolve.numerics.grids import DRAWN, PanelGrid
from eqsolve.results.result import Result
from eqsolve.solvers import marching
from eqsolve.solvers.contract import HandOver, Solver, why_not_closed
from eqsolve.solvers.marching import DENSER, Compared, DifferenceError, Stop, bind_program
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import FLOOR, NOT_SMOOTH, excess, find_worst
from eqsolve.solvers.two_time.march import March, begin_march, panels_ahead

# --- Error estimates of a two-time solution, from its difference to a rougher one.
#
# See ``marching.DifferenceError``. Of kernels at least the share of their order across a panel on the diagonal
# is taken, 1 / (qᵐ − 1) with panels shorter by q. Rounding and what the iteration left are added.


def _compare(fine: March, coarse: March, ratio: float, options: Options) -> Compared:
    iteration = ROUNDING + 3 * fine.iteration_error
    pointwise = fine.merger.changes if fine.merger is not None else {}
    grid = fine.grid()
    curves, rough = fine.curves(), coarse.curves()
    errors: dict[str, Array] = {}
    gain = DifferenceError(fine.sources(), coarse.sources())
    for name, values in curves.items():
        sizes = _sizes(values)
        errors[name] = gain.errors(values, rough[name], sizes) + iteration * sizes
    observed = [equation.name for equation in fine.plan.observables] or list(curves)
    worst = find_worst(observed, curves, errors, grid.nodes, options)
    least = max((excess(curves[name], ROUNDING * _sizes(curves[name]), options) for name in observed), default=0.0)
    solution = Compared(fine, grid, curves, errors, worst, least=least)
    if (store := fine.rows()) is None:
        return solution

    def unseen(name: str, values: Array) -> float:
        return float(ROUNDING * np.abs(values).max() + 3 * fine.iteration_errors[name] + pointwise.get(name, 0.0))

    times, order = _output_times(fine), min(fine.m, 8)

    def share(change: Array, size: float) -> Array:
        return gain.of_rows(times, change, size, error_share(ratio, order))

    return solution.with_kernels(fine.plan.kernels, store, coarse.rows(), times, share, unseen, options)


def _sizes(values: Array) -> Array:
    magnitude = np.abs(values)
    return np.maximum(magnitude, FLOOR * magnitude.max())


def _output_times(march: March) -> Array:
    """Return the times of the tables: the rows' nodes, or the columns' nodes or edges, as many as are handy."""
    columns = PanelGrid(march.history.edges, march.m)
    for times in (march.grid().nodes, columns.nodes, columns.edges):
        if len(times) <= 2 * DRAWN:
            return times
    chosen = np.unique(np.linspace(0, columns.panels, 2 * DRAWN).astype(int))
    return columns.edges[chosen]


_FIRST = 1 / (1 + DENSER**2)  # share of the first march in the work, if one over denser columns follows
# columns after which the distance still to go is estimated again, and panels ahead from which another
# solver takes over: a minute of one core
_TOO_MANY = 400
_UNSTABLE = 1e3  # tolerances that two marches differ by: at most 0.2 with four models, 5e9 where a kernel is not resolved


class TwoTimeSolver(Solver):
    __doc__ = __doc__
    name = "two_time"
    generic = True

    def why_not(self, plan: Plan) -> str:
        shifted = "it reads functions at shifted times, such as `x(t - s)`" if plan.facts.shifted_times else ""
        return why_not_closed(plan) or shifted

    def why(self, plan: Plan) -> str:
        return "closed equations of one and two times with memory: collocation on panels"

    def instead(self, plan: Plan, values: Values, options: Options) -> HandOver | None:
        """A few panels show the fastest scale; where very many of them would follow, rows that grow with t are better."""
        if not (plan.facts.kernels and plan.facts.memory):
            return None
        compiled, begin = bind_program(plan.program(TWO_TIME), values)
        if not compiled.separable or options.t_max <= begin:
            return None
        order = marching.nodes_per_panel(replace(options, order=None))
        with np.errstate(all="ignore"):
            for panels in (order, _TOO_MANY // order):
                march = begin_march(compiled, order, begin, options.t_max, options.rtol, panels, breaks=options.breaks)
                if march is None or march.panels < panels or (ahead := panels_ahead(march, options.t_max)) < _TOO_MANY:
                    return None
        reason = f"t_max is about {ahead:.2g} panels of the fastest time scale away; panels that grow with t are cheaper"
        return HandOver(reason, "aging")

    def solve(self, plan: Plan, values: Values, options: Options) -> Result | HandOver:
        """Solve a closed system of one- and two-time functions to the tolerance asked for."""
        compiled, begin = bind_program(plan.program(TWO_TIME), values)
        options.demand_after(begin)
        order = marching.nodes_per_panel(options)
        with np.errstate(all="ignore"):
            coarse, stop, resolution = _place_panels(compiled, order, begin, options)
            if stop is not None and not coarse.panels:
                raise SolverError(stop.message)
            solution = marching.best_of(_finer(compiled, coarse, options, resolution), options)
        assert solution is not None
        if solution.worst.excess > _UNSTABLE and not (stop or solution.stop or plan.why_not_convolution):
            return HandOver("panels on which the solution is smooth do not resolve a kernel", "convolution")
        solution = replace(solution, stop=solution.stop or stop)
        march = solution.march
        every = (*compiled.kernels, *compiled.functions, *compiled.observables)
        labels = {item.name: f"the {item.label}" for item in every}
        stats = {
            "panels": march.panels,
            "nodes per panel": march.m,
            "nodes": solution.grid.size,
            "columns": march.columns,
            "iterations": march.iterations,
            "refinements": solution.rounds,
        }
        return solution.result(plan.name, values, options, stats, NOT_SMOOTH, labels)


def _place_panels(compiled: TwoTimeProgram, order: int, begin: float, options: Options) -> tuple[March, Stop | None, float]:
    """March adaptively; an early end is checked by finer marches until two agree on its time."""
    resolution = max(0.3 * options.rtol, 1e-12)
    march, stop = _march(compiled, order, begin, options, resolution)
    for _ in range(3):  # how often an early end is checked
        if stop is None:
            break
        before, resolution = stop, resolution / 100
        march, stop = _march(compiled, order, begin, options, resolution)
        if stop is not None and abs(stop.time - before.time) < 0.01 * (before.time - begin):
            break
    return march, stop, resolution


def _march(
    compiled: TwoTimeProgram, order: int, begin: float, options: Options, resolution: float,
    coarse: March | None = None, ratio: float = 1.0,
) -> tuple[March, Stop | None]:  # fmt: skip
    """March with panels as long as the resolution allows; or with those of a coarser march, shorter by a ratio.

    The iteration on a panel leaves much less than the resolution; merging columns may change as much.
    """
    iteration = max((1e-2 if coarse is None else 1e-3) * resolution, 1e-14)
    try:
        march = March(compiled, order, begin, iteration, resolution, coarse, options.checkpoint, options.breaks)
    except marching.NotFiniteError as failure:
        raise SolverError(str(failure)) from None
    end, low = (options.t_max, 0.0) if coarse is None else (coarse.end, _FIRST)
    span, high = end - begin, _FIRST if coarse is None else 1.0
    stops = [*(moment for moment in options.breaks if moment < end), end]

    def after(step: float) -> None:
        ahead = (end - march.end) / step
        # the work of a march goes with the square of the columns, those ahead too
        share = (march.columns / max(march.columns + march.m * ahead, 1.0)) ** 2
        options.report_share(low + (high - low) * share, f"{march.columns} columns, t = {march.end:.4g}")
        if march.panels & (march.panels - 1) == 0:  # rows grow, and columns if not merged
            used = 0 if (rows := march.rows()) is None else rows.nbytes
            more = 1 + (0 if coarse is None else ahead) / march.panels
            demand_memory(used * more ** (2 if march.merger is None else 1), "the two-time functions")

    if coarse is None:
        reason = marching.advance(march, stops, resolution, span / 20, smallest=1e-12 * span, after=after)
    else:
        longest = functools.partial(marching.longest_step, coarse.grid().edges, 1 / ratio)
        reason = marching.advance(march, stops, np.inf, span, smallest=1e-8 * span, longest=longest, after=after)
    sizes = {eq: march.history.largest[eq.name] for eq in (*compiled.kernels, *compiled.functions)}
    return march, Stop.blow_up(march.end, reason, sizes) if reason else None


def _finer(compiled: TwoTimeProgram, coarse: March, options: Options, resolution: float) -> Iterator[Compared]:
    """Solve on denser and denser panels, each solution compared with the one before."""
    ratio, stop = DENSER, None
    for number in range(1, 9):
        resolution = max(resolution / ratio ** (coarse.m + 1), 1e-13)
        begin = coarse.history.row_edges[0]
        fine, stop = _march(compiled, coarse.m, begin, options, resolution, coarse, ratio)
        if stop is not None and not fine.panels:
            raise SolverError(stop.message)
        solution = replace(_compare(fine, coarse, ratio, options), stop=stop, rounds=number)
        logger.info("time grid: %d panels (round %d); against a coarser grid the error of `%s` is %.2g times the tolerance",
                    fine.panels, number, solution.worst.name, solution.worst.excess)  # fmt: skip
        yield solution
        ratio = float(np.clip((1.5 * solution.worst.excess) ** (1 / (fine.m + 1)), DENSER, DENSER**2))
        coarse = fine
