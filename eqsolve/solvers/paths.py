"""All paths of an ensemble at once: block by block in time, then their linear responses.

History enters as matrix products over all paths; within a block each path has a small nonlinear system, solved by
Newton's
method with elimination vectorised over paths. The responses solve the linearised equations exactly on the same grid.
Cost per sweep: nodes² × paths for the paths, nodes³ × paths / 3 for the responses.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sympy import Expr, S

from eqsolve.compile.paths import CompiledEnsemble, CompiledMean
from eqsolve.errors import SolverError
from eqsolve.language.nodes import E
from eqsolve.passes.path_form import Drive, Link
from eqsolve.solvers.gaussian import Layout, Level, Points, align, factor_covariance, lay_out, make_points, rotate
from eqsolve.solvers.grids import Array
from eqsolve.solvers.operators import Evaluation

__all__ = ["PathSolver"]

_STRONG = 0.1  # modes stronger than this are sampled as they are, of weaker ones what is linear is known
_ASIDE = 0.1  # how much the choice of modes minds what does not act back through correlations
_LOOK = 100  # paths looked at to choose modes
_CUBIC = 3  # degree to which the simplest design of points is exact
_CHUNK = 3_000_000  # numbers held at once for the responses


def _average(left: Array, tangents: Array) -> Array:
    """Return Σ_q left(i, q) tangents(i, j, q)."""
    return np.asarray(np.matmul(tangents, left[:, :, None])[:, :, 0])


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


class PathSolver:
    """Runs one ensemble: modes of its noises, paths, means. Keeps the modes between sweeps so that sweeps are
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

    # --- operators of the path equations -----------------------------------------------------------------------------
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

    # --- one sweep ---------------------------------------------------------------------------------------------------
    def run(self, state: Evaluation, covariances: dict[Any, tuple[Any, Array, Array]]) -> dict[E, Array]:
        """Return the ensemble's means for given kernels; ``covariances`` maps noises to their group, covariance and
        mean."""
        self.follow(state, covariances)
        arguments = self._full_arguments()
        made: dict[E, Array] = {}
        self.reactions = {}
        for noise in self.compiled.source.noises:
            asked = [m for m in self.compiled.means if m.mean.kind == "response" and m.mean.noise == noise]
            if asked or self.used.kind == "sparse":
                made |= self._responses(noise, asked, arguments)
        rest = {m.mean.node: self._mean(m, arguments) for m in self.compiled.means if m.mean.kind != "response"}
        return {m.mean.node: made[m.mean.node] if m.mean.kind == "response" else rest[m.mean.node]
                for m in self.compiled.means}  # fmt: skip

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
        needed, there = 8.0 * numbers * paths * nodes, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > 0.5 * there:
            raise SolverError(
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
        slopes = [np.broadcast_to(v, shape) for v in self.compiled.target_slopes(*arguments)]
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
                rows = np.zeros((size, len(group) * size, len(some)))
                for position, noise in enumerate(group):
                    part = rows[:, position * size : (position + 1) * size]
                    for unknown in range(count):
                        part += slopes[place * count + unknown][:, None] * tangents[position][unknown]
                    part[np.arange(size), np.arange(size)] += direct[place * len(noises) + noises.index(noise)]
                rows -= (rows @ mass)[..., None]
                rows *= np.sqrt(mass) / np.maximum(scale, 0.03 * scale.max())[:, None, None]
                flat = np.moveaxis(rows, 1, 0).reshape(len(group) * size, -1)
                total += flat @ flat.T
            made.append(total)
        return made

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

    # --- how the means react to the kernels ---------------------------------------------------------------------------
    @property
    def reacts(self) -> bool:
        return bool(self.reactions)

    def prepare(self) -> None:
        """Average what ``react`` needs: the products of remembered signals and targets."""
        assert self.points is not None
        shape = self.unknowns.shape[1:]
        values = [np.broadcast_to(v, shape) for v in self.compiled.target_values(*self._full_arguments())]
        self.values = dict(zip(self.compiled.targets, values, strict=True))
        self.products: dict[tuple[Expr, Expr], Array] = {}
        self.forces = []  # links through memory whose unknown a noise drives too: link, noise, 1 / drive coefficient
        drives = {drive.unknown: drive for drive in self.compiled.source.drives if drive.noise in self.reactions}
        for link in self.compiled.source.links:
            if link.memory is not None and link.unknown in drives:
                drive = drives[link.unknown]
                strength = self.state.vector(drive.coefficient) if drive.coefficient != S.One else np.ones(shape[0])
                if (strength != 0).all():
                    self.forces.append((link, drive.noise, 1 / strength, self._inner(link, self.state)))

    def _inner(self, link: Link, state: Evaluation) -> Array:
        values = state.vector(link.coefficient) if link.coefficient != S.One else np.ones(state.grid.size)
        assert link.memory is not None
        return values[:, None] * state.kernel_operator(link.memory.kernel)

    def _product(self, signal: Expr, target: Expr) -> Array:
        assert self.points is not None
        if (signal, target) not in self.products:
            left, right = self.values[signal], self.values[target]
            self.products[signal, target] = (left * self.points.weights) @ right.T
        return self.products[signal, target]

    def react(self, state: Evaluation, changes: dict[Any, tuple[Any, Array]]) -> dict[E, Array]:
        """Return how the means change with the kernels, every response replaced by its mean.

        ``state`` holds the changed kernels, ``changes`` the changes of the covariances by noise.
        """
        size = self.state.grid.size
        forces = [(link, noise, scale[:, None] * (self._inner(link, state) - inner))
                  for link, noise, scale, inner in self.forces]  # fmt: skip
        made: dict[E, Array] = {}
        for compiled in self.compiled.means:
            mean = compiled.mean
            if mean.kind == "one":
                made[mean.node] = np.zeros(size)
                continue
            total = np.zeros((size, size))
            for outer, left, right in mean.terms:
                part = np.zeros((size, size))
                if mean.kind == "response":
                    for link, noise, force in forces:
                        chain = self.reactions[mean.noise].get(link.signal)
                        if chain is not None:
                            part += self.reactions[noise][mean.output] @ (force @ chain)
                else:
                    part += self._react_covariance(left, right, changes)
                    for link, noise, force in forces:
                        part += self.reactions[noise][left] @ (force @ self._product(link.signal, right))
                        part += (self.reactions[noise][right] @ (force @ self._product(link.signal, left))).T
                total += np.asarray(self.state.pointwise(outer), float) * part
            made[mean.node] = total
        return made

    def _react_covariance(self, left: Expr, right: Expr, changes: dict[Any, tuple[Any, Array]]) -> Array:
        size = self.state.grid.size
        total = np.zeros((size, size))
        for noise, (group, change) in changes.items():
            for other in group:
                if noise in self.reactions and other in self.reactions:
                    row, column = list(group).index(noise) * size, list(group).index(other) * size
                    block = change[row : row + size, column : column + size]
                    total += self.reactions[noise][left] @ block @ self.reactions[other][right].T
        return total

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

    # --- means ------------------------------------------------------------------------------------------------------
    def _full_arguments(self) -> list[Any]:
        whole = slice(0, self.state.grid.size)
        arguments = self._arguments(whole, list(self.unknowns), self.noises)
        if self.compiled.source.memories:
            shape = self.unknowns.shape[1:]
            signals = self.compiled.memory_signals(*arguments)
            for memory, signal in zip(self.compiled.source.memories, signals, strict=True):
                arguments.append(self.state.kernel_operator(memory.kernel) @ np.broadcast_to(signal, shape))
        return arguments

    def _mean(self, compiled: CompiledMean, arguments: list[Any]) -> Array:
        assert self.points is not None
        weights, shape = self.points.weights, self.unknowns.shape[1:]
        factors = [np.broadcast_to(value, shape) for value in compiled.factors(*arguments)]
        if compiled.mean.kind == "one":
            self.sizes[compiled.mean.node] = np.abs(factors[0]) @ np.abs(weights)
            return np.asarray(factors[0] @ weights)
        total = np.zeros((shape[0], shape[0]))
        for (outer, left, right), first, second in zip(
            compiled.mean.terms, factors[::2], factors[1::2], strict=True
        ):
            linear = [self._linear(target) for target in (left, right)]
            one, other = (self._without(values, part) for values, part in zip((first, second), linear, strict=True))
            pairs = (one * weights) @ other.T
            for mine, yours in zip(*linear, strict=True):
                if mine is not None and yours is not None:
                    pairs += mine @ yours.T
            total += np.asarray(self.state.pointwise(outer), float) * pairs
        return total

    def ones(self) -> dict[E, Array]:
        """Return the means of functions of one time over the paths as they are."""
        arguments = self._full_arguments()
        return {m.mean.node: self._mean(m, arguments) for m in self.compiled.means if m.mean.kind == "one"}

    def _linear(self, target: Expr) -> list[Array | None]:
        """Return, by group of noises, what a target does with the weak modes through its mean response."""
        size = self.state.grid.size
        made: list[Array | None] = []
        for group, factor, _ in self.rests:
            parts = [
                self.reactions[noise][target] @ factor[place * size : (place + 1) * size]
                for place, noise in enumerate(group)
                if target in self.reactions.get(noise, {})
            ]
            made.append(sum(parts[1:], parts[0]) if parts and factor.shape[1] else None)
        return made

    def _without(self, values: Array, linear: list[Array | None]) -> Array:
        """Return a target on all paths with its linear part in the weak modes taken out."""
        for part, (_, _, coordinates) in zip(linear, self.rests, strict=True):
            if part is not None and coordinates.any():
                values = values - part @ coordinates
        return values

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
        slopes = [np.broadcast_to(v, shape) for v in self.compiled.target_slopes(*arguments)]
        direct = [np.broadcast_to(v, shape) for v in self.compiled.target_noise_slopes(*arguments)]
        noises = self.compiled.source.noises
        own = [direct[place * len(noises) + noises.index(noise)] @ self.points.weights for place in range(len(targets))]
        reactions = [np.diag(values) for values in own]
        step = max(1, _CHUNK // (size * size * count))
        for begin in range(0, paths, step):
            part = slice(begin, min(begin + step, paths))
            tangents = self._tangents(source, None if by_noise is None else by_noise[..., part], part)
            weights = self.points.weights[part]
            for mean, outputs, factors, total in jobs:
                for unknown in range(count):
                    left = outputs[unknown][:, part] * factors[0][:, part] * weights
                    if factors[1].strides == (0, 0) or not mean.mean.terms[0][2].free_symbols:
                        total += _average(left, tangents[unknown])
                    else:
                        total += np.einsum("iq,ijq,jq->ij", left, tangents[unknown], factors[1][:, part])
            for place, reaction in enumerate(reactions):
                for unknown in range(count):
                    slope = slopes[place * count + unknown]
                    if slope.strides != (0, 0) or slope.flat[0] != 0:
                        reaction += _average(slope[:, part] * weights, tangents[unknown])
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
        """Solve the linearised path equations; returns (unknown, node, node of the noise, path).

        The blocks are halved again and again: what the first half does to the second is one large matrix product.
        """
        slopes = self.slopes[..., part]
        count, size, width = len(self.unknowns), self.state.grid.size, slopes.shape[-1]
        made = np.zeros((count, size, size, width))
        made += source[..., None]
        if by_noise is not None:
            for (unknown, signal), matrix in self.operators.items():
                made[unknown] += matrix[..., None] * by_noise[signal]
        effects = np.zeros((self.compiled.count, size, size, width))
        blocks = self.state.grid.blocks

        def solve(first: int, last: int) -> None:
            if last - first > 1:
                middle = (first + last) // 2
                solve(first, middle)
                begin, end = blocks[first].start, blocks[middle].start
                rows = slice(end, blocks[last - 1].stop)
                for (unknown, signal), matrix in self.operators.items():
                    past = effects[signal, begin:end, :end].reshape(end - begin, end * width)
                    made[unknown, rows, :end] += (matrix[rows, begin:end] @ past).reshape(-1, end, width)
                solve(middle, last)
                return
            block = blocks[first]
            height, end = block.stop - block.start, block.stop
            jacobian = np.zeros((count * height, count * height, width)) + np.eye(count * height)[:, :, None]
            for (unknown, signal), matrix in self.operators.items():
                own = matrix[block, block]
                if own.any():
                    for other in range(count):
                        place = slice(unknown * height, (unknown + 1) * height), slice(other * height, (other + 1) * height)
                        jacobian[place] -= own[:, :, None] * slopes[signal, other, block][None]
            right = made[:, block, :end].reshape(count * height, end, width)
            solved = eliminate(jacobian, right).reshape(count, height, end, width)
            made[:, block, :end] = solved
            for signal in range(self.compiled.count):
                for other in range(count):
                    effects[signal, block, :end] += slopes[signal, other, block, None] * solved[other]

        solve(0, len(blocks))
        return made
