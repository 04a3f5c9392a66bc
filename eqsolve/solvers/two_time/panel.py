"""One panel of a march: the unknown rows at its nodes, the equations they satisfy there, and how they are solved.

All unknowns of a panel are views into one vector. Unknowns that need each other form a block; blocks are solved one after
the other, in sweeps that evaluate every equation once. An unknown's own pointwise part, and its own memory on the panel where
it is linear or of one time, are treated implicitly, with slopes taken at the guess. Sweeps are combined by Anderson
acceleration. In the panel's own columns the kernels are continued smoothly across the diagonal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from eqsolve.compile.two_time import CompiledContraction, CompiledEquation, Slot, TwoTimeProgram
from eqsolve.errors import ParameterError
from eqsolve.numerics.arrays import ROUNDING, Array, filled
from eqsolve.numerics.grids import PanelGrid, radau
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.secants import Secants
from eqsolve.solvers.marching import RATIO, NoConvergenceError, NotFiniteError
from eqsolve.solvers.tolerance import FLOOR

# --- The solved past of a march: its columns, the values on them, and the integration operators of
# the right factors.


class History:
    """Everything later panels need to know of earlier ones.

    ``row_edges`` and ``edges`` are the ends of the row panels and of the column panels (fewer, once
    columns have been merged), ``nodes`` and ``weights`` the columns and their weights in an
    integral over the whole past. On the columns s are one-time ``functions``, K(s, s) in
    ``diagonal``, K(s, start) in ``first_column``, K(now, s) in ``last_row``, and in ``last_block``
    K(t_i, s) on the newest panel's rows. With ℓ_k the basis functions of the column panels, the
    operators of a right factor r are low[j, k] = ∫_start^{s_j} r(s_j, s) ℓ_k(s) ds and high[k, j] =
    ∫_{s_j}^{now} r(s, s_j) ℓ_k(s) ds. All values of kernels and right factors, ``full`` and
    ``full_factors``, are kept only if an integrand does not separate. ``largest`` and ``sizes`` are
    the largest value of each unknown so far, and its size in recent panels.
    """

    def __init__(self, plan: TwoTimeProgram, order: int) -> None:
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

    def extend(self, panel: RowPanel) -> None:
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


# --- Integrals over the past and the current panel, for all rows of the panel at once: products with
# the operators in ``History``, and of the panel's own part with A[i, l] = ∫^{t_i} ℓ_l.
class Integrals:
    """The integrals of one panel. Factors are evaluated once per sweep, what the panel does not change once."""

    def __init__(self, panel: RowPanel) -> None:
        self.panel, self.history, self.plan = panel, panel.history, panel.plan
        self.past = panel.past
        self._factors: dict[str, Array] = {}
        self._products: dict[tuple[str, Any, str], Array] = {}

    def forget(self, head: str) -> None:
        """Drop the factors that read an unknown, because it has changed."""
        for index in self.plan.readers[head] if self._factors else ():
            self._factors.pop(index, None)

    def left(self, index: str) -> Array:
        """Return a factor on the panel's rows and all columns."""
        alias = self.plan.aliases[index]
        if alias is not None:
            return self.panel.kernels[alias]
        if index not in self._factors:
            self._factors[index] = self.panel.value(self.plan.factors[index], self.panel.total)
        return self._factors[index]

    right = left  # the same values, read as a function of (middle, column) instead of (row, middle)

    def _past_product(self, index: str, what: Any, span: str, operator: Array) -> Array:
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

    def _low(self, first: str, second: str) -> Array:
        """∫_start^{t'} left(t, s) right(t', s) ds for all rows t and columns t'."""
        past, matrix = self.past, self.panel.matrix
        left, rows = self.left(first), self.right(second)
        out = np.empty(rows.shape)
        out[:, :past] = self._past_product(first, second, "low", self.history.low[second].T)
        out[:, past:] = (left[:, :past] * self.history.weights) @ rows[:, :past].T
        out[:, past:] += left[:, past:] @ (matrix * rows[:, past:]).T
        return out

    def _high(self, first: str, second: str) -> Array:
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

    # --- integrands that do not separate
    def _joint(self, entry: CompiledContraction) -> Array:
        """An integrand that does not separate, row by row: cost columns² per row and sweep."""
        past, total, joint = self.past, self.panel.total, entry.joint
        assert joint is not None
        left = self.left(entry.left)
        right = np.ones((total, total))
        if entry.right is not None:
            right = np.vstack([padded(self.history.full_factors[entry.right], total), self.right(entry.right)])
        full = {head: np.vstack([padded(table, total), self.panel.kernels[head]]) for head, table in self.history.full.items()}
        panels = PanelGrid(np.append(self.history.edges, self.panel.times[-1]), self.history.order)
        integrals = OperatorGrid.from_panels(panels).integration
        out = np.empty(left.shape)
        for i in range(len(left)):
            values = np.broadcast_to(joint(self._joint_reader(i, full)), (total, total))
            if entry.span == "low":
                out[i] = np.sum(integrals * values * left[i] * right, axis=1)
            else:
                out[i] = np.sum((integrals[past + i] - integrals) * values * left[i] * right.T, axis=1)
        return out

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


Inverses = tuple[Array | None, Array | None]


class RowPanel:
    """The rows of one panel at its nodes ``times`` while they are being solved, behind the solved past ``history``.

    ``matrix`` are the integrals ∫^{t_i} ℓ_l of the basis functions of the nodes, from the panel's
    left end.
    """

    def __init__(self, plan: TwoTimeProgram, history: History, times: Array, step: float, matrix: Array) -> None:
        self.plan, self.history, self.times, self.step, self.matrix = plan, history, times, step, matrix
        self.past, self.count = len(history.nodes), len(times)
        self.total = self.past + self.count
        self.columns = np.concatenate([history.nodes, times])
        self.kernels: dict[str, Array] = {}
        self.functions: dict[str, Array] = {}
        self._lay_out()
        self.integrals = Integrals(self)
        self.read = functools.cache(self._view)  # values by slot, made on first use
        self._tails: dict[str, list[tuple[Array, Array]]] = {}
        self._inverses: dict[str, Inverses] = {}
        self.rights: dict[str, Array] = {}  # right-hand sides in the panel's own columns
        self._constants: dict[str, Array] = {}  # on the diagonal
        self.sizes: dict[str, float] = {}
        self.errors: dict[str, float] = {}  # left by the iteration, relative to the unknowns' sizes
        self._from_diagonal = matrix[None] - matrix[:, None, :]  # [j, i, l]: weights of ∫_{t_j}^{t_i}

    @classmethod
    def at_start(cls, plan: TwoTimeProgram, history: History, start: float) -> RowPanel:
        """Return the start as a panel of one node: initial values, and definitions evaluated with empty integrals."""
        panel = cls(plan, history, np.array([start]), 0.0, np.zeros((1, 1)))
        differential = [eq for eq in (*plan.kernels, *plan.functions) if eq.differential]
        definitions = [eq for eq in (*plan.kernels, *plan.functions) if not eq.differential]
        for equation in (*differential, *definitions):  # of definitions, a first guess of what Newton's method finds
            if equation.start is not None:
                panel.values(equation.name).fill(float(equation.start()[0]))
        for sweep in range(100):
            before = panel.state.copy()
            panel.refresh()
            for equation in differential:
                if equation.diagonal is not None:
                    panel.kernels[equation.name][0, 0] = panel.diagonal(equation)[0]
            for equation in definitions:
                value = np.asarray(equation.body(panel.read, dict.fromkeys(equation.body.integrals, 0.0)), float)
                if not np.isfinite(value).all():
                    raise NotFiniteError(equation, start)
                panel.values(equation.name).fill(value.reshape(-1)[0])
            if np.array_equal(panel.state, before):
                break
            if sweep > len(definitions) and np.allclose(panel.state, before, rtol=1e-13, atol=1e-300):
                break
        for equation in plan.kernels:
            if equation.mirror not in (None, equation.name):  # of two members
                own = [float(panel.kernels[name][0, 0]) for name in (equation.name, equation.mirror)]
                own += [] if equation.start is None else [float(equation.start()[0])]
                if not np.allclose(own, own[0], rtol=1e-9, atol=1e-9):
                    raise ParameterError(
                        f"{equation.label}: `{equation.name}` starts from {min(own):.6g} and from {max(own):.6g}; "
                        "C[k, l](t, t) and C[l, k](t, t) are the same: change init="
                    )
        panel.refresh()
        panel.measure()
        return panel

    @classmethod
    def after(cls, plan: TwoTimeProgram, history: History, step: float, order: int) -> RowPanel:
        """Return the panel of the given length that follows the past."""
        rule = radau(order)
        return cls(plan, history, history.now + step * rule.nodes, step, step * rule.integrals)

    @classmethod
    def probe(cls, plan: TwoTimeProgram, history: History) -> dict[str, Array]:
        """Return the right-hand sides and the observables at the present, as they follow from the past alone."""
        panel = cls(plan, history, np.array([history.now]), 0.0, np.zeros((1, 1)))
        for head, rows in panel.kernels.items():
            rows[0] = np.append(history.last_row[head], history.last_row[head][-1])
        for head, values in panel.functions.items():
            values[:] = history.functions[head][-1]
        panel.refresh()
        made = {equation.name: panel.observe(equation) for equation in (*plan.functions, *plan.observables)}
        for equation in plan.kernels:
            integrals = {entry.symbol: panel.integrals.table(entry) for entry in equation.contractions}
            made[equation.name] = panel._right(equation, integrals, panel.total, False)[0, : panel.past]
        return made

    # --- the vector of unknowns
    def _lay_out(self) -> None:
        """Make the unknowns views into one vector, block by block."""
        arity = {equation.name: 2 for equation in self.plan.kernels}
        names = [equation.name for block in self.plan.blocks for equation in block]
        lengths = [self.count * (self.total if arity.get(name) else 1) for name in names]
        ends = np.cumsum(lengths)
        self.state = np.zeros(ends[-1])
        self.places = {name: slice(end - n, end) for name, end, n in zip(names, ends.tolist(), lengths, strict=True)}
        for name, place in self.places.items():
            if arity.get(name):
                self.kernels[name] = self.state[place].reshape(self.count, self.total)
            else:
                self.functions[name] = self.state[place]

    def values(self, head: str) -> Array:
        """Return the current values of an unknown, a kernel or a function."""
        return self.kernels[head] if head in self.kernels else self.functions[head]

    def largest(self, head: str) -> float:
        """Return the largest absolute value of an unknown, for t ≥ t' if it is a kernel."""
        if head in self.functions:
            return float(np.abs(self.functions[head]).max())
        sizes = np.abs(self.kernels[head])
        return max(float(sizes[:, : self.past].max(initial=0.0)), float(np.tril(sizes[:, self.past :]).max()))

    def measure(self) -> None:
        """Take the unknowns' sizes; recent ones are remembered for a while, large ones down to a fraction."""
        history = self.history
        for head in self.places:
            recent = max(0.5 * history.sizes[head], FLOOR * history.largest[head])
            self.sizes[head] = max(self.largest(head), recent)
        smallest = max(1e-14 * max(self.sizes.values()), 1e-30)
        for head, size in self.sizes.items():
            self.sizes[head] = max(size, smallest)

    def refresh(self, names: Iterable[str] | None = None) -> None:
        """Tell everything derived from some unknowns (from all of them) that they have changed."""
        for name in names if names is not None else self.places:
            for target, source in self._tails.get(name, ()):
                target[:] = source
            self.integrals.forget(name)

    # --- reading values
    def _view(self, slot: Slot) -> Any:
        """Return a value on (rows, columns) that follows the state; patterns of times are explained at ``Pointwise``."""
        name, times = slot
        history = self.history
        match times:
            case "rc":
                return self.kernels[name]
            case "r":
                return (self.functions[name] if name else self.times)[:, None]
            case "c":
                if not name:
                    return self.columns[None, :]
                return self._joined(name, history.functions[name], self.functions[name])[None, :]
            case "rr":
                return np.diagonal(self.kernels[name][:, self.past :])[:, None]
            case "cc":
                return self._joined(name, history.diagonal[name], np.diagonal(self.kernels[name][:, self.past :]))[None, :]
            case "r0":
                return self.kernels[name][:, :1]
            case "c0":
                return self._joined(name, history.first_column[name], self.kernels[name][:, 0])[None, :]
            case "0":
                return history.functions[name][:1] if self.past else self.functions[name][:1]
            case _:
                return history.first_column[name][:1] if self.past else self.kernels[name][0, :1]

    def _joined(self, name: str, before: Array, now: Array) -> Array:
        """Return past and current values side by side; the current part is kept up to date by ``refresh``."""
        joined = np.concatenate([before, now])
        self._tails.setdefault(name, []).append((joined[self.past :], now))
        return joined

    def value(self, function: Any, width: int, *more: Any) -> Array:
        """Return a pointwise function with one row per node and the given number of columns."""
        return filled(function(self.read, *more), (self.count, width))

    # --- sweeps
    def solve(self, tolerance: float) -> int:
        """Iterate until the largest change is below the tolerance, relative to each unknown's size; return the sweeps."""
        self.measure()
        try:
            return max(self._solve_block(block, tolerance) for block in self.plan.blocks)
        except np.linalg.LinAlgError:
            raise NoConvergenceError from None

    def _solve_block(self, block: tuple[CompiledEquation, ...], tolerance: float) -> int:
        names = [equation.name for equation in block]
        part = slice(self.places[names[0]].start, self.places[names[-1]].stop)
        mixer, best, last = Secants(depth=6), np.inf, np.inf
        for sweep in range(30):
            before = self.state[part].copy()
            self._sweep(block)
            if sweep == 0:
                self.measure()  # the guess may have said nothing about it
                lengths = [self.places[name].stop - self.places[name].start for name in names]
                scale = np.repeat([self.sizes[name] for name in names], lengths)
            residual = (self.state[part] - before) / scale
            change = float(np.abs(residual).max())
            stuck = 10 * ROUNDING > change > 0.5 * last  # limited by rounding
            if change <= (tolerance if sweep else 0.01 * tolerance) or stuck:
                contraction = min(max(change / last, RATIO**-2), 1.0) if sweep > 0 and not stuck else 1.0
                sizes = np.maximum.reduceat(np.abs(residual), np.cumsum([0, *lengths[:-1]]))
                self.errors |= dict(zip(names, (contraction * sizes).tolist(), strict=True))
                return sweep + 1
            if not np.isfinite(change):
                # repeat a sweep, equation by equation, to name the first that is not finite
                self.state[part] = before
                self.refresh()
                if np.isfinite(before).all():
                    self._sweep(block, checked=True)
                raise NoConvergenceError
            if sweep > 8 and change > 1e3 * best:
                raise NoConvergenceError
            best, last = min(best, change), change
            if sweep == 0 and change > 1 / RATIO:  # the slopes at the guess are not trusted
                for name in names:
                    self._inverses.pop(name, None)
                mixer = Secants(depth=6)
            else:
                self.state[part] = mixer.next(before / scale, self.state[part] / scale) * scale
                self.refresh(names)
        raise NoConvergenceError

    def _sweep(self, block: tuple[CompiledEquation, ...], checked: bool = False) -> None:
        for equation in block:
            if equation.name in self.kernels:
                self._update_kernel(equation, checked)
            else:
                self._update_function(equation, checked)

    def _right(self, equation: CompiledEquation, integrals: dict[Any, Array], width: int, checked: bool) -> Array:
        right = self.value(equation.body, width, integrals)
        if checked and not np.isfinite(right).all():
            row = int(np.argmin(np.isfinite(right).all(axis=1)))
            raise NotFiniteError(equation, float(self.times[row]))
        return right

    def _update_function(self, equation: CompiledEquation, checked: bool) -> None:
        head = equation.name
        integrals = {entry.symbol: self.integrals.row(entry)[:, None] for entry in equation.contractions}
        right = self._right(equation, integrals, 1, checked)[:, 0]
        if head not in self._inverses:
            self._inverses[head] = self._invert_function(equation, integrals)
        current, inverse = self.functions[head], self._inverses[head][0]
        if equation.differential:
            right = self.history.functions[head][-1] + self.matrix @ right
        current += right - current if inverse is None else inverse @ (right - current)
        self.refresh((head,))

    def _update_kernel(self, equation: CompiledEquation, checked: bool) -> None:
        head, past = equation.name, self.past
        integrals = {entry.symbol: self.integrals.table(entry) for entry in equation.contractions}
        right = self._right(equation, integrals, self.total, checked)
        if head not in self._inverses:
            self._inverses[head] = self._invert_kernel(equation, integrals)
        current, (inverse, own_inverse) = self.kernels[head], self._inverses[head]
        before, own = right[:, :past], right[:, past:].T
        if equation.differential:
            self.rights[head] = own
            before = self.history.last_row[head] + self.matrix @ before
            own = self.diagonal(equation)[:, None] + (self._from_diagonal @ own[:, :, None])[:, :, 0]
        if inverse is None or own_inverse is None:
            current[:, :past], current[:, past:] = before, own.T
        else:
            residual = before - current[:, :past]
            if inverse.ndim == 2:
                current[:, :past] += inverse @ residual
            else:
                current[:, :past] += (inverse @ residual.T[:, :, None])[:, :, 0].T
            block = current[:, past:].T
            block += (own_inverse @ (own - block)[:, :, None])[:, :, 0]
        self.refresh((head,))

    # --- the implicit part
    def _invert_function(self, equation: CompiledEquation, integrals: dict[Any, Array]) -> Inverses:
        """Return the inverse of 1 − ∂(right-hand side)/∂(own values), the memory of the panel itself included."""
        feedback = np.zeros((self.count, self.count))
        for entry in equation.contractions:
            if entry.gain is not None and entry.feedback is not None:
                inner = self.value(entry.feedback, self.total)[:, self.past :]
                feedback += self.value(entry.gain, 1) * self.matrix * inner
        if equation.differential:
            feedback = self.matrix @ (feedback + np.diag(self.value(equation.slope, 1, integrals)[:, 0]))
        elif not feedback.any():
            return None, None
        return np.linalg.inv(np.eye(self.count) - feedback), None

    def _invert_kernel(self, equation: CompiledEquation, integrals: dict[Any, Array]) -> Inverses:
        """Return such inverses for past columns (one for all, or each its own) and for each of the panel's own."""
        past, count = self.past, self.count
        linear = [entry for entry in equation.contractions if entry.gain is not None]
        if not (equation.differential or linear):
            return None, None
        weights = sum(
            (self.value(e.gain, 1) * self.integrals.left(e.left)[:, past:] for e in linear), np.zeros((count, count))
        )
        feedback, own = (self.matrix * weights)[None], self._from_diagonal * weights
        if equation.differential:
            slope = self.value(equation.slope, 1 if equation.slope_by_row else self.total, integrals)
            before = slope if equation.slope_by_row else slope[:, :past]
            after = np.broadcast_to(slope, (count, count)) if equation.slope_by_row else slope[:, past:]
            feedback = self.matrix @ (feedback + _diagonals(before))
            own = self._from_diagonal @ (own + _diagonals(after))
        inverse = np.linalg.inv(np.eye(count) - feedback)
        return inverse[0] if len(inverse) == 1 else inverse, np.linalg.inv(np.eye(count) - own)

    def diagonal(self, equation: CompiledEquation) -> Array:
        """Return the given values on the diagonal."""
        assert equation.diagonal is not None
        if equation.name in self._constants:
            return self._constants[equation.name]
        values = self.value(equation.diagonal, 1)[:, 0]
        if not equation.diagonal.heads:
            self._constants[equation.name] = values
        return values

    # --- after the iteration
    def observe(self, equation: CompiledEquation) -> Array:
        """Return an observable on the panel's nodes."""
        integrals = {entry.symbol: self.integrals.row(entry)[:, None] for entry in equation.contractions}
        return self.value(equation.body, 1, integrals)[:, 0].copy()

    def with_left_end(self, equation: CompiledEquation) -> Array:
        """Return a kernel's rows, the one at the panel's left end first; its own columns are continued to it."""
        head, rows = equation.name, self.kernels[equation.name]
        if head in self.rights:
            own = self.diagonal(equation) - np.einsum("jl,jl->j", self.matrix, self.rights[head])
        else:
            own = radau(self.count).back @ rows[:, self.past :]
        return np.vstack([np.concatenate([self.history.last_row[head], own]), rows])


def _diagonals(columns: Array) -> Array:
    """Return one diagonal matrix for each column of a table."""
    return np.asarray(columns.T[:, :, None] * np.eye(len(columns)))
