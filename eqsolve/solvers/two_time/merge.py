"""Merging columns: seen from later times the past is smooth, and needs fewer panels the further back it lies.

Two neighbouring column panels become one as soon as every row, and the operators' dependence on their outer time, is
reproduced from the merged panel's nodes to a tolerance. Rows then have O(log t) columns while kernels stay resolved near the
diagonal, where the operators have taken up their fast parts before the merge.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import lagrange, radau
from eqsolve.solvers.two_time.history import SMALLEST_SIZE, History
from eqsolve.solvers.two_time.panel import Panel

__all__ = ["Merger"]

_FEWEST_PANELS = 8  # nothing is gained by merging fewer
_NEAR = 0.8  # a merged panel is at most this long, relative to its distance from the present
_EFFECT = 0.1  # of a merge on what follows, as a fraction of its tolerance
_ONLY_READ = 10.0  # how much more a function may change that is only read
_UNEVEN = 3.0  # panels are merged only if neither is longer than the other by more than this


class Merger:
    """Merges column panels of a history in place.

    Parameters
    ----------
    order
        Nodes per panel.
    tolerance
        Change of any row that is accepted, relative to the unknown's size.

    Attributes
    ----------
    changes
        The largest change made to the rows of each unknown.
    effect
        The largest effect of a merge on what follows: the change of a definition or an observable, and of a slope during
        a step, relative to their sizes.
    """

    def __init__(self, order: int, tolerance: float) -> None:
        self.m, self.tolerance = order, tolerance
        self.changes: dict[str, float] = {}
        self.effect = 0.0
        self._not_before: dict[float, float] = {}
        self._totals: dict[int, list[Array]] = {}
        self._total_sizes: dict[int, float] = {}
        self._probed: dict[str, Array] = {}
        self._largest: dict[str, float] = {}

    def merge(self, history: History) -> None:
        """Merge neighbouring column panels wherever everything is smooth enough on both together."""
        if len(history.edges) <= _FEWEST_PANELS + 1:
            return
        now = history.now
        self._probed = {}
        self._totals = {i: [history.low[i].sum(axis=1), history.high[i].sum(axis=0)] for i in history.plan.stored}
        for index, totals in self._totals.items():
            largest = max(float(np.abs(total).max()) for total in totals)
            self._total_sizes[index] = max(largest, self._total_sizes.get(index, 1e-30))
        panel = 0
        while panel < len(history.edges) - 4:
            left, middle, right = history.edges[panel : panel + 3]
            first, second = middle - left, right - middle
            near = right - left > _NEAR * (now - right)
            uneven = max(first, second) > _UNEVEN * min(first, second)
            if near or uneven or self._not_before.get(left, now) > now:
                panel += 1
            elif self._try(history, panel):
                self._not_before.pop(left, None)
                self._not_before.pop(middle, None)
            else:
                self._not_before[left] = now + 0.25 * (now - left)
                panel += 1

    def _try(self, history: History, panel: int) -> bool:
        """Merge two panels, and undo it if that changes too much."""
        first = 1 + panel * self.m
        part = slice(first - 1, first + 2 * self.m)
        left, middle, right = history.edges[panel : panel + 3]
        to_merged, back = _transfer(self.m, round((middle - left) / (right - left), 12))
        changes, tolerance = {}, self.tolerance
        for head, values, size in self._smooth(history):
            change = _change(values[..., part], to_merged, back)
            if change > tolerance * size:
                return False
            if values is history.last_block.get(head):
                changes[head] = change
        if not self._probed:
            self._probed = Panel.probe(history.plan, history)
        before = dict(history.__dict__)
        self._apply(history, panel, part, to_merged)
        probed = Panel.probe(history.plan, history)
        elsewhere = np.r_[: part.start + 1, part.stop : len(before["nodes"])]
        expected = {h: v[elsewhere] if h in history.heads else v for h, v in self._probed.items()}
        elsewhere[part.start + 1 :] -= self.m
        effect = self._effect(history, expected, {h: v[elsewhere] if h in history.heads else v for h, v in probed.items()})
        if effect > _EFFECT * self.tolerance:
            history.__dict__.update(before)
            return False
        self._probed = probed
        self._totals = {i: [_values(total, part, to_merged) for total in totals] for i, totals in self._totals.items()}
        self.effect = max(effect, self.effect)
        for head, change in changes.items():
            self.changes[head] = max(change, self.changes.get(head, 0.0))
        return True

    def _smooth(self, history: History) -> Iterator[tuple[str, Array, float]]:
        """Yield what must be smooth over the columns: an unknown's name or none, values, and their size."""
        slots = history.plan.slots
        for head, rows in history.last_block.items():
            yield head, rows, history.sizes[head]
        for head, values in history.functions.items():
            if (head, "c") in slots:  # not reported from here: only the effect on what follows matters
                yield head, values, _ONLY_READ * history.sizes[head]
        for pattern, store in (("cc", history.diagonal), ("c0", history.first_column)):
            for head, values in store.items():
                if (head, pattern) in slots:
                    yield head, values, history.largest[head]
        for index, totals in self._totals.items():
            for total in totals:
                yield "", total, self._total_sizes[index]

    def _effect(self, history: History, expected: dict[str, Array], probed: dict[str, Array]) -> float:
        """Return the largest change of what is evaluated at the present, relative to its size."""
        step = history.row_edges[-1] - history.row_edges[-2]
        slopes = {equation.name for equation in (*history.plan.kernels, *history.plan.functions) if equation.differential}
        worst = 0.0
        for head, values in probed.items():
            change = float(np.abs(values - expected[head]).max())
            if head in history.sizes:
                size = history.sizes[head] / (step if head in slopes else 1.0)
            else:
                value = float(np.abs(values).max())
                self._largest[head] = max(value, self._largest.get(head, 1e-300))
                size = max(value, SMALLEST_SIZE * self._largest[head])
            worst = max(worst, change / size)
        return worst

    def _apply(self, history: History, panel: int, part: slice, to_merged: Array) -> None:
        """Replace two column panels by one; every changed table is a new one, so that this can be undone."""
        inner = slice(part.start + 1, part.stop)
        left, right = history.edges[panel], history.edges[panel + 2]
        rule = radau(self.m)
        basis = lagrange(rule.nodes, (history.nodes[inner] - left) / (right - left))
        low = {i: _rows(_sums(table, inner, basis), part, to_merged) for i, table in history.low.items()}
        high = {i: _rows(_sums(table.T, inner, basis), part, to_merged).T for i, table in history.high.items()}
        history.low, history.high = low, high
        for name in ("last_row", "last_block", "diagonal", "first_column", "functions"):
            tables = getattr(history, name)
            setattr(history, name, {head: _values(table, part, to_merged) for head, table in tables.items()})
        nodes = left + (right - left) * rule.nodes
        nodes[-1] = right
        history.nodes = np.concatenate([history.nodes[: inner.start], nodes, history.nodes[inner.stop :]])
        weights = (right - left) * rule.weights
        history.weights = np.concatenate([history.weights[: inner.start], weights, history.weights[inner.stop :]])
        history.edges = np.delete(history.edges, panel + 1)


def _change(values: Array, to_merged: Array, back: Array) -> float:
    """Return the largest change of values on two panels when they are read from the merged panel's nodes."""
    restored = np.concatenate([values[..., :1], values @ to_merged.T], axis=-1) @ back.T
    return float(np.abs(restored - values).max())


@functools.lru_cache(maxsize=4096)
def _transfer(m: int, cut: float) -> tuple[Array, Array]:
    """Return interpolation from two panels (left end and 2m nodes) to the merged panel's nodes, and back.

    The two panels are [0, cut] and [cut, 1]; the way back reads the left end and the merged nodes.
    """
    c = radau(m).nodes
    local = np.concatenate([[0.0], c])
    to_merged = np.zeros((m, 2 * m + 1))
    before = c <= cut
    to_merged[before, : m + 1] = lagrange(local, c[before] / cut)
    to_merged[~before, m:] = lagrange(local, (c[~before] - cut) / (1 - cut))
    old = np.concatenate([[0.0], cut * c, cut + (1 - cut) * c])
    return to_merged, lagrange(local, old)


def _values(table: Array, part: slice, to_merged: Array) -> Array:
    """Replace values on two panels (last axis) by values on the merged panel's nodes."""
    merged = table[..., part] @ to_merged.T
    return np.concatenate([table[..., : part.start + 1], merged, table[..., part.stop :]], axis=-1)


def _sums(table: Array, inner: slice, basis: Array) -> Array:
    """Sum integrals against two panels' basis functions (columns) into those of the merged panel."""
    return np.concatenate([table[:, : inner.start], table[:, inner] @ basis, table[:, inner.stop :]], axis=1)


def _rows(table: Array, part: slice, to_merged: Array) -> Array:
    """Interpolate rows, the operators' dependence on the outer time."""
    return np.concatenate([table[: part.start + 1], to_merged @ table[part], table[part.stop :]])
