"""Two-time functions as rows of panels, each row panel over the columns of its own time; evaluated anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from eqsolve.solvers.grids import Array, PanelGrid, lagrange, radau

__all__ = ["Record", "RowStore"]


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
        rows = PanelGrid(self.edges, self.order)
        panels = rows.locate(points[:, 0])
        out = np.empty(len(points))
        for panel in np.unique(panels):
            chosen = np.flatnonzero(panels == panel)
            record = self.records[panel]
            weights = self._row_weights(record, points[chosen, 0])
            columns, column_weights = PanelGrid(record.edges, self.order).stencil(points[chosen, 1])
            corner = record.values[name][:, columns]
            out[chosen] = np.einsum("pi,ipk,pk->p", weights, corner, column_weights)
        return out

    def table(self, name: str, times: Array, symmetric: bool) -> Array:
        """Return a kernel on all pairs of given times: folded over if symmetric, zero above the diagonal if not."""
        rows = PanelGrid(self.edges, self.order)
        out = np.zeros((len(times), len(times)))
        for index, (time, panel) in enumerate(zip(times, rows.locate(times), strict=True)):
            record = self.records[panel]
            row = (self._row_weights(record, np.array([time])) @ record.values[name])[0]
            earlier = times <= time
            out[index, earlier] = PanelGrid(record.edges, self.order).interpolate(row, times[earlier])
        if symmetric:
            upper = times[:, None] < times[None, :]
            out[upper] = out.T[upper]
        return out

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
            values = {
                name: flat[f"values_{name}"][cells[index] : cells[index + 1]].reshape(order + 1, -1) for name in names
            }
            edges = flat["column_edges"][places[index] : places[index + 1]]
            records.append(Record(float(ends[index]), float(ends[index + 1]), edges, values))
        return cls(order, tuple(records))
