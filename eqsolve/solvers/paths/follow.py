"""All paths of an ensemble at once, block by block in time.

History enters as matrix products over all paths; within a block each path has a small nonlinear
system, solved by Newton's method with elimination vectorised over paths. Cost: nodes² × paths.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Drive, EnsembleProgram, Link
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array, eliminate, invert
from eqsolve.numerics.backend import CPU, Backend, demand_memory, home_of
from eqsolve.numerics.gaussian import Points
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.solvers.paths.modes import Drawn
from eqsolve.solvers.threads import in_order, usable_threads

Operators = Mapping[tuple[int, int], Array]

PATHS_PER_BATCH = 1024  # per core: larger batches leave the L2 cache
MERGED_FACTOR = 4  # batches of several ensembles are larger: fewer calls outweigh the cache
_STEPS = 100  # of Newton's method in one block
_ACCEPTED = 1e-3  # relative change of the last step that is a solution at all
_SHORTER = 0.2  # factor of a step that made a residual larger
_SHORTEST = 1e-8


@dataclass(frozen=True, eq=False)
class PathOperators:
    """What acts on the paths: operators O_ak of signal k on unknown a, and of each drive, for given kernels."""

    operators: dict[tuple[int, int], Array]
    drives: tuple[Array, ...]  # of the drives, then of white noises


def path_operators(plan: EnsembleProgram, kernels: Kernels) -> PathOperators:
    """Return the operators of an ensemble's path equations: integration in time and memory kernels, multiplied out."""
    operators: dict[tuple[int, int], Array] = {}
    for link in plan.links:
        matrix = integrate(plan, kernels, link)
        if link.kernel is not None:
            matrix = matrix @ kernels.operator(link.kernel)
        key = (link.unknown, link.signal)
        operators[key] = operators[key] + matrix if key in operators else matrix
    drives = [integrate(plan, kernels, drive) for drive in plan.drives]
    return PathOperators(operators, (*drives, *(_increments(kernels, kick.coefficient) for kick in plan.kicks)))


def integrate(plan: EnsembleProgram, kernels: Kernels, item: Link | Drive) -> Array:
    """Return the matrix [J] diag(coefficient) of a link or a drive."""
    grid = kernels.grid
    values = np.ones(grid.size) if item.coefficient is None else kernels.vector(item.coefficient)
    return grid.integration * values if plan.integrated[item.unknown] else np.diag(values)


def _increments(kernels: Kernels, coefficient: Pointwise | None) -> Array:
    """Return the integral of a noise that is constant in every step, at the nodes; the first node ends no step."""
    values = np.ones(kernels.grid.size) if coefficient is None else kernels.vector(coefficient)
    lengths = np.diff(kernels.grid.nodes) * (values[1:] + values[:-1]) / 2
    return np.tril(np.broadcast_to(np.append(0.0, lengths), (len(values), len(values))))


def step_average_matrix(size: int) -> Array:
    """Return the means over steps of a function on the nodes: ∫ of these, step by step, is the trapezoidal rule."""
    made = (np.eye(size) + np.eye(size, k=-1)) / 2
    made[0] = 0.0
    return made


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths that have been followed: unknowns (unknown, node, path), signals, and the signals' slopes by the unknowns."""

    plan: EnsembleProgram
    kernels: Kernels
    actions: PathOperators
    points: Points
    drawn: Drawn
    unknowns: Array
    signals: Array
    slopes: Array

    @property
    def backend(self) -> Backend:
        """Where the arrays of points, noises and paths are."""
        return home_of(self.unknowns)

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and paths."""
        return self.unknowns.shape[1], self.unknowns.shape[2]

    @functools.cached_property
    def inputs(self) -> list[Any]:
        """The arguments of the path equations on all nodes."""
        every = read_inputs(self.plan, self.kernels, self.points, self.drawn, self.backend)
        return every.at(slice(0, self.shape[0]), self.unknowns)

    @functools.cached_property
    def arguments(self) -> list[Any]:
        """The arguments of what is averaged: those of the path equations, and integrals along the paths."""
        signals = self.plan.memory_signals(*self.inputs)
        pairs = zip(self.plan.memories, signals, strict=True)
        put, spread = self.backend.put, self.backend.spread
        return [*self.inputs, *(put(self.kernels.operator(item)) @ spread(s, self.shape) for item, s in pairs)]

    @functools.cached_property
    def target_slopes(self) -> tuple[list[Any], list[Array]]:
        """The derivatives of every target by the unknowns, and by the noises, which every noise's responses need."""
        return self.plan.target_slopes(*self.arguments), self.values(self.plan.target_noise_slopes)

    @functools.cached_property
    def noise_slopes(self) -> list[Array]:
        """The derivatives of the signals by the noises."""
        assert self.plan.noise_slopes is not None
        return [self.backend.spread(value, self.shape) for value in self.plan.noise_slopes(*self.inputs)]

    def values(self, function: Any) -> list[Array]:
        """Return a function's values on (nodes, paths)."""
        return [self.backend.spread(value, self.shape) for value in function(*self.arguments)]

    def some(self, places: Array) -> Paths:
        """Return some of the paths, in the machine's memory."""
        get = self.backend.get
        unknowns, signals, slopes = (get(item[..., places]) for item in (self.unknowns, self.signals, self.slopes))
        points = self.points.on(lambda values: get(values[..., places]))
        noises = tuple(get(noise[:, places]) for noise in self.drawn.noises)
        linear_parts = tuple(replace(rest, coordinates=get(rest.coordinates[:, places])) for rest in self.drawn.linear_parts)
        return Paths(self.plan, self.kernels, self.actions, points, Drawn(noises, linear_parts), unknowns, signals, slopes)

    def processes(self) -> dict[str, Array]:
        """Return every process on (paths, nodes)."""
        return {name: v.T.copy() for name, v in zip(self.plan.processes, self.values(self.plan.process_values), strict=True)}

    def rate(self, typical: bool = False) -> float:
        """Return the largest rate at which an integrated unknown moves or reacts at the first node; of a ``typical`` path."""
        plan, weights = self.plan, self.points.weights
        speeds = np.zeros((len(plan.unknowns), len(weights)))
        reaction = 0.0
        for link in plan.links:
            if link.kernel is None and plan.integrated[link.unknown]:
                weight = self._first(link.coefficient)
                speeds[link.unknown] += weight * self.signals[link.signal, 0]
                slopes = np.abs(self.slopes[link.signal, :, 0])
                reaction = max(reaction, abs(weight) * float((slopes @ weights if typical else slopes).max()))
        for drive in plan.drives:
            if plan.integrated[drive.unknown]:
                noise = self.drawn.noises[plan.noises.index(drive.noise)]
                speeds[drive.unknown] += self._first(drive.coefficient) * noise[0]
        size = 1.0 + np.sqrt((self.unknowns[:, 0] ** 2) @ weights)
        motion = np.sqrt((speeds**2) @ weights) / size
        return max(reaction, float(motion.max(initial=0.0)))

    def _first(self, coefficient: Pointwise | None) -> float:
        return 1.0 if coefficient is None else float(self.kernels.vector(coefficient)[0])


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What the path equations read beside the unknowns, on one backend: rows are nodes, columns paths."""

    nodes: Any
    noises: list[Any]
    constants: list[Any]
    functions: list[Any]
    paths: int
    read: int  # noises that are arguments; white ones after them are not

    def of(self, part: slice) -> _Inputs:
        """Return the inputs of some paths."""
        noises, constants = ([item[:, part] for item in kind] for kind in (self.noises, self.constants))
        return replace(self, noises=noises, constants=constants, paths=part.stop - part.start)

    def at(self, part: slice, unknowns: Any) -> list[Any]:
        """Return the arguments of the path equations on some nodes."""
        noises, functions = ([item[part] for item in kind] for kind in (self.noises[: self.read], self.functions))
        return [self.nodes[part], *unknowns, *noises, *self.constants, *functions]


def read_inputs(plan: EnsembleProgram, kernels: Kernels, points: Points, drawn: Drawn, backend: Backend = CPU) -> _Inputs:
    """Return what the path equations read beside the unknowns."""
    constants = [backend.put(points.constants[name][None, :]) for name in plan.constants]
    functions = [backend.put(read_function(plan, kernels, name)[:, None]) for name in plan.functions]
    noises = [backend.put(values) for values in drawn.noises]
    return _Inputs(
        backend.put(kernels.grid.nodes[:, None]), noises, constants, functions, len(points.weights), len(plan.noises)
    )


def read_function(plan: EnsembleProgram, kernels: Kernels, name: str) -> Array:
    """Return a function of one time on the nodes: one of the model's, or the width of ramps."""
    if name in kernels.functions:
        return kernels.functions[name]
    if plan not in kernels.derived:
        operators = [o for (_, k), o in path_operators(plan, kernels).operators.items() if k in plan.jumping]
        reach = [2 * np.abs(np.diagonal(operator)) for operator in (kernels.grid.integration, *operators)]
        kernels.derived[plan] = np.max(reach, axis=0)
        kernels.derived[plan][0] = kernels.derived[plan][:2][-1]  # no step ends at the first node
    return np.asarray(kernels.derived[plan])


@dataclass(frozen=True, eq=False)
class PathBatch:
    """Paths of alike ensembles that are being followed in the machine's memory: all arrays begin with the ensemble."""

    plans: Sequence[EnsembleProgram]  # whose signals differ in numbers alone
    nodes: Array
    blocks: Sequence[slice]
    inputs: Sequence[_Inputs]
    operators: Mapping[tuple[int, int], Array]
    unknowns: Array  # also the guess of what is not solved yet
    signals: Array
    slopes: Array
    code: int = 0  # address of the signals' machine code, where there is one
    # of integrals from the start: the weight of each node for all later blocks, the sum so far, and
    # its end
    sums: dict[tuple[int, int], tuple[Array, Array, int]] = field(default_factory=dict)

    @functools.cached_property
    def arguments(self) -> tuple[Array, Array, Array, Array]:
        """What the machine code reads beside the unknowns: parameters, times and functions of them, noises, constants."""
        every, none = self.inputs, np.empty((len(self.plans), 0, 0))
        read = every[0].read
        shared = [np.concatenate([item.nodes, *item.functions], axis=1).T for item in every]
        noises = np.stack([np.stack(item.noises[:read]) for item in every]) if read else none[..., None]
        constants = np.stack([np.concatenate(item.constants) for item in every]) if every[0].constants else none
        bound: list[Any] = [plan.signals for plan in self.plans]
        return np.array([item.values for item in bound], float), np.stack(shared), noises, constants


def bytes_of(plan: EnsembleProgram, nodes: int) -> float:
    """Return the memory of a path that is followed and averaged, at most."""
    count = len(plan.unknowns)
    return 8.0 * nodes * (4 * count + 2 * plan.count * (count + 1) + len(plan.driving) + plan.targets * (count + 2))


def check_memory(plan: EnsembleProgram, paths: int, nodes: int) -> None:
    """Refuse what would not fit into the memory."""
    demand_memory(paths * bytes_of(plan, nodes), f"{paths} paths on {nodes} nodes")


@dataclass(frozen=True, eq=False)
class Driven:
    """An ensemble with all that drives its paths, a guess of the unknowns, and other values to begin at (unknown, path)."""

    plan: EnsembleProgram
    actions: PathOperators
    points: Points
    drawn: Drawn
    before: Array | None = None
    starts: Array | None = None

    @property
    def paths(self) -> int:
        return len(self.points.weights)


def follow(
    ensembles: Sequence[Driven], kernels: Kernels, accuracy: float, backend: Backend = CPU, threads: int | None = 1
) -> list[Paths]:
    """Solve the path equations for given kernels and noises to a relative accuracy.

    The equations are solved on the backend, where the points and what is drawn are and the paths
    returned will be: on the CPU some paths at a time and on threads. Ensembles with the same
    equations but for numbers, as the members of a family have them, are followed side by side in
    one array.

    Newton's method ends when a step changes the unknowns by less than the root of the accuracy: a
    further one would change them by the square of this.
    """
    size, enough = kernels.grid.size, min(math.sqrt(accuracy), _ACCEPTED)
    every = []
    for item in ensembles:
        check_memory(item.plan, item.paths, size)
        inputs = read_inputs(item.plan, kernels, item.points, item.drawn, backend)
        near = item.before is not None and item.before.shape == (len(item.plan.unknowns), size, item.paths)
        every.append((inputs, backend.put(item.before) if near else None))

    def some(batch: tuple[Sequence[int], slice]) -> PathBatch:
        members, part = batch
        parts = [(inputs.of(part), None if near is None else near[..., part]) for inputs, near in (every[m] for m in members)]
        return _follow([ensembles[m] for m in members], kernels, parts, part, enough)

    found: list[list[tuple[Array, ...]]] = [[] for _ in ensembles]
    if backend is not CPU:
        found = [[_follow_on_card(e, kernels, *own, enough, backend)] for e, own in zip(ensembles, every, strict=True)]
    batches = _batches(ensembles) if backend is CPU else []
    for (members, _), solved in zip(batches, in_order(some, batches, usable_threads(threads, PATHS_PER_BATCH)), strict=True):
        for place, m in enumerate(members):
            found[m].append((solved.unknowns[place], solved.signals[place], solved.slopes[place]))
    return [
        Paths(
            e.plan, kernels, e.actions, e.points, e.drawn,
            *(item[0] if len(item) == 1 else np.concatenate(item, axis=-1) for item in zip(*pieces, strict=True)),
        )
        for e, pieces in zip(ensembles, found, strict=True)
    ]  # fmt: skip


def _batches(ensembles: Sequence[Driven]) -> list[tuple[Sequence[int], slice]]:
    """Return what is followed at once: several alike ensembles, or some paths of one."""
    alike: dict[Any, list[int]] = {}
    for place, item in enumerate(ensembles):
        code = machine_code(item.plan)
        alike.setdefault((code or -1 - place, item.paths, *item.actions.operators), []).append(place)
    made: list[tuple[Sequence[int], slice]] = []
    for (_, paths, *_), places in alike.items():
        many = max(1, MERGED_FACTOR * PATHS_PER_BATCH // paths)
        for first in range(0, len(places), many):
            few = places[first : first + many]
            made += [(few, slice(begin, min(begin + PATHS_PER_BATCH, paths))) for begin in range(0, paths, PATHS_PER_BATCH)]
    return made


def _follow(
    ensembles: Sequence[Driven], kernels: Kernels, inputs: Sequence[tuple[_Inputs, Array | None]], part: slice, enough: float
) -> PathBatch:
    """Return some paths of alike ensembles, solved block by block in time; ``inputs`` are what drives them and a guess."""
    grid, plan = kernels.grid, ensembles[0].plan
    count, shape = len(plan.unknowns), (grid.size, part.stop - part.start)
    base = np.zeros((len(ensembles), count, *shape))
    for own, item, (read, _) in zip(base, ensembles, inputs, strict=True):
        _begin(own, item, kernels, read, part)
    operators = {key: np.stack([item.actions.operators[key] for item in ensembles]) for key in ensembles[0].actions.operators}
    sums = {}
    for key, matrices in operators.items():
        kept = [weights for matrix in matrices if (weights := kept_weights(matrix, grid.blocks)) is not None]
        if len(kept) == len(matrices):
            sums[key] = np.stack(kept)[:, None], np.zeros((len(kept), 1, shape[1])), 0
    guesses = [near for _, near in inputs if near is not None]
    guessed = len(guesses) == len(inputs)
    lead = len(ensembles), plan.count
    made = PathBatch(
        [item.plan for item in ensembles], grid.nodes, grid.blocks, [read for read, _ in inputs], operators,
        np.stack(guesses) if guessed else np.empty(base.shape), np.empty((*lead, *shape)), np.empty((*lead, count, *shape)),
        machine_code(plan), sums,
    )  # fmt: skip
    for block in grid.blocks:
        solve_block(made, block, base, guessed, enough)
    return made


def _begin(base: Any, ensemble: Driven, kernels: Kernels, inputs: _Inputs, part: slice) -> None:
    """Add to the unknowns their starts and the integrals of drives, as running sums if possible."""
    plan, blocks = ensemble.plan, kernels.grid.blocks
    given = ensemble.starts
    for index, start in enumerate(plan.starts(*(item[0] for item in inputs.constants)) if given is None else given[:, part]):
        base[index] += start
    for drive, matrix in zip((*plan.drives, *plan.kicks), ensemble.actions.drives, strict=True):
        noise, home = inputs.noises[plan.driving.index(drive.noise)], home_of(base)
        if home is not CPU or (weights := kept_weights(matrix, blocks)) is None:
            base[drive.unknown] += home.put(matrix) @ noise
            continue
        total = np.zeros(inputs.paths)
        for block in blocks:
            base[drive.unknown, block] += matrix[block, block] @ noise[block] + total
            total = total + weights[block] @ noise[block]


def _follow_on_card(
    ensemble: Driven, kernels: Kernels, inputs: _Inputs, guess: Any, enough: float, backend: Backend
) -> tuple[Any, Any, Any]:
    """Solve all blocks by one kernel of the card; return the unknowns, signals and slopes."""
    from eqsolve.numerics.cuda import newton

    plan = ensemble.plan
    bound: Any = plan.signals
    put, arrays, text = backend.put, backend.arrays, card_code(plan)
    assert text is not None  # the backend was chosen by it
    base = arrays.zeros((len(plan.unknowns), kernels.grid.size, inputs.paths))
    _begin(base, ensemble, kernels, inputs, slice(None))
    starts, flat = by_block(ensemble.actions.operators, kernels.grid, len(plan.unknowns), plan.count)
    noises = arrays.stack(inputs.noises[: inputs.read]) if inputs.read else base[:0]
    constants = arrays.concatenate(inputs.constants) if inputs.constants else base[:0, 0]
    shared = arrays.concatenate([inputs.nodes, *inputs.functions], axis=1).T
    unknowns, signals, slopes, change, failed = newton(
        backend, text, starts, put(np.array((*bound.values, 0.0))), arrays.ascontiguousarray(shared), noises, constants,
        put(flat), base, guess, plan.count, enough, _STEPS, _SHORTER, _SHORTEST,
    )  # fmt: skip
    if failed >= 0 or not change < _ACCEPTED:
        raise _no_solution(kernels.grid.nodes, kernels.grid.blocks[failed])
    return unknowns, signals, slopes


def by_block(operators: Operators, grid: Any, unknowns: int, signals: int) -> tuple[Array, Array]:
    """Return where blocks start, and the operators transposed, rows and columns by block, then entry, then node."""
    size = grid.size
    starts = np.array([*(block.start for block in grid.blocks), size])
    whole = np.zeros((unknowns, size, signals, size))
    for (unknown, signal), matrix in operators.items():
        whole[unknown, :, signal] += matrix
    order = np.ix_(*(sort_by_block(starts, many) for many in (unknowns, signals)))
    return starts, np.ascontiguousarray(whole.reshape(unknowns * size, signals * size)[order].T)


def sort_by_block(starts: Array, many: int) -> Array:
    """Return the order of (entry, node) by block, then entry, then node."""
    size = starts[-1]
    return np.concatenate([
        (np.arange(many)[:, None] * size + np.arange(low, high)).ravel() for low, high in itertools.pairwise(starts)
    ])  # fmt: skip


def kept_weights(matrix: Array, blocks: Sequence[slice]) -> Array | None:
    """Return the weights of nodes in an integral from the start, if they are the same in all later blocks."""
    last = matrix[-1]
    kept = all((matrix[block.stop :, block] == last[block]).all() for block in blocks)
    return last if kept else None


def evaluate(plan: EnsembleProgram, inputs: Any, part: slice, unknowns: Any) -> tuple[Any, Any]:
    """Return the signals and their slopes on a block."""
    shape = unknowns.shape[1:]
    made = np.empty((plan.count * (1 + len(unknowns)), *shape))
    for place, value in enumerate(plan.signals(*inputs.at(part, unknowns))):
        made[place] = value
    return made[: plan.count], made[plan.count :].reshape(plan.count, len(unknowns), *shape)


def block_inverses(operators: Operators, blocks: Sequence[slice], slopes: Array) -> list[Array]:
    """Return the inverses of 1 − O diag(slopes) within the blocks, each (rows, columns, paths); equal sizes together."""
    count, paths = slopes.shape[1], slopes.shape[3]
    made: list[Array] = []
    for size, group in itertools.groupby(blocks, key=lambda block: block.stop - block.start):
        members = list(group)
        span = slice(members[0].start, members[-1].stop)
        local = slopes[:, :, span].reshape(len(slopes), count, len(members), size, paths)
        matrix = np.zeros((count * size, count * size, len(members), paths))
        matrix[range(count * size), range(count * size)] = 1.0
        for (unknown, signal), operator in operators.items():
            own = np.stack([operator[block, block] for block in members], axis=2)
            for other in range(count):
                rows, columns = slice(unknown * size, (unknown + 1) * size), slice(other * size, (other + 1) * size)
                matrix[rows, columns] -= own[:, :, :, None] * local[signal, other].swapaxes(0, 1)
        inverse = invert(matrix.reshape(count * size, count * size, -1)).reshape(matrix.shape)
        made += [inverse[:, :, place] for place in range(len(members))]
    return made


def substitute(operators: Operators, blocks: Sequence[slice], slopes: Array, right: Array) -> Array:
    """Solve x = right + O diag(slopes) x for vectors, block after block, by the compiled kernel."""
    from eqsolve.numerics.compiled import linear_block

    made = np.empty_like(right)
    effects = np.empty((len(slopes), *right.shape[1:]))
    for block in blocks:
        local = right[:, block].copy()
        if block.start:
            for (unknown, signal), matrix in operators.items():
                local[unknown] += matrix[block, : block.start] @ effects[signal, : block.start]
        linear_block(own_part(operators, block, (len(right), len(slopes))), slopes[:, :, block], local)
        made[:, block] = local
        effects[:, block] = np.einsum("konp,onp->knp", slopes[:, :, block], made[:, block])
    return made


def solve_linear(paths: Paths, right: Any) -> Any:
    """Solve x = right + O diag(slopes) x, (unknown, node, path), on the backend of the paths."""
    operators, grid, backend = paths.actions.operators, paths.kernels.grid, paths.backend
    if backend is CPU:
        return substitute(operators, grid.blocks, np.ascontiguousarray(paths.slopes), right)
    from eqsolve.numerics.cuda import linear_function, newton

    signals, count, nodes, many = paths.slopes.shape
    starts, flat = by_block(operators, grid, count, signals)
    none, slopes = right[:0, 0], paths.slopes.reshape(signals * count, nodes, many)
    text = linear_function(count, signals)
    return newton(
        backend, text, starts, none, none, slopes, none, backend.put(flat), right, None, signals, np.inf, 2, 1.0, 0.0
    )[0]


def own_part(operators: Operators, block: slice, shape: tuple[int, ...]) -> Array:
    """Return the part of the operators within a block, (…, unknown, signal, node, node): ``shape`` without the nodes."""
    size = block.stop - block.start
    made = np.zeros((*shape, size, size))
    for (unknown, signal), matrix in operators.items():
        made[..., unknown, signal, :, :] += matrix[..., block, block]
    return made


def solve_block(paths: PathBatch, part: slice, base: Array, guessed: bool, settled_at: float) -> None:
    """Solve one block by Newton's method, path by path; a step that makes a path's residual larger is shortened."""
    history = base[:, :, part].copy()
    if part.start:
        for (unknown, signal), matrix in paths.operators.items():
            if (unknown, signal) in paths.sums:
                weights, total, seen = paths.sums[unknown, signal]
                total = total + weights[..., seen : part.start] @ paths.signals[:, signal, seen : part.start]
                paths.sums[unknown, signal] = weights, total, part.start
                history[:, unknown] += total
            else:
                history[:, unknown] += matrix[:, part, : part.start] @ paths.signals[:, signal, : part.start]
    if not guessed:
        paths.unknowns[:, :, part] = paths.unknowns[:, :, part.start - 1 : part.start] if part.start else history
    if paths.code:
        from eqsolve.numerics.compiled import newton_block

        own = (len(base), base.shape[1], paths.signals.shape[1])
        change = newton_block(
            paths.code, *paths.arguments, history, own_part(paths.operators, part, own), part.start, settled_at, _STEPS,
            _SHORTER, _SHORTEST, paths.unknowns, paths.signals, paths.slopes,
        )  # fmt: skip
    else:
        change = _solve_interpreted(paths, part, history[0], settled_at)
    if not change < _ACCEPTED:
        raise _no_solution(paths.nodes, part)


def _solve_interpreted(paths: PathBatch, part: slice, history: Array, settled_at: float) -> float:
    """Solve one block of one ensemble by functions of arrays; return the last relative step of Newton's method."""
    (plan,), (inputs,) = paths.plans, paths.inputs
    count, size, unknowns = len(history), part.stop - part.start, paths.unknowns[0, :, part].copy()
    scale = 1.0 + np.abs(history).max(axis=(1, 2), keepdims=True)
    identity = np.eye(count * size)[:, :, None]
    own = {key: matrix[0, part, part] for key, matrix in paths.operators.items() if matrix[0, part, part].any()}
    settled, reach, step = unknowns, np.ones(unknowns.shape[2]), np.zeros_like(unknowns)
    before = np.full(unknowns.shape[2], np.inf)
    change = np.inf
    for _ in range(_STEPS):
        signals, slopes = evaluate(plan, inputs, part, unknowns)
        residual = unknowns - history
        for (unknown, signal), matrix in own.items():
            residual[unknown] -= matrix @ signals[signal]
        norm = np.abs(residual / scale).max(axis=(0, 1))
        if change < settled_at and np.isfinite(norm).all():
            break
        worse = ~(norm <= np.maximum(before, 1e-9))
        if worse.any():  # the step was too long for these paths
            reach = np.where(worse, _SHORTER * reach, reach)
            if float(reach.min()) < _SHORTEST:
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
    paths.signals[0, :, part], paths.slopes[0, :, :, part], paths.unknowns[0, :, part] = signals, slopes, unknowns
    return change


class LostPathError(SolverError):
    """The equations of a path on a panel have no solution that is found: the panel may be too long for it."""


def _no_solution(nodes: Array, part: slice) -> LostPathError:
    here = f"t = {nodes[part.stop - 1]:.6g}"
    return LostPathError(
        f"the equations of a path have no solution that can be found near {here}; it may blow up there, "
        "or jump between branches within a step"
    )


def machine_code(plan: EnsembleProgram) -> int:
    """Return the address of the signals' machine code; 0 where they hold a function without one."""
    from eqsolve.numerics.compiled import GROUP
    from eqsolve.numerics.lanes import translate

    lowered, kinds = _kinds(plan)
    return 0 if lowered.functions else translate(lowered.text, kinds, GROUP)


def card_code(plan: EnsembleProgram) -> str | None:
    """Return the signals in the language of a card; None where they hold a function that it lacks."""
    from eqsolve.numerics.cuda import print_function

    lowered, kinds = _kinds(plan)
    return None if lowered.functions else print_function(lowered.text, kinds)


def _kinds(plan: EnsembleProgram) -> tuple[Any, str]:
    """Return the signals' text, and where each of its arguments is (see ``lanes.translate``)."""
    bound: Any = plan.signals
    lowered = bound.lowered
    kinds = "p" * len(lowered.parameters) + "t" + "u" * len(plan.unknowns) + "z" * len(plan.noises)
    return lowered, kinds + "c" * len(plan.constants) + "t" * len(plan.functions)
