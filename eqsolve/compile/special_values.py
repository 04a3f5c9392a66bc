"""Values of special functions at real arguments: scipy's, mpmath's where scipy has none, and nan where they are not real.

Functions are known by sympy's names and take sympy's arguments. A value that is not real is nan, so that the solver can
say where the model left the functions' domain.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eqsolve.compile.polylogarithm import polylogarithm
from eqsolve.compile.zeta_slope import zeta_slope
from eqsolve.language.functions import MPMATH

__all__ = ["differentiated", "precise_value", "real_values"]

Array = np.ndarray[Any, np.dtype[np.float64]]

_EDGE = -math.exp(-1.0)  # of the domain of Lambert's function
_NEAR = 4 * np.finfo(float).eps


def real_values(name: str, shape: tuple[Any, ...], *leaves: Any) -> Array:
    """Return a function's values on arrays; ``shape`` says how the arguments were nested."""
    arrays = [np.asarray(leaf, dtype=float) for leaf in leaves]
    with np.errstate(all="ignore"):
        quick = _by_scipy(name, shape, arrays)
    values = np.full(np.broadcast_shapes(*(array.shape for array in arrays)), np.nan)
    if quick is not None:
        values[...] = quick
    if name in _COMPLETE or (name == "zeta" and len(leaves) == 1) or not (ask := np.isnan(values)).any():
        return values
    wanted = [np.broadcast_to(array, values.shape) for array in arrays]
    ask &= np.logical_and.reduce([np.isfinite(array) for array in wanted])
    numbers = [array[ask].tolist() for array in wanted]
    values[ask] = [_one_value(name, shape, given) for given in zip(*numbers, strict=True)]
    return values


@functools.cache
def _double() -> Any:
    """Return mpmath in double precision, whatever precision others have set."""
    import mpmath

    context = mpmath.mp.clone()
    context.prec = 53
    return context


def _one_value(name: str, shape: tuple[Any, ...], leaves: tuple[float, ...]) -> float:
    context = _double()
    try:
        return float(_real(_by_mpmath(context, name, shape, [context.mpf(leaf) for leaf in leaves]), 1e-13))
    except (ValueError, ArithmeticError, NotImplementedError, TypeError):  # a pole, or no convergence
        return math.nan


def precise_value(name: str, shape: tuple[Any, ...], *leaves: Any) -> Any:
    """Return a function's value in mpmath's present precision, nan if it is not real."""
    import mpmath

    return _real(_by_mpmath(mpmath.mp, name, shape, [mpmath.mpmathify(leaf) for leaf in leaves]), mpmath.mp.eps * 1e3)


def differentiated(value: Callable[..., Any], order: int, precise: bool, *arguments: Any) -> Any:
    """Return the derivative of mpmath's function along its first argument, at numbers or on arrays."""
    import mpmath

    def at(point: Any, *others: Any) -> Any:
        return mpmath.diff(lambda x: value(x, *others), point, order)

    if precise:
        return at(*arguments)
    arrays = np.broadcast_arrays(*(np.asarray(argument, dtype=float) for argument in arguments))
    values = np.full(arrays[0].shape, np.nan)
    with mpmath.workprec(53):
        for place in np.ndindex(values.shape):
            try:
                values[place] = float(_real(at(*(mpmath.mpf(float(array[place])) for array in arrays)), 1e-10))
            except (ValueError, ArithmeticError, NotImplementedError, TypeError):
                continue
    return values


def _real(value: Any, tolerance: Any) -> Any:
    """Return the real part of a number whose imaginary part is rounding, else nan."""
    if getattr(value, "imag", 0) == 0:
        return value.real
    return value.real if abs(value.imag) <= tolerance * abs(value.real) else math.nan


def _nested(shape: tuple[Any, ...], leaves: Iterator[Any]) -> list[Any]:
    return [next(leaves) if part is None else _nested(part, leaves) for part in shape]


# --- scipy ------------------------------------------------------------------------------------------------------------
def _by_scipy(name: str, shape: tuple[Any, ...], arrays: list[Array]) -> Any:
    """Return scipy's values, nan where it has none; None if it does not know the function."""
    from scipy import special

    if name in _SCIPY:
        return getattr(special, _SCIPY[name])(*arrays)
    if name in _ONE_OF_SEVERAL:
        function, place, positive = _ONE_OF_SEVERAL[name]
        values = getattr(special, function)(arrays[0])[place]
        return np.where(arrays[0] >= 0, values, np.nan) if positive else values
    if name in _WHOLE_ORDER:
        order = arrays[0]
        if not (np.mod(order, 1) == 0).all() or (order < 0).any():
            return None
        return _WHOLE_ORDER[name](special, order.astype(int), *arrays[1:])
    if name in _FORMULAS:
        return _FORMULAS[name](special, *arrays)
    if name == "hyper" and (len(shape[0]), len(shape[1])) == (1, 1):
        return special.hyp1f1(*arrays)
    if name == "hyper" and (len(shape[0]), len(shape[1])) == (0, 1):
        return special.hyp0f1(*arrays)
    return None


_SCIPY = {
    "besselj": "jv", "bessely": "yv", "besseli": "iv", "besselk": "kv", "Ei": "expi", "E1": "exp1", "erfi": "erfi",
    "erfinv": "erfinv", "erfcinv": "erfcinv", "digamma": "psi", "zeta": "zeta", "elliptic_k": "ellipk",
    "elliptic_f": "ellipkinc", "RisingFactorial": "poch", "binomial": "binom",
}  # fmt: skip

# the function, which of its values, and whether only positive arguments have a real one
_ONE_OF_SEVERAL = {
    "airyai": ("airy", 0, False), "airyaiprime": ("airy", 1, False), "airybi": ("airy", 2, False),
    "airybiprime": ("airy", 3, False), "fresnels": ("fresnel", 0, False), "fresnelc": ("fresnel", 1, False),
    "Si": ("sici", 0, False), "Ci": ("sici", 1, True), "Shi": ("shichi", 0, False), "Chi": ("shichi", 1, True),
}  # fmt: skip

_WHOLE_ORDER: dict[str, Callable[..., Any]] = {
    "polygamma": lambda special, n, x: special.polygamma(n, x),
    "expint": lambda special, n, x: special.expn(n, x),
    "legendre": lambda special, n, x: special.eval_legendre(n, x),
    "chebyshevt": lambda special, n, x: special.eval_chebyt(n, x),
    "chebyshevu": lambda special, n, x: special.eval_chebyu(n, x),
    "hermite": lambda special, n, x: special.eval_hermite(n, x),
    "hermite_prob": lambda special, n, x: special.eval_hermitenorm(n, x),
    "laguerre": lambda special, n, x: special.eval_laguerre(n, x),
    "assoc_laguerre": lambda special, n, a, x: special.eval_genlaguerre(n, a, x),
    "gegenbauer": lambda special, n, a, x: special.eval_gegenbauer(n, a, x),
    "jacobi": lambda special, n, a, b, x: special.eval_jacobi(n, a, b, x),
    "jn": lambda special, n, x: special.spherical_jn(n, x),
    "yn": lambda special, n, x: np.where(x > 0, special.spherical_yn(n, x), np.nan),
}

_FORMULAS: dict[str, Callable[..., Any]] = {
    "LambertW": lambda special, x, branch=0.0: _lambert(special, x, branch),
    "polylog": lambda special, s, x: polylogarithm(s, x),
    "polylog_ratio": lambda special, s, x: np.where(x == 0, 1.0, polylogarithm(s, x) / np.where(x == 0, 1.0, x)),
    "zeta_slope": lambda special, x: zeta_slope(x),
    "beta": lambda special, a, b=None: special.beta(a, a if b is None else b),
    "betainc_regularized": lambda special, a, b, low, high: special.betainc(a, b, high) - special.betainc(a, b, low),
    "betainc": lambda special, a, b, low, high: (
        special.beta(a, b) * (special.betainc(a, b, high) - special.betainc(a, b, low))
    ),
    "elliptic_e": lambda special, *given: special.ellipe(*given) if len(given) == 1 else special.ellipeinc(*given),
    "li": lambda special, x: special.expi(np.log(x)),
    "Li": lambda special, x: special.expi(np.log(x)) - special.expi(math.log(2)),
    "erf2": lambda special, x, y: special.erf(y) - special.erf(x),
    "erf2inv": lambda special, x, y: special.erfinv(special.erf(x) + y),
    "loggamma": lambda special, x: np.where(x >= 0, special.gammaln(x), np.nan),
    "trigamma": lambda special, x: special.polygamma(1, x),
    "lowergamma": lambda special, s, x: np.where(s > 0, special.gamma(s) * special.gammainc(s, x), np.nan),
    "uppergamma": lambda special, s, x: np.where(s > 0, special.gamma(s) * special.gammaincc(s, x), np.nan),
    "marcumq": lambda special, m, a, b: 1 - special.chndtr(b**2, 2 * m, a**2),
    "factorial": lambda special, x: special.gamma(x + 1),
    "FallingFactorial": lambda special, x, k: special.poch(x - k + 1, k),
    "harmonic": lambda special, x, m=1.0: (
        special.psi(x + 1) + np.euler_gamma if np.all(m == 1) else special.zeta(m, 1) - special.zeta(m, x + 1)
    ),
    "catalan": lambda special, x: special.binom(2 * x, x) / (x + 1),
}

_COMPLETE = frozenset({
    "zeta_slope", "besselj", "bessely", "besseli", "besselk", "Ei", "E1", "erfi", "erfinv", "erfcinv", "digamma", "elliptic_k",
    "airyai", "airyaiprime", "airybi", "airybiprime", "fresnels", "fresnelc", "Si", "Ci", "Shi", "Chi", "LambertW",
    "li", "Li", "erf2", "erf2inv", "loggamma", "marcumq", "beta", "factorial", "trigamma", "binomial", "catalan",
})  # fmt: skip  # where scipy has no value there is none


def _lambert(special: Any, x: Array, branch: Array) -> Array:
    """Return the real branches: x ≥ −1/e for 0, −1/e ≤ x < 0 for −1; the edge itself is met up to rounding."""
    inside = np.where(np.abs(x - _EDGE) <= _NEAR, _EDGE, x)
    values = special.lambertw(inside, np.asarray(branch).astype(int))
    values = np.where(inside == _EDGE, -1.0, values)
    real = np.where(branch == 0, inside >= _EDGE, (inside >= _EDGE) & (inside < 0))
    return np.where(real, np.real(values), np.nan)


# --- mpmath -----------------------------------------------------------------------------------------------------------
def _by_mpmath(mp: Any, name: str, shape: tuple[Any, ...], leaves: list[Any]) -> Any:
    given = _nested(shape, iter(leaves))
    if name in _PRECISE:
        return _PRECISE[name](mp, *given)
    return getattr(mp, MPMATH.get(name, name))(*given)


_PRECISE: dict[str, Callable[..., Any]] = {
    "LambertW": lambda mp, x, branch=0: mp.lambertw(x, int(branch)),
    "polylog_ratio": lambda mp, s, x: mp.polylog(s, x) / x if x else mp.one,
    "zeta_slope": lambda mp, s: mp.zeta(s, 1, 1),
    "airyaiprime": lambda mp, x: mp.airyai(x, derivative=1),
    "airybiprime": lambda mp, x: mp.airybi(x, derivative=1),
    "jn": lambda mp, n, x: mp.sqrt(mp.pi / (2 * x)) * mp.besselj(n + mp.mpf(1) / 2, x) if x else mp.mpf(n == 0),
    "yn": lambda mp, n, x: mp.sqrt(mp.pi / (2 * x)) * mp.bessely(n + mp.mpf(1) / 2, x),
    "marcumq": lambda mp, m, a, b: _marcum(mp, m, a, b),
    "beta": lambda mp, a, b=None: mp.beta(a, a if b is None else b),
    "betainc": lambda mp, a, b, low, high: mp.betainc(a, b, low, high),
    "betainc_regularized": lambda mp, a, b, low, high: mp.betainc(a, b, low, high, regularized=True),
    "Li": lambda mp, x: mp.li(x) - mp.li(2),
    "erf2": lambda mp, x, y: mp.erf(y) - mp.erf(x),
    "erf2inv": lambda mp, x, y: mp.erfinv(mp.erf(x) + y),
    "erfcinv": lambda mp, x: mp.erfinv(1 - x),
    "trigamma": lambda mp, x: mp.psi(1, x),
    "polygamma": lambda mp, n, x: mp.psi(int(n), x),
    "lowergamma": lambda mp, s, x: mp.gammainc(s, 0, x),
    "uppergamma": lambda mp, s, x: mp.gammainc(s, x),
    "riemann_xi": lambda mp, s: s * (s - 1) / 2 * mp.gamma(s / 2) * mp.zeta(s) / mp.pi ** (s / 2),
    "dirichlet_eta": lambda mp, s, a=1: mp.altzeta(s) if a == 1 else (mp.zeta(s, a / 2) - mp.zeta(s, (a + 1) / 2)) / 2**s,
    "stieltjes": lambda mp, n, a=1: mp.stieltjes(int(n), a),
    "hermite_prob": lambda mp, n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n,
    "laguerre": lambda mp, n, x: mp.laguerre(n, 0, x),
    "harmonic": lambda mp, x, m=1: mp.harmonic(x) if m == 1 else mp.zeta(m) - mp.zeta(m, x + 1),
    "catalan": lambda mp, x: mp.binomial(2 * x, x) / (x + 1),
    "bernoulli": lambda mp, n, x=1: mp.bernpoly(int(n), x),
    "euler": lambda mp, n, x=None: mp.eulerpoly(int(n), x) if x is not None else mp.eulernum(int(n)),
    "fibonacci": lambda mp, n: mp.fibonacci(n),
}


def _marcum(mp: Any, m: Any, a: Any, b: Any) -> Any:
    """Return ∫_b^∞ x (x/a)^{m−1} exp(−(x² + a²)/2) I_{m−1}(a x) dx."""

    def density(x: Any) -> Any:
        return x * (x / a) ** (m - 1) * mp.exp(-(x**2 + a**2) / 2) * mp.besseli(m - 1, a * x)

    return mp.quad(density, [b, max(a, b) + 3, max(a, b) + 10, mp.inf])
