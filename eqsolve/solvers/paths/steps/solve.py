"""Discrete time with noise in every step, exactly at this step: samples of paths that are marched causally.

Noise that is drawn afresh at every step (batches, label noise, temperature) has as many modes as
there are steps. Several independent samples are each marched node by node, self-consistently, with
draws of small variance (see ``draws``). Their spread is the statistical error. The bias of a sample
falls like 1/paths: it is extrapolated by a line through all rounds. Paths are added until both are
below the tolerance.

Chosen in discrete time where a noise is drawn in every step; available for every stochastic system
in discrete time. Cost per sample: nodes³ × paths / 6 for responses with memory, along some of the
paths, and nodes² × paths for all else; memory: nodes² × paths / 2 single-precision numbers.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.forms import DISCRETE, Form
from eqsolve.compile.lowering import LawPlan, at
from eqsolve.compile.plan import Plan, Values
from eqsolve.compile.stochastic import StochasticProgram
from eqsolve.errors import SolverError, logger
from eqsolve.files.checkpoint import Codec
from eqsolve.numerics.arrays import ROUNDING, Array, over_neighbours
from eqsolve.numerics.backend import demand_memory, memory
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels, evaluate
from eqsolve.results.result import PathSet, Result
from eqsolve.solvers.cluster import Piece
from eqsolve.solvers.contract import Solver, why_not_a
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.error_control import Curves, make_result
from eqsolve.solvers.paths.steps.draws import Chain, StepsSample, draw
from eqsolve.solvers.paths.steps.ensemble import Ensemble, is_chain
from eqsolve.solvers.threads import in_order, one_each, usable_threads
from eqsolve.solvers.tolerance import DEVIATIONS, KERNEL_FLOOR, excess


# --- One sample in discrete time: at each node all ensembles in rounds, until their means have
# come to rest, then on.
@dataclass(frozen=True, eq=False)
class StepsMarch:
    """Kernels for the means of one sample, and its ensembles."""

    kernels: Kernels
    ensembles: tuple[Ensemble, ...]


def march(plan: StochasticProgram, grid: OperatorGrid, samples: Sequence[StepsSample]) -> StepsMarch:
    """Advance a sample over all nodes."""
    size = grid.size
    every = [mean for item in plan.ensembles for mean in item.means]
    means = {mean.name: np.zeros(size) if mean.kind == "one" else np.zeros((size, size)) for mean in every}
    ensembles = [
        Ensemble(item, [c for c in plan.covariances if c.noises[0] in item.noises], grid, sample)
        for item, sample in zip(plan.ensembles, samples, strict=True)
    ]
    prompt = all(item.prompt for item in ensembles)
    acting = [mean.name for mean in every if mean.acts]
    for node in range(size):
        head = grid.head(node + 1)
        for item in ensembles:
            item.advance(node)
        if prompt:
            for item in ensembles:
                item.glance(node)
                item.average(node, None, means, acting=True)
            kernels = _kernels(plan, head, means, node)
            for item in ensembles:
                item.settle(node, kernels)
                item.average(node, kernels, means, acting=False)
        for _ in range(0 if prompt else 2 + 2 * len(ensembles) + len(plan.definitions)):
            before = {name: _slice(means[name], node) for name in acting}
            for item in ensembles:
                kernels = _kernels(plan, head, means, node)
                item.settle(node, kernels)
                item.average(node, kernels, means)
            if _rest(means, before, node):
                break
        if not prompt:
            kernels = _kernels(plan, head, means, node)
        for item in ensembles:
            item.keep(node, kernels)
    return StepsMarch(evaluate(plan.definitions, grid, means), tuple(ensembles))


def _kernels(plan: StochasticProgram, head: OperatorGrid, means: Mapping[str, Array], node: int) -> Kernels:
    local = {name: value[: node + 1] if value.ndim == 1 else value[: node + 1, : node + 1] for name, value in means.items()}
    return evaluate(plan.definitions, head, local)


def _slice(value: Array, node: int) -> Array:
    return value[node : node + 1].copy() if value.ndim == 1 else np.concatenate([value[node, : node + 1], value[:node, node]])


def _rest(means: Mapping[str, Array], before: Mapping[str, Array], node: int) -> bool:
    """Whether the means at a node are what they were."""
    for name, old in before.items():
        now = _slice(means[name], node)
        if np.abs(now - old).max() > ROUNDING * max(float(np.abs(now).max()), 1e-30):
            return False
    return True


# --- Samples, as many as the tolerance needs.

_SINGLE = 8 * float(np.finfo(np.float32).eps)  # of a value: the rounding of responses, stated in any case


@dataclass(frozen=True)
class StepsControls:
    """Settings of a solve in steps."""

    samples: int = 2 * PathsControls.sets  # independent; their spread is the statistical error
    paths: int = PathsControls.sample  # of one sample, at first
    # share and least number of the paths along which responses are followed: they cost more than
    # the paths, and scatter less (in diagonal networks and in ridge regression)
    responses: tuple[float, int] = (0.25, 2048)
    # least and most ratio of the numbers of paths in two rounds. Values are extrapolated to
    # infinitely many paths by a line in 1/paths, which scatters 2.4 times as much as the last round
    # where that has twice the paths of the one before, 1.5 times where it has four times
    growth: tuple[float, float] = (4.0, 32.0)
    remainder: float = 0.3  # share of the correction for finitely many paths stated as its error
    work: float = 4e12  # most nodes³ × paths of all samples: then what there is is returned
    rounds: int = 5  # most refinements


class StepsSolver(Solver):
    __doc__ = __doc__
    name = "steps"
    generic = True
    discrete = True
    only_discrete = True

    def why_not(self, plan: Plan) -> str:
        if reason := why_not_a("System", plan):
            return reason
        if not plan.facts.processes:
            return "there are no processes in it to be sampled"
        return "white noise is not put in steps yet" if plan.facts.white_noises else ""

    def form(self, discrete: bool) -> Form[Any]:
        return DISCRETE

    def why(self, plan: Plan) -> str:
        if plan.facts.needs_step_limit:
            return f"noise that keeps paths positive, {', '.join(plan.facts.step_noises)}: samples, in ever shorter steps"
        if plan.facts.step_noises:
            return (
                f"noise that is drawn in every step, {', '.join(plan.facts.step_noises)}: samples of paths, exact at this step"
            )
        return "samples of paths in discrete time"

    def solve(self, plan: Plan, values: Values, options: Options, control: StepsControls | None = None) -> Result:
        """Solve to the tolerance asked for, or as well as the work allows."""
        control = control or StepsControls()
        with np.errstate(all="ignore"), one_each():
            if options.step is None:
                return _refine(plan, values, options, control)
            return _prepare(plan, values, options, options.step, control).run(values.settings)


def _prepare(plan: Plan, values: Values, options: Options, step: float, control: StepsControls) -> _StepsSolve:
    source = plan.program(DISCRETE)
    program = at(source, {**values.numbers, **({"step": step} if plan.facts.needs_step_limit else {})})
    begin = float(program.start()[0])
    options.demand_after(begin)
    laws = values.all_laws(source)
    drawn: dict[str, Any] = {}
    for name, law in source.drawn:
        if isinstance(law, LawPlan):
            drawn[name] = law.at(values.numbers, values.laws)
        else:
            share, span = law.at(values.numbers)()
            drawn[name] = Chain(float(share), math.exp(-step / float(span)))
    grid = OperatorGrid.discrete(step, begin, options.t_max)
    return _StepsSolve((program, laws, drawn, grid), options, control)


def _refine(plan: Plan, values: Values, options: Options, control: StepsControls) -> Result:
    """Solve in continuous time: steps are halved, and values extrapolated from two lengths of first order, until half the
    change from the two before (1/3 of it for a second order), with the sampling error, is below the tolerance."""
    begin = float(at(plan.program(DISCRETE), values.numbers).start()[0])
    share = 0.6 / math.sqrt(5.0)  # 2 a − b scatters by √5
    inner = replace(options, rtol=share * options.rtol, atol=share * (options.atol or 0.0) or None)
    levels, ordered = list[Estimate](), None  # how noise is drawn is found out on the longest steps
    for number in range(control.rounds + 1):
        count = 16 << number
        step = (options.t_max - begin) / count
        solve = _prepare(plan, values, inner, step, control)
        solve.ordered = solve.ordered if ordered is None else ordered
        levels = [*levels[-2:], solve.best(max(levels[-1].rounds[-1][0] // 8, control.paths) if levels else control.paths)]
        ordered = solve.ordered
        if solve.ended and len(levels) < 3:
            raise KeyboardInterrupt if solve.ended[0] == "interrupted" else MemoryError(solve.ended[1])
        if len(levels) < 3:
            continue
        coarse, middle, fine = (_every(item, 1 << place) for place, item in enumerate(levels))
        stride = 1 << (len(levels) - 1)
        grid = OperatorGrid.discrete(step * stride, begin, options.t_max)
        every = {name: 2 * value - middle.curves.all[name] for name, value in fine.curves.all.items()}
        moved = {name: every[name] - 2 * middle.curves.all[name] + coarse.curves.all[name] for name in every}
        steps = {name: over_neighbours(np.abs(value), 2, np.max) / 2 for name, value in moved.items()}
        between = PanelGrid.smooth(grid.nodes)
        steps |= {name: error + between.error_between(every[name]) for name, error in steps.items() if error.ndim == 1}
        spread = {name: np.hypot(2 * fine.spread[name], middle.spread[name]) for name in every}
        bias = {name: 2 * fine.bias[name] + middle.bias[name] + steps[name] for name in every}
        made = Estimate(fine.curves.filled(every), spread, bias, fine.rounds)
        solve.options, solve.kept, solve.grid = options, stride, grid
        chance = solve.chance(made)
        stated = {name: error + bias[name] for name, error in chance.items()}
        over = [max(solve.excesses(made.curves, item).values(), default=0.0) for item in (steps, chance, stated)]
        logger.info("time grid: %d steps; their error is %.2g times the tolerance, that by chance %.2g",
                    count, *over[:2])  # fmt: skip
        if over[2] <= 1 or over[1] > over[0] or solve.ended or options.is_short_of_time():
            break
    result = solve.package(made, values.settings)
    return result.with_status(*solve.ended) if solve.ended else result


def _every(item: Estimate, stride: int) -> Estimate:
    """Return an estimate at multiples of a stride."""

    def few(values: Mapping[str, Array]) -> dict[str, Array]:
        return {name: table[(slice(None, None, stride),) * table.ndim] for name, table in values.items()}

    return Estimate(item.curves.filled(few(item.curves.all)), few(item.spread), few(item.bias), item.rounds)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Means of all rounds corrected for their bias, their standard errors, and what may be left of the bias.

    ``rounds`` are the number of paths, means over samples and their standard errors, round by
    round.
    """

    curves: Curves
    spread: dict[str, Array]
    bias: dict[str, Array]
    rounds: tuple[tuple[int, dict[str, Array], dict[str, Array]], ...]


Sampled = tuple[Curves, list[list[Array | None]], list[PathSet]]
"""What a sample tells: its curves, its modes in the order of their responses, some of its paths."""


def draw_sample(
    plan: StochasticProgram, laws: Mapping[str, Any], drawn: Mapping[str, Any], grid: OperatorGrid,
    turns: Sequence[list[Array | None]], share: float, paths: int, seed: tuple[int, ...], keep: bool, ordered: bool,
) -> Sampled:  # fmt: skip
    """March one sample; responses are followed along a share of its paths, some are kept if asked for."""
    samples = []
    for place, item in enumerate(plan.ensembles):
        groups = [len(law.noises) for law in plan.covariances if law.noises[0] in item.noises]
        fresh = {name: law for name, law in drawn.items() if name in item.noises}
        seeds = (*seed, place)
        samples.append(draw(item.constants, laws, groups, fresh, grid.size, paths, share, seeds, turns[place], ordered))
    marched = march(plan, grid, samples)
    kernels, found = marched.kernels, [turns_of(item, marched) for item in marched.ensembles]
    for ensemble in marched.ensembles:
        ensemble.tangents.clear()  # they hold it too, and would wait for the collector
    single = kernels.functions | {name: kernels.observed(item) for name, item in plan.observables}
    values = {name: kernels.grid.values(matrix) for name, matrix in kernels.operators.items()}
    made = Curves(single, dict(kernels.complete()), values, {})
    if not all(np.isfinite(value).all() for value in made.all.values()):
        raise SolverError(f"the means of model `{plan.name}` stop being finite; the step may be too long")
    return made, found, [_paths(item) for item in marched.ensembles if keep]


def _paths(item: Ensemble) -> PathSet:
    """Return paths of an ensemble, evenly chosen; their weights are those of the sample."""
    kept = np.arange(0, item.paths, max(1, item.paths // PathsControls.paths_shown))
    weights = item.weights[kept] / item.weights[kept].sum()
    constants = {name: values[kept] for name, values in item.sample.constants.items()}
    return PathSet(weights, constants, {name: table[:, kept].T for name, table in item.kept.items()})


class _StepsSolve:
    """One solve on its way."""

    def __init__(
        self, given: tuple[StochasticProgram, Any, Any, OperatorGrid], options: Options, control: StepsControls
    ) -> None:
        self.given, self.options, self.control = given, options, control
        self.plan, _, _, self.grid = given
        self.turns: list[list[Array | None]] = [[] for _ in self.plan.ensembles]
        self.last: Sampled | None = None
        self.kept = 1  # the stride of what is reported
        # whether noise is drawn in the order of the paths; None: to be tried
        self.ordered: bool | None = None if all(map(is_chain, self.plan.ensembles)) else False
        self.ended: tuple[str, str] | None = None  # what stopped it before its end, and in words

    def run(self, params: Mapping[str, Any]) -> Result:
        """Add paths until the tolerance is met; an interruption returns what the last round found."""
        result = self.package(self.best(self.control.paths), params)
        return result.with_status(*self.ended) if self.ended else result

    def best(self, paths: int) -> Estimate:
        """Return the estimate that meets the tolerance, or the last one there is; ``paths`` is how many there are at first."""
        control, size = self.control, self.grid.size
        best: Estimate | None = None
        for number in range(control.rounds):
            begun = time.perf_counter()
            try:
                made = self._estimate(paths, number, best)
                if self.ordered is None:  # which way scatters less
                    self.ordered = True
                    other = self._estimate(paths, number, best)
                    first, second = (max(self.excesses(it.curves, self.chance(it)).values()) for it in (made, other))
                    self.ordered = second < first
                    made = other if self.ordered else made
            except (KeyboardInterrupt, MemoryError) as reason:
                if best is None:
                    raise
                what = "interrupted" if isinstance(reason, KeyboardInterrupt) else "out of memory"
                said = f"{what} in round {number + 1} of samples; the errors are those of the round before"
                self.ended = (what, said)
                return best
            best = made
            if self.last is not None and not number:
                self.turns = self.last[1]
            both = [self.excesses(made.curves, errors) for errors in (self.chance(made), made.bias)]
            by_chance, by_bias = (max(item.values(), default=0.0) for item in both)
            logger.info("%d times, %d samples of %d paths: standard error %.2g tolerances, finite-sample bias %.2g",
                        size, control.samples, paths, by_chance, by_bias)  # fmt: skip
            if number and by_chance + by_bias <= 1.0:
                break
            wanted = min(max((by_chance / 0.75) ** 1.5, by_bias / 0.2, control.growth[0]), control.growth[1])
            more = 1 << math.ceil(math.log2(paths * wanted) - 0.2)
            work, room = control.work / (size**3 * control.samples), 0.5 * memory()
            while more > paths and (more > work or self._bytes(more) > room):
                more //= 2
            if more <= paths:
                logger.info("more paths would be too much work; the errors are stated as they are")
                break
            seconds, paths = (time.perf_counter() - begun) * more / paths, more
            self.options.foresee(seconds, f"{control.samples} samples of {paths} paths")
        assert best is not None
        return best

    def _estimate(self, paths: int, number: int, before: Estimate | None) -> Estimate:
        """Return the means over new samples of ``paths`` paths, averaged with the estimate ``before``, and their errors."""
        control, options = self.control, self.options
        seeds = [(options.seed, number, index) for index in range(control.samples)]
        demand_memory(self._bytes(paths), f"{paths} paths over {self.grid.size} steps")
        threads = min(usable_threads(options.threads, paths), max(1, int(0.5 * memory() / self._bytes(paths))))
        log = options.checkpoint
        missing = [seed for place, seed in enumerate(seeds) if log is None or not log.holds(place)]
        how = self.turns, self._share(paths), paths
        asked = [(*self.given, *how, seed, seed == seeds[-1], bool(self.ordered)) for seed in missing]
        pieces = [options.cluster.piece(draw_sample, *item) for item in asked]

        def report(place: int) -> None:
            options.report(options.t_max * (place + 1) / (control.samples + 1), f"sample {place + 1} of round {number + 1}")

        made = in_order(Piece.result, pieces, threads, report)
        with contextlib.closing(made):
            codec, following = Codec((Curves, PathSet)), functools.partial(next, made)
            drawn = [following() if log is None else log.step("sample", following, codec) for _ in seeds]
        self.last, found = drawn[-1], [item[0] for item in drawn]
        first = found[0]
        plain, spread = {}, {}
        for name in first.all:
            table = np.array([item.all[name] for item in found])
            plain[name] = table.mean(axis=0)
            variance = (table.std(axis=0, ddof=1) / math.sqrt(len(found))) ** 2  # of few samples, itself uncertain
            spread[name] = over_neighbours(variance, 2, np.mean) ** 0.5
        rounds = (*(before.rounds if before else ()), (paths, plain, spread))
        means, slopes = line_shares([count for count, *_ in rounds])
        values, errors, bias = {}, {}, {}
        for name in first.all:
            values[name] = sum(share * item[name] for share, (_, item, _) in zip(means, rounds, strict=True))
            errors[name] = sum((share * item[name]) ** 2 for share, (*_, item) in zip(means, rounds, strict=True)) ** 0.5
            slope = sum(share * item[name] for share, (_, item, _) in zip(slopes, rounds, strict=True))
            bias[name] = control.remainder * np.abs(slope) / paths
        return Estimate(first.filled(values), errors, bias, rounds)

    def _share(self, paths: int) -> float:
        """Return the share of the paths along which responses are followed."""
        return max(self.control.responses[0], min(1.0, self.control.responses[1] / paths))

    def _bytes(self, paths: int) -> float:
        """Return the memory of a sample: rows of nodes, and what tangents keep of the past."""
        total, size = 0.0, self.grid.size
        for item in self.plan.ensembles:
            asked = len({mean.noise for mean in item.means if mean.kind == "response"})
            kept = len({link.signal for link in item.links if link.kernel is not None})
            rows = 4 * len(item.noises) + len((*item.processes, *item.memories)) + kept + item.targets
            past = self._share(paths) * asked * (len(item.unknowns) + kept * size / 2)
            total += size * paths * (8 * rows + 4 * past)
        return total

    # --- the result
    def chance(self, estimate: Estimate) -> dict[str, Array]:
        every = estimate.curves.all
        return {name: DEVIATIONS * error + _SINGLE * np.abs(every[name]) for name, error in estimate.spread.items()}

    def excesses(self, curves: Curves, errors: Mapping[str, Array]) -> dict[str, float]:
        """Return the errors of observables in units of the tolerance, and those of kernels if asked for."""
        watched = [name for name, _ in self.plan.observables] or [*curves.single]
        watched += list(curves.tables) if self.options.kernels or not watched else []
        return {name: excess(curves.all[name], errors[name], self.options, KERNEL_FLOOR) for name in watched}

    def package(self, estimate: Estimate, params: Mapping[str, Any]) -> Result:
        errors = {name: error + estimate.bias[name] for name, error in self.chance(estimate).items()}
        kept = self.last[2] if self.options.paths and self.last is not None else []
        kept = [replace(item, values={n: np.asarray(v)[:, :: self.kept] for n, v in item.values.items()}) for item in kept]
        stats = {"paths": estimate.rounds[-1][0], "samples": self.control.samples}
        over, nodes = self.excesses(estimate.curves, errors), self.grid.nodes
        grid = PanelGrid.smooth(nodes) if self.options.step is None else PanelGrid(nodes, 1)
        return make_result(self.plan.name, grid, estimate.curves, errors, over, kept, self.options, params, stats)


def line_shares(paths: Sequence[int]) -> tuple[Array, Array]:
    """Return what each round counts in the value and the slope of a line in 1/paths through all, weighted by their paths."""
    weights, places = np.array(paths, dtype=float), 1.0 / np.array(paths, dtype=float)
    weights /= weights.sum()
    centre = float(weights @ places)
    spread = float(weights @ (places - centre) ** 2)
    slopes = weights * (places - centre) / spread if spread else np.zeros_like(weights)
    return weights - centre * slopes, slopes


def turns_of(item: Ensemble, marched: StepsMarch) -> list[Array | None]:
    """Return, for every group of one noise, its modes in the order in which mean responses to them fall."""
    made: list[Array | None] = []
    for law, factor, _ in item.groups:
        asked = [mean.name for mean in item.plan.means if mean.kind == "response" and mean.noise == law.noises[0]]
        felt = [marched.kernels.means[name] @ factor.rows for name in asked] if len(law.noises) == 1 else []
        made.append(np.linalg.svd(np.vstack(felt))[2].T if felt and np.isfinite(felt).all() else None)
    return made
