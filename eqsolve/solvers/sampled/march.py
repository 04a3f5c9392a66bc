"""One march of samples in time: all paths of all ensembles by one step, then the means at the new time, and on.

Several samples are marched at once, each self-consistent by itself: to begin what is done at a node takes as long for all of
them as for one.

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


@dataclass(frozen=True, eq=False)
class Marched:
    """Kernels for the means of each sample, the factors of its noises by ensemble and group, and their ensembles."""

    kernels: tuple[Kernels, ...]
    factors: tuple[tuple[tuple[tuple[int, Array], ...], ...], ...]
    ensembles: tuple[Ensemble, ...]
    rounds: float


def march(
    plan: StochasticPlan,
    nodes: Array,
    samples: Sequence[Sequence[Draw]],
    starts: Sequence[Starts],
    tangents: int,
    settled: float,
    most: int,
    backend: Backend = CPU,
) -> Marched:
    """Advance samples, each a draw for every ensemble, over all nodes.

    ``tangents`` is the number of paths of which linear responses are followed; means at a new node are iterated until those
    of all samples change by less than ``settled``, relative, at most ``most`` times.
    """
    grid, size = OperatorGrid.trapezoid(nodes), len(nodes)
    every = [mean for item in plan.ensembles for mean in item.means]
    shapes = {mean.name: (size,) if mean.kind == "one" else (size, size) for mean in every}
    means = [{name: np.zeros(shape) for name, shape in shapes.items()} for _ in samples]
    ensembles = [
        Ensemble(
            item,
            [c for c in plan.covariances if c.noises[0] in item.noises],
            dict(plan.whites),
            grid,
            [sample[place] for sample in samples],
            start,
            tangents,
            backend,
        )
        for place, (item, start) in enumerate(zip(plan.ensembles, starts, strict=True))
    ]
    acting, responses = [mean.name for mean in every if mean.acts], frozenset(m.name for m in every if m.kind == "response")
    rounds = 0
    for node in range(size):
        for own in means:
            continue_means(own, node, responses)
        head = grid.head(node + 1)
        last = np.zeros(len(samples))
        for _ in range(most):
            rounds += 1
            kernels = [evaluate(plan.definitions, head, _up_to(own, node)) for own in means]
            before = [{name: _slice(own[name], node) for name in acting} for own in means]
            for item in ensembles:
                item.step(node, kernels)
                item.average(node, kernels, means)
            change = np.array([_change(own, old, node) for own, old in zip(means, before, strict=True)])
            ahead = change * np.minimum(change / np.where(last > 0, last, 1.0), 1.0)  # what the next would change
            if ((change == 0) | ((last > 0) & (ahead <= settled))).all():  # what nodes leave adds up
                break
            last = change
        kernels = [evaluate(plan.definitions, head, _up_to(own, node)) for own in means]
        for item in ensembles:
            item.keep(node, kernels)
    factors = tuple(
        tuple(tuple((len(group.noises), group.factors[b].rows) for group in item.groups) for item in ensembles)
        for b in range(len(samples))
    )
    found = tuple(evaluate(plan.definitions, grid, own) for own in means)
    return Marched(found, factors, tuple(ensembles), rounds / size)


def _up_to(means: Mapping[str, Array], node: int) -> dict[str, Array]:
    n = node + 1
    return {name: value[:n] if value.ndim == 1 else value[:n, :n] for name, value in means.items()}


def _slice(value: Array, node: int) -> Array:
    return value[node : node + 1].copy() if value.ndim == 1 else np.concatenate([value[node, : node + 1], value[:node, node]])


def _change(means: Mapping[str, Array], before: Mapping[str, Array], node: int) -> float:
    """Return how far the means at a node moved, in units of the largest value of each."""
    worst = 0.0
    for name, old in before.items():
        scale = float(np.abs(means[name]).max()) or 1.0
        worst = max(worst, float(np.abs(_slice(means[name], node) - old).max()) / scale)
    return worst
