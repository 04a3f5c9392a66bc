"""Closed systems of one- and two-time functions, solved to a tolerance: adaptive panels, then a refined second solution.

Method. An adaptive march (see ``two_time_march``) places the panels; a second march on panels denser by a factor q is
the solution that is reported. Its error is estimated from the difference of the two, at every output, as
1.5 |difference| / (q^(m+1) − 1), m + 1 being the order between panel ends; the panels are refined until that meets the
tolerance. Chosen for systems without processes that have memory or two-time functions.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.binding import Binding
from eqsolve.compile.two_time import CompiledPlan, compile_two_time
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.system import System
from eqsolve.passes.sectors import split_sectors
from eqsolve.result import Result
from eqsolve.solvers.grids import Array, PanelGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.rows import RowStore
from eqsolve.solvers.tolerance import excess
from eqsolve.solvers.two_time_march import March, NoConvergenceError, NotFiniteError

__all__ = ["solve_two_time"]

logger = logging.getLogger("eqsolve")

_REFINEMENTS = 7
_MOST_OUTPUT_TIMES = 300
_RATIO = math.sqrt(2.0)


@dataclass(frozen=True)
class Accuracy:
    """What one march is asked for, relative to the size of each unknown."""

    resolution: float

    @property
    def merging(self) -> float:
        return 3.0 * self.resolution

    @property
    def iteration(self) -> float:
        return max(3e-3 * self.resolution, 2e-15)


@dataclass(frozen=True)
class Stop:
    """Why a march ended early."""

    time: float
    message: str


def nodes_per_panel(rtol: float) -> int:
    """Return the number of nodes that suits a tolerance."""
    return 4 if rtol > 3e-4 else 5 if rtol > 3e-6 else 6 if rtol > 1e-7 else 7 if rtol > 1e-9 else 8


def solve_two_time(binding: Binding, options: Options) -> Result:
    """Solve a closed system of one- and two-time functions to the tolerance asked for."""
    system = binding.model
    assert isinstance(system, System)
    compiled = compile_two_time(split_sectors(system.subs(dict(binding.values))))
    begin = binding.number(system.start)
    if options.t_max <= begin:
        raise UsageError(f"t_max = {options.t_max:g} does not lie after the start, {begin:g}")
    order = options.order or nodes_per_panel(options.rtol)
    accuracy = Accuracy(max(options.rtol, 1e-12) * (3.0 if options.kernels else 1.0))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        coarse, stop = _adaptive(compiled, order, begin, options, accuracy)
        if len(coarse.row_edges) < 2:
            assert stop is not None
            raise SolverError(stop.message)
        solution, later = _refine(compiled, coarse, options, accuracy)
        stop = later or stop
    result = _package(binding, compiled, solution, options, stop)
    if stop is not None:
        error = SolverError(stop.message)
        error.partial = result  # type: ignore[attr-defined]
        raise error
    return result


def _adaptive(
    compiled: CompiledPlan, order: int, begin: float, options: Options, accuracy: Accuracy
) -> tuple[March, Stop | None]:
    """March with panels as long as the resolution allows."""
    try:
        march = March(compiled, order, begin, accuracy.iteration, accuracy.merging)
    except NotFiniteError as failure:
        raise SolverError(_not_finite(failure)) from None
    span = options.t_max - begin
    step, smallest = 1e-3 * span, 1e-13 * max(span, abs(options.t_max))
    reason = ""
    while (left := options.t_max - march.row_edges[-1]) > smallest:
        step = min(step, left) if left > 1.3 * step else left if step >= left else left / 2
        if step < smallest * 10:
            return march, Stop(march.row_edges[-1], _blow_up(march, reason))
        try:
            indicator = march.add_panel(step) / accuracy.resolution
        except NoConvergenceError:
            reason, step = "the iteration on a panel does not converge", step / 3
            continue
        except NotFiniteError as failure:
            reason, step = _not_finite(failure), step / 3
            continue
        if not indicator <= 1.0:
            reason = "the solution varies faster and faster"
            step *= max(0.2, 0.8 * indicator ** (-1 / (order + 1))) if math.isfinite(indicator) else 0.2
            continue
        march.accept()
        options.report(march.row_edges[-1], f"{len(march.nodes)} columns")
        step *= min(1.6, 0.85 * max(indicator, 1e-12) ** (-1 / (order + 1)))
    return march, None


def _not_finite(failure: NotFiniteError) -> str:
    source = failure.equation.source.equation
    label = source.label if source is not None else f"observable `{failure.equation.name}`"
    return (
        f"the {label} is not finite at t = {failure.time:.6g}; a function in it is not defined there "
        "or the solution blows up"
    )


def _blow_up(march: March, reason: str) -> str:
    largest = max(march.scales, key=lambda name: march.scales[name])
    source = next(eq for eq in (*march.plan.kernels, *march.plan.functions) if eq.name == largest).source
    assert source.equation is not None
    return (
        f"the solution cannot be continued past t = {march.row_edges[-1]:.8g}: {reason}. "
        f"Largest unknown there: `{largest}`, of size {march.scales[largest]:.3g} ({source.equation.label}). "
        "If it blows up, end before that time"
    )


@dataclass(frozen=True, eq=False)
class Solution:
    """The march that is reported and its error estimates."""

    march: March
    store: RowStore | None
    times: Array
    tables: dict[str, Array]
    table_errors: dict[str, Array]
    curves: dict[str, Array]
    curve_errors: dict[str, Array]
    worst: float
    rounds: int
    panels: tuple[int, ...]


def _refine(
    compiled: CompiledPlan, coarse: March, options: Options, accuracy: Accuracy
) -> tuple[Solution, Stop | None]:
    """Solve on denser panels until the difference to the previous solution meets the tolerance."""
    ratio, panels = _RATIO, [len(coarse.row_edges) - 1]
    best: Solution | None = None
    for round_number in range(1, _REFINEMENTS + 1):
        gain = ratio ** (coarse.m + 1)
        accuracy = Accuracy(max(accuracy.resolution / gain, 1e-13))
        edges = _denser(np.array(coarse.row_edges), ratio)
        fine, stop = _fixed(compiled, coarse, edges, options, accuracy)
        panels.append(len(fine.row_edges) - 1)
        actual = max((len(edges) - 1) / panels[-2], 1.2)
        solution = _compare(fine, coarse, 1.5 / (actual ** (fine.m + 1) - 1), accuracy, options, tuple(panels))
        logger.info("round %d: %d panels, error %.2g of the tolerance", round_number, panels[-1], solution.worst)
        if stop is not None:
            return solution, stop
        if best is not None and solution.worst > 0.7 * best.worst:
            return (best if best.worst < solution.worst else solution), None
        best = solution
        if solution.worst <= 1.0:
            return solution, None
        ratio = float(np.clip((1.5 * solution.worst) ** (1 / (fine.m + 1)), _RATIO, 3.0))
        coarse = fine
    assert best is not None
    return best, None


def _denser(edges: Array, ratio: float) -> Array:
    count = len(edges) - 1
    position = np.linspace(0, count, math.ceil(count * ratio) + 1)
    return np.interp(position, np.arange(count + 1), edges)


def _fixed(
    compiled: CompiledPlan, like: March, edges: Array, options: Options, accuracy: Accuracy
) -> tuple[March, Stop | None]:
    """March over given panels, halving those on which the iteration does not converge."""
    march = March(compiled, like.m, edges[0], accuracy.iteration, accuracy.merging)
    pending = list(edges[:0:-1])
    smallest = 1e-8 * (edges[-1] - edges[0])
    while pending:
        now = march.row_edges[-1]
        try:
            march.add_panel(pending[-1] - now)
        except (NoConvergenceError, NotFiniteError):
            if pending[-1] - now < smallest:
                if len(march.row_edges) < 2:
                    raise SolverError(f"the iteration does not converge at t = {now:.6g}") from None
                return march, Stop(now, _blow_up(march, "the iteration on a panel does not converge"))
            pending.append((pending[-1] + now) / 2)
            continue
        march.accept()
        march.row_edges[-1] = pending.pop()
        options.report(march.row_edges[-1], f"refining, {len(march.nodes)} columns")
        _watch_memory(march, edges[-1])
    return march, None


def _watch_memory(march: March, end: float) -> None:
    """Refuse to go on when the whole solution would not fit into memory."""
    if len(march.records) % 200:
        return
    used = RowStore(march.m, tuple(march.records)).nbytes
    predicted = used * (end - march.row_edges[0]) / (march.row_edges[-1] - march.row_edges[0])
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if predicted > 0.5 * available:
        raise UsageError(
            f"the two-time functions would need about {predicted / 1e9:.1f} GB of the machine's {available / 1e9:.1f} GB; "
            "shorten t_max or raise rtol"
        )


def _compare(
    fine: March, coarse: March, factor: float, accuracy: Accuracy, options: Options, panels: tuple[int, ...]
) -> Solution:
    grid, other = fine.grid(), coarse.grid()
    curves, rough = fine.curves(), coarse.curves()
    errors: dict[str, Array] = {}
    for name, values in curves.items():
        change = np.abs(values - other.interpolate(rough[name], grid.nodes))
        errors[name] = _over_panels(change, fine.m) * factor + _floor(values, accuracy)
    times, tables, table_errors = np.empty(0), {}, {}
    store = old = None
    if fine.heads:
        store, old = RowStore(fine.m, tuple(fine.records)), RowStore(coarse.m, tuple(coarse.records))
        times = grid.nodes if grid.size <= _MOST_OUTPUT_TIMES else _output_times(PanelGrid(fine.edges, fine.m))
        for equation in fine.plan.kernels:
            table = store.table(equation.name, times, equation.source.symmetric)
            change = np.abs(table - old.table(equation.name, times, equation.source.symmetric))
            tables[equation.name] = table
            table_errors[equation.name] = _neighbourhood(change) * factor + _floor(table, accuracy)
    watched = [name for name in curves if name in fine.observables] or list(curves)
    worst = max((excess(curves[name], errors[name], options) for name in watched), default=0.0)
    if options.kernels:
        worst = max([worst, *(excess(tables[n], table_errors[n], options, 0.1) for n in tables)])
    return Solution(
        fine, store, times, tables, table_errors, curves, errors, worst, len(panels) - 1, panels
    )


def _floor(values: Array, accuracy: Accuracy) -> Array:
    """Rounding and iteration errors, which no comparison of grids shows."""
    return (1e-13 + 3 * accuracy.iteration) * np.maximum(np.abs(values), np.abs(values).max())


def _over_panels(change: Array, m: int) -> Array:
    """Give every node its panel's largest change, so that a chance zero is not taken for accuracy."""
    out = change.copy()
    blocks = change[1:].reshape(-1, m).max(axis=1)
    out[1:] = np.repeat(blocks, m)
    out[0] = change[0]
    return out


def _neighbourhood(change: Array) -> Array:
    """Give every point the largest change among its neighbours."""
    out = change.copy()
    for axis in (0, 1):
        shifted = np.swapaxes(out, 0, axis).copy()
        shifted[1:] = np.maximum(shifted[1:], np.swapaxes(out, 0, axis)[:-1])
        shifted[:-1] = np.maximum(shifted[:-1], np.swapaxes(out, 0, axis)[1:])
        out = np.swapaxes(shifted, 0, axis)
    return out


def _output_times(grid: PanelGrid) -> Array:
    return grid.nodes if grid.size <= 2 * _MOST_OUTPUT_TIMES else grid.edges


def _package(
    binding: Binding, compiled: CompiledPlan, solution: Solution, options: Options, stop: Stop | None
) -> Result:
    import xarray as xr

    data: dict[str, Any] = {}
    grid = solution.march.grid()
    for name, values in solution.curves.items():
        data[name] = ("t", values)
        data[name + "_error"] = ("t", solution.curve_errors[name])
    coordinates: dict[str, Any] = {"t": grid.nodes}
    if solution.store is not None:
        coordinates |= {"row": solution.times, "column": solution.times}
        for equation in compiled.kernels:
            name = equation.name
            marks = {"symmetric": int(equation.source.symmetric)}
            data[name] = (("row", "column"), solution.tables[name], marks)
            data[name + "_error"] = (("row", "column"), solution.table_errors[name])
    status, message = "ok", ""
    if stop is not None:
        status, message = f"stopped at t = {stop.time:.8g}", stop.message
    elif solution.worst > 1.0:
        status = "tolerance not met"
        message = (
            f"the error estimate is {solution.worst:.2g} times the tolerance rtol={options.rtol:g} after "
            f"{solution.rounds} refinements (panels: {', '.join(map(str, solution.panels))}); "
            "rounding or a solution that is not smooth limits it"
        )
    stats = {
        "panels": solution.panels[-1],
        "nodes per panel": solution.march.m,
        "nodes": grid.size,
        "columns": len(solution.march.nodes),
        "iterations": solution.march.iterations,
        "refinements": solution.rounds,
    }
    return Result(
        xr.Dataset(data, coords=coordinates), model=compiled.plan.name, kind="dynamics", status=status, message=message,
        params=binding.settings(), stats=stats, grid=grid, rows=solution.store,
    )  # fmt: skip
