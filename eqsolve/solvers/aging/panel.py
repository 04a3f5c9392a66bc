"""One row panel: all its unknowns found together by Newton's method.

With x the place on a row, ∂_t at fixed t' is ∂_t|_x + v ∂_x; both are collocated, at Radau nodes in t and on each column
panel, in the direction in which a column moves away from the diagonal. Memory terms cancel there at leading order,
so that they and the derivatives are solved for as one linear system.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from eqsolve.compile.two_time import CompiledContraction, CompiledEquation, CompiledPlan, Slot
from eqsolve.numerics.aging_rows import differentiation
from eqsolve.numerics.arrays import Array
from eqsolve.solvers.aging.points import Past, Points, Span, Unknowns

_MOST_STEPS = 12
_SLOW = 0.1  # contraction of a step above which the matrix is made again
_WORSE = 30.0  # growth of the change after which Newton's method is given up
_SMALLEST = 1e-12  # of an unknown's largest value: below, changes are not looked at relatively

Blocks = dict[Slot, Array]


class NewtonError(Exception):
    """Newton's method does not converge on a panel; a shorter one may help."""


class Panel:
    """The equations of one row panel.

    Parameters
    ----------
    plan
        The equations, with their gradients.
    past, unknowns
        What is solved, and a guess of what is sought.
    finest, ratio
        Shortest panel of the integrals, and how much longer the next ones are.
    """

    def __init__(self, plan: CompiledPlan, past: Past, unknowns: Unknowns, finest: float, ratio: float) -> None:
        self.plan, self.unknowns, layout = plan, unknowns, unknowns.layout
        self.layout, m, width = layout, layout.rows, layout.width
        times = layout.times[1:]
        lag, column, rate, by_place = (np.array(item) for item in zip(*map(layout.places, times), strict=True))
        rows = np.arange(1, m + 1)
        each, moments = np.repeat(rows, width), np.repeat(times, width)
        pairs = moments, column.ravel(), lag.ravel(), each
        alone = times, np.zeros(m), times, rows
        self.nodes, self.moments = Points(past, unknowns, *pairs), Points(past, unknowns, *alone)
        make = functools.partial(Span, past, unknowns, finest=finest, ratio=ratio, count=layout.nodes)
        kinds = {entry.span for equation in plan.kernels for entry in equation.contractions}
        self.spans = {kind: make(kind, *pairs) for kind in sorted(kinds)}
        self.spans["all"] = make("all", *alone)
        self._in_time = differentiation(m) / (layout.end - layout.begin)
        self._speed = (1 - rate) / by_place
        names = [(equation.name, m * width) for equation in plan.kernels] + [(eq.name, m) for eq in plan.functions]
        ends = np.cumsum([length for _, length in names]).tolist()
        self.places = {name: slice(end - length, end) for (name, length), end in zip(names, ends, strict=True)}
        self.size = ends[-1]

    def solve(self, tolerance: float) -> int:
        """Find the unknowns; return the number of Newton steps."""
        from scipy.linalg import LinAlgError, LinAlgWarning, lu_factor, lu_solve

        factors, first, last = None, np.inf, np.inf
        for step in range(1, _MOST_STEPS + 1):
            residual, matrix = self.equations(slopes=factors is None)
            if matrix is not None:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("error", LinAlgWarning)
                        factors = lu_factor(matrix, overwrite_a=True, check_finite=True)
                except (LinAlgError, LinAlgWarning, ValueError):
                    raise NewtonError from None
            move = lu_solve(factors, -residual, check_finite=False)
            change = self._apply(move)
            if not np.isfinite(change) or change > _WORSE * first:
                raise NewtonError
            if change <= tolerance:
                return step
            if change > _SLOW * last:
                factors = None
            first, last = min(first, change), change
        raise NewtonError

    def _apply(self, move: Array) -> float:
        """Add to the unknowns; return the largest change, relative to the unknown's size on each column panel."""
        worst, n = 0.0, self.layout.nodes
        for name, values in self.unknowns.kernels.items():
            step = move[self.places[name]].reshape(self.layout.rows, -1)
            values[1:] += step
            sizes, largest = np.abs(values).max(axis=0), float(np.abs(values).max())
            local = np.maximum(np.maximum(sizes[1:].reshape(-1, n).max(axis=1), _SMALLEST * largest), 1e-300)
            worst = max(worst, float((np.abs(step[:, 1:]).max(axis=0).reshape(-1, n).max(axis=1) / local).max()))
        for name, values in self.unknowns.functions.items():
            step = move[self.places[name]]
            values[1:] += step
            worst = max(worst, float(np.abs(step).max() / max(np.abs(values).max(), 1e-300)))
        return worst

    # --- the equations ------------------------------------------------------------------------------------------------
    def equations(self, *, slopes: bool) -> tuple[Array, Array | None]:
        """Return what is left of every equation at the nodes, and its derivatives by all unknowns."""
        residual = np.empty(self.size)
        matrix = np.zeros((self.size, self.size)) if slopes else None
        made: dict[Any, tuple[Array, Blocks]] = {}
        for equation in (*self.plan.kernels, *self.plan.functions):
            self._equation(equation, residual, matrix, made)
        return residual, matrix

    def _equation(
        self, equation: CompiledEquation, residual: Array, matrix: Array | None, made: dict[Any, tuple[Array, Blocks]]
    ) -> None:
        name = equation.name
        place, points = self.places[name], self.nodes if name in self.unknowns.kernels else self.moments
        integrals: dict[str, Array] = {}
        for entry in equation.contractions:
            key = (entry.span, entry.left, entry.right)
            if key not in made:
                made[key] = self._integral(entry, slopes=matrix is not None)
            integrals[entry.symbol] = np.zeros(points.count)
            integrals[entry.symbol][self.spans[entry.span].wanted] = made[key][0]
        right = points.value(equation.body, integrals)
        values = self.unknowns.kernels[name] if points is self.nodes else self.unknowns.functions[name][:, None]
        residual[place] = (self._derivative(values) if equation.differential else values[1:]).ravel() - right
        rows = np.arange(points.count)
        if matrix is not None:
            own = matrix[place, place]
            if equation.differential:
                self._add_derivative(own, points is self.nodes)
            else:
                own[rows, rows] += 1.0
            by_slot, by_integral = points.slopes(equation.body, integrals)
            for slot, slope in by_slot.items():
                self._add(matrix[place], slot, points.block(slot, slope, rows), -1.0)
            for entry in equation.contractions:
                if entry.symbol in by_integral:
                    wanted = self.spans[entry.span].wanted
                    factor = -by_integral[entry.symbol][wanted, None]
                    for slot, block in made[entry.span, entry.left, entry.right][1].items():
                        self._add(matrix[place], slot, block, factor, wanted)
        if equation.diagonal is not None and points is self.nodes:
            self._on_diagonal(equation, residual[place], None if matrix is None else matrix[place])

    def _on_diagonal(self, equation: CompiledEquation, residual: Array, matrix: Array | None) -> None:
        """Replace the equations at the nodes on the diagonal by the values given there."""
        assert equation.diagonal is not None
        width = self.layout.width
        rows = np.arange(self.layout.rows) * width
        residual[rows] = self.unknowns.kernels[equation.name][1:, 0] - self.moments.value(equation.diagonal, {})
        if matrix is not None:
            matrix[rows] = 0.0
            matrix[rows, self.places[equation.name].start + rows] = 1.0
            for slot, slope in self.moments.slopes(equation.diagonal, {})[0].items():
                block = self.moments.block(slot, slope, np.arange(self.layout.rows))
                self._add(matrix, slot, block, -1.0, rows)

    def _integral(self, entry: CompiledContraction, *, slopes: bool) -> tuple[Array, Blocks]:
        """Return an integral wherever it is wanted, and its derivatives by the unknowns."""
        span = self.spans[entry.span]
        first = self.plan.factors[entry.left]
        left, right = span.left.value(first, {}), np.ones(1)
        second = None if entry.right is None else self.plan.factors[entry.right]
        if second is not None:
            right = span.right.value(second, {})
        blocks: Blocks = {}
        if slopes:
            for slot, slope in span.left.slopes(first, {})[0].items():
                blocks[slot] = span.left.block(slot, span.weights * slope * right, span.starts)
            if second is not None:
                for slot, slope in span.right.slopes(second, {})[0].items():
                    block = span.right.block(slot, span.weights * slope * left, span.starts)
                    blocks[slot] = blocks[slot] + block if slot in blocks else block
        return span.sums(left * right), blocks

    def _derivative(self, values: Array) -> Array:
        """Return ∂_t at fixed t' on the panel's nodes."""
        out = np.asarray(self._in_time @ values)
        if values.shape[1] > 1:
            n, panels = self.layout.nodes, self.layout.panels
            pieces = np.concatenate([values[1:, :-1].reshape(-1, panels, n), values[1:, n::n, None]], axis=2)
            out[:, 1:] += self._speed[:, 1:] * (pieces @ differentiation(n).T).reshape(len(out), -1)
        return out

    def _add_derivative(self, matrix: Array, kernel: bool) -> None:
        m, width, n = self.layout.rows, self.layout.width if kernel else 1, self.layout.nodes
        along = np.arange(width)
        for i in range(m):
            for j in range(m):
                matrix[i * width + along, j * width + along] += self._in_time[i, j + 1]
        if kernel:
            for i in range(m):
                for panel in range(self.layout.panels):
                    first = i * width + panel * n
                    speed = self._speed[i, panel * n + 1 : panel * n + n + 1, None]
                    matrix[first + 1 : first + n + 1, first : first + n + 1] += speed * differentiation(n)

    def _add(self, matrix: Array, slot: Slot, block: Array, factor: Any, rows: Array | None = None) -> None:
        """Add derivatives by one unknown; those by its values at the left end, which are known, are left out."""
        name = slot[0]
        known = self.layout.width if name in self.unknowns.kernels else 1
        part = factor * block[:, known:]
        if rows is None:
            matrix[:, self.places[name]] += part
        else:
            matrix[rows, self.places[name]] += part

    def observe(self, equation: CompiledEquation) -> Array:
        """Return an observable on the panel's nodes."""
        integrals = {entry.symbol: self._integral(entry, slopes=False)[0] for entry in equation.contractions}
        return self.moments.value(equation.body, integrals).copy()
