"""Volterra equations between kernels, as data, and their solution by collocation.

A relation is made of few pieces, each a frozen value made once by ``eqsolve.compile.relations``:
pointwise functions of what stands at two times, integrals as operators acting on tables, sums of
causal operators, and definitions, which solve for a kernel that enters its own equation linearly.
Evaluating one is a walk over these values that touches arrays only.

Patterns of times are letters: ``r`` the row's time, ``c`` the column's, ``0`` the start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from eqsolve.numerics.arrays import Array, filled
from eqsolve.numerics.operators import OperatorGrid, solve_causal


@dataclass(frozen=True)
class Leaf:
    """What a pointwise function reads: a time, a mean, a function, a correlation, a response, each at ``times``."""

    kind: str  # "time", "mean", "function", "table", "response"
    name: str
    times: str


@dataclass(frozen=True, eq=False)
class Pointwise:
    """A function of leaves and integrals at (row, column); the value may be smaller, to be broadcast."""

    function: Callable[..., list[Any]]
    leaves: tuple[Leaf | Integral | Summation, ...]


@dataclass(frozen=True, eq=False)
class Summation:
    """A sum over members of families: of ``total``, a function of all that it reads, the value at its own place."""

    total: Any
    leaves: tuple[Leaf | Integral, ...]


@dataclass(frozen=True, eq=False)
class SmoothKernel:
    """The operator of a kernel without causal factor: integration times the kernel's values."""

    values: Pointwise | None


@dataclass(frozen=True, eq=False)
class Composition:
    """left ∘ right."""

    left: KernelOperator
    right: KernelOperator


@dataclass(frozen=True, eq=False)
class OperatorSum:
    """Σ factor × carrier; a carrier is the name of a response, of a mean response, or a composition."""

    terms: tuple[tuple[Leaf | Composition, Pointwise | None], ...]


KernelOperator: TypeAlias = SmoothKernel | OperatorSum


@dataclass(frozen=True, eq=False)
class Integral:
    """outer × ∫ of a product: ``operator`` on ``table`` over the past of the row (``r``), or of the column (``c``)."""

    past: str
    operator: KernelOperator
    table: Pointwise | None
    outer: Pointwise | None


@dataclass(frozen=True, eq=False)
class DiagonalPart:
    """A term a(t) X of the equation for X."""

    values: Pointwise


@dataclass(frozen=True, eq=False)
class ScaledPart:
    """A term scale × (operator ∘ X) of the equation for X."""

    operator: KernelOperator
    scale: Pointwise | None


@dataclass(frozen=True, eq=False)
class Definition:
    """X = rest + own X, or its derivative in the first time; ``start`` is then the value at the start or the diagonal."""

    name: str
    kind: str  # "function", "response", "correlation", or "cross" without its symmetry
    rest: Pointwise | OperatorSum
    own: tuple[DiagonalPart | ScaledPart, ...]
    differential: bool = False
    start: Pointwise | None = None


@dataclass(frozen=True, eq=False)
class PointwiseSum:
    """Terms that are added up to a function of one time; their sizes tell what cancels."""

    terms: tuple[Pointwise, ...]


@dataclass(eq=False)
class Kernels:
    """Kernels and functions on one grid for given means: tables of correlations, operators of responses, functions."""

    grid: OperatorGrid
    means: Mapping[str, Array]
    tables: dict[str, Array] = field(default_factory=dict)
    operators: dict[str, Array] = field(default_factory=dict)
    functions: dict[str, Array] = field(default_factory=dict)
    _values: dict[str, Array] = field(default_factory=dict)  # of responses, made when read
    _known: dict[KernelOperator, Array] = field(default_factory=dict)  # operators of kernels, made when read
    later: dict[str, Definition] = field(default_factory=dict)  # correlations that nothing has read yet

    @functools.cached_property
    def derived(self) -> dict[Any, Any]:
        """What others have made of these kernels, kept for them."""
        return {}

    # --- values
    def vector(self, item: Pointwise | PointwiseSum) -> Array:
        """Return a function of the row's time on the nodes."""
        if isinstance(item, PointwiseSum):
            return np.asarray(sum((self.vector(term) for term in item.terms), np.zeros(self.grid.size)))
        return filled(self.pointwise(item), (self.grid.size, 1))[:, 0]

    def observed(self, item: PointwiseSum) -> Array:
        """Return an observable on the nodes; one that has no value at the start, 0/0, has its limit there."""
        return self.grid.begun(self.vector(item))

    def table(self, item: Pointwise) -> Array:
        """Return a function of both times on all pairs of nodes."""
        return filled(self.pointwise(item), (self.grid.size, self.grid.size))

    def pointwise(self, item: Pointwise) -> Any:
        """Return a pointwise function's value, as small as it is."""
        return item.function(*map(self._read, item.leaves))[0]

    def scaled(self, values: Array, by: Pointwise | None) -> Array:
        return values if by is None else values * self.pointwise(by)

    def _read(self, leaf: Leaf | Integral | Summation) -> Any:
        if not isinstance(leaf, Summation):
            return self._leaf(leaf)
        if leaf.total.term not in self.derived:  # at all members at once: others will ask for theirs
            self.derived[leaf.total.term] = leaf.total.all([self._leaf(item) for item in leaf.leaves])
        return self.derived[leaf.total.term][leaf.total.place]

    def _leaf(self, leaf: Leaf | Integral) -> Any:
        if isinstance(leaf, Integral):
            return self._integral(leaf)
        times = leaf.times
        if leaf.kind == "time":
            return _spread(self.grid.nodes, times)
        if leaf.kind == "mean":
            value = self.means[leaf.name]
            return value[:, None] if value.ndim == 1 else value
        if leaf.kind == "function":
            return _spread(self.functions[leaf.name], times)
        table = self.correlation(leaf.name) if leaf.kind == "table" else self.response(leaf.name)
        match times:
            case "rc":
                return table
            case "cr":
                return table.T
            case "rr" | "cc" | "00":
                return _spread(np.diagonal(table), times[0])
        moving = times.replace("0", "")
        return _spread(table[:, 0] if times.startswith(moving) else table[0], moving)

    def correlation(self, name: str) -> Array:
        """Return the table of a correlation."""
        if name in self.later:
            self.define(self.later.pop(name))
        return self.tables[name]

    def complete(self) -> dict[str, Array]:
        """Return the tables of all correlations."""
        for name in tuple(self.later):
            self.correlation(name)
        return self.tables

    def response(self, name: str) -> Array:
        """Return the values of a response on the nodes."""
        if name not in self._values:
            self._values[name] = self.grid.values(self.operators[name])
        return self._values[name]

    # --- operators
    def operator(self, item: KernelOperator) -> Array:
        if item not in self._known:
            self._known[item] = self._operator(item)
        return self._known[item]

    def _operator(self, item: KernelOperator) -> Array:
        if isinstance(item, SmoothKernel):
            return self.scaled(self.grid.integration, item.values)
        total: Any = 0.0
        for carrier, factor in item.terms:
            if isinstance(carrier, Composition):
                matrix = self.operator(carrier.left) @ self.operator(carrier.right)
            else:
                matrix = self.operators[carrier.name] if carrier.kind == "response" else self.means[carrier.name]
            total = total + self.scaled(matrix, factor)
        return total if isinstance(total, np.ndarray) else np.zeros((self.grid.size, self.grid.size))

    def _integral(self, item: Integral) -> Any:
        operator = self.operator(item.operator)
        if item.table is None:
            sums = operator.sum(axis=1)
            value = sums[:, None] if item.past == "r" else sums[None, :]
        elif item.past == "r":
            value = operator @ self.table(item.table)
        else:
            value = self.table(item.table) @ operator.T
        return self.scaled(value, item.outer)

    # --- definitions
    def define(self, item: Definition) -> None:
        """Evaluate one kernel or function and keep it; what is known of it from before is replaced."""
        left = self._left(item.own) if item.own or item.differential else None
        if item.kind == "function":
            assert isinstance(item.rest, Pointwise)
            right = self.vector(item.rest)
        elif isinstance(item.rest, OperatorSum):
            right = self._operator(item.rest)
        else:
            right = self.table(item.rest)
        if item.differential:  # dX/dt = L X + B in the first time: (I − J L) X = start + J B
            assert left is not None
            assert item.start is not None
            start, left = self.vector(item.start), self.grid.integration @ left
            right = self.grid.integration @ (np.diag(start) + right if item.kind == "response" else right)
            if item.kind == "function":
                right = start[0] + right
            elif item.kind == "correlation":
                right = solve_causal(left, start[0] + right[:, 0], self.grid.blocks)[None, :] + right
        self._keep(item, right if left is None else solve_causal(left, right, self.grid.blocks))

    def _keep(self, item: Definition, value: Array) -> None:
        home = {"function": self.functions, "response": self.operators}.get(item.kind, self.tables)
        if item.name in home:
            self._known.clear()  # what was made of the old one
            self.derived.clear()
            self._values.pop(item.name, None)
        home[item.name] = (value + value.T) / 2 if item.kind == "correlation" else value

    def _left(self, parts: Sequence[DiagonalPart | ScaledPart]) -> Array:
        """Return L of the terms L X."""
        total = np.zeros((self.grid.size, self.grid.size))
        for part in parts:
            if isinstance(part, DiagonalPart):
                total += np.diag(self.vector(part.values))
            else:
                total += self.scaled(self.operator(part.operator), part.scale)
        return total


def _spread(values: Array, time: str) -> Any:
    """Return values along rows or columns, or the first of them."""
    return values[:, None] if time == "r" else values[None, :] if time == "c" else values[0]


def evaluate(
    definitions: Sequence[Definition], grid: OperatorGrid, means: Mapping[str, Array], known: Kernels | None = None
) -> Kernels:
    """Return all kernels and functions for given means, in the order of the definitions; ``known`` ones stay.

    A correlation is computed when it is read: many are only reported.
    """
    if known is None:
        state = Kernels(grid, means)
    else:
        state = Kernels(grid, means, dict(known.complete()), dict(known.operators), dict(known.functions))
    there = {*state.tables, *state.operators, *state.functions}
    for item in definitions:
        if item.name in there:
            continue
        if item.kind in ("correlation", "cross"):
            state.later[item.name] = item
        else:
            state.define(item)
    return state
