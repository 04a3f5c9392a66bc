"""Piecewise Lagrange interpolation of two-time functions: row panels with columns of their own."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from eqsolve.numerics.arrays import Array, chunk
from eqsolve.numerics.grids import WIDTH, PanelGrid, lagrange, radau
from eqsolve.numerics.operators import continuation, interpolate_triangle

# Two-time functions over many decades: rows of panels that grow with t. At late times C(t, t')
# changes slowly with t at fixed lag near the diagonal, at fixed t' near the start, and at fixed
# ratio between. A row panel [A, B] therefore has column panels fixed in the lag, up to a share of
# A; fixed in t', up to the same share; and a few that stretch with t between. On each a function is
# a polynomial of degree n in the place y and of degree m in t. Times are counted from the start.


@dataclass(frozen=True, eq=False)
class Layout:
    """The grid of one row panel."""

    begin: float  # of the panel
    end: float
    rows: int  # Radau nodes in t
    nodes: int  # on each column panel
    lags: Array  # edges, from 0, of the column panels that are fixed in t − t'
    columns: Array  # and of those that are fixed in t'
    middle: int  # how many panels stretch between these

    @property
    def panels(self) -> int:
        return len(self.lags) + len(self.columns) - 2 + self.middle

    @property
    def width(self) -> int:
        """Nodes of a row, the one on the diagonal first."""
        return self.panels * self.nodes + 1

    @functools.cached_property
    def times(self) -> Array:
        """The left end and the nodes in t."""
        times = self.begin + (self.end - self.begin) * radau(self.rows).with_start
        times[-1] = self.end
        return times

    def places(self, time: float) -> tuple[Array, Array, Array, Array]:
        """Return the nodes of a row: their lags and columns, and the derivatives of the lag by t and by the place."""
        y, widths, ends = radau(self.nodes).nodes, np.diff(self.lags), np.diff(self.columns)[::-1]
        stretch = time - self.lags[-1] - self.columns[-1]
        near = self.lags[:-1, None] + widths[:, None] * y
        near[:, -1] = self.lags[1:]
        share = (np.arange(self.middle)[:, None] + y) / self.middle
        far = self.columns[:0:-1, None] - ends[:, None] * y
        far[:, -1] = self.columns[-2::-1]
        lag = [np.zeros(1), near.ravel(), (self.lags[-1] + share * stretch).ravel(), (time - far).ravel()]
        column = [np.array([time]), (time - near).ravel(), (self.columns[-1] + (1 - share) * stretch).ravel(), far.ravel()]
        rate = [np.zeros(1 + near.size), share.ravel(), np.ones(far.size)]
        by_place = [np.ones(1), np.repeat(widths, self.nodes), np.full(share.size, stretch / self.middle)]
        by_place.append(np.repeat(ends, self.nodes))
        return np.concatenate(lag), np.concatenate(column), np.concatenate(rate), np.concatenate(by_place)

    def stencil(self, times: Array, columns: Array, lags: Array) -> tuple[Array, Array]:
        """Return the n + 1 nodes of a row that hold each pair, and their weights."""
        panel, y = np.empty(len(times), int), np.empty(len(times))
        near = lags <= self.lags[-1]
        far = ~near & (columns <= self.columns[-1])
        between = ~near & ~far
        place = np.clip(np.searchsorted(self.lags, lags[near]) - 1, 0, len(self.lags) - 2)
        panel[near], y[near] = place, (lags[near] - self.lags[place]) / np.diff(self.lags)[place]
        place = np.clip(np.searchsorted(self.columns, columns[far]) - 1, 0, len(self.columns) - 2)
        panel[far], y[far] = self.panels - 1 - place, (self.columns[place + 1] - columns[far]) / np.diff(self.columns)[place]
        stretch = times[between] - self.lags[-1] - self.columns[-1]
        share = (lags[between] - self.lags[-1]) / stretch * self.middle
        place = np.clip(share.astype(int), 0, self.middle - 1)
        panel[between], y[between] = len(self.lags) - 1 + place, share - place
        return panel[:, None] * self.nodes + np.arange(self.nodes + 1), lagrange(radau(self.nodes).with_start, y)

    def in_time(self, times: Array) -> Array:
        """Return the weights of the left end and the nodes in t."""
        return lagrange(radau(self.rows).with_start, (times - self.begin) / (self.end - self.begin))


@dataclass(frozen=True, eq=False)
class Solved:
    """A row panel with its solution: kernels on (left end and nodes in t, nodes of a row), functions on the former."""

    layout: Layout
    kernels: dict[str, Array]
    functions: dict[str, Array]

    def kernel(self, name: str, times: Array, columns: Array, lags: Array) -> Array:
        """Return a kernel at pairs on the panel."""
        out = np.empty(len(times))
        step = chunk(len(self.kernels[name]))
        for first in range(0, len(times), step):
            part = slice(first, first + step)
            places, weights = self.layout.stencil(times[part], columns[part], lags[part])
            in_time = self.layout.in_time(times[part])
            out[part] = np.einsum("pi,ipk,pk->p", in_time, self.kernels[name][:, places], weights, optimize=True)
        return out

    def function(self, name: str, times: Array) -> Array:
        return np.asarray(self.layout.in_time(times) @ self.functions[name])

    def flat(self, name: str) -> Array:
        return self.kernels[name].ravel() if name in self.kernels else self.functions[name]


@dataclass(frozen=True, eq=False)
class AgingRows:
    """A solution: its beginning on panels of rows and columns, what follows on row panels that grow with t.

    ``start`` is the first time; ``early`` counts from there as the model does, the panels from 0.
    """

    start: float
    early: RowStore
    panels: tuple[Solved, ...]

    @functools.cached_property
    def ends(self) -> Array:
        """Where the beginning and each row panel ends, counted from the start."""
        return np.array([self.early.records[-1].end - self.start, *(item.layout.end for item in self.panels)])

    def by_panel(self, times: Array) -> Iterator[tuple[Solved | None, Array]]:
        """Yield every panel that holds some of the times, None for the beginning, with the places of these times."""
        where = np.minimum(np.searchsorted(self.ends, times), len(self.panels))
        for place in np.unique(where):
            yield self.panels[place - 1] if place else None, np.flatnonzero(where == place)

    def pairs(self, name: str, times: Array, columns: Array, lags: Array) -> Array:
        """Return a kernel at pairs counted from the start; lags are given too, since t − t' would lose digits."""
        out = np.empty(len(times))
        for panel, chosen in self.by_panel(times):
            if panel is not None:
                out[chosen] = panel.kernel(name, times[chosen], columns[chosen], lags[chosen])
            else:
                points = self.start + np.stack([times[chosen], columns[chosen]], axis=1)
                out[chosen] = self.early.evaluate(name, points)
        return out

    def evaluate(self, name: str, points: Array) -> Array:
        """Return a kernel at pairs with t ≥ t'."""
        moved = points - self.start
        return self.pairs(name, moved[:, 0], moved[:, 1], points[:, 0] - points[:, 1])

    def tables(self, times: Array) -> dict[str, Array]:
        """Return all kernels on all pairs of given times in ascending order, zero where t < t'."""
        rows, columns = np.tril_indices(len(times))
        out = {}
        for name in self.early.records[0].values:
            out[name] = np.zeros((len(times), len(times)))
            out[name][rows, columns] = self.evaluate(name, np.stack([times[rows], times[columns]], axis=1))
        return out

    def grid(self, order: int) -> PanelGrid:
        """Return all row panels as a grid in t."""
        return PanelGrid(np.concatenate([self.early.edges, self.start + self.ends[1:]]), order)


@dataclass(frozen=True, eq=False)
class Record:
    """One panel of rows as it was solved: values on its left end and its nodes, over the columns of that time."""

    start: float
    end: float
    edges: Array
    values: dict[str, Array]


@dataclass(frozen=True, eq=False)
class RowStore:
    """All row panels of a solution, for t ≥ t'; ``other`` goes on differently to t' > t."""

    order: int
    records: tuple[Record, ...]
    other: RowStore | None = None

    def evaluate(self, name: str, points: Array) -> Array:
        """Return a kernel at pairs with t ≥ t', by the polynomials of the panels that hold them."""
        out = np.empty(len(points))
        for record, chosen in self._by_panel(points[:, 0]):
            weights = self._row_weights(record, points[chosen, 0])
            columns, column_weights = PanelGrid(record.edges, self.order).stencil(points[chosen, 1])
            corner = record.values[name][:, columns]
            out[chosen] = np.einsum("pi,ipk,pk->p", weights, corner, column_weights)
        return out

    def error(self, name: str, points: Array) -> Array | float:
        """Return the error of interpolation near the diagonal, from the other continuation."""
        return 0.0 if self.other is None else np.abs(self.evaluate(name, points) - self.other.evaluate(name, points))

    def block(self, times: Array, columns: Array) -> dict[str, Array]:
        """Return all kernels on rows × columns; where a column is later than its row, roughly, along the diagonal."""
        out = {name: np.empty((len(times), len(columns))) for name in self.records[0].values}
        for record, chosen in self._by_panel(times):
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
        for _, chosen in self._by_panel(times):
            until = chosen[-1] + 1
            for name, table in self.block(times[chosen], times[:until]).items():
                out[name][chosen, :until] = np.where(times[:until] <= times[chosen, None], table, 0.0)
        return out

    def _by_panel(self, times: Array) -> Iterator[tuple[Record, Array]]:
        """Yield every panel that holds some of the times, with the places of these."""
        panels = PanelGrid(self.edges, self.order).locate(times)
        for panel in np.unique(panels):
            yield self.records[panel], np.flatnonzero(panels == panel)

    def _row_weights(self, record: Record, times: Array) -> Array:
        return PanelGrid(np.array([record.start, record.end]), self.order).stencil(times)[1]

    @functools.cached_property
    def edges(self) -> Array:
        return np.array([self.records[0].start, *(record.end for record in self.records)])

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for record in self.records for table in record.values.values())

    @classmethod
    def from_tables(
        cls, grid: PanelGrid, tables: dict[str, Array], *, kinked: Container[str] = (), compared: bool = False
    ) -> RowStore:
        """Return kernels given on all pairs of a grid's nodes.

        In panels on the diagonal causal ones are continued to the left end, ``kinked`` ones from t'
        ≤ t to t' > t; to be ``compared`` are these with their given values, others with continued ones.
        """
        m = grid.order
        back = radau(m).back
        lower, upper = np.tril_indices(m + 1), np.triu_indices(m + 1, 1)
        records = []
        for panel, (start, end) in enumerate(pairwise(grid.edges.tolist())):
            first, last = panel * m, (panel + 1) * m + 1
            values = {name: table[first:last, :last].copy() for name, table in tables.items()}
            for name, rows in values.items():
                block = rows[:, first:]
                if name in kinked:
                    block[upper] = continuation(m) @ block[lower]
                else:
                    block[0, 1:] = back @ block[1:, 1:]
            records.append(Record(start, end, grid.edges[: panel + 2], values))
        others = [name for name in tables if name not in kinked]
        return cls(m, tuple(records), cls.from_tables(grid, tables, kinked=others) if compared else None)


@dataclass(frozen=True, eq=False)
class StepRows:
    """Functions of two times on all pairs of the nodes of steps, smooth for t ≥ t'."""

    nodes: Array
    values: dict[str, Array]

    def evaluate(self, name: str, points: Array, lower: int = 0) -> Array:
        """Return a kernel at pairs, by polynomials of a degree that may be ``lower``.

        Rows of later times are interpolated at t', then these values in t, from that on the
        diagonal on. In both corners, where rows or columns are few, one polynomial of two times
        goes through all pairs.
        """
        values, nodes, table, width = np.empty(len(points)), self.nodes, self.values[name], WIDTH - lower
        grid = PanelGrid(nodes, 1, width)
        first, last = (np.sort(grid.near(step)) for step in (0, grid.panels - 1))
        early = points[:, 0] <= nodes[first[-1]]
        late = ~early & (points[:, 1] >= nodes[last[0]])
        for chosen, near in ((early, first), (late, last)):
            values[chosen] = interpolate_triangle(nodes[near], table[np.ix_(near, near)], points[chosen])
        for column in np.unique(points[~early & ~late, 1]):
            here = ~early & ~late & (points[:, 1] == column)
            values[here] = _along_column(grid, table, column, points[here, 0])
        return values

    def error(self, name: str, points: Array) -> Array:
        """Return the error of interpolation at pairs: how far polynomials of lower degree are."""
        return np.abs(self.evaluate(name, points) - self.evaluate(name, points, 2))


def _along_column(grid: PanelGrid, table: Array, column: float, times: Array) -> Array:
    """Return a function given on pairs of nodes at some times and one earlier time."""
    nodes, place = grid.nodes, np.array([column])
    first = int(np.searchsorted(nodes, column, side="right"))
    below = replace(grid, edges=np.append(column, nodes[first:]))
    rows, weights = below.stencil(times)
    values = np.zeros(below.size)
    values[0] = grid.interpolate(np.diagonal(table), place)[0]
    for row in np.unique(rows[rows > 0]):
        end = first + row
        values[row] = replace(grid, edges=nodes[:end]).interpolate(table[end - 1, :end], place)[0]
    return np.asarray((weights * values[rows]).sum(axis=1))


_INSIDE = np.array([0.21, 0.79])  # places between two times at which solutions are compared
_SHORT = 0.5 ** np.arange(1, 40, 2)  # lags on the diagonal's cells, relative to the longest there


def differences(fine: RowStore | AgingRows, coarse: RowStore | AgingRows, times: Array) -> dict[str, Array]:
    """Return the largest differences of kernels seen on each cell of times, at lags of all scales on the diagonal."""
    inside = times[:-1, None] + np.diff(times)[:, None] * _INSIDE
    count, places = inside.shape
    later = np.repeat(inside.ravel(), len(_SHORT))
    points = np.stack([later, later - ((inside - times[:-1, None])[:, :, None] * _SHORT).ravel()], axis=1)
    own, others, changes = fine.tables(inside.ravel()), coarse.tables(inside.ravel()), {}
    for name, table in own.items():
        changes[name] = np.abs(table - others[name]).reshape(count, places, count, places).max(axis=(1, 3))
        near = np.abs(fine.evaluate(name, points) - coarse.evaluate(name, points)).reshape(count, -1).max(axis=1)
        np.fill_diagonal(changes[name], np.maximum(near, np.diagonal(changes[name])))
    return changes


def spread_to_times(change: Array) -> Array:
    """From changes between the output times to the times themselves: the largest among the neighbours."""
    wide = np.pad(change, 1)
    return np.maximum.reduce([wide[1:, 1:], wide[1:, :-1], wide[:-1, 1:], wide[:-1, :-1]])


def mirrored(table: Array, other: Array) -> Array:
    """Return a table from its values on and below the diagonal, and those of what it is with its times exchanged."""
    return np.asarray(np.tril(table) + np.tril(other, -1).T)
