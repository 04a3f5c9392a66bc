"""A solution of a Gaussian system as a result: curves, kernels, and a sample of paths drawn from the law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Layout, factor_covariance, make_points
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.laws import Law, Normal
from eqsolve.numerics.levels import make_level
from eqsolve.numerics.rows import RowStore
from eqsolve.results.dynamics import Kernel, PathSet, dynamics_result
from eqsolve.results.result import Result
from eqsolve.solvers.gaussian.averages import Averages
from eqsolve.solvers.gaussian.march import Marched
from eqsolve.solvers.gaussian.rough import cut_rows
from eqsolve.solvers.options import Options
from eqsolve.solvers.stochastic.judge import Curves, Errors
from eqsolve.solvers.stochastic.modes import Group, groups_of
from eqsolve.solvers.stochastic.sweep import Engine


def package(
    engine: Engine, solved: Marched, grid: PanelGrid, curves: Curves, errors: Errors, over: Mapping[str, float],
    options: Options, params: Mapping[str, Any], kept: int,
) -> Result:  # fmt: skip
    """Return the result on a grid of panels, whose nodes are among those of the solution.

    ``over`` are the errors in units of the tolerance, ``kept`` is how many paths are drawn.
    """
    name, worst = max(over.items(), key=lambda item: item[1], default=("", 0.0))
    tables = {**curves.tables, **curves.values}
    make_rows = RowStore.from_tables if solved.grid.panels is not None else cut_rows
    kernels = {key: Kernel(table, errors[key], True) for key, table in curves.tables.items()}
    kernels |= {key: Kernel(np.tril(v), np.tril(errors[key]), False) for key, v in curves.values.items()}
    reason = f"the error estimate of `{name}` is {worst:.3g} times the tolerance rtol={options.rtol:g}"
    return dynamics_result(
        model=engine.plan.name, params=params, grid=grid, curves=curves.single, errors=errors, kernels=kernels,
        rows=make_rows(grid, tables) if kernels else None,
        paths=_draw(solved, grid.size, kept, options.seed) if options.paths else (),
        stats={
            "panels": grid.panels, "nodes": solved.grid.size, "paths": 0, "sweeps": engine.work.sweeps, "left": solved.left,
            "terms": max((item.terms for laws in solved.laws for item in laws), default=0),
        },
        failure=None if worst <= 1.0 else ("tolerance not met", reason),
    )  # fmt: skip


def _draw(solved: Marched, size: int, kept: int, seed: int) -> list[PathSet]:
    """Return paths drawn from the law of every ensemble, on ``size`` of the nodes, evenly among them.

    Combinations of other constants have equal numbers of them.
    """
    groups, every = groups_of(solved.covariances, solved.kernels, whole=True), (solved.grid.size - 1) // (size - 1)
    made = []
    for laws in solved.laws:
        own = [group for group in groups if group.noises[0] in laws[0].law.plan.noises]
        count = max(kept // len(laws), 64)
        parts = [_sample(item, solved, own, count, seed) for item in laws]
        weights = np.concatenate([weights for weights, _, _ in parts])
        constants, processes = (
            {name: np.concatenate([part[place][name] for part in parts]) for name in parts[0][place]} for place in (1, 2)
        )
        made.append(PathSet(weights, constants, {name: table[:, ::every] for name, table in processes.items()}))
    return made


def _sample(
    item: Averages, solved: Marched, groups: list[Group], count: int, seed: int
) -> tuple[Array, dict[str, Array], dict[str, Array]]:
    """Return weights, constants and processes of paths of one law."""
    law, kernels = item.law, solved.kernels
    plan, condition, size = law.plan, law.condition, kernels.grid.size
    factors = [factor_covariance(group.covariance) for group in groups]
    pairs = zip(law.law.affine, condition.centres, condition.variances, strict=True)
    free: dict[str, Law] = {name: Normal(float(centre), float(spread)) for name, centre, spread in pairs if spread > 0}
    level = replace(make_level(1e-2, seed), most=count)
    steps = law.steps.stop - law.steps.start
    points = make_points(sum(factor.shape[1] for factor in factors) + steps * size, Layout("draws"), free, level)
    count = len(points.weights)
    constants = {name: np.full(count, value) for name, value in condition.values.items()} | points.constants
    noises, position = np.zeros((law.noises.shape[2], size, count)), 0
    for group, factor in zip(groups, factors, strict=True):
        values = factor @ points.normals[position : position + factor.shape[1]]
        position += factor.shape[1]
        for noise, centre in zip(group.noises, group.centres, strict=True):
            noises[plan.noises.index(noise)] = values[group.rows(noise)] + centre[:, None]
    noises[law.steps] = points.normals[position:].reshape(steps, size, count)
    fixed = np.array([*(constants[name] for name in law.law.affine), np.ones(count)])
    unknowns = law.constants @ fixed + np.einsum("undj,djp->unp", law.noises, noises, optimize=True)
    inputs = [
        kernels.grid.nodes[:, None], *unknowns, *noises[: len(plan.noises)],
        *(constants[name][None, :] for name in plan.constants),
        *(kernels.functions[name][:, None] for name in plan.functions),
    ]  # fmt: skip
    signals = zip(plan.memories, plan.memory_signals(*inputs), strict=True)
    inputs += [kernels.operator(memory) @ np.broadcast_to(signal, (size, count)) for memory, signal in signals]
    shown = zip(plan.processes, plan.process_values(*inputs), strict=True)
    return (
        condition.weight * points.weights,
        constants,
        {name: np.broadcast_to(value, (size, count)).T.copy() for name, value in shown},
    )
