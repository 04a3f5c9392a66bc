"""A two-time plan as array functions: every factor and every right-hand side over (rows, columns) of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sympy import Basic, Dummy, Expr

from eqsolve.compile.lowering import lower
from eqsolve.language.symbols import Value
from eqsolve.passes.sectors import COLUMN, MIDDLE, ROW, Contraction, SectorEquation, TwoTimePlan

__all__ = ["CompiledContraction", "CompiledEquation", "CompiledPlan", "Pointwise", "compile_two_time"]


Slot = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Pointwise:
    """An expression lowered to arrays: the slots it reads, the integrals it needs, and the function itself.

    A slot is a name and a pattern of times: ``r`` row, ``c`` column, ``m`` middle, ``0`` the start. ``("C", "rc")`` is
    C(row, column), ``("y", "c")`` is y(column), ``("", "r")`` the row time itself.
    """

    slots: tuple[Slot, ...]
    integrals: tuple[Dummy, ...]
    function: Callable[..., list[Any]]

    def __call__(self, read: Callable[[Slot], Any], integrals: Mapping[Dummy, Any] = {}) -> Any:
        values = [read(slot) for slot in self.slots]
        return self.function(*values, *[integrals[item] for item in self.integrals])[0]


@dataclass(frozen=True, eq=False)
class CompiledContraction:
    """An integral over the middle time: the left factor's index, the right factor's index or None for 1."""

    symbol: Dummy
    span: str
    left: int
    right: int | None
    joint: Pointwise | None


@dataclass(frozen=True, eq=False)
class CompiledEquation:
    """A right-hand side, its integrals, and its derivative by the unknown itself at the same times."""

    source: SectorEquation
    body: Pointwise
    slope: Pointwise | None
    slope_by_row: bool
    contractions: tuple[CompiledContraction, ...]

    @property
    def name(self) -> str:
        return self.source.name


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """Everything a solver runs: equations, and the shared factors of (row, column) they integrate.

    ``aliases[i]`` names the kernel a factor is equal to, if it is one; ``stored`` are the right factors.
    """

    plan: TwoTimePlan
    kernels: tuple[CompiledEquation, ...]
    functions: tuple[CompiledEquation, ...]
    observables: tuple[CompiledEquation, ...]
    factors: tuple[Pointwise, ...]
    aliases: tuple[str | None, ...]
    stored: frozenset[int] = field(default_factory=frozenset)


def compile_two_time(plan: TwoTimePlan) -> CompiledPlan:
    """Return the plan's expressions as functions of arrays; shared factors are compiled once."""
    table: dict[Expr, int] = {}
    stored: set[int] = set()

    def factor(expr: Expr) -> int:
        return table.setdefault(expr, len(table))

    def contraction(item: Contraction) -> CompiledContraction:
        left = factor(item.left.xreplace({MIDDLE: COLUMN}))
        right = None
        if item.right != 1:
            places = {COLUMN: ROW, MIDDLE: COLUMN} if item.span == "low" else {MIDDLE: ROW}
            right = factor(item.right.xreplace(places))
            stored.add(right)
        joint = None if item.joint == 1 else pointwise(item.joint)
        return CompiledContraction(item.symbol, item.span, left, right, joint)

    def equation(item: SectorEquation) -> CompiledEquation:
        contractions = tuple(contraction(entry) for entry in item.contractions)
        slope, by_row = None, True
        if item.head is not None and item.differential:
            own = item.head(ROW, COLUMN) if item.head.arity == 2 else item.head(ROW)
            stand_in = Dummy("x", real=True)
            derivative = item.body.xreplace({own: stand_in}).diff(stand_in).xreplace({stand_in: own})
            by_row = COLUMN not in derivative.free_symbols and not derivative.has(*_symbols(item))
            slope = pointwise(derivative, _symbols(item))
        return CompiledEquation(item, pointwise(item.body, _symbols(item)), slope, by_row, contractions)

    kernels = tuple(equation(item) for item in plan.kernels)
    functions = tuple(equation(item) for item in plan.functions)
    observables = tuple(equation(item) for item in plan.observables)
    factors = tuple(pointwise(expr) for expr in table)
    aliases = tuple(
        expr.head.name if isinstance(expr, Value) and expr.moments == (ROW, COLUMN) else None for expr in table
    )
    return CompiledPlan(plan, kernels, functions, observables, factors, aliases, frozenset(stored))


def _symbols(item: SectorEquation) -> tuple[Dummy, ...]:
    return tuple(entry.symbol for entry in item.contractions)


def pointwise(expr: Expr, integrals: tuple[Dummy, ...] = ()) -> Pointwise:
    """Lower one expression in ROW, COLUMN (and MIDDLE) and the values read there."""
    values = tuple(sorted(expr.atoms(Value), key=str))
    moments = tuple(item for item in _LETTERS if item in expr.free_symbols)
    needed = tuple(item for item in integrals if item in expr.free_symbols)
    slots = [(value.head.name, "".join(_LETTERS.get(moment, "0") for moment in value.moments)) for value in values]
    slots += [("", _LETTERS[moment]) for moment in moments]
    return Pointwise(tuple(slots), needed, lower([expr], [*values, *moments, *needed]))


_LETTERS: dict[Basic, str] = {ROW: "r", COLUMN: "c", MIDDLE: "m"}
