"""Take an integrand apart: inverse functions become variables, kinks and jumps become switches of sign.

Between two zeros of its switches an integrand is smooth, so that an expectation is split there, and its derivatives
are those of a smooth function plus a term for every jump that moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sympy import Abs, Basic, Dummy, Eq, Expr, Heaviside, Max, Min, Ne, Piecewise, S, sign
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction

from eqsolve.language.nodes import E, InverseValue

__all__ = ["Parts", "Root", "Switch", "take_apart"]


@dataclass(frozen=True)
class Switch:
    """A variable that is the sign of an expression."""

    symbol: Dummy
    expression: Expr


@dataclass(frozen=True)
class Root:
    """A variable y with f(y) = argument, f increasing on the domain."""

    symbol: Dummy
    expression: Expr
    variable: Basic
    argument: Expr
    domain: tuple[Expr, Expr]

    def derivative(self, total: Any) -> Expr:
        """Return dy of a change, where ``total`` differentiates an expression along it with y held fixed."""
        at_root = self.expression.xreplace({self.variable: self.symbol})
        return (total(self.argument) - total(at_root)) / at_root.diff(self.symbol)


class Parts:
    """Collects the stages that an integrand needs before it can be evaluated, each once, in order."""

    def __init__(self) -> None:
        self.stages: list[Switch | Root] = []
        self._known: dict[Basic, Dummy] = {}

    def smooth(self, expr: Basic, randoms: frozenset[Basic]) -> Any:
        """Return an expression with inverse functions and random switches replaced by the variables of stages."""
        if not expr.args or not expr.free_symbols & randoms:
            return expr if not expr.has(InverseValue) else self._rebuild(expr, randoms)
        match expr:
            case InverseValue():
                return self._root(expr, randoms)
            case sign():
                return self._switch(self.smooth(expr.args[0], randoms))
            case Abs():
                inside = self.smooth(expr.args[0], randoms)
                return self._switch(inside) * inside
            case Heaviside():
                symbol = self._switch(self.smooth(expr.args[0], randoms))
                return (1 + symbol) / 2
            case Max() | Min():
                first, *rest = (self.smooth(arg, randoms) for arg in expr.args)
                for other in rest:
                    symbol = self._switch(first - other)
                    chosen = symbol > 0 if isinstance(expr, Max) else symbol < 0
                    first = Piecewise((first, chosen), (other, True))
                return first
            case Piecewise():
                return Piecewise(*((self.smooth(e, randoms), self._condition(c, randoms)) for e, c in expr.args))
            case E():
                raise TypeError("an expectation inside an integrand")
        return self._rebuild(expr, randoms)

    def _rebuild(self, expr: Basic, randoms: frozenset[Basic]) -> Any:
        if isinstance(expr, InverseValue):
            return self._root(expr, randoms)
        return expr.func(*(self.smooth(arg, randoms) for arg in expr.args)) if expr.args else expr

    def _root(self, node: InverseValue, randoms: frozenset[Basic]) -> Dummy:
        if node not in self._known:
            argument = self.smooth(node.argument, randoms)
            symbol = Dummy(f"y{len(self.stages)}", real=True)
            self.stages.append(Root(symbol, node.expression, node.variable, argument, node.domain))
            self._known[node] = symbol
        return self._known[node]

    def _switch(self, inside: Expr) -> Any:
        if inside.is_positive:
            return S.One
        if inside.is_negative:
            return S.NegativeOne
        if -inside in self._known:
            return -self._known[-inside]
        if inside not in self._known:
            symbol = Dummy(f"s{len(self.stages)}", real=True)
            self.stages.append(Switch(symbol, inside))
            self._known[inside] = symbol
        return self._known[inside]

    def _condition(self, condition: Any, randoms: frozenset[Basic]) -> Any:
        if isinstance(condition, Relational) and condition.free_symbols & randoms:
            gap = self.smooth(condition.lhs - condition.rhs, randoms)
            symbol = self._switch(gap)
            return {"==": Eq, "!=": Ne}.get(condition.rel_op, condition.func)(symbol, 0)
        if isinstance(condition, BooleanFunction):
            return condition.func(*(self._condition(arg, randoms) for arg in condition.args))
        return condition


def take_apart(expressions: list[Expr], randoms: frozenset[Basic]) -> tuple[list[Expr], tuple[Switch | Root, ...]]:
    """Return smooth integrands and the stages that define the variables in them, in order of evaluation."""
    parts = Parts()
    return [parts.smooth(expr, randoms) for expr in expressions], tuple(parts.stages)
