"""Functions replaced by what they equal, with integration variables kept apart."""

from __future__ import annotations

from typing import Any

from sympy import Basic, Expr

from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Head, Time, Value

__all__ = ["put_in", "renamed", "unused_time"]


def put_in(expr: Any, head: Head, moments: tuple[Any, ...], body: Expr) -> Any:
    """Return an expression with a function replaced by what it equals, ``body`` at the times ``moments``."""
    if isinstance(expr, Value) and expr.head == head:
        new = dict(zip(moments, expr.moments, strict=True))
        taken = {item for moment in expr.moments for item in moment.free_symbols}
        return renamed(body, taken).xreplace(new)
    if not expr.args or not expr.has(head):
        return expr
    return expr.func(*(put_in(arg, head, moments, body) for arg in expr.args))


def renamed(expr: Any, taken: set[Any]) -> Any:
    """Return an expression whose integration variables are none of the times taken."""
    if not isinstance(expr, Basic) or not expr.args or isinstance(expr, Value):
        return expr
    if isinstance(expr, Int) and expr.variable in taken:
        other = unused_time(taken | expr.atoms(Time))
        expr = Int(expr.integrand.xreplace({expr.variable: other}), (other, expr.low, expr.high))
    return expr.func(*(renamed(arg, taken) for arg in expr.args))


def unused_time(taken: set[Any]) -> Time:
    names = {item.name for item in taken}
    return next(Time(name) for name in ("s", *(f"s{number}" for number in range(1, 99))) if name not in names)
