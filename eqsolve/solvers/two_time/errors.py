"""Error estimates of a two-time solution, from its difference to a rougher one.

Both the panels and the tolerances of the rougher solution are larger, by known factors. If q is the ratio of the numbers of
panels, the error of the finer solution is at most about |difference| / (q^k − 1): k = m + 1 for functions of one time
(their order between nodes), k = m for kernels (their order across a panel on the diagonal). Half of that is added for safety.
What a comparison of panels does not show is added: rounding, the iteration's tolerance, and what merging columns changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, over_panels
from eqsolve.numerics.richardson import error_share
from eqsolve.numerics.rows import RowStore
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import allowance, excess
from eqsolve.solvers.two_time.history import SMALLEST_SIZE
from eqsolve.solvers.two_time.march import March

__all__ = ["Accuracy", "Solution", "blame", "compare"]

_ROUNDING = 1e-13
_MOST_OUTPUT_TIMES = 300
_KERNEL_FLOOR = 0.1  # kernels are asked for relative to their largest value, down to this fraction of it


@dataclass(frozen=True)
class Accuracy:
    """What one march is asked for, relative to the size of each unknown."""

    resolution: float
    rough: bool = False  # whether the solution is only a first one, to place the panels

    @property
    def merging(self) -> float:
        return self.resolution

    @property
    def iteration(self) -> float:
        return max((1e-2 if self.rough else 1e-3) * self.resolution, 1e-14)

    def finer(self, gain: float) -> Accuracy:
        return Accuracy(max(self.resolution / gain, 1e-13))


@dataclass(frozen=True, eq=False)
class Solution:
    """The march that is reported and its error estimates.

    ``worst`` is the largest estimate in units of the tolerance, ``least`` what rounding alone would make of it.
    """

    march: March
    store: RowStore | None
    times: Array
    tables: dict[str, Array]
    table_errors: dict[str, Array]
    curves: dict[str, Array]
    curve_errors: dict[str, Array]
    worst: float
    least: float
    panels: tuple[int, ...]


def compare(fine: March, coarse: March, ratio: float, options: Options, panels: tuple[int, ...]) -> Solution:
    """Return the finer of two solutions with its error estimates."""
    ratio, m = max(ratio, 1.2), fine.m
    iteration = _ROUNDING + 3 * fine.iteration_error
    merging = fine.merger.effect if fine.merger is not None else 0.0
    pointwise = fine.merger.changes if fine.merger is not None else {}
    grid, other = fine.grid(), coarse.grid()
    curves, rough = fine.curves(), coarse.curves()
    errors: dict[str, Array] = {}
    for name, values in curves.items():
        change = np.abs(values - other.interpolate(rough[name], grid.nodes))
        share = error_share(ratio, min(m + 1, 9))
        errors[name] = share * over_panels(change, m) + (iteration + merging) * _sizes(values)
    observed = [equation.name for equation in fine.plan.observables] or list(curves)
    worst = max((excess(curves[name], errors[name], options) for name in observed), default=0.0)
    rounding = {name: _ROUNDING * _sizes(curves[name]) for name in observed}
    least = max((excess(curves[name], rounding[name], options) for name in observed), default=0.0)
    store, old = fine.rows(), coarse.rows()
    times, tables, table_errors = np.empty(0), {}, {}
    if store is not None and old is not None:
        times = _output_times(fine)
        between = (times[1:] + times[:-1]) / 2
        tables, here, there = store.tables(times), store.tables(between), old.tables(between)
        for equation in fine.plan.kernels:
            name = equation.name
            change = _spread(np.abs(here[name] - there[name]))
            unseen = _ROUNDING * np.abs(tables[name]).max() + 3 * fine.iteration_errors[name] + pointwise.get(name, 0.0)
            table_errors[name] = error_share(ratio, min(m, 8)) * change + unseen
            if equation.symmetric:
                tables[name], table_errors[name] = _folded(tables[name]), _folded(table_errors[name])
        if options.kernels:
            worst = max([worst, *(excess(tables[n], table_errors[n], options, _KERNEL_FLOOR) for n in tables)])
    return Solution(fine, store, times, tables, table_errors, curves, errors, worst, least, panels)


def blame(solution: Solution, options: Options) -> tuple[str, str]:
    """Return the name of what is farthest from its tolerance, and the time where, in words."""
    times = solution.march.grid().nodes
    observed = [equation.name for equation in solution.march.plan.observables] or list(solution.curves)
    found: list[tuple[float, str, str]] = []
    for name in observed:
        if np.any(values := solution.curves[name]):
            ratios = solution.curve_errors[name] / allowance(values, options)
            found.append((float(ratios.max()), name, f"t = {times[ratios.argmax()]:.6g}"))
    for name, table in solution.tables.items() if options.kernels else ():
        if np.any(table):
            ratios = np.tril(solution.table_errors[name] / allowance(table, options, _KERNEL_FLOOR))
            row, column = np.unravel_index(ratios.argmax(), ratios.shape)
            found.append((float(ratios.max()), name, f"(t, t') = ({solution.times[row]:.6g}, {solution.times[column]:.6g})"))
    return max(found)[1:]


def _sizes(values: Array) -> Array:
    magnitude = np.abs(values)
    return np.maximum(magnitude, SMALLEST_SIZE * magnitude.max())


def _spread(change: Array) -> Array:
    """From changes between the output times to the times themselves: the largest among the neighbours."""
    out = np.zeros((len(change) + 1, len(change) + 1))
    for rows in (slice(1, None), slice(None, -1)):
        for columns in (slice(1, None), slice(None, -1)):
            out[rows, columns] = np.maximum(out[rows, columns], change)
    return out


def _folded(table: Array) -> Array:
    return np.tril(table) + np.tril(table, -1).T


def _output_times(march: March) -> Array:
    """Return the times of the tables: the rows' nodes, or the columns' nodes or edges, as many as are handy."""
    columns = PanelGrid(march.history.edges, march.m)
    for times in (march.grid().nodes, columns.nodes, columns.edges):
        if len(times) <= _MOST_OUTPUT_TIMES:
            return times
    kept = np.unique(np.linspace(0, columns.panels, _MOST_OUTPUT_TIMES).astype(int))
    return columns.edges[kept]
