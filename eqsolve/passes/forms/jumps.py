"""Where an expression jumps: at which zeros of its switches it has two values.

A function with a kink has a derivative on each side, and nothing at the kink itself matters to an expectation. One with a
jump has a derivative that holds a delta function, whose expectation is a density of paths: slopes alone do not give it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sympy import Abs, Basic, Dummy, Expr, Heaviside, Max, Min, Piecewise, Symbol, lambdify, sign

from eqsolve.language.nodes import E, Int
from eqsolve.language.symbols import Value
from eqsolve.passes.forms.kinks import Switch, take_apart

__all__ = ["jumps"]

_KINKS = (Abs, Heaviside, Max, Min, Piecewise, sign)
_TRIES = 24  # draws of everything else, for each of which a variable crosses the surface
_REACH, _LINE = 4.0, 81  # where and how densely a crossing is looked for
_HALVINGS = 45  # until it is known to rounding
_STEPS = (1e-3, 1e-6)  # to both sides of it
_LEFT = 0.5  # of a difference at the first step: what a jump leaves at the second; a root leaves 0.03
_SMALL = 1e-9  # a difference that is rounding


def jumps(expr: Expr, moving: Iterable[Basic]) -> Expr | None:
    """Return a switch at whose zero an expression jumps as one of ``moving`` crosses it; None if it is continuous.

    Decided at points on both sides of the surface, drawn at random and coming closer: what then comes closer too is taken to
    be continuous. Integrals and expectations are left as they are.
    """
    if not expr.has(*_KINKS):
        return None
    variables = [item for item in moving if expr.has(item)]
    if not variables:
        return None
    stand_ins: dict[Basic, Symbol] = {}
    plain = _plain(expr, stand_ins, frozenset(variables))
    names = frozenset(stand_ins[item] for item in variables if item in stand_ins)
    _, stages = take_apart([plain], names)
    signs: dict[Basic, Basic] = {}
    every = sorted(plain.free_symbols, key=str)
    value = lambdify(every, plain, "scipy") if stages else None
    for stage in stages:
        if isinstance(stage, Switch):
            inside = stage.expression.xreplace(signs)
            signs[stage.symbol] = sign(inside)
            if _is_crossed(value, inside, every, names):
                told: Expr = inside.xreplace({dummy: item for item, dummy in stand_ins.items()})
                return told
    return None


def _plain(expr: Any, stand_ins: dict[Basic, Symbol], variables: frozenset[Basic]) -> Any:
    """Return an expression in real symbols: of the variables, of values, symbols, integrals and expectations."""
    if expr in variables or isinstance(expr, Int | E | Value) or (expr.is_Symbol and not isinstance(expr, Dummy)):
        if expr not in stand_ins:
            known = {word: True for word in ("positive", "integer") if getattr(expr, f"is_{word}")}
            stand_ins[expr] = Symbol(f"jump_{len(stand_ins)}", real=True, **known)  # a plain name, which prints as it is
        return stand_ins[expr]
    return expr.func(*(_plain(arg, stand_ins, variables) for arg in expr.args)) if expr.args else expr


def _is_crossed(value: Any, inside: Expr, others: list[Symbol], names: frozenset[Symbol]) -> bool:
    """Whether a function stays apart on both sides of where another vanishes, in one of the variables."""
    import numpy as np

    rng = np.random.default_rng(0)
    gap = lambdify(others, inside, "scipy")
    with np.errstate(all="ignore"):
        for variable in sorted(inside.free_symbols & names, key=str):
            drawn = {item: _numbers(item, rng) for item in others}
            line = np.linspace(0.01 if variable.is_positive else -_REACH, _REACH, _LINE)[:, None]

            place = others.index(variable)
            above = _at(gap, list(drawn.values()), place, line) > 0
            rows, columns = np.nonzero(above[1:] != above[:-1])
            low, high = line[rows, 0], line[rows + 1, 0]
            beside = [numbers[columns] for numbers in drawn.values()]
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                side = (_at(gap, beside, place, middle) > 0) == above[rows, columns]
                low, high = np.where(side, middle, low), np.where(side, high, middle)
            ends = ((_at(value, beside, place, high + step), _at(value, beside, place, low - step)) for step in _STEPS)
            far, near = (np.abs(above - below) for above, below in ends)
            if (np.isfinite(far) & np.isfinite(near) & (near > np.maximum(_LEFT * far, _SMALL))).any():
                return True
    return False


def _at(function: Any, values: list[Any], place: int, x: Any) -> Any:
    """Return a function with one argument given."""
    import numpy as np

    arguments = [x if number == place else item for number, item in enumerate(values)]
    return np.broadcast_to(np.real(function(*arguments)), np.broadcast_shapes(*(np.shape(item) for item in arguments)))


def _numbers(item: Basic, rng: Any) -> Any:
    if item.is_integer:
        return rng.integers(1 if item.is_positive else -2, 5, _TRIES).astype(float)
    return rng.uniform(0.25 if item.is_positive else -2.0, 2.0, _TRIES)
