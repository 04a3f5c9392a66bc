"""Coefficients that are singular at the start, such as 3/t: named when a solve fails, since some of them cancel."""

from collections.abc import Iterator

from sympy import Expr, Pow, Symbol, log

from eqsolve.language.symbols import Time, Value
from eqsolve.language.system import System


def singular_terms(system: System) -> Iterator[str]:
    """Yield, in words, each power and logarithm of time in an equation that has no finite value at the start."""
    for equation in system.equations:
        for node in sorted(equation.rhs.atoms(Pow, log), key=str):
            inner = node.args[0]
            falls = isinstance(node, log) or node.exp.could_extract_minus_sign()
            if falls and not node.has(Value) and inner.atoms(Time) and _vanishes(inner, system.start):
                yield f"{equation.label} has `{node}`, which is singular at the start, t = {system.start}"


def _vanishes(expr: Expr, start: Expr) -> bool:
    plain = expr.xreplace(
        {item: Symbol(f"_{item.name}", positive=True) for item in expr.free_symbols if not isinstance(item, Time)}
    )
    return plain.subs({item: start for item in plain.atoms(Time)}) == 0
