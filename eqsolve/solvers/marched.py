"""What marches of sampled paths report: curves by name, how far they are over the tolerance, and the result they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import StochasticPlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.rows import RowStore
from eqsolve.results.dynamics import Kernel, PathSet, dynamics_result
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import excess

_FLOOR = 0.1  # of the largest value: smaller values are known to the tolerance of this


@dataclass(frozen=True, eq=False)
class Curves:
    """What one march reports, by name: functions of one time, correlations, responses."""

    single: dict[str, Array]
    tables: dict[str, Array]
    values: dict[str, Array]

    @property
    def all(self) -> dict[str, Array]:
        return {**self.single, **self.tables, **self.values}

    def filled(self, found: Mapping[str, Array]) -> Curves:
        """Return the same curves with other values."""
        return Curves(*({name: found[name] for name in part} for part in (self.single, self.tables, self.values)))


def read_curves(plan: StochasticPlan, kernels: Kernels, perhaps: str) -> Curves:
    """Return what a march found; ``perhaps`` is why it may not be finite."""
    single = kernels.functions | {name: kernels.observed(item) for name, item in plan.observables}
    values = {name: kernels.grid.values(matrix) for name, matrix in kernels.operators.items()}
    made = Curves(single, dict(kernels.tables), values)
    if not all(np.isfinite(value).all() for value in made.all.values()):
        raise SolverError(f"the means of model `{plan.name}` stop being finite; {perhaps}")
    return made


def excesses(plan: StochasticPlan, options: Options, curves: Curves, errors: Mapping[str, Array]) -> dict[str, float]:
    """Return the errors of what is watched in units of the tolerance: of observables, and of kernels if asked for."""
    watched = [name for name, _ in plan.observables]
    watched += list(curves.tables) if options.kernels or not watched else []
    return {name: excess(curves.all[name], errors[name], options, _FLOOR) for name in watched}


def over_neighbours(values: Array) -> Array:
    """Return means over neighbouring nodes: the spread of a few samples is itself uncertain."""
    for axis in range(values.ndim):
        last = values.shape[axis] - 1
        near = [np.take(values, np.clip(np.arange(last + 1) + k, 0, last), axis=axis) for k in (-2, -1, 0, 1, 2)]
        values = np.mean(near, axis=0)
    return np.asarray(values)


def package(
    plan: StochasticPlan, options: Options, nodes: Array, curves: Curves, errors: Mapping[str, Array],
    paths: Sequence[PathSet], params: Mapping[str, Any], stats: Mapping[str, Any],
) -> Result:  # fmt: skip
    """Return the result of a solve by samples of paths."""
    name, worst = max(excesses(plan, options, curves, errors).items(), key=lambda item: item[1], default=("", 0.0))
    grid = PanelGrid(nodes, 1)
    kernels = {key: Kernel(table, errors[key], True) for key, table in curves.tables.items()}
    kernels |= {key: Kernel(np.tril(value), np.tril(errors[key]), False) for key, value in curves.values.items()}
    reason = f"the error estimate of `{name}` is {worst:.3g} times the tolerance rtol={options.rtol:g}"
    return dynamics_result(
        model=plan.name, params=params, grid=grid, curves=curves.single, errors=dict(errors), kernels=kernels,
        rows=RowStore.from_tables(grid, {**curves.tables, **curves.values}) if kernels else None,
        paths=list(paths), stats=dict(stats), failure=None if worst <= 1.0 else ("tolerance not met", reason),
    )  # fmt: skip
