"""A program compiled for one member of a family, and instantiated for all: functions are shared.

In a program of a generic system (``generic`` in ``eqsolve.passes.rewrite.indices``) a name such as
``C_at_0_of_4`` stands for C_0 … C_3. Symbolic work does not depend on the sizes.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Basic, Expr

from eqsolve.compile.families import IndexedTerm, IndexMap, as_term, tables_in
from eqsolve.compile.lowering import Constant, Lowered, lower, with_parts
from eqsolve.language.indices import MemberSum, Slot, ordered_indices
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Time, Value
from eqsolve.numerics.arrays import GENERIC, Array, member_name
from eqsolve.passes.forms.expressions import outermost

if TYPE_CHECKING:
    from eqsolve.compile.plan import Values


@dataclass(frozen=True, eq=False)
class PerMember:
    """Stands in a tuple for ``item`` written for each member along ``axes``."""

    item: Any
    axes: tuple[str, ...]

    @functools.cached_property
    def entries(self) -> list[Any]:
        return for_members(self.item, self.axes)


@dataclass(frozen=True, eq=False)
class FamilySum:
    """A sum as a function of all members of the families it reads, at one member (``place``) or at all of them."""

    term: IndexedTerm
    shapes: tuple[tuple[int, ...], ...]  # of the families
    scalars: Lowered  # what it reads besides
    constants: tuple[Any, ...]  # its tables
    free: tuple[str, ...]
    place: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return sum(map(math.prod, self.shapes))

    def __call__(self, arrays: Sequence[Any]) -> Any:
        return self.own(self._arguments(arrays))[(0,) * len(self.free)]

    def all(self, arrays: Sequence[Any]) -> Any:
        """Return the sum at all members."""
        return self.term(self._arguments(arrays))

    @functools.cached_property
    def own(self) -> IndexedTerm:
        return _fixed(self.term, dict(enumerate(self.place)))

    def _arguments(self, arrays: Sequence[Any]) -> list[Any]:
        families, begin = [], 0
        for shape in self.shapes:
            own = arrays[begin : (begin := begin + math.prod(shape))]
            families.append(np.stack(own).reshape(*shape, *np.shape(own[0])) if shape else own[0])
        return [*families, *self.scalars(), *self.constants]


def _fixed(term: IndexedTerm, at: Mapping[int, int]) -> IndexedTerm:
    """Return a term with one value of some axes of its frame."""
    frame = tuple(1 if axis in at else size for axis, size in enumerate(term.frame))
    uses = tuple(
        IndexMap(use.argument, tuple((axis, shift + (at.get(axis, 0) if axis >= 0 else 0)) for axis, shift in use.axes))
        for use in term.uses
    )
    inner = tuple(
        (_fixed(item, {own: at[axis] for own, axis in enumerate(axes) if axis in at}), axes) for item, axes in term.inner
    )
    return dataclasses.replace(term, frame=frame, uses=uses, inner=inner)


@dataclass(frozen=True, eq=False)
class WithTotals:
    """A function of ``plain`` arguments and of sums, called with the plain ones, all that the sums read, and more."""

    function: Callable[..., list[Any]]
    plain: int
    totals: tuple[FamilySum, ...]

    def __call__(self, *arguments: Any) -> list[Any]:
        begin, sums = self.plain, []
        for total in self.totals:
            sums.append(total(arguments[begin : (begin := begin + total.count)]))
        return self.function(*arguments[: self.plain], *sums, *arguments[begin:])


def lower_reading(
    expressions: Sequence[Expr], read: Sequence[Basic], parameters: Sequence[Parameter], describe: Callable[[Any], Any],
    more: Sequence[Basic] = (), total: Callable[[Any, Any], Any] | None = None,
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    """Return a function of what is read, described one by one, and ``more``; sums read the members of whole families.

    With ``total``, a sum is an argument, described by it and by what it reads.
    """
    sums = list(dict.fromkeys(node for expr in expressions for node in outermost(expr, MemberSum)))
    function = lower(expressions, [*read, *sums, *more], parameters)
    described = tuple(map(describe, read))
    totals = []
    for node in sums:
        sum_of, families = _total(node, parameters)
        totals.append(sum_of)
        inner = tuple(PerMember(describe(item), axes) for item, axes in families)
        described += inner if total is None else (total(sum_of, inner),)
    whole = WithTotals(function, len(read), tuple(totals)) if sums and total is None else function
    return whole, described


def _total(node: MemberSum, parameters: Sequence[Parameter]) -> tuple[FamilySum, list[tuple[Basic, tuple[str, ...]]]]:
    source = node.contraction
    slots: dict[Basic, Slot] = {}
    scalars: dict[Basic, Basic] = {}
    families = []
    for place, (read, now) in enumerate(zip(source.reads, node.args[1:], strict=True)):
        if isinstance(now, Value | E | Time):
            axes = tuple(dict.fromkeys(match[0] for match in GENERIC.finditer(str(getattr(now, "head", now)))))
            item = read.head if isinstance(read, Value) else read
            indices = getattr(item, "indices", ()) or ordered_indices(item)
            slots[read] = Slot.of(f"s{place}", indices, getattr(item, "axes", ()) or indices)
            families.append((now, axes))
        else:  # a parameter, or what vanishes
            scalars[read] = now
    spots = {read: Slot.of(f"c{place}") for place, read in enumerate(scalars)}
    free = ordered_indices(source.sum)
    tables = tables_in(source.sum)
    term = as_term(source.sum.xreplace({**slots, **spots}), free, [*slots.values(), *spots.values(), *tables], ())
    names = tuple(f"_{item}" for item in free)
    shapes = tuple(item.shape for item in slots.values())
    numbers = lower(list(scalars.values()), [], parameters)
    return FamilySum(term, shapes, numbers, tuple(map(Constant.of, tables)), names), families


# --- Writing for every member.
def places(axes: Iterable[str]) -> Iterator[dict[str, int]]:
    """Yield every place of the members of a family."""
    axes = tuple(axes)
    for place in itertools.product(*(range(int(axis.rpartition("_")[2])) for axis in axes)):
        yield dict(zip(axes, place, strict=True))


def _write(item: Any, place: Mapping[str, int], written: dict[int, Any]) -> Any:
    """Return a part of a program at a place; ``written`` are the parts there already, so that shared ones stay shared."""
    if isinstance(item, str):
        return GENERIC.sub(lambda axis: f"_{place[axis[0]]}", item) if "_at_" in item else item
    if isinstance(item, FamilySum):
        return dataclasses.replace(item, place=tuple(place[axis] for axis in item.free))
    if isinstance(item, IndexedTerm | PerMember):
        return item
    if id(item) not in written:
        new = with_parts(item, lambda part: _write(part, place, written))
        if isinstance(item, tuple) and any(isinstance(part, PerMember) for part in item):
            new = tuple(itertools.chain(*(part.entries if isinstance(part, PerMember) else (part,) for part in new)))
        written[id(item)] = new
    return written[id(item)]


def axes_of(item: Any) -> list[str]:
    """Return the ends of names, as ``_at_0_of_4``, of families of which a part is one member."""
    _write(item, axes := collections.defaultdict[str, int](int), {})  # axes that are asked for
    return list(axes)


def for_members(item: Any, axes: Iterable[str] = ()) -> list[Any]:
    """Return a part of a program for every member of what it stands for."""
    return [_write(item, place, {}) for place in places(axes or axes_of(item))]


def write_members(program: Any) -> Any:
    """Return a program of a generic system for every member of its families."""
    if hasattr(program, "for_members"):
        return program.for_members()
    changed = {}
    for field in dataclasses.fields(program):
        part = getattr(program, field.name)
        if isinstance(part, tuple | frozenset | dict):
            entries = part.items() if isinstance(part, dict) else part
            changed[field.name] = type(part)(itertools.chain.from_iterable(map(for_members, entries)))
    return dataclasses.replace(program, **changed)


def with_tables(values: Values, tables: Mapping[str, Array]) -> Values:
    """Return values with tables; of a generic system with their numbers one by one, and a law for every member."""
    numbers: dict[str, Any] = {**values.numbers, **tables}
    for name in values.numbers:
        if sizes := GENERIC.findall(name):
            base, shape = GENERIC.sub("", name), map(int, sizes)
            numbers |= {member_name(base, place): float(tables[base][place]) for place in np.ndindex(*shape)}
    laws = dict(pair for item in values.laws.items() for pair in for_members(item))
    return dataclasses.replace(values, numbers=numbers, laws=laws, tables=tables)
