"""A solution of a stochastic system as a result: curves, kernels, and a sample of the paths."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import RowStore
from eqsolve.results.arrays import LazyArray
from eqsolve.results.dynamics import Kernel, PathSet, dynamics_result
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.iterate import Solved
from eqsolve.solvers.paths.judge import Curves, Errors
from eqsolve.solvers.paths.sweep import Engine, Sample


def package(
    engine: Engine, solved: Solved, curves: Curves, errors: Errors, over: Mapping[str, float], paths: tuple[Sample, ...],
    options: Options, params: Mapping[str, Any], source: Any = None,
) -> Result:  # fmt: skip
    """Return the result; ``over`` are the errors in units of the tolerance, ``source`` is what neighbours may begin with."""
    grid = solved.grid.panels or PanelGrid(solved.grid.nodes, 1)
    kept = [path_set(item, place=place) for place, item in enumerate(paths)]
    stats = {"panels": grid.panels, "paths": solved.paths, "sweeps": engine.work.sweeps, "left": solved.left}
    return make_result(engine.plan.name, grid, curves, errors, over, kept, options, params, stats, source)


def make_result(
    name: str, grid: PanelGrid, curves: Curves, errors: Errors, over: Mapping[str, float], paths: list[PathSet],
    options: Options, params: Mapping[str, Any], stats: Mapping[str, Any], source: Any = None,
) -> Result:  # fmt: skip
    """Return curves with their errors as the result of a model."""
    largest, worst = max(over.items(), key=lambda item: item[1], default=("", 0.0))
    kernels = {key: Kernel(table, errors[key], True) for key, table in curves.tables.items()}
    kernels |= {key: Kernel(np.tril(v), np.tril(errors[key]), False) for key, v in curves.values.items()}
    reason = f"the error estimate of `{largest}` is {worst:.3g} times the tolerance rtol={options.rtol:g}"
    return dynamics_result(
        model=name, params=params, grid=grid, curves=curves.single, errors=errors, kernels=kernels,
        rows=RowStore.from_tables(grid, {**curves.tables, **curves.values}) if kernels else None,
        paths=paths, stats={"nodes": grid.size, **stats},
        failure=None if worst <= 1.0 else ("tolerance not met", reason), source=source,
    )  # fmt: skip


def path_set(sample: Sample, every: int = 1, place: int = 0) -> PathSet:
    """Return every process at some of the nodes, found for all when one of them is looked at.

    Ensembles behind the first are shuffled: they share their quasi-random points, and are independent.
    """
    points, shape = sample.points, (len(sample.points.weights), (sample.nodes - 1) // every + 1)
    order = np.random.default_rng(place).permutation(shape[0]) if place else np.arange(shape[0])
    tables = {n: LazyArray(functools.partial(_process, sample, n, every, order), shape) for n in sample.plan.processes}
    return PathSet(points.weights[order], {name: values[order] for name, values in points.constants.items()}, tables)


def _process(sample: Sample, name: str, every: int, order: Array) -> Array:
    return sample.processes[name][order, ::every]
