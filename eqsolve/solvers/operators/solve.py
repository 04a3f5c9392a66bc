"""Closed linear-composition systems on geometric panels: kernels as operators, nodes that grow like log t.

Method. Responses are kept as integration operators and correlations as tables of values on panels that grow with time; an
unknown that enters its own equation linearly is one triangular solve; the unknowns are swept in turn until they converge.
The fast variation of kernels near the diagonal is never resolved: the operators act correctly on the slow functions that
observables are made of, as stiffly accurate methods do (collocation on graded panels: Brunner, Collocation Methods for
Volterra Integral and Related Functional Differential Equations, 2004, doi:10.1017/CBO9780511543234). Two solutions on grids
of different density give the error.

Order m + 2 in the panels' length, which the error estimate relies on. Cost: sweeps × compositions × nodes³; memory:
unknowns × nodes². Chosen when only functions of one time are asked for and every kernel enters through compositions; kernels
themselves, or pointwise nonlinear ones, need the two-time solver.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.forms import OPERATORS, Form
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.compile.relations import OperatorsProgram
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array, error_share
from eqsolve.numerics.grids import PanelGrid, over_panels
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_closed
from eqsolve.solvers.marching import DENSER, Compared, best_of
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import Worst, find_worst, stop_early


class _Sweeps:
    """The unknowns of a closed system, swept in turn on a grid."""

    def __init__(self, program: OperatorsProgram) -> None:
        self.program, self.sweeps = program, 0

    def solve(self, grid: OperatorGrid, tolerance: float) -> Kernels:
        """Sweep from nothing to the fixed point; every sweep is causal and uses the newest values."""
        state = Kernels(grid, {})  # kernels and functions that vanish
        homes = {"function": state.functions, "response": state.operators, "correlation": state.tables}
        for item in self.program.definitions:
            homes[item.kind][item.name] = np.zeros(grid.size if item.kind == "function" else (grid.size, grid.size))
        change = previous = np.inf
        for _ in range(600):
            before = {**state.tables, **state.operators, **state.functions}
            for item in self.program.definitions:
                state.define(item)
            self.sweeps += 1
            after = {**state.tables, **state.operators, **state.functions}
            previous, change = change, max(_change(after[key], before[key]) for key in after)
            shrinks = min(change / previous, 0.999) if math.isfinite(previous) and previous > 0 else 0.999
            if change * shrinks / (1 - shrinks) <= tolerance:  # what all further sweeps together would still change
                return state
            if not math.isfinite(change):
                break
        what = f"do not converge (last change {change:.2g})" if math.isfinite(change) else "overflow"
        raise SolverError(f"the unknowns {what}; they may blow up{_else(grid.panels is None)}")

    def curves(self, state: Kernels) -> dict[str, Array]:
        """Return every function of one time."""
        return state.functions | {name: state.observed(item) for name, item in self.program.observables}


def _change(after: Array, before: Array) -> float:
    if not np.isfinite(after).all():
        return math.inf
    return float(np.abs(after - before).max()) / max(float(np.abs(after).max()), 1e-30)


class OperatorsSolver(Solver):
    __doc__ = __doc__
    name = "operators"
    generic = True
    discrete = True

    def why_not(self, plan: Plan) -> str:
        apart = "" if plan.facts.composition else "a kernel enters other than linearly or by one ∫ A(t, s) B(s, t') ds"
        pairs = plan.facts.pairs
        return why_not_closed(plan) or (f"it has the correlation `{pairs[0]}` of two members" if pairs else apart)

    def form(self, discrete: bool) -> Form[Any]:
        return OPERATORS

    def why(self, plan: Plan) -> str:
        return "kernels that enter through compositions: cheap where only functions of one time are asked for, exact in steps"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve for functions of one time to the tolerance asked for, with nodes that grow like the logarithm of time."""
        program: OperatorsProgram = at(plan.program(OPERATORS), values.numbers)
        begin = float(program.begin()[0])
        options.demand_after(begin)
        sweeps = _Sweeps(program)

        def until(end: float, at: tuple[float, ...]) -> Result:
            asked = replace(options, t_max=end, at=at)
            found = best_of(_solutions(sweeps, begin, asked), asked)
            assert found is not None
            stats = {"panels": found.grid.panels, "nodes": found.grid.size, "sweeps": sweeps.sweeps}
            hint = f"raise rtol, or give an atol{_else(options.step is not None)}"
            return found.result(plan.name, values, asked, stats, hint)

        with np.errstate(all="ignore"):
            try:
                return until(options.t_max, options.at)
            except SolverError as error:
                if options.step is not None:
                    raise

                def reach(end: float) -> Kernels:
                    first, tolerance = next(_panels(begin, replace(options, t_max=end)))
                    return sweeps.solve(OperatorGrid.from_panels(first), tolerance)

                raise stop_early(error, begin, options.t_max, reach, lambda end: until(end, ())) from None


def _panels(begin: float, options: Options) -> Iterator[tuple[PanelGrid, float]]:
    """Yield denser and denser panels that grow with time, and what sweeps may leave, relative to each unknown's largest."""
    order = options.order or (4 if options.rtol > 3e-4 else 6 if options.rtol > 1e-7 else 8)
    for number in range(6):
        step, growth = min(0.2, (options.t_max - begin) / 4) / DENSER**number, DENSER ** (1 / DENSER**number)
        yield PanelGrid.geometric(begin, options.t_max, step, growth, order, options.breaks), max(3e-5 * options.rtol, 1e-13)


def _solutions(sweeps: _Sweeps, begin: float, options: Options) -> Iterator[Compared]:
    """Solve on denser and denser panels, each solution compared with the one before; in discrete time once."""
    if options.step is not None:
        yield _discrete(sweeps, begin, options, options.step)
        return
    before = None
    for grid, tolerance in _panels(begin, options):
        curves = sweeps.curves(sweeps.solve(OperatorGrid.from_panels(grid), tolerance))
        if before is not None:
            panels, old = before
            share, errors = error_share(max(grid.panels / panels.panels, 1.2), grid.order + 2), {}
            for name, values in curves.items():
                change = over_panels(np.abs(values - panels.interpolate(old[name], grid.nodes)), grid.order)
                errors[name] = share * change + (1e-12 + 3 * tolerance) * np.abs(values).max()
            controlled = [key for key, _ in sweeps.program.observables] or list(curves)
            options.report(options.t_max, f"{grid.size} nodes")
            yield Compared(None, grid, curves, errors, find_worst(controlled, curves, errors, grid.nodes, options))
        before = grid, curves


def _discrete(sweeps: _Sweeps, begin: float, options: Options, step: float) -> Compared:
    """Solve the discrete-time system of a given step: exact up to the iteration and rounding."""
    grid = OperatorGrid.discrete(step, begin, options.t_max)
    curves = sweeps.curves(sweeps.solve(grid, 1e-14))
    errors = {key: np.full(grid.size, 1e-12 * np.abs(v).max()) for key, v in curves.items()}
    return Compared(None, PanelGrid(grid.nodes, 1), curves, errors, Worst())


def _else(is_discrete: bool) -> str:
    """Return what else can be tried; the other solver knows no discrete time."""
    return "" if is_discrete else "; the two-time solver may do better: solver='two_time' (--solver two_time)"
