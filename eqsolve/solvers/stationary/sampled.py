"""The stationary state of paths that are not Gaussian, by sampling: a fixed point of means over lags.

Noises are drawn by their spectra (circulant embedding: Dietrich & Newsam, SIAM J. Sci. Comput. 18, 1088 (1997),
doi:10.1137/S1064827592240555) and paths are followed over a window by the trapezoidal rule. After a first part, in which
they forget their start, means are taken over paths and times. A response is the mean of a linearised path that a random sign
disturbs at every node, times this sign. The map from means to means has fixed random coordinates.
One ensemble is solved so. What it has by chance is then taken away: at its solution, many others
are evaluated once, with steps of 2h, and the mean difference to the first is added to its map. Four groups of them give the
sampling error, steps h and 2h that of time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from eqsolve.compile.stochastic import EnsembleProgram, MeanProgram, StochasticProgram
from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array, Packing
from eqsolve.numerics.gaussian import Level, PointLayout, Points, make_points
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.numerics.secants import Secants
from eqsolve.numerics.sobol import DIMENSIONS, sobol_normals
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.follow import Driven, Paths, follow, path_operators, substitute
from eqsolve.solvers.paths.modes import Drawn
from eqsolve.solvers.paths.responses import enter, instantaneous
from eqsolve.solvers.paths.sweep import Engine, Work, guess, rate
from eqsolve.solvers.stationary.state import PLAIN, REACH, Means, NoStationaryStateError, StationaryState
from eqsolve.solvers.tolerance import DEVIATIONS

_LEVEL = Level(1e-3, 1.0, 16, 256)  # of the first time scale, and of means at the start


MOST = 4 * PathsControls.sets  # ensembles of a group; the spread of the groups is the sampling error
TOLERANCE = 0.03  # of states, unless another is asked for; and what may be left of a variance at half of the lags


@dataclass(frozen=True, eq=False)
class Window:
    """Evenly spaced nodes: ``forget`` of them, on which paths forget their start, then a period of the noises.

    Lags go to half a period, and correlations are taken to be constant beyond the reach, a third of a period.
    """

    grid: OperatorGrid
    step: float
    period: int
    discrete: bool

    @classmethod
    def make(cls, step: float, reach: float, discrete: bool) -> Window:
        period = 24 * math.ceil(reach / step / 8)
        nodes = step * np.arange(period // 3 + period)
        grid = OperatorGrid.discrete(step, 0.0, nodes[-1]) if discrete else OperatorGrid.trapezoid(nodes, 4)
        return cls(grid, step, period, discrete)

    @property
    def lags(self) -> int:
        return self.period // 2

    @property
    def reach(self) -> int:
        return self.period // 3

    @property
    def share(self) -> Array:
        """|τ| over the reach, at lags −K … K."""
        return np.abs(np.arange(-self.lags, self.lags + 1)) / self.reach

    def coarsened(self) -> Window:
        """Return the window of every other node."""
        return Window(OperatorGrid.trapezoid(self.grid.nodes[::2], 4), 2 * self.step, self.period // 2, False)

    def repeated(self, values: Array) -> Array:
        """Return what is given on a period on all nodes."""
        return np.concatenate([values[self.period - self.reach :], values])

    def stationary(self, values: Array) -> Array:
        """Return the part of what is given on all nodes where paths have forgotten their start."""
        return values[self.reach :]

    def tabulate(self, values: Array, causal: bool = False) -> Array:
        """Return f(t − t') on pairs of nodes, constant beyond lags ±K; of an operator, zero."""
        ahead = np.subtract.outer(np.arange(self.grid.size), np.arange(self.grid.size))
        if not causal:
            return np.asarray(values[np.clip(ahead, -self.lags, self.lags) + self.lags])
        table = np.append(values, 0.0)[np.where((ahead < 0) | (ahead > self.lags), len(values), ahead)]
        if not self.discrete:
            table[1:, 0] /= 2  # the trapezoidal rule from the first node on
        return np.asarray(table)

    def lagged(self, table: Array) -> Array:
        """Return f at lags −K … K from the last row and column of a table."""
        last = self.grid.size - 1
        return np.concatenate([table[last - self.lags : last, last], table[last, last - self.lags :][::-1]])

    def flatten(self, values: Array) -> Array:
        """Return a correlation that is constant beyond the reach, where it falls from half of it on.

        Over lags the equations have periodic solutions too, as a particle has in a potential; this excludes them.
        """
        limit = float(values[self.share >= 1].mean())
        taper = np.cos(0.5 * math.pi * np.clip(2 * self.share - 1, 0.0, 1.0)) ** 2
        return np.asarray(limit + taper * (values - limit))

    def correlate(self, left: Array, right: Array, weights: Array) -> Array:
        """Return the mean of left(t) right(t − τ) over paths and the times of a period, at lags −K … K."""
        first, second = (np.fft.rfft(self.stationary(values), axis=0) for values in (left, right))
        sums = np.fft.irfft(np.einsum("wp,wp,p->w", first, second.conj(), weights), self.period) / self.period
        return np.concatenate([sums[-self.lags :], sums[: self.lags + 1]])


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The random numbers of one ensemble."""

    points: Points
    waves: Mapping[str, Array]  # (frequency, path), complex
    static: Mapping[str, Array]
    white: Mapping[str, Array]
    signs: Array

    @classmethod
    def draw(cls, plan: EnsembleProgram, laws: Mapping[str, Any], period: int, count: int, seed: int) -> Coordinates:
        rng = np.random.default_rng((seed, 11))
        mine = {name: laws[name] for name in plan.constants}
        points = make_points(0, PointLayout("draws"), mine, Level(1e-3, 1.0, 16, count, seed=seed))
        count = len(points.weights)
        mixed = rng.permutation(count)
        constants = {name: values[mixed] for name, values in points.constants.items()}
        points = replace(points, constants=constants, weights=points.weights[mixed])
        waves, static = {}, {}
        # the constant part and the slowest waves matter most: they are Sobol points together
        slow = 0 if not plan.noises else min(period // 2, (DIMENSIONS // len(plan.noises) - 1) // 2)
        normals = iter(sobol_normals(count, len(plan.noises) * (1 + 2 * slow), seed)[:, mixed])
        for name in plan.noises:
            squares, phases = (_stratified(rng, period // 2 + 1, count) for _ in range(2))
            waves[name] = np.sqrt(-np.log1p(-squares)) * np.exp(2j * math.pi * phases)
            waves[name][[0, -1]] = ndtri(_stratified(rng, 2, count))
            static[name] = next(normals)
        for row in range(1, slow + 1):
            for name in plan.noises:
                waves[name][row] = (next(normals) + 1j * next(normals)) / math.sqrt(2)
        white = {name: ndtri(_stratified(rng, period, count)) for name in plan.driving[len(plan.noises) :]}
        return cls(points, waves, static, white, rng.choice([-1.0, 1.0], size=(period, count)))

    def coarsened(self) -> Coordinates:
        """Return the coordinates of the same noises on every other node."""
        waves = {}
        for name, values in self.waves.items():
            waves[name] = values[: (len(values) - 1) // 2 + 1].copy()
            waves[name][-1] = math.sqrt(2) * waves[name][-1].real
        white = {name: (values[::2] + np.roll(values, 1, axis=0)[::2]) / math.sqrt(2) for name, values in self.white.items()}
        return Coordinates(self.points, waves, self.static, white, self.signs[::2])


def _stratified(rng: np.random.Generator, rows: int, count: int) -> Array:
    """Return numbers in (0, 1) of which every row has one in each of ``count`` strata.

    Latin hypercube sampling: Stein, Technometrics 29, 143 (1987), doi:10.1080/00401706.1987.10488205.
    """
    strata = rng.permuted(np.broadcast_to(np.arange(count), (rows, count)), axis=1)
    return np.asarray((strata + rng.random((rows, count))) / count)


def draw_by_spectrum(
    window: Window, blocks: Sequence[Sequence[Array]], waves: Sequence[Array], static: Sequence[Array]
) -> Array:
    """Return stationary Gaussian noises (noise, node, path) of covariances ``blocks`` over lags −K … K.

    Limits are random constants of each path; negative parts of spectra are left out.
    """
    count, half, period = len(waves), window.lags, window.period
    spectra = np.empty((half + 1, count, count), complex)
    limits = np.empty((count, count))
    for row, column in itertools.product(range(count), repeat=2):
        lags = blocks[row][column]
        limits[row, column] = (lags[0] + lags[-1]) / 2
        spectra[:, row, column] = np.fft.rfft(np.concatenate([lags[half:-1], lags[:half]]) - limits[row, column])
    roots = _positive_root(spectra) * math.sqrt(period)
    fixed = _positive_root(limits[None])[0].real
    noises = np.empty((count, window.grid.size, waves[0].shape[1]))
    for row in range(count):
        moving = np.fft.irfft(sum(roots[:, row, column, None] * waves[column] for column in range(count)), period, axis=0)
        noises[row] = window.repeated(moving) + sum(fixed[row, column] * static[column] for column in range(count))
    return noises


def _positive_root(matrices: Array) -> Array:
    """Return the Hermitian square roots of matrices, negative eigenvalues taken as zero."""
    values, vectors = np.linalg.eigh((matrices + matrices.conj().swapaxes(1, 2)) / 2)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(scaled @ vectors.conj().swapaxes(1, 2))


@dataclass(eq=False)
class Map:
    """The map from means over lags to those of the paths they drive, for one set of coordinates."""

    engine: Engine
    window: Window
    coordinates: tuple[Coordinates, ...]

    def __post_init__(self) -> None:
        self.paths: list[Paths] = []  # of the last evaluation: the guess of the next
        self.states: list[Array] = []  # of the paths at the phase of the first node, from the last evaluation
        self.idle: frozenset[str] = frozenset()  # responses whose factors vanish: they change nothing
        self.shift: Means = {}  # what is added to the means of these paths

    @classmethod
    def make(cls, engine: Engine, window: Window, count: int, seed: int) -> Map:
        coordinates = [
            Coordinates.draw(plan, engine.laws, window.period, count, 100 * seed + place)
            for place, plan in enumerate(engine.ensembles)
        ]
        return cls(engine, window, tuple(coordinates))

    def coarsened(self) -> Map:
        coarse = Map(self.engine, self.window.coarsened(), tuple(coordinates.coarsened() for coordinates in self.coordinates))
        coarse.idle, coarse.states, coarse.shift = self.idle, self.states, coarsen_means(self.engine.program, self.shift)
        return coarse

    def shifted(self, shift: Means) -> Map:
        shifted = copy(self)
        shifted.shift = shift
        return shifted

    def once(self, means: Means, idle: frozenset[str]) -> Means:
        """Return the means of all paths after these have forgotten their start."""
        self.idle = idle
        self.follow(means)
        self.keep_states()
        return self.apply(means, acting=False)

    def find_idle(self, means: Mapping[str, Array]) -> frozenset[str]:
        """Return the responses that no path or noise depends on."""
        drives, idle = self._driven(means), set()
        for mean in self.acting:
            if mean.kind == "response":
                changed = self._driven({**means, mean.name: np.exp(-np.arange(self.window.lags + 1.0))})
                if all(np.array_equal(before, after) for before, after in zip(drives, changed, strict=True)):
                    idle.add(mean.name)
        return frozenset(idle)

    def _driven(self, means: Mapping[str, Array]) -> list[Array]:
        kernels, drives = self.kernels(means), []
        for plan in self.engine.ensembles:
            actions = path_operators(plan, kernels)
            drives += [*actions.operators.values(), *actions.drives, *(kernels.functions[name] for name in plan.functions)]
        return drives + [
            kernels.table(entry) for group in self.engine.program.covariances for row in group.blocks for entry in row
        ]

    @property
    def acting(self) -> list[MeanProgram]:
        return [mean for mean in self.engine.means if mean.acts]

    def kernels(self, means: Mapping[str, Array]) -> Kernels:
        """Return kernels and functions on all nodes for means over lags."""
        tables = {}
        for plan in self.engine.ensembles:
            for mean in plan.means:
                value = means[mean.name]
                if mean.kind == "one":
                    tables[mean.name] = np.full(self.window.grid.size, value[0])
                else:
                    tables[mean.name] = self.window.tabulate(value, mean.kind == "response")
        return self.engine.kernels(self.window.grid, tables)

    def noises(self, kernels: Kernels, plan: EnsembleProgram, coordinates: Coordinates) -> dict[str, Array]:
        """Return all noises of an ensemble (node, path)."""
        noises = self.draw(plan, coordinates, kernels.table)
        for group in self.engine.program.covariances:
            for name, centre in zip(group.noises, group.centres, strict=True):
                if name in noises:
                    noises[name] = noises[name] + kernels.vector(centre)[-1]
        for name, strength in self.engine.program.whites:
            if name in coordinates.white:
                size = math.sqrt(max(float(kernels.vector(strength)[-1]), 0.0) / self.window.step)
                noises[name] = size * self.window.repeated(coordinates.white[name])
        return noises

    def draw(self, plan: EnsembleProgram, coordinates: Coordinates, table: Callable[[Pointwise], Array]) -> dict[str, Array]:
        """Return centred noises of an ensemble (node, path); ``table`` gives covariances."""
        noises: dict[str, Array] = {}
        for group in self.engine.program.covariances:
            if group.noises[0] in plan.noises:
                blocks = [[self.window.lagged(table(entry)) for entry in row] for row in group.blocks]
                waves, static = ([known[name] for name in group.noises] for known in (coordinates.waves, coordinates.static))
                noises |= zip(group.noises, draw_by_spectrum(self.window, blocks, waves, static), strict=True)
        return noises

    def follow(self, means: Mapping[str, Array]) -> Kernels:
        """Follow all paths that given means drive; return the kernels of these means."""
        kernels = self.kernels(means)
        driven = []
        for place, (plan, coordinates) in enumerate(zip(self.engine.ensembles, self.coordinates, strict=True)):
            noises = self.noises(kernels, plan, coordinates)
            drawn = Drawn(tuple(noises[name] for name in plan.driving), ())
            before = self.paths[place].unknowns if self.paths else None
            starts = self.states[place] if self.states else None
            driven.append(Driven(plan, path_operators(plan, kernels), coordinates.points, drawn, before, starts))
        self.paths = follow(driven, kernels, self.engine.accuracy, threads=self.engine.threads)
        return kernels

    def keep_states(self) -> None:
        """Let the next paths begin where the last ones were a period after their first node."""
        integrated = [np.array(plan.integrated)[:, None] for plan in self.engine.ensembles]
        ends = [paths.unknowns[:, self.window.period] for paths in self.paths]
        self.states = [np.where(moved, end, 0.0) for moved, end in zip(integrated, ends, strict=True)]

    def apply(self, means: Mapping[str, Array], *, acting: bool = True) -> Means:
        """Return the means of the paths that given means drive."""
        kernels = self.follow(means)
        image = dict(means)
        for paths, coordinates in zip(self.paths, self.coordinates, strict=True):
            weights, window = paths.points.weights, self.window
            signs = window.repeated(coordinates.signs)
            changes: dict[str, Array] = {}
            for mean in paths.plan.means:
                if acting and (not mean.acts or mean.name in self.idle):
                    continue
                factors = paths.values(mean.factors)
                if mean.kind == "one":
                    image[mean.name] = np.array([float(window.stationary(factors[0] @ weights).mean())])
                    continue
                if mean.kind == "response":
                    if mean.noise not in changes:
                        changes[mean.noise] = disturb(paths, {mean.noise: signs})
                    slopes = paths.values(mean.by_unknown)
                    output = sum(a * b for a, b in zip(slopes, changes[mean.noise], strict=True))
                    source, _ = enter(paths, mean.noise, True)
                    lagged = window.correlate(factors[0] * output, factors[1] * signs, weights)[window.lags :]
                    lagged[0] -= float(window.stationary(instantaneous(paths, source, slopes, factors)).mean())
                    image[mean.name] = self._scaled(kernels, mean, [lagged])
                    continue
                pairs = zip(factors[::2], factors[1::2], strict=True)
                tapered = [window.flatten(window.correlate(f, g, weights)) for f, g in pairs]
                image[mean.name] = self._scaled(kernels, mean, tapered)
        return {
            name: value if value is means[name] else value + self.shift.get(name, 0.0)  # what is not evaluated stays
            for name, value in image.items()
        }

    def _scaled(self, kernels: Kernels, mean: MeanProgram, terms: Sequence[Array]) -> Array:
        """Return Σ outer × term, over lags."""
        total = np.zeros_like(terms[0])
        for outer, term in zip(mean.outers, terms, strict=True):
            if outer is None:
                total += term
                continue
            size = self.window.grid.size
            factor = self.window.lagged(np.broadcast_to(kernels.pointwise(outer), (size, size)))
            total += (factor if len(term) == len(factor) else factor[self.window.lags :]) * term
        return total

    def outputs(self, means: Mapping[str, Array]) -> Means:
        """Return what is reported: kernels over lags up to the reach; numbers as one entry."""
        kernels, window = self.kernels(self.apply(means, acting=False)), self.window
        tables = kernels.complete() | {name: kernels.response(name) for name in kernels.operators}
        outputs = {name: window.lagged(table)[window.lags :][: window.reach + 1] for name, table in tables.items()}
        outputs |= {name: values[-1:] for name, values in kernels.functions.items()}
        return outputs | {name: kernels.vector(item)[-1:] for name, item in self.engine.program.observables}

    def start(self) -> Means:
        """Return the means at the start, as if nothing moved or responded."""
        begun, window, means = guess(self.engine, self.window.grid.head(1), _LEVEL), self.window, {}
        for mean in self.engine.means:
            size = {"one": 1, "two": 2 * window.lags + 1, "response": window.lags + 1}[mean.kind]
            means[mean.name] = np.full(size, float(begun[mean.name].flat[0]))
        return means

    def first(self, reaction: float, rounds: int = 8) -> Means:
        """Return means to begin with: covariances fade at a given rate, so that something moves."""
        window, means = self.window, self.start()
        fade = np.exp(-reaction * window.step * np.abs(np.arange(-window.lags, window.lags + 1)))
        for _ in range(rounds):
            means = self.apply(means)
            for paths in self.paths:
                for mean in paths.plan.means:
                    if mean.kind == "two" and mean.acts:
                        averages = [float(window.stationary(value @ paths.points.weights).mean())
                                    for value in paths.values(mean.factors)]  # fmt: skip
                        products = (f * g for f, g in zip(averages[::2], averages[1::2], strict=True))
                        terms = [np.full(2 * window.lags + 1, product) for product in products]
                        limit = self._scaled(paths.kernels, mean, terms)
                        means[mean.name] = limit + (means[mean.name][window.lags] - limit) * fade
        return means


def disturb(paths: Paths, noises: Mapping[str, Array], growth: float = 0.0) -> Array:
    """Return how unknowns change (unknown, node, path) if functions on (node, path) are added to noises.

    With a ``growth`` rate λ both are multiplied by e^{−λt}.
    """
    nodes = paths.kernels.grid.nodes
    fade = np.exp(-growth * np.subtract.outer(nodes, nodes).clip(0.0)) if growth else 1.0
    operators = {key: matrix * fade for key, matrix in paths.actions.operators.items()}
    right = np.zeros_like(paths.unknowns)
    for noise, values in noises.items():
        source, direct = enter(paths, noise, True)
        for unknown, matrix in enumerate(source):
            right[unknown] += (matrix * fade) @ values
        if direct is not None:
            for (unknown, signal), matrix in operators.items():
                right[unknown] += matrix @ (direct[signal] * values)
    return substitute(operators, paths.kernels.grid.blocks, np.ascontiguousarray(paths.slopes), right)


@dataclass(frozen=True, eq=False)
class MapRoot:
    """A fixed point of the map of one set of coordinates, up to ``residual``."""

    map: Map
    means: Means
    residual: float


def solve_map(made: Map, means: Means, secants: Secants, tolerance: float, plain: int = 0, most: int = 40) -> MapRoot:
    """Return a fixed point of the map, by Anderson's iteration after ``plain`` substitutions."""
    names = [mean.name for mean in made.acting]
    point, residual = means, math.inf
    secants.interrupt()
    for count in range(most):
        image = made.apply(point)
        scales = {name: float(np.abs(image[name]).max()) + 1e-300 for name in names}
        if not all(np.isfinite(image[name]).all() for name in names):
            raise NoStationaryStateError("the iteration over correlations diverges: there may be no stationary state")
        residual = max((float(np.abs(image[name] - point[name]).max()) / scales[name] for name in names), default=0.0)
        if residual <= tolerance and made.states:
            break
        if residual < 0.03:  # far from a solution paths may move where they would stay for long
            made.keep_states()
        if count < plain:
            point = image
            continue
        weights = np.concatenate([np.full(len(image[name]), 1 / scales[name] / math.sqrt(len(image[name]))) for name in names])
        packing = Packing(image, names)
        point = image | packing.unpack(secants.next(packing.pack(point), packing.pack(image), weights))
    logger.debug("%d lags: %d sweeps, residual %.2g", made.window.lags, count + 1, residual)
    if residual > 100 * tolerance:
        hint = f"; to rtol={1.5 * residual:.1g} (--rtol) they may" if residual < 0.3 else ""
        raise NoStationaryStateError(f"correlations do not settle: the iteration still changes them by {residual:.1g}{hint}")
    return MapRoot(made, image, residual)


@dataclass
class Growth:
    """The rate at which small distances of two replicas grow, and their shape over lags."""

    rate: float
    distance: Means
    slope: float = 0.0  # of the logarithm of the factor, along the rate; 0 where it is not known


def growth_rate(solved: MapRoot, seed: int, draws: int = 1, begin: Growth | None = None) -> Growth:
    """Return the largest Lyapunov exponent: the rate at which small distances of two copies reproduce themselves.

    The power method finds their factor for a rate, while the rate moves to where that is one. On every path
    several ``draws`` of a Gaussian disturbance are followed, whose covariance the distances change.
    """
    map_, window = solved.map, solved.map.window
    map_.follow(solved.means)
    count = map_.coordinates[0].points.weights.size
    others = [Map.make(map_.engine, window, count, seed + 100 * number).coordinates for number in range(draws)]
    pairs = [mean.name for mean in map_.acting if mean.kind == "two"]
    scale = 4 / (window.step * window.reach)
    growth = begin or Growth(0.0, {name: np.exp(-4 * window.share) for name in pairs})
    if not math.isfinite(growth.rate):
        return growth

    gains: list[tuple[float, float]] = []
    for number in range(40):
        after = reproduce(solved, others, growth.distance, growth.rate)
        size, before = (math.sqrt(sum(float(value @ value) for value in item.values())) for item in (after, growth.distance))
        if not size > 0:
            return Growth(-math.inf, growth.distance)
        gain = math.log(size / before)
        growth = replace(growth, distance={name: value / size for name, value in after.items()})
        if number < (3 if begin is None else 1):
            continue
        gains.append((growth.rate, gain))
        if abs(gain) < 1e-3:
            break
        slope = growth.slope or -1 / scale
        if len(gains) > 1 and gains[-1][0] != gains[-2][0]:
            slope = min(-1 / (8 * scale), max(-8 / scale, (gains[-1][1] - gains[-2][1]) / (gains[-1][0] - gains[-2][0])))
        growth = replace(growth, rate=growth.rate - gain / slope, slope=slope)
    return growth


def reproduce(solved: MapRoot, others: Sequence[Sequence[Coordinates]], distance: Means, rate: float) -> Means:
    """Return the distances that given ones make, at a rate of growth."""
    map_, window = solved.map, solved.map.window
    moved = (solved.means | {name: solved.means[name] + s * value for name, value in distance.items()} for s in (1, -1))
    ahead, behind = map(map_.kernels, moved)
    total = {name: np.zeros_like(value) for name, value in distance.items()}
    for other in others:
        for paths, coordinates in zip(map_.paths, other, strict=True):
            disturbances = map_.draw(paths.plan, coordinates, lambda entry: (ahead.table(entry) - behind.table(entry)) / 2)
            targets = change_of_targets(paths, disturb(paths, disturbances, rate), disturbances)
            for mean in paths.plan.means:
                if mean.kind == "two" and mean.acts:
                    terms = [window.correlate(targets[a], targets[b], paths.points.weights) for a, b in mean.targets]
                    scaled = map_._scaled(paths.kernels, mean, [window.flatten(term) for term in terms])
                    total[mean.name] += scaled / len(others)
    return total


def lasting_gain(solved: MapRoot, seed: int) -> float:
    """Return by what changes of correlations at the longest lags are multiplied: below one if stable.

    Two such moments share only what is constant along a path: E[χ²], of the static response χ of each.
    """
    map_ = solved.map
    map_.follow(solved.means)
    others = [Map.make(map_.engine, map_.window, map_.coordinates[0].points.weights.size, seed).coordinates]
    pairs, size = {mean.name: 1.0 for mean in map_.acting if mean.kind == "two"}, 0.0
    for _ in range(1 if len(pairs) == 1 else 6):
        distance = {name: np.full(2 * map_.window.lags + 1, value) for name, value in pairs.items()}
        limits = {name: float(value[-1]) for name, value in reproduce(solved, others, distance, 0.0).items()}
        size = max(map(abs, limits.values()), default=0.0)
        pairs = {name: value / (size or 1.0) for name, value in limits.items()}
    return size


def change_of_targets(paths: Paths, changes: Array, disturbances: Mapping[str, Array]) -> list[Array]:
    """Return how all targets of an ensemble change with its unknowns and noises."""
    plan = paths.plan
    slopes, direct = paths.values(plan.target_slopes), paths.values(plan.target_noise_slopes)
    changed = []
    for target in range(plan.targets):
        total = sum(slopes[target * len(plan.unknowns) + place] * change for place, change in enumerate(changes))
        for place, noise in enumerate(plan.noises):
            if noise in disturbances:
                total = total + direct[target * len(plan.noises) + place] * disturbances[noise]
        changed.append(total)
    return changed


@dataclass(frozen=True, eq=False)
class SampledState(StationaryState):
    """A stationary state of sampled paths."""

    sets: tuple[MapRoot, ...]
    rtol: float

    def lyapunov(self) -> tuple[float, float]:
        """Return the largest exponent and its error, from the sets: to five times the tolerance of the state if possible.

        A few paths tell about where it is and in which direction distances grow. Their exponent is too high by some per cent;
        more are taken, several disturbances on each, as long as the sets differ by more.
        """
        places = range(len(self.sets))
        growths = [growth_rate(self._fresh(place, min(2048, self._paths)), 1000 + place) for place in places]
        for more in (1, 4, 8):
            roots = (self._fresh(place, more * self._paths) for place in places)
            growths = [growth_rate(root, 1000 + place, 4, growths[place]) for place, root in enumerate(roots)]
            rates = [growth.rate for growth in growths]
            if not np.isfinite(rates).all():
                return -math.inf, 0.0
            value, error = float(np.mean(rates)), float(DEVIATIONS * np.std(rates, ddof=1) / math.sqrt(len(rates)))
            if not error > 5 * self.rtol * abs(value):
                break
        return value, error

    def gain(self) -> tuple[float, float]:
        # by one set where it is small
        gains = [lasting_gain(self.sets[0], 1000)]
        while gains[0] > 0.9 and len(gains) < len(self.sets):
            gains.append(lasting_gain(self._fresh(len(gains), self._paths), 1000 + len(gains)))
        spread = np.std(gains, ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else 0.03 * gains[0]
        return float(np.mean(gains)), float(DEVIATIONS * spread)

    def is_balanced(self) -> bool:
        answers = self.sets[0].map.kernels(self.sets[0].means).operators
        for name, fallen in ((name, values[0] - values) for name, values in self.curves.items()):
            for values in (self.curves[other] for other in answers if name not in answers):
                summed = np.cumsum(values) - (values + values[0]) / 2
                if fallen @ summed > 0.999 * np.linalg.norm(fallen) * np.linalg.norm(summed):
                    return True
        return False

    @property
    def _paths(self) -> int:
        return int(self.sets[0].map.coordinates[0].points.weights.size)

    def _fresh(self, place: int, count: int) -> MapRoot:
        root = self.sets[place]
        fresh = Map.make(root.map.engine, root.map.window, count, 2 + place)
        fresh.once(root.means, root.map.idle)
        return replace(root, map=fresh)


class _SampledSearch:
    """Anderson's iteration of correlations of sampled paths, in windows that grow until these fall."""

    def __init__(self, program: StochasticProgram, laws: Mapping[str, Any], options: Options) -> None:
        self.engine = Engine(program, laws, Work(), min(1e-3 * options.rtol, 1e-5), threads=options.threads)
        self.options, self.secants, self.moved = options, Secants(16), Means()

    def run(self, steps: int) -> SampledState:
        """Return the state, paths followed with ``steps`` steps in the time on which they react at the start."""
        options, paths, sets = self.options, PathsControls.probe, PathsControls.sets
        begin = float(self.engine.program.start()[0])
        reaction = 1 / options.step if options.step else rate(self.engine, begin, _LEVEL, typical=True)
        step = options.step or 1 / (steps * reaction)
        reach, tolerance = REACH / reaction, 1e-2 * options.rtol
        while True:
            window = Window.make(step, reach, options.step is not None)
            if window.grid.size**2 * paths > PathsControls.small_set_work:  # some seconds for a sweep
                raise NoStationaryStateError(
                    f"correlations do not fall: at the lag {window.step * window.reach:.3g} they still move (a limit cycle, "
                    "aging, or a transition that is very near)"
                )
            fine_map = Map.make(self.engine, window, paths, 1)
            fine_map.idle = fine_map.find_idle(fine_map.start())
            rough = solve_map(fine_map, fine_map.first(4 / reach), Secants(16), max(tolerance, 1e-3), PLAIN)
            options.report_share(0.2, f"lags up to {reach:.3g}")
            if self._tail(rough) < TOLERANCE:
                break
            if options.is_short_of_time():
                raise NoStationaryStateError(f"the budget ended with lags up to {reach:.3g}, where correlations still fall")
            reach *= 1.5
        count = 8 * paths
        fine_map = Map.make(self.engine, window, count, 2)
        fine_map.idle = rough.map.idle
        options.report_share(0.3, f"{count} paths")
        first = solve_map(fine_map, rough.means, self.secants, tolerance)
        coarse, at = first.map, first.means
        if options.step is None:
            coarse, at = coarse.coarsened(), coarsen_means(self.engine.program, at)
        own, images, solved = coarse.once(at, fine_map.idle), [[] for _ in range(sets)], [first] * sets  # type: ignore[var-annotated]
        ensembles = 2
        while True:
            for place, group in enumerate(images):
                options.report_share(0.4 + 0.5 * place / sets, f"{ensembles} ensembles of {count} paths, group {place + 1}")
                while len(group) < ensembles:
                    seed = 3 + place + sets * len(group)
                    group.append(Map.make(self.engine, coarse.window, count, seed).once(at, fine_map.idle))
            for place, group in enumerate(images):
                shift = {name: np.mean([means[name] for means in group], axis=0) - own[name] for name in own}
                fine = fine_map.shifted(refine_means(self.engine.program, shift, fine_map.window, coarse.window))
                solved[place] = solve_map(fine, solved[place].means, self.secants, tolerance)
            state = self._judged(solved)
            worst = state.worst_error(options)[1]
            logger.info("%d ensembles of %d paths: the error is %.2g of the tolerance", ensembles, count, worst)
            if worst <= 1 or ensembles >= MOST or options.is_short_of_time():
                return state
            ensembles = min(math.ceil(ensembles * min(max(1.3 * worst**2, 2), 8)), MOST)

    def _tail(self, solved: MapRoot) -> float:
        """Return how far correlations are from their limit at half of the reach."""
        worst, share = 0.0, solved.map.window.share
        for mean in solved.map.acting:
            if mean.kind == "two":
                values = solved.means[mean.name]
                near = values[(share > 0.4) & (share < 0.6)].mean() - values[-1]
                worst = max(worst, abs(float(near)) / (abs(float(values[len(values) // 2])) + 1e-300))
        return worst

    def _judged(self, solved: Sequence[MapRoot]) -> SampledState:
        """Return the mean of all sets, extrapolated to vanishing steps, with errors."""
        window = solved[0].map.window
        lags, outputs = window.step * np.arange(window.reach + 1), [root.map.outputs(root.means) for root in solved]
        if self.options.step is None and not self.moved:  # by the step, as in the first set
            begin = coarsen_means(self.engine.program, solved[0].means)
            again = solve_map(solved[0].map.coarsened(), begin, Secants(16), 0.1 * self.options.rtol)
            far = again.map.outputs(again.means)
            moved = {name: (value[::2] - far[name]) / 3 for name, value in outputs[0].items()}
            self.moved = {
                name: np.interp(lags, lags[::2], value) if len(value) > 1 else value for name, value in moved.items()
            }
        outputs = [{name: value + self.moved.get(name, 0.0) for name, value in output.items()} for output in outputs]
        averages, errors, residual = {}, {}, max(root.residual for root in solved)
        for name in outputs[0]:
            table = np.array([output[name] for output in outputs])
            averages[name] = table.mean(axis=0)
            sampling = DEVIATIONS * table.std(axis=0, ddof=1) / math.sqrt(len(table))
            unsolved = 3 * residual * np.abs(averages[name]).max()
            errors[name] = sampling + unsolved + 0.3 * np.abs(self.moved.get(name, 0.0))
        numbers = {name: float(value[0]) for name, value in averages.items() if len(value) == 1}
        curves = {name: value for name, value in averages.items() if len(value) > 1}
        pairs = [root.means[mean.name] for root in solved for mean in root.map.acting if mean.kind == "two"]
        still = all(np.ptp(values) <= 0.1 * self.options.rtol * np.abs(values).max() for values in pairs)
        grid = PanelGrid.smooth(lags) if self.options.step is None else PanelGrid(lags, 1)
        curve_errors = {name: errors[name] for name in curves}
        number_errors = {name: float(errors[name][0]) for name in numbers}
        return SampledState(
            curves, curve_errors, numbers, number_errors, still, grid, residual, 0.0, tuple(solved), self.options.rtol
        )


def coarsen_means(plan: StochasticProgram, means: Means) -> Means:
    """Return means on every other lag; operators are integrals over twice the step."""
    kinds = {mean.name: mean.kind for ensemble in plan.ensembles for mean in ensemble.means}
    return {name: value if kinds[name] == "one" else value[::2] * (2 if kinds[name] == "response" else 1)
            for name, value in means.items()}  # fmt: skip


def refine_means(plan: StochasticProgram, means: Means, window: Window, coarse: Window) -> Means:
    """Return means of a coarser window on the lags of a window."""
    kinds, refined = {mean.name: mean.kind for ensemble in plan.ensembles for mean in ensemble.means}, dict(means)
    for name, value in means.items():
        if kinds[name] != "one" and coarse is not window:
            first = 0 if kinds[name] == "response" else -1
            lags, known = (grid.step * np.arange(first * grid.lags, grid.lags + 1) for grid in (window, coarse))
            refined[name] = np.interp(lags, known, value) * (window.step / coarse.step if first == 0 else 1.0)
    return refined


def find_by_sampling(program: StochasticProgram, laws: Mapping[str, Any], options: Options, steps: int = 1) -> SampledState:
    """Return the stationary state that the declared start leads to, or raise ``NoStationaryStateError``."""
    if any(item.leading < len(item.noises) for item in program.covariances):
        raise NoStationaryStateError("noises that follow others are not taken")
    try:
        return _SampledSearch(program, laws, options).run(steps)
    except NoStationaryStateError:
        raise
    except np.linalg.LinAlgError as reason:
        said = "its kernels have no solution over lags; if it comes to rest, see `longtime`"
        raise NoStationaryStateError(said) from reason
    except SolverError as reason:
        if steps < 8:
            return find_by_sampling(program, laws, options, 2 * steps)
        raise NoStationaryStateError(f"paths cannot be followed: {reason}") from reason
