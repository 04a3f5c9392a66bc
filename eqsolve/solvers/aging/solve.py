"""Closed systems of one- and two-time functions over many decades, where they age: the cost is a power of log t.

Method. The beginning is marched as by ``two_time``, with panels that follow the fastest scale. From there row panels grow
with t. On each, kernels are polynomials in coordinates that suit both ends of a row (see ``eqsolve.numerics.rows``):
fixed lag near the diagonal, fixed t' near the start, fixed ratio between. All unknowns of a row panel are found together by
Newton's method with exact slopes; integrals run over panels graded from both ends, the past is read in its own coordinates.

Order m in t and n on a row; with t/τ = e^L for the fastest scale τ there are L/ln 1.4 row panels of m (2L/ln 2 + 3) n unknowns
for each kernel, whose dense matrices are factorised: cost L (m n L)³, memory L² m n. Reference for the coordinates: Lang,
Sachdev & Diehl, Numerical renormalization of glassy dynamics, Phys. Rev. Lett. 135, 247101 (2025), doi:10.1103/z64g-nqs6,
which steps explicitly along the fastest scale.

Error. Two resolutions are compared; see ``errors``. Where a solution does not become slow at fixed lag, as when it oscillates
for ever, they do not agree, and the status says so; where Newton's method fails, ``two_time`` goes on. Chosen instead
of ``two_time`` where that would need very many panels.
"""

import logging
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import over_panels
from eqsolve.numerics.rows import mirrored, spread_to_times
from eqsolve.solver_kit import (
    TWO_TIME,
    TWO_TIME_GRADIENTS,
    HandOver,
    Kernel,
    Options,
    Plan,
    Result,
    Solver,
    Values,
    dynamics_result,
    why_not_closed,
)  # fmt: skip
from eqsolve.solvers.aging.march import LEVELS, Long, go_on
from eqsolve.solvers.tolerance import KERNEL_FLOOR, Worst, find_worst, with_numbers
from eqsolve.solvers.two_time.march import March, begin_march

# Error estimates of a solution over many decades, from its difference to the one of the next
# coarser resolution. Both go on from the same beginning, whose own error is added. Differences are
# looked at between the output times, and near the diagonal at lags of all scales.


_SHARE = 0.5  # of the difference that is taken for the error: a level errs about twenty times less than the one before
_INSIDE = (0.07, 0.31, 0.5, 0.69, 0.93)  # places between two output times at which solutions are compared
_SHORT = 0.5 ** np.arange(1, 40, 2)  # lags on the diagonal's cells, relative to their length


@dataclass(frozen=True, eq=False)
class Compared:
    """A solution with error estimates; ``worst`` is the one farthest from its tolerance."""

    long: Long
    times: Array
    tables: dict[str, Array]
    table_errors: dict[str, Array]
    curves: dict[str, Array]
    curve_errors: dict[str, Array]
    worst: Worst


def compare(plan: CompiledPlan, fine: Long, coarse: Long, beginning: float, options: Options) -> Compared:
    """Return the finer of two solutions with its errors; ``beginning`` is the relative error of what both go on from."""
    grid, rows = fine.grid(), fine.past.rows
    names = [eq.name for eq in plan.functions if not eq.hidden] + [eq.name for eq in plan.observables]
    curves, errors = {}, {}
    for name in names:
        curves[name] = fine.at(name, grid.nodes)
        change = over_panels(np.abs(curves[name] - coarse.at(name, grid.nodes)), grid.order, beside=True)
        errors[name] = _SHARE * change + beginning * np.abs(curves[name]).max()
    controlled = [eq.name for eq in plan.observables] or names
    worst = find_worst(controlled, curves, errors, grid.nodes, options)
    times = grid.edges
    tables, table_errors = rows.tables(times), {}
    for equation in plan.kernels:
        name = equation.name
        change = spread_to_times(_differences(fine, coarse, name, times))
        table_errors[name] = _SHARE * change + beginning * _local(np.abs(tables[name]))
        if equation.symmetric:
            tables[name], table_errors[name] = (mirrored(item) for item in (tables[name], table_errors[name]))
    if options.kernels:
        worst = max(worst, find_worst(table_errors, tables, table_errors, times, options, KERNEL_FLOOR))
    return Compared(fine, times, tables, table_errors, curves, errors, worst)


def _differences(fine: Long, coarse: Long, name: str, times: Array) -> Array:
    """Return the largest differences seen on each cell of output times, below the diagonal and on it."""
    start, count = fine.past.rows.start, len(times) - 1
    steps, out = np.diff(times), np.zeros((count, count))
    rows, columns = np.tril_indices(count, -1)
    apart = rows >= len(fine.past.rows.early.records)  # the beginning is the same
    rows, columns = rows[apart], columns[apart]
    t, s = times - start, np.array(_INSIDE)

    def differ(moments: Array, earlier: Array, lags: Array) -> Array:
        pairs = moments.ravel(), earlier.ravel(), lags.ravel()
        change = np.abs(fine.past.rows.pairs(name, *pairs) - coarse.past.rows.pairs(name, *pairs))
        return np.asarray(change.reshape(len(moments), -1).max(axis=1))

    moments = (t[rows, None] + steps[rows, None] * s)[:, :, None] + np.zeros(len(s))
    earlier = (t[columns, None] + steps[columns, None] * s)[:, None, :] + np.zeros((len(s), 1))
    out[rows, columns] = differ(moments, earlier, moments - earlier)
    moments = (t[:-1, None] + steps[:, None] * s)[:, :, None] + np.zeros(len(_SHORT))
    lags = np.minimum((moments - t[:-1, None, None]), steps[:, None, None] * _SHORT)
    np.fill_diagonal(out, differ(moments, moments - lags, lags))
    return out


def _local(sizes: Array) -> Array:
    """Return the largest of each value and its neighbours."""
    wide = np.pad(sizes, 1)
    count = len(sizes)
    return np.asarray(np.max([wide[i : i + count, j : j + count] for i in range(3) for j in range(3)], axis=0))


logger = logging.getLogger("eqsolve")

_PANELS = 64  # of the beginning
_ORDER = 8  # of the beginning
_BEGINNING = 1e-3, 1e-8  # its resolution, in units of the tolerance, and at most
_FAR = 2.0  # the last time lies at least this many times as far as the beginning's end
_FIRST = 0.5  # error of the first resolution's interpolation, in units of the tolerance
_LEVER = 2.0  # and, times the last time over the fastest scale: slow drifts are of order 1/t, forces of order 1


class AgingSolver(Solver):
    __doc__ = __doc__
    name = "aging"

    def why_not(self, plan: Plan) -> str:
        shifted = "it reads functions at shifted times, such as `x(t - s)`" if plan.facts.shifted else ""
        if unfit := why_not_closed(plan) or shifted:
            return unfit
        if not plan.facts.kernels:
            return "it has no function of two times"
        if not plan.facts.memory:
            return "it has no memory"
        if not plan.program(TWO_TIME).separable:
            return "an integrand does not separate into factors of two times each"
        return ""

    def why(self, plan: Plan) -> str:
        return "closed equations of two times with memory over a long time: row panels that grow with time"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result | HandOver:
        """Solve to the tolerance asked for; handed over to ``two_time`` where panels cannot grow."""
        program: CompiledPlan = plan.program(TWO_TIME_GRADIENTS)
        compiled, begin = with_numbers(program, values)
        options.demand_after(begin)
        resolution = min(_BEGINNING[0] * options.rtol, _BEGINNING[1])
        with np.errstate(all="ignore"):
            begun = begin_march(compiled, _ORDER, begin, options.t_max, resolution, _PANELS, options.checkpoint)
            if begun is None:
                return HandOver("its beginning cannot be solved", "two_time")
            if options.t_max - begin < _FAR * (begun.end - begin):
                return HandOver(f"the horizon is short: {begun.panels} panels reach t = {begun.end:.4g}", "two_time")
            found, reason = _refine(compiled, begun, resolution, options)
        if found is None:
            return HandOver(reason, "two_time")
        return _package(plan.name, values, compiled, found, begun, options)


def _refine(compiled: CompiledPlan, begun: March, resolution: float, options: Options) -> tuple[Compared | None, str]:
    """Solve at finer and finer resolutions until two of them agree to the tolerance."""
    age = (options.t_max - begun.history.row_edges[0]) / (begun.history.row_edges[-1] - begun.history.row_edges[-2])
    rough = min(_FIRST * options.rtol, _LEVER / age)
    level = next((place for place, item in enumerate(LEVELS[:-2]) if item.error <= rough), len(LEVELS) - 2)
    before: Long | None = None
    best: Compared | None = None
    reason = ""
    for place in range(level, len(LEVELS)):
        share = (0.0, 0.3) if before is None else (0.3, 1.0)
        long, stalled = go_on(compiled, begun, LEVELS[place], options, share)
        if stalled is not None:  # a rough solution may fail where a better one does not
            logger.info("resolution %d: the solution stops at t = %.4g; trying a finer one", place, stalled.time)
            before, reason = None, f"at t = {stalled.time:.4g}: {stalled.message}"
            continue
        if before is not None:
            made = compare(compiled, long, before, _ROUGHLY * resolution, options)
            logger.info("resolution %d: %d panels; against the rougher one before, the error is %.2g times the tolerance",
                        place, long.panels, made.worst.excess)  # fmt: skip
            if best is None or made.worst < best.worst:
                best = made
            if best.worst.excess <= 1.0 or options.is_short_of_time():
                break
        before = long
    return best, reason


_ROUGHLY = 10.0  # error of the beginning in units of its resolution


def _package(name: str, values: Values, compiled: CompiledPlan, found: Compared, begun: March, options: Options) -> Result:
    failure = found.worst.failure(options, "no resolution is finer; raise rtol, shorten t_max, or give an atol")
    long = found.long
    shown = [item for item in compiled.kernels if not item.hidden]
    kernels = {item.name: Kernel(found.tables[item.name], found.table_errors[item.name], item.symmetric) for item in shown}
    stats = {
        "panels": begun.panels + long.panels,
        "row panels that grow": long.panels,
        "nodes of the last row": long.past.rows.panels[-1].layout.width,
        "nodes per panel": long.level.nodes,
        "Newton steps": long.steps,
    }
    return dynamics_result(
        model=name, params=values.settings, grid=long.grid(), curves=found.curves, errors=found.curve_errors, stats=stats,
        kernels=kernels, times=found.times, rows=long.past.rows, failure=failure,
    )  # fmt: skip
