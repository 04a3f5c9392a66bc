"""Linear responses along some of the paths, advanced with them: the tangent of the trapezoidal step.

Beside the paths themselves two more are followed, with the mean slopes of these paths and of all paths: what they
differ by is, to first order, what the mean response of some paths lacks to that of all. Cost: nodes² × paths, with memory
nodes³ × paths / 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Drive, EnsemblePlan, Kick, MeanPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.elimination import invert
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels

__all__ = ["Tangents"]

_NUMBERS = 3e7  # held at most for what memory needs


class Tangents:
    """The responses of all unknowns to one noise at all earlier nodes, (unknown, path, node)."""

    def __init__(
        self,
        plan: EnsemblePlan,
        grid: OperatorGrid,
        noise: str,
        asked: Sequence[MeanPlan],
        paths: int,
        remembered: Sequence[int],
        backend: Backend = CPU,
    ) -> None:
        size = grid.size
        if remembered:
            paths = max(1, min(paths, int(_NUMBERS / (size * size * len(remembered)))))
        self.plan, self.grid, self.noise, self.asked, self.paths = plan, grid, noise, tuple(asked), paths
        self.backend, zeros = backend, backend.arrays.zeros
        self.made = zeros((len(plan.unknowns), paths + 2, size))
        self.drift = zeros((len(plan.unknowns), paths + 2, size))
        self.effects = {k: zeros((size, paths + 2, size)) for k in remembered}
        self.second = {mean.name: zeros((size, paths)) for mean in asked}
        self.last: tuple[Any, Any, dict[int, Any], Array] | None = None

    def _some(self, values: Any) -> Any:
        """Return values on the paths followed, their mean, and the mean over all paths (last axis)."""
        mine = values[..., : self.paths]
        return np.concatenate([mine, mine.mean(axis=-1, keepdims=True), values.mean(axis=-1, keepdims=True)], axis=-1)

    def step(
        self, node: int, kernels: Kernels, weights: Array, factors: Array, all_slopes: Any, all_noise_slopes: Any
    ) -> None:
        """Advance the responses to a node; ``keep`` keeps them."""
        plan, count, n = self.plan, len(self.plan.unknowns), node + 1
        arrays, put = self.backend.arrays, self.backend.put
        slopes = self._some(all_slopes)
        known = arrays.zeros((count, self.paths + 2, n))
        for link in plan.links:
            if link.kernel is not None and node:
                scale = 1.0 if link.coefficient is None else float(kernels.vector(link.coefficient)[node])
                row = scale * kernels.operator(link.kernel)[node, :node]
                past = self.effects[link.signal][:node, :, :node]
                known[link.unknown, :, :node] += np.tensordot(put(row), past, axes=1)
        source = np.zeros(count)
        entries: list[Drive | Kick] = [*plan.drives, *plan.kicks]
        for item in entries:
            if item.noise == self.noise:
                source[item.unknown] += 1.0 if item.coefficient is None else float(kernels.vector(item.coefficient)[node])
        known[:, :, node] += put(source[:, None])
        direct = arrays.zeros((plan.count, self.paths + 2))
        if all_noise_slopes is not None and self.noise in plan.noises:
            direct = self._some(all_noise_slopes[:, plan.noises.index(self.noise)])
        integrated = arrays.asarray(np.array(plan.integrated, dtype=bool)[:, None, None])
        if node == 0:
            base, factors = np.where(integrated, 0.0, known), np.where(plan.integrated, 0.0, 1.0)
        else:
            half = put(factors[:, None, None])
            base = np.where(integrated, self.made[:, :, :n] + half * (self.drift[:, :, :n] + known), known)
        acting = put(factors[:, None] * weights)
        base[:, :, node] += acting @ direct
        matrix = arrays.empty((count, count, self.paths + 2))
        for a in range(count):
            for b in range(count):
                matrix[a, b] = float(a == b) - acting[a] @ slopes[:, b]
        inverse = invert(matrix)
        made = np.empty_like(base)
        for a in range(count):
            made[a] = sum(inverse[a, b][:, None] * base[b] for b in range(count))
        effects: dict[int, Any] = {}
        for k in (k for k in range(plan.count) if k in self.effects or weights[:, k].any()):
            effects[k] = sum((slopes[k, b][:, None] * made[b] for b in range(count)), arrays.zeros(made.shape[1:]))
            effects[k][:, node] += direct[k]
        drift = known
        for a, k in zip(*np.nonzero(weights), strict=True):
            drift[a] += float(weights[a, k]) * effects[k]
        self.last = (made, drift, effects, source)

    def keep(self, node: int) -> None:
        assert self.last is not None
        made, drift, effects, _ = self.last
        self.made[:, :, : node + 1], self.drift[:, :, : node + 1] = made, drift
        for k, history in self.effects.items():
            history[node, :, : node + 1] = effects[k]

    def average(self, node: int, mean: MeanPlan, kernels: Kernels, arguments: list[Any]) -> Array:
        """Return the row of a response E[a(t) ∂output(t)/∂noise(t') b(t')] at a node, as an operator."""
        assert self.last is not None
        assert mean.by_unknown is not None
        made, _, _, source = self.last
        first, second = mean.factors(*arguments)[:2]
        outputs = mean.by_unknown(*arguments)
        width = max((np.size(value) for value in (first, second, *outputs)), default=1)
        total = self.backend.arrays.zeros(node + 1)
        self.second[mean.name][node] = second[: self.paths] if np.ndim(second) else second
        past = self.second[mean.name][: node + 1].T
        for b, output in enumerate(outputs):
            weight = self.backend.full(output * first, (max(width, self.paths),))
            mine = weight[: self.paths]
            if mean.plain:
                total += (mine @ made[b, : self.paths]) / self.paths * past[0]
                total += (weight.mean() * made[b, self.paths + 1] - mine.mean() * made[b, self.paths]) * past[0]
            else:
                total += np.einsum("p,pj,pj->j", mine, made[b, : self.paths], past) / self.paths
            if not self.plan.integrated[b]:
                total[node] -= float(source[b]) * float((mine * past[:, node]).mean())
        row = self.backend.get(total)
        if mean.outers[0] is not None:
            table = np.broadcast_to(np.asarray(kernels.pointwise(mean.outers[0]), float), (node + 1, node + 1))
            row = row * table[node]
        return row
