"""Rough solutions over the whole time, to begin with: the first panels, a growing window, a march, and a coarser grid."""

import contextlib
import functools
import math
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.gaussian import Level, make_level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.error_control import ErrorControl
from eqsolve.solvers.paths.iterate import PathSolution, start, sweep_once
from eqsolve.solvers.paths.self_consistent import self_consistent_start
from eqsolve.solvers.paths.sweep import Design, Engine, count_values, rate
from eqsolve.solvers.paths.transfer import transfer


@dataclass(frozen=True, eq=False)
class Starts:
    """What makes rough solutions of one system; ``time`` is that of the start, ``order`` that of panels."""

    engine: Engine
    judge: ErrorControl
    options: Options
    control: PathsControls
    time: float
    order: int

    def level(self, accuracy: float) -> Level:
        """Return the points for an accuracy; for paths with kinks a small sample."""
        level = make_level(accuracy, self.options.seed)
        return replace(level, most=self.control.probe) if any(plan.kinked for plan in self.engine.ensembles) else level

    def window(self) -> PathSolution:
        """Return a rough solution over the whole time."""
        options = self.options
        if options.step is not None:
            grid = OperatorGrid.discrete(options.step, self.time, options.t_max)
        else:
            grid = OperatorGrid.from_panels(self.first_panels())
        return self.begin(grid)

    @functools.cached_property
    def rate(self) -> float:
        """How fast paths move at the start."""
        return rate(self.engine, self.time, self.level(1e-2))

    def first_panels(self, growth: float | None = None) -> PanelGrid:
        """Return geometric panels whose first length follows from how fast paths move at the start."""
        span = self.options.t_max - self.time
        first = min(self.control.first / max(self.rate, 1e-12), span / 4)
        return PanelGrid.geometric(self.time, self.options.t_max, first, growth or self.control.growth, self.order,
                                   self.options.breaks)  # fmt: skip

    def more_slowly(self, grid: OperatorGrid, growth: float | None = None) -> OperatorGrid:
        """Return first panels that grow more slowly, where a grid has panels."""
        growth = growth or math.sqrt(self.control.growth)
        return grid if grid.panels is None else OperatorGrid.from_panels(self.first_panels(growth))

    def begin(self, grid: OperatorGrid) -> PathSolution:
        """Return a start by a growing window with few points; by a march where these give none."""
        try:
            return start(self.engine, grid, self.level(1e-2))
        except SolverError:
            logger.info("paths: the sparse grid gives no start; continuing with sampled paths")
            return self.march(self.more_slowly(grid))

    def march(self, grid: OperatorGrid) -> PathSolution:
        """Return a start by a self-consistent ensemble, else by samples on a growing window."""
        rough = self.level(1e-2)
        level = self.sampled(rough)
        try:
            means = self_consistent_start(self.engine, grid, rough, self.options.seed)
            begun = sweep_once(self.engine, grid, means, Design(level))
        except SolverError as reason:
            logger.info("paths: the start by a self-consistent ensemble failed (%s)", reason)
            return start(self.engine, grid, level)
        logger.info("time grid: a start on %d nodes by a self-consistent ensemble", grid.size)
        return begun

    def sampled(self, level: Level) -> Level:
        """Return a level at which few paths are sampled, for every value of the constants."""
        return replace(level, accuracy=0.0, most=max(self.control.probe // 8, self.control.probe // count_values(self.engine)))

    def coarsened(self, begun: PathSolution) -> PathSolution:
        """Return a rough solution on longer panels where its functions of time are quiet: half as long as these allow."""
        if begun.grid.panels is None:
            return begun
        wanted = 2.0 * self.judge.resolution(self.judge.curves(begun), begun.grid.panels)
        if (wanted >= 1.0).all():
            return begun
        grid = OperatorGrid.from_panels(begun.grid.panels.denser(np.clip(wanted, self.control.growth**-2, 1.0)))
        level = begun.averages[0].choice.level
        for again in (False, True):
            with contextlib.suppress(SolverError):
                if again:
                    means = self_consistent_start(self.engine, grid, level, self.options.seed)
                else:
                    means = transfer(begun.means, self.engine.responses, begun.grid, grid)
                found = sweep_once(self.engine, grid, means, Design(level))
                logger.info("time grid: coarsened to %d nodes by the Legendre tails on %d", grid.size, begun.grid.size)
                return found
        return begun
