"""A two-time plan as array functions: every factor and every right-hand side over (rows, columns) of nodes."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sympy import Basic, Dummy, Expr

from eqsolve.compile.laws import Moment, compile_moment
from eqsolve.compile.lowering import Lowered, lower
from eqsolve.graphs import blocks_in_order, make_graph
from eqsolve.language.functions import not_everywhere
from eqsolve.language.model import leaves, mapper
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import slope
from eqsolve.passes.forms.sectors import COLUMN, MIDDLE, ROW, Contraction, SectorEquation, split_sectors

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
        made = self.gradient(*map(read, self.slots), *[integrals[item] for item in self.integrals])
        unknowns = [slot for slot in self.slots if slot[0]]
        return (
            dict(zip(unknowns, made, strict=False)),
            dict(zip(self.integrals, made[len(unknowns) :], strict=True)),
        )

    @property
    def heads(self) -> frozenset[str]:
        """The unknowns it reads."""
        return frozenset(name for name, _ in self.slots if name)

    @property
    def settled(self) -> bool:
        """Whether no unknown is read at the row's time: on earlier columns the value is known beforehand."""
        return not any(name and "r" in pattern for name, pattern in self.slots)


@dataclass(frozen=True, eq=False)
class CompiledContraction:
    """An integral over the middle time."""

    symbol: str
    span: str
    # index of the left factor; index of the right factor, or None for 1
    left: int
    right: int | None
    joint: PointwiseTerm | None
    # derivative of the right-hand side by the integral, if that is a function of the row only and
    # the integral contains the equation's own unknown: a kernel as the right factor, a function
    # inside the left one
    gain: PointwiseTerm | None
    # derivative of the left factor by the own function, over (row, middle as column)
    feedback: PointwiseTerm | None


@dataclass(frozen=True, eq=False)
class CompiledEquation:
    """A right-hand side, its integrals, its derivative by the unknown itself at the same times, and its diagonal."""

    # of the unknown or observable; as declared; and as messages name the equation
    name: str
    key: str
    label: str
    # whether the unknown is a correlation, is given by its derivative, and is made by a pass, not
    # declared
    symmetric: bool
    differential: bool
    hidden: bool
    start: Lowered | None  # the value at the start, if one is given
    doubtful: str  # the parts that are not defined everywhere, for messages
    body: PointwiseTerm
    slope: PointwiseTerm | None
    slope_by_row: bool
    contractions: tuple[CompiledContraction, ...]
    diagonal: PointwiseTerm | None


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """Everything a solver runs: equations, and the shared factors of (row, column) they integrate.

    ``aliases[i]`` names the kernel a factor is equal to, if it is one; ``stored`` are the right factors. ``moments`` are
    means of random constants, which enter as further parameters.
    """

    begin: Lowered
    moments: tuple[tuple[str, Moment], ...]
    kernels: tuple[CompiledEquation, ...]
    functions: tuple[CompiledEquation, ...]
    observables: tuple[CompiledEquation, ...]
    factors: tuple[PointwiseTerm, ...]
    aliases: tuple[str | None, ...]
    stored: frozenset[int] = field(default_factory=frozenset)

    @functools.cached_property
    def readers(self) -> dict[str, tuple[int, ...]]:
        """The factors that change when an unknown does."""
        heads = [equation.name for equation in (*self.kernels, *self.functions)]
        return {head: tuple(i for i, entry in enumerate(self.factors) if head in entry.heads) for head in heads}

    @functools.cached_property
    def slots(self) -> frozenset[Slot]:
        """Every value that is read anywhere."""
        equations = (*self.kernels, *self.functions, *self.observables)
        parts = [part for eq in equations for part in (eq.body, eq.slope, eq.diagonal) if part is not None]
        parts += [entry.feedback for eq in equations for entry in eq.contractions if entry.feedback is not None]
        return frozenset(slot for part in (*parts, *self.factors) for slot in part.slots)

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
    found = {node for leaf in leaves(parts) for node in leaf.atoms(E) if not node.has(Value, Time)}
    numbers = {node: Parameter(f"moment_{place}'") for place, node in enumerate(sorted(found, key=str))}
    system = system._mapped(mapper(numbers), *fields) if numbers else system
    moments = tuple((item.name, compile_moment(node.argument, parameters)) for node, item in numbers.items())
    return system, moments, (*parameters, *numbers.values())


def compile_with_gradients(system: System, parameters: Sequence[Parameter]) -> CompiledPlan:
    """Return the array functions of a closed system and their derivatives by everything unknown that they read."""
    return compile_system(system, parameters, gradients=True)


def compile_system(system: System, parameters: Sequence[Parameter], *, gradients: bool = False) -> CompiledPlan:
    """Return the array functions of a closed system; parameters, and means of random constants, are arguments."""
    system, moments, known = take_moments(system, parameters)
    begin, parameters = lower([system.start], [], parameters), known
    pointwise = functools.partial(_pointwise, parameters, gradients)
    table: dict[Expr, int] = {}
    stored: set[int] = set()

    def factor(expr: Expr) -> int:
        return table.setdefault(expr, len(table))

    def contraction(item: Contraction, equation: SectorEquation) -> CompiledContraction:
        left = factor(item.left.xreplace({MIDDLE: COLUMN}))
        right = None
        if item.right != 1:
            places = {COLUMN: ROW, MIDDLE: COLUMN} if item.span == "low" else {MIDDLE: ROW}
            right = factor(item.right.xreplace(places))
            stored.add(right)
        joint = None if item.joint == 1 else pointwise(item.joint)
        feedback = (None if expr is None else pointwise(expr) for expr in _feedback(item, equation))
        return CompiledContraction(item.symbol.name, item.span, left, right, joint, *feedback)

    def equation(item: SectorEquation) -> CompiledEquation:
        contractions = tuple(contraction(entry, item) for entry in item.contractions)
        by_own, by_row = None, True
        if item.head is not None and item.differential:
            derivative = slope(item.body, item.head(ROW, COLUMN) if item.head.arity == 2 else item.head(ROW))
            by_row = COLUMN not in derivative.free_symbols and not derivative.has(*_symbols(item))
            by_own = pointwise(derivative, _symbols(item))
        diagonal = None if item.diagonal is None else pointwise(item.diagonal)
        body = pointwise(item.body, _symbols(item))
        source = item.equation
        key, label = (item.name, f"observable `{item.name}`") if source is None else (source.key, source.label)
        start = None if item.start is None else lower([item.start], [], parameters)
        return CompiledEquation(
            item.name, key, label, item.symmetric, item.differential, item.hidden, start,
            "" if source is None else not_everywhere(source.rhs), body, by_own, by_row,
            contractions, diagonal,
        )  # fmt: skip

    kernels, functions, observables = (tuple(map(equation, items)) for items in split_sectors(system))
    factors = tuple(pointwise(expr) for expr in table)
    aliases = tuple(expr.head.name if isinstance(expr, Value) and expr.moments == (ROW, COLUMN) else None for expr in table)
    return CompiledPlan(begin, moments, kernels, functions, observables, factors, aliases, frozenset(stored))


def _feedback(item: Contraction, equation: SectorEquation) -> tuple[Expr | None, Expr | None]:
    """Return how an integral feeds the equation's own unknown back into it, where that is simple (see the attributes)."""
    head = equation.head
    if head is None or item.joint != 1:
        return None, None
    gain = equation.body.diff(item.symbol)
    if COLUMN in gain.free_symbols or gain.has(*_symbols(equation)):
        return None, None
    if head.arity == 2:
        own = item.span == "high" and item.right == head(MIDDLE, COLUMN)
        return (gain, None) if own else (None, None)
    inner = slope(item.left, head(MIDDLE)).xreplace({MIDDLE: COLUMN})
    return (gain, inner) if inner != 0 else (None, None)


def _symbols(item: SectorEquation) -> tuple[Dummy, ...]:
    return tuple(entry.symbol for entry in item.contractions)


def _pointwise(
    parameters: Sequence[Parameter], gradients: bool, expr: Expr, integrals: tuple[Dummy, ...] = ()
) -> PointwiseTerm:
    """Lower one expression in ROW, COLUMN (and MIDDLE) and the values read there."""
    values = tuple(sorted(expr.atoms(Value), key=str))
    moments = tuple(item for item in _LETTERS if item in expr.free_symbols)
    needed = tuple(item for item in integrals if item in expr.free_symbols)
    slots = [(value.head.name, "".join(_LETTERS.get(moment, "0") for moment in value.moments)) for value in values]
    slots += [("", _LETTERS[moment]) for moment in moments]
    arguments = [*values, *moments, *needed]
    function = lower([expr], arguments, parameters)
    inner = [*values, *needed] if gradients else []
    gradient = lower([slope(expr, item) for item in inner], arguments, parameters) if gradients else None
    return PointwiseTerm(tuple(slots), tuple(item.name for item in needed), function, gradient)


_LETTERS: dict[Basic, str] = {ROW: "r", COLUMN: "c", MIDDLE: "m"}
