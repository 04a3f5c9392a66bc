"""Walks over expressions: the values they read, and derivatives by values, integrals, expectations."""

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sympy import Basic, DiracDelta, Dummy, Expr, S

from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Time, Value


@dataclass(frozen=True)
class Read:
    """One function value in an expression."""

    value: Value  # the function at its times
    integrals: tuple[Int, ...] = ()  # the integrals around it, outermost first
    expected: bool = False  # whether it stands inside an expectation
    response: str | None = None  # its role in one: ``"output"`` or ``"noise"``


def reads(expr: Basic, integrals: tuple[Int, ...] = (), expected: bool = False, response: str | None = None) -> Iterator[Read]:
    """Yield every function value read by an expression, in order of appearance."""
    if isinstance(expr, Value):
        yield Read(expr, integrals, expected, response)
    elif isinstance(expr, Int):
        yield from reads(expr.integrand, (*integrals, expr), expected, response)
        for end in (expr.low, expr.high):
            yield from reads(end, integrals, expected, response)
    elif isinstance(expr, E):
        yield from reads(expr.argument, integrals, True, response)
    elif isinstance(expr, Resp):
        yield from reads(expr.output, integrals, expected, "output")
        yield Read(expr.noise, integrals, expected, "noise")
    else:
        for arg in expr.args:
            yield from reads(arg, integrals, expected, response)


def free_times(*expressions: Basic) -> tuple[Time, ...]:
    """Return the times that expressions depend on, integration variables excluded, in order of their names."""
    times = {item for expr in expressions for item in expr.free_symbols if isinstance(item, Time)}
    return tuple(sorted(times, key=str))


def outermost(expr: Basic, *kinds: type[Basic], but: type[Basic] | tuple[type[Basic], ...] = ()) -> list[Any]:
    """Return the nodes of some kinds that stand in no other one, each once, in order; one of ``but`` is not entered."""
    if isinstance(expr, kinds):
        return [expr]
    if isinstance(expr, but):
        return []
    return list(dict.fromkeys(node for arg in expr.args for node in outermost(arg, *kinds, but=but)))


def outside_means(expr: Basic) -> list[Value]:
    """Return the values that stand outside expectations."""
    return outermost(expr, Value, but=E)


def rebuilt(expr: Any, change: Callable[[Any], Any]) -> Any:
    """Return an expression of changed parts; itself where none is."""
    parts = tuple(map(change, expr.args))
    return expr if all(map(operator.is_, parts, expr.args)) else expr.func(*parts)


@functools.cache
def _variable(place: int) -> Dummy:
    """Return a variable, always the same for a place, so that sympy knows what it worked out before."""
    return Dummy(f"x{place}", real=True)


def partial(expr: Expr, value: Basic) -> Expr:
    """Return ∂expr/∂value, the value being treated as an independent variable."""
    x = _variable(0)
    return expr.xreplace({value: x}).diff(x).xreplace({x: value})


def slope(expr: Expr, value: Basic) -> Expr:
    """Return ∂expr/∂value by regions: of a kink that on each side, of a jump that beside it."""
    return partial(expr, value).replace(DiracDelta, lambda *_: S.Zero)


def shielded(expr: Expr, *kinds: type[Basic]) -> tuple[Expr, dict[Dummy, Expr]]:
    """Return an expression in variables that stand for its outermost nodes of some kinds, and these nodes."""
    back = {_variable(place): node for place, node in enumerate(outermost(expr, *kinds))}
    return expr.xreplace({node: x for x, node in back.items()}), back


def chain(expr: Expr, kinds: tuple[type[Basic], ...], rate: Callable[[Expr], Expr], along: Basic | None = None) -> Expr:
    """Return the derivative of an expression by the chain rule: ``rate`` is that of its outermost nodes of some kinds.

    What it depends on directly is held fixed, but for the symbol ``along``.
    """
    bare, back = shielded(expr, *kinds)
    total: Expr = S.Zero if along is None else bare.diff(along)
    for x, node in back.items():
        moved = rate(node)
        if moved != 0:
            total += bare.diff(x) * moved
    return total.xreplace(back)
