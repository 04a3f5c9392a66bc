"""sympy's special functions in expressions, exchanged for functions of real arrays or of mpmath's numbers.

What the functions are is written in ``special_values``. Derivatives for which sympy has no formula (along an order, ζ')
are taken by mpmath, to full precision.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import (
    Basic,
    Derivative,
    DiracDelta,
    Dummy,
    Expr,
    Function,
    Mul,
    S,
    Subs,
    Symbol,
    Tuple,
    conjugate,
    im,
    lambdify,
    re,
    zeta,
)
from sympy import exp as symbolic_exp
from sympy.utilities.lambdify import implemented_function

from eqsolve.compile.special_values import differentiated, precise_value, real_values
from eqsolve.errors import ModelError
from eqsolve.language.functions import SPECIAL
from eqsolve.language.symbols import Time, Value

__all__ = ["with_evaluators"]

Shape = tuple[Any, ...] | None


def with_evaluators(
    expressions: Sequence[Expr], *, precise: bool = False, names: Mapping[Basic, Basic] | None = None
) -> list[Any]:
    """Return the expressions with special functions and open derivatives as functions that ``lambdify`` can call.

    They take arrays of real numbers and give nan where their value is not real; ``precise`` ones take mpmath's numbers.
    ``names`` says what symbols stand for, in a message.
    """
    for node in sorted({node for expr in expressions for node in expr.atoms(DiracDelta)}, key=str):
        zero = node.args[0].xreplace(dict(names or {}))
        if zero.atoms(Time) and not zero.atoms(Value):
            raise ModelError(f"white noise, `DiracDelta({zero})`, cannot be computed on a grid of times; give it a width")
        raise ModelError(
            f"the derivative of a jump at the zeros of `{zero}` is needed, and cannot be computed pointwise; "
            "write a steep smooth function in its place, such as tanh(k*x) for sign(x)"
        )
    return [_exchange(expr, precise) for expr in expressions]


def _exchange(expr: Any, precise: bool) -> Any:
    if not isinstance(expr, Basic) or not expr.args:
        return expr
    if isinstance(expr, Derivative | Subs):
        return _derivative(expr, precise)
    if isinstance(expr, Mul):
        regular = _without_removable(expr, precise)
        if regular is not expr:
            return _exchange(regular, precise)
    changed = [_exchange(arg, precise) for arg in expr.args]
    if isinstance(expr, re | conjugate):  # sympy does not know that its functions are real here
        return changed[0]
    if isinstance(expr, im):
        return S.Zero
    name = type(expr).__name__
    if isinstance(expr, Function) and name in SPECIAL:
        shape = tuple(_shape(arg) for arg in expr.args)
        return _named(name, shape, precise)(*(leaf for arg in changed for leaf in _leaves(arg)))
    if all(new is old for new, old in zip(changed, expr.args, strict=True)):
        return expr
    return expr.func(*changed)


# --- tuples among the arguments, as hyper and meijerg have them --------------------------------------------------------
def _shape(arg: Basic) -> Shape:
    return tuple(_shape(part) for part in arg.args) if isinstance(arg, Tuple) else None


def _leaves(arg: Basic) -> Iterator[Basic]:
    if isinstance(arg, Tuple):
        for part in arg.args:
            yield from _leaves(part)
    else:
        yield arg


@functools.lru_cache(maxsize=256)
def _named(name: str, shape: tuple[Shape, ...], precise: bool) -> Any:
    """Return a sympy function with the evaluator of a special function; its arguments are the leaves of the original."""
    code = "".join("x" if part is None else str(part).replace(" ", "") for part in shape)
    label = "".join(c if c.isalnum() else {"(": "l", ")": "r"}.get(c, "_") for c in f"{name}_{code}")
    evaluate = precise_value if precise else real_values
    return implemented_function(f"evaluate_{label}", functools.partial(evaluate, name, shape))


# --- removable singularities of sympy's derivatives --------------------------------------------------------------------
def _without_removable(expr: Mul, precise: bool) -> Expr:
    """Write f(x)/x as a function that is known at 0, where f is Lambert's function or a polylogarithm.

    sympy's derivatives contain it: W' = W/(x(1 + W)), and W(x)/x = exp(−W(x)).
    """
    for node in expr.args:
        name = type(node).__name__
        if name not in ("LambertW", "polylog") or (name == "LambertW" and len(node.args) > 1):
            continue
        argument = node.args[-1]
        if not any(factor**-1 in expr.args for factor in Mul.make_args(argument) if not factor.is_number):
            continue
        ratio = symbolic_exp(-node) if name == "LambertW" else _named("polylog_ratio", (None, None), precise)(*node.args)
        return Mul(*(arg for arg in expr.args if arg is not node), argument) * ratio
    return expr


# --- derivatives without a formula --------------------------------------------------------------------------------------
def _derivative(expr: Any, precise: bool) -> Any:
    """Return a derivative that sympy has left open: in closed form once its functions are known to be real, or by mpmath."""
    inner, points = (expr.expr, dict(zip(expr.variables, expr.point, strict=True))) if isinstance(expr, Subs) else (expr, {})
    if not isinstance(inner, Derivative):
        raise ModelError(f"`{expr}` cannot be computed pointwise")
    body = inner.expr.replace(lambda node: isinstance(node, re | conjugate), lambda node: node.args[0])
    body = body.replace(lambda node: isinstance(node, im), lambda node: S.Zero)
    closed = body.diff(*inner.variables)
    if not closed.has(Derivative, Subs):
        return _exchange(closed.subs(points), precise)
    if any(not isinstance(item, Symbol) for item in (*inner.variables, *body.free_symbols)) or len(set(inner.variables)) > 1:
        raise ModelError(f"`{expr}` cannot be computed pointwise")
    along = inner.variables[0]
    if body == zeta(along) and len(inner.variables) == 1:
        return _named("zeta_slope", (None,), precise)(_exchange(points.get(along, along), precise))
    others = sorted(body.free_symbols - {along}, key=str)
    stand_ins = [Dummy(f"a{place}", real=True) for place in range(len(others) + 1)]
    canonical = body.xreplace(dict(zip((along, *others), stand_ins, strict=True)))
    function = _numerical_derivative(canonical, tuple(stand_ins), len(inner.variables), precise)
    return function(_exchange(points.get(along, along), precise), *(_exchange(points.get(o, o), precise) for o in others))


_COUNT = iter(range(10**9))


@dataclass(frozen=True)
class _Precise:
    """An expression as a function of mpmath's numbers that pickles: it is made again where it is unpickled."""

    body: Expr
    arguments: tuple[Dummy, ...]

    @functools.cached_property
    def function(self) -> Any:
        return lambdify(self.arguments, with_evaluators([self.body], precise=True)[0], modules="mpmath")

    def __call__(self, *numbers: Any) -> Any:
        return self.function(*numbers)

    def __reduce__(self) -> Any:
        return (_Precise, (self.body, self.arguments))


@functools.lru_cache(maxsize=256)
def _numerical_derivative(body: Expr, arguments: tuple[Dummy, ...], order: int, precise: bool) -> Any:
    value = _Precise(body, arguments)
    assert value.function is not None  # made with the plan, not when it runs
    evaluate = functools.partial(differentiated, value, order, precise)
    return implemented_function(f"evaluate_derivative_{next(_COUNT)}", evaluate)
