"""Linear responses of all paths: the tangent equations solved exactly on the paths' own grid.

They give the responses that a system asks for, the mean responses of everything that is averaged, and how much responses
vary from path to path, by which modes are chosen. Cost: nodes³ × paths / 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsolve.compile.paths import CompiledMean
from eqsolve.language.nodes import E
from eqsolve.numerics.grids import Array
from eqsolve.solvers.stochastic.paths import Paths

__all__ = ["PathResponses"]

_ASIDE = 0.1  # how much the choice of modes minds what does not act back through correlations
_LOOK = 100  # paths looked at to choose modes
_CHUNK = 800_000  # numbers held at once for the responses


def _average(left: list[Array], tangents: Array) -> Array:
    """Return Σ_q left[k](i, q) tangents(q, i, j) for all k at once, shape (i, k, j)."""
    return np.asarray(np.matmul(np.stack(left, axis=1), tangents.transpose(1, 0, 2)))


def _bounded(slope: Any) -> Any:
    """Return a slope, zero where it has no value: at a kink that a path sits on."""
    return slope if np.isfinite(slope).all() else np.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)


class PathResponses(Paths):
    """Paths with their linear responses."""

    def _sources(self, noise: Any, part: Any) -> tuple[Array, Array | None]:
        """Return how a noise enters the path equations: the same for all paths, and on some paths."""
        count, size, paths = self.unknowns.shape
        source = np.zeros((count, size, size))
        for drive, matrix in self.drives:
            if drive.noise == noise:
                source[drive.unknown] += matrix
        if self.compiled.noise_slope_is_zero:
            return source, None
        inputs = self._arguments(slice(0, size), list(self.unknowns), self.noises)
        table = [np.broadcast_to(v, (size, paths)) for v in self.compiled.noise_slopes(*inputs)]
        index = self.compiled.source.noises.index(noise)
        return source, np.stack(table).reshape(self.compiled.count, -1, size, paths)[:, index][..., part]

    def shape(self) -> list[Array]:
        """Return, by group of noises, the quadratic form that tells how much the targets' responses vary.

        H = Σ over targets and times of the covariance over paths of the response to the noises, relative to the size of
        the target; what is linear in the noises does not contribute. Looked at on the heaviest paths.
        """
        assert self.points is not None
        weights = np.abs(self.points.weights)
        some = np.sort(np.argsort(-weights, kind="stable")[:_LOOK])
        mass = weights[some] / weights[some].sum()
        count, size = len(self.unknowns), self.state.grid.size
        arguments = [item[..., some] if np.ndim(item) == 2 and np.shape(item)[1] > 1 else item
                     for item in self._full_arguments()]  # fmt: skip
        shape = (size, len(some))
        values = [np.broadcast_to(v, shape) for v in self.compiled.target_values(*arguments)]
        slopes = [np.broadcast_to(_bounded(v), shape) for v in self.compiled.target_slopes(*arguments)]
        direct = [np.broadcast_to(v, shape) for v in self.compiled.target_noise_slopes(*arguments)]
        noises = self.compiled.source.noises
        made = []
        for group, _, _ in self.rests:
            total = np.zeros((len(group) * size, len(group) * size))
            tangents = [self._tangents(*self._sources(noise, some), some) for noise in group]
            for place, target in enumerate(self.compiled.targets):
                scale = np.sqrt((values[place] ** 2) @ mass) / (1.0 if target in self.acting else _ASIDE)
                if not scale.any():
                    continue
                rows = np.zeros((len(some), size, len(group) * size))
                for position, noise in enumerate(group):
                    part = rows[:, :, position * size : (position + 1) * size]
                    for unknown in range(count):
                        part += slopes[place * count + unknown].T[:, :, None] * tangents[position][:, unknown]
                    own = direct[place * len(noises) + noises.index(noise)]
                    part[:, np.arange(size), np.arange(size)] += own.T
                rows -= np.tensordot(mass, rows, 1)
                rows *= np.sqrt(mass)[:, None, None] / np.maximum(scale, 0.03 * scale.max())[:, None]
                flat = rows.reshape(-1, len(group) * size)
                total += flat.T @ flat
            made.append(total)
        return made

    def _responses(self, noise: Any, asked: list[CompiledMean], arguments: list[Any]) -> dict[E, Array]:
        """Return E[a(t) ∂output(t)/∂z(t') b(t')] as operators, path chunk by path chunk; keep the targets' reactions."""
        assert self.points is not None
        size, paths = self.unknowns.shape[1:]
        count = len(self.unknowns)
        shape = (size, paths)
        source, by_noise = self._sources(noise, slice(None))
        jobs = []  # per mean: outputs by unknown, the factors around
        for mean in asked:
            outputs = [np.broadcast_to(v, shape) for v in mean.by_unknown(*arguments)]  # type: ignore[misc]
            factors = [np.broadcast_to(value, shape) for value in mean.factors(*arguments)]
            jobs.append((mean, outputs, factors, np.zeros((size, size))))
        targets = self.compiled.targets
        slopes = [np.broadcast_to(_bounded(v), shape) for v in self.compiled.target_slopes(*arguments)]
        direct = [np.broadcast_to(v, shape) for v in self.compiled.target_noise_slopes(*arguments)]
        noises = self.compiled.source.noises
        own = [direct[place * len(noises) + noises.index(noise)] @ self.points.weights for place in range(len(targets))]
        reactions = [np.diag(values) for values in own]
        step = max(1, _CHUNK // (size * size * count))
        for begin in range(0, paths, step):
            part = slice(begin, min(begin + step, paths))
            tangents = self._tangents(source, None if by_noise is None else by_noise[..., part], part)
            weights = self.points.weights[part]
            for unknown in range(count):
                left, sums = [], []
                for mean, outputs, factors, total in jobs:
                    weighted = outputs[unknown][:, part] * factors[0][:, part] * weights
                    if factors[1].strides == (0, 0) or not mean.mean.terms[0][2].free_symbols:
                        left.append(weighted)
                        sums.append(total)
                    else:
                        total += np.einsum("iq,qij,jq->ij", weighted, tangents[:, unknown], factors[1][:, part])
                for place, reaction in enumerate(reactions):
                    slope = slopes[place * count + unknown]
                    if slope.strides != (0, 0) or slope.flat[0] != 0:
                        left.append(slope[:, part] * weights)
                        sums.append(reaction)
                if left:
                    averages = _average(left, tangents[:, unknown])
                    for place, total in enumerate(sums):
                        total += averages[:, place]
        self.reactions[noise] = dict(zip(targets, reactions, strict=True))
        made = {}
        for mean, outputs, factors, total in jobs:
            total -= np.diag(self._instantaneous(source, outputs, factors))
            made[mean.mean.node] = total * np.asarray(self.state.pointwise(mean.mean.terms[0][0]), float)
        return made

    def _instantaneous(self, source: Array, outputs: list[Array], factors: list[Array]) -> Array:
        """The part of the response proportional to δ(t − t'), which a response kernel leaves out."""
        assert self.points is not None
        total = np.zeros(self.state.grid.size)
        for index, unknown in enumerate(self.compiled.source.unknowns):
            if not unknown.integrated:
                weight = np.diagonal(source[index])
                total += weight * ((outputs[index] * factors[0] * factors[1]) @ self.points.weights)
        return total

    def _tangents(self, source: Array, by_noise: Array | None, part: Any) -> Array:
        """Solve the linearised path equations; returns (path, unknown, node, node of the noise).

        The blocks are halved again and again: what the first half does to the second is one large matrix product.
        """
        slopes = np.ascontiguousarray(np.moveaxis(self.slopes[..., part], -1, 0))
        count, size, width = len(self.unknowns), self.state.grid.size, len(slopes)
        made = np.empty((width, count, size, size))
        made[:] = source
        if by_noise is not None:
            direct = np.moveaxis(by_noise, -1, 0)
            for (unknown, signal), matrix in self.operators.items():
                made[:, unknown] += matrix * direct[:, signal, None, :]
        acting = sorted({signal for _, signal in self.operators})
        effects = {signal: np.zeros((width, size, size)) for signal in acting}
        blocks = self.state.grid.blocks

        def solve(first: int, last: int) -> None:
            if last - first > 1:
                middle = (first + last) // 2
                solve(first, middle)
                begin, end = blocks[first].start, blocks[middle].start
                rows = slice(end, blocks[last - 1].stop)
                for (unknown, signal), matrix in self.operators.items():
                    made[:, unknown, rows, :end] += matrix[rows, begin:end] @ effects[signal][:, begin:end, :end]
                solve(middle, last)
                return
            block = blocks[first]
            height, end = block.stop - block.start, block.stop
            jacobian = np.zeros((width, count, height, count, height))
            jacobian.reshape(width, count * height, count * height)[:] = np.eye(count * height)
            for (unknown, signal), matrix in self.operators.items():
                for other in range(count):
                    jacobian[:, unknown, :, other] -= matrix[block, block] * slopes[:, signal, other, None, block]
            inverse = np.linalg.inv(jacobian.reshape(width, count * height, count * height))
            right = made[:, :, block, :end].reshape(width, count * height, end)
            solved = (inverse @ right).reshape(width, count, height, end)
            made[:, :, block, :end] = solved
            for signal in acting:
                for other in range(count):
                    effects[signal][:, block, :end] += slopes[:, signal, other, block, None] * solved[:, other]

        solve(0, len(blocks))
        return made
