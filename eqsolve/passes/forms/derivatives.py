"""Derivatives by what is no symbol: the value of a function, an integral, an expectation."""

import functools
from collections.abc import Callable

from sympy import Basic, DiracDelta, Dummy, Expr, S

from eqsolve.passes.forms.reads import outermost


@functools.cache
def _stand_in(place: int) -> Dummy:
    """Return a variable, always the same for a place, so that sympy knows what it worked out before."""
    return Dummy(f"x{place}", real=True)


def partial(expr: Expr, value: Basic) -> Expr:
    """Return ∂expr/∂value, the value being treated as an independent variable."""
    x = _stand_in(0)
    return expr.xreplace({value: x}).diff(x).xreplace({x: value})


def slope(expr: Expr, value: Basic) -> Expr:
    """Return ∂expr/∂value by regions: of a kink that on each side, of a jump that beside it."""
    return partial(expr, value).replace(DiracDelta, lambda *_: S.Zero)


def shielded(expr: Expr, *kinds: type[Basic]) -> tuple[Expr, dict[Dummy, Expr]]:
    """Return an expression in variables that stand for its outermost nodes of some kinds, and these nodes."""
    back = {_stand_in(place): node for place, node in enumerate(outermost(expr, *kinds))}
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
