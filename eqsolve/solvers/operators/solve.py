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
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.forms import OPERATORS, Form
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan
from eqsolve.compile.relations import OperatorsProgram
from eqsolve.compile.values import Values
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, over_panels
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.richardson import error_share
from eqsolve.results.dynamics import dynamics_result
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_closed
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import Worst, find_worst, stop_early

_GROWTH = 1.35
_RATIO = math.sqrt(2.0)


class _Sweeps:
    """The unknowns of a closed system, swept in turn on a grid."""

    def __init__(self, program: OperatorsProgram) -> None:
        self.program, self.sweeps = program, 0

    def solve(self, grid: OperatorGrid, tolerance: float) -> Kernels:
        """Sweep from nothing to the fixed point; every sweep is causal and uses the newest values."""
        state = _nothing(self.program, grid)
        change = previous = np.inf
        for _ in range(600):
            before = _unknowns(state)
            for item in self.program.definitions:
                state.define(item)
            self.sweeps += 1
            after = _unknowns(state)
            previous, change = change, max(_change(after[key], before[key]) for key in after)
            shrinks = min(change / previous, 0.999) if math.isfinite(previous) and previous > 0 else 0.999
            if change * shrinks / (1 - shrinks) <= tolerance:  # what all further sweeps together would still change
                return state
            if not math.isfinite(change):
                break
        what = f"do not converge (last change {change:.2g})" if math.isfinite(change) else "grow beyond all numbers"
        raise SolverError(f"the unknowns {what}; they may blow up{_else(grid.panels is None)}")

    def curves(self, state: Kernels) -> dict[str, Array]:
        """Return every function of one time."""
        return state.functions | {name: state.observed(item) for name, item in self.program.observables}


def _nothing(program: OperatorsProgram, grid: OperatorGrid) -> Kernels:
    """Return kernels and functions that vanish."""
    state = Kernels(grid, {})
    homes = {"function": state.functions, "response": state.operators, "correlation": state.tables}
    for item in program.definitions:
        homes[item.kind][item.name] = np.zeros(grid.size if item.kind == "function" else (grid.size, grid.size))
    return state


def _unknowns(state: Kernels) -> dict[str, Array]:
    return {**state.tables, **state.operators, **state.functions}


def _change(after: Array, before: Array) -> float:
    if not np.isfinite(after).all():
        return math.inf
    return float(np.abs(after - before).max()) / max(float(np.abs(after).max()), 1e-30)


class OperatorsSolver(Solver):
    __doc__ = __doc__
    name = "operators"
    discrete = True

    def why_not(self, plan: Plan) -> str:
        apart = "" if plan.facts.composition else "its kernels do not enter through compositions only"
        return why_not_closed(plan) or apart

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
        with np.errstate(all="ignore"):
            if options.step is not None:
                return _discrete(sweeps, begin, options, plan.name, values)
            try:
                return _continuous(sweeps, begin, options, plan.name, values)
            except SolverError as error:
                raise stop_early(
                    error,
                    begin,
                    options.t_max,
                    lambda end: _first(sweeps, begin, replace(options, t_max=end)),
                    lambda end: _continuous(sweeps, begin, replace(options, t_max=end, at=()), plan.name, values),
                ) from None


def _order(options: Options) -> int:
    return options.order or (4 if options.rtol > 3e-4 else 6 if options.rtol > 1e-7 else 8)


def _first(sweeps: _Sweeps, begin: float, options: Options) -> Kernels:
    """Return the solution on the first panels."""
    span = options.t_max - begin
    grid = OperatorGrid.from_panels(PanelGrid.geometric(begin, options.t_max, min(0.2, span / 4), _GROWTH, _order(options)))
    return sweeps.solve(grid, max(3e-5 * options.rtol, 1e-13))


def _continuous(sweeps: _Sweeps, begin: float, options: Options, name: str, values: Values) -> Result:
    """Solve on denser and denser panels."""
    order = _order(options)
    tolerance = max(3e-5 * options.rtol, 1e-13)
    span = options.t_max - begin
    step = min(0.2, span / 4)
    growth = _GROWTH
    old: dict[str, Array] | None = None
    panels: PanelGrid | None = None
    for _ in range(6):
        new = PanelGrid.geometric(begin, options.t_max, step, growth, order)
        state = sweeps.solve(OperatorGrid.from_panels(new), tolerance)
        curves = sweeps.curves(state)
        if old is not None and panels is not None:
            ratio = max(new.panels / panels.panels, 1.2)
            errors = {n: _error(v, panels.interpolate(old[n], new.nodes), ratio, order, tolerance) for n, v in curves.items()}
            controlled = [key for key, _ in sweeps.program.observables] or list(curves)
            worst = find_worst(controlled, curves, errors, new.nodes, options)
            options.report(options.t_max, f"{new.size} nodes")
            if worst.excess <= 1.0:
                break
        old, panels = curves, new
        step, growth = step / _RATIO, growth ** (1 / _RATIO)
    return _package(values, name, new, curves, errors, worst, options, sweeps.sweeps)


def _discrete(sweeps: _Sweeps, begin: float, options: Options, name: str, values: Values) -> Result:
    """Solve the discrete-time system of a given step: exact up to the iteration and rounding."""
    assert options.step is not None
    grid = OperatorGrid.discrete(options.step, begin, options.t_max)
    state = sweeps.solve(grid, 1e-14)
    curves = sweeps.curves(state)
    errors = {key: 1e-12 * np.maximum(np.abs(v), np.abs(v).max()) for key, v in curves.items()}
    panels = PanelGrid(grid.nodes, 1)
    return _package(values, name, panels, curves, errors, Worst(), options, sweeps.sweeps)


def _else(is_discrete: bool) -> str:
    """Return what else can be tried; the other solver knows no discrete time."""
    return "" if is_discrete else "; the two-time solver may do better: solver='two_time' (--solver two_time)"


def _error(values: Array, rough: Array, ratio: float, order: int, left: float) -> Array:
    change = over_panels(np.abs(values - rough), order)
    size = np.maximum(np.abs(values), np.abs(values).max())
    return error_share(ratio, order + 2) * change + (1e-12 + 3 * left) * size


def _package(
    values: Values, name: str, grid: PanelGrid, curves: dict[str, Array], errors: dict[str, Array], worst: Worst,
    options: Options, sweeps: int,
) -> Result:  # fmt: skip
    failure = worst.failure(options, f"raise rtol, or give an atol{_else(options.step is not None)}")
    stats = {"panels": grid.panels, "nodes": grid.size, "sweeps": sweeps}
    return dynamics_result(
        model=name, params=values.settings, grid=grid, curves=curves, errors=errors, stats=stats, failure=failure
    )
