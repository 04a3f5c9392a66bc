"""One march of a sample in time: all paths of all ensembles by one step, then the means at the new time, and on.

At a new node the means with all earlier nodes are guessed, the covariances of the noises follow, the new noise values are
drawn given the past, the paths take one trapezoidal step, and the means are taken again: a few times, since the step is
short. Cost: nodes² × paths for noises and correlations, nodes² × paths for responses (nodes³ with memory) on some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.stochastic import StochasticPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels, evaluate
from eqsolve.solvers.continuing import continue_means
from eqsolve.solvers.sampled.draws import Draw, Starts
from eqsolve.solvers.sampled.ensemble import Ensemble

__all__ = ["Marched", "march"]


@dataclass(frozen=True, eq=False)
class Marched:
    """Kernels for the means of one sample, the factors of its noises by ensemble and group, and its ensembles."""

    kernels: Kernels
    factors: tuple[tuple[tuple[int, Array], ...], ...]
    ensembles: tuple[Ensemble, ...]
    rounds: float


def march(
    plan: StochasticPlan,
    nodes: Array,
    samples: Sequence[Draw],
    starts: Sequence[Starts],
    tangents: int,
    settled: float,
    most: int,
    backend: Backend = CPU,
) -> Marched:
    """Advance a sample over all nodes.

    ``tangents`` is the number of paths of which linear responses are followed; means at a new node are iterated until they
    change by less than ``settled``, relative, at most ``most`` times.
    """
    grid, size = OperatorGrid.trapezoid(nodes), len(nodes)
    every = [mean for item in plan.ensembles for mean in item.means]
    means = {mean.name: np.zeros(size) if mean.kind == "one" else np.zeros((size, size)) for mean in every}
    ensembles = [
        Ensemble(
            item,
            [c for c in plan.covariances if c.noises[0] in item.noises],
            dict(plan.whites),
            grid,
            sample,
            start,
            tangents,
            backend,
        )
        for item, sample, start in zip(plan.ensembles, samples, starts, strict=True)
    ]
    acting, responses = [mean.name for mean in every if mean.acts], frozenset(m.name for m in every if m.kind == "response")
    rounds = 0
    for node in range(size):
        continue_means(means, node, responses)
        head = grid.head(node + 1)
        last = 0.0
        for _ in range(most):
            rounds += 1
            local = {
                name: value[: node + 1] if value.ndim == 1 else value[: node + 1, : node + 1] for name, value in means.items()
            }
            kernels = evaluate(plan.definitions, head, local)
            before = {name: _slice(means[name], node) for name in acting}
            for item in ensembles:
                item.step(node, kernels)
                item.average(node, kernels, means)
            change = _change(means, before, node)
            if last and change * min(change / last, 1.0) <= settled:  # what the next would change; what nodes leave adds up
                break
            last = change
        kernels = evaluate(plan.definitions, head, local)
        for item in ensembles:
            item.keep(node, kernels)
    factors = tuple(tuple((len(group.noises), group.factor.rows) for group in item.groups) for item in ensembles)
    return Marched(evaluate(plan.definitions, grid, means), factors, tuple(ensembles), rounds / size)


def _slice(value: Array, node: int) -> Array:
    return value[node : node + 1].copy() if value.ndim == 1 else np.concatenate([value[node, : node + 1], value[:node, node]])


def _change(means: Mapping[str, Array], before: Mapping[str, Array], node: int) -> float:
    """Return how far the means at a node moved, in units of the largest value of each."""
    worst = 0.0
    for name, old in before.items():
        scale = float(np.abs(means[name]).max()) or 1.0
        worst = max(worst, float(np.abs(_slice(means[name], node) - old).max()) / scale)
    return worst
