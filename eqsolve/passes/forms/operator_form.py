"""Closed equations written as compositions of operators, for reading: ∫ A(t, s) B(s, t') ds is A∘B.

A kernel K(t, t') is an operator, K(t', t) its transpose, J the integration from the start; products are pointwise; 1
stands for the constant function, and ``[K]₊`` for the part of K with s < t where a range of integration cuts a kernel
that does not vanish beyond it. An unknown that enters its own equation only as L∘X is solved for: X = (I − L)⁻¹ of the
rest, one triangular solve.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sympy import Add, Expr, Mul, Symbol, expand

from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.printing import expression_text
from eqsolve.language.symbols import Correlation, Head, Process, Response, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.sectors import as_written, sort_factors


# --- Systems in which kernels enter through compositions only, so that they can be matrices on few
# nodes.
def is_composition(system: System) -> bool:
    """Whether every kernel enters linearly or through integrals of at most one other kernel."""
    marker = Time("i")
    for equation in system.equations:
        head = equation.head
        if isinstance(head, Correlation) and any(_on_diagonal(key, head) for key in system.init):
            return False  # a value on the diagonal means a cusp there
        for node in equation.rhs.atoms(Int):
            kernels = [value for value in node.integrand.atoms(Value) if value.head.arity == 2]
            if len(kernels) > 2 or not any(isinstance(value.head, Response) for value in kernels):
                return False
            if any(node.integrand.diff(value).has(value) for value in kernels):
                return False
        outside = equation.rhs.replace(lambda item: isinstance(item, Int), lambda item: marker)
        values = [value for value in outside.atoms(Value) if value.head.arity == 2]
        if any(outside.diff(value).atoms(Value) & set(values) for value in values):
            return False
        responses = {value for value in values if isinstance(value.head, Response)}
        if isinstance(head, Correlation) and responses:
            return False  # white noise: a cusp again
        if isinstance(head, Response) and not all(
            term.atoms(Value) & responses or marker in term.free_symbols for term in Add.make_args(expand(outside))
        ):
            return False  # a given kernel, which is no composition of others
    return bool(system.kernels)


def _on_diagonal(key: Any, head: Head) -> bool:
    return isinstance(key, Value) and key.head == head and isinstance(key.moments[0], Time) and len({*key.moments}) == 1


# --- Closed equations written as compositions of operators, for reading: ∫ A(t, s) B(s, t') ds is
# A∘B.
@dataclass(frozen=True)
class OperatorForm:
    """One equation in operators, and the solve it leads to if its unknown enters linearly."""

    text: str
    solved: str = ""


def write_operators(equations: Iterable[Equation]) -> tuple[OperatorForm, ...]:
    """Return the equations between kernels and functions as compositions; nothing if no integral stands in them."""
    closed = [eq for eq in equations if eq.target is not None and not eq.rhs.has(E, Resp)]
    closed = [eq for eq in closed if not isinstance(eq.head, Process)]
    return tuple(_form(equation) for equation in closed) if any(eq.rhs.has(Int) for eq in closed) else ()


def _form(equation: Equation) -> OperatorForm:
    target = equation.target
    assert target is not None
    names = _names(target)
    mapping: dict[Expr, Expr] = {}
    for node in equation.rhs.atoms(Int):
        text = _composition(node, target)
        mapping[node] = Symbol(text if _stands_alone(node, equation.rhs) else f"({text})")
    mapping |= {value: Symbol(names(value)) for value in equation.rhs.atoms(Value)}
    mapped = equation.map({key: value for key, value in mapping.items() if not isinstance(key, Time)})
    left = ("∂" if equation.is_differential else "") + target.head.name
    text = f"{left} = {expression_text(equation.rhs.xreplace(mapping), mapped.order)}"
    return OperatorForm(text, _solved(equation, mapping))


def _stands_alone(node: Int, expr: Expr) -> bool:
    """Whether an integral is a term of a sum by itself, up to a number."""
    return any((term / node).is_number for term in Add.make_args(expr) if term.has(node))


def _names(target: Value) -> Callable[[Value], str]:
    """Return how values are written in the equation of a target: by their heads, transposed or on the diagonal."""
    row = target.moments[0]
    column = target.moments[1] if len(target.moments) == 2 else None

    def name(value: Value) -> str:
        head, moments = value.head.name, value.moments
        if moments == (row, column) or moments == (row,):
            return head
        if column is not None and moments == (column, row):
            return head if not isinstance(value.head, Response) else f"{head}ᵀ"
        if moments == (row, row):
            return f"diag({head})"
        return str(as_written(value))

    return name


def _composition(node: Int, target: Value) -> str:
    """Return an integral as a composition, or as it stands if it is none."""
    row, column = target.moments[0], target.moments[-1] if len(target.moments) == 2 else None
    s = node.variable
    terms = Add.make_args(expand(node.integrand))
    if len(terms) > 1:
        parts = [_composition(Int(term, (s, node.low, node.high)), target) for term in terms]
        return "(" + " + ".join(parts).replace("+ -", "- ") + ")"

    def side(factor: Expr) -> str:
        if s not in factor.free_symbols:
            return "outside"
        if row not in factor.free_symbols:
            return "right"
        return "left" if column is None or column not in factor.free_symbols else "joint"

    sides = sort_factors(node.integrand, side)
    if sides["joint"]:
        return f"[{expression_text(as_written(node))}]"
    left, right = sides["left"], sides["right"]
    if column is not None and not any(column in item.free_symbols for item in right) and (left or not right):
        left, right = [*left, *right], []
    first = _kernel(left, row, s, causal_end=node.high == row or column is None)
    second = _kernel(right, s, column, causal_end=False) if right else "1"
    if column is not None and node.high == column and not _vanishes(right, column, s):
        second = f"[{second}]₊ᵀ"
    scale = expression_text(Mul(*sides["outside"])) + "*" if sides["outside"] else ""
    return f"{scale}{first}∘{second}"


def _vanishes(factors: list[Expr], later: Expr, earlier: Expr) -> bool:
    """Whether a product is zero when the second time exceeds the first."""
    return any(isinstance(f, Value) and isinstance(f.head, Response) and f.moments == (later, earlier) for f in factors)


def _kernel(factors: list[Expr], first: Expr, second: Expr | None, causal_end: bool) -> str:
    """Return a product of factors of (first, second) as one operator."""
    if not factors:
        return "J" if causal_end else "1"
    mapping: dict[Expr, Expr] = {}
    product = Mul(*factors)
    for value in product.atoms(Value):
        head, moments = value.head.name, value.moments
        turned = second is not None and moments == (second, first) and isinstance(value.head, Response)
        mapping[value] = Symbol(f"{head}ᵀ" if turned else head)
    text = expression_text(product.xreplace(mapping))
    simple = len(factors) == 1 and isinstance(factors[0], Value)
    if causal_end and not any(
        isinstance(value.head, Response) and value.moments == (first, second) for value in product.atoms(Value)
    ):
        return f"[{text}]₊"
    return text if simple else f"({text})"


def _solved(equation: Equation, mapping: dict[Expr, Expr]) -> str:
    """Return the triangular solve of an unknown that enters its own definition only as L∘X, else nothing."""
    target = equation.target
    assert target is not None
    head: Head = target.head
    own: list[Expr] = []
    rest: list[Expr] = []
    for term in Add.make_args(expand(equation.rhs, deep=False)):
        (own if any(value.head == head for value in term.atoms(Value)) else rest).append(term)
    if equation.is_differential or not own:
        return ""
    lefts = []
    for term in own:
        coefficient, node = term.as_independent(Int)
        if not isinstance(node, Int):
            return ""
        factors = list(Mul.make_args(node.integrand))
        inner = [item for item in factors if isinstance(item, Value) and item.head == head]
        if len(inner) != 1 or node.variable not in inner[0].moments or inner[0].has(target.moments[0]):
            return ""
        others = [item for item in factors if item != inner[0]]
        if any(value.head == head for item in others for value in item.atoms(Value)):
            return ""
        kernel = _kernel(others, target.moments[0], node.variable, causal_end=True)
        sign = "- " if not coefficient.could_extract_minus_sign() else "+ "
        size = coefficient if not coefficient.could_extract_minus_sign() else -coefficient
        scale = "" if size == 1 else f"{expression_text(size.xreplace(mapping))}*"
        lefts.append(f"{sign}{scale}{kernel}")
    right = expression_text(Add(*rest).xreplace(mapping))
    right = f"({right})" if len(rest) > 1 else right
    return f"{head.name} = (I {' '.join(lefts)})⁻¹∘{right}"
