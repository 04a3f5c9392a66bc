"""What solutions of a stochastic system report, how far two of them are apart, and what that is in units of the tolerance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sympy import Abs, Add, Expr, Heaviside, Max, Min, Piecewise, sign

from eqsolve.language.nodes import E
from eqsolve.numerics.diagonal_blocks import recovered_degree
from eqsolve.numerics.grids import Array
from eqsolve.numerics.operators import Evaluation
from eqsolve.solvers.options import Options
from eqsolve.numerics.rows import RowStore
from eqsolve.solvers.stochastic.sweeps import Means, Solved, Sweeper, interpolation_matrix
from eqsolve.solvers.tolerance import allowance, excess

__all__ = ["KINKS", "Curves", "Judge"]

KINKS = (Abs, Heaviside, Max, Min, Piecewise, sign)  # averaged with their own, larger error


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


class Judge:
    """Compares solutions of one system under one set of options."""

    def __init__(self, sweeper: Sweeper, options: Options) -> None:
        self.sweeper, self.options = sweeper, options

    def _curves(self, solved: Solved) -> Curves:
        state = solved.state
        single = {head.name: values for head, values in state.functions.items()}
        single |= {name: state.vector(expr) for name, expr in self.sweeper.form.observables}
        tables = {head.name: table for head, table in state.tables.items()}
        values = {head.name: solved.grid.values(matrix, extend=True) for head, matrix in state.operators.items()}
        sizes = {name: self._size(solved, expr) for name, expr in self.sweeper.form.observables}
        return Curves(single, tables, values, sizes)

    def _size(self, solved: Solved, expr: Expr) -> float:
        state, means = solved.state, dict(solved.means)
        for solver in solved.solvers:
            means |= solver.sizes
        absolute = Evaluation(state.closure, state.grid, means)
        absolute.tables, absolute.operators, absolute.functions = state.tables, state.operators, state.functions
        return sum(float(np.abs(absolute.vector(term)).max()) for term in Add.make_args(expr))

    def _size_of(self, name: str, curves: Curves, solved: Solved) -> float:
        """Return the largest value; of a response outside its diagonal blocks, where values are found, not continued."""
        values = np.abs(curves.all[name])
        if name in curves.values:
            apart = np.zeros_like(values, dtype=bool)
            for part in solved.grid.blocks:
                apart[part, : part.start] = True
            values = values[apart]
        return float(values.max(initial=0.0))

    def _change(self, before: Curves, solved: Solved, means: Means) -> dict[str, Array]:
        """Return how far all curves move when the means do."""
        after = self._curves(replace(solved, means=means, state=self.sweeper.closure.evaluate(solved.grid, means)))
        moved = {name: _smear(np.abs(values - before.single[name])) for name, values in after.single.items()}
        for part in ("tables", "values"):
            old = getattr(before, part)
            moved |= {name: np.abs(values - old[name]) for name, values in getattr(after, part).items()}
        return moved

    def _compare(self, base: Solved, dense: Solved, ratios: Array) -> dict[str, Array]:
        """Return the error of the denser solution's panels."""
        final, middle = self._curves(dense), self._curves(base)
        assert dense.grid.panels is not None
        assert base.grid.panels is not None
        forward = interpolation_matrix(base.grid.panels, dense.grid.nodes)
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

    def _worst(self, final: Curves, errors: dict[str, Array]) -> float:
        """Return the largest error in units of the tolerance."""
        return max(self._excesses(final, errors).values(), default=0.0)

    def _excesses(self, final: Curves, errors: dict[str, Array]) -> dict[str, float]:
        """Return the error in units of the tolerance of every observable, and of every kernel if asked for."""
        smooth = [name for name, expr in self.sweeper.form.observables if not expr.has(*KINKS)]
        watched = smooth or list(final.single)
        values = {
            name: excess(final.single[name], errors[name], self.options, 0.1, scale=final.sizes.get(name, 0.0))
            for name in watched
        }
        if self.options.kernels or not watched:
            values |= {name: excess(table, errors[name], self.options, 0.1) for name, table in final.tables.items()}
        return values

    def _over(self, curves: Curves, errors: dict[str, Array], name: str) -> Array:
        scale = curves.sizes.get(name, 0.0)
        return errors[name] / (allowance(curves.single[name], self.options, 0.1, scale=scale) + 1e-300)

    def _nothing(self, solved: Solved) -> dict[str, Array]:
        return {name: np.zeros_like(values) for name, values in self._curves(solved).all.items()}

    def _bent(self) -> set[str]:
        """Return the observables that average a function with a kink, where no rule for smooth functions converges."""
        return {name for name, expr in self.sweeper.form.observables if any(node.has(*KINKS) for node in expr.atoms(E))}

    def _paths(self, solved: Solved) -> int:
        return sum(len(solver.points.weights) for solver in solved.solvers if solver.points is not None)


def _smear(values: Array) -> Array:
    """Give every node the largest value of its neighbours, so that a chance zero is not taken for accuracy."""
    out = values.copy()
    for shift in (1, 2, 3):
        out[shift:] = np.maximum(out[shift:], values[:-shift])
        out[:-shift] = np.maximum(out[:-shift], values[shift:])
    return out
