"""Pointwise expressions as numpy functions of arrays; cost independent of the arrays' sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sympy import Basic, Dummy, Expr, lambdify
from sympy.core.function import AppliedUndef

from eqsolve.compile.special import with_evaluators
from eqsolve.errors import ModelError
from eqsolve.language.nodes import E, Int, InverseValue, Resp

__all__ = ["lower"]

_LEFT_OVER = (E, Int, Resp, InverseValue, AppliedUndef)


def lower(expressions: Sequence[Expr], arguments: Sequence[Basic]) -> Callable[..., list[Any]]:
    """Return a function of arrays, one per argument, that evaluates all expressions with common parts shared.

    Arguments may be symbols, function values, or nodes whose values the caller computes (expectations, integrals).
    """
    stand_ins = [Dummy(f"x{index}", real=True) for index in range(len(arguments))]
    mapping = dict(zip(arguments, stand_ins, strict=True))
    bodies = [_replace(expr, mapping) for expr in expressions]
    for body in bodies:
        left = [node for node in body.atoms(*_LEFT_OVER)]
        if left:
            raise ModelError(f"`{left[0]}` cannot be computed pointwise")
    names = dict(zip(stand_ins, arguments, strict=True))
    function = lambdify(stand_ins, with_evaluators(bodies, names=names), modules=["scipy", "numpy"], cse=True)
    return function


def _replace(expr: Any, mapping: dict[Basic, Dummy]) -> Any:
    """Replace the outermost occurrences, so that a node's own content does not hide it."""
    if expr in mapping:
        return mapping[expr]
    if not expr.args:
        return expr
    changed = [_replace(arg, mapping) for arg in expr.args]
    return expr.func(*changed) if any(new is not old for new, old in zip(changed, expr.args, strict=True)) else expr
