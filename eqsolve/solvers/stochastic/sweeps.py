"""Sweeps of a stochastic system on a grid: means over paths in, means over paths out, iterated to a fixed point.

A sweep takes the means over paths (correlations, responses, functions), evaluates the closures, draws the Gaussian
modes,
solves all paths and their linear responses on the grid, and returns new means. The start grows the window a few panels
at a time with few points; then sweeps over the whole window are combined by Anderson acceleration.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sympy import MatrixBase

from eqsolve.files.checkpoint import Checkpoint
from eqsolve.compile.paths import compile_ensemble
from eqsolve.errors import SolverError
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E
from eqsolve.files.codec import Codec
from eqsolve.passes.forms.path_form import PathForm
from eqsolve.numerics.gaussian import Layout, Level
from eqsolve.numerics.grids import Array, PanelGrid
from eqsolve.numerics.operators import Closure, Evaluation, OperatorGrid
from eqsolve.solvers.stochastic.path_means import PathSolver
from eqsolve.solvers.recording import recorded
from eqsolve.numerics.secants import Secants, solve_krylov

__all__ = ["Solved", "Sweeper"]

Means = dict[E, Array]

logger = logging.getLogger("eqsolve")


@dataclass(frozen=True, eq=False)
class Solved:
    """Converged means on a grid, with the kernels they give, the paths behind them, and how the map reacts.

    ``left`` is what the iteration would still change, relative to the largest value of each mean.
    """

    grid: OperatorGrid
    means: Means
    state: Evaluation
    solvers: tuple[PathSolver, ...]
    secants: Secants
    left: float

    @property
    def layouts(self) -> list[Layout]:
        return [solver.used for solver in self.solvers]


class Sweeper:
    """One stochastic system, ready to be swept on any grid at any level."""

    def __init__(self, form: PathForm, laws: dict[Any, Law]) -> None:
        self.form, self.laws = form, {**laws, **dict(form.laws)}
        self.closure = Closure(form)
        self.compiled = [compile_ensemble(ensemble) for ensemble in form.ensembles]
        self.total_sweeps = 0
        self.trusting = True  # whether mean responses are used to improve on a sweep
        self.fed = self._fed()
        self.notify: Callable[[float, int, float], None] = lambda until, sweep, left: None
        self.checkpoint: Checkpoint | None = None
        self.codec: Codec | None = None  # of the checkpoint
        self.shapes: list[list[Array]] | None = None  # how responses vary, by ensemble, on the grid in use

    def _fed(self) -> frozenset[E]:
        """Return the means that act back; the others are only reported."""
        closed = [equation.rhs for equation in (*self.form.kernels, *self.form.functions)]
        for _, law in self.form.covariances:
            closed += [law.covariance, law.mean]
        closed += [link.signal for ensemble in self.form.ensembles for link in ensemble.links]
        return frozenset(node for expr in closed for node in expr.atoms(E))

    def solvers(self, level: Level, layouts: list[Layout] | None = None) -> tuple[PathSolver, ...]:
        return tuple(
            PathSolver(
                item, self.laws, level, layouts[place] if layouts else None,
                self.shapes[place] if self.shapes else None, self.fed,
            )
            for place, item in enumerate(self.compiled)
        )  # fmt: skip

    def sample(self, solved: Solved, count: int, seed: int) -> tuple[PathSolver, ...]:
        """Return solvers that have followed a sample of paths, all of positive weight, through a solution."""
        covariances = self._covariances(solved.state)
        made = []
        for compiled, old in zip(self.compiled, solved.solvers, strict=True):
            constants = max(1, len({*zip(*old.points.constants.values(), strict=True)}) if old.points else 1)
            level = replace(old.level, most=max(64, 2 * round(count / constants / 2)), seed=seed)
            solver = PathSolver(compiled, self.laws, level, Layout("sample"), old.shapes)
            solver.follow(solved.state, covariances)
            made.append(solver)
        return tuple(made)

    def learn(self, solved: Solved) -> None:
        """Look at a solution's paths, to choose modes by them from now on (on the same grid)."""
        self.shapes = [solver.shape() for solver in solved.solvers]

    def move_shapes(self, old: OperatorGrid, new: OperatorGrid) -> None:
        """Take what was learnt to another grid."""
        if self.shapes is None:
            return
        assert old.panels is not None
        assert new.panels is not None
        back = interpolation_matrix(new.panels, old.nodes)

        def move(form: Array) -> Array:
            carry = np.kron(np.eye(len(form) // old.size), back)
            return np.asarray(carry.T @ form @ carry)

        self.shapes = [[move(form) for form in shape] for shape in self.shapes]

    def sweep(self, grid: OperatorGrid, means: Means, solvers: tuple[PathSolver, ...]) -> Means:
        """Return the means over paths driven by the given means."""
        self.total_sweeps += 1
        state = self.closure.evaluate(grid, means)
        covariances = self._covariances(state)
        made: Means = {}
        for solver in solvers:
            made.update(solver.run(state, covariances))
        return made

    def reported(self, grid: OperatorGrid, means: Means, solvers: tuple[PathSolver, ...]) -> Means:
        """Return what a sweep makes of the means that do not act back; without responses where these are not needed."""
        aside = [mean for item in self.form.ensembles for mean in item.means if mean.node not in self.fed]
        if any(mean.kind != "one" for mean in aside):
            return self.sweep(grid, means, solvers)
        state = self.closure.evaluate(grid, means)
        covariances = self._covariances(state)
        made: Means = {}
        for solver in solvers:
            solver.follow(state, covariances)
            made |= solver.ones()
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
    def extend(self, means: Means, window: OperatorGrid) -> Means:
        """Continue means to a longer window: everything stays as it last was, responses relative to the panels."""
        made: Means = {}
        size = window.size
        for node, value in means.items():
            old = len(value)
            if value.ndim == 1:
                made[node] = np.append(value, np.full(size - old, value[-1]))
            elif self._is_response(node):
                larger = np.zeros((size, size))
                larger[:old, :old] = value
                for before, block in itertools.pairwise(window.blocks):
                    width = block.stop - block.start
                    if block.start >= old and before.stop - before.start == width:
                        larger[block, width + 1 : block.stop] = larger[before, 1 : before.stop]
                        larger[block, 0] = larger[before, 0]
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
    def pack(self, means: Means) -> Array:
        """Return all means that act back in one vector."""
        return np.concatenate([value.ravel() for key, value in means.items() if key in self.fed] or [np.empty(0)])

    def unpack(self, vector: Array, like: Means) -> Means:
        """Return means with those that act back taken from a vector."""
        made, position = dict(like), 0
        for key, value in like.items():
            if key in self.fed:
                made[key] = vector[position : position + value.size].reshape(value.shape)
                position += value.size
        return made

    def weigh(self, means: Means) -> Array:
        """Return for every entry of a packed vector one over the largest value of its mean.

        A mean that vanishes but for rounding must not count: it is compared with the largest of all means.
        """
        largest = max((float(np.abs(value).max()) for value in means.values()), default=1.0)
        floor = max(1e-10 * largest, 1e-12)
        return self.pack({key: np.full(v.shape, 1 / max(float(np.abs(v).max()), floor)) for key, v in means.items()})

    def improve(
        self, grid: OperatorGrid, means: Means, residual: Array, solvers: tuple[PathSolver, ...], weights: Array
    ) -> Array:
        """Return the change of the means that a residual asks for, the paths' responses replaced by their means.

        A sweep's answer to a change of the means is approximated by what the mean responses make of the changed
        covariances and memory kernels; (1 − that) is inverted by a Krylov method that never touches a path.
        """
        if not any(solver.reacts for solver in solvers):
            return residual
        for solver in solvers:
            if solver.reacts:
                solver.prepare()
        covariances = self._covariances(solvers[0].state)
        packed = self.pack(means)

        def remainder(change: Array) -> Array:
            scale = 1e-5 / max(float(np.abs(change * weights).max()), 1e-300)
            state = self.closure.evaluate(grid, self.unpack(packed + scale * change, means))
            moved = self._covariances(state)
            differences = {noise: (group, table - covariances[noise][1]) for noise, (group, table, _) in moved.items()}
            made = {key: np.zeros_like(value) for key, value in means.items()}
            for solver in solvers:
                if solver.reacts:
                    made |= solver.react(state, differences)
            return change - self.pack({key: made[key] for key in means}) / scale

        return solve_krylov(remainder, residual, weights, most=25, tolerance=1e-2)

    @recorded
    def iterate(
        self, grid: OperatorGrid, means: Means, level: Level, tolerance: float, *,
        layouts: list[Layout] | None = None, most: int = 60,
    ) -> Solved:  # fmt: skip
        """Sweep until nothing changes. Modes and points are chosen in the first sweep, and again when far from there."""
        solvers = self.solvers(level, layouts)
        secants: Secants | None = None
        again = [0.3, 1e-2]  # residuals at which modes and points are chosen anew
        left = residual = remains = best = np.inf
        stalled = 0  # sweeps in which the mean responses did not bring the residual down
        good: Array | None = None
        for count in range(1, most + 1):
            try:
                made = self.sweep(grid, means, solvers)
            except SolverError:
                if good is None or np.array_equal(good, self.pack(means)):
                    raise
                means = self.unpack(good + 0.2 * (self.pack(means) - good), means)
                secants = Secants(5)
                continue
            weights = self.weigh(made)
            before, after = self.pack(means), self.pack(made)
            residual = float(np.abs((after - before) * weights).max(initial=0.0))
            if not math.isfinite(residual):
                raise SolverError("the iteration over the means does not stay finite")
            if secants is None:
                secants = Secants(5 if any(solver.reacts for solver in solvers) else 20)
            again = [entry for entry in again if entry < residual] if count == 1 else again
            anew = count > 1 and bool(again) and residual < again[0]
            if anew:
                again = [entry for entry in again if entry < residual]
                secants.interrupt()
            stalled = stalled + 1 if 0.7 * best <= residual < 0.5 and self.trusting else 0
            best = min(best, residual)
            if stalled >= 8:
                logger.info("mean responses do not help at residual %.2g; going on without them", residual)
                self.trusting, secants = False, Secants(20)
            image = after
            if self.trusting:
                image = before + self.improve(grid, means, after - before, solvers, weights)
            if residual > 0.1 and float(np.abs((image - before) * weights).max()) > 3 * residual:
                image = after  # too far away for the mean responses to be trusted
            vector = secants.next(before, image, weights) if residual < 0.5 else image
            last, left = left, max(residual, float(np.abs((vector - before) * weights).max(initial=0.0)))
            remains = left * min(1.0, max(left / last, 0.2)) if 0 < last < np.inf else left
            good, means = before, self.unpack(vector, made)
            self.notify(float(grid.nodes[-1]), count, left)
            if left <= tolerance and not anew:
                break
            for solver in solvers:
                solver.frozen = not anew
        else:
            if left > 10 * tolerance:
                logger.info("the iteration left %.2g after %d sweeps (asked for %.2g)", left, most, tolerance)
        assert secants is not None
        secants.interrupt()
        return Solved(grid, means, self.closure.evaluate(grid, means), solvers, secants, remains)

    def start(self, grid: OperatorGrid, level: Level, tolerance: float = 1e-2) -> Solved:
        """Grow the window from the first panels to the whole time; few points, loose tolerance."""
        blocks, done = min(4, len(grid.blocks)), 0
        solved: Solved | None = None
        while True:
            window = grid.head(blocks)
            guess = self.initial(window, level) if solved is None else self.extend(solved.means, window)
            try:
                found = self.iterate(window, guess, level, tolerance, most=12 if blocks - done > 1 else 60)
                if found.left > 10 * tolerance and blocks - done > 1:
                    raise SolverError("the iteration over the means does not settle")
            except SolverError:
                if blocks - done <= 1:
                    raise
                blocks = done + (blocks - done) // 2
                continue
            solved = found
            if blocks == len(grid.blocks):
                return solved
            done, blocks = blocks, min(len(grid.blocks), blocks + max(2, blocks // (6 if grid.panels else 3)))


def interpolation_matrix(grid: PanelGrid, times: Array) -> Array:
    """Return the matrix from values on a grid's nodes to values at times."""
    columns, weights = grid.stencil(np.clip(times, grid.edges[0], grid.edges[-1]))
    matrix = np.zeros((len(times), grid.size))
    np.put_along_axis(matrix, columns, weights, axis=1)
    return matrix
