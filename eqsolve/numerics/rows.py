"""Two-time functions as rows of panels, each row panel over the columns of its own time; evaluated anywhere."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, lagrange, radau


@dataclass(frozen=True, eq=False)
class Record:
    """One panel of rows as it was solved: values on its left end and its nodes, over the columns of that time."""

    start: float
    end: float
    edges: Array
    values: dict[str, Array]


@dataclass(frozen=True, eq=False)
class RowStore:
    """All row panels of a solution, for t ≥ t'."""

    order: int
    records: tuple[Record, ...]

    def evaluate(self, name: str, points: Array) -> Array:
        """Return a kernel at pairs with t ≥ t', by the polynomials of the panels that hold them."""
        panels = self._grid.locate(points[:, 0])
        out = np.empty(len(points))
        for panel in np.unique(panels):
            chosen = np.flatnonzero(panels == panel)
            record = self.records[panel]
            weights = self._row_weights(record, points[chosen, 0])
            columns, column_weights = PanelGrid(record.edges, self.order).stencil(points[chosen, 1])
            corner = record.values[name][:, columns]
            out[chosen] = np.einsum("pi,ipk,pk->p", weights, corner, column_weights)
        return out

    def block(self, times: Array, columns: Array) -> dict[str, Array]:
        """Return all kernels on rows × columns; where a column is later than its row, roughly, along the diagonal."""
        out = {name: np.empty((len(times), len(columns))) for name in self.records[0].values}
        panels = self._grid.locate(times)
        for panel in np.unique(panels):
            chosen, record = np.flatnonzero(panels == panel), self.records[panel]
            inside = int(np.searchsorted(columns, record.end, side="right"))
            weights = self._row_weights(record, times[chosen])
            transfer = PanelGrid(record.edges, self.order).interpolation(columns[:inside]).T
            for name, table in out.items():
                table[chosen, :inside] = weights @ record.values[name] @ transfer
            if inside < len(columns):  # columns after the panel's end: the same distance from the diagonal, at the end
                shifted = np.maximum(times[chosen, None] - (columns[inside:] - record.end), record.start)
                late = self._row_weights(record, shifted.ravel()).reshape(*shifted.shape, self.order + 1)
                for name, table in out.items():
                    table[chosen, inside:] = late @ record.values[name][:, -1]
        return out

    def tables(self, times: Array) -> dict[str, Array]:
        """Return all kernels on all pairs of given times in ascending order, zero where t < t'."""
        out = {name: np.zeros((len(times), len(times))) for name in self.records[0].values}
        panels = self._grid.locate(times)
        for panel in np.unique(panels):
            chosen = np.flatnonzero(panels == panel)
            until = chosen[-1] + 1
            for name, table in self.block(times[chosen], times[:until]).items():
                out[name][chosen, :until] = np.where(times[:until] <= times[chosen, None], table, 0.0)
        return out

    @functools.cached_property
    def _grid(self) -> PanelGrid:
        return PanelGrid(self.edges, self.order)

    def _row_weights(self, record: Record, times: Array) -> Array:
        return PanelGrid(np.array([record.start, record.end]), self.order).stencil(times)[1]

    @property
    def edges(self) -> Array:
        return np.array([self.records[0].start, *(record.end for record in self.records)])

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for record in self.records for table in record.values.values())

    @classmethod
    def from_tables(cls, grid: PanelGrid, tables: dict[str, Array]) -> RowStore:
        """Return kernels given on all pairs of a grid's nodes; causal ones are continued across the diagonal there."""
        m = grid.order
        back = lagrange(radau(m).nodes, np.zeros(1))[0]
        records = []
        for panel in range(grid.panels):
            first, last = 1 + panel * m, 1 + (panel + 1) * m
            values = {}
            for name, table in tables.items():
                rows = table[first - 1 : last, :last].copy()
                rows[0, first:] = back @ table[first:last, first:last]
                values[name] = rows
            ends = float(grid.edges[panel]), float(grid.edges[panel + 1])
            records.append(Record(*ends, grid.edges[: panel + 2], values))
        return cls(m, tuple(records))

    def flatten(self) -> dict[str, Array]:
        """Return the store as flat arrays, to be saved."""
        names = list(self.records[0].values)
        flat = {
            "row_ends": self.edges,
            "column_counts": np.array([len(record.edges) for record in self.records]),
            "column_edges": np.concatenate([record.edges for record in self.records]),
        }
        return flat | {f"values_{n}": np.concatenate([r.values[n].ravel() for r in self.records]) for n in names}

    @classmethod
    def unflatten(cls, order: int, flat: dict[str, Array], names: Iterable[str]) -> RowStore:
        """Return the store from its flat arrays."""
        ends, counts = flat["row_ends"], flat["column_counts"].astype(int)
        places = np.concatenate([[0], np.cumsum(counts)])
        widths = 1 + (counts - 1) * order
        cells = np.concatenate([[0], np.cumsum((order + 1) * widths)])
        records = []
        for index in range(len(counts)):
            values = {name: flat[f"values_{name}"][cells[index] : cells[index + 1]].reshape(order + 1, -1) for name in names}
            edges = flat["column_edges"][places[index] : places[index + 1]]
            records.append(Record(float(ends[index]), float(ends[index + 1]), edges, values))
        return cls(order, tuple(records))


def spread_to_times(change: Array) -> Array:
    """From changes between the output times to the times themselves: the largest among the neighbours."""
    out = np.zeros((len(change) + 1, len(change) + 1))
    for rows in (slice(1, None), slice(None, -1)):
        for columns in (slice(1, None), slice(None, -1)):
            out[rows, columns] = np.maximum(out[rows, columns], change)
    return out


def mirrored(table: Array) -> Array:
    """Return a symmetric table from its values on and below the diagonal."""
    return np.asarray(np.tril(table) + np.tril(table, -1).T)
