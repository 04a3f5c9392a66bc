"""Deferred correction of a solution by sets of finer points, until it stays where it is.

As in multigrid methods (Brandt, Math. Comp. 31, 333 (1977), doi:10.1090/S0025-5718-1977-0431719-X)
few points solve for what many leave as residual. The sets share neither modes nor rules nor
samples: how far one moves the solution of another is the error of both.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqsolve.errors import SolverError, logger
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Level, is_gaussian, refine_level
from eqsolve.solvers.paths.checkpointing import as_checkpoint_step
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.error_control import ErrorControl, Errors
from eqsolve.solvers.paths.iterate import DEFAULT_ITERATION, Correction, PathSolution, improve, iterate, pack, unpack, weigh
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.sweep import Design, Engine, Means, collect, count_paths, report, sweep, variation

# in the log, the ways to refine points
_SPOKEN = {"choice": "other modes", "first mode": "points along mode 1", "modes": "sparse-grid level"}


# --- How far a solution would move: with more points in one way, or with points that share nothing
# with its own.
@as_checkpoint_step()
def means_with_points(engine: Engine, final: PathSolution, design: Design) -> Means:
    """Return the means that another set of points asks for: one sweep at the solution, and linear feedback of its change."""
    swept = sweep(engine, final.grid, final.means, design)
    moved = _balanced(engine, final, final.means, swept)
    if any(value.ndim == 1 for name, value in moved.items() if name in engine.fed):  # that improving leaves alone
        return _balanced(engine, final, moved, sweep(engine, final.grid, moved, design, swept))
    if len(engine.fed) < len(moved):  # quantities that feed back come first, reported ones after
        after = report(engine, final.grid, moved, design, swept)
        moved |= {name: value for name, value in after.items() if name not in engine.fed}
    return moved


def corrected(engine: Engine, few: PathSolution, final: PathSolution, design: Design, tolerance: float) -> Means:
    """Return the means of other points, iterated with the paths of ``few`` (see ``Correction``)."""
    grid = final.grid
    many, own = (collect(sweep(engine, grid, final.means, design, item)) for item in (None, few.averages))
    correction = Correction(few.averages, {name: value - own[name] for name, value in many.items()})
    return iterate(engine, grid, final.means, design, tolerance, few.controls, correction).means


def _balanced(engine: Engine, final: PathSolution, means: Means, swept: tuple[Averages, ...]) -> Means:
    """Return the linearised fixed point: means corrected once by the mean responses."""
    image = collect(swept)
    before, weights = pack(engine, means), weigh(engine, final.grid, means)
    residual = pack(engine, {name: image[name] for name in means}) - before
    return unpack(engine, before + _step(engine, final, means, residual, swept, weights), image)


def _step(
    engine: Engine, solved: PathSolution, means: Means, residual: Array, swept: tuple[Averages, ...], weights: Array
) -> Array:
    """Return the change of the means that a residual asks for: by mean responses, or by what past sweeps taught."""
    if any(item.reacts for item in swept):
        return improve(engine, means, residual, swept, weights)
    return solved.secants.anderson_step(residual, residual, weights)


@as_checkpoint_step()
def probe(engine: Engine, solved: PathSolution, same: tuple[Averages, ...], design: Design, way: str) -> Means:
    """Return how far all means would move with more points in one way, or with modes chosen anew ("choice").

    ``same`` is a sweep with as many points, but modes chosen anew.
    """
    plain = collect(same)
    if way == "choice":
        used, direct = solved.averages, {name: value - solved.means[name] for name, value in plain.items()}
    else:
        used = sweep(engine, solved.grid, solved.means, replace(design, level=refine_level(design.level, way)))
        direct = {name: value - plain[name] for name, value in collect(used).items()}
    packed = _step(engine, solved, solved.means, pack(engine, direct), used, weigh(engine, solved.grid, solved.means))
    step = unpack(engine, packed, direct)
    fed = engine.fed
    aside = [name for name in step if name not in fed]
    if aside:  # quantities that feed back come first, reported ones after
        moved = {name: value + step[name] if name in fed else value for name, value in solved.means.items()}
        after = report(engine, solved.grid, moved, design, same)
        step |= {name: direct[name] + after[name] - plain[name] for name in aside}
    return step


# --- From set to set of finer points.

_WELL_ABOVE = 3.0  # tolerances: moves of single sets differ by less than that factor by chance


@dataclass(frozen=True, eq=False)
class RefinedSolution:
    """A solution after the last set of points, and the error of its points.

    ``trend`` are the sets by number of paths, with the errors they showed in units of the
    tolerance.
    """

    final: PathSolution
    errors: Errors
    trend: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class PointRefinement:
    """What moves solutions of one system; ``tolerance`` is that of the iteration."""

    engine: Engine
    judge: ErrorControl
    control: PathsControls
    tolerance: float

    def more(self, solved: PathSolution, design: Design, rough: float, settled: float) -> tuple[PathSolution, Design]:
        """Return a solution with enough points to choose panels by, iterated until ``rough``.

        With too few, single paths dominate: transitions at different times ask for panels that
        their average does not need. A finer set with a residual above ``settled`` is not taken.
        """
        control, judge = self.control, self.judge
        for _ in range(control.early):
            if solved.is_sampled or not self.ways(solved):
                break
            level = refine_level(refine_level(design.level, "first mode"), "modes", control.large)
            finer = Design(level, None, variation(solved.averages))
            if self._count(solved, finer) > control.most_early_paths:
                break
            try:
                means, curves = means_with_points(self.engine, solved, finer), judge.curves(solved)
                if judge.change_in_tolerances(curves, solved.grid, means) <= control.large:
                    break
                found = iterate(self.engine, solved.grid, solved.means, finer, rough, solved.controls)
            except SolverError:
                break
            if found.residual > max(solved.residual, settled):
                break
            solved, design = found, finer
            logger.info("paths: %d of them before the time grid is chosen", solved.paths)
        return solved, design

    def move(self, begun: PathSolution, design: Design, ways: frozenset[str], by_panels: Errors) -> RefinedSolution:
        """Return a solution moved from set to set of finer points, and the error of its points.

        Each set moves the solution that the last one left; the error is how far the last one moved
        it, and not less than a part of the move before. After a move by more than the tolerance,
        the paths of the solution tell how the means act back, not mean responses (``corrected``).
        """
        judge, control = self.judge, self.control
        final, finer, moved = begun, design, judge.zero_errors(begun)
        errors, far, slow = moved, 0.0, False
        trend: tuple[tuple[int, float], ...] = ()
        for number in itertools.count(1):
            coarse, finer = finer.level, self._finer(begun, finer, ways, number)
            if slow:
                means = corrected(self.engine, begun, final, finer, self.tolerance)
            else:
                means = means_with_points(self.engine, final, finer)
            last, kernels = final, self.engine.kernels(final.grid, means)
            final = replace(final, means=means, kernels=kernels, residual=DEFAULT_ITERATION.leaves * final.residual)
            curves = judge.curves(final)
            before, moved = moved, judge.curve_changes(curves, final.grid, last.means)
            part = control.carried_share_if_alike if _is_alike(coarse, finer.level, ways) else control.carried_share
            errors = judge.error_of_changes(curves, [moved, {name: part * change for name, change in before.items()}])
            by_points, by_time = judge.worst(curves, errors), judge.worst(curves, by_panels)
            trend = (*trend, (self._count(final, finer), by_points))
            logger.info("paths: %d quadrature points; compared with %d others the error is %.2g times the tolerance",
                        begun.paths, trend[-1][0], by_points)  # fmt: skip
            if (number > 1 and by_points > max(control.large, far)) or (number > 2 and by_points > 2 * max(far, 1.0)):
                return RefinedSolution(last, errors, trend)  # moves that run away
            if (slow and by_points > control.hopeless) or (number > 1 and by_points + by_time <= 0.95):
                break
            if is_clear(trend) and predict(trend, 1.0) > 2 * self._most(begun, number):
                break  # further sets would not do either
            if number >= control.checks and not (number < 2 * control.checks and is_falling(trend)):
                break
            far, slow = by_points, by_points > 1.0
        return RefinedSolution(final, errors, trend)

    def _finer(self, solved: PathSolution, last: Design, ways: frozenset[str], number: int) -> Design:
        """Return another set of points, finer in the ways given as far as it is not too dear.

        The second is not finer in modes than the first, so that two of about the same size are
        compared.
        """
        most = self._most(solved, number)
        level = replace(last.level, rotation_seed=number)
        for way in (*sorted(ways - {"constants"}), "constants"):  # rules of constants that converge slowly err alike
            if way == "first mode" and number % 2:
                continue
            more = refine_level(level, way, None if way != "first mode" and number == 1 else 7.5)
            if self._count(solved, replace(last, level=more)) <= most:
                level = more
        return replace(last, level=level)

    def _most(self, solved: PathSolution, number: int) -> float:
        """Return how many paths a set of other points may have."""
        control = self.control
        return max(control.most_growth * solved.paths * (1 if number == 1 else 2), control.free_work / solved.grid.size**3)

    def _count(self, solved: PathSolution, design: Design) -> int:
        return count_paths(self.engine, solved.kernels, design)

    def effects(self, solved: PathSolution, design: Design) -> dict[str, float]:
        """Return how far more points in each way move a solution, in tolerances."""
        same, curves, effects = sweep(self.engine, solved.grid, solved.means, design), self.judge.curves(solved), {}
        for way in ("choice", *self.ways(solved)):
            step = probe(self.engine, solved, same, design, way)
            moved = {name: value + step[name] for name, value in solved.means.items()}
            effects[way] = self.judge.change_in_tolerances(curves, solved.grid, moved)
        logger.info("paths: changes by refining their points, in tolerances: %s",
                    ", ".join(f"{_SPOKEN.get(way, way)} {effect:.2g}" for way, effect in effects.items()))  # fmt: skip
        return effects

    def refined(self, level: Level, effects: dict[str, float]) -> Level:
        """Return a level with more points in the ways that matter."""
        choice, ways = effects["choice"], {way: effect for way, effect in effects.items() if way != "choice"}
        largest = max(ways.values())
        for way, effect in ways.items():
            if effect > self.control.matters * largest or (way == "modes" and choice > largest):
                level = refine_level(level, way, effect)
        return level

    def ways(self, solved: PathSolution) -> list[str]:
        """Return the ways in which there may be more points."""
        rough = [item for item in solved.averages if item.choice.layout.kind != "cubic"]
        ways = ["sample"] if any(item.choice.layout.kind in ("sample", "single") for item in rough) else []
        if any(item.choice.layout.kind == "sparse" and len(item.choice.order) for item in rough):
            ways += ["first mode", "modes"]
        for item in rough:
            laws = [self.engine.laws[name] for name in item.paths.plan.constants if name not in item.choice.points.scales]
            drawn = item.choice.layout.kind == "sample"
            if "constants" not in ways and any(law.has_density and not (drawn and is_gaussian(law)) for law in laws):
                ways.append("constants")
        return ways


def _is_alike(coarse: Level, fine: Level, ways: frozenset[str]) -> bool:
    """Whether a level is not finer than another in a way that matters: both may then err in the same manner."""
    same = {"constants": coarse.constants == fine.constants, "modes": coarse.accuracy == fine.accuracy}
    return any(same.get(way, False) for way in ways)


def is_clear(trend: Sequence[tuple[int, float]]) -> bool:
    """Whether sets show how errors fall: at least three, the last two well above the tolerance, not by chance."""
    return len(trend) > 2 and min(error for _, error in trend[-2:]) > _WELL_ABOVE


def is_falling(trend: Sequence[tuple[int, float]]) -> bool:
    """Whether one more set may do: the last errors fall, and are near the tolerance."""
    return trend[-1][1] < min(_WELL_ABOVE, 0.7 * trend[-2][1])


def is_far(trend: Sequence[tuple[int, float]], large: float) -> bool:
    """Whether two sets one after the other move a solution by more than a few tolerances."""
    return len(trend) > 1 and min(error for _, error in trend[-2:]) > large


def predict(known: Sequence[tuple[int, float]], wanted: float) -> float:
    """Return how many points an error needs, predicted from the last two numbers with their errors.

    Errors that do not fall are never small enough.
    """
    (fewer, larger), (points, error) = known[-2:]
    if error <= wanted:
        return float(points)
    rate = math.log(larger / error) / math.log(points / fewer) if points > fewer and larger > error > 0 else 0.0
    return points * math.exp(min(math.log(error / wanted) / rate, 200.0)) if rate > 0 else math.inf
