"""Large independent ensembles, by which the solution of a small one is moved and its error told.

At a solution, τ = F_large(x) − F_small(x) is added to the small problem, which is solved again with
cheap sweeps: the full approximation scheme (Brandt, Math. Comp. 31, 333 (1977),
doi:10.1090/S0025-5718-1977-0431719-X) with ensembles in the place of grids. The ensembles are
independent scramblings (Owen, J. Complexity 14, 466 (1998), doi:10.1006/jcom.1998.0487): how far
each alone would move the solution gives its standard error. Rounds of larger ones follow until that
is small enough.
"""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import memory
from eqsolve.numerics.gaussian import DENSITIES
from eqsolve.solvers.cluster import Piece
from eqsolve.solvers.paths.ensembles import APART, ByGrid, Ensembles, sweep_sets
from eqsolve.solvers.paths.error_control import Curves, Errors, margin_of, standard_error
from eqsolve.solvers.paths.iterate import Correction, PathSolution
from eqsolve.solvers.paths.means import apply_control_variates, steps_name
from eqsolve.solvers.paths.nested_steps import extrapolate_steps
from eqsolve.solvers.paths.sweep import Design, Means, collect, count_values, sweep, variation

# 10 to 100 were best with eight diagonal networks, where the strong modes' variance is 20 to 40
_RIDGES = (math.inf, 30.0, 10.0)


@dataclass(frozen=True, eq=False)
class _SmallSets:
    """The first sets, drawn from one density of the leading mode: the best control variate by parts (ridge and share),
    their means, what their paths are swept again from, and the error of their average in tolerances."""

    density: int
    by_parts: tuple[float, float]
    means: list[list[Means]]
    pieces: list[Piece]
    chance: float


@dataclass(frozen=True, eq=False)
class _Round:
    """Large ensembles of one size, what each adds to the means of the small one on every grid, and at which solution."""

    paths: float
    taus: list[list[Means]]
    at: tuple[PathSolution, ...]


@dataclass(frozen=True, eq=False)
class _State:
    """What a round has come to: errors, the largest in tolerances, how much it should be (``room``) and may be."""

    errors: Errors
    worst: float
    weights: Array  # of all sets that count
    room: float
    allowed: float
    left: float  # by the motion of the solution since the sets were swept, in tolerances
    unsettled: bool  # whether the iteration leaves more than the paths

    @property
    def sets(self) -> int:
        return len(self.weights)


class LargeEnsembles:
    """Rounds of large ensembles at a solution by a small one.

    ``small`` are solutions by the small ensemble on one grid, on panels and on coarser ones, or on
    nested steps, from which curves are extrapolated; so are those returned. ``by_grid`` tells the
    error of these grids.
    """

    def __init__(self, ensembles: Ensembles, small: Sequence[PathSolution], by_grid: ByGrid) -> None:
        self.ensembles, self.engine, self.control = ensembles, ensembles.engine, ensembles.control
        # averages of functions with a kink as well: the same paths give them
        self.judge = replace(ensembles.judge, kinks=True)
        self.small, self.by_grid, self.final = small, by_grid, tuple(small)
        averages = small[0].averages
        self.design = Design(
            averages[0].choice.level, ensembles.layouts(small[0]), variation(averages), variation(averages, by_value=True)
        )
        self.rounds: list[_Round] = []
        self.paths = self.known_by = float(self.control.small)  # of a set; and for which the error by chance is known
        self.pieces: list[Piece | None] = []
        self.drawn = self.control.sets * (1 + len(DENSITIES))  # sets, each with a seed of its own
        self.stride, self.spent = 1, 0.0  # paths for one with tangents; paths swept so far
        self.contraction, self.moved = self.control.contraction, math.inf

    def refine(self) -> tuple[tuple[PathSolution, ...], Errors]:
        """Return the solution moved to the average of large ensembles, and its error."""
        control, options = self.control, self.judge.options
        begun = time.perf_counter()
        self._choose_density()
        again, before = False, math.inf
        for number in range(1, control.rounds + 1):
            designs = self._designs()
            if number > 1:
                text, begun = f"{control.sets} ensembles of {round(self.paths)} paths", time.perf_counter()
                try:
                    self.means, self.pieces[:] = sweep_sets(self.engine, self.final, designs, self.pieces, options, text)
                except SolverError as reason:  # they do not fit into the memory, or a path has no solution
                    logger.info("paths: no larger samples: %s", reason)
                    break
            followed = time.perf_counter()
            self.spent += self.paths
            state = self._solve(again, before)
            logger.info("paths: error of %d samples of %d: %.2g times the tolerance; they changed the solution by %.2g",
                        state.sets, self.paths, state.worst, self.moved)  # fmt: skip
            alone = state.sets <= control.sets  # four sets may agree by chance: eight hardly do
            if (state.worst <= state.allowed and not alone) or state.unsettled or options.is_short_of_time():
                break  # where the iteration does not settle more paths are of no use
            again = self.chance <= state.room and not alone and state.worst - state.left <= state.allowed
            times, more = ((followed - begun) / self.paths, time.perf_counter() - followed), self.paths
            if not again:  # more paths
                if number == 1:
                    self.stride = self._choose_tangent_stride()
                most = min(self._most_paths(), options.time_left() / times[0])
                if most < self.paths / 2:
                    break
                more = min(most, self._paths_needed(state))
                before, self.paths = self.chance, min(max(more, self.paths / 2), control.growth * self.paths)
                self.pieces, self.drawn = [None] * control.sets, self.drawn + control.sets
            options.foresee(predict_seconds(self.paths, more, control.growth, *times), "larger ensembles")
        return tuple(replace(item, residual=0.0) for item in self.final), state.errors

    # --- the first sets
    def _choose_density(self) -> None:
        """Draw small sets from every density of the leading mode, and keep the one with the least error."""
        trials = [self._try_density(density) for density in range(len(DENSITIES))]
        best = min(trials, key=lambda trial: trial.chance)
        self.density, self.by_parts, self.means, self.chance = best.density, best.by_parts, best.means, best.chance
        self.pieces = [*best.pieces]
        self.first = [item[0] for item in best.means]
        for trial in trials:  # the other sets count as those of fewer paths that scatter like them
            if trial is not best:
                worse = trial.chance / best.chance if best.chance > 0 else 1.0
                means = [self._with_control_variates(self.final, item, trial.by_parts) for item in trial.means]
                self.rounds.append(self._compare_with_small(self.paths * worse ** (-1 / self.control.rate), means))

    def _try_density(self, density: int) -> "_SmallSets":
        control = self.control
        seeds = self._seeds(control.sets * (1 + density))
        designs = [replace(self.design, level=self.ensembles.level(control.small, seed, density)) for seed in seeds]
        means, pieces = sweep_sets(
            self.engine, self.small, designs, [None] * control.sets, self.judge.options, "small ensembles"
        )
        by_parts, scatter = self._choose_control_variate([item[0] for item in means])
        return _SmallSets(density, by_parts, means, pieces, scatter / control.sets)

    def _seeds(self, drawn: int) -> list[int]:
        return [self.ensembles.seed + APART * (drawn + place) for place in range(1, self.control.sets + 1)]

    def _designs(self) -> list[Design]:
        """Return how the sets of a round are drawn; their paths are rounded to what Sobol points ask for."""
        stride = max(1, min(self.stride, round(self.paths) // self.control.small))
        levels = [self.ensembles.level(round(self.paths), seed, self.density) for seed in self._seeds(self.drawn)]
        self.paths = float(levels[0].most * count_values(self.engine, levels[0].constants))
        return [replace(self.design, level=level, tangent_stride=stride) for level in levels]

    # --- a round
    def _solve(self, again: bool, before: float) -> "_State":
        """Move the solution to the average of all sets, and return its error; ``again`` with the paths of the last round."""
        judge, control, rtol = self.judge, self.control, self.ensembles.rtol
        means = [self._with_control_variates(self.final, item, self.by_parts) for item in self.means]
        rounds = [*(self.rounds[:-1] if again else self.rounds), self._compare_with_small(self.paths, means)]
        self.rounds = rounds = [item for item in rounds if control.growth * item.paths >= self.paths]
        weights = np.concatenate([[item.paths ** (2 * control.rate)] * control.sets for item in rounds])
        expected = self.chance * (self.known_by / self.paths) ** control.rate  # tolerances that these will leave open
        self.known_by, stop = self.paths, control.stop * max(1.0, expected)
        every = zip(*(item.taus for item in rounds), strict=True)
        pairs = [self._correct(*item, weights, stop) for item in zip(self.small, self.final, every, strict=True)]
        self.final = final = tuple(pair[0] for pair in pairs)
        shown = final if final[0].grid.panels is None else final[:1]
        curves = extrapolate_steps([judge.curves(item) for item in shown], self.ensembles.steps)
        changes = [self._distances(curves, shown, [item.means for item in made.at]) for made in rounds]
        rest = 2.0 * max(item.residual for item in final) / rtol  # of the iteration
        whole = 0.99 - judge.worst(curves, self.by_grid(final)) - rest
        room = whole - 0.04  # aimed at
        room = room if room > control.share / 4 else control.share  # panels that miss the tolerance leave none
        margin = margin_of(len(weights))
        for exact in (False, True):
            ends = [pair[1](exact, control.contraction * self.chance) for pair in pairs[: min(2, len(shown))]]
            spread = standard_error([self._distances(curves, shown, means) for means in zip(*ends, strict=True)], weights)
            self.chance = judge.worst(curves, judge.error_of_changes(curves, [spread], margin))
            if self.chance > control.clear * room:  # more paths are needed, whatever the exact spread
                break
        last_moved, self.moved = self.moved, judge.worst(curves, changes[-1])
        if again:  # the same paths: how much closer they bring the solution, the first time told best
            earlier = self.contraction if self.contraction > control.contraction else 1.0
            self.contraction = min(earlier, max(control.contraction, self.moved / last_moved))
        part = self.contraction if again or self.moved <= control.clear * before else 1.0  # no scatter
        average = functools.partial(np.average, axis=0, weights=weights[:: control.sets])
        change = {name: part * average([item[name] for item in changes]) for name in spread}
        moving = judge.error_of_changes(curves, [change], 1.0)
        errors = {name: value + moving[name] for name, value in judge.error_of_changes(curves, [spread], margin).items()}
        worst = judge.worst(curves, errors)
        stated = {name: error + np.where(error > 0, rest, 0) * judge.allowed(curves, name) for name, error in errors.items()}
        return _State(stated, worst, weights, room, max(room, whole), part * self.moved, rest > max(1.0, 3.0 * stop))

    def _paths_needed(self, state: "_State") -> float:
        """Return how many paths the next sets need for the error to have the room that there is."""
        control, margins = self.control, [margin_of(state.sets + more) for more in (0, self.control.sets)]
        stated = self.chance * margins[1] / margins[0]
        lacking = ((control.safety * stated / state.room) ** 2 - 1) * state.weights.sum() / control.sets
        return float(max(lacking, 0.0) ** (0.5 / control.rate))

    def _most_paths(self) -> float:
        """Return how many paths an ensemble may have: by the cost of all rounds, and by memory."""
        plans, control, size = self.engine.ensembles, self.control, self.small[0].grid.size
        held = 8.0 * size * control.sets * sum(len(plan.unknowns) + len(plan.driving) for plan in plans)
        faster = control.card if self.engine.is_on_card(size, round(self.paths)) else 1.0
        affordable = faster * control.cost / (size**2 * (size / self.stride + control.following))
        return min(affordable - self.spent, 0.3 * memory() / held)

    # --- what sets add
    def _compare_with_small(self, paths: float, means: list[list[Means]]) -> "_Round":
        """Return what sets of large ensembles add to the small one at the solution."""
        taus = []
        for place, (base, item) in enumerate(zip(self.small, self.final, strict=True)):
            own = collect(sweep(self.engine, item.grid, item.means, Design(base.averages[0].choice.level), base.averages))
            taus.append([{name: every[place][name] - value for name, value in own.items()} for every in means])
        return _Round(paths, taus, self.final)

    def _with_control_variates(
        self, solved: Sequence[PathSolution], means: Sequence[Means], by_parts: tuple[float, float]
    ) -> list[Means]:
        """Return the means of one set on every grid, with integration by parts as a control variate."""
        made = []
        for item, own in zip(solved, means, strict=True):
            total: Means = {}
            for plan, averages in zip(self.engine.ensembles, item.averages, strict=True):
                groups = self.engine.groups(item.kernels, plan)
                total |= apply_control_variates(plan, groups, item.kernels, own, averages.noise_responses, *by_parts)
            made.append(total)
        return made

    def _choose_control_variate(self, means: Sequence[Means]) -> tuple[tuple[float, float], float]:
        """Return the ridge and the share with which integration by parts leaves the least scatter of some sets, and that."""
        solved = self.small[0]
        moved = self.ensembles.tolerances_moved(solved, solved.averages)

        def scatter(by_parts: tuple[float, float]) -> float:
            every = [self._with_control_variates([solved], [own], by_parts)[0] for own in means]
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

    def _distances(self, curves: Curves, final: Sequence[PathSolution], means: Sequence[Means]) -> Errors:
        """Return how far curves are from those of other means on the same grids."""
        levels = [self.judge.curves_of_means(item.grid, own) for item, own in zip(final, means, strict=False)]
        return self.judge.distances(curves, extrapolate_steps(levels, self.ensembles.steps))

    def _choose_tangent_stride(self) -> int:
        """Return the number of paths for one with tangents that makes a given error cheapest.

        With a stride k the error of N paths is N^−rate √(others² + (k^rate responses)²), their cost
        N n² (n/k + ``following``) on n nodes. Mean responses overstate the error of the others where
        paths react strongly.
        """
        solved, means, responses = self.small[0], self.first, self.engine.responses
        moved = self.ensembles.tolerances_moved(solved, solved.averages, follow=True)
        responses |= {steps_name(name) for name in responses}
        mean = {name: np.mean([own[name] for own in means], axis=0) for name in means[0]}

        def scatter(of_responses: bool) -> float:
            apart = ({n: (own[n] - v) * ((n in responses) == of_responses) for n, v in mean.items()} for own in means)
            return math.hypot(*(moved(self._with_control_variates([solved], [item], self.by_parts)[0]) for item in apart))

        among, others = scatter(True), scatter(False)
        logger.info("paths: standard error of sampled responses %.2g times the tolerance, of the rest %.2g", among, others)
        control, rate, size = self.control, self.control.rate, solved.grid.size

        def cost(k: int) -> float:
            return math.hypot(min(others, self.chance), k**rate * among) ** (1 / rate) * (size / k + control.following)

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
            return self.ensembles.iterate(final.grid, begin, design, stop, Correction(small.averages, tau))

        mean = {name: np.average([tau[name] for tau in taus], axis=0, weights=weights) for name in taus[0]}
        solved = solve(mean, final.means, stop)

        def alone(exact: bool, stop: float) -> list[Means]:
            move = self.ensembles.first_order_solver(solved, solved.averages)
            first = len(taus) - (self.control.sets if exact else 0)
            near = [move({name: tau[name] - value for name, value in mean.items()}) for tau in taus]
            exactly = (
                solve(tau, begin, max(self.control.stop, stop)).means
                for tau, begin in zip(taus[first:], near[first:], strict=True)
            )
            return [*near[:first], *exactly]

        return replace(final, means=solved.means, kernels=solved.kernels, residual=solved.residual), alone


def predict_seconds(paths: float, needed: float, growth: float, each: float, besides: float) -> float:
    """Return the predicted time of ensembles of ``paths`` paths and of the larger ones up to those needed.

    ``each`` is the time of a path in all sets, ``besides`` the overhead of a round.
    """
    total = each * paths + besides
    while paths < needed:
        paths = min(growth * paths, needed)
        total += each * paths + besides
    return total
