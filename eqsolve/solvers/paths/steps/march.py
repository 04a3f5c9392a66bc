"""One sample in discrete time: at each node all ensembles in rounds, until their means have come to rest, then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.stochastic import StochasticPlan
from eqsolve.numerics.arrays import ROUNDING, Array
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels, evaluate
from eqsolve.solvers.paths.steps.draws import StepsSample
from eqsolve.solvers.paths.steps.ensemble import Ensemble


@dataclass(frozen=True, eq=False)
class StepsMarch:
    """Kernels for the means of one sample, and its ensembles."""

    kernels: Kernels
    ensembles: tuple[Ensemble, ...]


def march(plan: StochasticPlan, grid: OperatorGrid, samples: Sequence[StepsSample]) -> StepsMarch:
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


def _kernels(plan: StochasticPlan, head: OperatorGrid, means: Mapping[str, Array], node: int) -> Kernels:
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
