"""A fixed point at numbers: its plan, and the numbers and laws it is to be solved at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqsolve.compile.fixed_point import FixedPointPlan
from eqsolve.compile.fixed_point_program import FixedPointProgram
from eqsolve.compile.values import Values
from eqsolve.numerics.quadrature_laws import branches, demand_second_moment
from eqsolve.solvers.fixed_point.newton import Problem

__all__ = ["RULE", "make_problem", "with_mean"]

RULE = 96  # nodes for densities that are not Gaussian; the error estimate uses more


def make_problem(
    program: FixedPointProgram,
    values: Values,
    *,
    eliminate: bool = True,
    held: tuple[tuple[str, float], ...] = (),
    dropped: tuple[int, ...] = (),
) -> Problem:
    """Return a model in compiled form, with the numbers it is to be solved at.

    Unknowns that are ``held`` have the numbers given, and the equations ``dropped`` are left out.
    """
    plan = program.plan(values, eliminate=eliminate, held=tuple(name for name, _ in held), dropped=dropped)
    return _at(plan, values, (), held, dropped)


def with_mean(program: FixedPointProgram, problem: Problem, values: Values, what: Any, more: Mapping[str, Any]) -> Problem:
    """Return a problem with one more expectation, in the model's own symbols and names that have numbers."""
    held = tuple(name for name, _ in problem.held)
    plan = program.with_mean(problem.plan, values, what, tuple(more), held, problem.dropped)
    return _at(plan, values, tuple(float(value) for value in more.values()), problem.held, problem.dropped)


def _at(
    plan: FixedPointPlan,
    values: Values,
    more: tuple[float, ...],
    held: tuple[tuple[str, float], ...],
    dropped: tuple[int, ...],
) -> Problem:
    laws = {name: values.laws[name] for name in plan.constants}
    for name, law in laws.items():
        demand_second_moment(name, law)
    own = len(plan.parameters) - len(more) - len(held)
    numbers = (*(values.numbers[name] for name in plan.parameters[:own]), *more, *(end for _, end in held))
    return Problem(plan, numbers, tuple(branches(tuple(laws), laws, RULE)), held=held, dropped=dropped)
