"""Stochastic systems by samples of paths that are marched in time, for noise that is white.

Several independent samples are each marched causally, self-consistent by themselves: at every step the covariances of the
noises follow from the means so far, and the new values are drawn given the old ones. What is averaged is corrected by a linear
companion whose moments are known (a control variate), so that linear systems have no statistical error. Each sample is
marched with steps h, 2h and 4h and the same noise: the values are extrapolated, and the distance of the extrapolated ones is
the error of the steps. The spread of the samples is the statistical error. Steps and paths grow until both are below the
tolerance.

Chosen where there is white noise; available for every system with processes. The trapezoidal step is of second order in the
weak sense for additive noise (Kloeden & Platen 1992, doi:10.1007/978-3-662-12616-5, section 15.4), extrapolated to fourth.
Cost: nodes² × paths; memory: nodes × paths of one sample.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.forms import SAMPLED, Form
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan
from eqsolve.compile.stochastic import StochasticPlan
from eqsolve.compile.values import Values
from eqsolve.files.checkpoint import Codec
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend, choose_backend
from eqsolve.results.dynamics import PathSet
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_a
from eqsolve.solvers.marched import Curves, excesses, over_neighbours, package, read_curves
from eqsolve.solvers.options import Options
from eqsolve.solvers.sampled.control import Control
from eqsolve.solvers.sampled.draws import Draw, coarsen, draw, start_moments
from eqsolve.solvers.sampled.march import Marched, march
from eqsolve.solvers.threads import in_order, usable_threads

logger = logging.getLogger("eqsolve")

_KEPT = 4096  # paths kept in the result
_OPERATIONS = 20  # floating-point, for every pair of nodes and path, roughly
_LAUNCHES = (
    5e7  # operations of a core in the time that a card takes to begin what is done at a node, of the samples' three marches
)
_HELD = 8  # arrays of nodes × paths that every ensemble holds, beside those of its noises and targets
_TOGETHER = 1 << 13  # paths of samples that a core marches at once: more do not fit into what is near to it
_SHARE = 0.5  # of a card's free memory: what samples that are marched at once may hold
_EVEN = 4  # fine steps that make one of the coarsest


class SampledSolver(Solver):
    __doc__ = __doc__
    name = "sampled"
    on_card = True

    def why_not(self, plan: Plan) -> str:
        return why_not_a("System", plan) or ("" if plan.facts.processes else "there are no processes in it to be sampled")

    def form(self, discrete: bool) -> Form[Any]:
        return SAMPLED

    def why(self, plan: Plan) -> str:
        if plan.facts.whites:
            return f"white noise {', '.join(plan.facts.whites)}: samples of paths, marched in time"
        return "samples of paths, marched in time"

    def solve(self, plan: Plan, values: Values, options: Options, control: Control | None = None) -> Result:
        """Solve to the tolerance asked for, or as well as the work allows."""
        program = at(plan.program(SAMPLED), values.numbers)
        begin = float(program.start()[0])
        options.demand_after(begin)
        laws = {**values.laws, **{name: law.at(values.numbers, values.laws) for name, law in program.laws}}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return _Solve(program, laws, options, control or Control(), begin).run(values.settings)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values on the nodes of the middle grid, and their errors by the steps and by the samples."""

    nodes: Array
    curves: Curves
    by_steps: dict[str, Array]
    by_samples: dict[str, Array]

    @property
    def errors(self) -> dict[str, Array]:
        return {name: error + self.by_samples[name] for name, error in self.by_steps.items()}


class _Solve:
    """One solve on its way."""

    def __init__(
        self, plan: StochasticPlan, laws: Mapping[str, Any], options: Options, control: Control, begin: float
    ) -> None:
        self.plan, self.laws, self.options, self.control, self.begin = plan, laws, options, control, begin
        self.starts = [start_moments(item, laws) for item in plan.ensembles]
        self.last: tuple[int, Marched] | None = None  # of a round, the last sample's march

    def run(self, params: Mapping[str, Any]) -> Result:
        """Refine steps and samples until the tolerance is met; an interruption returns what the last round found."""
        control = self.control
        steps, paths = float(control.steps), control.paths
        best: tuple[Estimate, float, int, int] | None = None
        for number in range(control.rounds):
            nodes = self._nodes(steps)
            try:
                made = self._estimate(nodes, paths, number)
            except (KeyboardInterrupt, MemoryError) as reason:
                if best is None:
                    raise
                what = "interrupted" if isinstance(reason, KeyboardInterrupt) else "out of memory"
                said = f"{what} in round {number + 1} of samples; the errors are those of the round before"
                return self._package(*best, params).stopped(what, said)
            best = (made, steps, paths, number)
            by_steps, by_samples = (self._excess(made, errors) for errors in (made.by_steps, made.by_samples))
            logger.info("%d times, %d samples of %d paths: the error is %.2g tolerances by the steps, %.2g by chance",
                        len(nodes), control.batches, paths, by_steps, by_samples)  # fmt: skip
            if self._excess(made, made.errors) <= 1.0:
                break
            wanted, more = self._refined(steps, paths, by_steps, by_samples)
            if len(self._nodes(wanted)) ** 2 * more * control.batches > control.work:
                logger.info("more steps or paths would be too much work; the errors are stated as they are")
                break
            steps, paths = wanted, more
        assert best is not None
        return self._package(*best, params)

    def _refined(self, steps: float, paths: int, by_steps: float, by_samples: float) -> tuple[float, int]:
        """Return how many steps and paths the next round takes; of one of them more by less than a little is left."""
        first, second = self.control.aim
        longer = min(max(by_steps / first, 1.0) ** (1 / self.control.order), self.control.growth)
        wider = max(by_samples / second, 1.0) ** 2
        if longer == 1.0 and wider == 1.0:
            longer, wider = 1.2, 1.5
        return steps * longer, 2 * math.ceil(paths * min(wider, 256.0) / 2)

    def _nodes(self, steps: float) -> Array:
        """Return nodes that hold all times asked for, in multiples of the coarsest step.

        Between them they are evenly spaced in s with t = begin + span (eˢ − 1)/(ratio − 1): steps are shorter at the start,
        from which paths relax, and their error keeps its expansion in the squares of the spacing.
        """
        options, ratio = self.options, self.control.ratio
        span, last = options.t_max - self.begin, math.log(self.control.ratio)
        asked = {*options.at, *(moment for pair in options.at2 for moment in pair)}
        edges = [self.begin, *sorted(time for time in asked if self.begin < time < options.t_max), options.t_max]
        places = np.log1p((ratio - 1) * (np.array(edges) - self.begin) / span)
        parts = []
        for k, (low, high) in enumerate(itertools.pairwise(places)):
            count = _EVEN * max(1, math.ceil((high - low) / last * steps / _EVEN - 1e-9))
            times = self.begin + span * np.expm1(np.linspace(low, high, count + 1)[:-1]) / (ratio - 1)
            times[0] = edges[k]
            parts.append(times)
        return np.append(np.concatenate(parts), options.t_max)

    # --- one round ---------------------------------------------------------------------------------------------------
    def _estimate(self, nodes: Array, paths: int, number: int) -> Estimate:
        """March all samples with three steps each, and put their values together."""
        options, batches, ensembles, log = self.options, self.control.batches, self.plan.ensembles, self.options.checkpoint
        held = 8.0 * len(nodes) * paths * sum(_HELD + 3 * len(item.noises) + 4 * item.targets for item in ensembles)
        backend = choose_backend(options.device, batches * len(nodes) * (_OPERATIONS * len(nodes) * paths - _LAUNCHES), held)
        threads = usable_threads(options.threads, paths) if backend is CPU else 1
        together = max(1, min(batches, _TOGETHER // paths if backend is CPU else int(_SHARE * backend.memory() / held)))
        every = [range(first, min(first + together, batches)) for first in range(0, batches, together)]
        todo = [group for place, group in enumerate(every) if log is None or not log.holds(place)]
        seeds = [(options.seed, number, batch) for group in todo for batch in group]
        drawn = backend.ahead(functools.partial(self._draw, nodes, paths), seeds)

        def one(group: range) -> list[tuple[Curves, ...]]:
            own = [(options.seed, number, batch) for batch in group]
            samples = [next(drawn) if threads == 1 else self._draw(nodes, paths, seed) for seed in own]
            marched = self._three(nodes, paths, own, [[item.on(backend) for item in sample] for sample in samples], backend)
            if group[-1] == batches - 1:
                self.last = (number, marched[1])
            read = functools.partial(read_curves, self.plan, perhaps="its paths may blow up")
            return [tuple(map(read, levels)) for levels in zip(*(item.kernels for item in marched), strict=True)]

        def report(place: int) -> None:
            first, last = todo[place][0] + 1, todo[place][-1] + 1
            said = f"samples {first} to {last}" if last > first else f"sample {first}"
            options.report(options.t_max * first / (batches + 1), f"{said} of round {number + 1}")

        made = in_order(one, todo, threads, report)
        with contextlib.closing(made):
            codec, following = Codec((Curves,)), functools.partial(next, made)
            found = [following() if log is None else log.step("samples", following, codec) for _ in every]
        return self._together(nodes[::2], list(itertools.chain.from_iterable(found)))

    def _last(self, steps: float, paths: int, number: int) -> Marched:
        """Return the last sample of a round, with twice the finest steps: to take paths from."""
        if self.last is None or self.last[0] != number:
            nodes, seed = self._nodes(steps), (self.options.seed, number, self.control.batches - 1)
            self.last = (number, self._three(nodes, paths, [seed], [self._draw(nodes, paths, seed)], CPU)[1])
        return self.last[1]

    def _draw(self, nodes: Array, paths: int, seed: tuple[int, ...]) -> list[Draw]:
        """Draw one sample for every ensemble."""
        samples = []
        for place, item in enumerate(self.plan.ensembles):
            groups = [len(law.noises) for law in self.plan.covariances if law.noises[0] in item.noises]
            whites = list(dict.fromkeys(kick.noise for kick in item.kicks))
            samples.append(draw(item, groups, whites, self.laws, len(nodes), paths, (*seed, place)))
        return samples

    def _three(
        self, nodes: Array, paths: int, seeds: Sequence[tuple[int, ...]], samples: list[list[Draw]], backend: Backend
    ) -> list[Marched]:
        """March samples with fine, twice and four times as long steps."""
        control, plan = self.control, self.plan
        share, least, largest = control.tangents
        tangents = int(np.clip(share * paths, least, largest))
        settled = control.settled * self.options.rtol
        made = [march(plan, nodes, samples, self.starts, tangents, settled, control.inner, backend)]
        for level in (1, 2):
            lengths = np.diff(nodes)
            samples = [
                [
                    coarsen(item, factors, lengths, (*seed, place, level), backend)
                    for place, (item, factors) in enumerate(zip(sample, own, strict=True))
                ]
                for seed, sample, own in zip(seeds, samples, made[-1].factors, strict=True)
            ]
            nodes = nodes[::2]
            made.append(march(plan, nodes, samples, self.starts, tangents, settled, control.inner, backend))
        return made

    def _together(self, nodes: Array, found: list[tuple[Curves, ...]]) -> Estimate:
        """Extrapolate in the steps sample by sample; the errors are what is left of the steps, and the spread."""
        control, count = self.control, len(found)
        values: dict[str, Array] = {}
        by_steps: dict[str, Array] = {}
        by_samples: dict[str, Array] = {}
        for name in found[0][0].all:
            fine, middle, coarse = (np.array([item[level].all[name] for item in found]) for level in range(3))
            better = (4 * _halved(fine) - middle) / 3
            rough = (4 * _halved(middle) - coarse) / 3
            values[name] = better.mean(axis=0)
            gap = _smeared(np.abs((_halved(better) - rough).mean(axis=0)))
            floor = control.floor * np.abs(values[name])
            by_steps[name] = control.share * _doubled(gap, values[name].shape[0]) + floor
            spread = better.std(axis=0, ddof=1) / math.sqrt(count)
            by_samples[name] = control.margin * np.sqrt(over_neighbours(spread**2))
        first = found[0][0]
        curves = first.filled(values)
        return Estimate(nodes, curves, by_steps, by_samples)

    # --- the result --------------------------------------------------------------------------------------------------
    def _excess(self, estimate: Estimate, errors: Mapping[str, Array]) -> float:
        """Return the largest error of what is watched, in units of the tolerance."""
        return max(excesses(self.plan, self.options, estimate.curves, errors).values(), default=0.0)

    def _package(self, estimate: Estimate, steps: float, paths: int, number: int, params: Mapping[str, Any]) -> Result:
        kept = self._paths(self._last(steps, paths, number)) if self.options.paths else []
        stats = {"nodes": 2 * len(estimate.nodes) - 1, "paths": paths, "samples": self.control.batches}
        curves, errors = estimate.curves, estimate.errors
        return package(self.plan, self.options, estimate.nodes, curves, errors, kept, params, stats)

    def _paths(self, marched: Marched) -> list[PathSet]:
        """Return the paths that are kept: both signs of some."""
        made = []
        for item in marched.ensembles:
            half, some = item.paths // 2, min(_KEPT, item.paths) // 2
            kept = np.r_[0:some, half : half + some] if half else np.arange(item.paths)
            constants = {name: item.backend.get(values)[kept] for name, values in item.samples[-1].constants.items()}
            values = {name: item.backend.get(table[:, kept].T) for name, table in item.kept.items()}
            made.append(PathSet(np.full(len(kept), 1.0 / len(kept)), constants, values))
        return made


def _halved(values: Array) -> Array:
    """Return values on every other node, of one or two times after the samples."""
    return values[:, ::2] if values.ndim == 2 else values[:, ::2, ::2]


def _doubled(values: Array, size: int) -> Array:
    """Return values on every other node on all nodes: the larger of two neighbours."""
    for axis in range(values.ndim):
        wide = np.repeat(values, 2, axis=axis)
        wide = np.take(wide, range(size), axis=axis)
        values = np.maximum(wide, np.take(wide, np.minimum(np.arange(size) + 1, size - 1), axis=axis))
    return values


def _smeared(values: Array) -> Array:
    """Return the largest of neighbouring values: one may be small by chance."""
    for axis in range(values.ndim):
        last = values.shape[axis] - 1
        near = [np.take(values, np.clip(np.arange(last + 1) + k, 0, last), axis=axis) for k in (-1, 0, 1)]
        values = np.max(near, axis=0)
    return np.asarray(values)
