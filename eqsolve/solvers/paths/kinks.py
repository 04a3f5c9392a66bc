"""Averages of functions with a kink at a solution, and their error.

They act back on nothing, so that paths are enough, without their responses: independent scrambled Sobol sets of them, as large
as their spread asks for.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.paths.control import Control
from eqsolve.solvers.paths.iterate import Solved
from eqsolve.solvers.paths.judge import Curves, Errors, Judge
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.sweep import Engine, Means, draw_paths

logger = logging.getLogger("eqsolve")


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
    # paths of a set: without responses they cost nodes² each
    paths, most = control.sample, max(control.most_sample, control.quick / (32 * solved.grid.size**2))
    most = int(2 ** math.floor(math.log2(most)))
    try:
        moved = [_average(engine, engine.kernels(solved.grid, means), solved, bent, paths, seed + 1) for means in others]
        still, apart = np.zeros(solved.grid.size), dict[str, Array]()
        while True:
            sets = [_average(engine, solved.kernels, solved, bent, paths, seed + 1 + k) for k in range(control.sets)]
            apart = apart or {
                name: np.max([still, *(np.abs(item[name] - sets[0][name]) for item in moved)], axis=0) for name in bent
            }
            centre = {name: np.mean([item[name] for item in sets], axis=0) for name in bent}
            means = solved.means | centre
            made = replace(solved, means=means, kernels=engine.kernels(solved.grid, means))
            curves = judge.curves(made)

            def over(change: Means, made: Solved = made, curves: Curves = curves) -> tuple[Errors, float]:
                moved = {name: made.means[name] + value for name, value in change.items()}
                found = judge.change(curves, made.grid, {**made.means, **moved})
                known = {name: found[name] for name in engine.plan.bent}
                return known, max(judge.excess(curves, {name: known[name] + by_panels[name]}, name) for name in known)

            # standard errors of the average with a margin: few sets may agree by chance
            spread = {
                name: 2.0 * np.std([item[name] for item in sets], axis=0, ddof=1) / math.sqrt(control.sets) for name in bent
            }
            errors, worst = over({name: apart[name] + value for name, value in spread.items()})
            logger.info("means with kinks: %d independent sets of %d paths scatter by %.2g times the tolerance",
                        control.sets, paths, worst)  # fmt: skip
            least = over(apart)[1]  # which more paths do not change
            if worst <= max(0.9, 1.2 * least) or paths >= most or judge.options.is_short_of_time():
                break
            paths = min(most, 2 ** math.ceil(math.log2(paths * max((1.3 * worst / 0.9) ** 1.2, 2.0))))
    except (SolverError, MemoryError) as reason:
        logger.info("means with kinks: no more paths: %s", reason)
    return made, errors


def _average(engine: Engine, kernels: Kernels, solved: Solved, bent: list[str], count: int, seed: int) -> Means:
    """Return averages over about ``count`` sampled paths of every ensemble."""
    return {
        name: value for item in solved.averages for name, value in _means(engine, kernels, item, bent, count, seed).items()
    }


def _means(engine: Engine, kernels: Kernels, item: Averages, bent: list[str], count: int, seed: int) -> Means:
    """Return averages over about ``count`` sampled paths of an ensemble, without their responses."""
    plan = item.paths.plan
    wanted = [mean for mean in plan.means if mean.name in bent]
    if not wanted:
        return {}
    points = item.choice.points
    values = {name: value for name, value in points.constants.items() if name not in points.scales}
    combinations = len({*zip(*values.values(), strict=True)}) if values else 1
    most = 2 ** max(5, round(math.log2(count / combinations)))
    rule = math.ceil((1.5 if seed % 2 else 2) * item.choice.level.constants)  # so that sets differ in that respect too
    level = replace(item.choice.level, most=most, seed=seed, constants=rule)
    paths = draw_paths(engine, kernels, plan, level, item.choice.shapes, "single").follow()
    return {mean.name: paths.values(mean.factors)[0] @ paths.points.weights for mean in wanted}
