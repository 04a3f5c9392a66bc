"""A small ensemble of randomised quasi-Monte Carlo paths: its fixed point, its panels, and how sets of paths are swept.

About a thousand scrambled Sobol points in all modes (Owen, J. Complexity 14, 466 (1998),
doi:10.1006/jcom.1998.0487) are iterated to their own fixed point x = F_small(x), and choose the
panels: on other panels points along the same modes are kept, so that sampling errors cancel from
the difference. ``large_ensembles`` moves the solution to the average of larger sets.
"""

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import like_array
from eqsolve.numerics.gaussian import Level, PointLayout, make_level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.cluster import Piece
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import EnsembleControls, NestedStepControls
from eqsolve.solvers.paths.error_control import ErrorControl, Errors, margin_of, standard_error
from eqsolve.solvers.paths.iterate import Correction, IterationControls, PathSolution, improve, iterate, pack, unpack, weigh
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.modes import Choice
from eqsolve.solvers.paths.nested_steps import on_coarser
from eqsolve.solvers.paths.self_consistent import self_consistent_start
from eqsolve.solvers.paths.sweep import (
    Design,
    Engine,
    Kept,
    Means,
    Work,
    collect,
    count_values,
    report,
    sweep,
    sweep_large,
    variation,
)
from eqsolve.solvers.paths.transfer import move_shapes, transfer
from eqsolve.solvers.threads import in_order

_SINGLE = PointLayout("single")
APART = 1_000_003  # between the seeds of two ensembles

ByGrid = Callable[[Sequence[PathSolution]], Errors]
"""The error of the time grid, from solutions on one grid or on several."""

Swept = tuple[list[Means], tuple[Kept, ...]]
"""The means of a set on every grid, and its points and paths on the first, for the next sweep."""


@dataclass(frozen=True, eq=False)
class Ensembles:
    """Solves a system by sampled paths, from a rough solution on."""

    engine: Engine
    judge: ErrorControl
    control: EnsembleControls
    seed: int
    rtol: float

    @functools.cached_property
    def steps(self) -> NestedStepControls:
        """Settings of steps in time.

        A jump is replaced by a ramp as wide as a step: steps are then solved one at a time, so that
        Newton's method converges; paths that are held on a ramp have errors of first order.
        """
        plans = self.engine.ensembles
        if any(plan.held for plan in plans):
            return NestedStepControls(order=1, share=0.6, together=False, enough=0.7)
        return NestedStepControls(together=not any(plan.jumping for plan in plans))

    # --- the small ensemble
    def begin(self, rough: PathSolution) -> PathSolution:
        """Return the fixed point of the small ensemble on the grid of a rough solution.

        Modes are chosen twice: by the responses of the rough paths, then by those of the ensemble
        itself.
        """
        control = self.control
        shapes = variation(rough.averages)
        design = Design(self.level(control.small, self.seed), self.layouts(rough), shapes)
        first = self.iterate(rough.grid, rough.means, design, control.rough)
        if first.residual > self.rtol and first.stalled:
            return first
        design = replace(design, shapes=variation(first.averages), by_value=variation(first.averages, by_value=True))
        return self.iterate(rough.grid, first.means, design, control.stop)

    def iterate(
        self, grid: OperatorGrid, means: Means, design: Design, stop: float, correction: Correction | None = None,
        kept: tuple[Kept, ...] | None = None,
    ) -> PathSolution:  # fmt: skip
        """Iterate with given points until the controlled outputs move by less than so many tolerances."""
        controls = IterationControls(most=self.control.sweeps, choose=(), far=math.inf)
        return iterate(self.engine, grid, means, design, stop * self.rtol, controls, correction, kept, self._moved)

    def _moved(self, grid: OperatorGrid, old: Means, new: Means) -> float:
        """Return the relative change of the controlled outputs."""
        curves = self.judge.curves_of_means(grid, old, whole=False)
        return self.rtol * self.judge.change_in_tolerances(curves, grid, new)

    def compare(self, rough: PathSolution, means: Means, others: Means) -> tuple[float, float, float]:
        """Return distances of controlled outputs at a rough solution, to first order, in tolerances.

        Of small ensembles from ``means``, of one of them from their average, and of ``means`` from
        ``others``.
        """
        swept, (first, _), centre = self._small_samples(rough, 2, self.control.small)
        moved = self.tolerances_moved(rough, swept, follow=True)
        apart = moved({name: centre[name] - means[name] for name in rough.means})
        alone = moved({name: others[name] - means[name] for name in rough.means})
        return apart, moved({name: first[name] - centre[name] for name in rough.means}), alone

    def unexplained_difference(self, solved: PathSolution, errors: Errors, work: float) -> Errors:
        """Return how far small ensembles are from a solution, less its errors, where not by chance.

        Nothing where they scatter by more than the tolerance. They have fewer paths where their
        tangents would take more than ``work`` operations.
        """
        sets, curves, means = self.control.sets, self.judge.curves(solved), solved.means
        paths = round(min(self.control.small, 3 * work / (sets * solved.grid.size**3)))
        swept, found, centre = self._small_samples(solved, sets, paths)
        move = self.first_order_solver(solved, swept)

        def moved(here: Means, there: Means) -> Errors:
            return self.judge.curve_changes(curves, solved.grid, move({name: here[name] - there[name] for name in means}))

        chance = standard_error([moved(item, centre) for item in found], np.ones(sets))
        if self.judge.worst(curves, chance) > self.control.clear:  # they cannot tell the tolerance
            return {}
        sure = self.control.clear * margin_of(sets)
        return {
            name: np.where(value > errors[name] + sure * chance[name], value - errors[name], 0.0)
            for name, value in moved(centre, means).items()
            if name in errors
        }

    def _small_samples(self, solved: PathSolution, sets: int, paths: int) -> tuple[tuple[Averages, ...], list[Means], Means]:
        """Return the first of some independent samples swept at a solution, their means, and the average."""
        swept = [sweep(self.engine, solved.grid, solved.means, design) for design in self._designs(solved, paths, sets)]
        found = [collect(item) for item in swept]
        centre = {name: np.mean([item[name] for item in found], axis=0) for name in solved.means}
        return swept[0], found, centre

    def _designs(self, solved: PathSolution, paths: int, sets: int) -> list[Design]:
        """Return how to draw some independent samples of so many paths."""
        known = Design(solved.averages[0].choice.level, self.layouts(solved), variation(solved.averages))
        return [replace(known, level=self.level(paths, self.seed + APART * number)) for number in range(1, sets + 1)]

    def tolerances_moved(
        self, solved: PathSolution, swept: tuple[Averages, ...], *, follow: bool = False
    ) -> Callable[[Means], float]:
        """Return a function from a change τ (see ``first_order_solver``) to that of outputs, in tolerances."""
        curves, move = self.judge.curves(solved), self.first_order_solver(solved, swept, follow=follow)
        return lambda change: self.judge.change_in_tolerances(curves, solved.grid, move(change))

    def first_order_solver(
        self, solved: PathSolution, swept: tuple[Averages, ...], *, follow: bool = True
    ) -> Callable[[Means], Means]:
        """Return a function from τ to the solution of x = F(x) + τ to first order; F averages paths.

        Means that act back are x + (1 − ∂F)⁻¹ τ, with ∂F by mean responses. The others are those of
        paths swept at these if paths are to ``follow``, else x + τ.
        """
        engine, means, grid = self.engine, solved.means, solved.grid
        packed, weights = pack(engine, means), weigh(engine, grid, means)
        look = functools.partial(report, engine, grid, design=Design(swept[0].choice.level), previous=swept)
        base = look(means) if follow else {}

        def move(change: Means) -> Means:
            step = improve(engine, means, pack(engine, change), swept, weights)
            moved = unpack(engine, packed + step, {name: means[name] + value for name, value in change.items()})
            after = look(moved) if follow else {}
            return moved | {name: moved[name] + value - base[name] for name, value in after.items()}

        return move

    def suffices(self, chance: float, nodes: float) -> bool:
        """Whether large ensembles can do, where two small ones differ by ``chance`` tolerances."""
        control = self.control
        paths = control.small * (control.safety * margin_of(control.sets) * chance) ** (1 / control.rate)
        return paths * nodes**2 * (nodes + control.following) < control.cost

    def level(self, paths: int, seed: int, density: int = 0) -> Level:
        """Return a level of so many paths in all, as many for every combination of atoms and parts of the constants."""
        level = replace(make_level(self.rtol, seed), density=density)
        return replace(level, most=2 ** max(4, round(math.log2(paths / count_values(self.engine, level.constants)))))

    def layouts(self, solved: PathSolution) -> tuple[PointLayout, ...]:
        return tuple(item if item.kind == "cubic" else _SINGLE for item in solved.layouts)

    # --- panels
    def settle_panels(self, solved: PathSolution) -> tuple[tuple[PathSolution, ...], ByGrid]:
        """Return the small ensemble's solution on panels that are dense enough, and what tells the error of the panels.

        First coarser panels take their place while their error allows it; then panels are refined,
        and compared with those before. Where they differ by too much in the end, the solution on
        the coarser ones is returned too, for large ensembles to tell the error of the panels.
        """
        control, judge, worst, dense = self.control, self.judge, 0.0, solved
        while True:
            panels = dense.grid.panels
            assert panels is not None
            coarse = panels.denser(np.full(panels.panels, 1 / control.ratio))
            base = self._iterate_on(dense, coarse) if coarse.panels < panels.panels else None
            if base is None:
                ratios = np.full(panels.panels, control.ratio)
                base, dense = dense, self.on_panels(dense, panels.denser(ratios, keep=True))
                break
            ratios = np.full(coarse.panels, panels.panels / coarse.panels)
            worst = judge.worst(judge.curves(dense), judge.panel_differences(base, dense, ratios))
            if worst * control.ratio ** (panels.order + 1) > control.share / 2:
                break
            dense = base
        last, before = math.inf, Errors()
        for number in range(control.rounds):
            ratios = np.where(ratios > 1.0, ratios, ratios[ratios > 1.0].min(initial=2.0))
            compare = functools.partial(self._compare_panels, ratios=ratios, before=before)
            errors, curves = compare((dense, base)), judge.curves(dense)
            worst = judge.worst(curves, errors)
            logger.info("time grid: %d nodes, followed by %d paths; its error is %.2g times the tolerance",
                        dense.grid.size, dense.paths, worst)  # fmt: skip
            if worst > max(control.stuck * last, control.share):
                errors = compare(self._moved_by_others((dense, base)))
                if judge.worst(curves, errors) <= control.stuck * worst:
                    break  # what differs is not of the panels: denser ones gain nothing
            enough = worst <= max(control.share, dense.residual / self.rtol) or number == control.rounds - 1
            if enough or judge.options.is_short_of_time():
                break
            last, before = worst, errors
            wanted = judge.ratios(curves, errors, dense.grid, control.aim * control.share)
            ratios = np.where(wanted > 1.0, np.clip(wanted, control.ratio, 2.0), 1.0)  # where the error is, and only there
            assert dense.grid.panels is not None
            base, dense = self._with_all_modes(dense, self.on_panels(dense, dense.grid.panels.denser(ratios, keep=True)))
        if worst <= control.share:
            return (dense,), lambda levels: errors
        return (dense, base), compare

    def _compare_panels(self, levels: Sequence[PathSolution], ratios: Array, before: Errors) -> Errors:
        dense, base = levels
        return self.judge.keep_errors(self.judge.panel_differences(base, dense, ratios), before, base, dense)

    def _moved_by_others(self, levels: Sequence[PathSolution]) -> list[PathSolution]:
        """Return solutions moved to the average of other small samples: what differs by chance is half as much."""
        sets, moved = self.control.sets, []
        designs = self._designs(levels[0], self.control.small, sets)
        means, _ = sweep_sets(self.engine, levels, designs, [None] * sets, self.judge.options, "other samples")
        for place, item in enumerate(levels):
            change = {name: np.mean([own[place][name] - value for own in means], axis=0) for name, value in item.means.items()}
            after = self.first_order_solver(item, item.averages, follow=False)(change)
            moved.append(replace(item, means=after, kernels=self.engine.kernels(item.grid, after)))
        return moved

    def _with_all_modes(self, base: PathSolution, dense: PathSolution) -> tuple[PathSolution, PathSolution]:
        """Return the solutions on coarse and dense panels by points along all modes on the latter.

        Those along the modes on few nodes leave out what a rough noise does between them.
        """
        shapes, by_value = (variation(dense.averages, by_value=kind) for kind in (False, True))
        design = Design(dense.averages[0].choice.level, self.layouts(dense), shapes, by_value)
        with contextlib.suppress(SolverError):
            anew = self.iterate(dense.grid, dense.means, design, self.control.stop)
            assert base.grid.panels is not None
            if anew.residual <= self.rtol and (again := self._iterate_on(anew, base.grid.panels)) is not None:
                return again, anew
        return base, dense

    def on_panels(self, solved: PathSolution, panels: PanelGrid) -> PathSolution:
        """Return the solution on other panels, with the same points along the same modes."""
        near = self._iterate_on(solved, panels)
        if near is not None:
            return near
        # from rough panels interpolated means may be far from a solution: start again
        grid, level = OperatorGrid.from_panels(panels), solved.averages[0].choice.level
        try:
            means = self_consistent_start(self.engine, grid, level, self.seed)
        except SolverError as reason:
            logger.info("paths: no restart on the new grid (%s); iterating from interpolated means", reason)
            means = transfer(solved.means, self.engine.responses, solved.grid, grid)
        return self.iterate(grid, means, Design(level), self.control.stop, kept=points_on(self.engine, solved, grid))

    def _iterate_on(self, solved: PathSolution, panels: PanelGrid) -> PathSolution | None:
        """Return the solution on other panels, iterated from interpolated means; None where these are far from it."""
        grid, level = OperatorGrid.from_panels(panels), solved.averages[0].choice.level
        with contextlib.suppress(SolverError):
            means = transfer(solved.means, self.engine.responses, solved.grid, grid)
            # interpolated responses act alike, but have other entries than those of paths on these
            # panels
            averages = sweep(self.engine, grid, means, Design(level), points_on(self.engine, solved, grid))
            kept = tuple(Kept(item.choice, item.paths.unknowns) for item in averages)
            near = self.iterate(grid, collect(averages), Design(level), self.control.stop, kept=kept)
            if near.residual <= self.control.stop * self.rtol:
                return near
        return None

    def on_coarser_steps(self, solved: PathSolution) -> PathSolution:
        """Return the solution with twice as long steps, with the same noise."""
        grid = OperatorGrid.trapezoid(solved.grid.nodes[::2], self.steps.block)
        means = transfer(solved.means, self.engine.responses, solved.grid, grid)
        level = solved.averages[0].choice.level
        kept = [Kept(item.choice, item.paths.unknowns) for item in solved.averages]
        coarser = on_coarser(self.engine, solved.averages[0].paths.kernels, kept)
        return self.iterate(grid, means, Design(level), self.control.stop, kept=coarser)


def points_on(engine: Engine, solved: PathSolution, grid: OperatorGrid) -> tuple[Kept, ...]:
    """Return the points and modes of a solution on another grid, with its paths as a guess."""
    assert solved.grid.panels is not None
    shapes = move_shapes(solved.shapes, engine.noises, solved.grid, grid)
    kept = on_other_panels([Kept(item.choice, item.paths.unknowns) for item in solved.averages], solved.grid, grid)
    if shapes is None:
        return kept
    return tuple(replace(item, choice=replace(item.choice, shapes=own)) for item, own in zip(kept, shapes, strict=True))


def on_other_panels(kept: Sequence[Kept], old: OperatorGrid, new: OperatorGrid) -> tuple[Kept, ...]:
    """Return the points and modes of paths on other panels, and the paths interpolated as a guess."""
    assert old.panels is not None
    forward, made = old.panels.interpolation(new.nodes), []
    for item in kept:
        factors = tuple(
            np.vstack([forward @ part for part in np.split(factor, len(factor) // old.size)]) for factor in item.choice.factors
        )
        choice: Choice = replace(item.choice, factors=factors, shapes=None)
        made.append(Kept(choice, like_array(item.unknowns, forward) @ item.unknowns))
    return tuple(made)


def sweep_sets(
    engine: Engine, solved: Sequence[PathSolution], designs: Sequence[Design],
    before: Sequence[Piece | None], options: Options, text: str,
) -> tuple[list[list[Means]], list[Piece]]:  # fmt: skip
    """Return the means of every set, and what the next sweep of the same points begins with.

    ``solved`` are solutions on one grid, or on several with the same noise.
    """
    alone, cluster = replace(engine, work=Work()), engine.work.cluster
    levels = [
        (item.grid, item.means, [(own.noise_responses, own.constant_responses) for own in item.averages]) for item in solved
    ]
    pieces = [
        cluster.piece(sweep_set, alone, levels, design, after=[] if item is None else [item])
        for design, item in zip(designs, before, strict=True)
    ]

    def finish(piece: Piece) -> list[Means]:
        made: list[Means] = cluster.piece(operator.itemgetter(0), after=[piece]).result()
        return made

    # a card follows one set while the processor makes the points of the others
    threads = len(pieces) if engine.is_on_card(solved[0].grid.size, designs[0].level.most) else 1
    means = list(in_order(finish, pieces, threads, lambda place: options.report_share(0.5, f"{text}: number {place + 1}")))
    engine.work.sweeps += len(designs) * len(levels)
    return means, pieces


def sweep_set(
    engine: Engine, levels: Sequence[tuple[OperatorGrid, Means, Any]], design: Design, before: Swept | None = None
) -> Swept:
    """Return the means of one set of points on every grid, the finest first, with the same noise."""
    made: list[Means] = []
    previous, first = None if before is None else before[1], None
    for place, (grid, means, known) in enumerate(levels):
        found, kept = sweep_large(engine, grid, means, design, known, previous)
        first = first or kept
        made.append(found)
        if place + 1 < len(levels):
            if grid.panels is None:
                previous = on_coarser(engine, engine.kernels(grid, means), kept)
            else:
                previous = on_other_panels(kept, grid, levels[place + 1][0])
    assert first is not None
    return made, first
