"""Systems of one-time functions with memory, over many decades: convolutions ∫ H(s, t − s) ds and constant delays.

Method. Panels grow with t; on each, all unknowns are collocated at m Radau nodes and found together by Newton's method with
exact slopes, so that the newest part of a memory is implicit. Integrals are folded at half the time and done by Gauss rules
between the panels' edges (see ``eqsolve.numerics.panel_functions``). Delays go by the method of steps: panels end at the break
points, the sums of delays, until these lie in derivatives beyond the degree.

Order 2m − 1 at panel ends, m + 1 between (Brunner, Collocation Methods for Volterra Integral and Related Functional
Differential Equations, 2004, doi:10.1017/CBO9780511543234). With P panels the cost is P² m² evaluations of each integrand and
the memory P m numbers for every unknown; where the solution varies on the scale of t itself, P grows like log t. The doubling
scheme of Fuchs, Götze, Hofacker & Latz (1991, doi:10.1088/0953-8984/3/26/022), which this replaces, is of second order.

Error. The solution is compared with one whose tails are larger by a known factor; see ``errors``. The tolerance is relative to
the largest value of each function. Chosen for systems without processes that read functions at shifted times.
"""

import itertools
import logging
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram
from eqsolve.compile.forms import CONVOLUTION
from eqsolve.compile.plan import Plan
from eqsolve.compile.values import Values
from eqsolve.errors import ParameterError, SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, over_panels
from eqsolve.numerics.richardson import error_share
from eqsolve.results.dynamics import dynamics_result
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_closed
from eqsolve.solvers.convolution.march import FINER, MemoryMarch, march
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import NOT_SMOOTH, Stop, Worst, find_worst, nodes_per_panel, with_numbers

logger = logging.getLogger("eqsolve")


_FIRST = 0.1  # tail allowed in the first solution, in units of the tolerance
_RATIO = 30.0  # between the tails of two solutions that are compared
# Least part of their difference that is taken for the error of the finer one. With panels narrower by q the error is about
# 1/(q^(m + 1) − 1) of the difference, 1/25 for m = 8; where the solution is a power p of the time at its start, 1/(q^p − 1),
# 2.3 for p = 1.
_SHARE = 1.0
_FINEST = 3e-13  # the smallest tail asked for: rounding leaves 1e-14 to 3e-14 near a transition, errors lie below tails
_ROUNDING = 5e-14  # error that two solutions may share, of the largest value


class ConvolutionSolver(Solver):
    __doc__ = __doc__
    name = "convolution"

    def why_not(self, plan: Plan) -> str:
        return why_not_closed(plan) or plan.why_not_convolution()

    def why(self, plan: Plan) -> str:
        what = "functions at shifted times" if plan.facts.shifted else "functions of one time with memory"
        return f"{what}: collocation on panels that grow with time"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve to the tolerance asked for; what is there before a blow-up comes with the error."""
        program: ConvolutionProgram = plan.program(CONVOLUTION)
        bound, begin = with_numbers(program, values)
        options.demand_after(begin)
        m = nodes_per_panel(options)
        delays = [float(item) for item in bound.delays()]
        for delay in delays:
            if delay < 0:
                raise ParameterError(
                    f"model `{plan.name}`: a delay is {delay:g} with these parameters; it must not be negative"
                )
        with np.errstate(all="ignore"):
            solution, stop = _solve(bound, m, delays, begin, options)
        result = _package(plan.name, values, solution, begin, options, stop)
        if stop is not None:
            raise SolverError(stop.message, partial=result)
        return result


@dataclass(frozen=True, eq=False)
class MemorySolution:
    """The march that is reported, with error estimates; ``worst`` is the one farthest from its tolerance."""

    march: MemoryMarch
    curves: dict[str, Array]
    errors: dict[str, Array]
    worst: Worst
    rounds: int


def _solve(
    program: ConvolutionProgram, m: int, delays: list[float], begin: float, options: Options
) -> tuple[MemorySolution, Stop | None]:
    """Solve with smaller and smaller tails until two solutions agree."""
    end = options.t_max - begin
    resolution = max(_FIRST * options.rtol, _FINEST * _RATIO)
    coarse, stop = march(program, m, delays, end, resolution, options)
    best: MemorySolution | None = None
    for rounds in itertools.count(2):
        resolution = max(resolution / _RATIO, _FINEST)
        fine, later = march(program, m, delays, coarse.end if stop else end, resolution, options, guide=coarse)
        stop = later or stop
        solution = _compare(fine, coarse, begin, options, rounds)
        logger.info("time grid: %d panels, tails below %.1g cut; against a rougher one the error is %.2g times the tolerance",
                    fine.panels, resolution, solution.worst.excess)  # fmt: skip
        if best is None or solution.worst < best.worst:
            best = solution
        if best.worst.excess <= 1.0 or resolution <= _FINEST or later is not None or options.is_short_of_time():
            break
        coarse = fine
        resolution /= min(max(solution.worst.excess / _RATIO, 1.0), 1e3)
    assert best is not None
    return best, stop


def _compare(fine: MemoryMarch, coarse: MemoryMarch, begin: float, options: Options, rounds: int) -> MemorySolution:
    """Return the finer of two solutions with its error estimates."""
    grid, other = fine.grid(begin), coarse.grid(begin)
    inside = np.minimum(grid.nodes, other.edges[-1])
    curves, rough = fine.curves(), coarse.at(inside, other)
    errors = {}
    share = max(_SHARE, error_share(1 / FINER, fine.m + 1))
    for name, values in curves.items():
        change = np.abs(values - rough[name])
        change[1:].reshape(-1, fine.m)[fine.bridges] = 0.0  # the jump stands at the same place in both
        change = over_panels(change, fine.m, beside=True)
        largest = np.abs(values).max()
        errors[name] = share * change + _ROUNDING * largest
    controlled = fine.program.observables or tuple(curves)
    worst = find_worst(controlled, curves, errors, grid.nodes, options, 1.0)
    return MemorySolution(fine, curves, errors, worst, rounds)


def _package(name: str, values: Values, solution: MemorySolution, begin: float, options: Options, stop: Stop | None) -> Result:
    failure = solution.worst.failure(options, NOT_SMOOTH)
    if stop is not None:
        failure = (f"stopped at t = {begin + stop.time:.8g}", stop.message)
    found = solution.march
    stats = {
        "panels": found.panels,
        "nodes per panel": found.m,
        "Newton steps": found.steps,
        "panels tried": found.tries,
        "solutions": solution.rounds,
    }
    grid: PanelGrid = found.grid(begin)
    return dynamics_result(
        model=name, params=values.settings, grid=grid, curves=solution.curves, errors=solution.errors, stats=stats,
        failure=failure,
    )  # fmt: skip
