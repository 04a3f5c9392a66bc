"""A solution with sampled paths: where no few modes matter, independent sets of them take the place of a sparse grid.

Every set is a scrambled Sobol sample of the modes in the order of what they do, each point with both signs. What a set asks
for is carried to the solution by the paths that it was iterated with (``Correction``), so that a sweep over many paths is
needed once or twice, not in every step of an iteration. The sets share nothing: the spread of the solutions they ask for is
the error.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Layout
from eqsolve.solvers.stochastic.control import Control
from eqsolve.solvers.stochastic.iterate import USUAL, Correction, Solved, iterate, pack, weigh
from eqsolve.solvers.stochastic.judge import Errors, Judge
from eqsolve.solvers.stochastic.means import Averages
from eqsolve.solvers.stochastic.moving import Moved, predict
from eqsolve.solvers.stochastic.sweep import Design, Engine, Means, collect, count_values, sweep

logger = logging.getLogger("eqsolve")

_APART = 1_000_003  # between the seeds of two sets
_ROUGH = 0.3  # of how far the sets are apart: what an iteration may leave where only their spread is seen
_RATE = 0.8  # at which the error of a set falls with its size: between that of chance, 0.5, and that of smooth functions, 1


@dataclass(frozen=True, eq=False)
class Sampler:
    """What moves a solution to sampled paths; ``tolerance`` is that of the iteration."""

    engine: Engine
    judge: Judge
    control: Control
    tolerance: float

    def move(self, few: Solved, design: Design, by_panels: Errors, dearest: float = math.inf) -> Moved | None:
        """Return a solution with few paths moved to the average of independent sets, each as large as the tolerance asks for.

        None where so many paths as ``dearest`` are predicted not to do.
        """
        judge, control = self.judge, self.control
        size, final, moved, most = control.probe, few, None, self._most(few)
        swept: list[tuple[Averages, ...] | None] = [None] * control.sets
        for number in range(1, control.checks + 1):
            swept = self._sweep(final, design, size, swept)
            last, (final, ends) = final, self._carry(few, final, swept)
            curves = judge.curves(final)
            change = judge.change(curves, final.grid, last.means)
            spread = _standard_error([judge.change(curves, final.grid, means) for means in ends])
            by_chance = judge.spread(curves, [spread])
            errors = judge.spread(curves, [{name: value + control.hope * change[name] for name, value in spread.items()}])
            chance, worst, by_time = (judge.worst(curves, item) for item in (by_chance, errors, by_panels))
            logger.info("points: %d sets of %d sampled paths, error %.2g of the tolerance", control.sets, size, worst)
            needed = predict([(size, chance)], max(1.0 - by_time, control.share), _RATE)
            if number == 1 and control.sets * needed > dearest:
                return None
            moved = Moved(final, errors, (last.means,))
            if worst + by_time <= 1.0:
                break
            if chance > max(1.0 - by_time, control.share):
                if size >= most:
                    break
                size, swept = min(2 ** math.ceil(math.log2(needed)), most), [None] * control.sets
        return moved

    def _most(self, few: Solved) -> int:
        """Return how many paths a set may have for every value of the constants: more where there are few nodes."""
        quick = min(self.control.quick / few.grid.size**3, self.control.huge / count_values(self.engine))
        return max(self.control.most_sample, 2 ** int(math.log2(max(quick, 1.0))))

    def _sweep(
        self, final: Solved, design: Design, size: int, before: Sequence[tuple[Averages, ...] | None]
    ) -> list[tuple[Averages, ...] | None]:
        """Return every set's averages at a solution; those of before keep their points."""
        layouts = tuple(Layout("sample") if item.kind == "sparse" else item for item in final.layouts)
        made: list[tuple[Averages, ...] | None] = []
        for number, previous in enumerate(before, start=1):
            level = replace(design.level, most=size, seed=design.level.seed + _APART * number, twist=0)
            made.append(sweep(self.engine, final.grid, final.means, Design(level, layouts, design.shapes), previous))
        return made

    def _carry(self, few: Solved, final: Solved, swept: Sequence[tuple[Averages, ...] | None]) -> tuple[Solved, list[Means]]:
        """Return the solution that the average of all sets asks for, and the means that each of them does."""
        engine, grid, design = self.engine, final.grid, Design(few.averages[0].choice.level)
        own = collect(sweep(engine, grid, final.means, design, few.averages))
        every = [collect(item) for item in swept if item is not None]
        centre = {name: np.mean([made[name] for made in every], axis=0) for name in own}
        weights = weigh(engine, grid, centre)
        apart = [pack(engine, made) - pack(engine, centre) for made in every]
        rough = max(_ROUGH * max(float(np.abs(item * weights).max(initial=0.0)) for item in apart), self.tolerance)

        def solve(asked: Means, begin: Means, tolerance: float) -> Means:
            correction = Correction(few.averages, {name: value - own[name] for name, value in asked.items()})
            return iterate(engine, grid, begin, design, tolerance, few.how, correction).means

        means = solve(centre, final.means, self.tolerance)
        moved = replace(final, means=means, kernels=engine.kernels(grid, means), left=USUAL.leaves * final.left)
        return moved, [solve(made, means, rough) for made in every]


def _standard_error(changes: Sequence[Errors]) -> Errors:
    """Return the standard error of an average over sets, from how far each is from it."""
    count = len(changes)

    def root(values: list[Array]) -> Array:
        return np.asarray(np.sqrt(np.sum(np.square(values), axis=0) / (count * (count - 1))))

    return {name: root([item[name] for item in changes]) for name in changes[0]}
