"""Pairs of times at which factors are evaluated: what is known there, and how the values follow the newest panel.

A value at a pair is a number where its first time lies in the past, and linear in the unknowns of the newest panel where it
lies on that: a sparse matrix for each kind of time. Right-hand sides and their derivatives by all unknowns follow from these
and from pointwise functions alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.compile.two_time import PointwiseTerm, Slot
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import AgingRows, Solved

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class Past:
    """The solved past: kernels, and the curves of the beginning with their grid. Times are counted from the start."""

    rows: AgingRows
    grid: PanelGrid
    functions: Mapping[str, Array]

    @property
    def end(self) -> float:
        return float(self.rows.ends[-1])

    def function(self, name: str, times: Array) -> Array:
        """Return a function of one time."""
        out = np.empty(len(times))
        for panel, chosen in self.rows.by_panel(times):
            if panel is not None:
                out[chosen] = panel.function(name, times[chosen])
            else:
                out[chosen] = self.grid.interpolate(self.functions[name], self.rows.start + times[chosen])
        return out


class AgingPoints:
    """Pairs (t, t') of times, with t ≥ t'.

    Parameters
    ----------
    past, unknowns
        What is solved, and what is sought.
    times, columns, lags
        The pairs, counted from the start, and t − t'.
    rows
        Where the times are nodes of the newest panel: which. Else the times may lie anywhere.
    """

    def __init__(
        self, past: Past, unknowns: Solved, times: Array, columns: Array, lags: Array, rows: Array | None = None
    ) -> None:
        self.past, self.unknowns, self.layout = past, unknowns, unknowns.layout
        self.times, self.columns, self.lags, self.rows = times, columns, lags, rows
        self.count = len(times)
        self._operators: dict[tuple[str, bool], csr_matrix] = {}
        self._known: dict[Slot, Array | None] = {}

    def read(self, slot: Slot) -> Any:
        """Return the values of a slot; patterns of times are explained at ``Pointwise``."""
        name, pattern = slot
        if not name:
            return self.past.rows.start + (self.times if pattern == "r" else self.columns)
        if pattern in ("0", "00"):
            start = np.zeros(1)
            if pattern == "0":
                return np.full(self.count, self.past.function(name, start)[0])
            return np.full(self.count, self.past.rows.pairs(name, start, start, start)[0])
        values = self.operator(slot) @ self.unknowns.flat(name)
        if slot not in self._known:
            self._known[slot] = self._of_the_past(slot)
        known = self._known[slot]
        return values if known is None else values + known

    def operator(self, slot: Slot) -> csr_matrix:
        """Return the matrix from the unknowns of the newest panel to the values of a slot."""
        name, pattern = slot
        key = (pattern, name in self.unknowns.kernels)
        if key not in self._operators:
            self._operators[key] = self._pairs() if pattern == "rc" else self._at_times(*key)
        return self._operators[key]

    def block(self, slot: Slot, coefficients: Array, starts: Array) -> Array:
        """Return the sums over groups of points of coefficients times the values' derivatives by the unknowns."""
        from scipy.sparse import csr_matrix

        matrix = self.operator(slot)
        data = matrix.data * np.repeat(coefficients, np.diff(matrix.indptr))
        places = np.append(matrix.indptr[starts], matrix.indptr[-1])
        return np.asarray(csr_matrix((data, matrix.indices, places), shape=(len(starts), matrix.shape[1])).toarray())

    def value(self, function: PointwiseTerm, integrals: Mapping[str, Any]) -> Array:
        return self._spread(function(self.read, integrals))

    def slopes(self, function: PointwiseTerm, integrals: Mapping[str, Any]) -> tuple[dict[Slot, Array], dict[str, Array]]:
        """Return the derivatives of a function by the slots it reads and by its integrals."""
        by_slot, by_integral = function.slopes(self.read, integrals)
        by_slot = {slot: values for slot, values in by_slot.items() if slot[1] not in ("0", "00")}
        return {slot: self._spread(v) for slot, v in by_slot.items()}, {k: self._spread(v) for k, v in by_integral.items()}

    def _spread(self, values: Any) -> Array:
        return np.broadcast_to(np.asarray(values, float), (self.count,))

    def _pairs(self) -> csr_matrix:
        layout, width = self.layout, self.layout.width
        whole = (layout.rows + 1) * width
        if self.rows is not None:
            places, weights = layout.stencil(self.times, self.columns, self.lags)
            return self._sparse(np.arange(self.count), places + (self.rows * width)[:, None], weights, whole)
        here = np.flatnonzero(self.times > layout.begin)
        places, weights = layout.stencil(self.times[here], self.columns[here], self.lags[here])
        in_time = layout.in_time(self.times[here])
        every = (np.arange(layout.rows + 1) * width)[None, :, None] + places[:, None, :]
        table = in_time[:, :, None] * weights[:, None, :]
        return self._sparse(here, every.reshape(len(here), -1), table.reshape(len(here), -1), whole)

    def _at_times(self, pattern: str, kernel: bool) -> csr_matrix:
        """Return the operator of a function of one time, K(s, s) and K(s, start) among them."""
        layout = self.layout
        times = self.times if pattern[0] == "r" else self.columns
        if pattern[0] == "r" and self.rows is not None:
            here, places, weights = np.arange(self.count), self.rows[:, None], np.ones((self.count, 1))
        else:
            here = np.flatnonzero(times > layout.begin)
            places = np.broadcast_to(np.arange(layout.rows + 1), (len(here), layout.rows + 1))
            weights = layout.in_time(times[here])
        if not kernel:
            return self._sparse(here, places, weights, layout.rows + 1)
        places = places * layout.width + (0 if pattern[1] == pattern[0] else layout.width - 1)
        return self._sparse(here, places, weights, (layout.rows + 1) * layout.width)

    def _sparse(self, here: Array, places: Array, weights: Array, width: int) -> csr_matrix:
        from scipy.sparse import csr_matrix

        lengths = np.zeros(self.count, int)
        lengths[here] = places.shape[1]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return csr_matrix((weights.ravel(), places.ravel().astype(np.int32), ends), shape=(self.count, width))

    def _of_the_past(self, slot: Slot) -> Array | None:
        """Return the values at times of the past, and zeros elsewhere; None where there are none."""
        name, pattern = slot
        times = self.times if pattern[0] == "r" else self.columns
        if pattern[0] == "r" and self.rows is not None:
            return None
        before = np.flatnonzero(times <= self.layout.begin)
        out = np.zeros(self.count)
        moments = times[before]
        if name in self.unknowns.functions:
            out[before] = self.past.function(name, moments)
        else:
            nothing = np.zeros(len(before))
            if pattern == "rc":
                columns, lags = self.columns[before], self.lags[before]
            else:
                columns, lags = (moments, nothing) if pattern[1] == pattern[0] else (nothing, moments)
            out[before] = self.past.rows.pairs(name, moments, columns, lags)
        return out


class Span:
    """The points of one kind of integral: graded from both ends of its range, where one of the factors is fast.

    Parameters
    ----------
    span
        ``"low"`` (start to column), ``"high"`` (column to row) or ``"all"`` (start to row).
    times, columns, lags, rows
        The pairs that the integral is wanted for; ``rows`` are nodes of the newest panel.
    finest
        Length of the panels at both ends.
    ratio
        How much longer each panel is than the one before.
    count
        Gauss points on each.
    """

    def __init__(
        self, past: Past, unknowns: Solved, span: str, times: Array, columns: Array, lags: Array, rows: Array,
        finest: float, ratio: float, count: int,
    ) -> None:  # fmt: skip
        whole = {"all": times, "low": columns, "high": lags}[span]
        self.wanted = np.flatnonzero(whole > 0)
        times, columns, lags, rows, whole = (item[self.wanted] for item in (times, columns, lags, rows, whole))
        owner, distance, weights = graded(whole, finest, ratio, count)
        owner, weights = np.concatenate([owner, owner]), np.concatenate([weights, weights])
        from_end, distance = np.repeat([False, True], len(distance)), np.concatenate([distance, distance])
        order = np.argsort(owner, kind="stable")
        owner, self.weights, from_end, distance = owner[order], weights[order], from_end[order], distance[order]
        self.starts = np.searchsorted(owner, np.arange(len(whole)))
        t, column, lag = times[owner], columns[owner], lags[owner]
        rest = whole[owner] - distance
        if span == "high":
            middle = np.where(from_end, t - distance, column + distance)
            to_row, to_column = np.where(from_end, distance, rest), np.where(from_end, rest, distance)
        else:
            middle = np.where(from_end, rest, distance)
            behind = distance + (lag if span == "low" else 0.0)
            to_row, to_column = np.where(from_end, behind, t - distance), np.where(from_end, distance, rest)
        self.left = AgingPoints(past, unknowns, t, middle, to_row, rows[owner])
        if span == "low":
            self.right = AgingPoints(past, unknowns, column, middle, to_column)
        else:
            self.right = AgingPoints(past, unknowns, middle, column, to_column)

    def sums(self, values: Array) -> Array:
        return np.asarray(np.add.reduceat(self.weights * values, self.starts))


def graded(lengths: Array, finest: float, ratio: float, count: int) -> tuple[Array, Array, Array]:
    """Return Gauss points of the first half of each length: which length, distance from its end, and weight.

    Panels grow from the end: ``finest``, then ``ratio`` times as long.
    """
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = (nodes + 1) / 2, weights / 2
    full = np.maximum(np.floor(np.log(lengths / 2 / finest) / np.log(ratio)).astype(int) + 1, 0)
    owner = np.repeat(np.arange(len(lengths)), full + 1)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(full + 1) - full - 1, full + 1)
    low = np.where(place == 0, 0.0, finest * ratio ** (place - 1.0))
    high = np.where(place == full[owner], lengths[owner] / 2, finest * ratio ** place.astype(float))
    steps = (high - low)[:, None]
    return np.repeat(owner, count), (low[:, None] + steps * nodes).ravel(), (steps * weights).ravel()
