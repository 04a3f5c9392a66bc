"""Integrals over the past and the current panel, for all rows of the panel at once.

The columns are those of the past followed by the panel's own nodes. Integrals over past columns are products with the
operators in ``History``; the panel's own part uses the collocation matrix A, A[i, l] = ∫^{t_i} ℓ_l, as it is iterated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.compile.two_time import CompiledContraction, Slot
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import radau
from eqsolve.solvers.two_time.history import padded

if TYPE_CHECKING:
    from eqsolve.solvers.two_time.panel import Panel

__all__ = ["Integrals"]


class Integrals:
    """The integrals of one panel. Factors are evaluated once per sweep, what the panel does not change once."""

    def __init__(self, panel: Panel) -> None:
        self.panel, self.history, self.plan = panel, panel.history, panel.plan
        self.past = panel.past
        self._factors: dict[int, Array] = {}
        self._products: dict[tuple[int, Any, str], Array] = {}

    def forget(self, head: str) -> None:
        """Drop the factors that read an unknown, because it has changed."""
        for index in self.plan.readers[head]:
            self._factors.pop(index, None)

    def left(self, index: int) -> Array:
        """Return a factor on the panel's rows and all columns."""
        alias = self.plan.aliases[index]
        if alias is not None:
            return self.panel.kernels[alias]
        if index not in self._factors:
            value = np.asarray(self.plan.factors[index](self.panel.read), float)
            self._factors[index] = self.panel.shaped(value, self.panel.total)
        return self._factors[index]

    right = left  # the same values, read as a function of (middle, column) instead of (row, middle)

    def _past_product(self, index: int, what: Any, span: str, operator: Array) -> Array:
        """Return (left factor on past columns) @ operator; kept for the whole panel if the factor is known beforehand."""
        key = (index, what, span)
        if key in self._products:
            return self._products[key]
        product: Array = self.left(index)[:, : self.past] @ operator
        if self.plan.aliases[index] is None and self.plan.factors[index].settled:
            self._products[key] = product
        return product

    def row(self, entry: CompiledContraction) -> Array:
        """∫_start^t left(t, s) ds for all rows t."""
        before = self._past_product(entry.left, None, "all", self.history.weights)
        own: Array = np.einsum("ij,ij->i", self.panel.matrix, self.left(entry.left)[:, self.past :])
        return before + own

    def table(self, entry: CompiledContraction) -> Array:
        """The integral for all rows and columns."""
        if entry.joint is not None:
            return self._joint(entry)
        if entry.right is None:
            low = self._running(self.left(entry.left))
            return low if entry.span == "low" else self.row(entry)[:, None] - low
        return self._low(entry.left, entry.right) if entry.span == "low" else self._high(entry.left, entry.right)

    def _low(self, first: int, second: int) -> Array:
        """∫_start^{t'} left(t, s) right(t', s) ds for all rows t and columns t'."""
        past, matrix = self.past, self.panel.matrix
        left, rows = self.left(first), self.right(second)
        out = np.empty(rows.shape)
        out[:, :past] = self._past_product(first, second, "low", self.history.low[second].T)
        out[:, past:] = (left[:, :past] * self.history.weights) @ rows[:, :past].T
        out[:, past:] += left[:, past:] @ (matrix * rows[:, past:]).T
        return out

    def _high(self, first: int, second: int) -> Array:
        """∫_{t'}^t left(t, s) right(s, t') ds for all rows t and columns t'."""
        past, matrix = self.past, self.panel.matrix
        left, rows = self.left(first), self.right(second)
        own, block = matrix * left[:, past:], rows[:, past:]
        out = own @ rows
        out[:, :past] += self._past_product(first, second, "high", self.history.high[second])
        out[:, past:] -= left[:, past:] @ (matrix.T * block)
        return out

    def _running(self, left: Array) -> Array:
        """∫_start^{t'} left(t, s) ds for all rows t and columns t'."""
        past, rule = self.past, radau(self.history.order).integrals
        out = np.zeros(left.shape)
        parts = left[:, 1:past].reshape(len(left), -1, len(rule)) * np.diff(self.history.edges)[:, None] @ rule.T
        ends = np.cumsum(parts[:, :, -1], axis=1)
        out[:, 1:past] = (parts + (ends - parts[:, :, -1])[:, :, None]).reshape(len(left), -1)
        out[:, past:] = out[:, past - 1 : past] + left[:, past:] @ self.panel.matrix.T
        return out

    # --- integrands that do not separate ------------------------------------------------------------------------
    def _joint(self, entry: CompiledContraction) -> Array:
        """An integrand that does not separate, row by row: cost columns² per row and sweep."""
        past, total, joint = self.past, self.panel.total, entry.joint
        assert joint is not None
        left = self.left(entry.left)
        right = np.ones((total, total))
        if entry.right is not None:
            right = np.vstack([padded(self.history.full_factors[entry.right], total), self.right(entry.right)])
        full = {head: np.vstack([padded(table, total), self.panel.kernels[head]]) for head, table in self.history.full.items()}
        integrals = self._integration_matrix()
        out = np.empty(left.shape)
        for i in range(len(left)):
            values = np.broadcast_to(joint(self._joint_reader(i, full)), (total, total))
            if entry.span == "low":
                out[i] = np.sum(integrals * values * left[i] * right, axis=1)
            else:
                out[i] = np.sum((integrals[past + i] - integrals) * values * left[i] * right.T, axis=1)
        return out

    def _integration_matrix(self) -> Array:
        """J[j, k]: weights of ∫_start^{s_j} on all columns."""
        total, m = self.panel.total, self.history.order
        rule = radau(m).integrals
        matrix = np.zeros((total, total))
        for panel, step in enumerate(np.append(np.diff(self.history.edges), self.panel.step)):
            rows = slice(1 + panel * m, 1 + (panel + 1) * m)
            matrix[rows.stop :, rows] = step * rule[-1]
            matrix[rows, rows] = step * rule
        return matrix

    def _joint_reader(self, row: int, full: dict[str, Array]) -> Callable[[Slot], Any]:
        """Read values on (columns, middle nodes) for one row."""
        here = self.past + row

        def spread(values: Array, letter: str) -> Any:
            if letter in "r0":
                return values[here if letter == "r" else 0]
            return values[:, None] if letter == "c" else values[None, :]

        def read(slot: Slot) -> Any:
            name, times = slot
            if len(times) == 1:
                return spread(self.panel.read((name, "c"))[0], times)
            table = full[name]
            if times[0] == times[1]:
                return spread(np.diagonal(table), times[0])
            if times[0] == "r":
                return spread(table[here], times[1])
            if times[1] == "0":
                return spread(table[:, 0], times[0])
            return table if times == "cm" else table.T

        return read
