"""Cancelling in expressions made of exponentials and hyperbolic functions, without the slow ``simplify``."""

from __future__ import annotations

from functools import reduce
from math import gcd, lcm

from sympy import (
    Dummy,
    Expr,
    Integer,
    PolynomialError,
    Pow,
    Rational,
    S,
    cancel,
    collect,
    cosh,
    exp,
    expand,
    factor,
    fraction,
    sinh,
    together,
)
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from eqsolve.language.nodes import Node
from eqsolve.language.symbols import Value

__all__ = ["cancel_exponentials"]


def cancel_exponentials(expr: Expr) -> Expr:
    """Return an equal expression in which common factors have cancelled; zero when it is seen to vanish.

    Hyperbolic functions become exponentials, every independent exponential a positive symbol, and squares
    come out of roots: then cosh²x − sinh²x = 1 is an identity between rational functions.
    """
    opaque = {node: Dummy("v", real=True) for node in _outermost(expr)}
    plain = expr.xreplace(opaque)
    plain = plain.replace(lambda node: isinstance(node, HyperbolicFunction), lambda node: node.rewrite(exp))
    symbols = _exponentials(plain)
    bare = _without_exponentials(plain, symbols)
    bare = bare.replace(_is_root, lambda node: Pow(factor(together(node.base)), node.exp))
    try:
        result = cancel(together(bare))
    except PolynomialError:  # a Piecewise: nothing is claimed
        return expr
    if not fraction(result)[1].is_Add:
        result = expand(result)
        for base, (symbol, unit) in symbols.items():
            result = _fold(result, symbol, unit * base)
    back = {symbol: exp(unit * base) for base, (symbol, unit) in symbols.items()}
    return result.xreplace(back).xreplace({dummy: node for node, dummy in opaque.items()})


def _outermost(expr: Expr) -> set[Expr]:
    """Return the function values, integrals and expectations that stand in no other one."""
    if isinstance(expr, Value | Node):
        return {expr}
    return set().union(*(_outermost(arg) for arg in expr.args))


def _is_root(node: Expr) -> bool:
    return isinstance(node, Pow) and node.exp.is_Rational and not node.exp.is_Integer


def _terms(node: Expr) -> list[tuple[Rational, Expr]]:
    """Return the exponent of an exponential as rational multiples of monomials."""
    return [term.as_coeff_Mul(rational=True) for term in expand(node.exp).as_ordered_terms()]


def _outer_exponentials(expr: Expr) -> set[Expr]:
    """Return the exponentials that stand in no exponent of another one."""
    if isinstance(expr, exp):
        return {expr}
    return set().union(*(_outer_exponentials(arg) for arg in expr.args))


def _without_exponentials(expr: Expr, symbols: dict[Expr, tuple[Dummy, Rational]]) -> Expr:
    """Exchange the outer exponentials for powers of their symbols; what stands in an exponent stays as it is."""
    if isinstance(expr, exp):
        return _power(expr, symbols)
    if not expr.args:
        return expr
    return expr.func(*(_without_exponentials(arg, symbols) for arg in expr.args))


def _exponentials(expr: Expr) -> dict[Expr, tuple[Dummy, Rational]]:
    """Return, for each monomial m in an exponent, a symbol and the unit with symbol = exp(unit m)."""
    multiples: dict[Expr, list[Rational]] = {}
    for node in sorted(_outer_exponentials(expr), key=str):
        for number, monomial in _terms(node):
            multiples.setdefault(monomial, []).append(number)
    units = {
        monomial: Rational(reduce(gcd, (n.p for n in numbers)), reduce(lcm, (n.q for n in numbers)))
        for monomial, numbers in multiples.items()
    }
    return {monomial: (Dummy("Y", positive=True), unit) for monomial, unit in units.items()}


def _power(node: Expr, symbols: dict[Expr, tuple[Dummy, Rational]]) -> Expr:
    result: Expr = S.One
    for number, monomial in _terms(node):
        symbol, unit = symbols[monomial]
        result *= symbol ** Integer(number / unit)
    return result


def _fold(expr: Expr, symbol: Dummy, exponent: Expr) -> Expr:
    """Write a sum of powers of Y = exp(x) in sinh and cosh where every Y^k has its Y^{-k}; else leave it."""
    parts = collect(expr, symbol, evaluate=False)
    powers = {part.as_base_exp()[1]: value for part, value in parts.items() if part != 1}
    rest = parts.get(S.One, S.Zero)
    if any(not power.is_Integer for power in powers) or rest.has(symbol):
        return expr
    total = rest
    for power in sorted(power for power in powers if power > 0):
        above, below = powers[power], powers.pop(-power, None)
        if below is None or below not in (above, -above):
            return expr
        total += 2 * above * (cosh if below == above else sinh)(power * exponent)
        powers.pop(power)
    return expr if powers else total
