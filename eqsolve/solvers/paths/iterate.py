"""Sweeps iterated to a fixed point of the means, and the start that grows the window.

The paths' answer to a change of the means is approximated by what their mean responses make of the
changed covariances and memory kernels; (1 − that) is inverted by a Krylov method that never touches
a path. What this leaves is combined by Anderson acceleration (Walker & Ni, SIAM J. Numer. Anal. 49,
1715 (2011), doi:10.1137/10078356X).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array, Packing
from eqsolve.numerics.gaussian import Level, PointLayout
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.secants import Secants, solve_krylov
from eqsolve.solvers.paths.checkpointing import as_checkpoint_step
from eqsolve.solvers.paths.means import Averages, react
from eqsolve.solvers.paths.modes import Group
from eqsolve.solvers.paths.sweep import Design, Engine, Kept, Means, Shapes, collect, guess, sweep
from eqsolve.solvers.paths.transfer import extend


@dataclass(frozen=True)
class IterationControls:
    """When an iteration is trusted, changed and ended. Residuals are relative to the largest value of each mean."""

    most: int = 60  # sweeps, at most
    choose: tuple[float, ...] = (0.3, 1e-2)  # residuals at which modes and points are chosen anew
    # residual above which past steps and long steps by mean responses are not used: the map is not
    # linear on that scale
    far: float = 0.5
    stretch: float = 3.0  # longest step by mean responses there, relative to the residual
    trust: bool = True  # whether to begin with mean responses
    # sweeps that may fail to reduce the residual by ``fall`` before mean responses are given up,
    # and sampled paths altogether
    stalled: int = 8
    fall: float = 0.7
    depth: int = 5  # of past steps with mean responses
    plain_depth: int = 20  # and without
    krylov: int = 25  # most steps of the Krylov method
    accuracy: float = 0.1  # residual that it may leave: a sweep follows anyway
    # relative change of the means for differences of kernels: linear to the accuracy of the Krylov
    # method, and above rounding where long responses amplify it
    difference: float = 1e-3
    leaves: float = 0.2  # least share of a residual that a sweep is taken to leave
    back: float = 0.2  # part of a step that is taken again when a sweep fails after it


DEFAULT_ITERATION = IterationControls()
_TOGETHER = 12  # sweeps over a window that several panels were added to, before fewer are tried
_ALONE = 25  # sweeps over a window with one more panel


@dataclass(frozen=True, eq=False)
class PathSolution:
    """Converged means on a grid, with the kernels they give, the paths behind them, and how the map reacts.

    ``residual`` is what the iteration would still change, relative to the largest value of a mean;
    ``trusting`` whether mean responses helped to the end, ``stalled`` whether nothing did.
    """

    grid: OperatorGrid
    means: Means
    kernels: Kernels
    averages: tuple[Averages, ...]
    secants: Secants
    residual: float
    trusting: bool = True
    stalled: bool = False

    @property
    def controls(self) -> IterationControls:
        """Settings to go on from here: without mean responses if they did not help."""
        return replace(DEFAULT_ITERATION, trust=self.trusting)

    @property
    def shapes(self) -> Shapes | None:
        """How responses vary, as modes were chosen by it; None where they were not."""
        known = [item.choice.shapes for item in self.averages]
        return None if None in known else tuple([*item] for item in known if item is not None)

    @property
    def layouts(self) -> tuple[PointLayout, ...]:
        return tuple(item.choice.layout for item in self.averages)

    @property
    def is_sampled(self) -> bool:
        return any(layout.kind == "sample" for layout in self.layouts)

    @property
    def paths(self) -> int:
        return sum(len(item.choice.points.weights) for item in self.averages)


@dataclass(frozen=True, eq=False)
class Correction:
    """Defect correction: paths of a coarse set, and fine means minus coarse ones.

    With the difference of a sweep with many points and one with few, both at the same means, few
    points have the solution of many up to how their responses differ (the full approximation scheme
    of multigrid: Brandt, Math. Comp. 31, 333 (1977), doi:10.1090/S0025-5718-1977-0431719-X).
    """

    averages: tuple[Averages | Kept, ...]
    means: Means


# --- means as one vector
def pack(engine: Engine, means: Means) -> Array:
    """Return all means that act back in one vector."""
    return _packing(engine, means).pack(means)


def unpack(engine: Engine, vector: Array, like: Means) -> Means:
    """Return means with those that act back taken from a vector."""
    return {**like, **_packing(engine, like).unpack(vector)}


def _packing(engine: Engine, means: Means) -> Packing:
    return Packing(means, [name for name in means if name in engine.fed])


def weigh(engine: Engine, grid: OperatorGrid, means: Means) -> Array:
    """Return for every entry of a packed vector one over its size: the largest value of its mean.

    A mean that vanishes but for rounding is compared with the largest of all means. Entries of a
    response are integrals over panels: that over a short one is compared with its length times the
    largest kernel, so that early times are known as well as late ones.
    """
    largest = max((float(np.abs(value).max()) for value in means.values()), default=1.0)
    floor = max(1e-10 * largest, 1e-12)
    sizes = {name: np.full(value.shape, max(float(np.abs(value).max()), floor)) for name, value in means.items()}
    lengths = grid.integration[-1]
    lengths = np.maximum(lengths, lengths[lengths > 0].min(initial=np.inf)) if (lengths > 0).any() else np.ones(grid.size)
    for name in engine.responses:
        shares = lengths * float((np.abs(means[name]) / lengths).max())
        sizes[name] = np.minimum(sizes[name], np.maximum(shares, floor))
    return pack(engine, {name: 1 / size for name, size in sizes.items()})


def improve(
    engine: Engine, means: Means, residual: Array, averages: Sequence[Averages], weights: Array,
    controls: IterationControls = DEFAULT_ITERATION,
) -> Array:  # fmt: skip
    """Return the change of the means that a residual asks for, the paths' responses replaced by their means."""
    reacting = [item for item in averages if item.reacts]
    if not reacting:
        return residual
    kernels = reacting[0].paths.kernels
    before = engine.groups(kernels)
    packed = pack(engine, means)

    def remainder(change: Array) -> Array:
        scale = controls.difference / max(float(np.abs(change * weights).max()), 1e-300)
        moved = engine.kernels(kernels.grid, unpack(engine, packed + scale * change, means))
        changes: list[tuple[Group, Array]] = [
            (new, new.covariance - old.covariance) for old, new in zip(before, engine.groups(moved), strict=True)
        ]
        made = {name: np.zeros_like(value) for name, value in means.items()}
        for item in reacting:
            made |= react(item, moved, changes)
        return change - pack(engine, {name: made[name] for name in means}) / scale

    return solve_krylov(remainder, residual, weights, most=controls.krylov, tolerance=controls.accuracy)


@as_checkpoint_step(PathSolution)
def iterate(
    engine: Engine, grid: OperatorGrid, means: Means, design: Design, tolerance: float,
    controls: IterationControls = DEFAULT_ITERATION, correction: Correction | None = None,
    kept: tuple[Kept, ...] | None = None, moved: Callable[[OperatorGrid, Means, Means], float] | None = None,
) -> PathSolution:  # fmt: skip
    """Sweep until nothing changes. Modes and points are chosen at first, and again nearer the solution.

    With a ``correction`` they are those of its paths, with ``kept`` ones these. ``moved`` gives the
    distance of two means, by default the largest relative change of all.
    """
    averages: Sequence[Averages | Kept] | None = kept if correction is None else correction.averages
    secants: Secants | None = None
    again = [] if correction or kept else list(controls.choose)
    left = remains = best = np.inf
    stalled, trusting = 0, controls.trust
    good: Array | None = None
    for count in range(1, controls.most + 1):
        try:
            swept = sweep(engine, grid, means, design, averages)
        except SolverError:
            if good is None or np.array_equal(good, pack(engine, means)):
                raise
            means = unpack(engine, good + controls.back * (pack(engine, means) - good), means)
            secants = Secants(controls.depth)
            continue
        averages, made = swept, collect(swept)
        if correction is not None:
            made = {name: value + correction.means[name] for name, value in made.items()}
        weights = weigh(engine, grid, made)
        before, after = pack(engine, means), pack(engine, made)
        residual = float(np.abs((after - before) * weights).max(initial=0.0))
        if not math.isfinite(residual):
            raise SolverError("the iteration over the means does not stay finite")
        if secants is None:
            reacting = trusting and any(item.reacts for item in swept)
            secants = Secants(controls.depth if reacting else controls.plain_depth)
        again = [entry for entry in again if entry < residual] if count == 1 else again
        anew = count > 1 and bool(again) and residual < again[0]
        if anew:
            again = [entry for entry in again if entry < residual]
            secants.interrupt()
        stalled = stalled + 1 if controls.fall * best <= residual < controls.far and trusting else 0
        best = min(best, residual)
        if stalled >= controls.stalled and moved is None:
            logger.info("mean responses do not reduce the residual (%.2g): left out", residual)
            trusting, secants = False, Secants(controls.plain_depth)
        image = after
        if trusting:
            image = before + improve(engine, means, after - before, swept, weights, controls)
        if residual > 0.2 * controls.far and float(np.abs((image - before) * weights).max()) > controls.stretch * residual:
            image = after
        vector = secants.next(before, image, weights) if residual < controls.far else image
        last, left = left, max(residual, float(np.abs((vector - before) * weights).max(initial=0.0)))
        remains = left * min(1.0, max(left / last, controls.leaves)) if 0 < last < np.inf else left
        good, old, means = before, means, unpack(engine, vector, made)
        if moved is not None:
            remains = controls.leaves * moved(grid, old, means)
        engine.work.notify(float(grid.nodes[-1]), count, left)
        # means that do not act back are still those before this step: two sweeps tell how far it
        # moves them
        if remains <= tolerance and not anew and (moved is None or count > 1 or left <= tolerance):
            break
        if anew:
            averages = None
        if stalled >= controls.stalled and moved is not None:
            break
    else:
        if remains > 10 * tolerance:
            logger.info("the iteration has not converged: residual %.2g after %d sweeps (tolerance %.2g)",
                        remains, controls.most, tolerance)  # fmt: skip
    assert secants is not None
    secants.interrupt()
    return PathSolution(
        grid, means, engine.kernels(grid, means), swept, secants, remains, trusting, stalled >= controls.stalled
    )


def start(engine: Engine, grid: OperatorGrid, level: Level, tolerance: float = 1e-2) -> PathSolution:
    """Grow the window from the first panels to the whole time; few points, loose tolerance.

    Where it does not settle it grows by fewer panels.
    """
    blocks, done = min(4, len(grid.blocks)), 0
    reach = len(grid.blocks)
    solved: PathSolution | None = None
    while True:
        window, alone = grid.head(blocks), blocks - done <= 1
        means = guess(engine, window, level) if solved is None else extend(solved.means, engine.responses, solved.grid, window)
        try:
            found = iterate(
                engine, window, means, Design(level), tolerance, IterationControls(most=_ALONE if alone else _TOGETHER)
            )
            if found.residual > 10 * tolerance:
                raise SolverError("the iteration over the means does not settle")
        except SolverError:
            if alone or blocks < 2:
                raise
            reach = max(1, (blocks - done) // 2)
            blocks = done + reach
            continue
        solved = found
        if blocks == len(grid.blocks):
            return solved
        growth = max(2, blocks // (6 if grid.panels else 3))
        done, blocks, reach = blocks, min(len(grid.blocks), blocks + min(growth, reach)), 2 * reach
