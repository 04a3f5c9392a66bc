"""A bound fixed point in compiled form: its plan, and the numbers and laws it is to be solved at."""

from __future__ import annotations

from collections.abc import Mapping

from sympy import Expr

from eqsolve.compile.fixed_point import Plan, compile_fixed_point
from eqsolve.language.binding import Binding
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.symbols import Parameter, Unknown
from eqsolve.numerics.laws import Law
from eqsolve.numerics.quadrature_laws import branches, demand_second_moment
from eqsolve.solvers.fixed_point.newton import Problem

__all__ = ["RULE", "constant_laws", "make_problem"]

RULE = 96  # nodes for densities that are not Gaussian; the error estimate uses more


def make_problem(
    binding: Binding,
    extra: tuple[Expr, ...] = (),
    symbols: Mapping[Parameter, float] | None = None,
    *,
    eliminate: bool = True,
    held: tuple[tuple[Unknown, Expr], ...] = (),
    dropped: tuple[int, ...] = (),
) -> Problem:
    """Return a bound model in compiled form, with the numbers it is to be solved at.

    Unknowns that are ``held`` have the numbers given, and the equations ``dropped`` are left out.
    """
    model = binding.model
    assert isinstance(model, FixedPoint)
    given = frozenset(
        item.name
        for item, law in binding.laws.items()
        if item.law is None or (law != item.law and law != item.law.xreplace(dict(binding.values)))
    )
    more = dict(symbols or {})
    plan = compile_fixed_point(
        model, binding.values, given, extra, tuple(more), eliminate=eliminate,
        held=tuple(item for item, _ in held), dropped=dropped,
    )  # fmt: skip
    laws = constant_laws(binding, plan)
    for name, law in laws.items():
        demand_second_moment(name, law)
    parameters = tuple(float(binding.values[item]) for item in model.parameters)
    parameters += tuple(float(value) for value in more.values())
    parameters += tuple(float(end) for _, end in held)
    return Problem(plan, parameters, tuple(branches(tuple(laws), laws, RULE)), held=held, dropped=dropped)


def constant_laws(binding: Binding, plan: Plan, digits: int | None = None) -> dict[str, Law]:
    """Return the laws of the random constants by name, in floats or with some digits."""
    return {item.name: binding.laws[item].numeric(digits) for item in plan.constants}
