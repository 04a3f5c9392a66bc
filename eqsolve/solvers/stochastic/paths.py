"""All paths of an ensemble at once, block by block in time.

Modes and points of the noises are chosen, then history enters as matrix products over all paths; within a block each path
has a small nonlinear system, solved by Newton's method with elimination vectorised over paths.
Cost: nodes² × paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sympy import Expr, S

from eqsolve.compile.paths import CompiledEnsemble
from eqsolve.errors import MemoryLimitError, SolverError
from eqsolve.language.nodes import E
from eqsolve.numerics.memory import memory
from eqsolve.passes.forms.path_form import Drive, Link
from eqsolve.numerics.gaussian import Layout, Level, Points, align, factor_covariance, lay_out, make_points, rotate
from eqsolve.numerics.grids import Array
from eqsolve.numerics.operators import Evaluation

__all__ = ["Paths", "eliminate"]

_STRONG = 0.1  # modes stronger than this are sampled as they are, of weaker ones what is linear is known
_CUBIC = 3  # degree to which the simplest design of points is exact


def eliminate(matrix: Array, right: Array) -> Array:
    """Solve many small systems at once; the last axis runs over paths. Both arguments are overwritten."""
    size = matrix.shape[0]
    for pivot in range(size):
        inverse = 1.0 / matrix[pivot, pivot]
        for row in range(pivot + 1, size):
            factor = matrix[row, pivot] * inverse
            matrix[row, pivot + 1 :] -= factor * matrix[pivot, pivot + 1 :]
            right[row] -= factor * right[pivot]
    for pivot in range(size - 1, -1, -1):
        for column in range(pivot + 1, size):
            right[pivot] -= matrix[pivot, column] * right[column]
        right[pivot] /= matrix[pivot, pivot]
    return right


class Paths:
    """Follows one ensemble: modes of its noises, points, paths. Keeps the modes between sweeps so that sweeps are
    continuous."""

    def __init__(
        self, compiled: CompiledEnsemble, laws: dict[Any, Any], level: Level,
        layout: Layout | None = None, shapes: list[Array] | None = None, fed: frozenset[E] | None = None,
    ) -> None:  # fmt: skip
        self.compiled, self.level, self.layout, self.shapes = compiled, level, layout, shapes
        source = compiled.source
        self.laws = {item: laws[item] for item in source.randoms}
        pairs = [mean for mean in source.means if mean.kind == "two" and (fed is None or mean.node in fed)]
        self.acting = {piece for mean in pairs for term in mean.terms for piece in term[1:]}
        self.factors: dict[int, Array] = {}  # the modes that later ones are aligned with
        self.points: Points | None = None
        self.sizes: dict[E, Array] = {}  # E|f| beside E f: what a mean that cancels is compared with
        self.frozen = False
        self.unknowns = np.empty((0, 0, 0))
        self.reactions: dict[Any, dict[Expr, Array]] = {}  # mean responses of the targets to each noise

    def _operators(self, state: Evaluation) -> dict[tuple[int, int], Array]:
        """Return O_ak: what signal k does to unknown a."""
        made: dict[tuple[int, int], Array] = {}
        for link, signal in zip(self.compiled.source.links, self.compiled.signal_index, strict=True):
            matrix = self._link_operator(link, state)
            key = (link.unknown, signal)
            made[key] = made[key] + matrix if key in made else matrix
        return made

    def _link_operator(self, link: Link, state: Evaluation) -> Array:
        size = state.grid.size
        inner = np.eye(size) if link.memory is None else state.kernel_operator(link.memory.kernel)
        return self._outer(link.unknown, link.coefficient, state) @ inner

    def _outer(self, unknown: int, coefficient: Expr, state: Evaluation) -> Array:
        values = state.vector(coefficient) if coefficient != S.One else np.ones(state.grid.size)
        if self.compiled.source.unknowns[unknown].integrated:
            return state.grid.integration * values
        return np.diag(values)

    def _drive_operator(self, drive: Drive, state: Evaluation) -> Array:
        return self._outer(drive.unknown, drive.coefficient, state)

    def follow(self, state: Evaluation, covariances: dict[Any, tuple[Any, Array, Array]]) -> None:
        """Solve the path equations for given kernels."""
        self.state = state
        self.operators = self._operators(state)
        self.drives = [(drive, self._drive_operator(drive, state)) for drive in self.compiled.source.drives]
        self._solve_paths(self._noises(covariances))

    def _noises(self, covariances: dict[Any, tuple[Any, Array, Array]]) -> list[Array]:
        """Choose modes and points; return each noise on (nodes, paths)."""
        source, size = self.compiled.source, self.state.grid.size
        groups: dict[Any, list[Any]] = {}
        for noise in source.noises:
            groups.setdefault(covariances[noise][0], []).append(noise)
        factors, strengths, placed = [], [], []
        for number, (group, members) in enumerate(groups.items()):
            covariance = covariances[members[0]][1]
            previous = self.factors.get(number) if self.frozen else None
            factor = factor_covariance(covariance, None if previous is None else previous.shape[1])
            if previous is not None and previous.shape == factor.shape:
                factor = align(factor, previous)
            else:
                factor, effect = self._rotate(factor, number, list(group))
                self.factors[number] = factor
                strengths.append(effect)
            factors.append(factor)
            placed.append((list(group), members))
        if not self.frozen or self.points is None:
            flat = np.concatenate(strengths) if strengths else np.empty(0)
            self.order = np.argsort(-flat, kind="stable")
            simple = self.compiled.degree is not None and self.compiled.degree <= _CUBIC
            plain = Layout("cubic") if simple else None
            sampled = self.layout if self.layout is not None and self.layout.kind == "sample" else None
            self.used = sampled or plain or self.layout or lay_out(list(flat[self.order]), self.level)
            self.points = make_points(len(flat), self.used, self.laws, self.level)
            self._check_memory(len(self.points.weights), size)
            self.strong = np.ones(len(flat), dtype=bool)
            self.strong[self.order[self.used.modes(len(flat)) :]] = False
            if self.used.kind == "sparse" and self.shapes is not None:
                self.strong &= flat > _STRONG
        coordinates = np.empty_like(self.points.normals)
        coordinates[self.order] = self.points.normals
        self.rests: list[tuple[list[Any], Array, Array]] = []  # weak modes by group of noises, with their coordinates
        made: dict[Any, Array] = {}
        position = 0
        for factor, (group, members) in zip(factors, placed, strict=True):
            place = slice(position, position + factor.shape[1])
            part = factor @ coordinates[place]
            weak = ~self.strong[place]
            self.rests.append((group, factor[:, weak], coordinates[place][weak]))
            position = place.stop
            for noise in members:
                row = group.index(noise) * size
                made[noise] = part[row : row + size] + covariances[noise][2][:, None]
        return [made[noise] for noise in source.noises]

    def _check_memory(self, paths: int, nodes: int) -> None:
        """Refuse what would not fit into the machine's memory, before it is asked for."""
        count, signals = len(self.compiled.source.unknowns), self.compiled.count
        numbers = 4 * count + 2 * signals * (count + 1) + len(self.compiled.source.noises)
        numbers += len(self.compiled.targets) * (count + 2)
        needed, there = 8.0 * numbers * paths * nodes, memory()
        if needed > 0.5 * there:
            raise MemoryLimitError(
                f"{paths} paths on {nodes} nodes would need about {needed / 1e9:.1f} GB of the machine's "
                f"{there / 1e9:.1f} GB; ask for a larger rtol or a shorter time"
            )

    def _rotate(self, factor: Array, number: int, group: list[Any]) -> tuple[Array, Array]:
        """Rotate modes by how much the responses to them vary; where that is not known, by their mean effect."""
        if self.shapes is not None:
            return rotate(factor, factor.T @ self.shapes[number] @ factor)
        effect = self._drive_matrix(factor, group)
        rotated, strengths = rotate(factor, effect.T @ effect)
        return rotated, strengths / max(float(strengths[0]), 1e-300)

    def _drive_matrix(self, factor: Array, group: list[Any]) -> Array:
        """Return what each mode does: through the known mean responses, else through the drives, else the modes
        themselves."""
        size = self.state.grid.size
        rows = []
        for noise in group:
            place = group.index(noise) * size
            part = factor[place : place + size]
            known = [
                self.state.means[entry.mean.node]
                for entry in self.compiled.means
                if entry.mean.kind == "response" and entry.mean.noise == noise
            ]
            effects = [matrix @ part for matrix in known if matrix.any()]
            drives = [(drive, matrix) for drive, matrix in self.drives if drive.noise == noise]
            integrated = [self.compiled.source.unknowns[drive.unknown].integrated for drive, _ in drives]
            for (_, matrix), through in zip(drives, integrated, strict=True):
                if not through or not any(matrix.any() for matrix in known):
                    effects.append(matrix @ part)
            rows += effects if drives else [*effects, part]
        return np.vstack(rows)

    def _arguments(self, part: slice, unknowns: list[Array], noises: list[Array]) -> list[Any]:
        assert self.points is not None
        constants = [self.points.constants[item][None, :] for item in self.compiled.source.randoms]
        functions = [self.state.functions[head][part, None] for head in self.compiled.functions]
        return [
            self.state.grid.nodes[part, None],
            *unknowns,
            *(noise[part] for noise in noises),
            *constants,
            *functions,
        ]

    def _full_arguments(self) -> list[Any]:
        whole = slice(0, self.state.grid.size)
        arguments = self._arguments(whole, list(self.unknowns), self.noises)
        if self.compiled.source.memories:
            shape = self.unknowns.shape[1:]
            signals = self.compiled.memory_signals(*arguments)
            for memory, signal in zip(self.compiled.source.memories, signals, strict=True):
                arguments.append(self.state.kernel_operator(memory.kernel) @ np.broadcast_to(signal, shape))
        return arguments

    def _solve_paths(self, noises: list[Array]) -> None:
        assert self.points is not None
        source, grid = self.compiled.source, self.state.grid
        count, paths = len(source.unknowns), len(self.points.weights)
        constants = [self.points.constants[item] for item in source.randoms]
        starts = self.compiled.starts(*constants)
        base = np.zeros((count, grid.size, paths))
        for index, start in enumerate(starts):
            base[index] += start
        positions = {noise: place for place, noise in enumerate(source.noises)}
        for drive, matrix in self.drives:
            base[drive.unknown] += matrix @ noises[positions[drive.noise]]
        self.noises = noises
        self.before = self.unknowns if self.frozen and self.unknowns.shape == base.shape else None
        self.unknowns = np.zeros((count, grid.size, paths))
        self.signals = np.zeros((self.compiled.count, grid.size, paths))
        self.slopes = np.zeros((self.compiled.count, count, grid.size, paths))
        for part in grid.blocks:
            self._solve_block(part, base)

    def _evaluate(self, part: slice, unknowns: Array) -> tuple[Array, Array]:
        arguments = self._arguments(part, list(unknowns), self.noises)
        shape = unknowns.shape[1:]
        signals, slopes = np.empty((self.compiled.count, *shape)), np.empty((self.compiled.count * len(unknowns), *shape))
        for place, value in enumerate(self.compiled.signals(*arguments)):
            signals[place] = value
        for place, value in enumerate(self.compiled.slopes(*arguments)):
            slopes[place] = value
        return signals, slopes.reshape(self.compiled.count, len(unknowns), *shape)

    def _solve_block(self, part: slice, base: Array) -> None:
        count, size = len(base), part.stop - part.start
        history = base[:, part].copy()
        for (unknown, signal), matrix in self.operators.items():
            if part.start:
                history[unknown] += matrix[part, : part.start] @ self.signals[signal, : part.start]
        guess = self.unknowns[:, part.start - 1 : part.start] if part.start else history
        if self.before is not None:
            guess = self.before[:, part]
        unknowns = np.broadcast_to(guess, history.shape).copy()
        scale = 1.0 + np.abs(history).max(axis=(1, 2), keepdims=True)
        identity = np.eye(count * size)[:, :, None]
        own = {key: matrix[part, part] for key, matrix in self.operators.items() if matrix[part, part].any()}
        settled, reach, step = unknowns, np.ones(unknowns.shape[2]), np.zeros_like(unknowns)
        before = np.full(unknowns.shape[2], np.inf)
        change = np.inf
        for _ in range(100):
            signals, slopes = self._evaluate(part, unknowns)
            residual = unknowns - history
            for (unknown, signal), matrix in own.items():
                residual[unknown] -= matrix @ signals[signal]
            norm = np.abs(residual / scale).max(axis=(0, 1))
            if change < 1e-7 and np.isfinite(norm).all():  # what a further step would change is the square of this
                break
            worse = ~(norm <= np.maximum(before, 1e-9))
            if worse.any():  # the step was too long for these paths
                reach = np.where(worse, 0.2 * reach, reach)
                if float(reach.min()) < 1e-8:
                    break
                unknowns = np.where(worse, settled - reach * step, unknowns)
                change = np.inf
                continue
            jacobian = np.zeros((count * size, count * size, history.shape[2])) + identity
            for (unknown, signal), matrix in own.items():
                for other in range(count):
                    rows, columns = slice(unknown * size, (unknown + 1) * size), slice(other * size, (other + 1) * size)
                    jacobian[rows, columns] -= matrix[:, :, None] * slopes[signal, other][None]
            step = eliminate(jacobian, residual.reshape(count * size, -1)).reshape(unknowns.shape)
            settled, before, reach = unknowns, norm, np.ones_like(norm)
            unknowns = unknowns - step
            change = float((np.abs(step) / (scale + np.abs(unknowns).max(axis=(1, 2), keepdims=True))).max())
            if not np.isfinite(step).all():
                break
        if not change < 1e-6:
            here = f"t = {self.state.grid.nodes[part.stop - 1]:.6g}"
            raise SolverError(f"the equations of a path have no solution that can be found near {here}; it may blow up there")
        self.signals[:, part], self.slopes[:, :, part] = signals, slopes
        self.unknowns[:, part] = unknowns

    def rate(self) -> float:
        """Return the largest rate at which an integrated unknown moves or reacts at the first node."""
        assert self.points is not None
        source = self.compiled.source
        speeds = np.zeros((len(source.unknowns), len(self.points.weights)))
        reaction = 0.0
        for link, signal in zip(source.links, self.compiled.signal_index, strict=True):
            if link.memory is None and source.unknowns[link.unknown].integrated:
                weight = float(self.state.vector(link.coefficient)[0])
                speeds[link.unknown] += weight * self.signals[signal, 0]
                reaction = max(reaction, abs(weight) * float(np.abs(self.slopes[signal, :, 0]).max()))
        positions = {noise: place for place, noise in enumerate(source.noises)}
        for drive, _ in self.drives:
            if source.unknowns[drive.unknown].integrated:
                speeds[drive.unknown] += (
                    float(self.state.vector(drive.coefficient)[0]) * self.noises[positions[drive.noise]][0]
                )
        size = 1.0 + np.sqrt((self.unknowns[:, 0] ** 2) @ self.points.weights)
        motion = np.sqrt((speeds**2) @ self.points.weights) / size
        return max(reaction, float(motion.max(initial=0.0)))

    def process_values(self) -> dict[str, Array]:
        """Return every process on (paths, nodes)."""
        arguments = self._full_arguments()
        shape = self.unknowns.shape[1:]
        values = self.compiled.processes(*arguments)
        heads = [head for head, _ in self.compiled.source.processes]
        return {head.name: np.broadcast_to(value, shape).T.copy() for head, value in zip(heads, values, strict=True)}
