"""Sweeps of a stochastic system on a grid: means over paths in, means over paths out, iterated to a fixed point.

A sweep takes the means over paths (correlations, responses, functions), evaluates the closures, draws the Gaussian
modes,
solves all paths and their linear responses on the grid, and returns new means. The start grows the window a few panels
at a time with few points; then sweeps over the whole window are combined by Anderson acceleration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import MatrixBase

from eqsolve.compile.paths import compile_ensemble
from eqsolve.errors import SolverError
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E
from eqsolve.passes.path_form import PathForm
from eqsolve.solvers.anderson import Anderson
from eqsolve.solvers.gaussian import Level
from eqsolve.solvers.grids import Array, PanelGrid
from eqsolve.solvers.operators import Closure, Evaluation, OperatorGrid
from eqsolve.solvers.paths import PathSolver

__all__ = ["Solved", "Sweeper"]

Means = dict[E, Array]


@dataclass(frozen=True, eq=False)
class Solved:
    """Converged means on a grid, with the kernels they give and the paths behind them."""

    grid: OperatorGrid
    means: Means
    state: Evaluation
    solvers: tuple[PathSolver, ...]
    residual: float
    sweeps: int


class Sweeper:
    """One stochastic system, ready to be swept on any grid at any level."""

    def __init__(self, form: PathForm, laws: dict[Any, Law]) -> None:
        self.form, self.laws = form, {**laws, **dict(form.laws)}
        self.closure = Closure(form)
        self.compiled = [compile_ensemble(ensemble) for ensemble in form.ensembles]
        self.total_sweeps = 0

    def solvers(self, level: Level) -> tuple[PathSolver, ...]:
        return tuple(PathSolver(compiled, self.laws, level) for compiled in self.compiled)

    def sweep(self, grid: OperatorGrid, means: Means, solvers: tuple[PathSolver, ...]) -> Means:
        """Return the means over paths driven by the given means."""
        self.total_sweeps += 1
        state = self.closure.evaluate(grid, means)
        covariances = self._covariances(state)
        made: Means = {}
        for solver in solvers:
            made.update(solver.run(state, covariances))
        return made

    def _covariances(self, state: Evaluation) -> dict[Any, tuple[Any, Array, Array]]:
        made: dict[Any, tuple[Any, Array, Array]] = {}
        for members, law in self.form.covariances:
            if len(members) == 1:
                table = state.table(law.covariance)
            else:
                rows = range(len(members))
                table = np.block([[state.table(law.covariance[i, j]) for j in rows] for i in rows])
            centres = list(law.mean) if isinstance(law.mean, MatrixBase) else [law.mean] * len(members)
            for noise, centre in zip(members, centres, strict=True):
                made[noise] = (members, table, state.vector(centre))
        return made

    def initial(self, grid: OperatorGrid, level: Level) -> Means:
        """Return a first guess: nothing moves, nothing responds."""
        means: Means = {}
        size = grid.size
        for ensemble in self.form.ensembles:
            for mean in ensemble.means:
                means[mean.node] = np.zeros(size) if mean.kind == "one" else np.zeros((size, size))
        first = OperatorGrid(grid.nodes[:1], grid.blocks[:1], grid.integration[:1, :1], None)
        small = {node: value[:1] if value.ndim == 1 else value[:1, :1] for node, value in means.items()}
        for _ in range(3):
            small = self.sweep(first, small, self.solvers(level))
        for node, value in small.items():
            if not self._is_response(node):
                means[node] = means[node] + value.reshape(-1)[0]
        return means

    def rate(self, start: float, level: Level) -> float:
        """Return how fast the unknowns move or react at the start: the inverse of the first time scale."""
        point = PanelGrid(np.array([start, start + 1.0]), 1)
        grid = OperatorGrid.from_panels(point).head(1)
        solvers = self.solvers(level)
        means = self.initial(grid, level)
        for _ in range(2):
            means = self.sweep(grid, means, solvers)
        return max([1e-6, *(solver.rate() for solver in solvers)])

    def _is_response(self, node: E) -> bool:
        return any(m.node == node and m.kind == "response" for e in self.form.ensembles for m in e.means)

    # --- transfer between grids ---------------------------------------------------------------------------------------
    def extend(self, means: Means, size: int) -> Means:
        """Continue means to more nodes of the same grid: everything stays as it last was."""
        made: Means = {}
        for node, value in means.items():
            old = len(value)
            if value.ndim == 1:
                made[node] = np.append(value, np.full(size - old, value[-1]))
            elif self._is_response(node):
                larger = np.zeros((size, size))
                larger[:old, :old] = value
                larger[old:, :old] = value[-1]
                made[node] = larger
            else:
                made[node] = np.pad(value, ((0, size - old), (0, size - old)), mode="edge")
        return made

    def transfer(self, means: Means, old: OperatorGrid, new: OperatorGrid) -> Means:
        """Interpolate means to another panel grid over the same time."""
        assert old.panels is not None
        assert new.panels is not None
        forward, backward = interpolation_matrix(old.panels, new.nodes), interpolation_matrix(new.panels, old.nodes)
        made: Means = {}
        for node, value in means.items():
            if value.ndim == 1:
                made[node] = forward @ value
            elif self._is_response(node):
                operator = forward @ value @ backward
                for part in new.blocks:  # interpolation reaches into the future; what it takes there is taken now
                    operator[part, part.stop - 1] += operator[part, part.stop :].sum(axis=1)
                    operator[part, part.stop :] = 0.0
                made[node] = operator
            else:
                made[node] = forward @ value @ forward.T
        return made

    # --- iteration --------------------------------------------------------------------------------------------------
    def iterate(
        self, grid: OperatorGrid, means: Means, level: Level, tolerance: float, *, most: int = 80, settle: int = 3
    ) -> Solved:
        """Sweep until nothing changes; the modes and points are kept after a few sweeps."""
        solvers = self.solvers(level)
        mixer = Anderson(depth=20)
        keys = list(means)
        choices = [0.3, 1e-2, 3e-4]  # residuals at which modes and points are chosen anew, then kept
        residual = np.inf
        for count in range(1, most + 1):
            made = self.sweep(grid, means, solvers)
            sizes = {key: max(float(np.abs(made[key]).max()), 1e-12) for key in keys}
            residual = max(float(np.abs(made[key] - means[key]).max()) / sizes[key] for key in keys)
            if not math.isfinite(residual):
                raise SolverError("the iteration over the means does not stay finite")
            chosen = len(choices) < 3
            for solver in solvers:
                solver.frozen = chosen
            if residual <= tolerance and chosen and (not choices or tolerance > choices[0]):
                means = made
                break
            if count >= settle and choices and residual < choices[0]:
                choices = [entry for entry in choices if entry < residual]
                for solver in solvers:
                    solver.frozen = False
                mixer = Anderson(depth=20)
                means = made
                continue
            if not chosen:
                means = made
                continue
            before = np.concatenate([means[key].ravel() / sizes[key] for key in keys])
            after = np.concatenate([made[key].ravel() / sizes[key] for key in keys])
            vector = mixer.next(before, after)
            means, position = {}, 0
            for key in keys:
                number = made[key].size
                means[key] = vector[position : position + number].reshape(made[key].shape) * sizes[key]
                position += number
        return Solved(grid, means, self.closure.evaluate(grid, means), solvers, residual, count)

    def start(self, grid: OperatorGrid, level: Level, tolerance: float = 1e-2) -> Means:
        """Grow the window from the first panels to the whole time; few points, loose tolerance."""
        blocks = min(4, len(grid.blocks))
        means: Means | None = None
        while True:
            window = grid.head(blocks)
            guess = self.initial(window, level) if means is None else self.extend(means, window.size)
            means = self.iterate(window, guess, level, tolerance, most=25).means
            if blocks == len(grid.blocks):
                return means
            blocks = min(len(grid.blocks), blocks + max(2, blocks // 4))


def interpolation_matrix(grid: PanelGrid, times: Array) -> Array:
    """Return the matrix from values on a grid's nodes to values at times."""
    columns, weights = grid.stencil(np.clip(times, grid.edges[0], grid.edges[-1]))
    matrix = np.zeros((len(times), grid.size))
    np.put_along_axis(matrix, columns, weights, axis=1)
    return matrix
