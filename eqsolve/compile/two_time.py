"""Two-time equations as array functions over (rows, columns) of nodes, in the sector t > t'.

A causal kernel vanishes and a symmetric one folds over when its times change order, so an integrand over s has a kink at
s = t'. Splitting the range there leaves only kernels K(later, earlier), smooth up to and across the diagonal:

    ∫_0^t  → "low": ∫_0^{t'} and "high": ∫_{t'}^t.

Each integrand is separated into a left factor of (t, s) and a right factor of (s, t'), so that an integral over a whole
row is a matrix product. What cannot be separated is kept as a joint factor of all three times.

A correlation that is not given on the diagonal gets an equation there: with ∂_t C(t, t') = F(t, t') on both sides of it,

    dC(t, t)/dt = F(t, t⁻) + F(t, t⁺),

in which a pointwise response, as in the white noise 2T R(t', t), stands for 0 on one side and for R(t, t) on the other.

A correlation of two members of a family is two kernels K(later, earlier), C_kl and C_lk, each of which is the other one where
its times change order. They have one diagonal, dC_kl(t, t)/dt = F_kl(t, t⁻) + F_lk(t, t⁺).
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Add, Basic, Derivative, Dummy, Expr, Mul, Pow, S, expand

from eqsolve.compile.lowering import Lowered, Moment, compile_moment, lower
from eqsolve.compile.members import axes_of, lower_reading
from eqsolve.errors import ModelError
from eqsolve.graphs import blocks_in_order, make_graph
from eqsolve.language.functions import not_everywhere
from eqsolve.language.indices import MemberSum
from eqsolve.language.model import Equation, leaves, mapper
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Head, Parameter, Time, Value, fresh_name
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import outermost, rebuilt, slope
from eqsolve.passes.forms.path_form import COLUMN, MIDDLE, ROW, as_written, at_row, initial_values, separate_times
from eqsolve.passes.rewrite.constraints import AuxiliaryResponse, without_future

Slot = tuple[str, str]


@dataclass(frozen=True, eq=False)
class PointwiseTerm:
    """An expression lowered to arrays: the slots it reads, the integrals it needs, and the function itself.

    A slot is a name and a pattern of times: ``r`` row, ``c`` column, ``m`` middle, ``0`` the start. ``("C", "rc")`` is
    C(row, column), ``("y", "c")`` is y(column), ``("", "r")`` the row time itself. ``gradient``, where it was asked for, gives
    the derivatives by the unknowns' slots and then by the integrals.
    """

    slots: tuple[Slot, ...]
    integrals: tuple[str, ...]
    function: Callable[..., list[Any]]
    gradient: Callable[..., list[Any]] | None = None

    def __call__(self, read: Callable[[Slot], Any], integrals: Mapping[str, Any] = {}) -> Any:
        return self.function(*map(read, self.slots), *[integrals[item] for item in self.integrals])[0]

    def slopes(self, read: Callable[[Slot], Any], integrals: Mapping[str, Any] = {}) -> tuple[dict[Slot, Any], dict[str, Any]]:
        """Return the derivatives by each slot of an unknown, and by each integral."""
        assert self.gradient is not None
        derivatives = self.gradient(*map(read, self.slots), *[integrals[item] for item in self.integrals])
        unknowns = [slot for slot in self.slots if slot[0]]
        own = dict(zip(unknowns, derivatives, strict=False))
        return own, dict(zip(self.integrals, derivatives[len(unknowns) :], strict=True))

    @functools.cached_property
    def heads(self) -> frozenset[str]:
        """The unknowns it reads."""
        return frozenset(name for name, _ in self.slots if name)


@dataclass(frozen=True, eq=False)
class CompiledContraction:
    """An integral ∫ left(t, s) right(t', s) joint(t, t', s) ds: row t, column t', middle time s."""

    symbol: str  # stands for the integral in the equation's body
    span: str  # "low" (start to column), "high" (column to row) or "all" (start to row)
    left: str  # name of the factor in (row, middle)
    right: str | None  # the same in (column, middle), the later one as its row; None for 1
    joint: PointwiseTerm | None  # the factor of all three times that does not separate; None for 1
    # Where the integral contains the equation's own unknown: the derivative of the right-hand side by
    # the integral, a function of the row alone, and that of the left factor by the unknown, over
    # (row, middle as column). The latter is None where a kernel is unknown: it is the right factor.
    gain: PointwiseTerm | None
    feedback: PointwiseTerm | None


@dataclass(frozen=True, eq=False)
class CompiledEquation:
    """The compiled equation of an unknown or of an observable."""

    name: str
    key: str  # the name as declared
    label: str  # of the equation, in messages
    mirror: str | None  # the correlation with its times, and members, exchanged
    differential: bool  # whether ``body`` is the unknown's derivative, not its value
    hidden: bool  # whether the unknown is made by a pass, not declared
    start: Lowered | None  # its value at the start, if one is given
    doubtful: str  # the parts that are not defined everywhere, for messages
    body: PointwiseTerm  # the right-hand side
    slope: PointwiseTerm | None  # its derivative by the unknown itself at the same times
    slope_by_row: bool  # whether that is a function of the row alone
    contractions: tuple[CompiledContraction, ...]
    diagonal: PointwiseTerm | None  # the value of a correlation on the diagonal, if that is given


@dataclass(frozen=True, eq=False)
class TwoTimeProgram:
    """The equations of a two-time system, and the factors that their integrals share."""

    begin: Lowered  # the time at which the system starts
    moments: tuple[tuple[str, Moment], ...]  # means of random constants: more parameters
    kernels: tuple[CompiledEquation, ...]
    functions: tuple[CompiledEquation, ...]
    observables: tuple[CompiledEquation, ...]
    factors: dict[str, PointwiseTerm]  # of integrands; the column is the time integrated over
    aliases: dict[str, str | None]  # by name of a factor, the kernel that it is

    @functools.cached_property
    def slots(self) -> frozenset[Slot]:
        """Every value that is read anywhere."""
        equations = (*self.kernels, *self.functions, *self.observables)
        parts = [part for eq in equations for part in (eq.body, eq.slope, eq.diagonal) if part is not None]
        parts += [entry.feedback for eq in equations for entry in eq.contractions if entry.feedback is not None]
        return frozenset(slot for part in (*parts, *self.factors.values()) for slot in part.slots)

    @functools.cached_property
    def blocks(self) -> tuple[tuple[CompiledEquation, ...], ...]:
        """The equations in the order in which they can be solved; those that need each other are one block."""
        equations = {equation.name: equation for equation in (*self.functions, *self.kernels)}
        edges = ((other, name) for name, equation in equations.items() for other in self._reads(equation))
        position = {name: index for index, name in enumerate(equations)}
        blocks = blocks_in_order(make_graph(equations, edges), position.__getitem__)
        return tuple(tuple(equations[name] for name in block) for block in blocks)

    def _reads(self, equation: CompiledEquation) -> frozenset[str]:
        """The unknowns an equation contains."""
        parts = [equation.body, *([equation.diagonal] if equation.diagonal is not None else [])]
        for entry in equation.contractions:
            parts += [self.factors[entry.left], *([self.factors[entry.right]] if entry.right is not None else [])]
            parts += [entry.joint] if entry.joint is not None else []
        return frozenset().union(*(part.heads for part in parts))

    @functools.cached_property
    def separable(self) -> bool:
        """Whether every integrand is a product of factors of two times."""
        equations = (*self.kernels, *self.functions, *self.observables)
        return all(entry.joint is None for equation in equations for entry in equation.contractions)


def take_moments(
    system: System, parameters: Sequence[Parameter]
) -> tuple[System, tuple[tuple[str, Moment], ...], tuple[Parameter, ...]]:
    """Return a system whose means of random constants are further parameters, these means, and all its parameters."""
    fields = ("equations", "init", "observables", "constraints")
    parts = tuple(getattr(system, field) for field in fields)
    means = {node for leaf in leaves(parts) for node in leaf.atoms(E) if not node.has(Value, Time)}
    numbers = {node: Parameter(f"moment_{place}'") for place, node in enumerate(sorted(means, key=str))}
    system = system._mapped(mapper(numbers), *fields) if numbers else system
    moments = tuple((item.name, compile_moment(node.argument, parameters)) for node, item in numbers.items())
    return system, moments, (*parameters, *numbers.values())


Contraction = tuple[Dummy, str, Expr, Expr, Expr]  # symbol, span, left, right and joint factor


class _Splitter:
    """Writes a right-hand side in the sector t > t'; collects its integrals as contractions."""

    def __init__(self, system: System, label: str, one_time: bool) -> None:
        self.start, self.label, self.one_time = system.start, label, one_time
        self.known: dict[tuple[str, Expr, Expr, Expr], Dummy] = {}

    @property
    def contractions(self) -> list[Contraction]:
        return [(symbol, *key) for key, symbol in self.known.items()]

    def body(self, expr: Expr) -> Expr:
        """Return the expression with ordered kernel values and a symbol for each separated integral."""
        if isinstance(expr, E | Resp | Derivative) or (isinstance(expr, Int) and expr.has(E, Resp)):
            raise ModelError(
                f"{self.label}: `{as_written(expr)}` stands in a system without processes; a mean in a kernel of memory is "
                "that of a process: for E(k*exp(-k*(t - s))) under Int, declare x with x' = -k*x + k*y and write E(x(t))"
            )
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
        if rank.get(first, 0) >= rank.get(second, 0):
            return value
        return value.head.turned(second, first) if isinstance(value.head, Correlation) else S.Zero

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
            total += Add(*(self.separate(term, span) for term in _pieces(body) if term != 0))
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
        outer, left, right, joint = separate_times(term)
        key = (span, left, right, joint)
        if key not in self.known:
            self.known[key] = Dummy(f"I{len(self.known)}", real=True)
        return outer * self.known[key]


def _pieces(body: Expr) -> Iterator[Expr]:
    """Yield the terms of an integrand, multiplied out no further than they need to be to separate.

    A factor such as (t − s) e^{s−t} stays as it is: its parts would be large and cancel.
    """
    for term in Add.make_args(body):
        factors = Mul.make_args(term)
        bases = [item.base if isinstance(item, Pow) and item.exp.is_Integer and item.exp > 0 else item for item in factors]
        if not (_is_joint(term) or any(isinstance(base, Add) and base.has(Value) for base in bases)):  # sums of unknowns
            yield term
            continue
        for part in Add.make_args(expand(term, power_exp=False)):
            yield from Add.make_args(expand(part)) if _is_joint(part) else (part,)


def _is_joint(term: Expr) -> bool:
    return any({ROW, COLUMN, MIDDLE} <= factor.free_symbols for factor in Mul.make_args(term))


def compile_system(system: System, parameters: Sequence[Parameter], *, gradients: bool = False) -> TwoTimeProgram:
    """Return the array functions of a closed system; parameters, and means of random constants, are arguments."""
    system, moments, known = take_moments(system, parameters)
    begin, parameters = lower([system.start], [], parameters), known
    pointwise = functools.partial(_pointwise, parameters, gradients)
    table: dict[Expr, str] = {}
    factors: dict[str, PointwiseTerm] = {}

    def factor(expr: Expr) -> str:
        if expr not in table:
            term = pointwise(expr)
            table[expr] = "".join([str(len(table)), *axes_of(term)])
            factors[table[expr]] = term
        return table[expr]

    def optional(expr: Expr | None) -> PointwiseTerm | None:
        return None if expr is None else pointwise(expr)

    def contraction(item: Contraction, feedback: tuple[Expr | None, Expr | None]) -> CompiledContraction:
        symbol, span, left, right, joint = item
        placed = None
        if right != 1:
            places = {COLUMN: ROW, MIDDLE: COLUMN} if span == "low" else {MIDDLE: ROW}
            placed = factor(right.xreplace(places))
        first = factor(left.xreplace({MIDDLE: COLUMN}))
        return CompiledContraction(
            symbol.name, span, first, placed, None if joint == 1 else pointwise(joint), *map(optional, feedback)
        )

    def equation(
        name: str, body: Expr, sides: _Splitter, head: Head | None = None, source: Equation | None = None,
        start: Expr | None = None, diagonal: Expr | None = None,
    ) -> CompiledEquation:  # fmt: skip
        symbols = tuple(item[0] for item in sides.contractions)
        integrals = [contraction(item, _feedback(item, head, body, symbols)) for item in sides.contractions]
        differential = source is not None and source.is_differential
        mirror = head.turned.name if isinstance(head, Correlation) else None
        by_own, by_row = None, True
        if head is not None and differential:
            derivative = slope(body, head(ROW, COLUMN) if head.arity == 2 else head(ROW))
            by_row = COLUMN not in derivative.free_symbols and not derivative.has(*symbols)
            by_own = pointwise(derivative, symbols)
        key, label, doubtful = name, f"observable `{name}`", ""
        if source is not None:
            key, label, doubtful = source.key, source.label, not_everywhere(source.rhs)
        hidden = source is not None and (head != source.head or isinstance(head, AuxiliaryResponse))
        return CompiledEquation(
            name, key, label, mirror, differential, hidden,
            None if start is None else lower([start], [], parameters), doubtful,
            pointwise(body, symbols), by_own, by_row, tuple(integrals), optional(diagonal),
        )  # fmt: skip

    kernels: list[CompiledEquation] = []
    functions: list[CompiledEquation] = []
    diagonals: dict[Head, Expr] = {}  # that have equations
    for item in system.equations:
        head, right = item.defined.head, item.at(ROW, COLUMN)
        start, diagonal = initial_values(system, item)
        if isinstance(head, Correlation) and item.is_differential and diagonal is None:
            other = system[head.turned]
            diagonal = initial_values(system, other)[1] or diagonals.get(head.turned)
        if isinstance(head, Correlation) and item.is_differential and diagonal is None:
            own = Function(fresh_name(f"{item.key}_diagonal", system.names))
            sides = _Splitter(system, item.label, True)
            both_sides = (without_future(right, (ROW, COLUMN)), without_future(other.at(ROW, COLUMN), (COLUMN, ROW)))
            total = sum((sides.body(side.xreplace({COLUMN: ROW})) for side in both_sides), S.Zero)
            total = total.xreplace(dict.fromkeys((head(ROW, ROW), head.turned(ROW, ROW)), own(ROW)))
            functions.append(equation(own.name, total, sides, own, item, start))
            diagonals[head] = diagonal = own(ROW)
        sides = _Splitter(system, item.label, head.arity == 1)
        made = equation(item.key, sides.body(right), sides, head, item, start, diagonal)
        (functions if head.arity == 1 else kernels).append(made)
    observables = []
    for name, expr in system.observables.items():
        sides = _Splitter(system, f"observable `{name}`", True)
        observables.append(equation(name, sides.body(at_row(expr)), sides))
    direct = {name: isinstance(expr, Value) and expr.moments == (ROW, COLUMN) for expr, name in table.items()}
    aliases = {name: expr.head.name if direct[name] else None for expr, name in table.items()}
    return TwoTimeProgram(begin, moments, tuple(kernels), tuple(functions), tuple(observables), factors, aliases)


compile_with_gradients = functools.partial(compile_system, gradients=True)
"""The same with their derivatives by everything unknown that they read."""


def _feedback(item: Contraction, head: Head | None, body: Expr, symbols: tuple[Dummy, ...]) -> tuple[Expr | None, Expr | None]:
    """Return how an integral feeds the equation's own unknown back into it, where that is simple (see the attributes)."""
    symbol, span, left, right, joint = item
    gain = body.diff(symbol)
    if head is None or joint != 1 or COLUMN in gain.free_symbols or gain.has(*symbols):
        return None, None
    if head.arity == 2:
        return (gain if span == "high" and right == head(MIDDLE, COLUMN) else None), None
    inner = slope(left, head(MIDDLE)).xreplace({MIDDLE: COLUMN})
    return (gain, inner) if inner != 0 else (None, None)


def _pointwise(
    parameters: Sequence[Parameter], gradients: bool, expr: Expr, integrals: tuple[Dummy, ...] = ()
) -> PointwiseTerm:
    """Lower one expression in ROW, COLUMN (and MIDDLE) and the values read there."""
    values = tuple(sorted(outermost(expr, Value, but=MemberSum), key=str))
    moments = tuple(item for item in _LETTERS if item in expr.free_symbols)
    needed = tuple(item for item in integrals if item in expr.free_symbols)
    function, slots = lower_reading([expr], [*values, *moments], parameters, _slot, needed)
    inner = [*values, *needed] if gradients else []
    arguments = [*values, *moments, *needed]
    gradient = lower([slope(expr, item) for item in inner], arguments, parameters) if gradients else None
    return PointwiseTerm(slots, tuple(item.name for item in needed), function, gradient)


def _slot(item: Any) -> Slot:
    if isinstance(item, Time):
        return "", _LETTERS[item]
    return item.head.name, "".join(_LETTERS.get(moment, "0") for moment in item.moments)


_LETTERS: dict[Basic, str] = {ROW: "r", COLUMN: "c", MIDDLE: "m"}
