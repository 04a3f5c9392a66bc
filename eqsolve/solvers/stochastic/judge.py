"""What solutions of a stochastic system report, how far two of them are apart, and what that is in units of the tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.diagonal_blocks import recovered_degree
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.rows import RowStore
from eqsolve.solvers.options import Options
from eqsolve.solvers.stochastic.iterate import Solved
from eqsolve.solvers.stochastic.sweep import Engine, Means
from eqsolve.solvers.tolerance import allowance, excess

__all__ = ["Curves", "Errors", "Judge"]

Errors = dict[str, Array]

_FLOOR = 0.1  # of the largest value: smaller values are known to the tolerance of this


@dataclass(frozen=True, eq=False)
class Curves:
    """Everything a solution reports, on its own grid."""

    single: dict[str, Array]
    tables: dict[str, Array]
    values: dict[str, Array]  # of responses, continued across the diagonal
    sizes: dict[str, float]  # of the terms averaged or added up in the observables, before they cancel

    @property
    def all(self) -> dict[str, Array]:
        return {**self.single, **self.tables, **self.values}


@dataclass(frozen=True, eq=False)
class Judge:
    """Compares solutions of one system under one set of options."""

    engine: Engine
    options: Options

    def curves(self, solved: Solved) -> Curves:
        """Return what a solution reports."""
        absolute = dict(solved.means)
        for item in solved.averages:
            absolute |= item.sizes
        return self._curves(solved.grid, solved.kernels, absolute)

    def _curves(self, grid: OperatorGrid, kernels: Kernels, absolute: Mapping[str, Array] | None = None) -> Curves:
        observables = self.engine.plan.observables
        single = kernels.functions | {name: kernels.vector(item) for name, item in observables}
        values = {name: grid.values(matrix, extend=True) for name, matrix in kernels.operators.items()}
        sizes = {}
        if absolute is not None:
            large = Kernels(grid, absolute, kernels.tables, kernels.operators, kernels.functions)
            sizes = {name: sum(float(np.abs(large.vector(t)).max()) for t in item.terms) for name, item in observables}
        return Curves(single, dict(kernels.tables), values, sizes)

    def size(self, name: str, curves: Curves, grid: OperatorGrid) -> float:
        """Return the largest value; of a response outside its diagonal blocks, where values are found, not continued."""
        values = np.abs(curves.all[name])
        if name in curves.values:
            apart = np.zeros_like(values, dtype=bool)
            for part in grid.blocks:
                apart[part, : part.start] = True
            values = values[apart]
        return float(values.max(initial=0.0))

    def change(self, before: Curves, grid: OperatorGrid, means: Means) -> Errors:
        """Return how far all curves move when the means do."""
        after = self._curves(grid, self.engine.kernels(grid, means))
        moved = {name: _smear(np.abs(values - before.single[name])) for name, values in after.single.items()}
        moved |= {name: np.abs(values - before.tables[name]) for name, values in after.tables.items()}
        return moved | {name: np.abs(values - before.values[name]) for name, values in after.values.items()}

    def compare(self, base: Solved, dense: Solved, ratios: Array) -> Errors:
        """Return the error of the denser solution's panels: its distance from the base, over what the order promises."""
        final, middle = self.curves(dense), self.curves(base)
        assert dense.grid.panels is not None
        assert base.grid.panels is not None
        forward = base.grid.panels.interpolation(dense.grid.nodes)
        local = ratios[base.grid.panels.locate(dense.grid.nodes)]
        factor = 1.5 / (local ** (dense.grid.panels.order + 1) - 1)
        pairs = np.maximum(factor[:, None], factor[None, :])
        errors = {}
        for name, values in final.single.items():
            errors[name] = factor * _smear(np.abs(values - forward @ middle.single[name]))
        for name, table in final.tables.items():
            errors[name] = pairs * np.abs(table - forward @ middle.tables[name] @ forward.T)
        if final.values:
            slow = 1.5 / (local ** (recovered_degree(dense.grid.panels.order) + 1) - 1)
            for part in dense.grid.blocks:
                pairs[part, part] = np.maximum(slow[part, None], slow[None, part])
            rough = RowStore.from_tables(base.grid.panels, middle.values).tables(dense.grid.nodes)
            errors |= {name: pairs * np.abs(np.tril(table) - rough[name]) for name, table in final.values.items()}
        return errors

    def worst(self, final: Curves, errors: Errors) -> float:
        """Return the largest error in units of the tolerance."""
        return max(self.excesses(final, errors).values(), default=0.0)

    def excesses(self, final: Curves, errors: Errors) -> dict[str, float]:
        """Return the error in units of the tolerance of every observable, and of every kernel if asked for."""
        plan = self.engine.plan
        smooth = [name for name, _ in plan.observables if name not in plan.bent]
        watched = smooth or list(final.single)
        values = {
            name: excess(final.single[name], errors[name], self.options, _FLOOR, scale=final.sizes.get(name, 0.0))
            for name in watched
        }
        if self.options.kernels or not watched:
            values |= {name: excess(table, errors[name], self.options, _FLOOR) for name, table in final.tables.items()}
        return values

    def allowed(self, curves: Curves, name: str) -> Array:
        """Return the largest error allowed of a function of one time."""
        return allowance(curves.single[name], self.options, _FLOOR, scale=curves.sizes.get(name, 0.0))

    def nothing(self, solved: Solved) -> Errors:
        return {name: np.zeros_like(values) for name, values in self.curves(solved).all.items()}


def _smear(values: Array) -> Array:
    """Give every node the largest value of its neighbours, so that a chance zero is not taken for accuracy."""
    out = values.copy()
    for shift in (1, 2, 3):
        out[shift:] = np.maximum(out[shift:], values[:-shift])
        out[:-shift] = np.maximum(out[:-shift], values[shift:])
    return out
