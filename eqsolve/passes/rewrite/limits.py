"""Limits of expressions of the language: inside expectations and integrals, term by term, factor by factor.

Functions, random variables and times stand still. Where sympy finds no limit, or an infinite one, an error says which term.
"""

from __future__ import annotations

from typing import Any

from sympy import Add, Basic, Dummy, Expr, Mul, Pow, S, limit, nan, oo, sympify, zoo
from sympy.calculus.accumulationbounds import AccumBounds
from sympy.series.limits import Limit

from eqsolve.errors import ModelError
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Head, Parameter, Random, Time, Value

__all__ = ["take_limit"]

_ODD = (oo, -oo, zoo, nan, Limit, AccumBounds)


def take_limit(expr: Any, parameter: Parameter, to: Any, where: str) -> Any:
    """Return the limit of an expression as ``parameter`` → ``to``; ``where`` names it in an error."""
    dummies: dict[Basic, Basic] = {}
    names: dict[Basic, Basic] = {}

    def stand_in(node: Basic) -> Basic:
        if node not in names:
            names[node] = Dummy(real=True, positive=True if isinstance(node, Parameter | Time) else None)
            dummies[names[node]] = node
        return names[node]

    def replace(item: Any) -> Any:
        if isinstance(item, Value | Random | Time | Head):
            return stand_in(item)
        if isinstance(item, Resp):
            inner = take_limit(item.output, parameter, to, where)
            return stand_in(Resp(inner, item.noise)) if inner.has(Value) else S.Zero
        if isinstance(item, Parameter):
            return item if item == parameter else stand_in(item)
        if isinstance(item, E):
            inner = take_limit(item.argument, parameter, to, where)
            return S.Zero if inner == 0 else (stand_in(E(inner)) if inner.has(Value, Random, Resp) else replace(inner))
        if isinstance(item, Int):
            inner = take_limit(item.integrand, parameter, to, where)
            low, high = (take_limit(end, parameter, to, where) for end in (item.low, item.high))
            return S.Zero if inner == 0 else stand_in(Int(inner, (item.variable, low, high)))
        return item if not item.args else item.func(*(replace(arg) for arg in item.args))

    plain = replace(expr)
    if not plain.has(parameter):
        return plain.xreplace(dummies)
    large = Dummy(positive=True)
    try:
        found = _limit(plain.xreplace({parameter: large}), large, sympify(to))
    except (NotImplementedError, ValueError, RecursionError) as error:
        raise ModelError(f"{where}: sympy cannot take the limit {parameter} → {to} of `{expr}` ({error})") from None
    if found.has(*_ODD, large):
        shown = found.xreplace({**dummies, large: parameter})
        raise ModelError(
            f"{where}: `{expr}` has no finite limit as {parameter} → {to} (got `{shown}`); rescale time or unknowns first "
            "so that every term is of order one"
        )
    return found.xreplace(dummies)


def _limit(expr: Expr, large: Dummy, to: Expr) -> Expr:
    """Return a limit; of a sum or a product from those of its parts where these are finite, so that its form is kept."""
    if not expr.has(large):
        return expr
    if expr.is_Add:
        parts = _each(expr.args, large, to)
        return Add(*parts) if parts is not None else limit(expr, large, to)
    powers = _pull_out(expr, large, to)
    outside = [factor for factor in Mul.make_args(powers) if not factor.has(large)]
    inside = Mul(*(factor for factor in Mul.make_args(powers) if factor.has(large)))
    if inside == 1:
        return powers
    if inside.is_Mul:
        parts = _each(inside.args, large, to)
        if parts is not None:
            return Mul(*outside, *parts)
    elif inside.is_Pow and inside.exp.is_number and inside.base.is_Add:
        parts = _each((inside.base,), large, to)
        if parts is not None and (parts[0] != 0 or inside.exp.is_positive):
            return Mul(*outside, parts[0] ** inside.exp)
    return Mul(*outside) * limit(inside, large, to)


def _each(args: tuple[Expr, ...], large: Dummy, to: Expr) -> list[Expr] | None:
    """Return the limits of all parts, or None unless all are finite."""
    parts = [_limit(arg, large, to) for arg in args]
    return None if any(part.has(*_ODD, large) for part in parts) else parts


def _pull_out(expr: Expr, large: Dummy, to: Expr) -> Expr:
    """Return roots of sums with the largest power in front: √(a² w² + a⁴) is a² √(w²/a² + 1) for a large a."""
    if not expr.has(large) or not expr.args:
        return expr
    made = expr.func(*(_pull_out(arg, large, to) for arg in expr.args))
    if not (isinstance(made, Pow) and made.base.is_Add and made.exp.is_number):
        return made
    orders = [term.as_coeff_exponent(large)[1] for term in made.base.args]
    if not all(order.is_number and order.is_real for order in orders) or to not in (S.Zero, oo):
        return made
    power = min(orders) if to == 0 else max(orders)
    rest = Add(*((term / large**power).expand() for term in made.base.args))
    return large ** (power * made.exp) * rest**made.exp
