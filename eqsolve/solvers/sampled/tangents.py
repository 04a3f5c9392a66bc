"""Linear responses along some of the paths, advanced with them: the tangent of the trapezoidal step.

Beside the paths themselves two more are followed, with the mean slopes of these paths and of all paths: what they
differ by is, to first order, what the mean response of some paths lacks to that of all. Several samples are advanced at once.
Cost: nodes² × paths, with memory nodes³ × paths / 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import EnsemblePlan, MeanPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.elimination import invert
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.sampled.state import at_node

_NUMBERS = 1e8  # held at most for what memory needs


class Tangents:
    """The responses of all unknowns to one noise at all earlier nodes, (unknown, sample, path, node)."""

    def __init__(
        self,
        plan: EnsemblePlan,
        grid: OperatorGrid,
        noise: str,
        asked: Sequence[MeanPlan],
        samples: int,
        paths: int,
        remembered: Sequence[int],
        backend: Backend = CPU,
    ) -> None:
        size = grid.size
        if remembered:
            paths = max(1, min(paths, int(_NUMBERS / (size * size * len(remembered)))))
        self.plan, self.grid, self.noise, self.asked = plan, grid, noise, tuple(asked)
        self.samples, self.paths = samples, paths
        self.backend, zeros = backend, backend.arrays.zeros
        self.made = zeros((len(plan.unknowns), samples, paths + 2, size))
        self.drift = zeros((len(plan.unknowns), samples, paths + 2, size))
        self.effects = {k: zeros((samples, size, paths + 2, size)) for k in remembered}
        self.second = {mean.name: zeros((samples, paths, size)) for mean in asked}
        self.last: tuple[Any, Any, dict[int, Any], Array] | None = None

    def _some(self, values: Any) -> Any:
        """Return values on the paths followed, their mean, and the mean over all paths (last axis)."""
        mine = values[..., : self.paths]
        return np.concatenate([mine, mine.mean(axis=-1, keepdims=True), values.mean(axis=-1, keepdims=True)], axis=-1)

    def step(
        self,
        node: int,
        kernels: Sequence[Kernels],
        weights: Array,
        factors: Array,
        all_slopes: Any,
        all_noise_slopes: Any,
    ) -> None:
        """Advance the responses to a node; ``keep`` keeps them."""
        plan, count, n = self.plan, len(self.plan.unknowns), node + 1
        arrays, put = self.backend.arrays, self.backend.put
        slopes = self._some(all_slopes)
        known = arrays.zeros((count, self.samples, self.paths + 2, n))
        for link in plan.links:
            if link.kernel is not None and node:
                scales = np.broadcast_to(at_node(kernels, link.coefficient, node), len(kernels))
                for b, (own, scale) in enumerate(zip(kernels, scales, strict=True)):
                    row = put(scale * own.operator(link.kernel)[node, :node])
                    past = self.effects[link.signal][b, :node, :, :node]
                    known[link.unknown, b, :, :node] += np.tensordot(row, past, axes=1)
        source = np.zeros((count, self.samples))
        entries = [*plan.drives, *plan.kicks]
        for item in entries:
            if item.noise == self.noise:
                source[item.unknown] += at_node(kernels, item.coefficient, node)
        known[..., node] += put(source[:, :, None])
        direct = arrays.zeros((plan.count, self.samples, self.paths + 2))
        if all_noise_slopes is not None and self.noise in plan.noises:
            direct = self._some(all_noise_slopes[:, plan.noises.index(self.noise)])
        integrated = arrays.asarray(np.array(plan.integrated, dtype=bool)[:, None, None, None])
        if node == 0:
            base = np.where(integrated, 0.0, known)
        else:
            half = put(factors[:, None, None, None])
            base = np.where(integrated, self.made[..., :n] + half * (self.drift[..., :n] + known), known)
        acting = put((factors[:, None, None] * weights)[..., None])
        pairs = sorted({(link.unknown, link.signal) for link in plan.links})
        matrix = arrays.zeros((count, count, self.samples, self.paths + 2))
        for a in range(count):
            matrix[a, a] = 1.0
        for a, k in pairs:
            base[a, :, :, node] += acting[a, k] * direct[k]
            matrix[a] -= acting[a, k] * slopes[k]
        inverse = invert(matrix)
        made = np.empty_like(base)
        for a in range(count):
            made[a] = sum(inverse[a, b][..., None] * base[b] for b in range(count))
        effects: dict[int, Any] = {}
        for k in sorted({*self.effects, *(k for _, k in pairs)}):
            effects[k] = sum((slopes[k, b][..., None] * made[b] for b in range(count)), arrays.zeros(made.shape[1:]))
            effects[k][..., node] += direct[k]
        drift, placed = known, put(weights[..., None, None])
        for a, k in pairs:
            drift[a] += placed[a, k] * effects[k]
        self.last = (made, drift, effects, source)

    def keep(self, node: int) -> None:
        assert self.last is not None
        made, drift, effects, _ = self.last
        self.made[..., : node + 1], self.drift[..., : node + 1] = made, drift
        for k, history in self.effects.items():
            history[:, node, :, : node + 1] = effects[k]

    def average(self, node: int, mean: MeanPlan, kernels: Sequence[Kernels], arguments: list[Any]) -> Array:
        """Return the row of a response E[a(t) ∂output(t)/∂noise(t') b(t')] at a node, as an operator, by sample."""
        assert self.last is not None
        assert mean.by_unknown is not None
        made, _, _, source = self.last
        first, second = mean.factors(*arguments)[:2]
        outputs = mean.by_unknown(*arguments)
        sizes = [np.shape(value)[-1] for value in (first, second, *outputs) if np.ndim(value)]
        width = max([self.paths, *sizes])
        total = self.backend.arrays.zeros((self.samples, node + 1))
        self.second[mean.name][:, :, node] = second[:, : self.paths] if np.ndim(second) else second
        past = self.second[mean.name][:, :, : node + 1]
        for b, output in enumerate(outputs):
            weight = self.backend.full(output * first, (self.samples, width))
            mine = weight[:, : self.paths]
            if mean.plain:
                rows = (mine[:, None, :] @ made[b, :, : self.paths])[:, 0] / self.paths
                rows += weight.mean(axis=-1, keepdims=True) * made[b, :, self.paths + 1]
                rows -= mine.mean(axis=-1, keepdims=True) * made[b, :, self.paths]
                total += rows * past[:, 0]
            else:
                total += (mine[:, :, None] * made[b, :, : self.paths] * past).mean(axis=1)
            if not self.plan.integrated[b]:
                total[:, node] -= self.backend.put(source[b]) * (mine * past[:, :, node]).mean(axis=-1)
        rows = self.backend.get(total)
        if mean.outers[0] is not None:
            tables = [np.asarray(own.pointwise(mean.outers[0]), float) for own in kernels]
            rows = rows * np.stack([np.broadcast_to(table, (node + 1, node + 1))[node] for table in tables])
        return rows
