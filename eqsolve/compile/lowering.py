"""Pointwise expressions as numpy functions of arrays; cost independent of the arrays' sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from sympy import Basic, Dummy, Expr, lambdify
from sympy.core.function import AppliedUndef

from eqsolve.compile.safe import safe
from eqsolve.compile.safe_functions import on_arrays, on_mpmath
from eqsolve.compile.special import with_evaluators
from eqsolve.errors import ModelError
from eqsolve.language.nodes import E, Int, InverseValue, Resp

__all__ = ["Module", "as_function", "lower"]

Module = Literal["numpy", "mpmath"]

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
    return as_function(stand_ins, bodies, names=arguments)


def as_function(
    arguments: Sequence[Basic],
    expressions: Sequence[Expr],
    module: Module = "numpy",
    *,
    real: bool = True,
    shared: Any = True,
    names: Sequence[Basic] | None = None,
) -> Callable[..., list[Any]]:
    """Return a function of arrays or of mpmath's numbers that evaluates expressions in symbols, written safely.

    All lowering ends here. ``real=False`` says that complex values may come; ``shared`` is how common parts are found;
    ``names`` are what the arguments stand for, in messages.
    """
    stand_ins = [Dummy(f"x{index}", real=True if real else None) for index in range(len(arguments))]
    mapping = dict(zip(arguments, stand_ins, strict=True))
    written = [safe(expr.xreplace(mapping), real=real) for expr in expressions]
    said = dict(zip(stand_ins, names or arguments, strict=True))
    bodies = with_evaluators(written, precise=module == "mpmath", names=said) if real else written
    modules = [on_arrays(), "scipy", "numpy"] if module == "numpy" else [on_mpmath(), "mpmath"]
    return lambdify(stand_ins, bodies, modules=modules, cse=shared)


def _replace(expr: Any, mapping: dict[Basic, Dummy]) -> Any:
    """Replace the outermost occurrences, so that a node's own content does not hide it."""
    if expr in mapping:
        return mapping[expr]
    if not expr.args:
        return expr
    changed = [_replace(arg, mapping) for arg in expr.args]
    return expr.func(*changed) if any(new is not old for new, old in zip(changed, expr.args, strict=True)) else expr
