"""sympy's special functions as functions of real arrays or of mpmath's numbers: one table, scipy.special first, then mpmath.

A value that is not real is nan, so that the solver can say where the model left the functions' domain.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sympy import Basic, Derivative, DiracDelta, Expr, Function, S, Subs, conjugate, im, re
from sympy.utilities.lambdify import implemented_function

from eqsolve.errors import ModelError
from eqsolve.language.functions import SPECIAL
from eqsolve.language.symbols import Time, Value
from eqsolve.numerics.arrays import Array


def with_evaluators(
    expressions: Sequence[Expr], *, precise: bool = False, names: Mapping[Basic, Basic] | None = None
) -> list[Any]:
    """Return the expressions with special functions exchanged for functions that the printers can call.

    They take arrays of real numbers; ``precise`` ones take mpmath's numbers. ``names`` says what symbols stand for, in a
    message.
    """
    for node in sorted({node for expr in expressions for node in expr.atoms(DiracDelta)}, key=str):
        zero = node.args[0].xreplace(dict(names or {}))
        if zero.atoms(Time) and not zero.atoms(Value):
            raise ModelError(f"white noise, `DiracDelta({zero})`, cannot be computed on a grid of times; give it a width")
        raise ModelError(
            f"the derivative of a jump at the zeros of `{zero}` is needed, and cannot be computed pointwise; "
            "write a steep smooth function in its place, such as tanh(k*x) for sign(x)"
        )
    return [_exchange(expr, precise, names or {}) for expr in expressions]


def _exchange(expr: Any, precise: bool, names: Mapping[Basic, Basic]) -> Any:
    if not isinstance(expr, Basic) or not expr.args:
        return expr
    if isinstance(expr, Derivative | Subs):
        return _derivative(expr, precise, names)
    changed = [_exchange(arg, precise, names) for arg in expr.args]
    if isinstance(expr, re | conjugate):  # sympy does not know that its functions are real here
        return changed[0]
    if isinstance(expr, im):
        return S.Zero
    name = type(expr).__name__
    if isinstance(expr, Function) and name in SPECIAL:
        return _evaluator(name, precise)(*changed)
    if all(new is old for new, old in zip(changed, expr.args, strict=True)):
        return expr
    return expr.func(*changed)


def _derivative(expr: Any, precise: bool, names: Mapping[Basic, Basic]) -> Any:
    """Return a derivative that sympy left open: in closed form once its functions are known to be real, or by mpmath."""
    inner, points = (expr.expr, dict(zip(expr.variables, expr.point, strict=True))) if isinstance(expr, Subs) else (expr, {})
    if isinstance(inner, Derivative):
        body = inner.expr.replace(lambda node: isinstance(node, re | conjugate), lambda node: node.args[0])
        body = body.replace(lambda node: isinstance(node, im), lambda node: S.Zero)
        closed = body.diff(*inner.variables)
        if not closed.has(Derivative, Subs):
            return _exchange(closed.subs(points), precise, names)
        places = [place for place, arg in enumerate(body.args) if arg.has(*inner.variables)]
        alone = len(places) == 1 and (body.args[places[0]],) == inner.variables
        if type(body).__name__ in SPECIAL and alone:  # along an order, or ζ'
            arguments = [_exchange(arg.subs(points), precise, names) for arg in body.args]
            return _evaluator(type(body).__name__, precise, places[0])(*arguments)
    raise ModelError(f"`{expr.xreplace(dict(names))}` is needed, a derivative for which sympy has no closed form")


@functools.lru_cache(maxsize=256)
def _evaluator(name: str, precise: bool, along: int | None = None) -> Any:
    evaluate = functools.partial(precise_value if precise else real_values, name, along)
    return implemented_function(f"evaluate_{name}{'' if along is None else along}", evaluate)


def real_values(name: str, along: int | None, *arguments: Any) -> Array:
    """Return a function's values on arrays: scipy's, and mpmath's one by one where scipy has none.

    Or its derivative along one of the arguments, by mpmath.
    """
    from scipy import special

    arrays = np.broadcast_arrays(*(np.asarray(argument, dtype=float) for argument in arguments))
    quick = _TABLE[name][0] if along is None else None
    values = np.full(arrays[0].shape, np.nan)
    if quick is not None:
        with np.errstate(all="ignore"):
            values[...] = getattr(special, quick)(*arrays) if isinstance(quick, str) else quick(special, *arrays)
    ask = np.isnan(values) & np.logical_and.reduce([np.isfinite(array) for array in arrays])
    if ask.any():
        numbers = zip(*(array[ask].tolist() for array in arrays), strict=True)
        values[ask] = [_one_value(name, along, given) for given in numbers]
    return values


def _one_value(name: str, along: int | None, given: tuple[float, ...]) -> float:
    context = _double()
    tolerance = 1e-13 if along is None else 1e-10
    try:
        return float(_real(_by_mpmath(context, name, along, [context.mpf(number) for number in given]), tolerance))
    except (ValueError, ArithmeticError, NotImplementedError, TypeError):  # a pole, or no convergence
        return math.nan


@functools.cache
def _double() -> Any:
    """Return mpmath in double precision, whatever precision others have set."""
    import mpmath

    context = mpmath.mp.clone()
    context.prec = 53
    return context


def precise_value(name: str, along: int | None, *arguments: Any) -> Any:
    """Return a function's value in mpmath's present precision, nan if it is not real."""
    import mpmath

    numbers = [mpmath.mpmathify(item) for item in arguments]
    return _real(_by_mpmath(mpmath.mp, name, along, numbers), mpmath.mp.eps * 1e3)


def _by_mpmath(context: Any, name: str, along: int | None, given: list[Any]) -> Any:
    if along is not None:
        before, after = given[:along], given[along + 1 :]
        return context.diff(lambda value: _by_mpmath(context, name, None, [*before, value, *after]), given[along])
    function = _TABLE[name][1]
    return getattr(context, function)(*given) if isinstance(function, str) else function(context, *given)


def _real(value: Any, tolerance: Any) -> Any:
    """Return the real part of a number whose imaginary part is rounding, else nan."""
    return value.real if abs(getattr(value, "imag", 0)) <= tolerance * abs(value.real) else math.nan


def _lambert(special: Any, x: Array, branch: Any = 0.0) -> Array:
    """Return the real branches: x ≥ −1/e for 0, −1/e ≤ x < 0 for −1; the edge itself is met up to rounding."""
    edge = -math.exp(-1.0)
    inside = np.where(np.abs(x - edge) <= 4 * np.finfo(float).eps, edge, x)
    values = special.lambertw(inside, np.asarray(branch).astype(int))
    real = (inside >= edge) & ((np.asarray(branch) == 0) | (inside < 0))
    return np.where(real, np.where(inside == edge, -1.0, np.real(values)), np.nan)


def _whole_order(name: str) -> Callable[..., Array]:
    """Return scipy's function of a whole order; at other orders it is nan, for mpmath to answer."""

    def values(special: Any, order: Array, x: Array) -> Array:
        whole = (np.mod(order, 1) == 0) & (order >= 0)
        return np.where(whole, getattr(special, name)(np.where(whole, order, 0).astype(int), x), np.nan)

    return values


def _part(name: str, place: int, positive: bool = False) -> Callable[..., Array]:
    """Return one of the values of a scipy function that gives several; ``positive``: real for x ≥ 0 only."""
    return lambda special, x: np.where(positive & (x < 0), np.nan, getattr(special, name)(x)[place])


def _incomplete_gamma(name: str) -> Callable[..., Array]:
    return lambda special, s, x: np.where(s > 0, special.gamma(s) * getattr(special, name)(s, x), np.nan)


# sympy's name → scipy.special's and mpmath's function: a name where the arguments are the same, else a formula
_TABLE: dict[str, tuple[str | Callable[..., Any] | None, str | Callable[..., Any]]] = {
    "LambertW": (_lambert, lambda mp, x, branch=0: mp.lambertw(x, int(branch))),
    "besselj": ("jv", "besselj"), "bessely": ("yv", "bessely"), "besseli": ("iv", "besseli"), "besselk": ("kv", "besselk"),
    "airyai": (_part("airy", 0), "airyai"), "airybi": (_part("airy", 2), "airybi"),
    "airyaiprime": (_part("airy", 1), lambda mp, x: mp.airyai(x, derivative=1)),
    "airybiprime": (_part("airy", 3), lambda mp, x: mp.airybi(x, derivative=1)),
    "elliptic_k": ("ellipk", "ellipk"), "elliptic_f": ("ellipkinc", "ellipf"),
    "elliptic_e": (lambda sp, *given: (sp.ellipe if len(given) == 1 else sp.ellipeinc)(*given), "ellipe"),
    "Ei": ("expi", "ei"), "E1": ("exp1", "e1"), "expint": (_whole_order("expn"), "expint"),
    "li": (lambda sp, x: sp.expi(np.log(x)), "li"), "fresnels": (_part("fresnel", 0), "fresnels"),
    "fresnelc": (_part("fresnel", 1), "fresnelc"), "Si": (_part("sici", 0), "si"), "Ci": (_part("sici", 1, True), "ci"),
    "Shi": (_part("shichi", 0), "shi"), "Chi": (_part("shichi", 1, True), "chi"),
    "erfi": ("erfi", "erfi"), "erfinv": ("erfinv", "erfinv"), "erfcinv": ("erfcinv", lambda mp, x: mp.erfinv(1 - x)),
    "erf2": (lambda sp, x, y: sp.erf(y) - sp.erf(x), lambda mp, x, y: mp.erf(y) - mp.erf(x)),
    "loggamma": (lambda sp, x: np.where(x >= 0, sp.gammaln(x), np.nan), "loggamma"), "digamma": ("psi", "digamma"),
    "trigamma": (lambda sp, x: sp.polygamma(1, x), lambda mp, x: mp.psi(1, x)),
    "polygamma": (_whole_order("polygamma"), lambda mp, n, x: mp.psi(int(n), x)),
    "beta": (lambda sp, a, b=None: sp.beta(a, a if b is None else b), lambda mp, a, b=None: mp.beta(a, a if b is None else b)),
    "lowergamma": (_incomplete_gamma("gammainc"), lambda mp, s, x: mp.gammainc(s, 0, x)),
    "uppergamma": (_incomplete_gamma("gammaincc"), "gammainc"),
    "zeta": ("zeta", "zeta"), "polylog": (None, "polylog"), "harmonic": (None, lambda mp, x: mp.harmonic(x)),
    "legendre": (_whole_order("eval_legendre"), "legendre"), "chebyshevt": (_whole_order("eval_chebyt"), "chebyt"),
    "chebyshevu": (_whole_order("eval_chebyu"), "chebyu"), "hermite": (_whole_order("eval_hermite"), "hermite"),
    "laguerre": (_whole_order("eval_laguerre"), lambda mp, n, x: mp.laguerre(n, 0, x)),
    "factorial": (lambda sp, x: sp.gamma(x + 1), "factorial"), "binomial": ("binom", "binomial"),
    "RisingFactorial": ("poch", "rf"),
}  # fmt: skip
assert set(_TABLE) == SPECIAL
