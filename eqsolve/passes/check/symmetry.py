"""Whether an expression changes when its two times are exchanged, decided by numbers put in."""

import random

from sympy import Expr, Float, Integer, Symbol

from eqsolve.language.nodes import E, Int, InverseValue, Resp
from eqsolve.language.symbols import Correlation, Process, Random, Value

_SAMPLES = 3
_DIGITS = 30


def is_asymmetric(expr: Expr, first: Expr, second: Expr, other: Expr | None = None) -> bool:
    """Return whether ``expr`` certainly differs from ``other`` (itself, unless given) with times exchanged.

    Every function value, random constant and parameter is given a number (the same to C(t, t') and C(t', t)
    for a correlation C), an expectation is the mean over a few draws. A difference then proves that the two
    are not the same expression. With an integral or an inverse function in it nothing is claimed.
    """
    swapped = (expr if other is None else other).xreplace({first: second, second: first})
    if swapped == expr or expr.has(Int, InverseValue) or swapped.has(Int, InverseValue):
        return False
    try:
        left, right = (complex(_evaluate(side)) for side in (expr, swapped))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return False
    scale = max(abs(left), abs(right))
    return scale < float("inf") and abs(left - right) > 1e-12 * scale


def _evaluate(expr: Expr, sample: int = 0) -> Expr:
    """Return the value of an expression, processes and random constants taken from one of the samples."""
    expr = expr.xreplace({node: _mean_at(node) for node in expr.atoms(E)})
    for kind in (Resp, Value, Symbol):
        expr = expr.xreplace({item: _number(item, sample) for item in expr.atoms(kind)})
    return expr.evalf(_DIGITS)


def _mean_at(node: E) -> Expr:
    return sum((_evaluate(node.argument, sample) for sample in range(_SAMPLES)), Float(0, _DIGITS)) / _SAMPLES


def _number(item: Expr, sample: int) -> Expr:
    """Return the number of an atom, always the same for the same atom and sample."""
    if isinstance(item, Value) and isinstance(item.head, Correlation):
        item = item.head(*sorted(item.moments, key=str))
    varies = isinstance(item, Random | Resp) or (isinstance(item, Value) and isinstance(item.head, Process))
    draw = random.Random(f"{item} in sample {sample if varies else 0}")
    return Integer(draw.randint(2, 9)) if item.is_integer else Float(draw.uniform(0.3, 1.7), _DIGITS)
