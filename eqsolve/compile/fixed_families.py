"""Fixed points of families as functions of arrays: both sides of the equations, and each unknown by its own equation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Dummy, Expr, solve
from sympy.core.sympify import SympifyError

from eqsolve.compile.families import Constant, Functions, Slopes, lower_families, lower_slopes, tables_in
from eqsolve.compile.fixed_point import domain_of
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.indices import Index, Slot, counts, ordered_indices
from eqsolve.language.model import leaves
from eqsolve.language.symbols import Unknown
from eqsolve.numerics.domains import Domain


@dataclass(frozen=True, eq=False)
class FamilyProgram:
    """Equations on arrays: left and right sides and their slopes, each unknown by its equation, outputs."""

    label: str
    unknowns: tuple[tuple[str, tuple[int, ...], Domain], ...]
    shapes: tuple[tuple[int, ...], ...]  # of the equations
    sides: Functions
    slopes: tuple[Slopes, Slopes]  # of the left sides, and of the right sides
    owner: tuple[int, ...]  # of each argument of the slopes its unknown
    explicit: tuple[tuple[int, Functions], ...] | None  # unknown, and its value by its equation
    observables: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: Functions
    output_slopes: Slopes
    constants: tuple[Constant, ...]


def compile_families(model: FixedPoint) -> FamilyProgram:
    """Return the equations of a fixed point on arrays."""
    heads: dict[str, Unknown] = {}
    slots: dict[Any, Slot] = {}
    for leaf in leaves(model._key()):
        for item in sorted(leaf.atoms(Unknown), key=str):
            heads.setdefault(item.base, item)
            slots.setdefault(item, Slot.of(item.base, item.indices, item.axes))
    bases = list(heads)
    constants = tables_in(
        *leaves((*(side for eq in model.equations for side in (eq.lhs, eq.rhs)), *model.observables.values()))
    )
    arguments = [*slots.values(), *constants]
    known = model.parameters

    def put(expr: Expr) -> Expr:
        return expr.xreplace(slots)

    pairs = [(put(eq.lhs), put(eq.rhs), ordered_indices(eq.lhs, eq.rhs)) for eq in model.equations]
    both = [(side, free) for left, right, free in pairs for side in (left, right)]
    explicit: list[tuple[int, Functions]] | None = []
    for eq, (_, right, free) in zip(model.equations, pairs, strict=True):
        found = _explicit(eq.lhs, right, free)
        if found is None or explicit is None:
            explicit = None
            continue
        explicit.append((bases.index(found[0].base), lower_families([(found[1], found[0].indices)], arguments, known)))
    if explicit is not None and len({number for number, _ in explicit}) < len(bases):
        explicit = None
    by = list(slots.values())
    seen = [(put(expr), ordered_indices(expr)) for expr in model.observables.values()]
    return FamilyProgram(
        model.label,
        tuple((base, counts(item.axes), domain_of(item)) for base, item in heads.items()),
        tuple(counts(free) for _, _, free in pairs),
        lower_families(both, arguments, known),
        (
            lower_slopes([(left, free) for left, _, free in pairs], arguments, by, known),
            lower_slopes([(right, free) for _, right, free in pairs], arguments, by, known),
        ),
        tuple(bases.index(item.base) for item in slots),
        None if explicit is None else tuple(explicit),
        tuple((name, counts(free)) for name, (_, free) in zip(model.observables, seen, strict=True)),
        lower_families(seen, arguments, known),
        lower_slopes(seen, arguments, by, known),
        tuple(map(Constant.of, constants)),
    )


def _explicit(left: Expr, right: Expr, free: Sequence[Index]) -> tuple[Unknown, Expr] | None:
    """Return the unknown that stands alone on the left of an equation, and its value by the right side."""
    items = list(left.atoms(Unknown))
    if len(items) != 1 or set(items[0].indices) != set(free) or len(items[0].indices) != len(free):
        return None
    value = Dummy("value", real=True)
    bare = Dummy(real=True)
    try:
        found = solve(left.xreplace({items[0]: bare}) - value, bare)
    except (NotImplementedError, SympifyError):
        return None
    return (items[0], found[0].xreplace({value: right})) if len(found) == 1 else None
