"""An equation: two sides, the unknown it defines, and where it was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Basic, Expr, sympify
from sympy.core.function import AppliedUndef, Derivative

from eqsolve.errors import ModelError
from eqsolve.language.source import Location, Order, user_location, written_order
from eqsolve.language.symbols import Head, Named, Time, Value
from eqsolve.verbs import later


class Equation:
    """Two sides that are equal. The left-hand side is its identity; where it was written is not part of its content."""

    __slots__ = ("lhs", "location", "order", "rhs")
    lhs: Expr
    rhs: Expr
    location: Location | None
    order: Order

    def __init__(self, lhs: Expr, rhs: Expr, location: Location | None = None, order: Order | None = None) -> None:
        for name, value in (("lhs", lhs), ("rhs", rhs), ("location", location), ("order", order or {})):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an equation is immutable; make a new one with Eq(lhs, rhs)")

    def __reduce__(self) -> Any:
        return (Equation, (self.lhs, self.rhs, self.location, self.order))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equation) and (self.lhs, self.rhs) == (other.lhs, other.rhs)

    def __hash__(self) -> int:
        return hash((self.lhs, self.rhs))

    def __repr__(self) -> str:
        return f"Eq({self.lhs}, {self.rhs})"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {later('equation_latex')(self).replace(' &= ', ' = ')}$"

    @property
    def target(self) -> Value | None:
        """The function value on the left, such as w(t) in both ``w(t)`` and ``dw(t)/dt``."""
        inner = self.lhs.expr if isinstance(self.lhs, Derivative) else self.lhs
        return inner if isinstance(inner, Value) else None

    @property
    def head(self) -> Head | None:
        """The unknown function this equation defines, if the left-hand side names one."""
        return self.target.head if self.target is not None else None

    @property
    def key(self) -> str:
        """The name the equation is found by: the unknown on its left, or the left-hand side's text."""
        if self.head is not None:
            return self.head.name
        return self.lhs.name if isinstance(self.lhs, Named) else str(self.lhs)

    @property
    def is_differential(self) -> bool:
        return isinstance(self.lhs, Derivative)

    @property
    def time(self) -> Expr | None:
        """The time that runs: the first argument on the left, or the variable of differentiation."""
        if isinstance(self.lhs, Derivative):
            return self.lhs.variables[0]
        return self.target.moments[0] if self.target is not None else None

    @property
    def label(self) -> str:
        """``equation for `g` (my_model.py:32)``, as error messages name it."""
        where = f" ({self.location})" if self.location else ""
        return f"equation for `{self.key}`{where}"

    def changed(self, change: Callable[[Any], Any]) -> Equation:
        """Return the equation with everything in it changed, keeping its place and the written order of its terms."""
        order = {change(whole): tuple(map(change, parts)) for whole, parts in self.order.items()}
        return Equation(change(self.lhs), change(self.rhs), self.location, order)

    def map(self, mapping: Mapping[Basic, Basic]) -> Equation:
        """Return the equation with symbols exchanged."""
        return self.changed(lambda item: item.xreplace(mapping)) if mapping else self


def _unquoted(side: Any) -> str:
    if isinstance(side, str):
        return "; write it with declared symbols, not as text"
    if getattr(side, "shape", ()) != () or isinstance(side, list | tuple):
        return "; write one equation for each entry"
    return "; write what it computes" if callable(side) else ""


def is_second_order(equation: Any) -> bool:
    """Whether an equation gives a second derivative."""
    return isinstance(equation, Equation) and isinstance(equation.lhs, Derivative) and len(equation.lhs.variables) == 2


def Eq(lhs: Any, rhs: Any) -> Equation:
    """Declare that two sides are equal: ``Eq(w(t).diff(t), -w(t))``.

    In a ``System`` the left-hand side names the unknown the equation defines: a function at its times, or its
    derivative. In a ``FixedPoint`` any balance of two sides may stand.
    """
    location = user_location()
    sides = []
    for side in (lhs, rhs):
        try:
            sides.append(sympify(side, strict=True))  # text would be evaluated as Python code
        except (sympy.SympifyError, TypeError):
            raise ModelError(f"{location}: Eq takes two expressions, got {side!r}{_unquoted(side)}") from None
        if not isinstance(sides[-1], Expr):
            hint = "; call it with its times" if isinstance(sides[-1], Head) else ""
            raise ModelError(f"{location}: Eq takes two expressions, got `{side}`{hint}")
    if isinstance(sides[0], Derivative):
        by, inside = sides[0].variables, sides[0].expr
        if not isinstance(by[0], Time):
            name = inside.func if isinstance(inside, AppliedUndef) else inside
            raise ModelError(
                f"{location}: the left-hand side `{sides[0]}` is a derivative of sympy's own symbols; "
                f'declare them by eqsolve: {by[0]} = times("{by[0]}"), {name} = function("{name}")'
            )
        if len(by) > 2 or len(set(by)) > 1:
            raise ModelError(
                f"{location}: the left-hand side `{sides[0]}` is no first or second derivative in a time; "
                "introduce further functions for higher derivatives"
            )
    order = {**written_order(0, sides[0]), **written_order(1, sides[1])}
    return Equation(sides[0], sides[1], location, order)
