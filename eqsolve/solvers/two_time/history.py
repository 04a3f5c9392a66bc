"""The solved past of a march: its columns, the values on them, and the integration operators of the right factors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.numerics.grids import Array

if TYPE_CHECKING:
    from eqsolve.solvers.two_time.panel import Panel

__all__ = ["SMALLEST_SIZE", "History"]

SMALLEST_SIZE = 1e-3  # of an unknown's largest value, below which its accuracy is not looked at relatively


class History:
    """Everything later panels need to know of earlier ones.

    Attributes
    ----------
    row_edges, edges
        Ends of the row panels, and of the column panels (fewer, once columns have been merged).
    nodes, weights
        The columns and their weights in an integral over the whole past.
    functions, diagonal, first_column, last_row
        One-time functions, K(s, s), K(s, start) and K(now, s) on the columns s.
    last_block
        K(t_i, s) on the newest panel's rows and all columns.
    low, high
        Operators of a right factor r: low[j, k] = ∫_start^{s_j} r(s_j, s) ℓ_k(s) ds and
        high[k, j] = ∫_{s_j}^{now} r(s, s_j) ℓ_k(s) ds with ℓ_k the basis functions of the column panels.
    full, full_factors
        All values of kernels and right factors; kept only if an integrand does not separate.
    largest, sizes
        The largest value of each unknown so far, and its size in recent panels.
    """

    def __init__(self, plan: CompiledPlan, order: int) -> None:
        self.plan, self.order = plan, order
        self.heads = [equation.name for equation in plan.kernels]
        nothing, empty = np.empty(0), np.empty((0, 0))
        self.row_edges: list[float] = []
        self.edges, self.nodes, self.weights = nothing, nothing, nothing
        self.functions = {equation.name: nothing for equation in plan.functions}
        self.diagonal, self.first_column, self.last_row = ({head: nothing for head in self.heads} for _ in range(3))
        self.last_block = {head: empty for head in self.heads}
        self.last_functions = {head: nothing for head in self.functions}
        self.low, self.high = ({index: empty for index in plan.stored} for _ in range(2))
        self.full = {} if plan.separable else {head: empty for head in self.heads}
        self.full_factors = {} if plan.separable else {index: empty for index in plan.stored}
        self.largest, self.sizes = ({head: 0.0 for head in (*self.heads, *self.functions)} for _ in range(2))

    @property
    def now(self) -> float:
        return self.row_edges[-1]

    def extend(self, panel: Panel) -> None:
        """Make a solved panel part of the past; the first one is the start alone."""
        past, total = panel.past, panel.total
        matrix, weights = panel.matrix, panel.matrix[-1]
        for index in self.plan.stored:
            rows = panel.integrals.right(index)
            low, high = np.zeros((total, total)), np.zeros((total, total))
            low[:past, :past], high[:past, :past] = self.low[index], self.high[index]
            low[past:, :past] = rows[:, :past] * self.weights
            low[past:, past:] = matrix * rows[:, past:]
            high[past:, :past] = weights[:, None] * rows[:, :past]
            high[past:, past:] = (weights[:, None] - matrix.T) * rows[:, past:]
            self.low[index], self.high[index] = low, high
            if self.full_factors:
                self.full_factors[index] = np.vstack([padded(self.full_factors[index], total), rows])
        for head, rows in panel.kernels.items():
            self.last_row[head], self.last_block[head] = rows[-1].copy(), rows
            self.diagonal[head] = np.append(self.diagonal[head], np.diagonal(rows[:, past:]))
            self.first_column[head] = np.append(self.first_column[head], rows[:, 0])
            if self.full:
                self.full[head] = np.vstack([padded(self.full[head], total), rows])
        for head, values in panel.functions.items():
            self.last_functions[head] = values
            self.functions[head] = np.append(self.functions[head], values)
        for head, size in panel.sizes.items():
            self.sizes[head] = size
            self.largest[head] = max(self.largest[head], panel.largest(head))
        end = float(panel.times[-1])
        self.row_edges.append(end)
        self.edges = np.append(self.edges, end)
        self.nodes = panel.columns
        self.weights = np.append(self.weights, weights)


def padded(table: Array, width: int) -> Array:
    """Return a table with columns of zeros added."""
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))
