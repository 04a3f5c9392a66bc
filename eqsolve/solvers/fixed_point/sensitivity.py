"""How a solved fixed point answers to its parameters: implicit differentiation with the symbolic Jacobian.

With F(u, p) = 0 the unknowns move as du/dp = −F_u⁻¹ F_p; an expectation or an observable moves with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Basic, Symbol, sympify

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.nodes import E, InverseValue
from eqsolve.language.symbols import Parameter, Unknown
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import gradients
from eqsolve.passes.forms.kinks import Switch
from eqsolve.solvers.fixed_point.newton import Point, Problem, linearise
from eqsolve.solvers.fixed_point.problem import make_problem

if TYPE_CHECKING:
    from eqsolve.solvers.fixed_point.solve import Solution

__all__ = ["derivative", "expectation", "sensitivity"]


def sensitivity(solution: Solution, parameter: str) -> dict[str, float]:
    """Return the derivatives of all unknowns and observables with respect to a parameter."""
    problem, point = solution.problem, solution.point
    symbol = _parameter(problem, parameter)
    moved = _unknowns(problem, point, symbol)
    _demand_spread(problem, point, symbol, moved)
    return {**_named(problem, moved), **_outputs(problem, point, symbol, moved)}


def derivative(solution: Solution, what: Any, parameter: str, values: Mapping[str, float]) -> float:
    """Return the total derivative of a named value, or of the mean of an expression, with respect to a parameter."""
    if isinstance(what, str):
        found = sensitivity(solution, parameter)
        if what not in found:
            raise UsageError(
                f"the fixed point has no value `{what}`{did_you_mean(what, found)} (it has: {', '.join(found)})"
            )
        return found[what]
    problem = extended(solution, what, values)
    symbol = _parameter(problem, parameter)
    point = Point(solution.point.values, problem.adapted(solution.point.values), solution.point.linear, 0, True)
    moved = _unknowns(problem, point, symbol)
    _demand_spread(problem, point, symbol, moved)
    lines = problem.lines(point.values)
    along = (*problem.plan.unknowns, symbol)
    _, slopes, _ = gradients(lines, point.mesh, along)
    return float(slopes[-1, :-1] @ moved + slopes[-1, -1])


def expectation(solution: Solution, what: Any, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the mean of an expression at the solution, and its error."""
    problem = extended(solution, what, values)
    mesh = problem.adapted(solution.point.values)
    lines = problem.lines(solution.point.values)
    first, slopes, sizes = gradients(lines, mesh, problem.plan.unknowns)
    second, _, _ = gradients(lines, mesh.halved(), problem.plan.unknowns)
    noise = np.array([solution.errors[item.name] for item in problem.plan.unknowns])
    error = abs(second[-1] - first[-1]) + np.abs(slopes[-1]) @ noise + 2.3e-16 * sizes[-1]
    return float(second[-1]), float(error)


def extended(solution: Solution, what: Any, values: Mapping[str, float]) -> Problem:
    """Return the problem with one more expectation, written in the model's own symbols."""
    model = solution.binding.model
    expr = sympify(what, strict=True)
    if isinstance(expr, E):
        expr = expr.argument
    extra: dict[Parameter, float] = {}
    known: dict[str, Basic] = {**solution.problem.plan.reduced.variables}
    reduced = solution.problem.plan.reduced
    mapping: dict[Basic, Basic] = {}
    bound = {node.variable for node in expr.atoms(InverseValue)}
    for item in expr.free_symbols - bound:
        name = item.name
        if name in values:
            mapping[item] = Parameter(f"{name}_given")
            extra[mapping[item]] = values[name]
        elif name in known:
            mapping[item] = known[name]
        elif name in model.names:
            mapping[item] = reduced.mapping.get(model.names[name], model.names[name])
        else:
            names = [*known, *model.names]
            raise UsageError(f"`{expr}` uses `{name}`, which the model does not define{did_you_mean(name, names)}")
    gone = dict(reduced.eliminated)
    whole = {item: value for item, value in solution.binding.values.items() if item.is_integer}
    made = expr.subs(mapping, simultaneous=True).subs(gone).subs(whole)
    return make_problem(solution.binding, (made,), extra, held=solution.problem.held, dropped=solution.problem.dropped)


def _parameter(problem: Problem, name: str) -> Parameter:
    for item in problem.plan.parameters:
        if item.name in (name, f"{name}_given") and not item.is_integer:
            return item
    names = [item.name for item in problem.plan.parameters if not item.is_integer]
    raise UsageError(
        f"there is no derivative along `{name}`{did_you_mean(name, names)} (parameters: {', '.join(names)})"
    )


def _demand_spread(problem: Problem, point: Point, symbol: Symbol, moved: Array) -> None:
    """Raise where a Gaussian of variance zero gains variance along a parameter: the derivative under the mean is 0/0."""
    plan = problem.plan
    used = frozenset[Basic]().union(*(expr.free_symbols for expr in plan.integrands), *(_inside(s) for s in plan.stages))
    names = (*plan.parameters, *plan.unknowns)
    numbers = dict(zip(names, (*problem.parameters, *point.values), strict=True))
    for name, (standard, variance) in plan.reduced.gaussians.items():
        if standard not in used or float(variance.subs(numbers)) != 0:
            continue
        slopes = [float(variance.diff(item).subs(numbers)) for item in (*plan.unknowns, symbol)]
        if np.dot(slopes, np.append(moved, 1.0)) != 0:
            raise UsageError(
                f"`{name}` has variance 0 here, and gains variance with `{symbol.name}`: the derivative of a mean is not "
                f"known at such a point; take a small positive value of `{symbol.name}`"
            )


def _inside(stage: Any) -> set[Basic]:
    expr = stage.expression if isinstance(stage, Switch) else stage.argument
    return set(expr.free_symbols)


def _unknowns(problem: Problem, point: Point, symbol: Symbol) -> Array:
    """Return the derivatives of the remaining unknowns."""
    if not problem.plan.unknowns:
        return np.zeros(0)
    linear = linearise(problem, point.values, point.mesh, (*problem.plan.unknowns, symbol))
    return np.asarray(-np.linalg.solve(linear.jacobian[:, :-1], linear.jacobian[:, -1]))


def _named(problem: Problem, moved: Array) -> dict[str, float]:
    unknowns: tuple[Unknown, ...] = problem.plan.unknowns
    return {item.name: float(entry) for item, entry in zip(unknowns, moved, strict=True)}


def _outputs(problem: Problem, point: Point, symbol: Symbol, moved: Array) -> dict[str, float]:
    """Return the derivatives of eliminated unknowns and observables."""
    plan = problem.plan
    along = (*plan.unknowns, symbol)
    lines = problem.lines(point.values)
    mesh = point.mesh.moved(lines.kinks(point.mesh.rows))
    means, slopes, _ = gradients(lines, mesh, along)
    found = plan.output_slopes(along)(*problem.parameters, *point.values, *means)
    table = np.array([float(entry) for entry in found]).reshape(len(plan.outputs), len(along) + len(means))
    partial, through = table[:, : len(along)], table[:, len(along) :]
    total = (partial + through @ slopes) @ np.append(moved, 1.0)
    return dict(zip(plan.outputs, total.tolist(), strict=True))
