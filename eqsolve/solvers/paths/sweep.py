"""One sweep of a stochastic system on a grid: means over paths in, means over paths out.

A sweep evaluates the closed relations for given means, draws the modes of the noises, follows all
paths with their linear responses, and averages. Only ``Work`` has a state.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import EnsembleProgram, MeanProgram, StochasticProgram
from eqsolve.errors import SolverError, logger
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend, choose_backend, home_of
from eqsolve.numerics.gaussian import Level, PointLayout, Points
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.laws import parts_of
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels, evaluate
from eqsolve.solvers.cluster import Cluster
from eqsolve.solvers.paths.follow import (
    PATHS_PER_BATCH,
    Driven,
    Paths,
    bytes_of,
    card_code,
    check_memory,
    follow,
    path_operators,
)
from eqsolve.solvers.paths.means import Averages, MeanResponses, add_up, average, average_single
from eqsolve.solvers.paths.modes import Choice, Group, choose, draw, draw_along, groups_of, modes_of
from eqsolve.solvers.paths.responses import MOST_VALUES, vary
from eqsolve.solvers.threads import in_order, usable_threads

_WORTH = 3e8  # operations of the tangents in a sweep above which it is worth the launches on a card: 30 ms of a core

Means = dict[str, Array]
Shapes = tuple[list[Array], ...]
"""How much responses vary, by ensemble and group of noises, on one grid."""


def _nobody(until: float, sweep: int, left: float) -> None:
    """Tell nobody how far a solve is."""


@dataclass(eq=False)
class Work:
    """What a solve counts and keeps on its way: sweeps done, whom to tell, and a checkpoint."""

    notify: Callable[[float, int, float], None] = _nobody  # a lambda cannot be sent to workers
    cluster: Cluster = field(default_factory=Cluster)
    checkpoint: Checkpoint | None = None
    sweeps: int = 0
    plan_pieces: tuple[Any, ...] | None = field(default=None, repr=False)  # the plan's pieces, for the checkpoint


@dataclass(frozen=True, eq=False)
class Engine:
    """A compiled system with its numbers and laws, execution settings, and fixed kernels."""

    program: StochasticProgram
    laws: Mapping[str, Any]
    work: Work
    accuracy: float = 1e-10  # of the paths, relative
    device: str = "cpu"
    threads: int | None = 1
    known: Kernels | None = None

    def backend(self, plan: EnsembleProgram, nodes: int, count: int) -> Backend:
        """Return where paths and their tangents are followed."""
        unknowns = len(plan.unknowns)
        work = unknowns * plan.count * nodes**3 * count / 3
        if self.device == "cpu" or work < _WORTH or card_code(plan) is None:
            return CPU
        return choose_backend(self.device, math.inf, 2.0 * bytes_of(plan, nodes) * count)

    def is_on_card(self, nodes: int, count: int) -> bool:
        """Whether sets of this number of paths are followed on a card."""
        return any(self.backend(plan, nodes, count) is not CPU for plan in self.program.ensembles)

    @property
    def ensembles(self) -> tuple[EnsembleProgram, ...]:
        return self.program.ensembles

    @functools.cached_property
    def means(self) -> list[MeanProgram]:
        return [mean for item in self.ensembles for mean in item.means]

    @functools.cached_property
    def fed(self) -> frozenset[str]:
        """The means that act back; the others are only reported."""
        return frozenset(mean.name for mean in self.means if mean.acts)

    @functools.cached_property
    def responses(self) -> frozenset[str]:
        return frozenset(mean.name for mean in self.means if mean.kind == "response")

    @functools.cached_property
    def noises(self) -> tuple[int, ...]:
        """How many noises every ensemble has."""
        return tuple(len(item.driving) for item in self.ensembles)

    def groups(self, kernels: Kernels, plan: EnsembleProgram | None = None) -> list[Group]:
        """Return the noises with their covariances for given kernels; those of one ensemble."""
        if self not in kernels.derived:
            kernels.derived[self] = groups_of(self.program.covariances, kernels, self.program.whites, averaged=True)
        return [group for group in kernels.derived[self] if plan is None or group.noises[0] in plan.driving]

    def kernels(self, grid: OperatorGrid, means: Mapping[str, Array]) -> Kernels:
        means = means if self.known is None else {**self.known.means, **means}
        return evaluate(self.program.definitions, grid, means, self.known)


@dataclass(frozen=True, eq=False)
class Design:
    """How points are chosen: accuracy, layouts to reuse, covariances of responses, also per value.

    One path in ``tangent_stride`` is followed by its tangents.
    """

    level: Level
    layouts: tuple[PointLayout | None, ...] | None = None
    shapes: Shapes | None = None
    by_value: Shapes | None = None
    tangent_stride: int = 1


@dataclass(frozen=True, eq=False)
class Kept:
    """Points and modes that are kept, and a guess of the unknowns on their paths."""

    choice: Choice
    unknowns: Array


def sweep(
    engine: Engine, grid: OperatorGrid, means: Means, design: Design, previous: Sequence[Averages | Kept] | None = None
) -> tuple[Averages, ...]:
    """Return the averages over paths driven by the given means; ``previous`` ones keep their modes and points.

    Where a card follows the tangents, the paths are in the machine's memory all the same.
    """
    engine.work.sweeps += 1
    kernels = engine.kernels(grid, means)
    try:
        return tuple(
            average(paths, choice, engine.backend(paths.plan, *paths.shape), threads=engine.threads)
            for paths, choice in _followed(engine, kernels, design, previous)
        )
    except MemoryError as full:
        return sweep(_without_card(engine, full), grid, means, design, previous)


def _without_card(engine: Engine, full: MemoryError) -> Engine:
    """Return the engine without a card, whose memory is full: others use it too."""
    if engine.device == "cpu":
        raise full
    logger.warning("the card's memory is full: these paths are followed on the CPU")
    return replace(engine, device="cpu")


def sweep_large(
    engine: Engine, grid: OperatorGrid, means: Means, design: Design, known: Sequence[tuple[MeanResponses, MeanResponses]],
    previous: Sequence[Kept] | None = None,
) -> tuple[Means, tuple[Kept, ...]]:  # fmt: skip
    """Return the means over a large set of paths, and its points with the unknowns on all paths.

    Paths are followed some at a time, and what they add to the means is all that is kept of them.
    ``known`` are mean responses to noises and constants by ensemble: those of the control variates.
    """
    kernels, total, kept = engine.kernels(grid, means), dict[str, Array](), []
    try:
        for place, plan in enumerate(engine.ensembles):
            before = None if previous is None else previous[place]
            groups, actions = engine.groups(kernels, plan), path_operators(plan, kernels)
            backend = engine.backend(plan, grid.size, design.level.most)
            choice = before.choice if before else _choice(engine, kernels, design, place, groups, actions.drives, backend)
            near = before.unknowns if before else None
            if choice.layout.kind in ("sample", "single"):
                made, unknowns = _sweep_sample(engine, kernels, plan, choice, known[place], design.tangent_stride, near)
            else:  # exact with the few points that it has
                driven = [Driven(plan, actions, choice.points, draw(plan, groups, choice, aligned=before is not None), near)]
                paths = follow(driven, kernels, engine.accuracy, CPU, engine.threads)[0]
                made, unknowns = average(paths, choice, threads=engine.threads).means, paths.unknowns
            total |= made
            kept.append(Kept(choice, unknowns))
    except MemoryError as full:
        return sweep_large(_without_card(engine, full), grid, means, design, known, previous)
    return total, tuple(kept)


def _sweep_sample(
    engine: Engine, kernels: Kernels, plan: EnsembleProgram, choice: Choice, known: tuple[MeanResponses, MeanResponses],
    stride: int, near: Array | None,
) -> tuple[Means, Array]:  # fmt: skip
    """Return the means over sampled paths of one ensemble, and the unknowns on all of them."""
    weights = home_of(choice.points.weights).get(choice.points.weights).reshape(choice.points.values, -1)
    few = weights.shape[1] // stride  # paths whose tangents stand for those of all
    scale = weights.sum(axis=1, keepdims=True) / weights[:, :few].sum(axis=1, keepdims=True)

    def add(paths: Paths, some: Choice, span: tuple[int, int]) -> Means:
        own = (weights[:, slice(*span)] * scale).ravel() if span[0] < few else None
        return add_up(paths, some, *known, own, paths.backend)

    size = kernels.grid.size
    unknowns = engine.backend(plan, size, weights.size).arrays.empty((len(plan.unknowns), size, weights.size))
    return add_by_parts(engine, kernels, plan, choice, add, few, near, unknowns), unknowns


def add_by_parts(
    engine: Engine, kernels: Kernels, plan: EnsembleProgram, choice: Choice,
    add: Callable[[Paths, Choice, tuple[int, int]], Means], cut: int = 0, before: Array | None = None,
    unknowns: Array | None = None,
) -> Means:  # fmt: skip
    """Return the sum of what paths at chosen points ``add``, followed some at a time.

    A part is a span of the points of every value of the constants; none goes across the ``cut``.
    The ``unknowns`` of all paths are written where there is an array for them.
    """
    points, size, values = choice.points, kernels.grid.size, choice.points.values
    groups, actions = engine.groups(kernels, plan), path_operators(plan, kernels)
    count = len(points.weights)
    backend = engine.backend(plan, size, count)
    modes = modes_of(groups, choice, aligned=before is not None)
    each = count // values
    step = max(1, PATHS_PER_BATCH // values) if backend is CPU else each

    def one(span: tuple[int, int]) -> Means:
        places = slice(*span) if values == 1 else np.add.outer(each * np.arange(values), np.arange(*span)).ravel()
        inside = points.on(lambda item: backend.put(item[..., places]))
        some = replace(choice, points=inside)
        drawn, near = draw_along(plan, modes, some), None if before is None else before[..., places]
        paths = follow([Driven(plan, actions, inside, drawn, near)], kernels, engine.accuracy, backend)[0]
        if unknowns is not None:
            unknowns[..., places] = paths.unknowns
        return add(paths, some, span)

    total: Means = {}
    spans = list(itertools.pairwise([*sorted({*range(0, cut, step), *range(cut, each, step)}), each]))
    threads = usable_threads(engine.threads, size * count) if backend is CPU and len(spans) > 1 else 1
    for made in in_order(one, spans, threads):
        for name, value in made.items():
            total[name] = total[name] + value if name in total else value
    return total


def report(engine: Engine, grid: OperatorGrid, means: Means, design: Design, previous: tuple[Averages, ...]) -> Means:
    """Return what a sweep makes of the means that do not act back; without responses where these are not needed."""
    aside = [mean for mean in engine.means if not mean.acts]
    if any(mean.kind != "one" for mean in aside):
        swept = collect(sweep(engine, grid, means, design, previous))
        return {mean.name: swept[mean.name] for mean in aside}
    followed = _followed(engine, engine.kernels(grid, means), design, previous) if aside else ()
    single = {name: value for paths, _ in followed for name, value in average_single(paths)[0].items()}
    return {mean.name: single[mean.name] for mean in aside}


def collect(averages: Iterable[Averages]) -> Means:
    return {name: value for item in averages for name, value in item.means.items()}


def _followed(
    engine: Engine, kernels: Kernels, design: Design, previous: Sequence[Averages | Kept] | None
) -> list[tuple[Paths, Choice]]:
    choices, driven = [], []
    for place, plan in enumerate(engine.ensembles):
        groups, actions = engine.groups(kernels, plan), path_operators(plan, kernels)
        if previous is not None:
            kept = previous[place]
            choice, before = kept.choice, kept.unknowns if isinstance(kept, Kept) else kept.paths.unknowns
        else:
            choice, before = _choice(engine, kernels, design, place, groups, actions.drives), None
        choices.append(choice)
        driven.append(Driven(plan, actions, choice.points, draw(plan, groups, choice, aligned=previous is not None), before))
    return list(zip(follow(driven, kernels, engine.accuracy, CPU, engine.threads), choices, strict=True))


def count_paths(engine: Engine, kernels: Kernels, design: Design) -> int:
    """Return how many paths a design asks for at a solution, without following them."""
    total = 0
    for place, plan in enumerate(engine.ensembles):
        groups, actions = engine.groups(kernels, plan), path_operators(plan, kernels)
        total += len(_choice(engine, kernels, replace(design, by_value=None), place, groups, actions.drives).points.weights)
    return total


def _choice(
    engine: Engine, kernels: Kernels, design: Design, place: int, groups: Sequence[Group], drives: Sequence[Array],
    backend: Backend = CPU,
) -> Choice:  # fmt: skip
    """Return the modes and points of an ensemble that a design asks for."""
    return choose(engine.ensembles[place], kernels, groups, drives, engine.laws, design.level,
                  design.layouts[place] if design.layouts else None, design.shapes[place] if design.shapes else None,
                  by_value=design.by_value[place] if design.by_value else (), backend=backend)  # fmt: skip


def count_values(engine: Engine, points: int = 2) -> int:
    """Return how many combinations of atoms, parts and points of their laws the constants of an ensemble have, at most."""
    counts = {name: len(parts_of(law)) or len(law.rule(points)[0]) for name, law in engine.laws.items()}
    return max((math.prod(counts[name] for name in plan.constants) for plan in engine.ensembles), default=1)


@dataclass(frozen=True, eq=False)
class Sample:
    """Paths of one ensemble that are followed when they are looked at: their points, and every process on (paths, nodes)."""

    plan: EnsembleProgram
    points: Points
    nodes: int
    follow: Callable[[], Paths]

    @functools.cached_property
    def processes(self) -> dict[str, Array]:
        try:
            with np.errstate(all="ignore"):
                return self.follow().processes()
        except (SolverError, MemoryError) as reason:
            logger.info("the sample of paths cannot be followed: %s", reason)
            empty = np.full((len(self.points.weights), self.nodes), np.nan)
            return dict.fromkeys(self.plan.processes, empty)


def sample(engine: Engine, kernels: Kernels, averages: tuple[Averages, ...], count: int, seed: int) -> tuple[Sample, ...]:
    """Return ``count`` paths of every ensemble for given kernels, of positive weight, noises and constants drawn jointly."""
    made = []
    for item in averages:
        plan, choice, level = item.paths.plan, item.choice, replace(item.choice.level, most=count, seed=seed)
        made.append(draw_paths(engine, kernels, plan, level, choice.shapes))
        check_memory(plan, len(made[-1].points.weights), kernels.grid.size)
    return tuple(made)


def draw_paths(engine: Engine, kernels: Kernels, plan: EnsembleProgram, level: Level, shapes: Any = None) -> Sample:
    """Return paths of one ensemble, of positive weight, that are followed when they are looked at."""
    groups, actions = engine.groups(kernels, plan), path_operators(plan, kernels)
    choice = choose(plan, kernels, groups, actions.drives, engine.laws, level, PointLayout("draws"), shapes)
    return follow_later(engine, kernels, plan, choice)


def follow_later(engine: Engine, kernels: Kernels, plan: EnsembleProgram, choice: Choice) -> Sample:
    """Return paths at chosen points, that are followed when they are looked at."""
    points, size = choice.points, kernels.grid.size
    drawn = draw(plan, engine.groups(kernels, plan), choice, aligned=False)
    driven = [Driven(plan, path_operators(plan, kernels), points, drawn)]
    return Sample(plan, points, size, lambda: follow(driven, kernels, engine.accuracy, CPU, engine.threads)[0])


def variation(averages: tuple[Averages, ...], *, by_value: bool = False) -> Shapes:
    """Return how the responses of paths vary, to choose modes by (on the same grid); also for every value of constants."""
    made = []
    for item in averages:
        pairs = [mean for mean in item.paths.plan.means if mean.kind == "two" and mean.acts]
        acting = frozenset(place for mean in pairs for term in mean.targets for place in term)
        several = 1 < item.paths.points.values <= MOST_VALUES
        made.append([] if by_value and not several else vary(item.paths, acting, by_value=by_value))
    return tuple(made)


def guess(engine: Engine, grid: OperatorGrid, level: Level) -> Means:
    """Return a first guess: nothing moves, nothing responds."""
    size = grid.size
    every = engine.means
    means = {mean.name: np.zeros(size) if mean.kind == "one" else np.zeros((size, size)) for mean in every}
    first = OperatorGrid(grid.nodes[:1], grid.blocks[:1], grid.integration[:1, :1], None)
    small = {name: value[:1] if value.ndim == 1 else value[:1, :1] for name, value in means.items()}
    for _ in range(3):
        small = collect(sweep(engine, first, small, Design(level)))
    still = {name: value for name, value in small.items() if name not in engine.responses}
    return means | {name: means[name] + value.reshape(-1)[0] for name, value in still.items()}


def rate(engine: Engine, start: float, level: Level, *, typical: bool = False) -> float:
    """Return how fast the unknowns move or react at the start: the inverse of the first time scale."""
    grid = OperatorGrid.from_panels(PanelGrid(np.array([start, start + 1.0]), 1)).head(1)
    means = guess(engine, grid, level)
    for _ in range(2):
        averages = sweep(engine, grid, means, Design(level))
        means = collect(averages)
    return max([1e-6, *(item.paths.rate(typical) for item in averages)])
