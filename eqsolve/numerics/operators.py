"""Kernels as matrices on a grid of nodes: responses as integration operators, correlations as tables of values.

On the nodes of a panel grid, integration from the start is one block-triangular matrix J; the composition of causal
operators is a matrix product; a kernel that enters its own equation linearly is one triangular solve. With
J_η = η × (strictly lower ones) on a uniform grid the same formulas are the discrete-time system exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from sympy import Add, Basic, Expr, Mul

from eqsolve.compile.lowering import lower
from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E, Int
from eqsolve.language.symbols import Correlation, Function, Response, Value
from eqsolve.passes.forms.path_form import PathForm
from eqsolve.passes.forms.sectors import COLUMN, MIDDLE, ROW
from eqsolve.numerics.diagonal_blocks import recovery
from eqsolve.numerics.grids import Array, PanelGrid, radau

__all__ = ["Closure", "OperatorGrid"]


@dataclass(frozen=True, eq=False)
class OperatorGrid:
    """Nodes in time, blocks that are solved together, and the integration matrix J."""

    nodes: Array
    blocks: tuple[slice, ...]
    integration: Array
    panels: PanelGrid | None

    @property
    def size(self) -> int:
        return len(self.nodes)

    @classmethod
    def from_panels(cls, panels: PanelGrid) -> OperatorGrid:
        """Return the operators of a panel grid; node 0 is a block of its own."""
        m, size, rule = panels.order, panels.size, radau(panels.order)
        matrix = np.zeros((size, size))
        blocks = [slice(0, 1)]
        for index, step in enumerate(np.diff(panels.edges)):
            part = slice(1 + index * m, 1 + (index + 1) * m)
            matrix[part, part] = step * rule.integrals
            matrix[part.stop :, part] = step * rule.weights
            blocks.append(part)
        return cls(panels.nodes, tuple(blocks), matrix, panels)

    @classmethod
    def discrete(cls, step: float, start: float, end: float) -> OperatorGrid:
        """Return the exact discrete-time system with a given step: J is step × strictly lower ones."""
        count = round((end - start) / step) + 1
        nodes = start + step * np.arange(count)
        return cls(nodes, tuple(slice(i, i + 1) for i in range(count)), step * np.tri(count, k=-1), None)

    def head(self, blocks: int) -> OperatorGrid:
        """Return the grid's first blocks."""
        stop = self.blocks[blocks - 1].stop
        panels = None if self.panels is None else PanelGrid(self.panels.edges[:blocks], self.panels.order)
        return OperatorGrid(self.nodes[:stop], self.blocks[:blocks], self.integration[:stop, :stop], panels)

    def values(self, operator: Array, extend: bool = False) -> Array:
        """Return the kernel values of a causal operator on the nodes: zero above the diagonal, or continued across
        it."""
        out = np.zeros_like(operator)
        if self.panels is None:
            step = self.nodes[1] - self.nodes[0]
            return operator / step
        order, steps = self.panels.order, np.diff(self.panels.edges)
        for part, step in zip(self.blocks[1:], steps, strict=True):
            out[part.stop :, part] = operator[part.stop :, part] / (step * radau(order).weights)
            known = operator[part, part].ravel() / step
            if part.start > 1:
                known = np.concatenate([known, out[part, part.start - 1]])
            block = (recovery(order, part.start > 1) @ known).reshape(order, order)
            out[part, part] = block if extend else np.where(self.nodes[part][:, None] >= self.nodes[part], block, 0.0)
            if part.start == 1:  # the start is no node of the rule: continue the first panel to it
                out[1:, 0] = np.vstack([block, out[part.stop :, part]]) @ self._back
                out[0, 0] = out[part, 0] @ self._back
        return out

    @functools.cached_property
    def _back(self) -> Array:
        """Weights that continue a panel's values to its start."""
        from eqsolve.numerics.grids import lagrange

        assert self.panels is not None
        return np.asarray(lagrange(radau(self.panels.order).nodes, np.zeros(1))[0])


class Closure:
    """Evaluates the deterministic relations of a system: kernels, functions, covariances, from the means.

    Kernels are evaluated in the order of their dependence; one that enters its own equation linearly, under an integral
    with an operator on its left, is solved for.
    """

    def __init__(self, form: PathForm, *, cyclic: bool = False) -> None:
        self.form = form
        self.order = [*form.kernels, *form.functions] if cyclic else self._sorted()
        self.lowered: dict[Any, Any] = {}
        self.parts: dict[Expr, tuple[Expr, Expr]] = {}

    def _sorted(self) -> list[Equation]:
        equations = {eq.head: eq for eq in (*self.form.kernels, *self.form.functions)}
        graph = nx.DiGraph()
        graph.add_nodes_from(equations)
        for head, equation in equations.items():
            for value in _outside_means(equation.rhs):
                if value.head in equations and value.head != head:
                    graph.add_edge(value.head, head)
        try:
            return [equations[head] for head in nx.lexicographical_topological_sort(graph, key=lambda h: h.name)]
        except nx.NetworkXUnfeasible:
            cycle = " -> ".join(edge[0].name for edge in nx.find_cycle(graph))
            raise ModelError(
                f"the kernels {cycle} define each other beside the means over paths; there is no solver yet"
            ) from None

    def carried(self, term: Expr) -> tuple[Expr, Expr]:
        """Return the causal factor of a term, and the rest."""
        if term not in self.parts:
            carriers = [factor for factor in Mul.make_args(term) if self.is_operator(factor)]
            if len(carriers) != 1:
                raise ModelError(f"`{term}` is not a response: it should hold exactly one causal factor")
            self.parts[term] = (carriers[0], term / carriers[0])
        return self.parts[term]

    def is_operator(self, factor: Expr) -> bool:
        if isinstance(factor, Value):
            return isinstance(factor.head, Response)
        if isinstance(factor, E):
            return any(mean.node == factor and mean.kind == "response" for e in self.form.ensembles for mean in e.means)
        return isinstance(factor, Int)

    def evaluate(self, grid: OperatorGrid, means: Mapping[E, Array]) -> Evaluation:
        """Return all kernels and functions for given means."""
        state = Evaluation(self, grid, dict(means))
        for equation in self.order:
            state.define(equation)
        return state


@functools.lru_cache(maxsize=4096)
def _move(expr: Expr, old: Basic, new: Basic) -> Expr:
    """Return an expression at another time."""
    return expr.xreplace({old: new})


@functools.lru_cache(maxsize=4096)
def _is_causal(kernel: Expr) -> bool:
    return any(isinstance(value.head, Response) for value in _outside_means(kernel))


@functools.lru_cache(maxsize=1024)
def _own_and_rest(equation: Equation) -> tuple[tuple[Expr, ...], Expr]:
    """Return the terms of an equation that hold its own unknown, and the sum of the others."""
    own: list[Expr] = []
    rest: list[Expr] = []
    for term in Add.make_args(equation.rhs):
        (own if any(value.head == equation.head for value in _outside_means(term)) else rest).append(term)
    return tuple(own), Add(*rest)


@functools.lru_cache(maxsize=1024)
def _split(node: Int) -> tuple[Expr, Expr, Expr]:
    """Return an integrand as left factor in (ROW, MIDDLE), right factor in (MIDDLE, COLUMN), outer factor."""
    integrand = node.integrand.xreplace({node.variable: MIDDLE})
    left, right, outer = [], [], []
    for factor in Mul.make_args(integrand):
        moments = factor.free_symbols & {ROW, COLUMN, MIDDLE}
        if MIDDLE not in moments:
            outer.append(factor)
        elif COLUMN not in moments:
            left.append(factor)
        elif ROW not in moments:
            right.append(factor)
        else:
            raise ModelError(f"the integrand of `{node}` does not separate in its three times")
    return Mul(*left), Mul(*right), Mul(*outer)


def _outside_means(expr: Basic) -> list[Value]:
    if isinstance(expr, E):
        return []
    if isinstance(expr, Value):
        return [expr]
    return [value for arg in expr.args for value in _outside_means(arg)]


class Evaluation:
    """Kernels and functions on one grid: ``tables`` of correlations, ``operators`` of responses, ``functions``."""

    def __init__(self, closure: Closure, grid: OperatorGrid, means: dict[E, Array]) -> None:
        self.closure, self.grid, self.means = closure, grid, means
        self.tables: dict[Any, Array] = {}
        self.operators: dict[Any, Array] = {}
        self.functions: dict[Any, Array] = {}

    def define(self, equation: Equation) -> None:
        """Evaluate one kernel or function and keep it."""
        head, size = equation.head, self.grid.size
        if equation.is_differential:
            raise ModelError(f"{equation.label}: a differential equation beside stochastic processes has no solver yet")
        if isinstance(head, Function):
            self.functions[head] = self.vector(equation.rhs)
            return
        own, rest = _own_and_rest(equation)
        respond = isinstance(head, Response)
        base = self.operator(rest) if respond else self.table(rest)
        if own:
            left = sum((self.left_of(term, equation) for term in own), np.zeros((size, size)))
            base = np.linalg.solve(np.eye(size) - left, base)
        if respond:
            self.operators[head] = base
        else:
            self.tables[head] = (base + base.T) / 2

    def define_differential(self, equation: Equation, start: Array | float) -> None:
        """Evaluate an unknown given by its derivative in the first time: dX/dt = L X + B, so (I − J L) X = start + J B.

        ``start`` is the value on the diagonal for a response, at the start for a correlation or a function.
        """
        head, size, integration = equation.head, self.grid.size, self.grid.integration
        own, rest = _own_and_rest(equation)
        left = sum((self.left_of(term, equation) for term in own), np.zeros((size, size)))
        system = np.eye(size) - integration @ left
        if isinstance(head, Function):
            self.functions[head] = np.linalg.solve(system, start + integration @ self.vector(rest))
        elif isinstance(head, Response):
            source = np.diag(np.broadcast_to(start, (size,))) + self.operator(rest)
            self.operators[head] = np.linalg.solve(system, integration @ source)
        else:
            source = self.table(rest)
            first = np.linalg.solve(system, start + integration @ source[:, 0])
            table = np.linalg.solve(system, first[None, :] + integration @ source)
            self.tables[head] = (table + table.T) / 2

    def left_of(self, term: Expr, equation: Equation) -> Array:
        """Return L where a term reads L X, X being the unknown itself."""
        assert equation.target is not None
        plain = equation.target
        if term.has(plain) and not term.has(Int):
            coefficient = term / plain
            if not coefficient.has(plain) and COLUMN not in coefficient.free_symbols:
                return np.diag(self.vector(coefficient))
        coefficient, integral = term.as_independent(Int)
        if isinstance(integral, Int):
            left, right, outer = _split(integral)
            if isinstance(equation.head, Function):
                left, right = self._function_factor(left, equation)
            own = isinstance(right, Value) and right.head == equation.head
            if own and not any(value.head == equation.head for value in _outside_means(left)):
                scale = self.table(coefficient * outer)
                return scale * self.kernel_operator(left)
        raise ModelError(
            f"{equation.label}: `{equation.key}` enters its own equation in `{term}` in a way that cannot be solved for"
        )

    def _function_factor(self, left: Expr, equation: Equation) -> tuple[Expr, Expr]:
        """Take a one-time unknown at the integration time out of an integrand."""
        own = [f for f in Mul.make_args(left) if isinstance(f, Value) and f.head == equation.head]
        return (left / own[0], own[0]) if len(own) == 1 else (left, left)

    # --- values -----------------------------------------------------------------------------------------------------
    def vector(self, expr: Expr) -> Array:
        """Return an expression of ROW on the nodes."""
        value = np.asarray(self.pointwise(expr), float)
        return np.broadcast_to(value, (self.grid.size, 1))[:, 0].copy()

    def table(self, expr: Expr) -> Array:
        """Return an expression of (ROW, COLUMN) on all pairs of nodes."""
        return np.array(np.broadcast_to(np.asarray(self.pointwise(expr), float), (self.grid.size, self.grid.size)))

    def pointwise(self, expr: Expr) -> Any:
        function, leaves = self._lowered(expr)
        return function(*(self.leaf(item) for item in leaves))[0]

    def _lowered(self, expr: Expr) -> tuple[Any, list[Basic]]:
        cache = self.closure.lowered
        if expr not in cache:
            leaves = _leaves(expr)
            cache[expr] = (lower([expr], leaves), leaves)
        return cache[expr]

    def leaf(self, item: Basic) -> Any:
        nodes = self.grid.nodes
        if item in (ROW, COLUMN):
            return nodes[:, None] if item == ROW else nodes[None, :]
        if isinstance(item, E):
            value = self.means[item]
            return value[:, None] if value.ndim == 1 else value
        if isinstance(item, Int):
            return self.integral(item)
        assert isinstance(item, Value)
        return self.read(item)

    def read(self, item: Value) -> Any:
        head, moments = item.head, item.moments
        if isinstance(head, Function):
            values = self.functions[head]
            return values[:, None] if moments[0] == ROW else values[None, :] if moments[0] == COLUMN else values[0]
        table = self.tables[head] if isinstance(head, Correlation) else self.grid.values(self.operators[head])
        first, second = moments
        if first == second:
            diagonal = np.diagonal(table)
            return diagonal[:, None] if first == ROW else diagonal[None, :] if first == COLUMN else diagonal[0]
        if (first, second) == (ROW, COLUMN):
            return table
        if (first, second) == (COLUMN, ROW):
            return table.T
        moving = first if first in (ROW, COLUMN) else second
        edge = table[:, 0] if moving == first else table[0]
        return edge[:, None] if moving == ROW else edge[None, :]

    # --- operators ---------------------------------------------------------------------------------------------------
    def operator(self, expr: Expr) -> Array:
        """Return a response expression of (ROW, COLUMN) as an operator: a sum of operators times pointwise factors."""
        total = np.zeros((self.grid.size, self.grid.size))
        for term in Add.make_args(expr):
            if term == 0:
                continue
            carrier, rest = self.closure.carried(term)
            total += self.carrier(carrier) * np.asarray(self.pointwise(rest), float)
        return total

    def carrier(self, factor: Expr) -> Array:
        if isinstance(factor, Value):
            return self.operators[factor.head]
        if isinstance(factor, E):
            return self.means[factor]
        assert isinstance(factor, Int)
        left, right, outer = _split(factor)
        product = self.kernel_operator(left) @ self.kernel_operator(_move(right, MIDDLE, ROW))
        return np.asarray(self.pointwise(outer), float) * product

    def kernel_operator(self, expr: Expr) -> Array:
        """Return the operator of a kernel given in (ROW, MIDDLE) or (ROW, COLUMN)."""
        kernel = _move(expr, MIDDLE, COLUMN)
        if _is_causal(kernel):
            return self.operator(kernel)
        return self.grid.integration * np.asarray(self.pointwise(kernel), float)

    # --- integrals ----------------------------------------------------------------------------------------------------
    def integral(self, node: Int) -> Any:
        """Return an integral as a table (or a column vector when it depends on one time only)."""
        left, right, outer = _split(node)
        scale = np.asarray(self.pointwise(outer), float)
        if node.high == ROW:
            operator = self.kernel_operator(left)
            if right == 1:
                return scale * operator.sum(axis=1)[:, None]
            return scale * (operator @ self.table(_move(right, MIDDLE, ROW)))
        operator = self.kernel_operator(_move(right, COLUMN, ROW))
        if left == 1:
            return scale * operator.sum(axis=1)[None, :]
        return scale * (self.table(_move(left, MIDDLE, COLUMN)) @ operator.T)


def _leaves(expr: Basic) -> list[Basic]:
    """Return the outermost values, expectations, integrals and times of an expression."""
    found: dict[Basic, None] = {}

    def walk(item: Basic) -> None:
        if isinstance(item, Value | E | Int) or item in (ROW, COLUMN):
            found[item] = None
            return
        for arg in item.args:
            walk(arg)

    walk(expr)
    return list(found)
