"""Systems whose paths are affine in Gaussian drives and constants: a closed system of two times, no paths.

Mean and covariance of such paths follow from linear operators on a grid of panels, and what is averaged is a one- or
two-dimensional Gaussian integral (``eqsolve.numerics.quadrature``). The means are found panel after panel, each by a few
steps of an iteration. Panels are made denser where the difference to others of another order, solved with other rules for
the integrals, asks for it. With white noise steps of the trapezoidal rule are extrapolated instead.

Chosen before the sampling solver where the law is Gaussian. Order 2m − 1 in the panels' length (Radau IIA with m nodes;
Hairer & Wanner 1996, doi:10.1007/978-3-642-05221-7). Cost: nodes² × (terms of a series + nodes of a panel) × steps; memory:
nodes² × (unknowns + signals) × noises. The equations of a network are those of Sompolinsky, Crisanti & Sommers, Phys. Rev.
Lett. 61, 259 (1988), doi:10.1103/PhysRevLett.61.259.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from eqsolve.compile.forms import GAUSSIAN, Form
from eqsolve.compile.gaussian import GaussianProgram
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.compile.stochastic import Covariance, MeanProgram
from eqsolve.errors import MemoryLimitError, ModelError, SolverError, logger
from eqsolve.numerics.arrays import ROUNDING, Array, over_groups, over_neighbours, richardson
from eqsolve.numerics.backend import demand_memory
from eqsolve.numerics.gaussian import make_level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.quadrature import LineRule
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.rows import RowStore
from eqsolve.numerics.secants import Secants
from eqsolve.results.result import Result
from eqsolve.solvers.contract import HandOver, Solver, why_not_driven
from eqsolve.solvers.gaussian.law import GaussianLaw, LawMeans, conditions
from eqsolve.solvers.marching import Compared, best_of
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.error_control import Curves, ErrorControl, Errors, make_result, path_set
from eqsolve.solvers.paths.iterate import pack, unpack, weigh
from eqsolve.solvers.paths.modes import groups_of
from eqsolve.solvers.paths.sweep import Engine, Means, Work, draw_paths, rate
from eqsolve.solvers.paths.transfer import extend, transfer
from eqsolve.solvers.tolerance import FLOOR, KERNEL_FLOOR, Worst, allowance, stop_early


# --- A Gaussian system solved on a grid, block after block: the past is known, and the new rows of
# all means are iterated.
#
# The means give the kernels, these the law of the new rows, and this the means. Within one panel
# that is a contraction for panels short enough, or between two nodes where there are no panels;
# Anderson acceleration makes it a few steps (Walker & Ni 2011, see ``eqsolve.numerics.secants``).
def halved(panels: PanelGrid, panel: int) -> PanelGrid:
    """Return panels with one of them cut in two, and later ones into pieces no longer than these."""
    steps = np.diff(panels.edges)
    pieces = [2 if place == panel else max(1, math.ceil(2 * step / steps[panel] - 1e-9)) if place > panel else 1
              for place, step in enumerate(steps)]  # fmt: skip
    edges = [edge + step * np.arange(count) / count for edge, step, count in zip(panels.edges, steps, pieces, strict=False)]
    return replace(panels, edges=np.append(np.concatenate(edges), panels.edges[-1]))


class UnsettledError(SolverError):
    """The iteration of the means diverges on a block, whose panel is too long; ``block`` is its place."""

    block: int = 0


@dataclass(frozen=True, eq=False)
class Sizes:
    """The means of the sizes of what is averaged, E|f| where E f is the mean."""

    sizes: dict[str, Array]


@dataclass(frozen=True, eq=False)
class LawMarch:
    """A solution on a grid; ``residual`` is what the iteration would still change."""

    grid: OperatorGrid
    means: Means
    kernels: Kernels
    averages: tuple[Sizes, ...]
    laws: tuple[tuple[LawMeans, ...], ...]
    covariances: tuple[Covariance, ...]
    residual: float


@dataclass(eq=False)
class _Work:
    """Everything that is filled in on the way."""

    engine: Engine
    plan: GaussianProgram
    laws: tuple[tuple[LawMeans, ...], ...]
    natural: dict[str, float] = field(default_factory=dict)  # by mean, how large it would be if nothing cancelled

    def refresh(self, kernels: Kernels, rows: slice, acting: bool) -> list[dict[str, tuple[Array, Array | None]]]:
        """Return, by ensemble, the rows of all means with feedback, or of those without, and their columns."""
        totals = []
        for place, (paths, law) in enumerate(zip(self.plan.paths.ensembles, self.plan.laws, strict=True)):
            own = [item for item in self.plan.paths.covariances if item.noises[0] in paths.noises]
            groups = groups_of(own, kernels, whole=True)
            chosen = [(mean, pairs) for mean, pairs in zip(paths.means, law.pairs, strict=True) if mean.acts == acting]
            wanted = frozenset(factor for _, pairs in chosen for pair in pairs for factor in pair)
            total: dict[str, Any] = {}
            for item in self.laws[place]:
                if acting:
                    item.law.advance(kernels, rows)
                item.read(kernels, groups, rows, wanted)
                for mean, pairs in chosen:
                    self.natural[mean.name] = max(self.natural.get(mean.name, 0.0), _natural(item, mean, pairs, kernels))
                    part, columns = _mean(item, mean, pairs, kernels, rows)
                    weight, (known, other_rule) = item.law.condition.weight, total.get(mean.name, (0.0, 0.0))
                    total[mean.name] = known + weight * part, None if columns is None else other_rule + weight * columns
            totals.append(total)
        return totals


def _natural(item: LawMeans, mean: MeanProgram, pairs: tuple[tuple[int, int], ...], kernels: Kernels) -> float:
    """Return how large a mean would be if nothing cancelled."""
    if mean.kind == "one":
        return float(item.magnitude[pairs[0][0]].max(initial=0.0))
    if mean.kind == "response":
        return 0.0
    total = 0.0
    for outer, pair in zip(mean.outers, pairs, strict=True):
        size = math.prod(math.sqrt(float(item.power[factor].max(initial=0.0))) for factor in pair)
        total += size * (1.0 if outer is None else float(np.abs(kernels.pointwise(outer)).max()))
    return total


def _mean(
    item: LawMeans, mean: MeanProgram, pairs: tuple[tuple[int, int], ...], kernels: Kernels, rows: slice
) -> tuple[Array, Array | None]:
    """Return a mean on rows, up to the last of them, and of a table the columns above."""
    if mean.kind == "one":
        return item.mean[pairs[0][0], rows].copy(), None
    stop, before = rows.stop, slice(0, rows.start)
    if mean.kind == "response":
        return _response(item, mean, pairs, kernels, rows), None
    total, columns = np.zeros((stop - rows.start, stop)), np.zeros((rows.start, stop - rows.start))
    for outer, (left, right) in zip(mean.outers, pairs, strict=True):
        first = item.pairs(left, right, rows)
        second = (first if left == right else item.pairs(right, left, rows))[:, before].T
        if outer is not None:
            factor = np.broadcast_to(kernels.pointwise(outer), (kernels.grid.size,) * 2)
            first, second = first * factor[rows, :stop], second * factor[before, rows]
        total, columns = total + first, columns + second
    return total, columns


def _response(item: LawMeans, mean: MeanProgram, pairs: tuple[tuple[int, int], ...], kernels: Kernels, rows: slice) -> Array:
    """Return E[a(t) ∂output(t)/∂noise(t') b(t')] as an operator, without its part at equal times."""
    plan, law, stop = item.law.plan, item.law, rows.stop
    noise = law.drives.index(mean.noise)
    total = np.zeros((stop - rows.start, stop))
    for unknown, (slope, after) in enumerate(pairs):
        plain = item.factors[slope]
        if not plain.arguments and not item.mean[slope, :stop].any():
            continue
        response = law.noises[unknown, rows, noise, :stop].copy()
        if not plan.integrated[unknown]:
            for drive in plan.drives:
                if drive.unknown == unknown and drive.noise == mean.noise:
                    size = kernels.grid.size
                    weight = np.ones(size) if drive.coefficient is None else kernels.vector(drive.coefficient)
                    response[:, rows] -= np.diag(weight[rows])
        total += item.pairs(slope, after, rows) * response
    (outer,) = mean.outers
    if outer is None:
        return total
    return np.asarray(total * np.broadcast_to(kernels.pointwise(outer), (kernels.grid.size,) * 2)[rows, :stop])


# --- marching
def march(
    engine: Engine, plan: GaussianProgram, grid: OperatorGrid, guess: Means | None, rule: LineRule, order: int, accuracy: float
) -> LawMarch:
    """Return the solution on a grid; ``guess`` holds means on the same grid to begin with.

    ``order`` is that of Gauss rules for constants with a density, ``accuracy`` that of the means,
    and what their iteration may leave, relative to the largest value of each.
    """
    laws = tuple(
        tuple(
            LawMeans(GaussianLaw.empty(paths, law, condition, grid.size, dict(plan.paths.whites)), rule, accuracy, grid.size)
            for condition in conditions(law, paths.constants, engine.laws, order)
        )
        for paths, law in zip(plan.paths.ensembles, plan.laws, strict=True)
    )
    work, residual = _Work(engine, plan, laws), 0.0
    every = [mean for item in plan.paths.ensembles for mean in item.means]
    window = grid.head(1)
    means: Means = {mean.name: np.zeros((1,) if mean.kind == "one" else (1, 1)) for mean in every}
    for count, rows in enumerate(grid.blocks, start=1):
        if count > 1:
            before, window = window, grid.head(count)
            if guess is None:
                means = extend(means, engine.responses, before, window)
            else:  # with what is known of it before the rows
                known, means = means, {name: guess[name][(slice(0, rows.stop),) * guess[name].ndim].copy() for name in means}
                for name, value in known.items():
                    means[name][(slice(0, rows.start),) * value.ndim] = value
        try:
            means, moved = _settle(work, window, means, rows, max(accuracy, 1e-12))
        except UnsettledError as reason:
            reason.block = count - 1
            raise
        residual = max(residual, moved)
        engine.work.notify(float(window.nodes[-1]), count, moved)
    kernels = engine.kernels(grid, means)
    means = dict(means) | {mean.name: np.zeros_like(means[mean.name]) for mean in every if not mean.acts}
    for rows in grid.blocks:
        _put(means, work.refresh(kernels, rows, False), rows)
    if not all(np.isfinite(value).all() for value in means.values()):
        raise SolverError("means over the paths are not finite: a function in the equations is not defined at all times")
    sizes = [Sizes({
        mean.name: sum(item.law.condition.weight * item.magnitude[pairs[0][0]] for item in parts)
        for mean, pairs in zip(paths.means, law.pairs, strict=True) if mean.kind == "one"
    }) for paths, law, parts in zip(plan.paths.ensembles, plan.laws, laws, strict=True)]  # fmt: skip
    return LawMarch(grid, means, engine.kernels(grid, means), tuple(sizes), laws, plan.paths.covariances, residual)


def _settle(work: _Work, window: OperatorGrid, means: Means, rows: slice, tolerance: float) -> tuple[Means, float]:
    """Iterate the rows of one block until they converge; return the means, and the last change."""
    secants, engine, most = Secants(8), work.engine, 30  # what then still changes does not settle on so long a panel
    for count in range(1, most + 1):
        engine.work.sweeps += 1
        images = {name: value.copy() for name, value in means.items()}
        _put(images, work.refresh(engine.kernels(window, means), rows, True), rows)
        before, after = pack(engine, means), pack(engine, images)
        if not np.isfinite(after).all():
            break
        # a mean that cancels, by symmetry or nearly so, is known to rounding of what cancels, and
        # not better
        least = {name: np.full(value.shape, FLOOR * work.natural.get(name, 0.0)) for name, value in images.items()}
        weights = 1 / np.maximum(1 / weigh(engine, window, images), pack(engine, least))
        moved = float(np.abs((after - before) * weights).max(initial=0.0))
        if moved <= tolerance or (count == most and moved <= 100 * tolerance):  # the rest is in the stated error
            return images, moved
        vector = secants.next(before, after, weights) if moved < 0.3 else after
        means = unpack(engine, vector, images)
    raise UnsettledError(f"the means do not settle near t = {window.nodes[-1]:.6g}")


def _put(means: Means, parts: list[dict[str, tuple[Array, Array | None]]], rows: slice) -> None:
    for total in parts:
        for name, (values, columns) in total.items():
            if values.ndim == 1:
                means[name][rows] = values
            else:
                means[name][rows, : rows.stop] = values
                if columns is not None:
                    means[name][: rows.start, rows] = columns


_CONSTANTS = LineRule.inner  # Gauss nodes of constants that are conditioned on, at first


# --- Kinks of correlations at equal times, as of white noise: steps in time are extrapolated.
#
# Every interval between the nodes of panels is cut into 1, 2, 4, ... equal steps of the trapezoidal
# rule. Kinks lie on its nodes, and white noise is exact over every step; the rule is its own
# adjoint, so that values on the panels' nodes have an expansion in the squares of the steps
# (Hairer, Lubich & Wanner 2006, doi:10.1007/3-540-30666-8, section II.3). With L grids the order is
# 2L. Between the nodes values are polynomials, of two times on either side of the kink.
_SQUARE = math.sqrt(2**2 * 2**1.5)  # changes that fall by less as steps halve go with the power 3/2, not with the squares
_SHARE = 1 / _SQUARE  # of the distance of the limit to that without the coarsest grid, which is the error of the latter
_LEAST = math.sqrt(2)  # ratio of changes with which a limit is still taken


def even_panels(begin: float, end: float, length: float, asked: Iterable[float], order: int) -> PanelGrid:
    """Return panels of about equal length that end at the times asked for."""
    inside = tuple(sorted({time for time in asked if begin < time < end}))
    pairs = pairwise([begin, *inside, end])
    pieces = [np.linspace(low, high, max(1, int(np.ceil((high - low) / length))) + 1)[:-1] for low, high in pairs]
    return PanelGrid(np.append(np.concatenate(pieces), end), order, breaks=inside)


def subdivided(panels: PanelGrid, parts: int) -> Array:
    """Return the nodes of panels, every interval between them cut into equal parts."""
    nodes = panels.nodes
    inner = nodes[:-1, None] + np.diff(nodes)[:, None] * np.arange(parts) / parts
    return np.append(inner.ravel(), nodes[-1])


def extrapolate_subdivisions(panels: PanelGrid, found: Sequence[Curves], other_rule: Curves) -> tuple[Curves, Errors]:
    """Return the limit of solutions on nodes that are subdivided into 1, 2, 4, ... parts.

    ``other_rule`` is another solution on the coarsest nodes, with other rules for integrals. The errors
    are a share of what the coarsest grid changes, what the rules change, and how far polynomials
    between the nodes are from the limit of the others.
    """
    values, errors = {}, {}
    middle = subdivided(panels, 2)
    within = panels.locate(panels.nodes)
    between = panels.locate(middle)
    tables = [*found[0].tables, *found[0].values]
    halves = {}
    for name in found[0].all:
        levels, fine = (
            [item.all[name][(slice(None, None, 2**place),) * item.all[name].ndim] for place, item in enumerate(grids)]
            for grids in (found, found[1:])
        )
        values[name], change = richardson(levels, ratio=4)
        errors[name] = _SHARE * change + np.abs(other_rule.all[name] - levels[0])
        halves[name] = richardson(fine, ratio=4)[0]
        if (rate := falling(levels)) < _SQUARE:
            limits = [low + (low - high) / (rate - 1) for high, low in pairwise(levels)]
            errors[name] += _SHARE * np.abs(limits[-1] - values[name]) + np.abs(limits[-1] - limits[-2])
            values[name], halves[name] = limits[-1], fine[-1] + (fine[-1] - fine[-2]) / (rate - 1)
    found_tables = {name: values[name] for name in tables}
    rows = RowStore.from_tables(panels, found_tables, kinked=found_tables).tables(middle) if tables else {}
    for name, value in values.items():
        rough = rows[name] if name in rows else panels.interpolate(value, middle)
        gap = np.abs(np.tril(halves[name]) - rough if name in rows else halves[name] - rough)
        start = float(errors[name].flat[0])
        errors[name] = over_groups(errors[name], within) + over_groups(gap, between, within)
        if name in rows:
            errors[name] = np.maximum(errors[name], errors[name].T)
        errors[name].flat[0] = start
    return found[-1].filled(values), errors


def falling(levels: Sequence[Array]) -> float:
    """Return the ratio by which changes fall as steps halve: four for smooth means, less where averages jump.

    A jump of what is averaged leaves the square root of |t − t'| in its correlation, and the power
    3/2 of the step elsewhere.
    """
    first, second = (float(np.linalg.norm(low - high)) for high, low in list(pairwise(levels))[-2:])
    size = float(np.linalg.norm(levels[-1]))
    return max(first / second, _LEAST) if second > 100 * ROUNDING * size else np.inf


class GaussianSolver(Solver):
    __doc__ = __doc__
    name = "gaussian"
    generic = True

    def why_not(self, plan: Plan) -> str:
        if unfit := why_not_driven(plan):
            return unfit
        try:
            return plan.why_not_gaussian
        except ModelError as error:
            return str(error)

    def form(self, discrete: bool) -> Form[Any]:
        return GAUSSIAN

    def why(self, plan: Plan) -> str:
        noises = plan.facts.noises
        drives = f"Gaussian drives ({', '.join(noises)})" if noises else "Gaussian constants"
        return f"affine in {drives}: Gaussian, no paths"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result | HandOver:
        """Solve to the tolerance asked for; an interruption returns what there is."""
        program = at(plan.program(GAUSSIAN), values.numbers)
        begin = float(program.paths.start()[0])
        options.demand_after(begin)
        laws = values.all_laws(program.paths)
        pairs = zip(program.paths.ensembles, program.laws, strict=True)
        count = max(len(conditions(law, paths.constants, laws, _CONSTANTS)) for paths, law in pairs)
        if count > (8 if program.rough else 64):  # paths are cheaper then
            return HandOver("too many combinations of constants to condition on")

        def until(end: float) -> _GaussianSolve:
            asked = options if end == options.t_max else replace(options, t_max=end, at=(), checkpoint=None)
            engine = Engine(program.paths, laws, Work(checkpoint=asked.checkpoint))
            return _GaussianSolve(engine, program, asked, begin, values.settings)

        with np.errstate(all="ignore"):
            try:
                return until(options.t_max).run()
            except MemoryLimitError:
                raise
            except SolverError as error:
                end = options.t_max
                raise stop_early(error, begin, end, lambda t: until(t).begun(), lambda t: until(t).run()) from None


class _GaussianSolve:
    """One solve on its way."""

    def __init__(
        self, engine: Engine, program: GaussianProgram, options: Options, begin: float, params: Mapping[str, Any]
    ) -> None:
        self.engine, self.program, self.options, self.control = engine, program, options, PathsControls()
        self.begin, self.params, self.nodes = begin, params, _CONSTANTS
        self.judge = ErrorControl(engine, options)
        self.newest: Compared | None = None
        self.rough = program.rough
        steps = (1e-4, 1e-4) if self.rough else (3e-4, 3e-5)
        self.order = options.order or (5 if options.rtol > steps[0] else 7 if options.rtol > steps[1] else 8)
        engine.work.notify = self._notify

    def run(self) -> Result:
        """Solve; an interruption returns what there is, with the error it has."""
        try:
            best = best_of(self._solutions(), self.options, self.control.share)
        except (KeyboardInterrupt, MemoryError) as reason:
            if self.newest is None:
                raise
            what = "interrupted" if isinstance(reason, KeyboardInterrupt) else "out of memory"
            said = f"{what} while panels were refined; the errors are those of what was done by then"
            return self._package(self.newest).with_status(what, said)
        assert best is not None
        return self._package(best)

    def begun(self) -> LawMarch:
        """Return a rough solution over the whole time."""
        return self._from_start(self._first())[1]

    # --- panels
    def _first(self) -> PanelGrid:
        begin, end, near = self.begin, self.options.t_max, self.options.warm_start
        if isinstance(near, PanelGrid) and (near.edges[0], near.edges[-1], near.order) == (begin, end, self.order):
            return near
        speed = rate(self.engine, begin, make_level(1e-2, self.options.seed))
        if not self.rough:
            step = min(self.control.first / speed, (end - begin) / 4)
            return PanelGrid.geometric(begin, end, step, self.control.growth, self.order, self.options.breaks)
        spacing = (0.6 if self.options.rtol > 1e-4 else 0.4) / speed  # of the nodes
        length = min(spacing * self.order, (end - begin) / 2)
        return even_panels(begin, end, length, self.options.step_ends(begin), self.order)

    def _from_start(self, panels: PanelGrid) -> tuple[PanelGrid, LawMarch]:
        """Solve without a guess; panels on which the means do not settle are halved."""
        for left in reversed(range(7)):  # what then fails has no solution
            try:
                return panels, self._march(panels, None, other=False)
            except UnsettledError as reason:
                if not left or reason.block == 0:
                    raise
                logger.info("%s; the time grid is made finer there", reason)
                panels = halved(panels, (reason.block - 1) // (self.order if self.rough else 1))
        raise AssertionError

    def _march(self, panels: PanelGrid, like: LawMarch | None, *, other: bool, parts: int = 1) -> LawMarch:
        """Solve on panels, beginning with a solution on others; ``other`` rules where these are compared with.

        Where paths are rough, by steps: ``parts`` of every interval between nodes.
        """
        self._demand_memory(1 + parts * (panels.size - 1))
        grid = OperatorGrid.trapezoid(subdivided(panels, parts)) if self.rough else OperatorGrid.from_panels(panels)
        guess = None if like is None else transfer(like.means, self.engine.responses, like.grid, grid)
        rule, nodes = (LineRule().other(), round(1.5 * self.nodes)) if other else (LineRule(), self.nodes)
        return march(self.engine, self.program, grid, guess, rule, nodes, 1e-3 * self.options.rtol)

    def _compare(self, panels: PanelGrid, solved: LawMarch) -> Compared:
        """Return what a solution on panels reports, with its errors: by others of another order, or by shorter steps.

        Its march may have more nodes than the panels.
        """
        judge = self.judge
        if not self.rough:
            other = self._march(panels.of_another_order(self.control.highest, self.control.check_ratio), solved, other=True)
            curves, errors = judge.curves(solved), judge.total(solved, judge.panel_errors(solved, other))
            return Compared(solved, panels, curves, errors, self._worst(curves, errors))
        other_rule = judge.curves(self._march(panels, None, other=True))
        every, finest = [judge.curves(solved)], solved
        for place in (1, 2):
            finest = self._march(panels, None, other=False, parts=2**place)
            every.append(judge.curves(finest))
        curves, errors = extrapolate_subdivisions(panels, every, other_rule)
        for name, error in errors.items():
            error += 2.0 * max(finest.residual, 1e-14) * float(np.abs(curves.all[name]).max(initial=0.0))
        return Compared(finest, panels, curves, errors, self._worst(curves, errors))

    def _worst(self, curves: Curves, errors: Errors) -> Worst:
        over = self.judge.excesses(curves, errors, kinks=True)
        return max((Worst(excess, name) for name, excess in over.items()), default=Worst())

    def _solutions(self) -> Iterator[Compared]:
        """Solve on denser and denser panels."""
        panels, solved = self._from_start(self._first())
        for _ in range(self.control.rounds):
            self.newest = solution = self._compare(panels, solved)
            logger.info("time grid: %d nodes; compared with an independent grid the error of `%s` is %.2g times the tolerance",
                        solution.march.grid.size, solution.worst.name, solution.worst.excess)  # fmt: skip
            yield solution
            names = [name for law in self.program.laws for name in law.conditions]
            if any(self.engine.laws[name].has_density for name in names):  # that are conditioned on
                self.nodes = round(1.5 * self.nodes)
            panels = panels.denser(self._ratios(solution))
            try:
                solved = self._march(panels, None if self.rough else solved, other=False)
            except MemoryLimitError as reason:
                logger.info("%s", reason)
                return

    def _ratios(self, solution: Compared) -> Array:
        """Return how much denser each panel and its neighbours should be."""
        curves, errors, judge = solution.curves, solution.errors, self.judge
        over = np.zeros(solution.grid.size)
        for name in judge.excesses(curves, errors, kinks=True):
            if name in curves.single:
                over = np.maximum(over, judge.excess_by_time(curves, errors, name))
            else:
                part = errors[name] / (allowance(curves.tables[name], self.options, KERNEL_FLOOR) + 1e-300)
                over = np.maximum(over, np.maximum(part.max(axis=0), part.max(axis=1)))
        panels = over_neighbours(over[1:].reshape(-1, solution.grid.order).max(axis=1), 1, np.max)
        return np.clip((panels / (0.3 * self.control.share)) ** (1 / (self.order + 1)), 1.0, 2.0)

    def _demand_memory(self, nodes: int) -> None:
        numbers = 0.0
        for paths, law in zip(self.program.paths.ensembles, self.program.laws, strict=True):
            held = len(paths.unknowns) + paths.count + len(law.arguments)
            laws = len(conditions(law, paths.constants, self.engine.laws, self.nodes))
            drives = len(paths.noises) + 2 * len({kick.noise for kick in paths.kicks})
            numbers += laws * held * drives + 6.0 * len(paths.means)
        demand_memory(8.0 * numbers * nodes**2, f"{nodes} nodes")

    # --- on the way
    def _notify(self, until: float, count: int, residual: float) -> None:
        self.options.report(0.9 * until, f"up to t = {until:.4g}, sweep {count}, residual {residual:.1g}")

    def _package(self, solution: Compared) -> Result:
        engine, options, grid, solved, curves = self.engine, self.options, solution.grid, solution.march, solution.curves
        over = {solution.worst.name: solution.worst.excess}
        level = replace(make_level(1e-2, options.seed), most=self.control.paths_shown)
        every = (solved.grid.size - 1) // (grid.size - 1)
        drawn = (draw_paths(engine, solved.kernels, plan, level) for plan in engine.ensembles)
        paths = [path_set(item, every, place) for place, item in enumerate(drawn)] if options.paths else []
        stats = {
            "panels": grid.panels, "nodes": solved.grid.size, "paths": 0, "sweeps": engine.work.sweeps,
            "residual": solved.residual, "terms": max((item.terms for laws in solved.laws for item in laws), default=0),
        }  # fmt: skip
        source = grid if solved.grid.panels is not None else None  # for a neighbour
        result = make_result(
            engine.program.name, grid, curves, solution.errors, over, paths, options, self.params, stats, source
        )
        if result.rows is None or solved.grid.panels is not None:
            return result
        kernels = {**curves.tables, **curves.values}
        return replace(result, rows=RowStore.from_tables(grid, kernels, kinked=kernels))
