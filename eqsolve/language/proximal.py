"""Proximal operators derived from a convex penalty: in closed form where the equation is linear, else implicitly."""

from __future__ import annotations

from typing import Any

from sympy import Abs, Dummy, Expr, Piecewise, S, oo, sign

from eqsolve.errors import ModelError
from eqsolve.language.nodes import Inverse
from eqsolve.language.source import user_location
from eqsolve.language.symbols import Plain, as_expression

__all__ = ["proximal"]


def proximal(penalty: Any, variable: Any, observation: Any, threshold: Any) -> tuple[Expr, Expr]:
    """Return η(x; t) = argmin_y ½(y − x)² + t J(y), and its derivative η' along x.

    Parameters
    ----------
    penalty
        J, convex, an expression in ``variable``; it may have a kink at 0 (written with ``Abs``), and no other.
    variable
        A ``symbol()``.
    observation, threshold
        x and t, any expressions.

    Examples
    --------
    >>> w, slope = proximal(Abs(y), y, observation, t)  # soft thresholding
    """
    J = as_expression(penalty, "proximal")
    if not isinstance(variable, Plain) or variable not in J.free_symbols:
        raise ModelError(f"{user_location()}: proximal(J, y, ...) needs a symbol() that J = `{J}` depends on")
    x = Dummy("x", real=True)
    t = as_expression(threshold, "proximal")
    value, slope = _derive(J, variable, x, t)
    swap = {x: as_expression(observation, "proximal")}
    return value.xreplace(swap), slope.xreplace(swap)


def _derive(J: Expr, y: Plain, x: Dummy, t: Expr) -> tuple[Expr, Expr]:
    up, down = (_side(J, y, direction) for direction in (1, -1))
    right, left = (part.diff(y).subs(y, 0) for part in (up, down))
    if J.has(Abs, sign) and (right - left) != 0:
        above, below = _solved(up, y, x, t, (S.Zero, oo)), _solved(down, y, x, t, (-oo, S.Zero))
        value = Piecewise((above, x > t * right), (below, x < t * left), (0, True))
        slope = Piecewise((above.diff(x), x > t * right), (below.diff(x), x < t * left), (0, True))
        return value, slope
    value = _solved(up if J.has(Abs, sign) else J, y, x, t, (-oo, oo))
    return value, value.diff(x)


def _side(J: Expr, y: Plain, direction: int) -> Expr:
    """Return J on one side of 0."""
    inside = J.replace(Abs, lambda arg: direction * arg if arg == y else Abs(arg))
    made: Expr = inside.replace(sign, lambda arg: S(direction) if arg == y else sign(arg))
    if made.has(Abs, sign):
        raise ModelError(f"{user_location()}: proximal takes a penalty with a kink at 0 only, got `{J}`")
    return made


def _solved(J: Expr, y: Plain, x: Dummy, t: Expr, domain: tuple[Expr, Expr]) -> Expr:
    """Return the y with y + t J'(y) = x."""
    balance = y + t * J.diff(y)
    gain = balance.diff(y)
    if y not in gain.free_symbols:
        return (x - balance.subs(y, 0)) / gain
    return Inverse(balance, y, domain=domain)(x)
