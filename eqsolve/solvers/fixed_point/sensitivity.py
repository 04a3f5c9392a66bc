"""How a solved fixed point answers to its parameters: implicit differentiation with the symbolic Jacobian.

With F(u, p) = 0 the unknowns move as du/dp = −F_u⁻¹ F_p; an expectation or an observable moves with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import gradients
from eqsolve.solvers.fixed_point.newton import Point, Problem, linearise
from eqsolve.solvers.fixed_point.problem import with_mean

if TYPE_CHECKING:
    from eqsolve.solvers.fixed_point.solve import Solution

__all__ = ["derivative", "expectation", "sensitivity", "sensitivity_errors"]

_ROUNDING = 1e-12  # of a derivative: a linear solve on sums that are known to some 1e-15


def sensitivity(solution: Solution, parameter: str) -> dict[str, float]:
    """Return the derivatives of all unknowns and observables with respect to a parameter."""
    problem, point = solution.problem, solution.point
    along = _parameter(problem, parameter)
    moved = _unknowns(problem, point, along)
    _demand_spread(problem, point, along, moved)
    return {**dict(zip(_names(problem), moved.tolist(), strict=True)), **_outputs(problem, point, along, moved)}


def sensitivity_errors(solution: Solution, parameter: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the errors of all derivatives: how they change with a finer mesh, and with each unknown by its own error."""
    problem, point = solution.problem, solution.point
    others = [replace(point, mesh=point.mesh.halved())]
    for place, name in enumerate(_names(problem)):
        for side in (-1.0, 1.0):
            moved = point.values.copy()
            moved[place] += side * solution.errors[name]
            others.append(replace(point, values=moved))
    errors = {name: _ROUNDING * abs(value) for name, value in values.items()}
    for other in others:
        found = sensitivity(replace(solution, point=other), parameter)
        errors = {name: error + abs(found[name] - values[name]) for name, error in errors.items()}
    return errors


def derivative(solution: Solution, what: Any, parameter: str, values: Mapping[str, float]) -> float:
    """Return the total derivative of a named value, or of the mean of an expression, with respect to a parameter."""
    if isinstance(what, str):
        found = sensitivity(solution, parameter)
        if what not in found:
            raise UsageError(f"the fixed point has no value `{what}`{did_you_mean(what, found)} (it has: {', '.join(found)})")
        return found[what]
    problem = extended(solution, what, values)
    name = _parameter(problem, parameter)
    point = Point(solution.point.values, problem.adapted(solution.point.values), solution.point.linear, 0, True)
    moved = _unknowns(problem, point, name)
    _demand_spread(problem, point, name, moved)
    _, slopes, _ = gradients(problem.lines(point.values), point.mesh, (*_names(problem), name))
    return float(slopes[-1, :-1] @ moved + slopes[-1, -1])


def expectation(solution: Solution, what: Any, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the mean of an expression at the solution, and its error."""
    problem = extended(solution, what, values)
    mesh = problem.adapted(solution.point.values)
    lines = problem.lines(solution.point.values)
    first, slopes, sizes = gradients(lines, mesh, _names(problem))
    second, _, _ = gradients(lines, mesh.halved(), _names(problem))
    noise = np.array([solution.errors[name] for name in _names(problem)])
    error = abs(second[-1] - first[-1]) + np.abs(slopes[-1]) @ noise + 2.3e-16 * sizes[-1]
    return float(second[-1]), float(error)


def extended(solution: Solution, what: Any, values: Mapping[str, Any]) -> Problem:
    """Return the problem with one more expectation, written in the model's own symbols."""
    return with_mean(solution.program, solution.problem, solution.at, what, values)


def _parameter(problem: Problem, name: str) -> str:
    names = problem.plan.smooth
    for known in (name, f"{name}_given"):
        if known in names:
            return known
    raise UsageError(f"there is no derivative along `{name}`{did_you_mean(name, names)} (parameters: {', '.join(names)})")


def _demand_spread(problem: Problem, point: Point, parameter: str, moved: Array) -> None:
    """Raise where a Gaussian of variance zero gains variance along a parameter: the derivative under the mean is 0/0."""
    plan = problem.plan
    scalars, along = (*problem.parameters, *point.values), (*_names(problem), parameter)
    for place, (name, variance) in enumerate(zip(plan.spreads, plan.piece("variances")(*scalars), strict=True)):
        if variance != 0:
            continue
        slopes = np.array(plan.piece("variance slopes", *along)(*scalars), dtype=float).reshape(-1, len(along))
        if slopes[place] @ np.append(moved, 1.0) != 0:
            raise UsageError(
                f"`{name}` has variance 0 here, and gains variance with `{parameter}`: the derivative of a mean is not "
                f"known at such a point; take a small positive value of `{parameter}`"
            )


def _names(problem: Problem) -> tuple[str, ...]:
    return tuple(item.name for item in problem.plan.unknowns)


def _unknowns(problem: Problem, point: Point, parameter: str) -> Array:
    """Return the derivatives of the remaining unknowns."""
    if not problem.plan.unknowns:
        return np.zeros(0)
    linear = linearise(problem, point.values, point.mesh, (*_names(problem), parameter))
    return np.asarray(-np.linalg.solve(linear.jacobian[:, :-1], linear.jacobian[:, -1]))


def _outputs(problem: Problem, point: Point, parameter: str, moved: Array) -> dict[str, float]:
    """Return the derivatives of eliminated unknowns and observables."""
    plan = problem.plan
    along = (*_names(problem), parameter)
    lines = problem.lines(point.values)
    mesh = point.mesh.moved(lines.kinks(point.mesh.rows))
    means, slopes, _ = gradients(lines, mesh, along)
    found = plan.piece("output slopes", *along)(*problem.parameters, *point.values, *means)
    table = np.array([float(entry) for entry in found]).reshape(len(plan.outputs), len(along) + len(means))
    partial, through = table[:, : len(along)], table[:, len(along) :]
    total = (partial + through @ slopes) @ np.append(moved, 1.0)
    return dict(zip(plan.outputs, total.tolist(), strict=True))
