"""Averages of functions with a kink over samples of paths through a solution, and their error.

They act back on nothing, so that paths are enough, without their responses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.gaussian import Layout
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.stochastic.control import Control
from eqsolve.solvers.stochastic.iterate import Solved
from eqsolve.solvers.stochastic.judge import Errors, Judge
from eqsolve.solvers.stochastic.means import Averages
from eqsolve.solvers.stochastic.modes import choose, draw, groups_of
from eqsolve.solvers.stochastic.paths import act, follow
from eqsolve.solvers.stochastic.sweep import Engine, Means

__all__ = ["average_kinks"]

logger = logging.getLogger("eqsolve")


def average_kinks(
    judge: Judge, solved: Solved, others: Sequence[Means], by_panels: Errors, control: Control
) -> tuple[Solved, Errors]:
    """Return a solution with averages of functions with a kink, and the error that independent samples show.

    ``others`` are the means that other points ask for: how far the averages move with them is part of the error.
    """
    engine, seed = judge.engine, judge.options.seed
    bent = [mean.name for item in engine.plan.ensembles for mean in item.means if mean.bent and not mean.acts]
    bent = [name for name in bent if solved.means[name].ndim == 1]
    if not bent:
        return solved, {}
    count = control.sample
    curves = judge.curves(solved)
    made, errors = solved, {name: np.abs(curves.single[name]) for name in engine.plan.bent}
    try:
        apart = _moved(engine, solved, others, bent, count, seed)
        while True:
            sets = [_means(engine, solved.kernels, solved.averages, bent, count, seed + 1 + k) for k in range(control.sets)]
            table = {name: np.array([entry[name] for entry in sets]) for name in bent}
            means = solved.means | {name: values.mean(axis=0) for name, values in table.items()}
            made = replace(solved, means=means, kernels=engine.kernels(solved.grid, means))
            moved = {
                name: means[name] + apart[name] + 2 * values.std(axis=0, ddof=1) / math.sqrt(len(sets))
                for name, values in table.items()
            }
            curves = judge.curves(made)
            changes = judge.change(curves, made.grid, {**means, **moved})
            errors = {name: changes[name] for name in engine.plan.bent}
            worst = max(judge.excess(curves, {name: errors[name] + by_panels[name]}, name) for name in errors)
            logger.info("kinks: %d sets of %d paths, error %.2g of the tolerance", len(sets), count, worst)
            needed = count * max(worst / 0.7, 2.0)
            most = control.most_sample if needed <= 4 * control.most_sample else control.fair_sample
            if worst <= 0.9 or count >= most:
                break
            count = min(most, 2 ** math.ceil(math.log2(needed)))
    except (SolverError, MemoryError) as reason:
        logger.info("more points for kinks cannot be had: %s", reason)
    return made, errors


def _moved(engine: Engine, solved: Solved, others: Sequence[Means], bent: list[str], count: int, seed: int) -> Means:
    """Return how far averages move with the solution, under other points for the latter."""
    apart = {name: np.zeros(solved.grid.size) for name in bent}
    if others:
        first = _means(engine, solved.kernels, solved.averages, bent, count, seed + 1)
        for means in others:
            there = _means(engine, engine.kernels(solved.grid, means), solved.averages, bent, count, seed + 1)
            apart = {name: np.maximum(apart[name], np.abs(there[name] - first[name])) for name in bent}
    return apart


def _means(engine: Engine, kernels: Kernels, averages: tuple[Averages, ...], bent: list[str], count: int, seed: int) -> Means:
    """Return averages over about ``count`` sampled paths, without their responses."""
    every, made = groups_of(engine.plan.covariances, kernels), {}
    for item in averages:
        plan = item.paths.plan
        wanted = [mean for mean in plan.means if mean.name in bent]
        if not wanted:
            continue
        groups = [group for group in every if group.noises[0] in plan.noises]
        actions = act(plan, kernels)
        values = item.choice.points.constants
        combinations = len({*zip(*values.values(), strict=True)}) if values else 1
        most = 2 ** max(5, round(math.log2(count / combinations)))
        rule = math.ceil((1.5 if seed % 2 else 2) * item.choice.level.constants)  # so that sets differ in that respect too
        level = replace(item.choice.level, most=most, seed=seed, constants=rule)
        choice = choose(plan, kernels, groups, actions.drives, engine.laws, level, Layout("single"), None)
        drawn = draw(plan, groups, choice, aligned=False)
        paths = follow(plan, kernels, actions, choice.points, drawn, engine.accuracy)
        for mean in wanted:
            made[mean.name] = paths.values(mean.factors)[0] @ choice.points.weights
    return made
