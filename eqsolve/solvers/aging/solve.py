"""Closed systems of one- and two-time functions over many decades, where they age: the cost is a power of log t.

Method. The beginning is marched as by ``two_time``, with panels that follow the fastest scale. From there row panels grow
with t. On each, kernels are polynomials in coordinates that suit both ends of a row (see ``eqsolve.numerics.rows``):
fixed lag near the diagonal, fixed t' near the start, fixed ratio between. All unknowns of a row panel are found together by
Newton's method with exact slopes; integrals run over panels graded from both ends, the past is read in its own coordinates.

Order m in t and n on a row; with t/τ = e^L for the fastest scale τ there are L/ln 1.4 row panels of m (2L/ln 2 + 3) n unknowns
for each kernel, whose dense matrices are factorised: cost L (m n L)³, memory L² m n. Reference for the coordinates: Lang,
Sachdev & Diehl, Numerical renormalization of glassy dynamics, Phys. Rev. Lett. 135, 247101 (2025), doi:10.1103/z64g-nqs6,
which steps explicitly along the fastest scale.

Error. Two resolutions are compared. Where a solution does not become slow at fixed lag they do not
agree, and the status says so; where Newton's method fails, ``two_time`` goes on. Chosen instead of
``two_time`` where that would need very many panels.
"""

import logging
from collections.abc import Iterator

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import over_panels
from eqsolve.solver_kit import TWO_TIME, TWO_TIME_GRADIENTS, HandOver, Options, Plan, Result, Solver, Values
from eqsolve.solvers.aging.march import LEVELS, Long, go_on
from eqsolve.solvers.marching import Compared, best_of, with_numbers
from eqsolve.solvers.tolerance import find_worst
from eqsolve.solvers.two_time.march import March, begin_march
from eqsolve.solvers.two_time.solve import TwoTimeSolver

# Errors, from the difference to the next coarser resolution, looked at between the output times and
# near the diagonal at lags of all scales. Both have the same beginning, whose own error is added.


_SHARE = 0.5  # of the difference that is taken for the error: a level errs about twenty times less than the one before


def _compare(plan: CompiledPlan, fine: Long, coarse: Long, beginning: float, options: Options) -> Compared:
    """Return the finer of two solutions with its errors; ``beginning`` is the relative error of what both go on from."""
    grid = fine.grid()
    names = [eq.name for eq in plan.functions if not eq.hidden] + [eq.name for eq in plan.observables]
    curves, errors = {}, {}
    for name in names:
        curves[name] = fine.at(name, grid.nodes)
        change = over_panels(np.abs(curves[name] - coarse.at(name, grid.nodes)), grid.order, beside=True)
        errors[name] = _SHARE * change + beginning * np.abs(curves[name]).max()
    controlled = [eq.name for eq in plan.observables] or names
    made = Compared(fine, grid, curves, errors, find_worst(controlled, curves, errors, grid.nodes, options))
    stores = fine.past.rows, coarse.past.rows

    def unseen(_: str, values: Array) -> float:
        return float(beginning * np.abs(values).max())

    def share(change: Array, _: float) -> Array:
        return _SHARE * change

    return made.with_kernels(plan.kernels, *stores, grid.edges, share, unseen, options)


logger = logging.getLogger("eqsolve")

_ORDER = 8  # nodes of a panel of the beginning, which has at most the square of it
_BEGINNING = 1e-3, 1e-8  # its resolution, in units of the tolerance, and at most
_FAR = 2.0  # the last time lies at least this many times as far as the beginning's end
_FIRST = 0.5  # error of the first resolution's interpolation, in units of the tolerance
_LEVER = 2.0  # and, times the last time over the fastest scale: slow drifts are of order 1/t, forces of order 1


class AgingSolver(Solver):
    __doc__ = __doc__
    name = "aging"

    def why_not(self, plan: Plan) -> str:
        if unfit := TwoTimeSolver().why_not(plan):
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
            begun = begin_march(compiled, _ORDER, begin, options.t_max, resolution, _ORDER**2, options.checkpoint)
            if begun is None:
                return HandOver("its beginning cannot be solved", "two_time")
            if options.t_max - begin < _FAR * (begun.end - begin):
                return HandOver(f"the horizon is short: {begun.panels} panels reach t = {begun.end:.4g}", "two_time")
            failed: list[str] = []
            found = best_of(_solutions(compiled, begun, resolution, options, failed), options)
        if found is None:
            return HandOver(failed[-1], "two_time")
        long = found.march
        stats = {
            "panels": begun.panels + long.panels,
            "row panels that grow": long.panels,
            "nodes of the last row": long.past.rows.panels[-1].layout.width,
            "nodes per panel": long.level.nodes,
            "Newton steps": long.steps,
        }
        hint = "no resolution is finer; raise rtol, shorten t_max, or give an atol"
        return found.result(plan.name, values, options, stats, hint)


def _solutions(
    compiled: CompiledPlan, begun: March, resolution: float, options: Options, failed: list[str]
) -> Iterator[Compared]:
    """Solve at finer and finer resolutions, each solution compared with the one before; say why those that fail do."""
    age = (options.t_max - begun.history.row_edges[0]) / (begun.history.row_edges[-1] - begun.history.row_edges[-2])
    rough = min(_FIRST * options.rtol, _LEVER / age)
    level = next((place for place, item in enumerate(LEVELS[:-2]) if item.error <= rough), len(LEVELS) - 2)
    before: Long | None = None
    for place in range(level, len(LEVELS)):
        share = (0.0, 0.3) if before is None else (0.3, 1.0)
        long, stalled = go_on(compiled, begun, LEVELS[place], options, share)
        if stalled is not None:  # a rough solution may fail where a better one does not
            logger.info("resolution %d: the solution stops at t = %.4g; trying a finer one", place, stalled.time)
            failed.append(f"at t = {stalled.time:.4g}: {stalled.message}")
            before = None
            continue
        if before is not None:
            # the error of the beginning is about ten times its resolution
            made = _compare(compiled, long, before, 10 * resolution, options)
            logger.info("resolution %d: %d panels; against the rougher one before, the error is %.2g times the tolerance",
                        place, long.panels, made.worst.excess)  # fmt: skip
            yield made
        before = long
