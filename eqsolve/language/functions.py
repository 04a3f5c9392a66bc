"""Which of sympy's functions a model may use: those with real values that something here can compute.

The names are sympy's. ``PLAIN`` ones are elementary, and are written out as numpy's or scipy's functions of the same
meaning; the others are computed by ``eqsolve.compile.safe``, by scipy where it knows them and by mpmath elsewhere.
"""

from sympy import Basic, Function, Pow
from sympy.core.function import AppliedUndef

from eqsolve.errors import quoted
from eqsolve.language.symbols import Value

PLAIN = frozenset({
    "Abs", "arg", "sign", "floor", "ceiling", "frac", "Mod", "re", "im", "conjugate", "Heaviside", "Piecewise",
    "exp", "log", "expm1", "log1p", "log2", "log10", "exp2", "Sqrt", "Cbrt", "hypot", "fma", "logaddexp",
    "logaddexp2", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc",
    "atan2", "sinc", "cosm1", "powm1", "sinh", "cosh", "tanh", "coth", "sech", "csch", "asinh", "acosh", "atanh",
    "acoth", "asech", "acsch", "erf", "erfc", "gamma", "KroneckerDelta",
})  # fmt: skip

SPECIAL = frozenset({
    "LambertW", "besselj", "bessely", "besseli", "besselk", "airyai", "airyaiprime", "airybi", "airybiprime", "beta",
    "elliptic_k", "elliptic_f", "elliptic_e", "Ei", "expint", "li", "Si", "Ci", "Shi", "Chi", "erfi", "erf2",
    "erfinv", "erfcinv", "fresnels", "fresnelc", "loggamma", "digamma", "trigamma", "polygamma", "lowergamma",
    "uppergamma", "zeta", "polylog", "legendre", "chebyshevt", "chebyshevu", "hermite", "laguerre", "factorial",
    "binomial", "RisingFactorial", "harmonic",
})  # fmt: skip

_COMPLEX = frozenset(
    {"hankel1", "hankel2", "hn1", "hn2", "Ynm", "exp_polar", "polar_lift", "principal_branch", "periodic_argument"}
)

_EVERYWHERE = frozenset({
    "airyai", "airyaiprime", "airybi", "airybiprime", "erfi", "erf2", "fresnels", "fresnelc", "Si", "Shi", "hermite",
    "laguerre",
})  # fmt: skip
_ON_A_PART = (SPECIAL - _EVERYWHERE) | {
    "log", "log1p", "log2", "log10", "asin", "acos", "acosh", "atanh", "acoth", "asech", "asec", "acsc", "tan", "cot", "sec",
    "csc", "coth", "csch", "acsch", "gamma",
}  # fmt: skip


def not_everywhere(expr: Basic) -> str:
    """Name the parts of an expression that are defined, and real, at some arguments only; for a message, in brackets."""
    parts = [
        node
        for node in expr.atoms(Function, Pow)
        if not node.is_number
        and (type(node).__name__ in _ON_A_PART or (isinstance(node, Pow) and not (node.exp.is_Integer and node.exp > 0)))
    ]
    names = sorted({str(node) for node in parts}, key=lambda text: (len(text), text))[:3]
    return f" ({quoted(names)})" if names else ""


def why_not_computed(node: Basic) -> str:
    """Return why a model cannot use an applied function; nothing if it can, or if it is no function of sympy's."""
    if not isinstance(node, Function) or isinstance(node, AppliedUndef):
        return ""
    name = type(node).__name__
    if name in _COMPLEX:
        return "whose values are complex; a model is written in real functions"
    if name == "LambertW" and len(node.args) == 2 and node.args[1] not in (0, -1):
        return "a branch without real values; the real ones are LambertW(x) and LambertW(x, -1)"
    if name in PLAIN or name in SPECIAL or (name == "DiracDelta" and not node.atoms(Value)):  # white noise, of times
        return ""
    return "which has no numerical evaluator here; write it by functions that have one"
