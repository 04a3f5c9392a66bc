"""One panel of a march by Radau collocation: its unknown rows, the equations at its nodes, and how they are solved.

All unknowns of a panel are views into one vector. Unknowns that need each other form a block; blocks are solved one after
the other, in sweeps that evaluate every equation once. An unknown's own pointwise part, and its own memory on the panel where
it is linear or of one time, are treated implicitly, with slopes taken at the guess. Sweeps are combined by Anderson
acceleration. In the panel's own columns the kernels are continued smoothly across the diagonal.
"""

from __future__ import annotations

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


class History:
    """Everything later panels need to know of the solved past.

    ``row_edges`` and ``edges`` are the ends of the row panels and of the column panels (fewer, once
    columns have been merged), ``nodes`` and ``weights`` the columns and their weights in an
    integral over the whole past. On the columns s are one-time ``functions``, K(s, s) in
    ``diagonal``, K(s, start) in ``first_column``, and in ``last_block`` K(t_i, s) on the newest
    panel's rows, the last of which is the present. With ℓ_k the basis functions of the column
    panels, the operators of a right factor r are low[j, k] = ∫_start^{s_j} r(s_j, s) ℓ_k(s) ds and
    high[k, j] = ∫_{s_j}^{now} r(s, s_j) ℓ_k(s) ds. All values of kernels and right factors,
    ``full`` and ``full_factors``, are kept only if an integrand does not separate. ``largest`` and
    ``sizes`` are the largest value of each unknown so far, and its size in recent panels.
    """

    def __init__(self, plan: TwoTimeProgram, order: int) -> None:
        self.plan, self.order = plan, order
        kernels, functions = ([item.name for item in group] for group in (plan.kernels, plan.functions))
        factors = dict.fromkeys(entry.right for item in plan.kernels for entry in item.contractions)
        nothing, empty = np.empty(0), np.empty((0, 0))
        self.row_edges: list[float] = []
        self.edges, self.nodes, self.weights = nothing, nothing, nothing
        self.functions = dict.fromkeys(functions, nothing)
        self.diagonal, self.first_column = dict.fromkeys(kernels, nothing), dict.fromkeys(kernels, nothing)
        self.last_block = dict.fromkeys(kernels, empty)
        self.low, self.high = dict.fromkeys(factors, empty), dict.fromkeys(factors, empty)
        self.full = {} if plan.separable else dict.fromkeys(kernels, empty)
        self.full_factors = {} if plan.separable else dict.fromkeys(factors, empty)
        self.largest, self.sizes = (dict.fromkeys((*kernels, *functions), 0.0) for _ in range(2))

    @property
    def now(self) -> float:
        return self.row_edges[-1]

    def extend(self, panel: RowPanel) -> None:
        """Make a solved panel part of the past; the first one is the start alone."""
        past, matrix, weights = panel.past, panel.matrix, panel.matrix[-1]
        for name in self.low:
            rows = panel.factor(name)
            low, high = (np.pad(table, (0, panel.count)) for table in (self.low[name], self.high[name]))
            # old rows stay as they are, for later times only the range of integration of ``high`` grows
            low[past:, :past] = rows[:, :past] * self.weights
            low[past:, past:] = matrix * rows[:, past:]
            high[past:, :past] = weights[:, None] * rows[:, :past]
            high[past:, past:] = (weights[:, None] - matrix.T) * rows[:, past:]
            self.low[name], self.high[name] = low, high
            if self.full_factors:
                self.full_factors[name] = below(self.full_factors[name], rows)
        for name, rows in panel.kernels.items():
            self.last_block[name] = rows
            self.diagonal[name] = np.append(self.diagonal[name], np.diagonal(rows[:, past:]))
            self.first_column[name] = np.append(self.first_column[name], rows[:, 0])
            if self.full:
                self.full[name] = below(self.full[name], rows)
        for name, values in panel.functions.items():
            self.functions[name] = np.append(self.functions[name], values)
        for name, size in panel.sizes.items():
            self.sizes[name] = size
            self.largest[name] = max(self.largest[name], panel.largest(name))
        end = float(panel.times[-1])
        self.row_edges.append(end)
        self.edges = np.append(self.edges, end)
        self.nodes = panel.columns
        self.weights = np.append(self.weights, weights)


def below(table: Array, rows: Array) -> Array:
    """Return a table, zero in columns that are new, with rows added."""
    return np.vstack([np.pad(table, ((0, 0), (0, rows.shape[1] - table.shape[1]))), rows])


Inverses = tuple[Array | None, Array | None]


class RowPanel:
    """The rows of one panel while they are being solved, behind the solved past ``history``.

    The panel begins at ``start`` and has ``order`` Radau nodes; a ``step`` of zero makes one of a
    single node, the start itself. ``matrix`` are the integrals ∫^{t_i} ℓ_l of the basis functions
    of the nodes, from the panel's left end.
    """

    def __init__(self, plan: TwoTimeProgram, history: History, start: float, step: float, order: int) -> None:
        self.plan, self.history, self.step = plan, history, step
        self.times, self.matrix = np.array([start]), np.zeros((1, 1))
        if step:
            self.times, self.matrix = start + step * radau(order).nodes, step * radau(order).integrals
        self.past, self.count = len(history.nodes), len(self.times)
        self.total = self.past + self.count
        self.columns = np.concatenate([history.nodes, self.times])
        self.kernels: dict[str, Array] = {}
        self.functions: dict[str, Array] = {}
        self._lay_out()
        self._inverses: dict[str, Inverses] = {}
        self.rights: dict[str, Array] = {}  # right-hand sides in the panel's own columns
        self.sizes: dict[str, float] = {}
        self.errors: dict[str, float] = {}  # left by the iteration, relative to the unknowns' sizes
        self._from_diagonal = self.matrix[None] - self.matrix[:, None, :]  # [j, i, l]: weights of ∫_{t_j}^{t_i}

    @classmethod
    def at_start(cls, plan: TwoTimeProgram, history: History, start: float, order: int) -> RowPanel:
        """Return the start as a panel of one node: initial values, and definitions evaluated with empty integrals."""
        panel = cls(plan, history, start, 0.0, order)
        differential = [eq for eq in (*plan.kernels, *plan.functions) if eq.differential]
        definitions = [eq for eq in (*plan.kernels, *plan.functions) if not eq.differential]
        for equation in (*differential, *definitions):  # of definitions, a first guess of what Newton's method finds
            if equation.start is not None:
                panel.values(equation.name).fill(float(equation.start()[0]))
        for _ in range(100):
            before = panel.state.copy()
            for equation in differential:
                if equation.diagonal is not None:
                    panel.kernels[equation.name][0, 0] = panel.diagonal(equation)[0]
            for equation in definitions:
                value = panel.right(equation, dict.fromkeys(equation.body.integrals, 0.0))
                panel.values(equation.name).fill(value[0, 0])
            if np.allclose(panel.state, before, rtol=ROUNDING, atol=1e-300):
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
        panel.measure()
        return panel

    @classmethod
    def probe(cls, plan: TwoTimeProgram, history: History) -> dict[str, Array]:
        """Return the right-hand sides and the observables at the present, as they follow from the past alone."""
        panel = cls(plan, history, history.now, 0.0, history.order)
        for name, rows in panel.kernels.items():
            present = history.last_block[name][-1]
            rows[0] = np.append(present, present[-1])
        for name, values in panel.functions.items():
            values[:] = history.functions[name][-1]
        equations = (*plan.kernels, *plan.functions, *plan.observables)
        return {equation.name: panel.right(equation)[0, : panel.past] for equation in equations}

    # --- the vector of unknowns
    def _lay_out(self) -> None:
        """Make the unknowns views into one vector, block by block."""
        kernels = {equation.name for equation in self.plan.kernels}
        names = [equation.name for block in self.plan.blocks for equation in block]
        lengths = [self.count * (self.total if name in kernels else 1) for name in names]
        ends = np.cumsum(lengths)
        self.state = np.zeros(ends[-1])
        self.places = {name: slice(end - n, end) for name, end, n in zip(names, ends.tolist(), lengths, strict=True)}
        for name, place in self.places.items():
            if name in kernels:
                self.kernels[name] = self.state[place].reshape(self.count, self.total)
            else:
                self.functions[name] = self.state[place]

    def values(self, name: str) -> Array:
        """Return the current values of an unknown, a kernel or a function."""
        return self.kernels[name] if name in self.kernels else self.functions[name]

    def largest(self, name: str) -> float:
        """Return the largest absolute value of an unknown, for t ≥ t' if it is a kernel."""
        if name in self.functions:
            return float(np.abs(self.functions[name]).max())
        return float(np.abs(np.tril(self.kernels[name], self.past)).max())

    def measure(self) -> None:
        """Take the unknowns' sizes; recent ones are remembered for a while, large ones down to a fraction."""
        history = self.history
        for name in self.places:
            recent = max(0.5 * history.sizes[name], FLOOR * history.largest[name])
            self.sizes[name] = max(self.largest(name), recent)
        smallest = max(1e-14 * max(self.sizes.values()), 1e-30)
        for name, size in self.sizes.items():
            self.sizes[name] = max(size, smallest)

    # --- reading values
    def read(self, slot: Slot) -> Array:
        """Return a value on (rows, columns); patterns of times are explained at ``PointwiseTerm``."""
        name, times = slot
        match times:
            case "rc":
                return self.kernels[name]
            case "r":
                return (self.functions[name] if name else self.times)[:, None]
            case "rr":
                return np.diagonal(self.kernels[name][:, self.past :])[:, None]
            case "r0":
                return self.kernels[name][:, :1]
            case "c" | "cc" | "c0":
                return self._on_columns(name, times)[None, :]
            case _:  # the start
                return self._on_columns(name, "c" if times == "0" else "cc")[:1]

    def _on_columns(self, name: str, times: str) -> Array:
        """Return a function of one time on all columns: K(s, s) and K(s, start) among them."""
        history = self.history
        if times == "c":
            return np.append(history.functions[name], self.functions[name]) if name else self.columns
        if times == "cc":
            return np.append(history.diagonal[name], np.diagonal(self.kernels[name][:, self.past :]))
        return np.append(history.first_column[name], self.kernels[name][:, 0])

    def value(self, function: Any, width: int, *more: Any) -> Array:
        """Return a pointwise function with one row per node and the given number of columns."""
        return filled(function(self.read, *more), (self.count, width))

    def factor(self, name: str | None) -> Array:
        """Return a factor of integrands on the panel's rows and all columns; without a name it is one.

        Left factors are read as functions of (row, middle time), right ones of (middle time, column).
        """
        if name is None:
            return np.ones((self.count, self.total))
        kernel = self.plan.aliases[name]
        return self.value(self.plan.factors[name], self.total) if kernel is None else self.kernels[kernel]

    def right(self, equation: CompiledEquation, integrals: dict[str, Any] | None = None) -> Array:
        """Return a right-hand side on rows and columns, of functions of one time and observables in one column."""
        if integrals is None:
            integrals = self.integrals(equation)
        right = self.value(equation.body, self.total if equation.name in self.kernels else 1, integrals)
        if not np.isfinite(right).all():
            row = int(np.argmin(np.isfinite(right).all(axis=1)))
            raise NotFiniteError(equation, float(self.times[row]))
        return right

    # --- integrals over the past and the panel, for all rows at once: products with the operators in ``History``, and with
    # ``matrix`` for the panel's own part
    def integrals(self, equation: CompiledEquation) -> dict[str, Array]:
        """Return the integrals in an equation on rows and columns."""
        return {entry.symbol: self._integral(entry) for entry in equation.contractions}

    def _integral(self, entry: CompiledContraction) -> Array:
        if entry.joint is not None:
            return self._joint(entry)
        left, history, past, matrix = self.factor(entry.left), self.history, self.past, self.matrix
        if entry.span == "all":  # ∫_start^t left(t, s) ds
            own: Array = np.einsum("ij,ij->i", matrix, left[:, past:])
            return (left[:, :past] @ history.weights + own)[:, None]
        rows = self.factor(entry.right)
        if entry.span == "low":  # ∫_start^{t'} left(t, s) right(t', s) ds
            table = np.empty(rows.shape)
            table[:, :past] = left[:, :past] @ history.low[entry.right].T
            table[:, past:] = (left[:, :past] * history.weights) @ rows[:, :past].T
            table[:, past:] += left[:, past:] @ (matrix * rows[:, past:]).T
        else:  # ∫_{t'}^t left(t, s) right(s, t') ds
            table = (matrix * left[:, past:]) @ rows
            table[:, :past] += left[:, :past] @ history.high[entry.right]
            table[:, past:] -= left[:, past:] @ (matrix.T * rows[:, past:])
        return table

    def _joint(self, entry: CompiledContraction) -> Array:
        """Return the integral of an integrand that does not separate, row by row: cost columns² per row and sweep."""
        history, total, joint = self.history, self.total, entry.joint
        assert joint is not None
        right = below(history.full_factors[entry.right], self.factor(entry.right))
        known = {name: below(table, self.kernels[name]) for name, table in history.full.items()}
        known |= {name: self._on_columns(name, "c") for name in ("", *self.functions)}
        integrals = OperatorGrid.from_panels(PanelGrid(np.append(history.edges, self.times[-1]), history.order)).integration
        every, table = np.arange(total), np.empty((self.count, total))
        for i, left in enumerate(self.factor(entry.left)):
            row = self.past + i
            places = {"r": row, "c": every[:, None], "m": every, "0": 0}

            def read(slot: Slot, places: dict[str, Any] = places) -> Any:
                return known[slot[0]][tuple(places[letter] for letter in slot[1])]

            values = np.broadcast_to(joint(read), (total, total)) * left
            if entry.span == "low":
                table[i] = np.sum(integrals * values * right, axis=1)
            else:
                table[i] = np.sum((integrals[row] - integrals) * values * right.T, axis=1)
        return table

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
        lengths = [self.places[name].stop - self.places[name].start for name in names]
        secants, best, last = Secants(depth=6), np.inf, np.inf
        for sweep in range(30):
            before = self.state[part].copy()
            for equation in block:
                self._update(equation)
            if sweep == 0:
                self.measure()  # the guess may have said nothing about it
                scale = np.repeat([self.sizes[name] for name in names], lengths)
            residual = (self.state[part] - before) / scale
            change = float(np.abs(residual).max())
            stuck = 10 * ROUNDING > change > 0.5 * last  # limited by rounding
            if change <= (tolerance if sweep else 0.01 * tolerance) or stuck:
                # what further sweeps would change, if they go on to shrink as the last one did
                contraction = min(max(change / last, RATIO**-2), 1.0) if sweep > 0 and not stuck else 1.0
                sizes = np.maximum.reduceat(np.abs(residual), np.cumsum([0, *lengths[:-1]]))
                self.errors |= dict(zip(names, (contraction * sizes).tolist(), strict=True))
                return sweep + 1
            if not np.isfinite(change) or (sweep > 8 and change > 1e3 * best):
                raise NoConvergenceError
            best, last = min(best, change), change
            if sweep == 0 and change > 1 / RATIO:  # the slopes at the guess are not trusted
                for name in names:
                    self._inverses.pop(name, None)
                secants = Secants(depth=6)
            else:
                self.state[part] = secants.next(before / scale, self.state[part] / scale) * scale
        raise NoConvergenceError

    def _update(self, equation: CompiledEquation) -> None:
        """Replace an unknown by what its equation gives, its implicit part solved for."""
        name, past, integrals = equation.name, self.past, self.integrals(equation)
        right = self.right(equation, integrals)
        invert = self._invert_kernel if name in self.kernels else self._invert_function
        if name not in self._inverses:
            self._inverses[name] = invert(equation, integrals)
        inverse, own_inverse = self._inverses[name]
        if name in self.functions:
            function, image = self.functions[name], right[:, 0]
            if equation.differential:
                image = self.history.functions[name][-1] + self.matrix @ image
            function += image - function if inverse is None else inverse @ (image - function)
            return
        current, before, own = self.kernels[name], right[:, :past], right[:, past:].T
        if equation.differential:
            self.rights[name] = own
            before = self.history.last_block[name][-1] + self.matrix @ before
            own = self.diagonal(equation)[:, None] + (self._from_diagonal @ own[:, :, None])[:, :, 0]
        if inverse is None or own_inverse is None:
            current[:, :past], current[:, past:] = before, own.T
            return
        residual = before - current[:, :past]
        current[:, :past] += inverse @ residual if inverse.ndim == 2 else (inverse @ residual.T[:, :, None])[:, :, 0].T
        block = current[:, past:].T
        block += (own_inverse @ (own - block)[:, :, None])[:, :, 0]

    # --- the implicit part
    def _invert_function(self, equation: CompiledEquation, integrals: dict[str, Array]) -> Inverses:
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

    def _invert_kernel(self, equation: CompiledEquation, integrals: dict[str, Array]) -> Inverses:
        """Return such inverses for past columns (one for all, or each its own) and for each of the panel's own."""
        past, count = self.past, self.count
        linear = [entry for entry in equation.contractions if entry.gain is not None]
        if not (equation.differential or linear):
            return None, None
        weights = sum((self.value(e.gain, 1) * self.factor(e.left)[:, past:] for e in linear), np.zeros((count, count)))
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
        return self.value(equation.diagonal, 1)[:, 0]

    # --- after the iteration
    def observe(self, equation: CompiledEquation) -> Array:
        """Return an observable on the panel's nodes."""
        return self.right(equation)[:, 0].copy()

    def with_left_end(self, equation: CompiledEquation) -> Array:
        """Return a kernel's rows, the one at the panel's left end first; its own columns are continued to it."""
        name, rows = equation.name, self.kernels[equation.name]
        if name in self.rights:
            own = self.diagonal(equation) - np.einsum("jl,jl->j", self.matrix, self.rights[name])
        else:
            own = radau(self.count).back @ rows[:, self.past :]
        return np.vstack([np.concatenate([self.history.last_block[name][-1], own]), rows])


def _diagonals(columns: Array) -> Array:
    """Return one diagonal matrix for each column of a table."""
    return np.asarray(columns.T[:, :, None] * np.eye(len(columns)))
