"""Averages of functions with a kink at a solution, and their error.

They act back on nothing, so that paths are enough, without their responses. Where the constants allow it few paths do,
with stand-ins for the others (see ``stand_ins``); elsewhere they are sampled.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.gaussian import Layout
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.stochastic.control import Control
from eqsolve.solvers.stochastic.iterate import Solved
from eqsolve.solvers.stochastic.judge import Curves, Errors, Judge
from eqsolve.solvers.stochastic.means import Averages
from eqsolve.solvers.stochastic.modes import choose, draw, groups_of
from eqsolve.solvers.stochastic.paths import act, follow
from eqsolve.solvers.stochastic.stand_ins import Sampler, Sets, make_sampler, three_levels
from eqsolve.solvers.stochastic.sweep import Engine, Means

logger = logging.getLogger("eqsolve")


@dataclass(frozen=True)
class _Effort:
    """Paths in a set of plain sampling; and in a set with stand-ins, beside points at which none is followed."""

    sample: int
    paths: int
    points: int


def average_kinks(
    judge: Judge, solved: Solved, others: Sequence[Means], by_panels: Errors, control: Control
) -> tuple[Solved, Errors]:
    """Return a solution with averages of functions with a kink, and the error that independent sets of points show.

    ``others`` are the means that other points ask for: how far the averages move with them is part of the error.
    """
    engine, seed = judge.engine, judge.options.seed
    bent = [mean.name for item in engine.plan.ensembles for mean in item.means if mean.bent and not mean.acts]
    bent = [name for name in bent if solved.means[name].ndim == 1]
    if not bent:
        return solved, {}
    curves = judge.curves(solved)
    made, errors = solved, {name: np.abs(curves.single[name]) for name in engine.plan.bent}
    effort = _Effort(control.sample, control.paths, control.points)
    try:
        samplers = [_sampler(engine, solved.kernels, item, bent) for item in solved.averages]
        apart = _moved(engine, solved, others, bent, samplers, effort, seed)
        while True:
            sets = _average(engine, solved, bent, samplers, effort, control.sets, seed)
            if any(samplers) and not sets.is_finite():  # stand-ins leave where the functions have values
                samplers = [None] * len(samplers)
                continue
            means = solved.means | sets.means()
            made = replace(solved, means=means, kernels=engine.kernels(solved.grid, means))
            curves = judge.curves(made)

            def over(change: Means, made: Solved = made, curves: Curves = curves) -> tuple[Errors, float]:
                moved = {name: made.means[name] + value for name, value in change.items()}
                found = judge.change(curves, made.grid, {**made.means, **moved})
                known = {name: found[name] for name in engine.plan.bent}
                return known, max(judge.excess(curves, {name: known[name] + by_panels[name]}, name) for name in known)

            errors, worst = over({name: apart[name] + value for name, value in sets.spread().items()})
            logger.info("kinks: %d sets of %s, error %.2g of the tolerance", control.sets, _told(effort, samplers), worst)
            if worst <= 0.9:
                break
            parts = {part: over(sets.spread(part))[1] for part in ("cheap", "rest")}
            if any(samplers) and parts["rest"] > parts["cheap"] and sets.gain() < control.gain:
                logger.info("kinks: stand-ins for paths do not help; paths are sampled")
                samplers = [None] * len(samplers)
                continue
            more = _more(effort, parts, samplers, control)
            if more == effort:
                break
            effort = more
    except (SolverError, MemoryError) as reason:
        logger.info("more points for kinks cannot be had: %s", reason)
    return made, errors


def _told(effort: _Effort, samplers: Sequence[Sampler | None]) -> str:
    if any(samplers):
        return f"{effort.paths} paths and {effort.points} points of stand-ins"
    return f"{effort.sample} paths"


def _more(effort: _Effort, parts: Mapping[str, float], samplers: Sequence[Sampler | None], control: Control) -> _Effort:
    """Return an effort that should do, given what the spreads of the parts are in tolerances; the same if none can.

    Spreads of points fall nearly with their number; those of paths faster, as stand-ins are fitted to more of them.
    """

    def grown(now: int, over: float, fair: int, most: int, rate: float = 1.0) -> int:
        needed = now * max((over / 0.6) ** (1 / rate), 2.0)
        limit = most if needed <= 4 * most else max(fair, now)
        return min(max(limit, now), 2 ** int(math.log2(needed))) if over > 0.3 else now

    sample, paths, points = effort.sample, effort.paths, effort.points
    if None in samplers:
        sample = grown(sample, parts["rest"], control.fair_sample, control.most_sample)
    if any(samplers):
        paths = grown(paths, parts["rest"], control.fair_paths, control.most_paths, rate=2.0)
        points = grown(points, parts["cheap"], control.fair_points, control.most_points)
    return _Effort(sample, paths, points)


def _sampler(engine: Engine, kernels: Kernels, item: Averages, bent: list[str]) -> Sampler | None:
    if item.choice.layout.kind == "sample":  # too many modes matter for stand-ins
        return None
    wanted = [mean for mean in item.paths.plan.means if mean.name in bent]
    return make_sampler(engine, kernels, item.paths.plan, wanted, item.choice.level)


def _average(
    engine: Engine, solved: Solved, bent: list[str], samplers: Sequence[Sampler | None], effort: _Effort, sets: int, seed: int
) -> Sets:
    """Return the averages of all independent sets."""
    made = Sets({}, {}, {})
    for item, sampler in zip(solved.averages, samplers, strict=True):
        wanted = [mean.name for mean in item.paths.plan.means if mean.name in bent]
        if not wanted:
            continue
        if sampler is not None:
            found = three_levels(sampler, effort.paths, effort.points, sets, seed)
        else:
            every = [_means(engine, solved.kernels, item, bent, effort.sample, seed + 1 + k) for k in range(sets)]
            plain = {name: np.array([entry[name] for entry in every]) for name in wanted}
            found = Sets({name: np.zeros_like(values) for name, values in plain.items()}, plain, plain)
        made = Sets(made.cheap | found.cheap, made.rest | found.rest, made.plain | found.plain)
    return made


def _moved(
    engine: Engine, solved: Solved, others: Sequence[Means], bent: list[str], samplers: Sequence[Sampler | None],
    effort: _Effort, seed: int,
) -> Means:  # fmt: skip
    """Return how far averages move with the solution, under other points for the latter."""
    apart = {name: np.zeros(solved.grid.size) for name in bent}
    moved = [engine.kernels(solved.grid, means) for means in others]
    for item, sampler in zip(solved.averages, samplers, strict=True):
        if sampler is None:
            every = [_means(engine, kernels, item, bent, effort.sample, seed + 1) for kernels in (solved.kernels, *moved)]
        else:
            batch = sampler.follow(sampler.draw(2 * effort.paths, seed + 1))
            near = [sampler.at(kernels).follow(batch.x, batch.unknowns) for kernels in moved]
            every = [sampler.average(entry) for entry in (batch, *near)]
        for there in every[1:]:
            apart |= {name: np.maximum(apart[name], np.abs(value - every[0][name])) for name, value in there.items()}
    return apart


def _means(engine: Engine, kernels: Kernels, item: Averages, bent: list[str], count: int, seed: int) -> Means:
    """Return averages over about ``count`` sampled paths of an ensemble, without their responses."""
    plan = item.paths.plan
    wanted = [mean for mean in plan.means if mean.name in bent]
    if not wanted:
        return {}
    groups = [group for group in groups_of(engine.plan.covariances, kernels) if group.noises[0] in plan.noises]
    actions = act(plan, kernels)
    points = item.choice.points
    values = {name: value for name, value in points.constants.items() if name not in points.scales}
    combinations = len({*zip(*values.values(), strict=True)}) if values else 1
    most = 2 ** max(5, round(math.log2(count / combinations)))
    rule = math.ceil((1.5 if seed % 2 else 2) * item.choice.level.constants)  # so that sets differ in that respect too
    level = replace(item.choice.level, most=most, seed=seed, constants=rule)
    choice = choose(plan, kernels, groups, actions.drives, engine.laws, level, Layout("single"), None)
    drawn = draw(plan, groups, choice, aligned=False)
    backend = engine.backend(plan, kernels.grid.size, len(choice.points.weights))
    paths = follow(plan, kernels, actions, choice.points, drawn, engine.accuracy, None, backend, engine.threads)
    return {mean.name: paths.values(mean.factors)[0] @ choice.points.weights for mean in wanted}
