"""Stochastic systems solved to a tolerance: a causal start, whole-window sweeps, then refined panels and points.

Method (see ``sweeps``, ``paths``, ``gaussian``, ``operators``). Three solutions are compared: on a grid with fewer
points per
expectation, on the same grid with more, and on a denser grid. The error of a value is the sum of the change under
more points, of the change under denser panels (divided by what the order promises), and of what the iteration left.
Whichever is too large is refined until the tolerance is met.
Chosen for systems with processes that have memory or Gaussian drives. Cost: sweeps × paths × nodes³ / 3.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Abs, Add, Expr, Heaviside, Max, Min, Piecewise, sign

from eqsolve.binding import Binding
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.system import System
from eqsolve.passes.path_form import derive_path_form
from eqsolve.passes.substitution import apply_substitutions
from eqsolve.result import Result
from eqsolve.solvers.gaussian import Level
from eqsolve.solvers.grids import Array, PanelGrid
from eqsolve.solvers.operators import Evaluation, OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.rows import RowStore
from eqsolve.solvers.sweeps import Solved, Sweeper, interpolation_matrix
from eqsolve.solvers.tolerance import excess

__all__ = ["solve_stochastic"]

logger = logging.getLogger("eqsolve")

_GROWTH = 1.4
_KINKS = (Abs, Heaviside, Max, Min, Piecewise, sign)  # averaged with their own, larger error
_RATIO = math.sqrt(2.0)
_ROUNDS = 5
_MOST_POINTS = 20_000


def make_level(accuracy: float, seed: int) -> Level:
    """Return the points that go with an accuracy of expectations."""
    digits = -math.log10(accuracy)
    return Level(round(4 + 2.9 * digits), accuracy, round(8 + 4 * digits), _MOST_POINTS, seed)


def solve_stochastic(binding: Binding, options: Options) -> Result:
    """Solve a system with stochastic processes to the tolerance asked for."""
    system = binding.model
    assert isinstance(system, System)
    bound = apply_substitutions(system).subs(dict(binding.values))
    by_name = {item.name: law for item, law in binding.laws.items()}  # a law in parameters makes a new symbol
    laws = {**binding.laws, **{item: by_name[item.name] for item in bound.randoms if item.name in by_name}}
    sweeper = Sweeper(derive_path_form(bound), laws)
    begin = binding.number(system.start)
    if options.t_max <= begin:
        raise UsageError(f"t_max = {options.t_max:g} does not lie after the start, {begin:g}")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _Control(binding, sweeper, options, begin).solve()


@dataclass(frozen=True, eq=False)
class Curves:
    """Everything a solution reports, on its own grid."""

    single: dict[str, Array]
    tables: dict[str, Array]
    operators: dict[str, Array]
    sizes: dict[str, float]  # of the terms averaged or added up in the observables, before they cancel


class _Control:
    """Chooses grids, points and tolerances for one solve."""

    def __init__(self, binding: Binding, sweeper: Sweeper, options: Options, begin: float) -> None:
        self.binding, self.sweeper, self.options, self.begin = binding, sweeper, options, begin
        self.rough = Level(6, 1e-2, 8, 500, options.seed)
        self.order = options.order or (4 if options.rtol > 3e-4 else 5 if options.rtol > 3e-6 else 6)

    def solve(self) -> Result:
        options, sweeper = self.options, self.sweeper
        accuracy = max(0.1 * options.rtol, 1e-9)
        stop = 3e-3 * options.rtol
        rough = self.rough
        panels = self._first_panels(rough)
        grid = OperatorGrid.from_panels(panels)
        means = sweeper.start(grid, rough)
        options.report(0.2 * options.t_max, "start found")
        fewer = sweeper.iterate(grid, means, make_level(10 * accuracy, options.seed), stop)
        more = sweeper.iterate(grid, fewer.means, make_level(accuracy, options.seed), stop)
        dense = self._denser(more, accuracy, stop)
        for round_number in range(1, _ROUNDS + 1):
            options.report((0.3 + 0.1 * round_number) * options.t_max, f"round {round_number}")
            final, time_error, point_error, left = self._compare(fewer, more, dense)
            total = {name: time_error[name] + point_error[name] + left[name] for name in time_error}
            worst = self._worst(final, total)
            by_time, by_points = self._worst(final, time_error), self._worst(final, point_error)
            logger.info(
                "round %d: %d nodes, %d paths, error %.2g of the tolerance (panels %.2g, points %.2g)",
                round_number, dense.grid.size, self._paths(dense), worst, by_time, by_points,
            )  # fmt: skip
            if worst <= 1.0 or round_number == _ROUNDS:
                break
            if by_points >= by_time:
                accuracy /= 10
                fewer, more = more, sweeper.iterate(more.grid, more.means, make_level(accuracy, options.seed), stop)
                dense = sweeper.iterate(dense.grid, dense.means, make_level(accuracy, options.seed), stop)
            else:
                fewer = sweeper.iterate(dense.grid, dense.means, make_level(10 * accuracy, options.seed), stop)
                more, dense = dense, self._denser(dense, accuracy, stop)
        return self._package(dense, final, total, worst)

    def _first_panels(self, level: Level) -> PanelGrid:
        """Return geometric panels whose first length follows from how fast paths move at the start."""
        rate = self.sweeper.rate(self.begin, level)
        span = self.options.t_max - self.begin
        step = min(0.3 / max(rate, 1e-12), span / 4)
        steps = [step]
        while sum(steps) < span:
            steps.append(_GROWTH * steps[-1])
        edges = np.concatenate([[0.0], np.cumsum(steps)])
        return PanelGrid(self.begin + edges * (span / edges[-1]), self.order)

    def _denser(self, solved: Solved, accuracy: float, stop: float) -> Solved:
        old = solved.grid.panels
        assert old is not None
        count = old.panels
        position = np.linspace(0, count, math.ceil(count * _RATIO) + 1)
        new = PanelGrid(np.interp(position, np.arange(count + 1), old.edges), old.order)
        grid = OperatorGrid.from_panels(new)
        level = make_level(accuracy, self.options.seed)
        try:
            return self.sweeper.iterate(grid, self.sweeper.transfer(solved.means, solved.grid, grid), level, stop)
        except SolverError:
            return self.sweeper.iterate(grid, self.sweeper.start(grid, self.rough), level, stop)

    # --- comparing --------------------------------------------------------------------------------------------------
    def _curves(self, solved: Solved) -> Curves:
        state = solved.state
        single = {head.name: values for head, values in state.functions.items()}
        single |= {name: state.vector(expr) for name, expr in self.sweeper.form.observables}
        tables = {head.name: table for head, table in state.tables.items()}
        operators = {head.name: matrix for head, matrix in state.operators.items()}
        sizes = {name: self._size(solved, expr) for name, expr in self.sweeper.form.observables}
        return Curves(single, tables, operators, sizes)

    def _size(self, solved: Solved, expr: Expr) -> float:
        state, means = solved.state, dict(solved.means)
        for solver in solved.solvers:
            means |= solver.sizes
        absolute = Evaluation(state.closure, state.grid, means)
        absolute.tables, absolute.operators, absolute.functions = state.tables, state.operators, state.functions
        return sum(float(np.abs(absolute.vector(term)).max()) for term in Add.make_args(expr))

    def _compare(
        self, fewer: Solved, more: Solved, dense: Solved
    ) -> tuple[Curves, dict[str, Array], dict[str, Array], dict[str, Array]]:
        final, middle, first = self._curves(dense), self._curves(more), self._curves(fewer)
        assert dense.grid.panels is not None
        assert more.grid.panels is not None
        assert fewer.grid.panels is not None
        forward = interpolation_matrix(more.grid.panels, dense.grid.nodes)
        back = interpolation_matrix(fewer.grid.panels, more.grid.nodes)
        ratio = dense.grid.panels.panels / more.grid.panels.panels
        factor = 1.5 / (max(ratio, 1.2) ** (dense.grid.panels.order + 1) - 1)
        remain = 3.0 * max(dense.residual, 1e-14)
        time_error, point_error, left = {}, {}, {}
        for name, values in final.single.items():
            time_error[name] = factor * _smear(np.abs(values - forward @ middle.single[name]))
            point_error[name] = _smear(forward @ np.abs(middle.single[name] - back @ first.single[name]))
            left[name] = remain * np.abs(values).max() * np.ones_like(values)
        for name, table in final.tables.items():
            time_error[name] = factor * np.abs(table - forward @ middle.tables[name] @ forward.T)
            point_error[name] = np.abs(forward @ (middle.tables[name] - back @ first.tables[name] @ back.T) @ forward.T)
            left[name] = remain * np.abs(table).max() * np.ones_like(table)
        return final, time_error, {name: np.abs(values) for name, values in point_error.items()}, left

    def _worst(self, final: Curves, errors: dict[str, Array]) -> float:
        smooth = [name for name, expr in self.sweeper.form.observables if not expr.has(*_KINKS)]
        watched = smooth or list(final.single)
        values = [
            excess(final.single[name], errors[name], self.options, 0.1, scale=final.sizes.get(name, 0.0)) for name in watched
        ]
        if self.options.kernels or not watched:
            values += [excess(table, errors[name], self.options, 0.1) for name, table in final.tables.items()]
        return max(values, default=0.0)

    def _paths(self, solved: Solved) -> int:
        return sum(len(solver.points.weights) for solver in solved.solvers if solver.points is not None)

    # --- output -----------------------------------------------------------------------------------------------------
    def _package(self, solved: Solved, final: Curves, errors: dict[str, Array], worst: float) -> Result:
        import xarray as xr

        grid = solved.grid.panels
        assert grid is not None
        data: dict[str, Any] = {}
        coordinates: dict[str, Any] = {"t": grid.nodes, "row": grid.nodes, "column": grid.nodes}
        for name, values in final.single.items():
            data[name] = ("t", values)
            data[name + "_error"] = ("t", errors[name])
        extended: dict[str, Array] = {}
        for name, table in final.tables.items():
            data[name] = (("row", "column"), table, {"symmetric": 1})
            data[name + "_error"] = (("row", "column"), errors[name])
            extended[name] = table
        for name, operator in final.operators.items():
            values, extended[name] = solved.grid.values(operator), solved.grid.values(operator, extend=True)
            data[name] = (("row", "column"), values, {"symmetric": 0})
            largest = float(np.abs(values).max())
            data[name + "_error"] = (
                ("row", "column"),
                np.full_like(values, max(worst, 0.1) * self.options.rtol * largest),
            )
        self._add_paths(solved, data, coordinates)
        status = "ok" if worst <= 1.0 else "tolerance not met"
        message = (
            ""
            if status == "ok"
            else f"the error estimate is {worst:.2g} times the tolerance rtol={self.options.rtol:g}"
        )
        stats = {
            "panels": grid.panels, "nodes": grid.size, "paths": self._paths(solved), "sweeps":
            self.sweeper.total_sweeps,
            "residual": solved.residual,
        }  # fmt: skip
        store = RowStore.from_tables(grid, extended) if extended else None
        return Result(
            xr.Dataset(data, coords=coordinates), model=self.sweeper.form.name, kind="dynamics", status=status,
            message=message, params=self.binding.settings(), stats=stats, grid=grid, rows=store,
        )  # fmt: skip

    def _add_paths(self, solved: Solved, data: dict[str, Any], coordinates: dict[str, Any]) -> None:
        """Keep the paths of the processes with their weights, so that laws can be looked at."""
        if len(solved.solvers) != 1:
            return
        solver = solved.solvers[0]
        assert solver.points is not None
        coordinates["weight"] = ("path", solver.points.weights)
        coordinates |= {item.name: ("path", values) for item, values in solver.points.constants.items()}
        for name, values in solver.process_values().items():
            data[name] = (("path", "t"), values)


def _smear(values: Array) -> Array:
    """Give every node the largest value of its neighbours, so that a chance zero is not taken for accuracy."""
    out = values.copy()
    for shift in (1, 2, 3):
        out[shift:] = np.maximum(out[shift:], values[:-shift])
        out[:-shift] = np.maximum(out[:-shift], values[shift:])
    return out
