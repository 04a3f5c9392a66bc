"""A solution of a stochastic system as a result: curves, kernels, and a sample of the paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import RowStore
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.stochastic.iterate import Solved
from eqsolve.solvers.stochastic.judge import Curves, Errors
from eqsolve.solvers.stochastic.paths import Paths
from eqsolve.solvers.stochastic.sweep import Engine

__all__ = ["package"]


def package(
    engine: Engine, solved: Solved, curves: Curves, errors: Errors, worst: float, samples: list[tuple[Paths, ...]],
    options: Options, params: Mapping[str, Any],
) -> Result:  # fmt: skip
    """Return the result; ``worst`` is its largest error in units of the tolerance."""
    import xarray as xr

    grid = solved.grid.panels or PanelGrid(solved.grid.nodes, 1)
    data: dict[str, Any] = {}
    coordinates: dict[str, Any] = {"t": grid.nodes, "row": grid.nodes, "column": grid.nodes}
    for name, values in curves.single.items():
        data[name] = ("t", values)
        data[name + "_error"] = ("t", errors[name])
    for name, table in curves.tables.items():
        data[name] = (("row", "column"), table, {"symmetric": 1})
        data[name + "_error"] = (("row", "column"), errors[name])
    for name, table in curves.values.items():
        data[name] = (("row", "column"), np.tril(table), {"symmetric": 0})
        data[name + "_error"] = (("row", "column"), np.tril(errors[name]))
    _add_paths(samples, data, coordinates)
    met = worst <= 1.0
    message = "" if met else f"the error estimate is {worst:.3g} times the tolerance rtol={options.rtol:g}"
    stats = {
        "panels": grid.panels, "nodes": grid.size, "paths": solved.paths, "sweeps": engine.work.sweeps, "left": solved.left,
    }  # fmt: skip
    extended: dict[str, Array] = {**curves.tables, **curves.values}
    return Result(
        xr.Dataset(data, coords=coordinates), model=engine.plan.name, kind="dynamics",
        status="ok" if met else "tolerance not met", message=message, params=dict(params), stats=stats, grid=grid,
        rows=RowStore.from_tables(grid, extended) if extended else None,
    )  # fmt: skip


def _add_paths(samples: list[tuple[Paths, ...]], data: dict[str, Any], coordinates: dict[str, Any]) -> None:
    """Keep a sample of the paths with their weights, so that laws can be looked at; one set per ensemble."""
    for place, sets in enumerate(zip(*samples, strict=True)):
        suffix = "" if place == 0 else f"_{place + 1}"
        points, path = [paths.points for paths in sets], "path" + suffix
        coordinates["weight" + suffix] = (path, np.concatenate([item.weights for item in points]) / len(points))
        for name in points[0].constants:
            coordinates[name] = (path, np.concatenate([item.constants[name] for item in points]))
        values = [paths.processes() for paths in sets]
        data |= {name: ((path, "t"), np.concatenate([entry[name] for entry in values])) for name in values[0]}
