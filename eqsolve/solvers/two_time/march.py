"""One march through time: collocation of one- and two-time equations, row panel by row panel, over coarsening columns.

Method. On each panel the unknown rows K(t_i, ·), i = 1..m, satisfy the equations at the Radau nodes. An integral over s is
a matrix product of the left factor's rows with an integration operator of the right factor, in which the integrals
∫ right(s, t') ℓ_k(s) ds over the panels' basis functions ℓ_k are stored. Old columns are merged as the past becomes smooth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from eqsolve.compile.two_time import TwoTimeProgram
from eqsolve.files.checkpoint import Checkpoint, recorded
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, lagrange, radau
from eqsolve.numerics.rows import Record, RowStore
from eqsolve.solvers.marching import RATIO, NotFiniteError, Sources, advance, next_coefficient
from eqsolve.solvers.tolerance import FLOOR
from eqsolve.solvers.two_time.panel import History, RowPanel

# --- Merging columns: seen from later times the past is smooth.
#
# Two neighbouring column panels become one as soon as every row, and the operators' dependence on
# their outer time, is reproduced from the merged panel's nodes to a tolerance. Rows then have
# O(log t) columns; near the diagonal operators take up fast parts before a merge.
_EFFECT = 1 / RATIO  # largest change of right-hand sides by a merge, relative to its tolerance


class Merger:
    """Merges column panels, of ``order`` nodes each, of a history in place.

    ``tolerance`` is the change of any row that is accepted, relative to the unknown's size,
    ``changes`` the largest one made to the rows of each unknown. ``merges`` holds the time of each,
    its effect on what follows, which is the change of a definition or an observable, and of a slope
    during a step, relative to their sizes, and that step.
    """

    def __init__(self, order: int, tolerance: float) -> None:
        self.m, self.tolerance = order, tolerance
        self.changes: dict[str, float] = {}
        self.merges: list[tuple[float, float, float]] = []
        self._not_before: dict[float, float] = {}
        self._totals: dict[str | None, list[Array]] = {}
        self._total_sizes: dict[str | None, float] = {}
        self._probed: dict[str, Array] = {}
        self._largest: dict[str, float] = {}

    def merge(self, history: History) -> None:
        """Merge neighbouring column panels where everything is smooth enough on both together."""
        if len(history.edges) <= 9:  # nothing is gained by merging fewer
            return
        now = history.now
        self._probed = {}
        self._totals = {name: [low.sum(axis=1), history.high[name].sum(axis=0)] for name, low in history.low.items()}
        for name, totals in self._totals.items():
            largest = max(float(np.abs(total).max()) for total in totals)
            self._total_sizes[name] = max(largest, self._total_sizes.get(name, 1e-30))
        panel = 0
        while panel < len(history.edges) - 4:
            left, middle, right = history.edges[panel : panel + 3]
            # a panel is no longer than its distance from the present, as admissible blocks of hierarchical matrices are
            if right - left > now - right or self._not_before.get(left, now) > now:
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
        to_merged, back = _transfer(self.m, (middle - left) / (right - left))
        changes, tolerance = {}, self.tolerance
        for name, values, size in self._smooth(history):
            here = values[..., part]  # as read from the merged panel's nodes, compared with itself
            restored = np.concatenate([here[..., :1], here @ to_merged.T], axis=-1) @ back.T
            change = float(np.abs(restored - here).max())
            if change > tolerance * size:
                return False
            if values is history.last_block.get(name):
                changes[name] = change
        if not self._probed:
            self._probed = RowPanel.probe(history.plan, history)
        before = dict(history.__dict__)
        self._apply(history, panel, part, to_merged)
        probed = RowPanel.probe(history.plan, history)
        effect = self._effect(history, probed, part)
        if effect > _EFFECT * self.tolerance:
            history.__dict__.update(before)
            return False
        self._probed = probed
        for totals in self._totals.values():
            totals[:] = [_spliced(total, part, total[part] @ to_merged.T) for total in totals]
        self.merges.append((history.now, effect, history.row_edges[-1] - history.row_edges[-2]))
        for name, change in changes.items():
            self.changes[name] = max(change, self.changes.get(name, 0.0))
        return True

    def _smooth(self, history: History) -> Iterator[tuple[str, Array, float]]:
        """Yield what must be smooth over the columns: an unknown's name or none, values, and their size."""
        slots = history.plan.slots
        for name, rows in history.last_block.items():
            yield name, rows, history.sizes[name]
        for name, values in history.functions.items():
            if (name, "c") in slots:  # not reported from here: only the effect on what follows matters
                yield name, values, history.sizes[name] / _EFFECT
        for pattern, store in (("cc", history.diagonal), ("c0", history.first_column)):
            for name, values in store.items():
                if (name, pattern) in slots:
                    yield name, values, history.largest[name]
        for factor, totals in self._totals.items():
            for total in totals:
                yield "", total, self._total_sizes[factor]

    def _effect(self, history: History, probed: dict[str, Array], part: slice) -> float:
        """Return the largest change of what is evaluated at the present, relative to its size, by merging a part."""
        step = history.row_edges[-1] - history.row_edges[-2]
        slopes = {equation.name for equation in (*history.plan.kernels, *history.plan.functions) if equation.differential}
        worst = 0.0
        for name, values in probed.items():
            expected = self._probed[name]
            if name in history.last_block:  # on columns that stay
                values = np.delete(values, np.s_[part.start + 1 : part.stop - self.m])
                expected = np.delete(expected, np.s_[part.start + 1 : part.stop])
            change = float(np.abs(values - expected).max())
            if name in history.sizes:
                size = history.sizes[name] / (step if name in slopes else 1.0)
            else:
                value = float(np.abs(values).max())
                self._largest[name] = max(value, self._largest.get(name, 1e-300))
                size = max(value, FLOOR * self._largest[name])
            worst = max(worst, change / size)
        return worst

    def _apply(self, history: History, panel: int, part: slice, to_merged: Array) -> None:
        """Replace two column panels by one; every changed table is a new one, so that this can be undone."""
        left, right = history.edges[panel], history.edges[panel + 2]
        rule = radau(self.m)
        basis = lagrange(rule.nodes, (history.nodes[part][1:] - left) / (right - left))

        def merged(table: Array) -> Array:
            """Sum integrals over the basis functions of columns, and interpolate the dependence on the outer time."""
            sums = _spliced(table, part, table[:, part][:, 1:] @ basis)
            return _spliced(sums.T, part, (to_merged @ sums[part]).T).T

        history.low = {name: merged(table) for name, table in history.low.items()}
        history.high = {name: merged(table.T).T for name, table in history.high.items()}
        for store in ("last_block", "diagonal", "first_column", "functions"):
            tables = getattr(history, store).items()
            setattr(history, store, {name: _spliced(table, part, table[..., part] @ to_merged.T) for name, table in tables})
        nodes = left + (right - left) * rule.nodes
        nodes[-1] = right
        history.nodes = _spliced(history.nodes, part, nodes)
        history.weights = _spliced(history.weights, part, (right - left) * rule.weights)
        history.edges = np.delete(history.edges, panel + 1)


def _transfer(m: int, cut: float) -> tuple[Array, Array]:
    """Return interpolation from two panels (left end and 2m nodes) to the merged panel's nodes, and back.

    The two panels are [0, cut] and [cut, 1]; the way back reads the left end and the merged nodes.
    """
    c = radau(m).nodes
    local = radau(m).with_start
    to_merged = np.zeros((m, 2 * m + 1))
    before = c <= cut
    to_merged[before, : m + 1] = lagrange(local, c[before] / cut)
    to_merged[~before, m:] = lagrange(local, (c[~before] - cut) / (1 - cut))
    old = np.concatenate([[0.0], cut * c, cut + (1 - cut) * c])
    return to_merged, lagrange(local, old)


def _spliced(table: Array, part: slice, merged: Array) -> Array:
    """Return a table with what belongs to two panels, on the last axis, replaced; the first of the part is the left end."""
    return np.concatenate([table[..., : part.start + 1], merged, table[..., part.stop :]], axis=-1)


class March:
    """A solution that grows from the ``start`` panel by panel of ``order`` nodes each.

    The iteration on a panel stops at a ``tolerance``, and columns are merged at a tolerance
    ``merging`` (0 keeps all), relative to the size of each unknown. ``guide`` is a rougher solution
    over the same times, the first guess on each panel; solutions are kept in the ``checkpoint``.
    """

    def __init__(
        self, compiled: TwoTimeProgram, order: int, start: float, tolerance: float,
        merging: float = 0.0, guide: March | None = None, checkpoint: Checkpoint | None = None,
        breaks: tuple[float, ...] = (),
    ) -> None:  # fmt: skip
        self.breaks = breaks
        self.plan, self.m, self.tolerance, self.checkpoint = compiled, order, tolerance, checkpoint
        self.guide = None if guide is None else (guide.grid(), guide.functions(), guide.rows())
        self.merger = Merger(order, merging) if merging > 0 and compiled.separable else None
        self.history = History(compiled, order)
        self.records: list[Record] = []
        self.tails: list[float] = []  # of the panels kept
        self.iterations = 0
        self.iteration_error = 0.0  # the largest left on a panel, relative to the size of each unknown
        self.iteration_errors: dict[str, float] = {}  # the largest left for each unknown
        self.sweeps = 0  # on the newest panel
        self._unmerged = False
        self._functions: dict[str, list[Array]] = {equation.name: [] for equation in compiled.functions}
        self._observed: dict[str, Array] = {}  # on the newest panel
        self._observables: dict[str, list[Array]] = {equation.name: [] for equation in compiled.observables}
        self.panel = RowPanel.at_start(compiled, self.history, start, order)
        self._observe()
        self._keep()

    # --- one panel
    def add_panel(self, step: float) -> float:
        """Solve one panel of the given length; return how far it is from resolved (0 is perfect).

        Nothing is kept unless ``accept`` follows.
        """
        if self.merger is not None and self._unmerged:
            self.merger.merge(self.history)
        self._unmerged = False
        self.panel = RowPanel(self.plan, self.history, self.end, step, self.m)
        self._guess()
        self.sweeps = self._solve(self.panel)
        self.iterations += self.sweeps
        self._observe()
        return self._indicator()

    def _solve(self, panel: RowPanel) -> int:
        """Solve a panel, or take its solution from the checkpoint; return the number of sweeps."""

        def compute() -> tuple[int, Array, dict[str, float], dict[str, float], dict[str, Array]]:
            return panel.solve(self.tolerance), panel.state, panel.sizes, panel.errors, panel.rights

        solution = recorded(self.checkpoint, f"panel of {panel.state.size} unknowns", compute)
        sweeps, panel.state[:], panel.sizes, panel.errors, panel.rights = solution
        return int(sweeps)

    def _observe(self) -> None:
        self._observed = {equation.name: self.panel.observe(equation) for equation in self.plan.observables}

    @property
    def growth(self) -> float:
        """How much longer the next panel may be: where this one took many sweeps, shorter ones are solved faster."""
        return min(2.5, 12 / self.sweeps)

    def accept(self, end: float | None = None) -> None:
        """Keep the panel just solved; before the next one, columns are merged where the past has become smooth."""
        for name, error in self.panel.errors.items():
            self.iteration_error = max(error, self.iteration_error)
            self.iteration_errors[name] = max(error * self.panel.sizes[name], self.iteration_errors.get(name, 0.0))
        self._keep()
        self.history.row_edges[-1] = self.end if end is None else end
        self._unmerged = True

    def _keep(self) -> None:
        panel, history = self.panel, self.history
        for name, values in self._observed.items():
            self._observables[name].append(values)
        for name, values in panel.functions.items():
            self._functions[name].append(values)
        if self.plan.kernels and panel.step:
            edges = np.append(history.edges, panel.times[-1])
            tables = {equation.name: panel.with_left_end(equation) for equation in self.plan.kernels}
            self.records.append(Record(history.now, float(panel.times[-1]), edges, tables))
        history.extend(panel)

    def _guess(self) -> None:
        """Take the guide; or continue the functions' polynomials, and let kernels be as at the end of the past."""
        panel, history = self.panel, self.history
        if self.guide is not None:
            grid, functions, store = self.guide
            for name, values in functions.items():
                panel.functions[name][:] = grid.interpolate(values, panel.times)
            for name, table in store.block(panel.times, panel.columns).items() if store is not None else ():
                panel.kernels[name][:] = table
            return
        nodes, ends = radau(self.m).nodes, history.row_edges
        weights = lagrange(nodes, 1 + nodes * panel.step / (ends[-1] - ends[-2])) if self.panels else np.ones((1, 1))
        for name, values in history.functions.items():
            panel.functions[name][:] = weights @ values[-weights.shape[1] :]
        for name, rows in history.last_block.items():
            panel.kernels[name][:] = np.append(rows[-1], np.full(panel.count, rows[-1, -1]))

    def _indicator(self) -> float:
        """Return the size of the first neglected polynomial coefficient in time, relative to each unknown's size.

        A definition is not continuous across the left end once columns have been merged, so its value there is left out.
        """
        legendre, inner = radau(self.m).legendre, radau(self.m).legendre_inside
        worst, panel, history = 0.0, self.panel, self.history
        for equation in (*self.plan.kernels, *self.plan.functions):
            name, values = equation.name, panel.values(equation.name).reshape(self.m, -1)
            if equation.differential:
                before = history.last_block[name][-1] if name in panel.kernels else history.functions[name][-1:]
                parts = [legendre @ np.vstack([before, values[:, : len(before)]]), inner @ values[:, len(before) :]]
            else:
                parts = [inner @ values]
            tails = [next_coefficient(np.abs(part).max(axis=1, initial=0.0))[0] for part in parts]
            worst = max(worst, float(max(tails)) / panel.sizes[name])
        return worst

    # --- the solution
    @property
    def end(self) -> float:
        return self.history.now

    @property
    def panels(self) -> int:
        return len(self.history.row_edges) - 1

    @property
    def columns(self) -> int:
        return len(self.history.nodes)

    def grid(self) -> PanelGrid:
        """Return the grid of the rows."""
        return PanelGrid(np.array(self.history.row_edges), self.m, breaks=self.breaks)

    def sources(self) -> Sources:
        """Return what makes errors."""
        merges = [] if self.merger is None else self.merger.merges
        return self.grid(), np.array(self.tails), np.array(merges).reshape(-1, 3)

    def rows(self) -> RowStore | None:
        """Return the two-time functions, if there are any."""
        return RowStore(self.m, tuple(self.records)) if self.records else None

    def curves(self) -> dict[str, Array]:
        """Return the one-time functions and the observables on the rows' grid."""
        known = self.functions()
        declared = {equation.name: known[equation.name] for equation in self.plan.functions if not equation.hidden}
        return declared | {name: np.concatenate(parts) for name, parts in self._observables.items()}

    def functions(self) -> dict[str, Array]:
        """Return all one-time functions on the rows' grid."""
        return {name: np.concatenate(parts) for name, parts in self._functions.items()}


# --- Extrapolated number of panels to t_max if steps stay at the fastest time scale.
def begin_march(
    compiled: TwoTimeProgram, order: int, begin: float, t_max: float, resolution: float, panels: int,
    checkpoint: Checkpoint | None = None, breaks: tuple[float, ...] = (),
) -> March | None:  # fmt: skip
    """March adaptively over a number of panels, or to the end; None where that fails."""
    try:
        march = March(compiled, order, begin, 1e-2 * resolution, resolution, checkpoint=checkpoint, breaks=breaks)
    except NotFiniteError:
        return None
    span = t_max - begin
    moments, after = [*breaks, t_max], lambda _: march.panels >= panels
    reason = advance(march, moments, resolution, span / 20, smallest=1e-12 * span, after=after)
    return None if reason else march


def panels_ahead(march: March, t_max: float) -> float:
    """Return how many more panels a march needs, if its steps go on to grow as they did over its second half."""
    edges = np.array(march.history.row_edges) - march.history.row_edges[0]
    steps, half, now, end = np.diff(edges), len(edges) // 2, edges[-1], t_max - march.history.row_edges[0]
    late = float(np.median(steps[-max(1, len(steps) // 8) :]))
    middle = float(np.median(steps[half - max(1, len(steps) // 8) : half + 1]))
    power = max(0.0, math.log(late / middle) / math.log(now / edges[half])) if half else 0.0
    if power > 0.99:
        return now / late * math.log(end / now)
    return now / late * ((end / now) ** (1 - power) - 1) / (1 - power)
