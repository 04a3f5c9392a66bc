"""One march through time: collocation of one- and two-time equations, row panel by row panel, over coarsening columns.

Method. On each panel the unknown rows K(t_i, ·), i = 1..m, satisfy the equations at the Radau nodes. An integral over s is
a matrix product of the left factor's rows with an integration operator of the right factor, in which the integrals
∫ right(s, t') ℓ_k(s) ds over the panels' basis functions ℓ_k are stored. Old columns are merged as the past becomes smooth.

Order 2m − 1 at panel ends, m + 1 in between. Cost per panel: columns²; memory: rows × columns.
Reference: Brunner, Collocation Methods for Volterra Integral and Related Functional Differential Equations (2004),
doi:10.1017/CBO9780511543234.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, lagrange, radau
from eqsolve.numerics.rows import Record, RowStore
from eqsolve.solvers.two_time.history import History
from eqsolve.solvers.two_time.merge import Merger
from eqsolve.solvers.two_time.panel import NoConvergenceError, NotFiniteError, Panel
from eqsolve.solvers.two_time.recording import solve_panel

__all__ = ["Guide", "March", "NoConvergenceError", "NotFiniteError"]


@dataclass(frozen=True, eq=False)
class Guide:
    """An earlier, rougher solution, from which a march takes the first guess on each panel."""

    grid: PanelGrid
    functions: dict[str, Array]
    rows: RowStore | None

    def fill(self, panel: Panel) -> None:
        for head, values in self.functions.items():
            panel.functions[head][:] = self.grid.interpolate(values, panel.times)
        if self.rows is not None:
            for head, table in self.rows.block(panel.times, panel.columns).items():
                panel.kernels[head][:] = table


class March:
    """A solution that grows panel by panel.

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
    guide
        A rougher solution over the same times.
    checkpoint
        Where the panels' solutions are kept.
    """

    def __init__(
        self,
        compiled: CompiledPlan,
        order: int,
        start: float,
        tolerance: float,
        merging: float = 0.0,
        guide: Guide | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.plan, self.m, self.tolerance, self.guide = compiled, order, tolerance, guide
        self.checkpoint = checkpoint
        self.merger = Merger(order, merging) if merging > 0 and compiled.separable else None
        self.history = History(compiled, order)
        self.records: list[Record] = []
        self.iterations = 0
        self.iteration_error = 0.0  # the largest left on a panel, relative to the size of each unknown
        self.iteration_errors: dict[str, float] = {}  # the largest left for each unknown
        self.sweeps = 0  # on the newest panel
        self._unmerged = False
        self._guesses: dict[str, dict[str, Array]] = {}
        self._better: dict[str, str] = {}
        self._functions: dict[str, list[Array]] = {equation.name: [] for equation in compiled.functions}
        self._observed: dict[str, Array] = {}  # on the newest panel
        self._observables: dict[str, list[Array]] = {equation.name: [] for equation in compiled.observables}
        self.panel = Panel.at_start(compiled, self.history, start)
        self._observe()
        self._keep()

    # --- one panel --------------------------------------------------------------------------------------------------
    def add_panel(self, step: float) -> float:
        """Solve one panel of the given length; return how far it is from resolved (0 is perfect).

        Nothing is kept unless ``accept`` follows.
        """
        if self.merger is not None and self._unmerged:
            self.merger.merge(self.history)
        self._unmerged = False
        self.panel = Panel.after(self.plan, self.history, step, self.m)
        self._guess()
        self.panel.refresh()
        self.sweeps = solve_panel(self.panel, self.tolerance, self.checkpoint)
        self.iterations += self.sweeps
        self._observe()
        return self._indicator()

    def _observe(self) -> None:
        """Evaluate the observables on the newest panel."""
        self._observed = {equation.name: self.panel.observe(equation) for equation in self.plan.observables}
        for equation in self.plan.observables:
            finite = np.isfinite(self._observed[equation.name])
            if not finite.all():
                raise NotFiniteError(equation, float(self.panel.times[np.argmin(finite)]))

    def accept(self) -> None:
        """Keep the panel just solved; before the next one, columns are merged where the past has become smooth."""
        self._judge_guesses()
        for head, error in self.panel.errors.items():
            self.iteration_error = max(error, self.iteration_error)
            self.iteration_errors[head] = max(error * self.panel.sizes[head], self.iteration_errors.get(head, 0.0))
        self._keep()
        self._unmerged = True

    def _keep(self) -> None:
        panel, history = self.panel, self.history
        for name, values in self._observed.items():
            self._observables[name].append(values)
        for head, values in panel.functions.items():
            self._functions[head].append(values)
        if self.plan.kernels and panel.step:
            edges = np.append(history.edges, panel.times[-1])
            tables = {equation.name: panel.with_left_end(equation) for equation in self.plan.kernels}
            self.records.append(Record(history.now, float(panel.times[-1]), edges, tables))
        history.extend(panel)

    # --- first guesses ------------------------------------------------------------------------------------------------
    def _guess(self) -> None:
        """Take the guide; or, for each unknown, the kind of guess that was the better one on the panel before."""
        if self.guide is not None:
            self.guide.fill(self.panel)
            return
        self._guesses = {"continued": self._continued(), "repeated": self._repeated()}
        for head in self.panel.places:
            self.panel.values(head)[:] = self._guesses[self._better.get(head, "repeated")][head]

    def _judge_guesses(self) -> None:
        for head in self.panel.places if self.guide is None else ():
            misses = {kind: np.abs(made[head] - self.panel.values(head)).max() for kind, made in self._guesses.items()}
            self._better[head] = min(misses, key=lambda kind: misses[kind])

    def _continued(self) -> dict[str, Array]:
        """Continue the last panel's polynomials in time, its own columns unchanged."""
        panel, history, m = self.panel, self.history, self.m
        if not self.panels:
            return self._standing()
        last = history.row_edges[-1] - history.row_edges[-2]
        forward = lagrange(radau(m).nodes, 1 + radau(m).nodes * (panel.step / last))
        made = {head: forward @ values for head, values in history.last_functions.items()}
        for head, block in history.last_block.items():
            made[head] = np.hstack([forward @ block, block[:, -m:]])
        return made

    def _repeated(self) -> dict[str, Array]:
        """Add to the present what happened during the step before, at the same distance from the diagonal."""
        panel, first = self.panel, self.history.row_edges[0]
        made = self._standing()
        if not self.records:
            return made
        earlier, needed = np.append(self.end, panel.times) - panel.step, 1
        while needed < len(self.records) and self.records[-needed].start > earlier[0]:
            needed += 1
        recent = RowStore(self.m, tuple(self.records[-needed:]))
        moved = recent.block(np.maximum(earlier, first), np.maximum(panel.columns - panel.step, first))
        for head, rows in moved.items():
            made[head][:, : panel.past] += rows[1:, : panel.past] - rows[0, : panel.past]
            made[head][:, panel.past :] = rows[1:, panel.past :]
        return made

    def _standing(self) -> dict[str, Array]:
        """Keep the newest values."""
        panel, history = self.panel, self.history
        made = {head: np.full(panel.count, values[-1]) for head, values in history.functions.items()}
        for head, row in history.last_row.items():
            made[head] = np.tile(np.append(row, np.full(panel.count, row[-1])), (panel.count, 1))
        return made

    def _indicator(self) -> float:
        """Return the size of the first neglected polynomial coefficient in time, relative to each unknown's size.

        A definition is not continuous across the left end once columns have been merged, so its value there is left out.
        """
        whole, inner = _highest(self.m, True), _highest(self.m, False)
        worst, panel, history = 0.0, self.panel, self.history
        for equation in (*self.plan.kernels, *self.plan.functions):
            head, values = equation.name, panel.values(equation.name).reshape(self.m, -1)
            if equation.differential:
                before = history.last_row[head] if head in panel.kernels else history.functions[head][-1:]
                joined = np.vstack([before, values[:, : len(before)]])
                tail = max(_tail(joined, whole), _tail(values[:, len(before) :], inner) if head in panel.kernels else 0.0)
            else:
                tail = _tail(values, inner)
            worst = max(worst, tail / panel.sizes[head])
        return worst

    # --- the solution -------------------------------------------------------------------------------------------------
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
        return PanelGrid(np.array(self.history.row_edges), self.m)

    def rows(self) -> RowStore | None:
        """Return the two-time functions, if there are any."""
        return RowStore(self.m, tuple(self.records)) if self.records else None

    def curves(self) -> dict[str, Array]:
        """Return the one-time functions and the observables on the rows' grid."""
        declared = {equation.name: self._functions[equation.name] for equation in self.plan.functions if not equation.hidden}
        return {name: np.concatenate(parts) for name, parts in {**declared, **self._observables}.items()}

    def as_guide(self) -> Guide:
        """Return the solution as a guide of a finer one."""
        functions = {name: np.concatenate(parts) for name, parts in self._functions.items()}
        return Guide(self.grid(), functions, self.rows())


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
