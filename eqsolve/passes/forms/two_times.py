"""Expectations of two times as sums of products of one time each."""

from sympy import Add, Expr, Mul, expand

from eqsolve.language.nodes import E
from eqsolve.language.symbols import Process, Random, Time, Value
from eqsolve.passes.forms.sectors import as_written


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
    """Whether an expression differs between paths."""
    return bool(expr.atoms(Random)) or any(isinstance(value.head, Process) for value in expr.atoms(Value))
