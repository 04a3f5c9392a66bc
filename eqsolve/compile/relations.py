"""Closed relations of a system in (ROW, COLUMN) as data for ``eqsolve.numerics.relations``."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sympy import Add, Basic, Expr, Mul, Symbol

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.members import lower_reading
from eqsolve.errors import ModelError
from eqsolve.graphs import blocks_in_order, make_graph
from eqsolve.language.indices import MemberSum
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E, Int
from eqsolve.language.symbols import Correlation, CrossCorrelation, Function, Response, Time, Value
from eqsolve.language.system import System
from eqsolve.numerics import relations as numeric
from eqsolve.passes.forms.expressions import outermost, outside_means
from eqsolve.passes.forms.path_form import COLUMN, MIDDLE, ROW, as_written, initial_values, separate_times
from eqsolve.passes.forms.structure import Derivation

_LETTERS: dict[Basic, str] = {ROW: "r", COLUMN: "c"}


class Relations:
    """Compiles expressions of one system; equal pieces are made once.

    ``parameters`` stay arguments; ``means`` names the expectations, ``responses`` are operators.
    """

    def __init__(self, parameters: Sequence[Symbol], means: Mapping[E, str], responses: Iterable[E] = ()) -> None:
        self.parameters, self.means, self.responses = tuple(parameters), means, frozenset(responses)
        self.pointwise = functools.cache(self._pointwise)
        self.integral = functools.cache(self._integral)
        self._operator = functools.cache(self._operator_of)

    # --- values
    def _pointwise(self, expr: Expr) -> numeric.Pointwise:
        """Return a function of what stands at ROW and COLUMN."""
        nodes = outermost(expr, Value, E, Int, Time, but=MemberSum)
        return numeric.Pointwise(*lower_reading([expr], nodes, self.parameters, self._leaf, total=numeric.Summation))

    def factor(self, expr: Expr) -> numeric.Pointwise | None:
        """Return a pointwise factor, None for one."""
        return None if expr == 1 else self.pointwise(expr)

    def sum(self, expr: Expr) -> numeric.PointwiseSum:
        """Return a function of one time by its terms."""
        return numeric.PointwiseSum(tuple(self.pointwise(term) for term in Add.make_args(expr)))

    def _leaf(self, node: Basic) -> numeric.Leaf | numeric.Integral:
        if node in _LETTERS:
            return numeric.Leaf("time", "", _LETTERS[node])
        if isinstance(node, E):
            return numeric.Leaf("mean", self.means[node], "")
        if isinstance(node, Int):
            return self.integral(node)
        assert isinstance(node, Value)
        kind = _kind(node.head)
        times = "".join(_LETTERS.get(moment, "0") for moment in node.moments)
        return numeric.Leaf({"correlation": "table"}.get(kind, kind), node.head.name, times)

    def _integral(self, node: Int) -> numeric.Integral:
        left, right, outer = _factors(node)
        if node.high == ROW:
            return numeric.Integral("r", self.kernel(left), self.factor(right.xreplace({MIDDLE: ROW})), self.factor(outer))
        table = self.factor(left.xreplace({MIDDLE: COLUMN}))
        return numeric.Integral("c", self.kernel(right.xreplace({COLUMN: ROW})), table, self.factor(outer))

    # --- operators
    def kernel(self, expr: Expr) -> numeric.KernelOperator:
        """Return the operator of a kernel given in (ROW, MIDDLE) or (ROW, COLUMN)."""
        return self._operator(expr.xreplace({MIDDLE: COLUMN}))

    def _operator_of(self, kernel: Expr) -> numeric.KernelOperator:
        causal = any(isinstance(value.head, Response) for value in outside_means(kernel))
        return self.operator(kernel) if causal else numeric.SmoothKernel(self.factor(kernel))

    def operator(self, expr: Expr) -> numeric.OperatorSum:
        """Return a response in (ROW, COLUMN): a sum of operators times pointwise factors."""
        return numeric.OperatorSum(tuple(self._term(term) for term in _terms(expr) if term != 0))

    def _term(self, term: Expr) -> tuple[numeric.Leaf | numeric.Composition, numeric.Pointwise | None]:
        carriers = [factor.as_base_exp()[0] for factor in Mul.make_args(term) if self._is_causal(factor)]
        if len(carriers) != 1 and not all(isinstance(item, Value) for item in carriers):
            raise ModelError(f"`{term}` is not a response: it should hold exactly one causal factor")
        if not carriers:
            raise ModelError(f"`{term}` is not a response: it holds no causal factor")
        carrier = carriers[0]  # of a product of responses, the others are values that multiply the first
        rest = term / carrier
        if isinstance(carrier, Value):
            return numeric.Leaf("response", carrier.head.name, "rc"), self.factor(rest)
        if isinstance(carrier, E):
            return numeric.Leaf("mean", self.means[carrier], ""), self.factor(rest)
        left, right, outer = _factors(carrier)
        composed = numeric.Composition(self.kernel(left), self.kernel(right.xreplace({MIDDLE: ROW})))
        return composed, self.factor(rest * outer)

    def _is_causal(self, factor: Expr) -> bool:
        base, power = factor.as_base_exp()
        return self._is_operator(factor) or (
            isinstance(base, Value) and self._is_operator(base) and power.is_Integer and power > 0
        )

    def _is_operator(self, factor: Expr) -> bool:
        if isinstance(factor, Value):
            return isinstance(factor.head, Response)
        return factor in self.responses if isinstance(factor, E) else isinstance(factor, Int)

    # --- definitions
    def definition(self, equation: Equation, start: Expr | None = None) -> numeric.Definition:
        """Return the equation of a kernel or function, solved for it where it enters linearly."""
        head = equation.head
        kind = _kind(head)
        own: list[Expr] = []
        rest: list[Expr] = []
        for term in _terms(equation.rhs):
            (own if any(value.head == head for value in outside_means(term)) else rest).append(term)
        right = self.operator(Add(*rest)) if kind == "response" else self.pointwise(Add(*rest))
        lefts = tuple(self._own(term, equation) for term in own)
        begin = None if start is None else self.pointwise(start)
        return numeric.Definition(equation.key, kind, right, lefts, equation.is_differential, begin)

    def _own(self, term: Expr, equation: Equation) -> numeric.DiagonalPart | numeric.ScaledPart:
        """Return L where a term reads L X, X being the unknown itself."""
        plain = equation.defined
        if term.has(plain) and not term.has(Int):
            coefficient = term / plain
            if not coefficient.has(plain) and COLUMN not in coefficient.free_symbols:
                return numeric.DiagonalPart(self.pointwise(coefficient))
        coefficient, node = term.as_independent(Int)
        if isinstance(node, Int):
            left, right, outer = _factors(node)
            if isinstance(equation.head, Function):
                mine = [f for f in Mul.make_args(left) if isinstance(f, Value) and f.head == equation.head]
                left, right = (left / mine[0], mine[0]) if len(mine) == 1 else (left, left)
            is_own = isinstance(right, Value) and right.head == equation.head
            if is_own and not any(value.head == equation.head for value in outside_means(left)):
                return numeric.ScaledPart(self.kernel(left), self.factor(coefficient * outer))
        raise ModelError(
            f"{equation.label}: `{equation.key}` enters its own equation in `{as_written(term)}` in a way that cannot be "
            "solved for"
        )


_KINDS = {CrossCorrelation: "cross", Correlation: "correlation", Response: "response", Function: "function"}


def _kind(head: object) -> str:
    return next(name for cls, name in _KINDS.items() if isinstance(head, cls))


def in_order(equations: Sequence[Equation]) -> list[Equation]:
    """Return equations in the order of their dependence; each may hold its own unknown, but no two each other."""
    by_head = {equation.head: equation for equation in equations if equation.head is not None}
    read = {head: {value.head for value in outside_means(equation.rhs)} for head, equation in by_head.items()}
    edges = [(other, head) for head in by_head for other in by_head if other in read[head] and other != head]
    blocks = blocks_in_order(make_graph(by_head, edges), lambda head: head.name)
    for block in blocks:
        if len(block) > 1:
            cycle = " -> ".join(head.name for head in block)
            raise ModelError(f"the kernels {cycle} define each other beside the means over paths; there is no solver yet")
    return [by_head[head] for (head,) in blocks]


def start_of(system: System, equation: Equation) -> Expr | None:
    """Return the value of an unknown at the start, or on the diagonal in ROW; None of one that is defined."""
    begin, diagonal = initial_values(system, equation) if equation.is_differential else (None, None)
    return begin if diagonal is None else diagonal


def _terms(expr: Expr) -> Iterator[Expr]:
    """Yield the terms of a sum; a sum with a coefficient, a function of parameters alone, is multiplied out."""
    for term in Add.make_args(expr):
        coefficient, rest = term.as_independent(Value, Int, E, Time, as_Add=False)
        if isinstance(rest, Add) and coefficient != 1:
            yield from (coefficient * part for part in _terms(rest))
        else:
            yield term


def _factors(node: Int) -> tuple[Expr, Expr, Expr]:
    """Return an integrand as left factor in (ROW, MIDDLE), right factor in (MIDDLE, COLUMN), outer factor."""
    outer, left, right, joint = separate_times(node.integrand.xreplace({node.variable: MIDDLE}))
    if joint != 1:
        raise ModelError(f"the integrand of `{node}` does not separate in its three times")
    return left, right, outer


# --- A closed system of compositions as definitions between operators, in the order in which they
# are swept.
@dataclass(frozen=True, eq=False)
class OperatorsProgram:
    """Definitions of all unknowns, the observables, and the first time."""

    definitions: tuple[numeric.Definition, ...]
    observables: tuple[tuple[str, numeric.PointwiseSum], ...]
    begin: Lowered


def compile_operators(derivation: Derivation, parameters: Sequence[Symbol]) -> OperatorsProgram:
    """Return the definitions of a closed system; differential ones know their start, or their value on the diagonal in ROW."""
    system, form, relations = derivation.system, derivation.form, Relations(parameters, {})
    assert form is not None
    definitions = tuple(relations.definition(item, start_of(system, item)) for item in (*form.kernels, *form.functions))
    observables = tuple((name, relations.sum(expr)) for name, expr in form.observables)
    return OperatorsProgram(definitions, observables, lower([system.start], [], parameters))
