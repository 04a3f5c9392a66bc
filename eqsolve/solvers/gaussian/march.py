"""A Gaussian system solved on a grid, block after block: the past is settled, and the new rows of all means are iterated.

The means give the kernels, these the law of the new rows, and this the means. Within one panel that
is a contraction for panels short enough, or between two nodes where there are no panels; Anderson
acceleration makes it a few steps (Walker & Ni 2011, see ``eqsolve.numerics.secants``).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.compile.gaussian import GaussianPlan
from eqsolve.compile.stochastic import Covariance, MeanPlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.quadrature import LineRule
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.secants import Secants
from eqsolve.solvers.gaussian.averages import LawMeans
from eqsolve.solvers.gaussian.law import GaussianLaw, conditions
from eqsolve.solvers.paths.iterate import pack, unpack, weigh
from eqsolve.solvers.paths.modes import Group, groups_of
from eqsolve.solvers.paths.sweep import Engine, Means
from eqsolve.solvers.paths.transfer import extend


# --- Means continued in time by one node: what an iteration at the new node begins with.
def continue_means(means: Mapping[str, Array], node: int, responses: frozenset[str]) -> None:
    """Continue the means to a new node along lines; responses are causal."""
    if node == 0:
        return
    for name, value in means.items():
        if value.ndim == 1:
            value[node] = 2 * value[node - 1] - value[node - 2] if node > 1 else value[0]
            continue
        past = slice(0, node)
        if node > 2:
            value[node, : node - 1] = 2 * value[node - 1, : node - 1] - value[node - 2, : node - 1]
            value[: node - 1, node] = 2 * value[: node - 1, node - 1] - value[: node - 1, node - 2]
            value[node, node - 1] = 2 * value[node - 1, node - 2] - value[node - 2, node - 3]
            value[node - 1, node] = 2 * value[node - 2, node - 1] - value[node - 3, node - 2]
            value[node, node] = 2 * value[node - 1, node - 1] - value[node - 2, node - 2]
        else:
            value[node, past], value[past, node] = value[node - 1, past], value[past, node - 1]
            value[node, node] = value[node - 1, node - 1]
        if name in responses:
            value[:node, node] = 0.0


# --- One grid: its means, block after block.
def halved(panels: PanelGrid, panel: int) -> PanelGrid:
    """Return panels with one of them cut in two, and later ones into pieces no longer than these."""
    steps = np.diff(panels.edges)
    pieces = [2 if place == panel else max(1, math.ceil(2 * step / steps[panel] - 1e-9)) if place > panel else 1
              for place, step in enumerate(steps)]  # fmt: skip
    edges = [edge + step * np.arange(count) / count for edge, step, count in zip(panels.edges, steps, pieces, strict=False)]
    return PanelGrid(np.append(np.concatenate(edges), panels.edges[-1]), panels.order)


_CANCELS = 1e-3  # of the size of what is averaged: a mean that is smaller is known to the tolerance of this


class UnsettledError(SolverError):
    """The means do not settle on a block: its panel is too long. ``block`` is its place in the grid."""

    block: int = 0


@dataclass(frozen=True, eq=False)
class Sizes:
    """The means of the sizes of what is averaged, E|f| beside E f."""

    sizes: dict[str, Array]


@dataclass(frozen=True, eq=False)
class LawMarch:
    """A solution on a grid: its means, kernels and laws; ``left`` is what the iteration would still change."""

    grid: OperatorGrid
    means: Means
    kernels: Kernels
    averages: tuple[Sizes, ...]
    laws: tuple[tuple[LawMeans, ...], ...]
    covariances: tuple[Covariance, ...]
    left: float


@dataclass(eq=False)
class _Work:
    """Everything that is filled in on the way."""

    engine: Engine
    plan: GaussianPlan
    grid: OperatorGrid
    laws: tuple[tuple[LawMeans, ...], ...]
    natural: dict[str, float] = field(default_factory=dict)  # by mean, how large it would be if nothing cancelled

    def groups(self, kernels: Kernels, place: int) -> tuple[Group, ...]:
        own = self.plan.paths.ensembles[place].noises
        return tuple(group for group in groups_of(self.plan.paths.covariances, kernels, whole=True) if group.noises[0] in own)

    def refresh(self, kernels: Kernels, rows: slice, acting: bool) -> list[dict[str, tuple[Array, Array | None]]]:
        """Return, by ensemble, the rows of all means that act back, or of those that do not, and their columns."""
        made = []
        for place, (paths, law) in enumerate(zip(self.plan.paths.ensembles, self.plan.laws, strict=True)):
            groups = self.groups(kernels, place)
            chosen = [(mean, pairs) for mean, pairs in zip(paths.means, law.pairs, strict=True) if mean.acts == acting]
            wanted = frozenset(factor for _, pairs in chosen for pair in pairs for factor in pair)
            total: dict[str, Any] = {}
            for item in self.laws[place]:
                if acting:
                    item.law.advance(kernels, rows)
                item.read(kernels, groups, rows, wanted)
                for mean, pairs in chosen:
                    self.natural[mean.name] = max(self.natural.get(mean.name, 0.0), _natural(item, mean, pairs, kernels))
                    part, columns = _mean(item, mean, pairs, kernels, rows)
                    weight, (known, beside) = item.law.condition.weight, total.get(mean.name, (0.0, 0.0))
                    total[mean.name] = known + weight * part, None if columns is None else beside + weight * columns
            made.append(total)
        return made


def _natural(item: LawMeans, mean: MeanPlan, pairs: tuple[tuple[int, int], ...], kernels: Kernels) -> float:
    """Return how large a mean would be if nothing cancelled."""
    if mean.kind == "one":
        return float(item.magnitude[pairs[0][0]].max(initial=0.0))
    if mean.kind == "response":
        return 0.0
    total = 0.0
    for outer, pair in zip(mean.outers, pairs, strict=True):
        size = math.prod(math.sqrt(float(item.power[factor].max(initial=0.0))) for factor in pair)
        total += size * (1.0 if outer is None else float(np.abs(kernels.pointwise(outer)).max()))
    return total


def _mean(
    item: LawMeans, mean: MeanPlan, pairs: tuple[tuple[int, int], ...], kernels: Kernels, rows: slice
) -> tuple[Array, Array | None]:
    """Return a mean on rows, up to the last of them, and of a table the columns above."""
    if mean.kind == "one":
        return item.mean[pairs[0][0], rows].copy(), None
    stop, before = rows.stop, slice(0, rows.start)
    if mean.kind == "response":
        return _response(item, mean, pairs, kernels, rows), None
    total, columns = np.zeros((stop - rows.start, stop)), np.zeros((rows.start, stop - rows.start))
    for outer, (left, right) in zip(mean.outers, pairs, strict=True):
        first = item.pairs(left, right, rows)
        second = (first if left == right else item.pairs(right, left, rows))[:, before].T
        if outer is not None:
            factor = np.broadcast_to(kernels.pointwise(outer), (kernels.grid.size,) * 2)
            first, second = first * factor[rows, :stop], second * factor[before, rows]
        total, columns = total + first, columns + second
    return total, columns


def _response(item: LawMeans, mean: MeanPlan, pairs: tuple[tuple[int, int], ...], kernels: Kernels, rows: slice) -> Array:
    """Return E[a(t) ∂output(t)/∂noise(t') b(t')] as an operator, without its part at equal times."""
    plan, law, stop = item.law.plan, item.law, rows.stop
    noise = law.drives.index(mean.noise)
    total = np.zeros((stop - rows.start, stop))
    for unknown, (slope, after) in enumerate(pairs):
        plain = item.factors[slope]
        if not plain.arguments and not item.mean[slope, :stop].any():
            continue
        response = law.noises[unknown, rows, noise, :stop].copy()
        if not plan.integrated[unknown]:
            for drive in plan.drives:
                if drive.unknown == unknown and drive.noise == mean.noise:
                    size = kernels.grid.size
                    weight = np.ones(size) if drive.coefficient is None else kernels.vector(drive.coefficient)
                    response[:, rows] -= np.diag(weight[rows])
        total += item.pairs(slope, after, rows) * response
    (outer,) = mean.outers
    if outer is None:
        return total
    return np.asarray(total * np.broadcast_to(kernels.pointwise(outer), (kernels.grid.size,) * 2)[rows, :stop])


# --- marching
def march(
    engine: Engine, plan: GaussianPlan, grid: OperatorGrid, guess: Means | None, rule: LineRule, order: int, accuracy: float
) -> LawMarch:
    """Return the solution on a grid; ``guess`` holds means on the same grid to begin with.

    ``order`` is that of Gauss rules for constants with a density, ``accuracy`` that of the means,
    and what their iteration may leave, relative to the largest value of each.
    """
    laws = tuple(
        tuple(
            LawMeans(GaussianLaw.empty(paths, law, condition, grid.size, dict(plan.paths.whites)), rule, accuracy, grid.size)
            for condition in conditions(law, paths.constants, engine.laws, order)
        )
        for paths, law in zip(plan.paths.ensembles, plan.laws, strict=True)
    )
    work, left = _Work(engine, plan, grid, laws), 0.0
    every = [mean for item in plan.paths.ensembles for mean in item.means]
    window = grid.head(1)
    means: Means = {mean.name: np.zeros((1,) if mean.kind == "one" else (1, 1)) for mean in every}
    for count, rows in enumerate(grid.blocks, start=1):
        if count > 1:
            before, window = window, grid.head(count)
            if guess is not None:
                means = {name: _spliced(means[name], guess[name], rows) for name in means}
            elif grid.panels is None:
                means = {name: np.pad(value, [(0, 1)] * value.ndim) for name, value in means.items()}
                continue_means(means, count - 1, engine.responses)
            else:
                means = extend(means, engine.responses, before, window)
        try:
            means, moved = _settle(work, window, means, rows, max(accuracy, 1e-12))
        except UnsettledError as reason:
            reason.block = count - 1
            raise
        left = max(left, moved)
        engine.work.notify(float(window.nodes[-1]), count, moved)
    kernels = engine.kernels(grid, means)
    means = dict(means) | {mean.name: np.zeros_like(means[mean.name]) for mean in every if not mean.acts}
    sizes: list[Sizes] = [Sizes({}) for _ in laws]
    for rows in grid.blocks:
        _put(means, work.refresh(kernels, rows, False), rows)
    for place, paths in enumerate(plan.paths.ensembles):
        for mean, pairs in zip(paths.means, plan.laws[place].pairs, strict=True):
            if mean.kind == "one":
                parts = [item.law.condition.weight * item.magnitude[pairs[0][0]] for item in laws[place]]
                sizes[place].sizes[mean.name] = np.sum(parts, axis=0)
    return LawMarch(grid, means, engine.kernels(grid, means), tuple(sizes), laws, plan.paths.covariances, left)


def _spliced(known: Array, guess: Array, rows: slice) -> Array:
    """Return a guess with what is known of it before the rows."""
    made = guess[(slice(0, rows.stop),) * guess.ndim].copy()
    made[(slice(0, rows.start),) * guess.ndim] = known
    return made


def _settle(work: _Work, window: OperatorGrid, means: Means, rows: slice, tolerance: float) -> tuple[Means, float]:
    """Iterate the rows of one block until they stay; return the means, and what the last step changed."""
    secants, engine, most = Secants(8), work.engine, 30  # what then still changes does not settle on so long a panel
    for count in range(1, most + 1):
        engine.work.sweeps += 1
        made = {name: value.copy() for name, value in means.items()}
        _put(made, work.refresh(engine.kernels(window, means), rows, True), rows)
        before, after = pack(engine, means), pack(engine, made)
        if not np.isfinite(after).all():
            break
        # a mean that cancels, by symmetry or nearly so, is known to rounding of what cancels, and
        # not better
        least = {name: np.full(value.shape, _CANCELS * work.natural.get(name, 0.0)) for name, value in made.items()}
        weights = 1 / np.maximum(1 / weigh(engine, window, made), pack(engine, least))
        moved = float(np.abs((after - before) * weights).max(initial=0.0))
        if moved <= tolerance or (count == most and moved <= 100 * tolerance):  # the error tells what is left
            return made, moved
        vector = secants.next(before, after, weights) if moved < 0.3 else after
        means = unpack(engine, vector, made)
    raise UnsettledError(f"the means do not settle near t = {window.nodes[-1]:.6g}")


def _put(means: Means, parts: list[dict[str, tuple[Array, Array | None]]], rows: slice) -> None:
    for total in parts:
        for name, (values, columns) in total.items():
            if values.ndim == 1:
                means[name][rows] = values
            else:
                means[name][rows, : rows.stop] = values
                if columns is not None:
                    means[name][: rows.start, rows] = columns
