"""Error estimates of a solution over many decades, from its difference to the one of the next coarser resolution.

Both go on from the same beginning, whose own error is added. Differences are looked at between the output times, and near the
diagonal at lags of all scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import over_panels
from eqsolve.numerics.rows import mirrored, spread_to_times
from eqsolve.solvers.aging.march import Long
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import KERNEL_FLOOR, allowance, excess

_SHARE = 0.5  # of the difference that is taken for the error: a level errs about twenty times less than the one before
_INSIDE = (0.07, 0.31, 0.5, 0.69, 0.93)  # places between two output times at which solutions are compared
_SHORT = 0.5 ** np.arange(1, 40, 2)  # lags on the diagonal's cells, relative to their length


@dataclass(frozen=True, eq=False)
class Compared:
    """A solution with error estimates; ``worst`` is the largest in units of the tolerance, ``blamed`` where."""

    long: Long
    times: Array
    tables: dict[str, Array]
    table_errors: dict[str, Array]
    curves: dict[str, Array]
    curve_errors: dict[str, Array]
    worst: float
    blamed: str


def compare(plan: CompiledPlan, fine: Long, coarse: Long, beginning: float, options: Options) -> Compared:
    """Return the finer of two solutions with its errors; ``beginning`` is the relative error of what both go on from."""
    grid, rows = fine.grid(), fine.past.rows
    names = [eq.name for eq in plan.functions if not eq.hidden] + [eq.name for eq in plan.observables]
    curves, errors, found = {}, {}, [(0.0, "")]
    for name in names:
        curves[name] = fine.at(name, grid.nodes)
        change = _beside(over_panels(np.abs(curves[name] - coarse.at(name, grid.nodes)), grid.order), grid.order)
        errors[name] = _SHARE * change + beginning * np.abs(curves[name]).max()
    controlled = [eq.name for eq in plan.observables] or names
    for name in controlled:
        place = int(np.argmax(errors[name] / np.maximum(allowance(curves[name], options), 1e-300)))
        found.append((excess(curves[name], errors[name], options), f"`{name}` at t = {grid.nodes[place]:.6g}"))
    times = grid.edges
    tables, table_errors = rows.tables(times), {}
    for equation in plan.kernels:
        name = equation.name
        change = spread_to_times(_differences(fine, coarse, name, times))
        table_errors[name] = _SHARE * change + beginning * _local(np.abs(tables[name]))
        if options.kernels:
            ratio = np.tril(table_errors[name] / allowance(tables[name], options, KERNEL_FLOOR))
            row, column = np.unravel_index(ratio.argmax(), ratio.shape)
            found.append((float(ratio.max()), f"`{name}` at (t, t') = ({times[row]:.6g}, {times[column]:.6g})"))
        if equation.symmetric:
            tables[name], table_errors[name] = (mirrored(item) for item in (tables[name], table_errors[name]))
    worst, blamed = max(found)
    return Compared(fine, times, tables, table_errors, curves, errors, worst, blamed)


def _differences(fine: Long, coarse: Long, name: str, times: Array) -> Array:
    """Return the largest differences seen on each cell of output times, below the diagonal and on it."""
    start, count = fine.past.rows.start, len(times) - 1
    steps, out = np.diff(times), np.zeros((count, count))
    rows, columns = np.tril_indices(count, -1)
    apart = rows >= len(fine.past.rows.early.records)  # the beginning is the same
    rows, columns = rows[apart], columns[apart]
    t, s = times - start, np.array(_INSIDE)

    def differ(moments: Array, earlier: Array, lags: Array) -> Array:
        pairs = moments.ravel(), earlier.ravel(), lags.ravel()
        change = np.abs(fine.past.rows.pairs(name, *pairs) - coarse.past.rows.pairs(name, *pairs))
        return np.asarray(change.reshape(len(moments), -1).max(axis=1))

    moments = (t[rows, None] + steps[rows, None] * s)[:, :, None] + np.zeros(len(s))
    earlier = (t[columns, None] + steps[columns, None] * s)[:, None, :] + np.zeros((len(s), 1))
    out[rows, columns] = differ(moments, earlier, moments - earlier)
    moments = (t[:-1, None] + steps[:, None] * s)[:, :, None] + np.zeros(len(_SHORT))
    lags = np.minimum((moments - t[:-1, None, None]), steps[:, None, None] * _SHORT)
    np.fill_diagonal(out, differ(moments, moments - lags, lags))
    return out


def _local(sizes: Array) -> Array:
    """Return the largest of each value and its neighbours."""
    wide = np.pad(sizes, 1)
    count = len(sizes)
    return np.asarray(np.max([wide[i : i + count, j : j + count] for i in range(3) for j in range(3)], axis=0))


def _beside(change: Array, order: int) -> Array:
    """Give every panel the largest change on it and the two beside it."""
    panels = change[1::order]
    wide = np.concatenate([panels[:1], panels, panels[-1:]])
    spread = np.maximum(np.maximum(wide[:-2], wide[1:-1]), wide[2:])
    return np.concatenate([spread[:1], np.repeat(spread, order)])
