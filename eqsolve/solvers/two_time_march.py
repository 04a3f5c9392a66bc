"""One march through time: collocation of one- and two-time equations, row block by row block, over coarsening columns.

Method. On each panel the unknown rows K(t_i, ·), i = 1..m, satisfy the equations at the Radau nodes. An integral over s is
a matrix product of the left factor's rows with an integration operator of the right factor, in which the integrals
∫ right(s, t') ℓ_k(s) ds over the panels' basis functions ℓ_k are stored. In a diagonal block the kernels are continued
smoothly across the diagonal, so that no interpolation meets a kink. The rows are found by Anderson-accelerated
iteration in which each unknown's own pointwise part is treated implicitly.

Seen from a later time the past is smooth: neighbouring column panels are merged as soon as every row is represented on the
merged panel to the tolerance. Rows then have O(log t) columns while kernels stay resolved near the diagonal, where the
operators have taken up their fast parts before the merge.

Order 2m − 1 at panel ends, m + 1 in between. Cost per panel: columns²; memory: rows × columns.
References: Brunner, Collocation Methods for Volterra Integral and Related Functional Equations (2004).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from eqsolve.compile.two_time import CompiledContraction, CompiledEquation, CompiledPlan, Pointwise, Slot, pointwise
from eqsolve.passes.sectors import ROW
from eqsolve.solvers.anderson import Anderson
from eqsolve.solvers.grids import Array, PanelGrid, lagrange, radau
from eqsolve.solvers.rows import Record

__all__ = ["March", "NoConvergenceError", "NotFiniteError"]


class NoConvergenceError(Exception):
    """The iteration on a panel does not converge; a shorter panel may help."""


class NotFiniteError(Exception):
    """A right-hand side is not finite."""

    def __init__(self, equation: CompiledEquation, time: float) -> None:
        super().__init__(equation.name)
        self.equation, self.time = equation, time


class March:
    """The state of a march: the columns so far, the operators of the right factors, and the step that adds a panel.

    Parameters
    ----------
    compiled
        The equations.
    order
        Nodes per panel.
    start
        First time.
    tolerance
        At which the iteration on a panel stops, relative to the size of each unknown.
    merging
        At which columns are merged, relative to the size of each unknown; 0 keeps all.
    """

    def __init__(
        self, compiled: CompiledPlan, order: int, start: float, tolerance: float, merging: float = 0.0
    ) -> None:
        self.plan, self.m, self.tolerance, self.merging = compiled, order, tolerance, merging
        rule = radau(order)
        self.A, self.b, self.c = rule.integrals, rule.weights, rule.nodes
        self.row_edges = [start]
        self.edges = np.array([start])  # of the column panels
        self.nodes = np.array([start])  # of the columns
        self.weights = np.zeros(1)
        self.iterations = 0
        self.heads = [equation.name for equation in compiled.kernels]
        self.last_row = {head: np.zeros(1) for head in self.heads}  # at the newest time, on the columns
        self.last_block = {head: np.zeros((order, 1)) for head in self.heads}  # rows of the newest panel
        self.diagonal = {head: np.zeros(1) for head in self.heads}
        self.first_column = {head: np.zeros(1) for head in self.heads}
        self.functions = {equation.name: np.zeros(1) for equation in compiled.functions}
        self.history = {head: [np.zeros(1)] for head in self.functions}
        self.observables: dict[str, list[Array]] = {equation.name: [] for equation in compiled.observables}
        self.low = {index: np.zeros((1, 1)) for index in compiled.stored}
        self.high = {index: np.zeros((1, 1)) for index in compiled.stored}
        self.records: list[Record] = []
        self.scales = {equation.name: 0.0 for equation in (*compiled.kernels, *compiled.functions)}
        self.full = {head: np.zeros((1, 1)) for head in self.heads} if self._needs_everything() else {}
        self.full_factors: dict[int, Array] = {}
        self.retry: dict[float, float] = {}
        self._totals: dict[int, list[Array]] = {}
        self._total_scales: dict[int, float] = {}
        self._diagonal_functions: dict[int, Pointwise] = {}
        self._scale_cache: dict[str, float] = {}
        self._start()

    def _needs_everything(self) -> bool:
        """Whether an integrand does not separate, so that all values must be kept and no columns merged."""
        equations = (*self.plan.kernels, *self.plan.functions)
        return any(entry.joint is not None for equation in equations for entry in equation.contractions)

    # --- the start -----------------------------------------------------------------------------------------------
    def _start(self) -> None:
        """Fill node 0: initial values, and definitions evaluated with empty integrals."""
        self.step, self.rows, self._past = 0.0, self.nodes, 0
        self.current = {head: np.zeros((1, 1)) for head in self.heads}
        self.current_functions = self.functions
        pending: list[CompiledEquation] = []
        for equation in (*self.plan.kernels, *self.plan.functions):
            source = equation.source
            given = source.start if source.diagonal is None else source.diagonal.xreplace({ROW: self.row_edges[0]})
            if given is None:
                pending.append(equation)
            else:
                self._put_start(equation.name, float(given))
        for _ in range(len(pending) + 1):
            for equation in pending:
                zeros = {entry.symbol: np.zeros((1, 1)) for entry in equation.contractions}
                value = np.asarray(equation.body(self._read, zeros), float)
                if not np.isfinite(value).all():
                    raise NotFiniteError(equation, self.row_edges[0])
                self._put_start(equation.name, float(value.reshape(-1)[0]))
        for head, table in self.current.items():
            for store in (self.last_row, self.diagonal, self.first_column):
                store[head] = np.full(1, table[0, 0])
            self.last_block[head] = np.full((self.m, 1), table[0, 0])
            if self.full:
                self.full[head] = table.copy()
        self._observe(1)

    def _put_start(self, head: str, value: float) -> None:
        if head in self.functions:
            self.functions[head][0] = value
        else:
            self.current[head][0, 0] = value

    # --- reading values ----------------------------------------------------------------------------------------
    def _read(self, slot: Slot) -> Any:
        """Return a value on (rows, columns); patterns of times are explained at ``Pointwise``."""
        name, times = slot
        if times == "rc":
            return self.current[name]
        if times == "r":
            return self.current_functions[name][:, None] if name else self.rows[:, None]
        if times == "c":
            return (self._function_columns(name) if name else self.columns)[None, :]
        if times == "rr":
            return self._row_diagonal(name)[:, None]
        if times == "cc":
            return np.append(self.diagonal[name][: self._past], self._row_diagonal(name))[None, :]
        if times == "r0":
            return self.current[name][:, :1]
        if times == "c0":
            return np.append(self.first_column[name][: self._past], self.current[name][:, 0])[None, :]
        if times == "0":
            return self.functions[name][0]
        return self.first_column[name][0] if self._past else self.current[name][0, 0]

    def _row_diagonal(self, head: str) -> Array:
        return np.diagonal(self.current[head][:, self._past :])

    def _function_columns(self, head: str) -> Array:
        return np.append(self.functions[head][: self._past], self.current_functions[head])

    @property
    def columns(self) -> Array:
        return np.concatenate([self.nodes[: self._past], self.rows])

    def _factor(self, index: int) -> Array:
        alias = self.plan.aliases[index]
        if alias is not None:
            return self.current[alias]
        value = np.asarray(self.plan.factors[index](self._read), float)
        return np.broadcast_to(value, (len(self.rows), len(self.columns)))

    # --- one panel -----------------------------------------------------------------------------------------------
    def add_panel(self, step: float, most: int = 60) -> float:
        """Solve one panel of the given length; return how far it is from resolved (0 is perfect).

        Nothing is kept unless ``accept`` follows.
        """
        self.step = step
        self.rows = self.row_edges[-1] + step * self.c
        self._past = len(self.nodes)
        self._guess()
        self._sweep()
        self._scale_cache = {}  # the first sweep tells how large the unknowns are
        mixer = Anderson(depth=6)
        best = np.inf
        for sweep in range(most):
            before = self._pack()
            self._sweep()
            after = self._pack()
            change = float(np.max(np.abs(after - before)))
            self.iterations += 1
            if change <= self.tolerance:
                break
            if not np.isfinite(change) or (sweep > 12 and change > 1e3 * best):
                raise NoConvergenceError
            best = min(best, change)
            self._unpack(mixer.next(before, after))
        else:
            if best > 100 * self.tolerance:
                raise NoConvergenceError
        return self._indicator()

    def accept(self) -> None:
        """Keep the panel just solved, then merge columns where the past has become smooth."""
        self._observe(self.m)
        self._record()
        self._extend()
        if self.merging > 0 and not self.full:
            self._merge_columns()

    def _guess(self) -> None:
        """Continue the previous panel's polynomials in time; keep the shape of its diagonal block."""
        m, past = self.m, self._past
        self.current, self.current_functions = {}, {}
        grown = len(self.row_edges) > 1
        forward = np.ones((m, m)) / m
        if grown:
            forward = lagrange(self.c, 1 + self.c * (self.step / (self.row_edges[-1] - self.row_edges[-2])))
        for head in self.heads:
            rows = np.empty((m, past + m))
            rows[:, :past] = forward @ self.last_block[head]
            if not np.abs(rows[:, :past]).max() <= 3 * self.scales[head]:
                rows[:, :past] = self.last_row[head]
            rows[:, past:] = self.last_block[head][:, -m:] if grown else self.last_row[head][0]
            self.current[head] = rows
        for head, values in self.functions.items():
            guess = forward @ self.history[head][-1] if grown else np.full(m, values[-1])
            self.current_functions[head] = guess if np.abs(guess).max() <= 3 * self.scales[head] else np.full(m, values[-1])

    def _pack(self) -> Array:
        parts = [self.current[head].ravel() / self._scale(head) for head in self.heads]
        parts += [self.current_functions[head] / self._scale(head) for head in self.functions]
        return np.concatenate(parts)

    def _scale(self, head: str) -> float:
        if head not in self._scale_cache:
            table = self.current[head] if head in self.current else self.current_functions[head]
            self._scale_cache[head] = max(float(np.abs(table).max()), self.scales[head], 1e-30)
        return self._scale_cache[head]

    def _unpack(self, vector: Array) -> None:
        position = 0
        for store in (self.current, self.current_functions):
            for head, rows in store.items():
                size = rows.size
                store[head] = vector[position : position + size].reshape(rows.shape) * self._scale(head)
                position += size

    def _sweep(self) -> None:
        """Evaluate every equation once with the newest values."""
        self._cache: dict[int, Array] = {}
        for equation in self.plan.functions:
            self._update_function(equation)
        for equation in self.plan.kernels:
            self._update_kernel(equation)
            self._cache.clear()

    def _left(self, index: int) -> Array:
        if index not in self._cache:
            self._cache[index] = self._factor(index)
        return self._cache[index]

    def _finite(self, value: Any, equation: CompiledEquation, shape: tuple[int, ...]) -> Array:
        array = np.broadcast_to(np.asarray(value, float), shape)
        if not np.isfinite(array).all():
            row = int(np.argmin(np.isfinite(array.reshape(shape[0], -1)).all(axis=1)))
            raise NotFiniteError(equation, float(self.rows[row]))
        return array

    def _update_function(self, equation: CompiledEquation) -> None:
        head = equation.name
        integrals = {entry.symbol: self._row_integral(entry)[:, None] for entry in equation.contractions}
        right = self._finite(equation.body(self._read, integrals), equation, (self.m, 1))
        if not equation.source.differential:
            self.current_functions[head] = right[:, 0].copy()
            return
        old = self.current_functions[head]
        slope = np.broadcast_to(np.asarray(equation.slope(self._read, integrals), float), (self.m, 1))  # type: ignore[misc]
        residual = self.functions[head][-1] + self.step * (self.A @ right[:, 0]) - old
        matrix = np.eye(self.m) - self.step * self.A * slope[:, 0]
        self.current_functions[head] = old + np.linalg.solve(matrix, residual)

    def _update_kernel(self, equation: CompiledEquation) -> None:
        head, m, past = equation.name, self.m, self._past
        integrals = {entry.symbol: self._integral(entry) for entry in equation.contractions}
        right = self._finite(equation.body(self._read, integrals), equation, (m, past + m))
        if not equation.source.differential:
            self.current[head] = right.copy()
            return
        old = self.current[head]
        slope = np.asarray(equation.slope(self._read, integrals), float)  # type: ignore[misc]
        matrix, identity = self.step * self.A, np.eye(m)
        new = np.empty_like(old)
        target = self.last_row[head] + matrix @ right[:, :past]
        if equation.slope_by_row:
            column = np.broadcast_to(slope, (m, 1))[:, 0]
            new[:, :past] = old[:, :past] + np.linalg.solve(identity - matrix * column, target - old[:, :past])
            columns = np.broadcast_to(column[:, None], (m, m))
        else:
            table = np.broadcast_to(slope, (m, past + m))
            systems = identity - matrix[None] * table[:, :past].T[:, None, :]
            residual = (target - old[:, :past]).T[:, :, None]
            new[:, :past] = old[:, :past] + np.linalg.solve(systems, residual)[:, :, 0].T
            columns = table[:, past:]
        self._update_block(equation, right, old, new, columns)
        self.current[head] = new

    def _update_block(
        self, equation: CompiledEquation, right: Array, old: Array, new: Array, slope: Array
    ) -> None:
        """Update the columns of the panel itself, each started on the diagonal or, by symmetry, at the panel's left end."""
        past, matrix = self._past, self.step * self.A
        diagonal = self._diagonal_values(equation)
        if diagonal is not None:
            starts, weights = diagonal, matrix[None] - matrix[:, None, :]
        else:
            starts, weights = new[:, past - 1], np.broadcast_to(matrix, (self.m, self.m, self.m))
        before = old[:, past:].T
        target = starts[:, None] + (weights @ right[:, past:].T[:, :, None])[:, :, 0] - before
        systems = np.eye(self.m) - weights * slope.T[:, None, :]
        new[:, past:] = (before + np.linalg.solve(systems, target[:, :, None])[:, :, 0]).T

    def _diagonal_values(self, equation: CompiledEquation) -> Array | None:
        given = equation.source.diagonal
        if given is None:
            return None
        if given.is_number:
            return np.full(self.m, float(given))
        key = id(equation)
        if key not in self._diagonal_functions:
            self._diagonal_functions[key] = pointwise(given)
        value = self._diagonal_functions[key](self._read)
        return np.broadcast_to(np.asarray(value, float), (self.m, 1))[:, 0]

    # --- integrals ------------------------------------------------------------------------------------------------
    def _row_integral(self, entry: CompiledContraction) -> Array:
        left, past = self._left(entry.left), self._past
        return left[:, :past] @ self.weights + np.sum(self.step * self.A * left[:, past:], axis=1)

    def _integral(self, entry: CompiledContraction) -> Array:
        if entry.joint is not None:
            return self._joint_integral(entry)
        left = self._left(entry.left)
        if entry.right is None:
            low = self._running_integral(left)
            return low if entry.span == "low" else self._row_integral(entry)[:, None] - low
        return self._low(left, entry.right) if entry.span == "low" else self._high(left, entry.right)

    def _right_rows(self, index: int) -> Array:
        """Return a right factor's rows on the current panel."""
        alias = self.plan.aliases[index]
        return self.current[alias] if alias is not None else self._left(index)

    def _low(self, left: Array, index: int) -> Array:
        """∫_start^{t'} left(t, s) right(t', s) ds for all rows t of the panel and all columns t'."""
        past, matrix = self._past, self.step * self.A
        rows = self._right_rows(index)
        out = np.empty_like(rows)
        out[:, :past] = left[:, :past] @ self.low[index].T
        out[:, past:] = (left[:, :past] * self.weights) @ rows[:, :past].T + left[:, past:] @ (matrix * rows[:, past:]).T
        return out

    def _high(self, left: Array, index: int) -> Array:
        """∫_{t'}^t left(t, s) right(s, t') ds for all rows t of the panel and all columns t'."""
        past, matrix = self._past, self.step * self.A
        rows = self._right_rows(index)
        own, block = matrix * left[:, past:], rows[:, past:]
        out = np.empty_like(rows)
        out[:, :past] = left[:, :past] @ self.high[index] + own @ rows[:, :past]
        out[:, past:] = own @ block - left[:, past:] @ (matrix.T * block)
        return out

    def _running_integral(self, left: Array) -> Array:
        """∫_start^{t'} left(t, s) ds for all rows and columns."""
        past, m = self._past, self.m
        out = np.zeros((m, past + m))
        steps = np.append(np.diff(self.edges), self.step)
        inner = left[:, 1:].reshape(m, -1, m) * steps[:, None]
        parts = inner @ self.A.T
        before = np.cumsum(parts[:, :, -1], axis=1) - parts[:, :, -1]
        out[:, 1:] = (before[:, :, None] + parts).reshape(m, -1)
        return out

    def _joint_integral(self, entry: CompiledContraction) -> Array:
        """An integrand that does not separate, row by row: cost nodes² per row and sweep."""
        past, m, total = self._past, self.m, self._past + self.m
        left = self._left(entry.left)
        right = np.ones((total, total))
        if entry.right is not None:
            table = self.full_factors.get(entry.right, np.zeros((past, past)))
            right = np.vstack([_padded(table, total), self._right_rows(entry.right)])
        full = {head: np.vstack([_padded(table, total), self.current[head]]) for head, table in self.full.items()}
        integrals = self._integration_matrix()
        out = np.empty((m, total))
        for i in range(m):
            values = np.broadcast_to(entry.joint(self._joint_reader(i, full)), (total, total))  # type: ignore[misc]
            if entry.span == "low":
                out[i] = np.sum(integrals * values * left[i] * right, axis=1)
            else:
                weights = integrals[past + i] - integrals
                out[i] = np.sum(weights * values * left[i] * right.T, axis=1)
        return out

    def _integration_matrix(self) -> Array:
        """J[j, k]: weights of ∫_start^{t_j} on all nodes."""
        total = self._past + self.m
        steps = np.append(np.diff(self.edges), self.step)
        matrix = np.zeros((total, total))
        for panel, step in enumerate(steps):
            rows = slice(1 + panel * self.m, 1 + (panel + 1) * self.m)
            matrix[rows.stop :, rows] = step * self.b
            matrix[rows, rows] = step * self.A
        return matrix

    def _joint_reader(self, row: int, full: dict[str, Array]) -> Callable[[Slot], Any]:
        """Read values on (columns, middle nodes) for one row."""
        here = self._past + row

        def spread(values: Array, letter: str) -> Any:
            if letter in "r0":
                return values[here if letter == "r" else 0]
            return values[:, None] if letter == "c" else values[None, :]

        def read(slot: Slot) -> Any:
            name, times = slot
            if len(times) == 1:
                return spread(self._function_columns(name) if name else self.columns, times)
            table = full[name]
            if times[0] == times[1]:
                return spread(np.diagonal(table), times[0])
            if times[0] == "r":
                return spread(table[here], times[1])
            if times[1] == "0":
                return spread(table[:, 0], times[0])
            return table if times == "cm" else table.T

        return read

    # --- after a panel ------------------------------------------------------------------------------------------
    def _indicator(self) -> float:
        """Return the size of the first neglected polynomial coefficient in time, relative to each unknown's size."""
        whole, block = _highest(self.m, True), _highest(self.m, False)
        worst = 0.0
        for head, rows in self.current.items():
            full = np.vstack([self.last_row[head], rows[:, : self._past]])
            worst = max(worst, _tail(full, whole) / self._scale(head), _tail(rows[:, self._past :], block) / self._scale(head))
        for head, values in self.current_functions.items():
            worst = max(worst, _tail(np.append(self.functions[head][-1], values)[:, None], whole) / self._scale(head))
        return worst

    def _record(self) -> None:
        """Keep the panel's rows for later evaluation, continued to the panel's left end."""
        back = lagrange(self.c, np.zeros(1))
        values = {}
        for head, rows in self.current.items():
            left = np.concatenate([self.last_row[head], (back @ rows[:, self._past :])[0]])
            values[head] = np.vstack([left, rows])
        edges = np.append(self.edges, self.rows[-1])
        self.records.append(Record(self.row_edges[-1], float(self.rows[-1]), edges, values))

    def _extend(self) -> None:
        """Make the panel part of the past."""
        past, m, step = self._past, self.m, self.step
        self._cache = {}
        for index in self.plan.stored:
            rows = self._right_rows(index)
            low, high = np.zeros((past + m, past + m)), np.zeros((past + m, past + m))
            low[:past, :past], high[:past, :past] = self.low[index], self.high[index]
            low[past:, :past] = rows[:, :past] * self.weights
            low[past:, past:] = step * self.A * rows[:, past:]
            high[past:, :past] = step * self.b[:, None] * rows[:, :past]
            high[past:, past:] = step * (self.b[:, None] - self.A.T) * rows[:, past:]
            self.low[index], self.high[index] = low, high
            if self.full:
                table = self.full_factors.get(index, np.zeros((past, past)))
                self.full_factors[index] = np.vstack([_padded(table, past + m), rows])
        for head, rows in self.current.items():
            self.scales[head] = self._scale(head)
            self.last_row[head], self.last_block[head] = rows[-1].copy(), rows
            self.diagonal[head] = np.append(self.diagonal[head], self._row_diagonal(head))
            self.first_column[head] = np.append(self.first_column[head], rows[:, 0])
            if self.full:
                self.full[head] = np.vstack([_padded(self.full[head], past + m), rows])
        for head, values in self.functions.items():
            self.scales[head] = self._scale(head)
            self.history[head].append(self.current_functions[head])
            self.functions[head] = np.append(values, self.current_functions[head])
        self.row_edges.append(float(self.rows[-1]))
        self.edges = np.append(self.edges, self.rows[-1])
        self.nodes = np.append(self.nodes, self.rows)
        self.weights = np.append(self.weights, step * self.b)
        self._scale_cache = {}

    # --- merging columns ------------------------------------------------------------------------------------------
    def _merge_columns(self) -> None:
        """Merge neighbouring column panels wherever everything is smooth enough on both together."""
        now = self.edges[-1]
        self._totals = {i: [self.low[i].sum(axis=1), self.high[i].sum(axis=0)] for i in self.plan.stored}
        for index, totals in self._totals.items():
            largest = max(float(np.abs(total).max()) for total in totals)
            self._total_scales[index] = max(largest, self._total_scales.get(index, 1e-30))
        panel = 0
        while panel < len(self.edges) - 4:
            left, middle, right = self.edges[panel : panel + 3]
            near = right - left > 0.8 * (now - right) or (middle - left) > 3 * (right - middle) > 0
            if near or (right - middle) > 3 * (middle - left) or self.retry.get(left, now) > now:
                panel += 1
            elif self._try_merge(panel):
                self.retry.pop(left, None)
                self.retry.pop(middle, None)
            else:
                self.retry[left] = now + 0.25 * (now - left)
                panel += 1

    def _try_merge(self, panel: int) -> bool:
        m, first = self.m, 1 + panel * self.m
        part = slice(first - 1, first + 2 * m)
        inner = slice(first, first + 2 * m)
        left, middle, right = self.edges[panel : panel + 3]
        to_merged, back = _merge_matrices(m, round((middle - left) / (right - left), 12))
        for head in (*self.heads, *self.functions):
            tables = [self.functions[head]] if head in self.functions else [self.last_block[head], self.first_column[head]]
            if any(not self._survives(table[..., part], to_merged, back, self.scales[head]) for table in tables):
                return False
        for index in self.plan.stored:
            for total in self._totals[index]:
                if not self._survives(total[part], to_merged, back, self._total_scales[index]):
                    return False
        nodes_basis = lagrange(self.c, (self.nodes[inner] - left) / (right - left))
        for index in self.plan.stored:
            self.low[index] = _merge_rows(_merge_sums(self.low[index], inner, nodes_basis), part, to_merged)
            self.high[index] = _merge_rows(_merge_sums(self.high[index].T, inner, nodes_basis), part, to_merged).T
            self._totals[index] = [_merge_values(total, part, to_merged) for total in self._totals[index]]
        for store in (self.last_row, self.last_block, self.diagonal, self.first_column, self.functions):
            for head, table in store.items():
                store[head] = _merge_values(table, part, to_merged)
        self.nodes = np.concatenate([self.nodes[:first], left + (right - left) * self.c, self.nodes[first + 2 * m :]])
        self.nodes[first + m - 1] = right
        self.weights = np.concatenate([self.weights[:first], (right - left) * self.b, self.weights[first + 2 * m :]])
        self.edges = np.delete(self.edges, panel + 1)
        return True

    def _survives(self, values: Array, to_merged: Array, back: Array, scale: float) -> bool:
        """Whether values on two panels are reproduced from the merged panel's nodes."""
        merged = values @ to_merged.T
        restored = np.concatenate([values[..., :1], merged], axis=-1) @ back.T
        return bool(np.abs(restored - values).max() <= self.merging * scale)

    def _observe(self, rows: int) -> None:
        """Evaluate the observables on the newest rows."""
        self._cache = {}
        for equation in self.plan.observables:
            if rows == 1:
                integrals = {entry.symbol: np.zeros((1, 1)) for entry in equation.contractions}
            else:
                integrals = {entry.symbol: self._row_integral(entry)[:, None] for entry in equation.contractions}
            value = np.asarray(equation.body(self._read, integrals), float)
            self.observables[equation.name].append(np.broadcast_to(value, (rows, 1))[:, 0].copy())

    def grid(self) -> PanelGrid:
        """Return the grid of the rows."""
        return PanelGrid(np.array(self.row_edges), self.m)

    def curves(self) -> dict[str, Array]:
        """Return the one-time functions and the observables on the rows' grid."""
        made = {head: np.concatenate([self.functions[head][:1], *parts[1:]]) for head, parts in self.history.items()}
        return {**made, **{name: np.concatenate(parts) for name, parts in self.observables.items()}}


def _padded(table: Array, width: int) -> Array:
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))


@functools.lru_cache(maxsize=64)
def _highest(m: int, with_left_end: bool) -> Array:
    """Return the functionals that give the two highest Chebyshev coefficients on a panel's nodes."""
    from numpy.polynomial import chebyshev

    nodes = np.concatenate([[0.0], radau(m).nodes]) if with_left_end else radau(m).nodes
    matrix = chebyshev.chebvander(2 * nodes - 1, len(nodes) - 1)
    rows = np.linalg.inv(matrix)[-2:]
    return np.asarray(rows if len(rows) == 2 else np.vstack([rows, rows]))


def _tail(values: Array, functionals: Array) -> float:
    """Return the estimated size of the first neglected coefficient."""
    second, first = np.abs(functionals @ values).max(axis=1)
    if first == 0.0:
        return 0.0
    ratio = min(1.0, first / second) if second > 0 else 1.0
    return float(first * ratio)


@functools.lru_cache(maxsize=4096)
def _merge_matrices(m: int, cut: float) -> tuple[Array, Array]:
    """Return interpolation from two panels (left end and 2m nodes) to the merged panel's nodes, and back.

    The two panels are [0, cut] and [cut, 1]; ``back`` reads the left end and the merged nodes.
    """
    c = radau(m).nodes
    local = np.concatenate([[0.0], c])
    to_merged = np.zeros((m, 2 * m + 1))
    before = c <= cut
    to_merged[before, : m + 1] = lagrange(local, c[before] / cut)
    to_merged[~before, m:] = lagrange(local, (c[~before] - cut) / (1 - cut))
    old = np.concatenate([[0.0], cut * c, cut + (1 - cut) * c])
    return to_merged, lagrange(local, old)


def _merge_values(table: Array, part: slice, to_merged: Array) -> Array:
    """Replace values on two panels (last axis) by values on the merged panel's nodes."""
    merged = table[..., part] @ to_merged.T
    return np.concatenate([table[..., : part.start + 1], merged, table[..., part.stop :]], axis=-1)


def _merge_sums(table: Array, inner: slice, basis: Array) -> Array:
    """Sum integrals against two panels' basis functions (columns) into those of the merged panel."""
    return np.concatenate([table[:, : inner.start], table[:, inner] @ basis, table[:, inner.stop :]], axis=1)


def _merge_rows(table: Array, part: slice, to_merged: Array) -> Array:
    """Interpolate rows, the operators' dependence on the outer time."""
    return np.concatenate([table[: part.start + 1], to_merged @ table[part], table[part.stop :]])
