"""Ordinary differential equations with random constants: quadrature nodes moved together by an adaptive integrator.

Method. Every combination of atoms and Gauss nodes of the random constants is a path; all paths, and the one-time
functions that depend on their means, are one system of ODEs. It is integrated by DOP853 (order 8; Hairer, Nørsett &
Wanner 1993), or by Radau IIA when that turns out to be stiff. The error of a value is the sum of the change from a looser
tolerance to the one used and of the change from half as many Gauss nodes; both are refined until the tolerance is met.
Cost: (number of paths) × (number of steps). Chosen for systems without memory and without Gaussian drives.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sympy import Basic, Expr

from eqsolve.binding import Binding
from eqsolve.compile.lowering import lower
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.equations import Equation
from eqsolve.language.laws import Component, Law
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Process, Random, Time
from eqsolve.language.system import System
from eqsolve.passes.causality import analyse_causality
from eqsolve.result import Result
from eqsolve.solvers.grids import Array, PanelGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import excess

__all__ = ["solve_ode"]

_NODES_PER_STEP = 8
_MOST_PATHS = 400_000
_EXPLICIT_CALLS = 15_000
_FIRST_RULE, _LARGEST_RULE = 24, 1600


class _StiffError(Exception):
    pass


@dataclass(frozen=True, eq=False)
class Paths:
    """Quadrature nodes of the random constants: one value per path and constant, and the paths' weights."""

    values: dict[Random, Array]
    weights: Array


def make_paths(laws: dict[Random, Law], order: int) -> Paths:
    """Return the product of the rules of independent constants; constants with a joint law move together."""
    groups: dict[Any, list[Random]] = {}
    for item, law in laws.items():
        groups.setdefault((law.joint, law.group) if isinstance(law, Component) else item, []).append(item)
    tables, weights = [], []
    for members in groups.values():
        law = laws[members[0]]
        if isinstance(law, Component):
            count = len(law.joint.values)
            tables.append(np.array([law.joint.values[:, laws[m].index] for m in members]))  # type: ignore[attr-defined]
            weights.append(np.full(count, 1.0 / count))
        else:
            nodes, mass = law.rule(order)
            keep = mass > 0
            tables.append(nodes[None, keep])
            weights.append(mass[keep])
    total = int(np.prod([len(w) for w in weights])) if weights else 1
    if total > _MOST_PATHS:
        raise UsageError(f"{total} paths are needed for the random constants, at most {_MOST_PATHS} are handled")
    index = np.array(list(itertools.product(*(range(len(w)) for w in weights))), dtype=int).reshape(total, -1)
    values: dict[Random, Array] = {}
    product = np.ones(total)
    for column, (members, table, mass) in enumerate(zip(groups.values(), tables, weights, strict=True)):
        product = product * mass[index[:, column]]
        for row, item in enumerate(members):
            values[item] = table[row][index[:, column]]
    return Paths(values, product)


class Program:
    """The system as array functions: derivatives, initial values and observables of all paths at once.

    Quantities are computed in a fixed order: time, random constants, states, then definitions and expectations as
    they are needed. What the derivatives do not need comes last and is computed for output only.
    """

    def __init__(self, binding: Binding) -> None:
        system = binding.model
        assert isinstance(system, System)
        self.system, self.binding, self.method = system, binding, "DOP853"
        equations = [system[name] for name in analyse_causality(system).order]
        self.states = [equation for equation in equations if equation.is_differential]
        if not self.states:
            raise UsageError(f"model `{system.name}` has no differential equation to solve in time")
        self.time = self.states[0].time
        self.laws = dict(binding.laws)
        self.starts = {equation.key: self._start_value(equation) for equation in self.states}
        self.randoms = sorted(self.laws, key=lambda item: item.name)
        self.known: list[Basic] = [self.time, *self.randoms, *(eq.head(self.time) for eq in self.states)]
        self.steps: list[tuple[Basic, Any]] = []
        self.definitions = [equation for equation in equations if not equation.is_differential]
        for equation in self.definitions:
            right = self._bound(equation.rhs)
            self._means([right])
            self._step(equation.head(self.time), right)
        rights = [self._bound(equation.rhs) for equation in self.states]
        self._means(rights)
        self.derivatives = lower(rights, self.known)
        self.needed = len(self.steps)
        outputs = [self._bound(expr) for expr in system.observables.values()]
        self._means(outputs)
        self.outputs = lower(outputs, self.known)

    def _bound(self, expr: Expr) -> Expr:
        """Bind the parameters and bring every time symbol to the running one."""
        bound = self.binding.apply(expr)
        rename = {item: self.time for item in bound.free_symbols if isinstance(item, Time)}
        return bound.xreplace(rename)  # type: ignore[no-any-return]

    def _start_value(self, equation: Equation) -> Expr:
        value = self.system.init[equation.head]
        if isinstance(value, Law):
            constant = Random(f"{equation.key}_start", None, (value,))
            self.laws[constant] = self.binding.apply(value)
            return constant
        return self.binding.apply(value)  # type: ignore[no-any-return]

    def _step(self, target: Basic, expr: Expr) -> None:
        self.steps.append((target, lower([expr], self.known)))
        self.known.append(target)

    def _means(self, expressions: list[Expr]) -> None:
        """Make every expectation a quantity of its own, computed before it is read."""
        for expr in expressions:
            for node in sorted(expr.atoms(E), key=lambda item: item.count_ops()):
                if node not in self.known:
                    self._step(node, node.argument)

    def size(self, equation: Equation, paths: Paths) -> int:
        return len(paths.weights) if isinstance(equation.head, Process) else 1

    def initial(self, paths: Paths) -> Array:
        function = lower(list(self.starts.values()), self.randoms)
        given = function(*(paths.values[item] for item in self.randoms))
        sizes = [self.size(equation, paths) for equation in self.states]
        return np.concatenate([np.broadcast_to(np.asarray(v, float), (n,)) for v, n in zip(given, sizes, strict=True)])

    def evaluate(self, moments: Array, table: Array, paths: Paths, steps: int) -> list[Array]:
        """Return all quantities at several moments; ``table`` holds the states, one column per moment."""
        values: list[Array] = [moments[None, :], *(paths.values[item][:, None] for item in self.randoms)]
        position = 0
        for equation in self.states:
            size = self.size(equation, paths)
            values.append(table[position : position + size])
            position += size
        for target, function in self.steps[:steps]:
            value = np.asarray(function(*values)[0], dtype=float)
            if isinstance(target, E):
                value = (paths.weights @ np.broadcast_to(value, (len(paths.weights), len(moments))))[None, :]
            values.append(value)
        return values

    def slope(self, moment: float, state: Array, paths: Paths) -> Array:
        values = self.evaluate(np.array([moment]), state[:, None], paths, self.needed)
        results = self.derivatives(*values)
        sizes = [self.size(equation, paths) for equation in self.states]
        return np.concatenate(
            [np.broadcast_to(np.asarray(v, float), (n, 1))[:, 0] for v, n in zip(results, sizes, strict=True)]
        )

    def curves(self, moments: Array, table: Array, paths: Paths) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the functions of time and, apart, the paths of the processes."""
        values = self.evaluate(moments, table, paths, len(self.steps))
        shape = (len(moments),)
        single: dict[str, Array] = {}
        each: dict[str, Array] = {}
        for equation in (*self.states, *self.definitions):
            value = values[self.known.index(equation.head(self.time))]
            if isinstance(equation.head, Process):
                each[equation.key] = np.broadcast_to(value, (len(paths.weights), len(moments)))
            else:
                single[equation.key] = np.broadcast_to(value[0], shape)
        for name, value in zip(self.system.observables, self.outputs(*values), strict=True):
            single[name] = np.broadcast_to(np.atleast_2d(np.asarray(value, float))[0], shape)
        return single, each


@dataclass(frozen=True, eq=False)
class Run:
    """One integration: its grid, the curves on it, the paths, and how it was made."""

    grid: PanelGrid
    curves: dict[str, Array]
    each: dict[str, Array]
    paths: Paths
    solution: Any
    method: str
    calls: int


def _integrate(program: Program, paths: Paths, options: Options, span: tuple[float, float], rtol: float) -> Run:
    """Integrate once; raises SolverError when a path blows up."""
    start = program.initial(paths)
    scale = float(np.max(np.abs(start))) if np.any(start) else 1.0
    atol = 1e-3 * rtol * min(scale, 1.0)
    try:
        solution, calls = _march(program, paths, start, span, program.method, rtol, atol)
    except _StiffError:
        program.method = "Radau"
        solution, calls = _march(program, paths, start, span, program.method, rtol, atol)
    stops = [t for t in options.at if span[0] < t < span[1]]
    steps = solution.ts if len(solution.ts) < 400 else solution.ts[:: len(solution.ts) // 200]
    edges = np.unique(np.concatenate([steps, stops, [span[0], span[1]]]))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-13 * max(abs(span[0]), abs(span[1]))])]
    edges[-1] = span[1]
    grid = PanelGrid(edges, _NODES_PER_STEP)
    curves, each = program.curves(grid.nodes, solution(grid.nodes), paths)
    return Run(grid, curves, each, paths, solution, program.method, calls)


def _march(
    program: Program, paths: Paths, start: Array, span: tuple[float, float], method: str, rtol: float, atol: float
) -> tuple[Any, int]:
    from scipy.integrate import solve_ivp

    calls = 0
    last = span[0]

    def right(moment: float, state: Array) -> Array:
        nonlocal calls, last
        calls += 1
        last = moment
        if method == "DOP853" and calls > _EXPLICIT_CALLS:
            raise _StiffError
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            slope = program.slope(moment, state, paths)
        if not np.isfinite(slope).all() and np.isfinite(state).all():
            raise _not_finite(program, slope, moment, paths)
        return slope

    extra: dict[str, Any] = {}
    if method == "Radau" and len(start) > 30 and not any(eq.rhs.has(E) for eq in program.system.equations):
        from scipy.sparse import block_diag

        count, kinds = len(paths.weights), len(program.states)
        pattern = np.zeros((kinds * count, kinds * count), dtype=bool) if len(start) < 2000 else None
        if pattern is not None and kinds * count == len(start):
            for row in range(kinds):
                for column in range(kinds):
                    rows = np.arange(count)
                    pattern[row * count + rows, column * count + rows] = True
            extra["jac_sparsity"] = block_diag([pattern])
    answer = solve_ivp(
        right, span, start, method=method, rtol=max(rtol, 3e-14), atol=atol, dense_output=True, **extra
    )
    if not answer.success:
        raise _StoppedError(
            f"the solution of the {_names(program)} cannot be continued past "
            f"t = {answer.t[-1]:.6g} ({answer.message.rstrip('.').lower()}); it may blow up there, so end before it",
            float(answer.t[-1]),
        )
    return answer.sol, calls


def _names(program: Program) -> str:
    return ", ".join(equation.label for equation in program.states)


def _not_finite(program: Program, slope: Array, moment: float, paths: Paths) -> _StoppedError:
    position = int(np.argmin(np.isfinite(slope)))
    for equation in program.states:
        size = program.size(equation, paths)
        if position < size:
            break
        position -= size
    return _StoppedError(
        f"the {equation.label} gives {slope[~np.isfinite(slope)][0]} at t = {moment:.6g}; "
        "a function in it is not defined there, or the solution blows up",
        moment,
    )


class _StoppedError(SolverError):
    """A path cannot be continued; ``time`` is where."""

    def __init__(self, message: str, time: float) -> None:
        super().__init__(message)
        self.time = time


def solve_ode(binding: Binding, options: Options) -> Result:
    """Solve a system without memory to the tolerance asked for; what is there before a blow-up comes with the error."""
    try:
        return _solve(binding, options)
    except _StoppedError as stopped:
        begin = binding.number(binding.model.start)  # type: ignore[attr-defined]
        error = SolverError(str(stopped))
        with contextlib.suppress(SolverError):
            end = begin + (1 - 1e-3) * (stopped.time - begin)
            if end > begin:
                partial = _solve(binding, replace(options, t_max=end, at=()))
                error.partial = partial.stopped(f"stopped at t = {end:.8g}", str(stopped))  # type: ignore[attr-defined]
        raise error from None


def _solve(binding: Binding, options: Options) -> Result:
    program = Program(binding)
    begin = binding.number(program.system.start)
    if options.t_max <= begin:
        raise UsageError(f"t_max = {options.t_max:g} does not lie after the start, {begin:g}")
    span = (begin, options.t_max)
    continuous = any(law.has_density for law in program.laws.values() if not isinstance(law, Component))
    order = _FIRST_RULE
    paths = make_paths(program.laws, order)
    tolerance = max(options.rtol / 10, 3e-14)
    while True:
        fine = _integrate(program, paths, options, span, tolerance)
        options.report(options.t_max, f"{len(paths.weights)} paths")
        loose = _integrate(program, paths, options, span, min(30 * tolerance, 1e-2))
        moved = program.curves(fine.grid.nodes, loose.solution(fine.grid.nodes), paths)[0]
        step = {name: np.abs(fine.curves[name] - moved[name]) / 5 for name in fine.curves}
        rule = {name: np.zeros_like(value) for name, value in step.items()}
        if continuous:
            fewer = make_paths(program.laws, order // 2)
            half = _integrate(program, fewer, options, span, tolerance)
            other = program.curves(fine.grid.nodes, half.solution(fine.grid.nodes), fewer)[0]
            rule = {name: np.abs(fine.curves[name] - other[name]) for name in fine.curves}
        floor = {name: 4e-15 * np.maximum(np.abs(v), np.max(np.abs(v))) for name, v in fine.curves.items()}
        worst_rule = max((excess(fine.curves[n], rule[n], options) for n in rule), default=0.0)
        worst_step = max((excess(fine.curves[n], step[n], options) for n in step), default=0.0)
        if worst_rule > 0.5 and order < _LARGEST_RULE:
            order *= 2
            paths = make_paths(program.laws, order)
        elif worst_step > 0.5 and tolerance > 3e-14:
            tolerance = max(tolerance / 30, 3e-14)
        else:
            break
    errors = {name: step[name] + rule[name] + floor[name] for name in step}
    worst = max((excess(fine.curves[name], errors[name], options) for name in errors), default=0.0)
    status = "ok" if worst <= 1.5 else "tolerance not met"
    message = "" if status == "ok" else f"the error estimate is {worst:.2g} times the tolerance rtol={options.rtol:g}"
    return _package(program, fine, errors, status, message, order if continuous else None)


def _package(
    program: Program, run: Run, errors: dict[str, Array], status: str, message: str, order: int | None
) -> Result:
    import xarray as xr

    data: dict[str, Any] = {}
    for name, curve in run.curves.items():
        data[name] = ("t", np.array(curve))
        data[name + "_error"] = ("t", errors[name])
    for name, table in run.each.items():
        data[name] = (("path", "t"), np.array(table))
    coordinates: dict[str, Any] = {"t": run.grid.nodes}
    if run.each:
        coordinates["weight"] = ("path", run.paths.weights)
        coordinates |= {item.name: ("path", values) for item, values in run.paths.values.items()}
    stats = {"method": run.method, "calls": run.calls, "paths": len(run.paths.weights), "steps": run.grid.panels}
    if order is not None:
        stats["nodes per law"] = order
    return Result(
        xr.Dataset(data, coords=coordinates), model=program.system.name, kind="dynamics", status=status,
        message=message, params=program.binding.settings(), stats=stats, grid=run.grid,
    )  # fmt: skip
