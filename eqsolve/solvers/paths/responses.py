"""Linear responses of paths: tangent-linear (variational) equations, by block forward substitution.

They give the responses that a system asks for, the mean responses of what is averaged, and how much
responses vary from path to path, by which modes are chosen. Cost: nodes³ × paths / 3.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import MeanProgram
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.gaussian import Points
from eqsolve.solvers.paths.follow import Operators, Paths, block_inverses, by_block, integrate, solve_linear, sort_by_block
from eqsolve.solvers.threads import in_order, usable_threads

_ASIDE = 0.1  # weight, where modes are chosen, of targets without feedback through correlations
_LOOK = 100  # paths looked at to choose modes
MOST_VALUES = 8  # of constants, for which directions are chosen one by one: a dozen paths each
_EVEN_WEIGHTS = 0.95  # of the largest weight: range of weights of a sample; those of a sparse grid, some negative, exceed it
_LEAST = 0.03  # of the largest size of a target: smaller ones count as this
_TOGETHER = 256  # paths of one task of the compiled kernel: thousands of its smallest pieces, enough tasks for threads


def respond(
    paths: Paths, noise: str, asked: Sequence[MeanProgram], backend: Backend = CPU, threads: int | None = 1, *,
    at_nodes: bool = False, after: Array | None = None, targets: bool = True,
) -> tuple[dict[str, Array], list[Array]]:  # fmt: skip
    """Return responses to a noise z as operators: those ``asked`` for, and the targets' mean ones.

    A response is R(t, t') = E[a(t) b(t') ∂y(t)/∂z(t')], with y its output and a, b its factors; a
    mean response is E[∂y(t)/∂z(t')], left out without ``targets``. The tangents ∂u/∂z of the
    unknowns are solved for on the ``backend``. White noise z is constant in every step, or
    ``at_nodes`` a function on the nodes. With a matrix ``after``, R ``after`` is returned for R.
    """
    plan, size, weights, home = paths.plan, paths.shape[0], paths.points.weights, paths.backend
    source, by_noise = enter(paths, noise, at_nodes)
    jobs = [(mean, paths.values(mean.by_unknown), paths.values(mean.factors)) for mean in asked]
    slopes, own = target_slopes(paths, noise) if targets else ([], [])
    plain = all(mean.plain for mean in asked)
    unknowns = range(len(plan.unknowns))
    moving: list[int] = []  # targets with different slopes; others share those of one of these
    same: dict[int, int] = {}
    for target, row in enumerate(slopes):
        if any(slope.strides != (0, 0) or float(slope[0, 0]) != 0 for slope in row):
            alike = (known for known in moving if all(map(np.array_equal, slopes[known], row)))
            same[target] = next(alike, target)
            moving += [target] if same[target] == target else []

    def factors(part: slice) -> tuple[Array, Array]:
        """Return what tangents of some paths are multiplied with: at the time of the output, and of the noise."""
        left = home.arrays.empty((len(jobs) + len(moving), len(unknowns), size, part.stop - part.start))
        right = home.arrays.ones((0 if plain else len(left), size, part.stop - part.start))
        for place, (mean, outputs, pair) in enumerate(jobs):
            for unknown in unknowns:
                left[place, unknown] = outputs[unknown][:, part] * pair[0][:, part] * weights[part]
                if mean.plain:
                    left[place, unknown] *= pair[1][:, part]
            if not mean.plain:
                right[place] = pair[1][:, part]
        for place, target in enumerate(moving, len(jobs)):
            for unknown in unknowns:
                left[place, unknown] = slopes[target][unknown][:, part] * weights[part]
        return left, right

    total = np.zeros((len(jobs) + len(moving), size, size))
    for added in _mean_tangents(paths, source, by_noise, factors, backend, threads):
        total += added
    responses, reactions = list(total[: len(jobs)]), [np.diag(home.get(values @ weights)) for values in own]
    for target, shared in same.items():
        reactions[target] += total[len(jobs) + moving.index(shared)]
    made = {}
    for (mean, outputs, pair), response in zip(jobs, responses, strict=True):
        response = response if after is None else response @ after
        response -= np.diag(instantaneous(paths, source, outputs, pair))
        made[mean.name] = paths.kernels.scaled(response, mean.outers[0])
    return made, reactions


def _mean_tangents(
    paths: Paths, source: Array, by_noise: Array | None, factors: Callable[[slice], tuple[Array, Array]], backend: Backend,
    threads: int | None,
) -> Iterator[Array]:  # fmt: skip
    """Yield sums over some paths at a time of factor × tangent × factor, by the backend's compiled kernel."""

    from eqsolve.numerics import cuda
    from eqsolve.numerics.compiled import mean_tangents

    (size, count), unknowns, signals = paths.shape, len(source), paths.plan.count
    starts, transposed = by_block(paths.actions.operators, paths.kernels.grid, unknowns, signals)
    entering = np.ascontiguousarray(source.reshape(unknowns * size, size)[sort_by_block(starts, unknowns)])

    if backend is not CPU:
        put = backend.put
        left, right = map(put, factors(slice(0, count)))
        direct = None if by_noise is None else put(by_noise)
        shared = put(transposed), starts, unknowns, signals
        return iter([cuda.mean_tangents(
            backend, *shared, put(paths.slopes), put(entering), direct, left, right if len(right) else None
        )])  # fmt: skip

    def one(part: slice) -> Array:
        left, right = factors(part)
        direct = np.zeros((0, 0, 0)) if by_noise is None else np.ascontiguousarray(by_noise[..., part])
        slopes = np.ascontiguousarray(paths.slopes[..., part])
        return np.asarray(
            mean_tangents(transposed, starts, unknowns, signals, slopes, entering, direct, left, right, 0, slopes.shape[-1])
        )

    parts = [slice(begin, min(begin + _TOGETHER, count)) for begin in range(0, count, _TOGETHER)]
    return in_order(one, parts, usable_threads(threads, size**2 * count) if len(parts) > 1 else 1)


def respond_to_constants(paths: Paths) -> dict[str, list[Array]]:
    """Return the mean derivative of every target, in time, by the coordinate of every constant that is among the modes."""
    weights, scales = paths.points.weights, paths.points.scales
    found = _constant_slopes(paths)
    get = paths.backend.get
    return {name: [get(value @ (scales[name] * weights)) for value in values] for name, values in found.items()}


def _constant_slopes(paths: Paths) -> dict[str, list[Array]]:
    """Return the derivatives of all targets (node, path) by the constants among the modes."""
    plan, points, home = paths.plan, paths.points, paths.backend
    if not points.scales:
        return {}
    count, many = len(plan.unknowns), len(plan.constants)
    starts = plan.start_slopes(*(points.constants[name] for name in plan.constants))
    direct = [] if plan.signal_slopes is None else _tables(paths, plan.signal_slopes(*paths.inputs))
    by_unknown = _tables(paths, paths.target_slopes[0])
    own = _tables(paths, plan.target_constant_slopes(*paths.arguments))
    made = {}
    for name in points.scales:
        place = plan.constants.index(name)
        right = home.arrays.zeros((count, *paths.shape))
        for unknown in range(count):
            right[unknown] += starts[unknown * many + place]
        if direct:
            for (unknown, signal), matrix in paths.actions.operators.items():
                right[unknown] += home.put(matrix) @ direct[signal * many + place]
        changes = solve_linear(paths, right)
        made[name] = [
            own[target * many + place]
            + sum(by_unknown[target * count + unknown] * changes[unknown] for unknown in range(count))
            for target in range(plan.targets)
        ]
    return made


def _tables(paths: Paths, values: Sequence[Any]) -> list[Array]:
    """Return slopes on (nodes, paths)."""
    return [paths.backend.spread(_bounded(value), paths.shape) for value in values]


def vary(paths: Paths, acting: frozenset[int], *, by_value: bool = False) -> list[Array]:
    """Return, by group of noises, the quadratic form H by which the targets' responses vary.

    H = Σ over targets and times of the covariance over paths of the response to the noises,
    relative to the size of the target, on the heaviest paths for each value of the constants that
    are no modes (``by_value``, one form for each). The others come last, with all noises in one H.
    """
    plan, size = paths.plan, paths.shape[0]
    some, mass = heaviest(replace(paths.points, weights=paths.backend.get(paths.points.weights)))
    values_of_constants, paths = paths.points.values, paths.some(some)
    values = paths.values(plan.target_values)
    scales, by_constant = paths.points.scales, _constant_slopes(paths)
    made = []
    for group in (rest.group for rest in paths.drawn.linear_parts):
        width = len(group.noises) * size
        parts = np.split(np.arange(len(some)), values_of_constants if by_value else 1)
        totals = np.zeros((len(parts), width + len(scales), width + len(scales)))
        tangents = {}
        for noise in group.noises:
            source, by_noise = enter(paths, noise)
            operators, blocks = paths.actions.operators, paths.kernels.grid.blocks
            tangents[noise] = follow_tangents(operators, blocks, paths.slopes, source, by_noise)
        changes = {noise: target_slopes(paths, noise) for noise in group.noises}
        for target, value in enumerate(values):
            scale = np.sqrt((value**2) @ mass) / (1.0 if target in acting else _ASIDE)
            if not scale.any():
                continue
            rows = np.zeros((size, len(some), width + len(scales)))
            for column, (name, deviation) in enumerate(scales.items()):
                rows[:, :, width + column] = deviation * by_constant[name][target]
            for noise, (slopes, own) in changes.items():
                part = rows[:, :, group.rows(noise)]
                for unknown, slope in enumerate(slopes[target]):
                    part += slope[:, :, None] * tangents[noise][unknown]
                part[np.arange(size), :, np.arange(size)] += own[target]
            rows /= np.maximum(scale, _LEAST * scale.max())[:, None, None]
            for total, places in zip(totals, parts, strict=True):
                share = mass[places] / mass[places].sum()
                varied = (rows[:, places] - (share @ rows[:, places])[:, None]) * np.sqrt(share)[:, None]
                flat = varied.reshape(-1, rows.shape[2])
                total += flat.T @ flat
        made.append(totals if by_value else totals[0])
    return made


def heaviest(points: Points) -> tuple[Array, Array]:
    """Return some paths for each value of the constants, of the likeliest values if there are many, and their masses."""
    weights = np.abs(points.weights).reshape(points.values, -1)
    likely = np.sort(np.argsort(-weights.sum(axis=1), kind="stable")[:_LOOK])
    count = max(1, _LOOK // len(likely))
    if np.ptp(weights, axis=1).max() <= _EVEN_WEIGHTS * weights.max():  # sampled: any are as good
        inside = np.tile(np.linspace(0, weights.shape[1] - 1, min(count, weights.shape[1])).astype(int), (len(likely), 1))
    else:
        inside = np.sort(np.argsort(-weights[likely], axis=1, kind="stable")[:, :count], axis=1)
    mass = np.take_along_axis(weights[likely], inside, axis=1)
    mass *= weights[likely].sum(axis=1, keepdims=True) / mass.sum(axis=1, keepdims=True)
    return (likely[:, None] * weights.shape[1] + inside).ravel(), mass.ravel() / mass.sum()


def target_slopes(paths: Paths, noise: str) -> tuple[list[list[Array]], list[Array]]:
    """Return the derivatives of every target by the unknowns, and by a noise at the same time."""
    plan = paths.plan
    count = len(plan.unknowns)
    made, direct = paths.target_slopes
    slopes = _tables(paths, made)
    by_unknown = [slopes[target * count : (target + 1) * count] for target in range(plan.targets)]
    if noise not in plan.noises:  # white noise is no argument of anything
        return by_unknown, [paths.backend.spread(0.0, paths.shape)] * plan.targets
    return by_unknown, direct[plan.noises.index(noise) :: len(plan.noises)]


def _bounded(slope: Any) -> Any:
    """Return a slope, zero where it has no value: at a kink that a path sits on."""
    return slope if np.isfinite(slope).all() else np.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)


def enter(paths: Paths, noise: str, at_nodes: bool = False) -> tuple[Array, Array | None]:
    """Return how a noise enters the path equations: the same for all paths, and path by path.

    White noise is constant in every step; ``at_nodes``, a function on the nodes in its place.
    """
    plan, (size, _) = paths.plan, paths.shape
    source = np.zeros((len(plan.unknowns), size, size))
    for drive, matrix in zip((*plan.drives, *plan.kicks), paths.actions.drives, strict=True):
        if drive.noise == noise:
            whole = at_nodes and drive in plan.kicks
            source[drive.unknown] += integrate(plan, paths.kernels, drive) if whole else matrix
    if plan.noise_slopes is None or noise not in plan.noises:
        return source, None
    return source, paths.backend.arrays.stack(paths.noise_slopes[plan.noises.index(noise) :: len(plan.noises)])


def instantaneous(paths: Paths, source: Array, outputs: list[Array], factors: list[Array]) -> Array:
    """The part of the response proportional to δ(t − t'), which a response kernel leaves out."""
    total = np.zeros(paths.shape[0])
    for index, integrated in enumerate(paths.plan.integrated):
        if not integrated:
            weight = np.diagonal(source[index])
            total += weight * paths.backend.get((outputs[index] * factors[0] * factors[1]) @ paths.points.weights)
    return total


def follow_tangents(
    operators: Operators, blocks: Sequence[slice], slopes: Array, source: Array, by_noise: Array | None
) -> Array:
    """Solve the linearised path equations; returns (unknown, node, path, node of the noise).

    The blocks are halved again and again: what the first half does to the second is one large
    matrix product over all paths.
    """
    count, size, width = len(source), slopes.shape[2], slopes.shape[3]
    made = np.empty((count, size, width, size))
    made[:] = source[:, :, None, :]
    if by_noise is not None:
        for (unknown, signal), matrix in operators.items():
            made[unknown] += matrix[:, None, :] * by_noise[signal].T
    acting = sorted({signal for _, signal in operators})
    effects = {signal: np.empty((size, width, size)) for signal in acting}
    inverses = block_inverses(operators, blocks, slopes)

    def solve(first: int, last: int) -> None:
        if last - first > 1:
            middle = (first + last) // 2
            solve(first, middle)
            begin, end = blocks[first].start, blocks[middle].start
            rows = slice(end, blocks[last - 1].stop)
            acted = {signal: effects[signal][begin:end, :, :end].reshape(end - begin, -1) for signal in acting}
            for (unknown, signal), matrix in operators.items():
                made[unknown, rows, :, :end] += (matrix[rows, begin:end] @ acted[signal]).reshape(-1, width, end)
            solve(middle, last)
            return
        block = blocks[first]
        height, end = block.stop - block.start, block.stop
        right = made[:, block, :, :end].reshape(count * height, width, end)
        solved = (inverses[first].transpose(2, 0, 1) @ right.transpose(1, 0, 2)).transpose(1, 0, 2)
        made[:, block, :, :end] = solved.reshape(count, height, width, end)
        for signal in acting:
            effects[signal][block, :, :end] = _weighted(slopes[signal, :, block], made[:, block, :, :end])
            effects[signal][block, :, end:] = 0.0

    solve(0, len(blocks))
    return made


def _weighted(slopes: Array, changes: Array) -> Array:
    """Return Σ over unknowns of slope × change, for every path and node."""
    total = slopes[0][:, :, None] * changes[0]
    for slope, change in zip(slopes[1:], changes[1:], strict=True):
        total += slope[:, :, None] * change
    return total
