"""A causal start: a self-consistent ensemble, panel after panel.

As in Eissfeller & Opper, Phys. Rev. Lett. 68, 2094 (1992), doi:10.1103/PhysRevLett.68.2094. The
noise of path i is Σ_j O_ij φ_j(t), with O one fixed orthogonal matrix and φ_j the ensemble's own
trajectories of what the covariance is made of: its empirical covariance is then that of the
ensemble, it is Gaussian for many paths, and it continues into the next panel without a regression
on its past. For a covariance P C Pᵀ, with P made of responses, P is applied to the trajectories.

On each panel noises, rows of the mean responses and means of one time are iterated with Anderson's
method. The sampling error is some percent.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance, EnsembleProgram
from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Level, PointLayout, Points, make_points
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Definition, Integral, Kernels, Leaf, Pointwise
from eqsolve.numerics.secants import Secants
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.follow import (
    PathBatch,
    Paths,
    machine_code,
    path_operators,
    read_inputs,
    solve_block,
)
from eqsolve.solvers.paths.means import average_single
from eqsolve.solvers.paths.modes import Drawn, groups_of
from eqsolve.solvers.paths.responses import respond
from eqsolve.solvers.paths.sweep import Engine, Means, guess
from eqsolve.solvers.paths.transfer import extend

_PATHS = PathsControls.probe  # of an ensemble: its noise is Gaussian up to 1/paths
_EVALUATIONS = 30  # on one panel
_SETTLED, _USABLE = 3e-3, 0.3  # relative change that ends them, and that is still a guess
_PROVED = 1e-6  # of the variances: how well sections give the covariance


class _Sections(Kernels):
    """Correlations at (t, start) for given trajectories: P φ in place of the table P C Pᵀ, column by column.

    At t' = start integrals over the past of t' vanish, and P C Pᵀ reduces to its left factor.
    """

    def table(self, item: Pointwise) -> Array:
        return np.asarray(self.pointwise(item), float)

    def _leaf(self, leaf: Leaf | Integral) -> Any:
        if isinstance(leaf, Integral):
            return self._integral(leaf)
        if leaf.kind in ("time", "function"):
            values = self.grid.nodes if leaf.kind == "time" else self.functions[leaf.name]
            return values[:, None] if leaf.times == "r" else values[0]
        if leaf.kind == "mean":
            value = self.means[leaf.name]
            return value[:, None] if value.ndim == 1 else value
        if leaf.kind == "table" and leaf.times in ("rc", "cr"):
            return self.correlation(leaf.name)
        raise SolverError("a noise covariance is not of the form P C Pᵀ")

    def define(self, item: Definition) -> None:
        if item.differential:
            raise SolverError("a noise covariance is not of the form P C Pᵀ")
        super().define(item)

    def _integral(self, item: Integral) -> Any:
        return 0.0 if item.past == "c" else super()._integral(item)

    def _keep(self, item: Definition, value: Array) -> None:
        self.tables[item.name] = value


@dataclass(frozen=True, eq=False)
class _Source:
    """What noises are made of: a mean over pairs f(t) f(t') of an ensemble, and the matrix that turns its paths."""

    ensemble: int
    mean: str
    factor: int
    outer: Pointwise | None
    mixing: Array


class _SelfDriven:
    """The paths of one ensemble on the way: noises, unknowns, signals and slopes on the nodes so far."""

    def __init__(self, plan: EnsembleProgram, points: Points, size: int) -> None:
        self.plan, self.points, self.code = plan, points, machine_code(plan)
        self.count, many = len(points.weights), len(plan.unknowns)
        self.unknowns = np.zeros((many, size, self.count))
        self.signals = np.zeros((plan.count, size, self.count))
        self.slopes = np.zeros((plan.count, many, size, self.count))
        self.noises = {name: np.zeros((size, self.count)) for name in plan.noises}
        self.factors: dict[str, list[Array]] = {}  # of every mean, on the nodes so far
        self.some = np.unique(np.linspace(0, self.count - 1, min(_PATHS // 2, self.count)).astype(int))

    def follow(self, kernels: Kernels, part: slice, accuracy: float, first: bool) -> tuple[Means, Means]:
        """Follow the paths over a block; return means of one time and mean responses, up to its end."""
        plan, size = self.plan, part.stop
        actions = path_operators(plan, kernels)
        drawn = Drawn(tuple(self.noises[name][:size] for name in plan.noises), ())
        inputs = read_inputs(plan, kernels, self.points, drawn)
        base = np.zeros((1, len(plan.unknowns), size, self.count))
        for place, start in enumerate(plan.starts(*(item[0] for item in inputs.constants))):
            base[0, place, part] += start
        for drive, matrix in zip(plan.drives, actions.drives, strict=True):
            base[0, drive.unknown, part] += matrix[part] @ self.noises[drive.noise][:size]
        solving = PathBatch(
            [plan], kernels.grid.nodes, kernels.grid.blocks, [inputs],
            {key: matrix[None] for key, matrix in actions.operators.items()},
            self.unknowns[None], self.signals[None], self.slopes[None], self.code,
        )  # fmt: skip
        solve_block(solving, part, base, not first, math.sqrt(accuracy))
        unknowns, signals, slopes = (item[..., :size, :] for item in (self.unknowns, self.signals, self.slopes))
        paths = Paths(plan, kernels, actions, self.points, drawn, unknowns, signals, slopes)
        self.factors = {mean.name: paths.values(mean.factors) for mean in plan.means}
        few = paths.some(self.some)
        few = replace(few, points=replace(few.points, weights=few.points.weights / few.points.weights.sum()))
        responses: Means = {}
        for noise in plan.noises:
            asked = [mean for mean in plan.means if mean.kind == "response" and mean.noise == noise]
            responses |= respond(few, noise, asked, targets=False)[0] if asked else {}
        return average_single(paths)[0], responses


def self_consistent_start(engine: Engine, grid: OperatorGrid, level: Level, seed: int) -> Means:
    """Return means over the whole time by one self-consistent ensemble, with its sampling error."""
    return _March(engine, grid, level, seed).run()


class _March:
    """One ensemble of every kind of path, followed panel by panel in noises mixed from its own paths.

    Panels before the present one are final; on that, paths and kernels are iterated together.
    """

    def __init__(self, engine: Engine, grid: OperatorGrid, level: Level, seed: int) -> None:
        self.engine, self.grid = engine, grid
        if engine.program.whites:
            raise SolverError("white noise is not supported by this start")
        rng = np.random.default_rng((seed, 5))
        self.ensembles = []
        for plan in engine.ensembles:
            laws = {name: engine.laws[name] for name in plan.constants}
            points = make_points(0, PointLayout("draws"), laws, replace(level, most=_PATHS, seed=seed))
            mixed = rng.permutation(len(points.weights))
            constants = {name: values[mixed] for name, values in points.constants.items()}
            self.ensembles.append(
                _SelfDriven(plan, replace(points, constants=constants, weights=points.weights[mixed]), grid.size)
            )
        self.sources = self._sources(rng)
        self.lone = {item: rng.standard_normal(_PATHS * 2) for item in engine.program.covariances}
        self.home = {name: item for item in self.ensembles for name in item.plan.noises}
        self.means: Means = {name: np.array(value) for name, value in guess(engine, grid, replace(level, most=_PATHS)).items()}
        self.proved = False

    def _sources(self, rng: np.random.Generator) -> list[_Source]:
        made = []
        for place, item in enumerate(self.ensembles):
            for mean in item.plan.means:
                if mean.kind != "two" or not mean.acts:
                    continue
                if mean.joint is not None:
                    raise SolverError("an expectation over two times is not a sum of products")
                for term, (outer, pair) in enumerate(zip(mean.outers, mean.targets, strict=True)):
                    if pair[0] != pair[1]:
                        raise SolverError("E[f(t) g(t')] with f ≠ g is not a covariance")
                    size = max(other.count for other in self.ensembles)
                    turn = np.linalg.qr(rng.standard_normal((size, size)))[0][:, : item.count]
                    made.append(_Source(place, mean.name, 2 * term, outer, turn * np.sqrt(size * item.points.weights)))
        return made

    def run(self) -> Means:
        grid, blocks = self.grid, self.grid.blocks
        for place, part in enumerate(blocks):
            window = grid.head(place + 1)
            if place:
                before = grid.head(place)
                known = {name: _head(value, before.size) for name, value in self.means.items()}
                for name, value in extend(known, self.engine.responses, before, window).items():
                    _head(self.means[name], window.size)[...] = value
                for item in self.ensembles:
                    for values in (*item.noises.values(), *item.unknowns):
                        values[part] = values[part.start - 1]
            self._settle(window, part)
            self.engine.work.notify(float(window.nodes[-1]), place + 1, 1.0)
        return self.means

    def _settle(self, window: OperatorGrid, part: slice) -> None:
        """Iterate noises, mean responses and means of one time on a block."""
        secants, best, residual = Secants(8), math.inf, math.inf
        vector = self._read(part)
        for count in range(_EVALUATIONS):
            for piece, values in self._split(vector, part):
                piece[...] = values.reshape(piece.shape)
            self._evaluate(window, part, first=count == 0)
            image = self._read(part)
            weights = self._weights(part)
            changes = self._split((image - vector) * weights, part)
            residual = max((float(np.linalg.norm(change)) for _, change in changes), default=0.0)
            if not math.isfinite(residual):
                raise SolverError(f"the self-consistent ensemble does not stay finite at t = {window.nodes[-1]:.4g}")
            best = min(best, residual)
            if residual < _SETTLED and count:
                break
            vector = secants.next(vector, image, weights)
        if best > _USABLE:
            raise SolverError(f"the self-consistent ensemble does not converge at t = {window.nodes[-1]:.4g}")
        logger.debug("start: t = %.4g, %d evaluations, residual %.2g", window.nodes[-1], count + 1, residual)

    def _evaluate(self, window: OperatorGrid, part: slice, *, first: bool) -> None:
        """Replace noises, responses and means on a block by those of the paths that they drive."""
        engine, size = self.engine, part.stop
        kernels = self._kernels(window)
        for item in self.ensembles:
            single, responses = item.follow(kernels, part, 1e-8, first)
            for name, values in single.items():
                self.means[name][part] = values[part]
            for name, values in responses.items():
                self.means[name][part, :size] = values[part]
            for mean in item.plan.means:
                if mean.kind == "two":
                    table = np.zeros((part.stop - part.start, size))
                    for term, outer in enumerate(mean.outers):
                        f, g = item.factors[mean.name][2 * term : 2 * term + 2]
                        made = (f[part] * item.points.weights) @ g.T
                        table += (
                            made if outer is None else np.broadcast_to(kernels.pointwise(outer), (size, size))[part] * made
                        )
                    self.means[mean.name][part, :size] = table
                    self.means[mean.name][:size, part] = table.T
        kernels = self._kernels(window)
        for covariance in engine.program.covariances:
            self._drive(covariance, kernels, part)

    def _kernels(self, window: OperatorGrid) -> Kernels:
        return self.engine.kernels(window, {name: _head(value, window.size) for name, value in self.means.items()})

    def _drive(self, covariance: Covariance, kernels: Kernels, part: slice) -> None:
        """Put noises on a block that have the covariance of the trajectories."""
        size = part.stop
        home = self.home[covariance.noises[0]]
        nothing = self._sections(kernels, None)
        images = [nothing.table(row[0]) for row in covariance.blocks]
        alone = [np.broadcast_to(image, (size, 1))[:, 0] if np.size(image) == 1 else image[:, 0] for image in images]
        root = math.sqrt(max(float(alone[0][0]), 0.0))
        made = [kernels.vector(centre)[part, None] + np.zeros((1, home.count)) for centre in covariance.centres]
        total = [np.zeros((size, size)) for _ in alone]
        for place, image in enumerate(alone):
            if root:
                made[place] += np.multiply.outer(image[part] / root, self.lone[covariance][: home.count])
                total[place] += np.multiply.outer(image, alone[0]) / root**2
        for source in self.sources:
            sections = self._sections(kernels, source)
            weights = self.ensembles[source.ensemble].points.weights
            values = [
                np.broadcast_to(sections.table(row[0]), (size, len(weights) + 1)) - image[:, None]
                for row, image in zip(covariance.blocks, alone, strict=True)
            ]
            scale = float(values[0][0, -1])
            if not any(value.any() for value in values):
                continue
            if not scale > 0:
                raise SolverError("a noise has zero variance at the start")
            for place, value in enumerate(values):
                made[place] += (value[part, :-1] / math.sqrt(scale)) @ source.mixing[: home.count].T
                total[place] += (value[:, :-1] * weights) @ values[0][:, :-1].T / scale
        for noise, value in zip(covariance.noises, made, strict=True):
            home.noises[noise][part] = value
        if not self.proved and size > 10:
            group = groups_of([covariance], kernels)[0]
            for place, block in enumerate(total):
                table = group.covariance[place * size : (place + 1) * size, :size]
                if np.abs(block - table).max() > _PROVED * max(np.abs(table).max(), 1e-300):
                    raise SolverError("a noise covariance is not of the form P C Pᵀ")
            self.proved = True

    def _sections(self, kernels: Kernels, source: _Source | None) -> _Sections:
        """Return the correlations at (t, start) for the trajectories of a source, and of a constant; without one, for none."""
        size = kernels.grid.size
        means: dict[str, Array] = dict(kernels.means)
        for item in self.ensembles:
            for mean in item.plan.means:
                if mean.kind == "two":
                    means[mean.name] = np.zeros((size, 1))
        if source is not None:
            values = self.ensembles[source.ensemble].factors[source.mean][source.factor]
            values = np.hstack([values, np.ones((size, 1))])
            if source.outer is not None:
                values = values * np.broadcast_to(kernels.pointwise(source.outer), (size, size))[:, :1]
            means[source.mean] = values
        later = {item.name: item for item in self.engine.program.definitions if item.kind == "correlation"}
        return _Sections(kernels.grid, means, {}, kernels.operators, kernels.functions, kernels._values, kernels._known, later)

    # --- what is iterated
    def _pieces(self, part: slice) -> list[Array]:
        noises = [item.noises[name][part] for item in self.ensembles for name in item.plan.noises]
        acting = [mean for item in self.ensembles for mean in item.plan.means if mean.acts and mean.kind != "two"]
        means = [self.means[mean.name] for mean in acting]
        return [*noises, *(m[part] if m.ndim == 1 else m[part, : part.stop] for m in means)]

    def _read(self, part: slice) -> Array:
        return np.concatenate([piece.ravel() for piece in self._pieces(part)])

    def _weights(self, part: slice) -> Array:
        """Return weights of all entries: root mean squares of noises over paths, largest values of rows."""
        made = []
        noises = len(self.home)
        for place, piece in enumerate(self._pieces(part)):
            if place < noises:
                made.append(np.full(piece.size, 1 / math.sqrt(max(float((piece**2).sum()), 1e-300))))
            else:
                made.append(np.full(piece.size, 1 / max(float(np.abs(piece).max()) * math.sqrt(piece.shape[0]), 1e-12)))
        return np.concatenate(made)

    def _split(self, vector: Array, part: slice) -> Iterator[tuple[Array, Array]]:
        """Return every piece, and its part of a vector."""
        pieces = self._pieces(part)
        return zip(pieces, np.split(vector, np.cumsum([piece.size for piece in pieces])[:-1]), strict=True)


def _head(value: Array, size: int) -> Array:
    return value[:size] if value.ndim == 1 else value[:size, :size]
