"""Closed systems of one- and two-time functions over many decades, where they age: the cost is a power of log t.

Method. The beginning is marched as by ``two_time``, with panels that follow the fastest scale. From there row panels grow
with t. On each, kernels are polynomials in coordinates that suit both ends of a row (see ``eqsolve.numerics.aging_rows``):
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

from __future__ import annotations

import logging

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
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
    at,
    dynamics_result,
    why_not_closed,
)  # fmt: skip
from eqsolve.solvers.aging.errors import Compared, compare
from eqsolve.solvers.aging.march import LEVELS, Long, go_on
from eqsolve.solvers.two_time.march import March, begin_march

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
        moments = {name: moment.at(values.numbers, values.laws) for name, moment in program.moments}
        compiled = at(program, {**values.numbers, **moments})
        begin = float(compiled.begin()[0])
        options.demand_after(begin)
        resolution = min(_BEGINNING[0] * options.rtol, _BEGINNING[1])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
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
                        place, long.panels, made.worst)  # fmt: skip
            if best is None or made.worst < best.worst:
                best = made
            if best.worst <= 1.0 or options.is_short_of_time():
                break
        before = long
    return best, reason


_ROUGHLY = 10.0  # error of the beginning in units of its resolution


def _package(name: str, values: Values, compiled: CompiledPlan, found: Compared, begun: March, options: Options) -> Result:
    failure = None
    if found.worst > 1.0:
        failure = (
            "tolerance not met",
            f"the error estimate of {found.blamed} is {found.worst:.3g} times the tolerance rtol={options.rtol:g} at the "
            "finest resolution; raise rtol, shorten t_max, or give an atol",
        )
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
