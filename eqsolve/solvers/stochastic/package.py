"""A solution of a stochastic system as a result: curves, kernels, and a sample of the paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import RowStore
from eqsolve.results.dynamics import Kernel, PathSet, dynamics_result
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
    grid = solved.grid.panels or PanelGrid(solved.grid.nodes, 1)
    kernels = {name: Kernel(table, errors[name], True) for name, table in curves.tables.items()}
    kernels |= {name: Kernel(np.tril(v), np.tril(errors[name]), False) for name, v in curves.values.items()}
    reason = f"the error estimate is {worst:.3g} times the tolerance rtol={options.rtol:g}"
    return dynamics_result(
        model=engine.plan.name, params=params, grid=grid, curves=curves.single, errors=errors, kernels=kernels,
        rows=RowStore.from_tables(grid, {**curves.tables, **curves.values}) if kernels else None,
        paths=[_path_set(sets) for sets in zip(*samples, strict=True)],
        stats={
            "panels": grid.panels, "nodes": grid.size, "paths": solved.paths, "sweeps": engine.work.sweeps,
            "left": solved.left,
        },
        failure=None if worst <= 1.0 else ("tolerance not met", reason),
    )  # fmt: skip


def _path_set(sets: tuple[Paths, ...]) -> PathSet:
    """Return samples of one ensemble as one, so that laws can be looked at."""
    points, values = [paths.points for paths in sets], [paths.processes() for paths in sets]
    return PathSet(
        np.concatenate([item.weights for item in points]) / len(points),
        {name: np.concatenate([item.constants[name] for item in points]) for name in points[0].constants},
        {name: np.concatenate([entry[name] for entry in values]) for name in values[0]},
    )
