"""Take an integrand apart: inverse functions become variables, kinks and jumps become switches of sign.

Between two zeros of its switches an integrand is smooth, so that an expectation is split there, and its derivatives
are those of a smooth function plus a term for every jump that moves.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Abs, Basic, Dummy, Eq, Expr, Heaviside, Max, Min, Ne, Piecewise, S, Symbol, default_sort_key, lambdify, sign
from sympy.core.relational import Relational
from sympy.functions import tanh
from sympy.logic.boolalg import BooleanFunction

from eqsolve.language.nodes import E, Int, InverseValue
from eqsolve.language.symbols import Parameter, Value
from eqsolve.numerics.arrays import DIFFERENCE, ROUNDING
from eqsolve.passes.forms.expressions import rebuilt

KINKS = (Abs, Heaviside, Max, Min, Piecewise, sign)
"""Functions with a kink or a jump."""
SMOOTH = "make it smooth, for instance by tanh(k*x) in place of sign(x), or (1 + tanh(k*x))/2 in place of Heaviside(x)"
"""What to do about a jump, in messages."""
JUMP_WIDTH = Parameter("jump_width", positive=True)
"""Over what smooth steps rise that stand for the jumps of a loss gradient."""


def with_steps(
    expr: Expr, moving: Sequence[Any], rise: Callable[[Expr], Expr] = lambda inside: tanh(inside / JUMP_WIDTH)
) -> Expr:
    """Return an expression with smooth steps, or other rises from −1 to 1, in place of sign and Heaviside of what moves."""
    ramps = {node: rise(node.args[0]) for node in expr.atoms(sign, Heaviside) if moving and node.has(*moving)}
    return expr.xreplace({node: ramp if isinstance(node, sign) else (1 + ramp) / 2 for node, ramp in ramps.items()})


def switches(expressions: Iterable[Basic]) -> list[Expr]:
    """Return the expressions at whose zeros others have a kink or a jump."""
    gaps: list[Expr] = []
    for node in sorted({node for expr in expressions for node in expr.atoms(*KINKS)}, key=default_sort_key):
        match node:
            case Max() | Min():
                gaps += [a - b for a, b in itertools.combinations(node.args, 2)]
            case Piecewise():
                relations = {item for _, condition in node.args for item in condition.atoms(Relational)}
                gaps += [item.lhs - item.rhs for item in sorted(relations, key=default_sort_key)]
            case _:
                gaps.append(node.args[0])
    return list(dict.fromkeys(gaps))


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

    def __str__(self) -> str:
        return f"root[{self.variable}: {self.expression} = {self.argument}]"

    def derivative(self, total: Any) -> Expr:
        """Return dy of a change, where ``total`` differentiates an expression along it with y held fixed."""
        at_root = self.expression.xreplace({self.variable: self.symbol})
        return (total(self.argument) - total(at_root)) / at_root.diff(self.symbol)


class Stages:
    """Collects the stages that an integrand needs before it can be evaluated, each once, in order."""

    def __init__(self, randoms: frozenset[Basic]) -> None:
        self.randoms = randoms
        self.stages: list[Switch | Root] = []
        self._known: dict[Basic, Dummy] = {}

    def smooth(self, expr: Any) -> Any:
        """Return an expression with inverse functions and random switches replaced by the variables of stages."""
        moving = expr.free_symbols & self.randoms
        if not expr.args or not (moving or expr.has(InverseValue)):
            return expr
        match expr:
            case InverseValue():
                return self._root(expr)
            case _ if not moving:
                pass
            case sign():
                return self._switch(self.smooth(expr.args[0]))
            case Abs():
                inside = self.smooth(expr.args[0])
                return self._switch(inside) * inside
            case Heaviside():
                return (1 + self._switch(self.smooth(expr.args[0]))) / 2
            case Max() | Min():
                first, *rest = map(self.smooth, expr.args)
                for other in rest:
                    symbol = self._switch(first - other)
                    chosen = symbol > 0 if isinstance(expr, Max) else symbol < 0
                    first = Piecewise((first, chosen), (other, True))
                return first
            case Piecewise():
                return Piecewise(*((self.smooth(e), self._condition(c)) for e, c in expr.args))
            case E():
                raise TypeError("an expectation inside an integrand")
        return rebuilt(expr, self.smooth)

    def _root(self, node: InverseValue) -> Dummy:
        if node not in self._known:
            argument = self.smooth(node.argument)
            kinked = [item for item in node.expression.atoms(*KINKS) if not item.has(node.variable)]
            expression = node.expression.xreplace({item: self.smooth(item) for item in kinked})
            self._known[node] = symbol = Dummy(f"y{len(self.stages)}", real=True)
            self.stages.append(Root(symbol, expression, node.variable, argument, node.domain))
        return self._known[node]

    def _switch(self, inside: Expr) -> Any:
        if inside.is_positive or inside.is_negative:
            return S.One if inside.is_positive else S.NegativeOne
        if -inside in self._known:
            return -self._known[-inside]
        if inside not in self._known:
            self._known[inside] = symbol = Dummy(f"s{len(self.stages)}", real=True)
            self.stages.append(Switch(symbol, inside))
        return self._known[inside]

    def _condition(self, condition: Any) -> Any:
        if isinstance(condition, Relational) and condition.free_symbols & self.randoms:
            symbol = self._switch(self.smooth(condition.lhs - condition.rhs))
            return {"==": Eq, "!=": Ne}.get(condition.rel_op, condition.func)(symbol, 0)
        if isinstance(condition, BooleanFunction):
            return condition.func(*map(self._condition, condition.args))
        return condition


def take_apart(expressions: list[Expr], randoms: frozenset[Basic]) -> tuple[list[Expr], tuple[Switch | Root, ...]]:
    """Return smooth integrands and the stages that define the variables in them, in order of evaluation."""
    parts = Stages(randoms)
    return [parts.smooth(expr) for expr in expressions], tuple(parts.stages)


# --- Where an expression jumps: at which zeros of its switches it has two values.
#
# At a kink nothing matters to an expectation. At a jump the derivative holds a delta function,
# whose expectation is a density of paths: slopes alone do not give it.
#
# A crossing is looked for at so many places of a variable in −4 … 4, for as many draws of everything else (within ±2):
# kinks of models lie at numbers of order one.
_REACH, _PLACES = 4.0, 81
_STEPS = (DIFFERENCE, DIFFERENCE**2)  # to both sides of a crossing


def jumps(expr: Expr, moving: Iterable[Basic]) -> Expr | None:
    """Return a switch at whose zero an expression jumps as one of ``moving`` crosses it; None if it is continuous.

    Decided at points on both sides of the surface, drawn at random and coming closer: what then comes closer too is taken to
    be continuous. Integrals and expectations are left as they are.
    """
    variables = [item for item in moving if expr.has(item)] if expr.has(*KINKS) else []
    if not variables:
        return None
    placeholders: dict[Basic, Symbol] = {}
    plain = _plain(expr, placeholders, frozenset(variables))
    crossing = frozenset(placeholders[item] for item in variables if item in placeholders)
    signs: dict[Basic, Basic] = {}
    for stage in take_apart([plain], crossing)[1]:
        if isinstance(stage, Switch):
            inside = stage.expression.xreplace(signs)
            signs[stage.symbol] = sign(inside)
            if _is_crossed(plain, inside, crossing):
                return inside.xreplace({dummy: item for item, dummy in placeholders.items()})
    return None


def _plain(expr: Any, placeholders: dict[Basic, Symbol], variables: frozenset[Basic]) -> Any:
    """Return an expression in real symbols: of the variables, of values, symbols, integrals and expectations."""
    if expr in variables or isinstance(expr, Int | E | Value) or (expr.is_Symbol and not isinstance(expr, Dummy)):
        if expr not in placeholders:
            known = {word: True for word in ("positive", "integer") if getattr(expr, f"is_{word}")}
            placeholders[expr] = Symbol(f"jump_{len(placeholders)}", real=True, **known)  # a plain name, which prints as it is
        return placeholders[expr]
    return rebuilt(expr, lambda arg: _plain(arg, placeholders, variables))


def _is_crossed(expr: Expr, inside: Expr, crossing: frozenset[Symbol]) -> bool:
    """Whether a function stays apart on both sides of where another vanishes, in one of the variables."""
    # from the first step to the second a jump keeps its size, and a square root shrinks by the
    # root of their ratio: half way between the two
    left = (_STEPS[1] / _STEPS[0]) ** 0.25
    rng = np.random.default_rng(0)
    symbols = sorted(expr.free_symbols, key=str)
    value, gap = (lambdify(symbols, function, "scipy") for function in (expr, inside))

    def at(function: Any, numbers: dict[Symbol, Any], x: Any) -> Any:
        arguments = ({**numbers, variable: x}).values()
        return np.broadcast_to(np.real(function(*arguments)), np.broadcast_shapes(*map(np.shape, arguments)))

    with np.errstate(all="ignore"):
        for variable in sorted(inside.free_symbols & crossing, key=str):
            draws = {item: _draw(item, rng) for item in symbols}
            line = np.linspace(0.01 if variable.is_positive else -_REACH, _REACH, _PLACES)[:, None]
            above = at(gap, draws, line) > 0
            rows, columns = np.nonzero(above[1:] != above[:-1])
            low, high = line[rows, 0], line[rows + 1, 0]
            others = {item: numbers[columns] for item, numbers in draws.items()}
            while (high - low).max(initial=0.0) > np.spacing(_REACH):  # bisection, to rounding
                middle = (low + high) / 2
                side = (at(gap, others, middle) > 0) == above[rows, columns]
                low, high = np.where(side, middle, low), np.where(side, high, middle)
            far, near = (np.abs(at(value, others, high + step) - at(value, others, low - step)) for step in _STEPS)
            if (np.isfinite(far) & np.isfinite(near) & (near > np.maximum(left * far, 1e4 * ROUNDING))).any():
                return True
    return False


def _draw(item: Basic, rng: Any) -> Any:
    if item.is_integer:
        return rng.integers(1 if item.is_positive else -2, 5, _PLACES).astype(float)
    return rng.uniform(0.25 if item.is_positive else -2.0, 2.0, _PLACES)
