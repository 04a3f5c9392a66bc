"""The times of a system in its standard form, ROW and COLUMN of a table, MIDDLE of an integral; products sorted by them."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from sympy import Add, Basic, Expr, Mul, expand

from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Function, Process, Random, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import free_times, outermost

ROW, COLUMN, MIDDLE = Time("row"), Time("column"), Time("middle")


def as_written(expr: Basic) -> Basic:
    """Return an expression with the times that messages know: t and t' instead of rows and columns."""
    return expr.xreplace({ROW: Time("t"), COLUMN: Time("t'"), MIDDLE: Time("s")})


def at_row(expr: Basic) -> Any:
    """Return an expression of one time, in ROW."""
    return expr.xreplace(dict.fromkeys(free_times(expr), ROW))


def initial_values(system: System, equation: Equation) -> tuple[Expr | None, Expr | None]:
    """Return what is given of an unknown at the start, and on the diagonal in ROW."""
    head = equation.head
    if isinstance(head, Function):
        return system.init.get(head), None
    start = diagonal = None
    for key, value in system.init.items():
        if isinstance(key, Value) and key.head == head:
            first, second = key.moments
            if isinstance(first, Time) and first == second:
                diagonal = value.xreplace({first: ROW})
            else:
                start = value
    return start, diagonal


def sort_factors(term: Expr, group: Callable[[Expr], str]) -> defaultdict[str, list[Expr]]:
    """Sort the factors of a product into named groups."""
    groups: defaultdict[str, list[Expr]] = defaultdict(list)
    for factor in Mul.make_args(term):
        groups[group(factor)].append(factor)
    return groups


def separate_times(term: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """Return a product as (outer, left, right, joint): factors without MIDDLE, without COLUMN, without ROW, with all three."""

    def group(factor: Expr) -> str:
        if MIDDLE not in factor.free_symbols:
            return "outer"
        if COLUMN not in factor.free_symbols:
            return "left"
        return "right" if ROW not in factor.free_symbols else "joint"

    groups = sort_factors(term, group)
    return Mul(*groups["outer"]), Mul(*groups["left"]), Mul(*groups["right"]), Mul(*groups["joint"])


# --- Expectations of two times as sums of products of one time each.
def expanded(argument: Expr, one: set[Time], other: set[Time]) -> tuple[Expr, ...]:
    """Return an expression as terms that are products of factors of one time each, as far as known identities do that."""
    made = expand(argument)
    if any(mixes(term, one, other) for term in Add.make_args(made)):
        made = expand(made, trig=True)
    return Add.make_args(made)


def mixes(term: Expr, one: set[Time], other: set[Time]) -> bool:
    """Whether a random factor of a product holds both times."""
    return any(is_random(item) and item.free_symbols & one and item.free_symbols & other for item in Mul.make_args(term))


def unseparated(label: str, node: E) -> str:
    """Return what is wrong with an expectation whose two times do not come apart, and what to do."""
    return (
        f"{label}: `{as_written(node)}` does not separate into factors of one time each; write what is averaged as a sum of "
        "products f(t)*g(t') (a polynomial, or a series, where there is no identity)"
    )


def is_random(expr: Expr) -> bool:
    """Whether an expression differs between paths: what is averaged does not."""
    found = outermost(expr, Value, Random, but=E)
    return any(isinstance(getattr(item, "head", item), Process | Random) for item in found)
