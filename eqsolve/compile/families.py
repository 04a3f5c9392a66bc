"""Expressions with indices as functions of arrays: every index is an axis, sums are contractions.

An argument is an array over the axes of its family, followed by axes of points (times, nodes) or none. An expression is
evaluated on a frame, one axis for each of its indices: arguments are laid along the frame as views, and broadcasting does
the rest. A sum of products is left to ``einsum``, whose order of pairwise contractions is chosen once for each shape.
Symbolic work does not depend on the sizes.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Basic, Dummy, Expr, Mul

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.language.indices import Index, Slot, Sum, counts, free_indices, members_in, sum_over
from eqsolve.language.symbols import Parameter
from eqsolve.numerics.arrays import Array
from eqsolve.passes.forms.expressions import outermost, slope


@dataclass(frozen=True)
class IndexMap:
    """How an argument is broadcast: per axis the frame's axis and an offset; axis −1 is a fixed index."""

    argument: int
    axes: tuple[tuple[int, int], ...]

    def broadcast(self, array: Any, frame: tuple[int, ...]) -> Any:
        """Return the argument along the axes of a frame, points behind."""
        if not self.axes:
            return array
        array = np.asarray(array)
        for place in range(len(self.axes) - 1, -1, -1):
            axis, shift = self.axes[place]
            if axis < 0:
                array = np.take(array, shift, axis=place)
            elif shift or array.shape[place] != frame[axis]:  # what lies outside is not used: branches or a check see to it
                entries = np.clip(np.arange(frame[axis]) + shift, 0, array.shape[place] - 1)
                array = np.take(array, entries, axis=place)
        running = [axis for axis, _ in self.axes if axis >= 0]
        points = array.shape[len(running) :]
        array = np.einsum(array, [*running, ...], [*sorted(set(running)), ...])  # of V[k, k] the diagonal
        return array.reshape((*(size if axis in running else 1 for axis, size in enumerate(frame)), *points))


@dataclass(frozen=True, eq=False)
class IndexedTerm:
    """An expression on a frame whose axes behind the first ``free`` ones are summed over."""

    frame: tuple[int, ...]
    free: int
    uses: tuple[IndexMap, ...]
    # the sums inside, each with the frame's axes along which its own free axes lie
    inner: tuple[tuple[IndexedTerm, tuple[int, ...]], ...]
    function: Lowered  # of uses and inner sums; of a product the coefficient
    factors: tuple[int, ...] = ()  # of a product: places among uses and inner sums

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Return the values, free axes first, points behind."""
        placed = [use.broadcast(arguments[use.argument], self.frame) for use in self.uses]
        for term, axes in self.inner:
            placed.append(IndexMap(0, tuple((axis, 0) for axis in axes)).broadcast(term(arguments), self.frame))
        along = [[axis for axis, _ in use.axes] for use in self.uses] + [[*axes] for _, axes in self.inner]
        if self.factors:
            return self._contracted([(np.asarray(placed[place]), along[place]) for place in self.factors])
        over, count = [bool(axes) for axes in along], len(self.frame)
        points = max((np.ndim(item) - count * own for item, own in zip(placed, over, strict=True)), default=0)
        for place, own in enumerate(over):
            if own and placed[place].ndim < count + points:
                placed[place] = placed[place].reshape(placed[place].shape + (1,) * (count + points - placed[place].ndim))
        value = self.function(*placed)[0]
        if not count:
            return value
        value = np.asarray(value)
        value = np.broadcast_to(
            value, (*self.frame, *(value.shape[count:] if any(over) and value.ndim >= count else value.shape))
        )
        return value.sum(axis=tuple(range(self.free, count))) if count > self.free else value

    def _contracted(self, factors: list[tuple[Array, list[int]]]) -> Any:
        """Return a sum of products by pairwise contractions; the axes of a factor are the frame's, −1 is a fixed index."""
        operands, subscripts = [], []
        for array, along in factors:
            points, axes = array.shape[len(self.frame) * bool(along) :], sorted({*along} - {-1})
            operands.append(array.reshape((*(self.frame[axis] for axis in axes), *points)))
            subscripts.append("".join(map(_LETTERS.__getitem__, axes)) + "...")
        text = f"{','.join(subscripts)}->{_LETTERS[: self.free]}..."
        path = _path(text, tuple(item.shape for item in operands))
        return self.function()[0] * np.einsum(text, *operands, optimize=path)


_LETTERS = string.ascii_letters  # of the axes of a frame, for ``einsum``


@functools.lru_cache(maxsize=1024)
def _path(text: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
    # kept by shapes: to search the best order takes longer than to contract small arrays
    return np.einsum_path(text, *(np.broadcast_to(0.0, shape) for shape in shapes), optimize="optimal")[0]


# --- From expressions.
def as_term(expr: Expr, free: Sequence[Index], arguments: Sequence[Basic], parameters: Sequence[Parameter]) -> IndexedTerm:
    """Return an expression over its free indices; of sums the outermost may be the expression itself."""
    frame, summed = list(free), isinstance(expr, Sum)
    if isinstance(expr, Sum):
        expr, frame = expr.body, [*free, *expr.over]
    places = {item: place for place, item in enumerate(frame)}
    numbers = {item: number for number, item in enumerate(arguments)}
    sums = sorted(outermost(expr, Sum), key=str)
    if summed:  # a factor of a product is evaluated along its own indices
        parts = [item for item in Mul.make_args(expr) if item.args and free_indices(item) and not isinstance(item, Sum | Slot)]
        sums += [item for item in parts if {item} != item.atoms(Slot, Parameter) and free_indices(item) < {*frame}]
    standing = {node: Dummy(real=True) for node in sums}
    bare = expr.xreplace(standing)
    inner = []
    for node in sums:
        own = sorted(free_indices(node), key=str)
        inner.append((as_term(node, own, arguments, parameters), tuple(places[item] for item in own)))
    read = bare.atoms(Slot, Parameter, Index) | bare.free_symbols
    used = sorted((item for item in read if item in numbers), key=numbers.__getitem__)
    axes = [(item,) if isinstance(item, Index) else getattr(item, "indices", ()) for item in used]
    uses = tuple(
        IndexMap(numbers[item], tuple(_axis(entry, places) for entry in own)) for item, own in zip(used, axes, strict=True)
    )
    inputs = [*used, *standing.values()]
    make = functools.partial(IndexedTerm, counts(frame), len(free), uses, tuple(inner))
    if summed and (read := _product(bare, inputs)) is not None:
        factors, rest = read
        running = [{axis for axis, _ in use.axes if axis >= 0} for use in uses] + [set(axes) for _, axes in inner]
        if set(range(len(frame))) == set().union(*(running[place] for place in factors)):
            return make(lower([rest], [], parameters), factors)
    return make(lower([bare], inputs, parameters))


def _axis(entry: Any, places: dict[Index, int]) -> tuple[int, int]:
    if entry.is_Integer:
        return -1, int(entry)
    (index,) = entry.atoms(Index)
    return places[index], int(entry - index)


def _product(expr: Expr, inputs: list[Any]) -> tuple[tuple[int, ...], Expr] | None:
    """Return the factors of a product, by their places, each as often as it occurs, and its coefficient."""
    numbers = {item: place for place, item in enumerate(inputs)}
    factors: list[int] = []
    rest: list[Expr] = []
    for factor in Mul.make_args(expr):
        base, power = factor.as_base_exp()
        if base in numbers and power.is_Integer and power > 0:
            factors += [numbers[base]] * int(power)
        elif factor.free_symbols & set(inputs):
            return None
        else:
            rest.append(factor)
    return (tuple(factors), Mul(*rest)) if factors else None


# --- Derivatives.
@dataclass(frozen=True, eq=False)
class SlopeTerm:
    """The derivative of an expression by an argument: of which entries, by which entries, and their values."""

    argument: int
    rows: Array  # numbers of the expression's members, one for each entry of the term
    columns: Array  # and of the argument's members
    term: IndexedTerm

    def __call__(self, arguments: Sequence[Any], points: int) -> Array:
        """Return the values, (entries, *points)."""
        value, frame = np.asarray(self.term(arguments), dtype=float), self.term.frame[: self.term.free]
        own = value.shape[len(frame) :]
        return value.reshape(math.prod(frame), *own, *(1,) * (points - len(own)))


def slopes_of(
    expr: Expr, free: Sequence[Index], arguments: Sequence[Basic], by: Sequence[Basic], parameters: Sequence[Parameter]
) -> Iterator[SlopeTerm]:
    """Yield the derivatives of an expression by some of its arguments."""
    for slot, frame, change in _changes(expr, tuple(free), frozenset(by)):
        if change == 0:
            continue
        sizes = counts(frame)
        grids = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), dtype=int)
        places = {item: place for place, item in enumerate(frame)}
        rows = _flat([(places[item], 0) for item in free], counts(free), grids)
        entries = getattr(slot, "indices", ())
        columns = _flat([_axis(entry, places) for entry in entries], getattr(slot, "shape", ()), grids)
        yield SlopeTerm(arguments.index(slot), rows, columns, as_term(change, frame, arguments, parameters))


def _flat(axes: Sequence[tuple[int, int]], sizes: Sequence[int], grids: Array) -> Array:
    """Return the numbers of the members that entries of a frame belong to."""
    number = np.zeros(grids.shape[1], dtype=int)
    for (axis, shift), size in zip(axes, sizes, strict=True):
        entry = np.full(grids.shape[1], shift) if axis < 0 else grids[axis] + shift
        number = number * size + np.clip(entry, 0, size - 1)
    return number


def _changes(expr: Expr, free: tuple[Index, ...], by: frozenset[Basic]) -> Iterator[tuple[Any, tuple[Index, ...], Expr]]:
    """Yield (argument, indices of the derivative, derivative), sums over the indices that the argument does not carry."""
    sums = sorted(outermost(expr, Sum), key=str)
    standing = {node: Dummy(real=True) for node in sums}
    back = {dummy: node for node, dummy in standing.items()}
    bare = expr.xreplace(standing)
    for item in sorted(bare.free_symbols & by, key=str):
        yield item, free, slope(bare, item).xreplace(back)
    for node in sums:
        outer = slope(bare, standing[node]).xreplace(back)
        for item, frame, change in _changes(node.body, (*free, *node.over), by):
            carried = set().union(*(entry.atoms(Index) for entry in getattr(item, "indices", ())))
            summed = [index for index in node.over if index not in carried]
            remaining = tuple(index for index in frame if index not in summed)
            yield item, remaining, outer * sum_over(change, summed)


def tables_in(*expressions: Basic) -> list[Any]:
    """Return the entries of tables in expressions, as they are written, and the indices that stand for numbers."""
    entries: set[Any] = {item for item in members_in(*expressions) if isinstance(item, Parameter)}
    for expr in expressions:
        entries |= _numbers(expr)
    return sorted(entries, key=str)


def _numbers(expr: Basic) -> set[Index]:
    """Return the indices whose number is used, as in k**2; those that only name a member do not count."""
    if isinstance(expr, Index):
        return {expr}
    if isinstance(expr, Sum):
        return _numbers(expr.body)
    return set().union(*map(_numbers, expr.args)) if expr.args else set()


@dataclass(frozen=True, eq=False)
class Functions:
    """Several expressions of the same arguments: those without an index as one function, the others one by one."""

    plain: Lowered
    places: tuple[int, ...]
    indexed: tuple[tuple[int, IndexedTerm], ...]

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Return all values, axes of indices first."""
        if not self.indexed:
            return list(self.plain(*arguments))
        values: dict[int, Any] = dict(zip(self.places, self.plain(*arguments), strict=True)) if self.places else {}
        values |= {place: term(arguments) for place, term in self.indexed}
        return [values[place] for place in range(len(values))]


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of several expressions by arguments; ``partials`` names the (expression, argument) of the plain ones."""

    plain: Lowered
    partials: tuple[tuple[int, int], ...]
    indexed: tuple[tuple[int, SlopeTerm], ...]

    def __call__(self, arguments: Sequence[Any], points: int) -> list[tuple[int, int, Array, Array, Array]]:
        """Return (expression, argument, rows, columns, values) of each; values are (entries, *points)."""
        slopes = []
        for (row, column), value in zip(self.partials, self.plain(*arguments) if self.partials else (), strict=True):
            array = np.asarray(value, dtype=float)
            slopes.append((row, column, _FIRST, _FIRST, array.reshape(1, *(1,) * (points - array.ndim), *array.shape)))
        return slopes + [(row, item.argument, item.rows, item.columns, item(arguments, points)) for row, item in self.indexed]


_FIRST = np.zeros(1, dtype=int)


def lower_families(
    expressions: Sequence[tuple[Expr, Sequence[Index]]], arguments: Sequence[Basic], parameters: Sequence[Parameter]
) -> Functions:
    """Return several expressions, each with its free indices in order, as functions of arrays."""
    plain = [place for place, (expr, free) in enumerate(expressions) if not free and not _has_index(expr)]
    function = lower([expressions[place][0] for place in plain], arguments, parameters)
    rest = [(k, as_term(*item, arguments, parameters)) for k, item in enumerate(expressions) if k not in plain]
    return Functions(function, tuple(plain), tuple(rest))


def lower_slopes(
    expressions: Sequence[tuple[Expr, Sequence[Index]]], arguments: Sequence[Basic], by: Sequence[Basic],
    parameters: Sequence[Parameter],
) -> Slopes:  # fmt: skip
    """Return the derivatives of several expressions by some of their arguments."""
    pairs: list[tuple[int, int]] = []
    changes: list[Expr] = []
    rest: list[tuple[int, SlopeTerm]] = []
    for place, (expr, free) in enumerate(expressions):
        if free or _has_index(expr):
            rest += [(place, item) for item in slopes_of(expr, free, arguments, by, parameters)]
            continue
        own = [item for item in by if item in expr.free_symbols]
        pairs += [(place, arguments.index(item)) for item in own]
        changes += [slope(expr, item) for item in own]
    return Slopes(lower(changes, arguments, parameters), tuple(pairs), tuple(rest))


def _has_index(expr: Basic) -> bool:
    return bool(expr.has(Sum)) or any(getattr(item, "indices", ()) for item in expr.free_symbols)


def over_points(value: Any, shape: tuple[int, ...], points: tuple[int, ...]) -> Array:
    """Return values of members, axes of indices first, that are given at some points or are the same at all."""
    array = np.asarray(value, dtype=float)
    if array.ndim == len(shape) and shape:
        array = array.reshape(array.shape + (1,) * len(points))
    whole = (*shape, *points)
    return array if array.shape == whole else np.broadcast_to(array, whole)
