"""Two-time equations brought to the sector t > t', every integral split where a factor changes its form.

A causal kernel vanishes and a symmetric one folds over when its times change order, so an integrand over s has a
kink at
s = t'. Splitting the range there leaves only kernels K(later, earlier), smooth up to and across the diagonal:

    ∫_0^t  → "low": ∫_0^{t'} and "high": ∫_{t'}^t.

Each integrand is separated into a left factor of (t, s) and a right factor of (s, t'), so that an integral over a whole
row is a matrix product. What cannot be separated is kept as a joint factor of all three times.

A correlation that is not given on the diagonal gets an equation there: with ∂_t C(t, t') = F(t, t') on both sides of it,

    dC(t, t)/dt = F(t, t⁻) + F(t, t⁺),

in which a pointwise response, as in the white noise 2T R(t', t), stands for 0 on one side and for R(t, t) on the other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sympy import Add, Basic, Derivative, Dummy, Expr, Mul, Pow, S, expand

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Head, Process, Random, Response, Time, Value, fresh_name
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import free_times, rebuilt
from eqsolve.passes.rewrite.constraints import AuxiliaryResponse, without_future

ROW, COLUMN, MIDDLE = Time("row"), Time("column"), Time("middle")


def as_written(expr: Basic) -> Basic:
    """Return an expression with the times that messages know: t and t' instead of rows and columns."""
    return expr.xreplace({ROW: Time("t"), COLUMN: Time("t'"), MIDDLE: Time("s")})


def at_row(expr: Basic) -> Any:
    """Return an expression of one time, in ROW."""
    return expr.xreplace(dict.fromkeys(free_times(expr), ROW))


@dataclass(frozen=True)
class Contraction:
    """One integral over the middle time."""

    symbol: Dummy  # stands for the integral in the equation's body
    span: str  # ``"low"`` (start to column), ``"high"`` (column to row) or ``"all"`` (start to row)
    left: Expr  # factor in (ROW, MIDDLE)
    # factor in (COLUMN, MIDDLE), with the later time first: the column in "low", the middle in
    # "high". 1 if none.
    right: Expr
    joint: Expr  # factor of all three times that does not separate, else 1


@dataclass(frozen=True)
class SectorEquation:
    """One equation in the sector ROW > COLUMN: unknown or its derivative = body(pointwise values, integrals)."""

    equation: Equation | None
    name: str
    head: Head | None
    body: Expr
    contractions: tuple[Contraction, ...]
    differential: bool
    start: Expr | None = None
    diagonal: Expr | None = None
    hidden: bool = False  # made here, not declared: solved for, but not reported

    @property
    def symmetric(self) -> bool:
        return isinstance(self.head, Correlation)


def split_sectors(system: System) -> tuple[list[SectorEquation], list[SectorEquation], list[SectorEquation]]:
    """Return the kernels, functions and observables of a closed system in the sector t > t'."""
    kernels, functions = [], []
    for equation in system.equations:
        made = _equation(system, equation)
        if isinstance(equation.head, Function):
            functions.append(made)
        elif made.symmetric and made.differential and made.diagonal is None:
            on_diagonal = _diagonal_equation(system, equation, made.start)
            functions.append(on_diagonal)
            assert on_diagonal.head is not None
            kernels.append(replace(made, diagonal=on_diagonal.head(ROW)))
        else:
            kernels.append(made)
    return kernels, functions, [_observable(system, name, expr) for name, expr in system.observables.items()]


def _equation(system: System, equation: Equation) -> SectorEquation:
    target = equation.target
    assert target is not None
    if equation.is_differential and equation.time != target.moments[0]:
        raise ModelError(f"{equation.label} differentiates in the second time; write it for the first, {target.moments[0]}")
    places: dict[Basic, Basic] = dict(zip(target.moments, (ROW, COLUMN), strict=False))
    splitter = _Splitter(system, equation.label, isinstance(target.head, Function))
    body = splitter.body(equation.rhs.xreplace(places))
    start, diagonal = initial_values(system, equation)
    hidden, differential = isinstance(equation.head, AuxiliaryResponse), equation.is_differential
    unknown = (equation, equation.key, equation.head)
    return SectorEquation(*unknown, body, tuple(splitter.contractions), differential, start, diagonal, hidden)


def _diagonal_equation(system: System, equation: Equation, start: Expr | None) -> SectorEquation:
    """Return the equation of q(t) = C(t, t) that follows from the one of ∂_t C on both sides of the diagonal."""
    target = equation.target
    assert target is not None
    name = fresh_name(f"{equation.key}_diagonal", system.names)
    head = Function(name)
    right = equation.rhs.xreplace(dict(zip(target.moments, (ROW, COLUMN), strict=True)))
    splitter = _Splitter(system, equation.label, True)
    total = S.Zero
    for later, earlier in ((ROW, COLUMN), (COLUMN, ROW)):
        total += splitter.body(without_future(right, (later, earlier)).xreplace({COLUMN: ROW}))
    total = total.xreplace({target.head(ROW, ROW): head(ROW)})
    return SectorEquation(equation, name, head, total, tuple(splitter.contractions), True, start, hidden=True)


def initial_values(system: System, equation: Equation) -> tuple[Expr | None, Expr | None]:
    """Return what is given of an unknown at the start, and on the diagonal in ROW."""
    head = equation.head
    if isinstance(head, Function):
        return system.init.get(head), None
    start = diagonal = None
    for key, value in system.init.items():
        if isinstance(key, Value) and key.head == head:
            first, second = key.moments
            if isinstance(first, Time) and first == second:
                diagonal = value.xreplace({first: ROW})
            elif first == system.start and second == system.start:
                start = value
            else:
                raise ModelError(f"initial value `{key}`: only the diagonal {head}(t, t) or the start can be given")
    return start, diagonal


def _observable(system: System, name: str, expr: Expr) -> SectorEquation:
    splitter = _Splitter(system, f"observable `{name}`", True)
    body = splitter.body(at_row(expr))
    return SectorEquation(None, name, None, body, tuple(splitter.contractions), False)


class _Splitter:
    """Brings one right-hand side to the sector; collects its integrals as contractions."""

    def __init__(self, system: System, label: str, one_time: bool) -> None:
        self.start, self.label, self.one_time = system.start, label, one_time
        self.contractions: list[Contraction] = []
        self.known: dict[tuple[object, ...], Dummy] = {}

    def body(self, expr: Expr) -> Expr:
        """Return the expression with ordered kernel values and a symbol for each separated integral."""
        if isinstance(expr, E | Resp | Derivative):
            raise ModelError(f"{self.label}: `{expr}` does not belong to a closed system")
        if isinstance(expr, Int):
            return self.integral(expr)
        if isinstance(expr, Value):
            return self.ordered(expr, {ROW: 2, COLUMN: 1})
        return rebuilt(expr, self.body)

    def ordered(self, value: Value, rank: dict[Basic, int]) -> Expr:
        """Return a kernel value with its later time first: symmetric ones fold over, causal ones vanish."""
        if value.head.arity == 1:
            return value
        first, second = value.moments
        later = rank.get(first, 0) >= rank.get(second, 0)
        if later:
            return value
        return S.Zero if isinstance(value.head, Response) else Value(value.head, second, first)

    def integral(self, node: Int) -> Expr:
        inner = node.integrand.xreplace({node.variable: MIDDLE})
        if inner.has(Int):
            raise ModelError(
                f"{self.label}: an integral inside an integral; give the inner one a name of its own: `{as_written(node)}`"
            )
        total = S.Zero
        for span in self.spans(node):
            rank = {ROW: 3, MIDDLE: 2, COLUMN: 1} if span != "low" else {ROW: 3, COLUMN: 2, MIDDLE: 1}
            body = inner.xreplace({value: self.ordered(value, rank) for value in inner.atoms(Value)})
            for term in _pieces(body):
                if term != 0:
                    total += self.separate(term, span)
        return total

    def spans(self, node: Int) -> tuple[str, ...]:
        """Return the parts of a range of integration between the start, the column and the row."""
        if node.low == node.high:  # an integral from t' to t, on the diagonal
            return ()
        places: dict[tuple[Expr, Expr], tuple[str, ...]] = {(self.start, ROW): ("all",)}
        if not self.one_time:
            places = {(self.start, COLUMN): ("low",), (COLUMN, ROW): ("high",), (self.start, ROW): ("low", "high")}
        if (node.low, node.high) not in places:
            raise ModelError(
                f"{self.label}: the integral `{node}` does not run between the start ({self.start}) and the times on the left"
            )
        return places[node.low, node.high]

    def separate(self, term: Expr, span: str) -> Expr:
        """Split a product by the times its factors depend on; return its outer factor times the integral's symbol."""
        parts = separate_times(term)
        key = (span, parts.left, parts.right, parts.joint)
        if key not in self.known:
            self.known[key] = Dummy(f"I{len(self.known)}", real=True)
            self.contractions.append(Contraction(self.known[key], *key))
        return parts.outer * self.known[key]


@dataclass(frozen=True)
class Separated:
    """A product by the times its factors hold: MIDDLE in none of ``outer``, COLUMN not in ``left``, ROW not in ``right``."""

    outer: Expr
    left: Expr
    right: Expr
    joint: Expr


def sort_factors(term: Expr, group: Callable[[Expr], str]) -> defaultdict[str, list[Expr]]:
    """Sort the factors of a product into named groups."""
    groups: defaultdict[str, list[Expr]] = defaultdict(list)
    for factor in Mul.make_args(term):
        groups[group(factor)].append(factor)
    return groups


def separate_times(term: Expr) -> Separated:
    """Sort the factors of a product by the times they hold."""

    def group(factor: Expr) -> str:
        if MIDDLE not in factor.free_symbols:
            return "outer"
        if COLUMN not in factor.free_symbols:
            return "left"
        return "right" if ROW not in factor.free_symbols else "joint"

    groups = sort_factors(term, group)
    return Separated(*(Mul(*groups[name]) for name in ("outer", "left", "right", "joint")))


def _pieces(body: Expr) -> Iterator[Expr]:
    """Yield the terms of an integrand, multiplied out no further than they need to be to separate.

    A factor such as (t − s) e^{s−t} stays as it is: its parts would be large and cancel.
    """
    for term in Add.make_args(body):
        factors = Mul.make_args(term)
        if not (_is_joint(term) or any(isinstance(factor, Add | Pow) and _is_sum(factor) for factor in factors)):
            yield term
            continue
        for part in Add.make_args(expand(term, power_exp=False)):
            yield from Add.make_args(expand(part)) if _is_joint(part) else (part,)


def _is_joint(term: Expr) -> bool:
    return any({ROW, COLUMN, MIDDLE} <= factor.free_symbols for factor in Mul.make_args(term))


def _is_sum(factor: Expr) -> bool:
    """Whether a factor is a sum of unknowns, or a whole power of one."""
    base = factor.base if isinstance(factor, Pow) and factor.exp.is_Integer and factor.exp > 0 else factor
    return isinstance(base, Add) and base.has(Value)


# --- Expectations of two times as sums of products of one time each.
def expanded(argument: Expr, one: set[Time], other: set[Time]) -> tuple[Expr, ...]:
    """Return an expression as terms that are products of factors of one time each, as far as known identities do that."""
    made = expand(argument)
    if any(mixes(term, one, other) for term in Add.make_args(made)):
        made = expand(made, trig=True)
    return Add.make_args(made)


def mixes(term: Expr, one: set[Time], other: set[Time]) -> bool:
    """Whether a random factor of a product holds both times."""
    return any(is_random(item) and item.free_symbols & one and item.free_symbols & other for item in Mul.make_args(term))


def unseparated(label: str, node: E) -> str:
    """Return what is wrong with an expectation whose two times do not come apart, and what to do."""
    return (
        f"{label}: `{as_written(node)}` does not separate into factors of one time each; write what is averaged as a sum of "
        "products f(t)*g(t') (a polynomial, or a series, where there is no identity)"
    )


def is_random(expr: Expr) -> bool:
    """Whether an expression differs between paths."""
    return bool(expr.atoms(Random)) or any(isinstance(value.head, Process) for value in expr.atoms(Value))
