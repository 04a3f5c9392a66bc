"""Deferred correction of a solution by sets of finer points, until it stays where it is.

As in multigrid methods (Brandt, Math. Comp. 31, 333 (1977), doi:10.1090/S0025-5718-1977-0431719-X)
few points solve for what many leave as residual. The sets share neither modes nor rules nor
samples: how far one moves the solution of another is the error of both.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqsolve.errors import logger
from eqsolve.numerics.gaussian import Level, is_gaussian, refine_level
from eqsolve.solvers.paths.checkpointing import as_checkpoint_step
from eqsolve.solvers.paths.controls import EnsembleControls, PathsControls
from eqsolve.solvers.paths.error_control import ErrorControl, Errors
from eqsolve.solvers.paths.iterate import DEFAULT_ITERATION, Correction, PathSolution, iterate
from eqsolve.solvers.paths.sweep import Design, Engine, Means, collect, count_paths, sweep


# --- A solution corrected by points that share nothing with its own.
@as_checkpoint_step()
def means_with_points(engine: Engine, solved: PathSolution, design: Design) -> Means:
    """Return the means over another set of points at a solution."""
    return collect(sweep(engine, solved.grid, solved.means, design))


def corrected(engine: Engine, few: PathSolution, final: PathSolution, design: Design, tolerance: float) -> Means:
    """Return the means of another set of points, iterated with the paths of ``few`` (see ``Correction``)."""
    grid, many = final.grid, means_with_points(engine, final, design)
    own = collect(sweep(engine, grid, final.means, design, few.averages))
    correction = Correction(few.averages, {name: value - own[name] for name, value in many.items()})
    return iterate(engine, grid, final.means, design, tolerance, few.controls, correction).means


# --- From set to set of finer points.


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

    def move(self, begun: PathSolution, design: Design, ways: frozenset[str], by_panels: Errors) -> RefinedSolution:
        """Return a solution moved from set to set of finer points, and the error of its points.

        Each set moves the solution that the last one left; the error is how far the last one moved
        it, and not less than a part of the move before.
        """
        judge, control = self.judge, self.control
        final, finer, moved = begun, design, judge.zero_errors(begun)
        errors, far = moved, 0.0
        trend: tuple[tuple[int, float], ...] = ()
        for number in itertools.count(1):
            coarse, finer = finer.level, self._finer(begun, finer, ways, number)
            means = corrected(self.engine, begun, final, finer, self.tolerance)
            last, kernels = final, self.engine.kernels(final.grid, means)
            final = replace(final, means=means, kernels=kernels, residual=DEFAULT_ITERATION.leaves * final.residual)
            curves = judge.curves(final)
            before, moved = moved, judge.curve_changes(curves, final.grid, last.means)
            part = control.contraction_if_alike if _is_alike(coarse, finer.level, ways) else control.contraction
            errors = judge.error_of_changes(curves, [moved, {name: part * change for name, change in before.items()}])
            by_points, by_time = judge.worst(curves, errors), judge.worst(curves, by_panels)
            trend = (*trend, (self._count(final, finer), by_points))
            logger.info("paths: %d quadrature points; compared with %d others the error is %.2g times the tolerance",
                        begun.paths, trend[-1][0], by_points)  # fmt: skip
            if (number > 1 and by_points > max(control.large, far)) or (number > 2 and by_points > 2 * max(far, 1.0)):
                return RefinedSolution(last, errors, trend)  # moves that run away
            if by_points > control.large or (number > 1 and by_points + by_time <= 0.95):
                break
            if is_clear(trend) and predict(trend, 1.0) > 2 * self._most(begun, number):
                break  # further sets would not do either
            if number >= control.sets and not (number < 2 * control.sets and is_falling(trend)):
                break
            far = by_points
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
    return len(trend) > 2 and min(error for _, error in trend[-2:]) > EnsembleControls.clear


def is_falling(trend: Sequence[tuple[int, float]]) -> bool:
    """Whether one more set may do: the last errors fall, and are near the tolerance."""
    return trend[-1][1] < min(EnsembleControls.clear, PathsControls.stuck * trend[-2][1])


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
