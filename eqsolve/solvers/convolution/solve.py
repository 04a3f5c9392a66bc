"""Systems of one-time functions with memory, over many decades: convolutions ∫ H(s, t − s) ds and constant delays.

Method. Panels grow with t; on each, all unknowns are collocated at m Radau nodes and found together by Newton's method with
exact slopes, so that the newest part of a memory is implicit. Integrals are folded at half the time and done by Gauss rules
between the panels' edges (see ``march``). Delays go by the method of steps: panels end at the break
points, the sums of delays, until these lie in derivatives beyond the degree.

Order 2m − 1 at panel ends, m + 1 between (Brunner, Collocation Methods for Volterra Integral and Related Functional
Differential Equations, 2004, doi:10.1017/CBO9780511543234). With P panels the cost is P² m² evaluations of each integrand and
the memory P m numbers for every unknown; P grows like log t where the solution varies on that scale.

Kernels such as 1/√(t − s) are integrated in a power of the lag in which they are smooth, on pieces that grow from zero, and
panels are graded towards the start, where the solution may behave like √t. Equations of the first
kind are collocated as constraints.

Error. The solution is compared with one whose tails are larger (``marching.DifferenceError``). The tolerance
is relative to the largest value of each function. Chosen for systems without processes that read
functions at shifted times, or have such kernels.
"""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram
from eqsolve.compile.forms import CONVOLUTION
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import ParameterError, SolverError, logger
from eqsolve.numerics.arrays import ROUNDING, Array, member_names
from eqsolve.numerics.grids import PanelGrid
from eqsolve.results.result import Result
from eqsolve.solvers import marching
from eqsolve.solvers.contract import Solver, why_not_closed
from eqsolve.solvers.convolution.march import MemoryMarch, break_points
from eqsolve.solvers.marching import DENSER, RATIO, Compared, DifferenceError, Sources, Stop, bind_program, nodes_per_panel
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import NOT_SMOOTH, find_worst

_FINEST = 3 * ROUNDING  # the smallest tail asked for: near a transition rounding leaves 1e-14 to 3e-14


class ConvolutionSolver(Solver):
    __doc__ = __doc__
    name = "convolution"
    families = True

    def why_not(self, plan: Plan) -> str:
        return why_not_closed(plan) or plan.why_not_convolution

    def why(self, plan: Plan) -> str:
        what = "functions at shifted times" if plan.facts.shifted_times else "functions of one time"
        what += " with memory" if plan.facts.memory and not plan.facts.shifted_times else ""
        return f"{what}: collocation on panels that grow with time"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve to the tolerance asked for; what is there before a blow-up comes with the error."""
        program: ConvolutionProgram = plan.program(CONVOLUTION)
        bound, begin = bind_program(program, values)
        options.demand_after(begin)
        m = nodes_per_panel(options)
        delays = [float(item) for item in bound.delays()]
        for delay in delays:
            if delay < 0:
                raise ParameterError(
                    f"model `{plan.name}`: a delay is {delay:g} with these parameters; it must not be negative"
                )
        with np.errstate(all="ignore"):
            solution = marching.best_of(_solutions(bound, m, delays, begin, options), options)
        assert solution is not None
        march = solution.march
        stats = {
            "panels": march.panels,
            "nodes per panel": m,
            "Newton steps": march.steps,
            "panels tried": march.tries,
            "solutions": solution.rounds + 1,
        }
        return solution.result(plan.name, values, options, stats, NOT_SMOOTH)


def _solutions(program: ConvolutionProgram, m: int, delays: list[float], begin: float, options: Options) -> Iterator[Compared]:
    """Solve with smaller and smaller tails, each solution compared with the one before."""
    resolution = max(options.rtol / RATIO, _FINEST * RATIO)
    coarse, stop = _march(program, m, delays, begin, resolution, options)
    for rounds in itertools.count(1):
        resolution = max(resolution / RATIO, _FINEST)
        fine, later = _march(program, m, delays, begin, resolution, options, coarse, stop)
        solution = replace(_compare(fine, coarse, begin, options), stop=later or stop, rounds=rounds)
        logger.info("time grid: %d panels, tails below %.1g cut; against a rougher one the error is %.2g times the tolerance",
                    fine.panels, resolution, solution.worst.excess)  # fmt: skip
        yield solution
        if resolution <= _FINEST:
            return
        coarse = fine
        resolution /= min(max(solution.worst.excess / RATIO, 1.0), 1e3)


def _march(
    program: ConvolutionProgram, m: int, delays: list[float], begin: float, resolution: float, options: Options,
    guide: MemoryMarch | None = None, stop: Stop | None = None,
) -> tuple[MemoryMarch, Stop | None]:  # fmt: skip
    """March with tails of at most ``resolution`` times the size of each unknown.

    Panels are everywhere ``DENSER`` than those of a ``guide``, which may have had to stop.
    """
    end, sizes, longest = options.t_max - begin, None, None
    if guide is not None:
        longest = functools.partial(marching.longest_step, guide.functions.edges, 1 / DENSER if guide.power == 1 else 0.9)
        end, sizes = (end, guide.sizes.copy()) if stop is None else (guide.end, None)
    breaks = [moment - begin for moment in options.breaks if moment - begin < end]
    tolerance = max(1e-3 * resolution, 1e-14)
    march = MemoryMarch(program, m, delays, tolerance, end, sizes, options.checkpoint, breaks)
    stops = np.unique([*break_points(delays, end, m + 1), *breaks, end])
    resolution *= 10.0 if march.power > 1 else 1.0  # behind a singular start the first panel alone has such tails

    def after(width: float) -> None:
        options.report(march.end, f"{march.panels} panels")

    # rounding of 1e-16 times the condition of Newton's matrix, which is 1e4 at a distance of 1e-4
    # from a glass transition
    reason = marching.advance(
        march, stops, resolution, march.width, smallest=1e-290, noise=1e-11, longest=longest, after=after
    )
    if reason and not march.panels:
        raise SolverError(f"the solution cannot be started: {reason}")
    known = {item: float(march.sizes[part].max()) for part, item in zip(march.members, program.equations, strict=True)}
    return march, Stop.blow_up(begin + march.end, reason, known) if reason else None


def _compare(fine: MemoryMarch, coarse: MemoryMarch, begin: float, options: Options) -> Compared:
    (grid, curves, bridges), (other, rough, others) = fine.curves(begin), coarse.curves(begin)

    def sources(march: MemoryMarch, grid: PanelGrid, jumps: Array) -> Sources:
        tails = np.zeros(grid.panels)
        tails[~jumps] = march.tails
        return grid, tails, np.zeros((0, 3))

    gain, errors = DifferenceError(sources(fine, grid, bridges), sources(coarse, other, others)), {}
    for name, values in curves.items():
        sizes = np.full(grid.size, np.abs(values).max())
        errors[name] = gain.errors(values, rough[name], sizes) + ROUNDING * sizes
        # a jump stands at the same place in both
        errors[name][1:].reshape(-1, fine.m)[bridges] = ROUNDING * sizes[0]
    controlled = [name for item in fine.program.observables for name in member_names(*item)] or tuple(curves)
    return Compared(fine, grid, curves, errors, find_worst(controlled, curves, errors, grid.nodes, options, 1.0))
