"""Panels for solutions by few points: refined until a denser grid, then one of another order, hardly differs."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.error_control import Curves, ErrorControl, Errors
from eqsolve.solvers.paths.iterate import IterationControls, PathSolution, iterate
from eqsolve.solvers.paths.starts import Starts
from eqsolve.solvers.paths.sweep import Design, Engine, Shapes, variation
from eqsolve.solvers.paths.transfer import move_shapes, transfer
from eqsolve.solvers.paths.warm_start import WARM_ITERATION


@dataclass(frozen=True, eq=False)
class PanelRefinement:
    """What refines the panels of solutions of one system; ``keep`` is told every solution on the way, and its stage."""

    engine: Engine
    judge: ErrorControl
    options: Options
    control: PathsControls
    starts: Starts
    keep: Callable[[PathSolution, Errors | None, str], None]

    def settle(self, base: PathSolution, design: Design, ratios: Array | None = None) -> tuple[PathSolution, Errors]:
        """Return the solution with few points on panels that are dense enough, and the error of the panels."""
        assert base.grid.panels is not None
        ratios = np.full(base.grid.panels.panels, self.control.ratio) if ratios is None else ratios
        checked, errors = math.inf, Errors()
        for _ in range(self.control.rounds):
            assert base.grid.panels is not None
            dense, shapes = self.move(base, design, base.grid.panels.denser(ratios, keep=True))
            design = replace(design, shapes=shapes)
            errors = self.judge.keep_errors(self.judge.panel_differences(base, dense, ratios), errors, base, dense)
            curves = self.judge.curves(dense)
            worst = self.judge.worst(curves, errors)
            logger.info("time grid: %d nodes; compared with a coarser grid its error is %.2g times the tolerance",
                        dense.grid.size, worst)  # fmt: skip
            self.keep(dense, None, f"with {dense.grid.size} nodes")
            if self.stagnates(dense):
                break
            if worst <= self.control.share:
                coarser, errors = errors, self.check(dense, design)
                errors = self.judge.keep_errors(errors, coarser, dense, dense)  # in both orders they err alike
                worst = self.judge.worst(curves, errors)
                if worst <= self.control.share or worst > self.control.stuck * checked:
                    break  # what denser panels leave is of the points, whose modes are others on every grid
                checked = worst
            if self.options.is_short_of_time():
                break
            base, ratios = dense, self.ratios(curves, errors, dense)
        return dense, errors

    def stagnates(self, solved: PathSolution) -> bool:
        """Whether the iteration leaves so much that neither panels nor points are worth refining."""
        if solved.residual <= self.control.settled * self.options.rtol:
            return False
        logger.info(
            "the iteration stagnates at a residual of %.2g: a finer grid or more paths would not help", solved.residual
        )
        return True

    def check(self, solved: PathSolution, design: Design) -> Errors:
        """Return the error of panels by the difference to those of the next order that is allowed."""
        old = solved.grid.panels
        assert old is not None
        panels = old.of_another_order(self.control.highest, self.control.check_ratio)
        other, _ = self.move(solved, design, panels, replace(solved.controls, choose=(), most=WARM_ITERATION.most))
        errors = self.judge.panel_errors(solved, other)
        worst = self.judge.worst(self.judge.curves(solved), errors)
        logger.info("time grid: %d nodes; compared with an independent grid of %d nodes its error is %.2g times the tolerance",
                    solved.grid.size, other.grid.size, worst)  # fmt: skip
        return errors

    def ratios(self, curves: Curves, errors: Errors, solved: PathSolution) -> Array:
        """Return how much denser each panel and its neighbours should be."""
        wanted = self.judge.ratios(curves, errors, solved.grid, self.control.aim * self.control.share)
        wanted = np.maximum(wanted, np.maximum(np.append(wanted[1:], 0), np.append(0, wanted[:-1])))
        return np.clip(wanted, self.control.check_ratio, self.control.growth)

    def move(
        self, solved: PathSolution, design: Design, panels: PanelGrid, controls: IterationControls | None = None
    ) -> tuple[PathSolution, Shapes | None]:
        """Return the solution on other panels, with the same points, and what is known about responses there."""
        engine, grid = self.engine, OperatorGrid.from_panels(panels)
        means = transfer(solved.means, engine.responses, solved.grid, grid)
        shapes = move_shapes(design.shapes, engine.noises, solved.grid, grid)
        rough, found = self.control.rough * self.options.rtol, []
        with contextlib.suppress(SolverError):
            made = iterate(
                engine, grid, means, Design(design.level, solved.layouts, shapes), rough, controls or solved.controls
            )
            if made.residual <= solved.residual or not self.stagnates(made):
                return made, shapes
            found.append((made, shapes))
        try:  # from the start again, on these panels
            begin = self.starts.march if solved.is_sampled else self.starts.begin
            begun = begin(grid)
            learnt = variation(begun.averages)
            again = Design(design.level, solved.layouts, learnt)
            found.append((iterate(engine, begun.grid, begun.means, again, rough), learnt))
        except SolverError:
            if not found:
                raise
        return min(found, key=lambda pair: pair[0].residual)
