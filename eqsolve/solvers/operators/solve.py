"""Closed linear-composition systems on geometric panels: kernels as operators, nodes that grow like log t.

Method. Responses are kept as integration operators and correlations as tables of values on panels that grow with
time; an
unknown that enters its own equation linearly is one triangular solve; the unknowns are swept in turn until
they settle. The fast variation of kernels near the diagonal is never resolved: the
operators act correctly on the slow functions that observables are made of, as stiffly accurate methods do. Two
solutions on
grids of different density give the error. Chosen when only functions of one time are asked for and every kernel enters
through compositions; kernels themselves, or pointwise nonlinear ones, need the two-time solver.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sympy import Add, expand

from eqsolve.language.binding import Binding
from eqsolve.errors import ModelError, SolverError, UsageError
from eqsolve.language.equations import Equation
from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Correlation, Function, Response, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.path_form import derive_path_form
from eqsolve.passes.forms.sectors import ROW
from eqsolve.results.result import Result
from eqsolve.numerics.grids import Array, PanelGrid
from eqsolve.numerics.operators import Closure, Evaluation, OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.shortening import stop_early
from eqsolve.solvers.tolerance import allowance, excess

__all__ = ["is_composition", "solve_operators"]

_GROWTH = 1.35
_RATIO = math.sqrt(2.0)
_ROUNDS = 6
_MOST_SWEEPS = 600


def is_composition(system: System) -> bool:
    """Whether every kernel enters linearly or through integrals of at most one other kernel."""
    marker = Time("i")
    for equation in system.equations:
        head = equation.head
        if isinstance(head, Correlation) and any(_on_diagonal(key) for key in system.init if _belongs(key, head)):
            return False  # a value on the diagonal means a cusp there
        for node in equation.rhs.atoms(Int):
            kernels = [value for value in node.integrand.atoms(Value) if value.head.arity == 2]
            if len(kernels) > 2 or not any(isinstance(value.head, Response) for value in kernels):
                return False
            if any(node.integrand.diff(value).has(value) for value in kernels):
                return False
        outside = equation.rhs.replace(lambda item: isinstance(item, Int), lambda item: marker)
        values = [value for value in outside.atoms(Value) if value.head.arity == 2]
        if any(outside.diff(value).atoms(Value) & set(values) for value in values):
            return False
        responses = {value for value in values if isinstance(value.head, Response)}
        if isinstance(head, Correlation) and responses:
            return False  # white noise: a cusp again
        if isinstance(head, Response) and not all(
            term.atoms(Value) & responses or marker in term.free_symbols for term in Add.make_args(expand(outside))
        ):
            return False  # a given kernel, which is no composition of others
    return bool(system.kernels)


def _belongs(key: Any, head: Any) -> bool:
    return isinstance(key, Value) and key.head == head


def _on_diagonal(key: Value) -> bool:
    return isinstance(key.moments[0], Time) and key.moments[0] == key.moments[1]


class _Sweeps:
    """The unknowns of a closed system, swept in turn on a grid."""

    def __init__(self, system: System) -> None:
        self.form = derive_path_form(system)
        self.closure = Closure(self.form, cyclic=True)
        self.starts = {eq.head: self._start(system, eq) for eq in self.closure.order if eq.is_differential}
        self.sweeps = 0

    def _start(self, system: System, equation: Equation) -> Any:
        head = equation.head
        if isinstance(head, Function):
            return system.init[head]
        for key, value in system.init.items():
            if _belongs(key, head):
                return value.xreplace({key.moments[0]: ROW}) if _on_diagonal(key) else value
        raise ModelError(f"{equation.label} has no initial value")

    def solve(self, grid: OperatorGrid, tolerance: float) -> Evaluation:
        """Sweep from nothing to the fixed point; every sweep is causal and uses the newest values."""
        state = Evaluation(self.closure, grid, {})
        self._put(state, self._zeros(grid))
        change = previous = np.inf
        for _ in range(_MOST_SWEEPS):
            before = self._get(state)
            for equation in self.closure.order:
                if equation.is_differential:
                    start = state.vector(self.starts[equation.head])
                    state.define_differential(equation, start if isinstance(equation.head, Response) else start[0])
                else:
                    state.define(equation)
            self.sweeps += 1
            after = self._get(state)
            previous, change = change, max(_change(after[key], before[key]) for key in after)
            shrinks = min(change / previous, 0.999) if math.isfinite(previous) and previous > 0 else 0.999
            if change * shrinks / (1 - shrinks) <= tolerance:  # what all further sweeps together would still change
                return state
            if not math.isfinite(change):
                break
        what = f"do not settle (last change {change:.2g})" if math.isfinite(change) else "grow beyond all numbers"
        raise SolverError(f"the unknowns {what}; they may blow up{_else(grid.panels is None)}")

    def _zeros(self, grid: OperatorGrid) -> dict[Any, Array]:
        return {
            eq.head: np.zeros(grid.size) if isinstance(eq.head, Function) else np.zeros((grid.size, grid.size))
            for eq in self.closure.order
        }

    def _get(self, state: Evaluation) -> dict[Any, Array]:
        return {**state.tables, **state.operators, **state.functions}

    def _put(self, state: Evaluation, values: dict[Any, Array]) -> None:
        for head, value in values.items():
            if isinstance(head, Function):
                state.functions[head] = value
            elif isinstance(head, Response):
                state.operators[head] = value
            else:
                state.tables[head] = value


def _change(after: Array, before: Array) -> float:
    if not np.isfinite(after).all():
        return math.inf
    return float(np.abs(after - before).max()) / max(float(np.abs(after).max()), 1e-30)


def solve_operators(binding: Binding, options: Options) -> Result:
    """Solve for functions of one time to the tolerance asked for, with nodes that grow like the logarithm of time."""
    system = binding.model
    assert isinstance(system, System)
    begin = binding.number(system.start)
    if options.t_max <= begin:
        raise UsageError(f"t_max = {options.t_max:g} does not lie after the start, {begin:g}")
    sweeps = _Sweeps(system.subs(dict(binding.values)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if options.step is not None:
            return _discrete(binding, sweeps, begin, options)
        try:
            return _continuous(binding, sweeps, begin, options)
        except SolverError as error:
            raise stop_early(
                error, begin, options.t_max,
                lambda end: _first(sweeps, begin, replace(options, t_max=end)),
                lambda end: _continuous(binding, sweeps, begin, replace(options, t_max=end, at=())),
            ) from None  # fmt: skip


def _order(options: Options) -> int:
    return options.order or (4 if options.rtol > 3e-4 else 6 if options.rtol > 1e-7 else 8)


def _first(sweeps: _Sweeps, begin: float, options: Options) -> Evaluation:
    """Return the solution on the first panels."""
    span = options.t_max - begin
    grid = OperatorGrid.from_panels(_geometric(begin, span, min(0.2, span / 4), _GROWTH, _order(options)))
    return sweeps.solve(grid, max(3e-5 * options.rtol, 1e-13))


def _continuous(binding: Binding, sweeps: _Sweeps, begin: float, options: Options) -> Result:
    """Solve on denser and denser panels."""
    system, order = binding.model, _order(options)
    assert isinstance(system, System)
    tolerance = max(3e-5 * options.rtol, 1e-13)
    span = options.t_max - begin
    step = min(0.2, span / 4)
    growth = _GROWTH
    old: dict[str, Array] | None = None
    panels: PanelGrid | None = None
    for _ in range(_ROUNDS):
        new = _geometric(begin, span, step, growth, order)
        state = sweeps.solve(OperatorGrid.from_panels(new), tolerance)
        curves = {head.name: values for head, values in state.functions.items()}
        curves |= {name: state.vector(expr) for name, expr in sweeps.form.observables}
        if old is not None and panels is not None:
            ratio = max(new.panels / panels.panels, 1.2)
            errors = {
                n: _error(v, panels.interpolate(old[n], new.nodes), ratio, order, tolerance) for n, v in curves.items()
            }
            watched = list(system.observables) or list(curves)
            worst = max(excess(curves[name], errors[name], options) for name in watched)
            options.report(options.t_max, f"{new.size} nodes")
            if worst <= 1.0:
                break
        old, panels = curves, new
        step, growth = step / _RATIO, growth ** (1 / _RATIO)
    return _package(binding, system.name, new, curves, errors, worst, options, sweeps.sweeps)


def _discrete(binding: Binding, sweeps: _Sweeps, begin: float, options: Options) -> Result:
    """Solve the discrete-time system of a given step: exact up to the iteration and rounding."""
    assert options.step is not None
    grid = OperatorGrid.discrete(options.step, begin, options.t_max)
    state = sweeps.solve(grid, 1e-14)
    curves = {head.name: values for head, values in state.functions.items()}
    curves |= {name: state.vector(expr) for name, expr in sweeps.form.observables}
    errors = {name: 1e-12 * np.maximum(np.abs(v), np.abs(v).max()) for name, v in curves.items()}
    panels = PanelGrid(grid.nodes, 1)
    return _package(binding, sweeps.form.name, panels, curves, errors, 0.0, options, sweeps.sweeps)


def _geometric(begin: float, span: float, step: float, growth: float, order: int) -> PanelGrid:
    steps = [step]
    while sum(steps) < span:
        steps.append(growth * steps[-1])
    edges = np.concatenate([[0.0], np.cumsum(steps)])
    return PanelGrid(begin + edges * (span / edges[-1]), order)


def _else(is_discrete: bool) -> str:
    """Return what else can be tried; the other solver knows no discrete time."""
    return "" if is_discrete else "; the two-time solver may do better: solver='two_time' (--solver two_time)"


def _error(values: Array, rough: Array, ratio: float, order: int, left: float) -> Array:
    change = np.abs(values - rough)
    blocks = np.repeat(change[1:].reshape(-1, order).max(axis=1), order)
    size = np.maximum(np.abs(values), np.abs(values).max())
    return 1.5 * np.append(change[0], blocks) / (ratio ** (order + 2) - 1) + (1e-12 + 3 * left) * size


def _not_met(grid: PanelGrid, curves: dict[str, Array], errors: dict[str, Array], worst: float, options: Options) -> str:
    ratios = {key: errors[key] / allowance(values, options) for key, values in curves.items() if np.any(values)}
    name = max(ratios, key=lambda key: float(ratios[key].max()))
    return (
        f"the error estimate of `{name}` at t = {grid.nodes[ratios[name].argmax()]:.6g} is {worst:.3g} times the tolerance "
        f"rtol={options.rtol:g} on {grid.panels} panels; raise rtol, or give an atol{_else(options.step is not None)}"
    )


def _package(
    binding: Binding, name: str, grid: PanelGrid, curves: dict[str, Array], errors: dict[str, Array], worst: float,
    options: Options, sweeps: int,
) -> Result:  # fmt: skip
    import xarray as xr

    data: dict[str, Any] = {}
    for key, values in curves.items():
        data[key] = ("t", values)
        data[key + "_error"] = ("t", errors[key])
    status = "ok" if worst <= 1.0 else "tolerance not met"
    message = "" if status == "ok" else _not_met(grid, curves, errors, worst, options)
    return Result(
        xr.Dataset(data, coords={"t": grid.nodes}), model=name, kind="dynamics", status=status, message=message,
        params=binding.settings(), stats={"panels": grid.panels, "nodes": grid.size, "sweeps": sweeps}, grid=grid,
    )  # fmt: skip
