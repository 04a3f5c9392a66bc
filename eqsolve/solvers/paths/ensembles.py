"""Randomised quasi-Monte Carlo ensembles of paths, from small to large by a full approximation scheme.

A small ensemble, about a thousand scrambled Sobol points in all modes, is iterated to its own fixed
point x = F_small(x) and chooses the panels. Large ensembles are swept once or twice only: at a
solution, τ = F_large(x) − F_small(x) is added to the small problem, which is solved again with
cheap sweeps (Brandt, Math. Comp. 31, 333 (1977), doi:10.1090/S0025-5718-1977-0431719-X). They are
independent scramblings (Owen, J. Complexity 14, 466 (1998), doi:10.1006/jcom.1998.0487); how far
each alone would move the solution gives its standard error.
"""

import contextlib
import functools
import math
import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import like_array, memory
from eqsolve.numerics.gaussian import DENSITIES, Level, PointLayout, make_level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.cluster import Piece
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import EnsembleControls, NestedStepControls
from eqsolve.solvers.paths.error_control import Curves, ErrorControl, Errors, margin_of, standard_error
from eqsolve.solvers.paths.iterate import Correction, IterationControls, PathSolution, improve, iterate, pack, unpack, weigh
from eqsolve.solvers.paths.means import Averages, apply_control_variates, steps_name
from eqsolve.solvers.paths.modes import Choice
from eqsolve.solvers.paths.nested_steps import extrapolate_steps, on_coarser
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
# sweeps in which a near solution is carried to other panels (3 to 6 in `benchmarks/corners.py`), and
# the factor by which they have to lower the residual, else a new start costs less
_NEAR, _GAIN = 10, 0.1
# 10 to 100 were best with eight diagonal networks, where the strong modes' variance is 20 to 40
_RIDGES = (math.inf, 30.0, 10.0)
_APART = 1_000_003  # between the seeds of two ensembles
_SURE = 4.0  # standard errors: Student's t with 3 degrees of freedom (four sets) exceeds it in size once in 36
_FOLLOWING = 64  # nodes on which to follow a path costs as much as its tangents: 20 to 70 with three models

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
            return NestedStepControls(order=2.0, share=0.6, halved=2.0, block=1, enough=0.7)
        return NestedStepControls(block=1) if any(plan.jumping for plan in plans) else NestedStepControls()

    # --- the small ensemble
    def solve_small(self, rough: PathSolution) -> PathSolution:
        """Return the fixed point of the small ensemble on the grid of a rough solution.

        Modes are chosen twice: by the responses of the rough paths, then by those of the ensemble
        itself.
        """
        control = self.control
        shapes = variation(rough.averages)
        design = Design(self._level(control.small, self.seed), self._layouts(rough), shapes)
        first = self._iterate(rough.grid, rough.means, design, control.rough)
        if first.residual > self.rtol and first.stalled:
            return first
        design = replace(design, shapes=variation(first.averages), by_value=variation(first.averages, by_value=True))
        return self._iterate(rough.grid, first.means, design, control.stop)

    def _iterate(
        self, grid: OperatorGrid, means: Means, design: Design, stop: float, correction: Correction | None = None,
        kept: tuple[Kept, ...] | None = None, most: int | None = None,
    ) -> PathSolution:  # fmt: skip
        """Iterate with given points until the controlled outputs move by less than so many tolerances."""
        controls = IterationControls(most=most or self.control.sweeps, choose=(), far=math.inf)
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
        moved = self._carrier(rough, swept, follow=True)
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
        move = self._mover(solved, swept)

        def moved(here: Means, there: Means) -> Errors:
            return self.judge.curve_changes(curves, solved.grid, move({name: here[name] - there[name] for name in means}))

        chance = standard_error([moved(item, centre) for item in found], np.ones(sets))
        if self.judge.worst(curves, chance) > self.control.clear:  # they cannot tell the tolerance
            return {}
        return {
            name: np.where(value > errors[name] + _SURE * chance[name], value - errors[name], 0.0)
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
        """Return how to draw some independent samples with ``paths`` paths each."""
        known = Design(solved.averages[0].choice.level, self._layouts(solved), variation(solved.averages))
        return [replace(known, level=self._level(paths, self.seed + _APART * number)) for number in range(1, sets + 1)]

    def _carrier(self, solved: PathSolution, swept: tuple[Averages, ...], *, follow: bool = False) -> Callable[[Means], float]:
        """Return a function from a change τ (see ``_mover``) to that of outputs, in tolerances."""
        curves, move = self.judge.curves(solved), self._mover(solved, swept, follow=follow)
        return lambda change: self.judge.change_in_tolerances(curves, solved.grid, move(change))

    def _mover(self, solved: PathSolution, swept: tuple[Averages, ...], *, follow: bool = True) -> Callable[[Means], Means]:
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
        return paths * nodes**2 * (nodes + _FOLLOWING) < control.cost

    def _level(self, paths: int, seed: int, density: int = 0) -> Level:
        """Return a level of so many paths in all, as many for every combination of atoms and parts of the constants."""
        level = replace(make_level(self.rtol, seed), density=density)
        return replace(level, most=2 ** max(4, round(math.log2(paths / count_values(self.engine, level.constants)))))

    def _layouts(self, solved: PathSolution) -> tuple[PointLayout, ...]:
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
            base = self._carry(dense, coarse) if coarse.panels < panels.panels else None
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
            wanted = judge.ratios(curves, errors, dense.grid, 0.3 * control.share)
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
            after = self._mover(item, item.averages, follow=False)(change)
            moved.append(replace(item, means=after, kernels=self.engine.kernels(item.grid, after)))
        return moved

    def _with_all_modes(self, base: PathSolution, dense: PathSolution) -> tuple[PathSolution, PathSolution]:
        """Return the solutions on coarse and dense panels by points along all modes on the latter.

        Those along the modes on few nodes leave out what a rough noise does between them.
        """
        shapes, by_value = (variation(dense.averages, by_value=kind) for kind in (False, True))
        design = Design(dense.averages[0].choice.level, self._layouts(dense), shapes, by_value)
        with contextlib.suppress(SolverError):
            anew = self._iterate(dense.grid, dense.means, design, self.control.stop)
            assert base.grid.panels is not None
            if anew.residual <= self.rtol and (again := self._carry(anew, base.grid.panels)) is not None:
                return again, anew
        return base, dense

    def on_panels(self, solved: PathSolution, panels: PanelGrid) -> PathSolution:
        """Return the solution on other panels, with the same points along the same modes."""
        near = self._carry(solved, panels)
        if near is not None:
            return near
        # from rough panels interpolated means may be far from a solution: start again
        grid, level = OperatorGrid.from_panels(panels), solved.averages[0].choice.level
        try:
            means = self_consistent_start(self.engine, grid, level, self.seed)
        except SolverError as reason:
            logger.info("paths: no restart on the new grid (%s); iterating from interpolated means", reason)
            means = transfer(solved.means, self.engine.responses, solved.grid, grid)
        return self._iterate(grid, means, Design(level), self.control.stop, kept=carried(self.engine, solved, grid))

    def _carry(self, solved: PathSolution, panels: PanelGrid) -> PathSolution | None:
        """Return the solution on other panels, iterated from interpolated means; None where these are far from it."""
        grid, level = OperatorGrid.from_panels(panels), solved.averages[0].choice.level
        with contextlib.suppress(SolverError):
            means, last = transfer(solved.means, self.engine.responses, solved.grid, grid), 1.0
            # interpolated responses act alike, but have other entries than those of paths on these
            # panels
            averages = sweep(self.engine, grid, means, Design(level), carried(self.engine, solved, grid))
            means, kept = collect(averages), tuple(Kept(item.choice, item.paths.unknowns) for item in averages)
            while True:
                near = self._iterate(grid, means, Design(level), self.control.stop, kept=kept, most=_NEAR)
                if near.residual <= self.control.stop * self.rtol:
                    return near
                if near.residual > _GAIN * last:
                    break
                means, last = near.means, near.residual
                kept = tuple(Kept(item.choice, item.paths.unknowns) for item in near.averages)
        return None

    def on_coarser_steps(self, solved: PathSolution) -> PathSolution:
        """Return the solution with twice as long steps, with the same noise."""
        grid = OperatorGrid.trapezoid(solved.grid.nodes[::2], self.steps.block)
        means = transfer(solved.means, self.engine.responses, solved.grid, grid)
        level = solved.averages[0].choice.level
        kept = [Kept(item.choice, item.paths.unknowns) for item in solved.averages]
        coarser = on_coarser(self.engine, solved.averages[0].paths.kernels, kept)
        return self._iterate(grid, means, Design(level), self.control.stop, kept=coarser)

    # --- large ensembles
    def refine(self, small: Sequence[PathSolution], by_grid: ByGrid) -> tuple[tuple[PathSolution, ...], Errors]:
        """Return the solution moved to the average of large ensembles, and its error.

        ``small`` are solutions by the small ensemble on one grid, on panels and on coarser ones, or
        on nested steps, from which curves are extrapolated; so are those returned. ``by_grid``
        tells the error of these grids.
        """
        # averages of functions with a kink as well: the same paths give them
        judge, control, engine, size = replace(self.judge, kinks=True), self.control, self.engine, small[0].grid.size
        known = Design(
            small[0].averages[0].choice.level, self._layouts(small[0]), variation(small[0].averages),
            variation(small[0].averages, by_value=True),
        )  # fmt: skip
        paths, final, stride = float(control.small), tuple(small), 1
        swept: list[Piece | None] = [None] * control.sets
        rounds: list[_Round] = []
        before = moved = math.inf
        contraction, again, spent, begun = control.contraction, False, 0.0, time.perf_counter()
        drawn = control.sets * (1 + len(DENSITIES))
        trials = [self._try_density(small, known, density) for density in range(len(DENSITIES))]
        density, by_parts, means, swept[:], chance = best = min(trials, key=lambda trial: trial[-1])
        first, known_by = [item[0] for item in means], paths
        for trial in trials:  # the other sets count as those of fewer paths that scatter like them
            if trial is not best:
                others = [self._control(final, item, trial[1]) for item in trial[2]]
                worse = trial[-1] / chance if chance > 0 else 1.0
                rounds.append(self._compare_small(paths * worse ** (-1 / control.rate), others, small, final))
        for number in range(1, control.levels + 1):
            seeds = [self.seed + _APART * (drawn + place) for place in range(1, control.sets + 1)]
            known = replace(known, tangent_stride=max(1, min(stride, round(paths) // control.small)))
            designs = [replace(known, level=self._level(round(paths), seed, density)) for seed in seeds]
            paths = float(designs[0].level.most * count_values(engine, designs[0].level.constants))
            if number > 1:
                text, begun = f"{control.sets} ensembles of {round(paths)} paths", time.perf_counter()
                try:
                    means, swept[:] = sweep_sets(engine, final, designs, swept, judge.options, text)
                except SolverError as reason:  # they do not fit into the memory, or a path has no solution
                    logger.info("paths: no larger samples: %s", reason)
                    break
            followed, spent = time.perf_counter(), spent + paths
            means = [self._control(final, item, by_parts) for item in means]
            rounds = [*(rounds[:-1] if again else rounds), self._compare_small(paths, means, small, final)]
            rounds = [item for item in rounds if control.growth * item.paths >= paths]
            weights = np.concatenate([[item.paths ** (2 * control.rate)] * control.sets for item in rounds])
            every = zip(*(item.taus for item in rounds), strict=True)
            expected, known_by = chance * (known_by / paths) ** control.rate, paths  # tolerances that these will leave open
            stop = control.stop * max(1.0, expected)
            pairs = [self._correct(*item, weights, stop) for item in zip(small, final, every, strict=True)]
            final = tuple(pair[0] for pair in pairs)
            shown = final if final[0].grid.panels is None else final[:1]
            curves = extrapolate_steps([judge.curves(item) for item in shown], self.steps)
            changes = [self._apart(curves, shown, [item.means for item in made.at]) for made in rounds]
            rest = 2.0 * max(item.residual for item in final) / self.rtol  # of the iteration
            whole = 0.99 - judge.worst(curves, by_grid(final)) - rest
            room = whole - 0.04  # aimed at
            room = room if room > control.share / 4 else control.share  # panels that miss the tolerance leave none
            margin = margin_of(len(weights))
            for exact in (False, True):
                ends = [pair[1](exact, control.contraction * chance) for pair in pairs[: min(2, len(shown))]]
                spread = standard_error([self._apart(curves, shown, means) for means in zip(*ends, strict=True)], weights)
                chance = judge.worst(curves, judge.error_of_changes(curves, [spread], margin))
                if chance > control.clear * room:  # more paths are needed, whatever the exact spread
                    break
            last_moved, moved = moved, judge.worst(curves, changes[-1])
            if again:  # the same paths: how much closer they bring the solution, the first time told best
                earlier = contraction if contraction > control.contraction else 1.0
                contraction = min(earlier, max(control.contraction, moved / last_moved))
            part = contraction if again or moved <= control.clear * before else 1.0  # no scatter
            average = functools.partial(np.average, axis=0, weights=weights[:: control.sets])
            change = {name: average([item[name] for item in changes]) for name in spread}
            beside = judge.error_of_changes(curves, [{name: part * value for name, value in change.items()}], 1.0)
            errors = {name: value + beside[name] for name, value in judge.error_of_changes(curves, [spread], margin).items()}
            worst = judge.worst(curves, errors)
            logger.info("paths: error of %d samples of %d: %.2g times the tolerance; they changed the solution by %.2g",
                        len(weights), paths, worst, moved)  # fmt: skip
            alone = len(weights) <= control.sets  # four sets may agree by chance: eight hardly do
            if (worst <= max(room, whole) and not alone) or rest > max(1.0, 3.0 * stop) or judge.options.is_short_of_time():
                break  # where the iteration does not settle more paths are of no use
            again, more = chance <= room and not alone and worst - part * moved <= max(room, whole), paths
            times = (followed - begun) / paths, time.perf_counter() - followed
            if not again:  # more paths
                if number == 1:
                    stride = self._choose_tangent_stride(small[0], first, by_parts, chance)
                most = min(self._most_paths(size, stride, round(paths), spent), judge.options.time_left() / times[0])
                if most < paths / 2:
                    break
                stated = chance * margin_of(len(weights) + control.sets) / margin
                lacking = ((control.safety * stated / room) ** 2 - 1) * weights.sum() / control.sets
                more = min(most, max(lacking, 0.0) ** (0.5 / control.rate))
                before, paths = chance, min(max(more, paths / 2), control.growth * paths)
                swept, drawn = [None] * control.sets, drawn + control.sets
            judge.options.foresee(predict_seconds(paths, more, control.growth, *times), "larger ensembles")
        errors = {name: error + np.where(error > 0, rest, 0) * judge.allowed(curves, name) for name, error in errors.items()}
        return tuple(replace(item, residual=0.0) for item in final), errors

    def _most_paths(self, size: int, stride: int, paths: int, spent: float) -> float:
        """Return how many paths an ensemble may have: by the cost of all rounds, ``spent`` paths so far, and by memory."""
        plans, control = self.engine.ensembles, self.control
        held = 8.0 * size * control.sets * sum(len(plan.unknowns) + len(plan.driving) for plan in plans)
        faster = control.card if self.engine.is_on_card(size, paths) else 1.0
        return min(faster * control.cost / (size**2 * (size / stride + _FOLLOWING)) - spent, 0.3 * memory() / held)

    def _compare_small(
        self, paths: float, means: list[list[Means]], small: Sequence[PathSolution], final: tuple[PathSolution, ...]
    ) -> "_Round":
        """Return what sets of large ensembles add to the small one at a solution."""
        taus = []
        for place, (base, item) in enumerate(zip(small, final, strict=True)):
            own = collect(sweep(self.engine, item.grid, item.means, Design(base.averages[0].choice.level), base.averages))
            taus.append([{name: every[place][name] - value for name, value in own.items()} for every in means])
        return _Round(paths, taus, final)

    def _try_density(
        self, small: Sequence[PathSolution], known: Design, density: int
    ) -> tuple[int, tuple[float, float], list[list[Means]], list[Piece], float]:
        """Return a density of the leading mode, with the best control variate by parts, small sets that are drawn so, and
        the error of their mean in tolerances."""
        control, options = self.control, self.judge.options
        seeds = [self.seed + _APART * (control.sets * (1 + density) + place) for place in range(1, control.sets + 1)]
        designs = [replace(known, level=self._level(control.small, seed, density)) for seed in seeds]
        means, swept = sweep_sets(self.engine, small, designs, [None] * control.sets, options, "small ensembles")
        by_parts, scatter = self._choose_control(small[0], [item[0] for item in means])
        return density, by_parts, means, swept, scatter / control.sets

    def _control(self, final: Sequence[PathSolution], means: Sequence[Means], by_parts: tuple[float, float]) -> list[Means]:
        """Return the means of one set on every grid, with integration by parts as a control variate."""
        made = []
        for item, own in zip(final, means, strict=True):
            total: Means = {}
            for plan, averages in zip(self.engine.ensembles, item.averages, strict=True):
                groups = self.engine.groups(item.kernels, plan)
                total |= apply_control_variates(plan, groups, item.kernels, own, averages.noise_responses, *by_parts)
            made.append(total)
        return made

    def _choose_control(self, solved: PathSolution, means: Sequence[Means]) -> tuple[tuple[float, float], float]:
        """Return the ridge and the share with which integration by parts leaves the least scatter of some sets, and that."""
        moved = self._carrier(solved, solved.averages)

        def scatter(by_parts: tuple[float, float]) -> float:
            every = [self._control([solved], [own], by_parts)[0] for own in means]
            mean = {name: np.mean([made[name] for made in every], axis=0) for name in every[0]}
            return math.hypot(*(moved({name: made[name] - mean[name] for name in mean}) for made in every))

        tried = {(math.inf, 0.0): scatter((math.inf, 0.0))}
        if any(len(own) > len(solved.means) for own in means):  # there are defects
            tried |= {(ridge, 0.5): scatter((ridge, 0.5)) for ridge in _RIDGES}
            ridge = min(_RIDGES, key=lambda ridge: tried[ridge, 0.5])
            tried |= {(ridge, share): scatter((ridge, share)) for share in (0.0, 1.0)}
        best = min(tried, key=lambda by_parts: tried[by_parts])
        logger.info("paths: small samples scatter by %.2g times the tolerance, %.2g with integration by parts",
                    tried[math.inf, 0.0], tried[best])  # fmt: skip
        return best, tried[best]

    def _apart(self, curves: Curves, final: Sequence[PathSolution], means: Sequence[Means]) -> Errors:
        """Return how far curves are from those of other means on the same grids."""
        levels = [self.judge.curves_of_means(item.grid, own) for item, own in zip(final, means, strict=False)]
        return self.judge.distances(curves, extrapolate_steps(levels, self.steps))

    def _choose_tangent_stride(
        self, solved: PathSolution, means: Sequence[Means], by_parts: tuple[float, float], chance: float
    ) -> int:
        """Return the number of paths for one with tangents that makes a given error cheapest.

        With a stride k the error of N paths is N^−rate √(others² + (k^rate responses)²), their cost
        N n² (n/k + ``_FOLLOWING``) on n nodes. ``means`` are those of sets without integration by
        parts, ``chance`` their error with it in tolerances, which mean responses overstate where
        paths react strongly.
        """
        moved, responses = self._carrier(solved, solved.averages, follow=True), self.engine.responses
        responses |= {steps_name(name) for name in responses}
        mean = {name: np.mean([own[name] for own in means], axis=0) for name in means[0]}

        def scatter(of_responses: bool) -> float:
            apart = ({n: (own[n] - v) * ((n in responses) == of_responses) for n, v in mean.items()} for own in means)
            return math.hypot(*(moved(self._control([solved], [item], by_parts)[0]) for item in apart))

        among, others = scatter(True), scatter(False)
        logger.info("paths: standard error of sampled responses %.2g times the tolerance, of the rest %.2g", among, others)
        rate, size = self.control.rate, solved.grid.size

        def cost(k: int) -> float:
            return math.hypot(min(others, chance), k**rate * among) ** (1 / rate) * (size / k + _FOLLOWING)

        return min((2**power for power in range(12)), key=cost)

    def _correct(
        self, small: PathSolution, final: PathSolution, rounds: Sequence[Sequence[Means]], weights: Array, stop: float
    ) -> tuple[PathSolution, Callable[[bool, float], list[Means]]]:
        """Return the solution of x = F_small(x) + τ for the average τ, and a function for each τ.

        This solves to first order; if ``exact``, the last round by iterations down to ``stop``
        tolerances.
        """
        taus = [tau for item in rounds for tau in item]
        design = Design(small.averages[0].choice.level)

        def solve(tau: Means, begin: Means, stop: float) -> PathSolution:
            return self._iterate(final.grid, begin, design, stop, Correction(small.averages, tau))

        mean = {name: np.average([tau[name] for tau in taus], axis=0, weights=weights) for name in taus[0]}
        solved = solve(mean, final.means, stop)

        def alone(exact: bool, stop: float) -> list[Means]:
            move, first = self._mover(solved, solved.averages), len(taus) - (self.control.sets if exact else 0)
            near = [move({name: tau[name] - value for name, value in mean.items()}) for tau in taus]
            exactly = (
                solve(tau, begin, max(self.control.stop, stop)).means
                for tau, begin in zip(taus[first:], near[first:], strict=True)
            )
            return [*near[:first], *exactly]

        return replace(final, means=solved.means, kernels=solved.kernels, residual=solved.residual), alone


@dataclass(frozen=True, eq=False)
class _Round:
    """Large ensembles of one size, what each adds to the means of the small one on every grid, and at which solution."""

    paths: float
    taus: list[list[Means]]
    at: tuple[PathSolution, ...]


def predict_seconds(paths: float, needed: float, growth: float, each: float, besides: float) -> float:
    """Return the predicted time of ensembles of ``paths`` paths and of the larger ones up to those needed.

    ``each`` is the time of a path in all sets, ``besides`` the overhead of a round.
    """
    total = each * paths + besides
    while paths < needed:
        paths = min(growth * paths, needed)
        total += each * paths + besides
    return total


def carried(engine: Engine, solved: PathSolution, grid: OperatorGrid) -> tuple[Kept, ...]:
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
