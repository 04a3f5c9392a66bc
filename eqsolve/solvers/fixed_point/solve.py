"""Self-consistent systems of scalar equations with expectations, to rounding error.

Chosen for every `FixedPoint`. Unknowns given explicitly by others are eliminated; the rest is found by a scan of the
domains followed by Newton's method with a symbolic Jacobian (Deuflhard, Newton Methods for Nonlinear Problems, 2011,
doi:10.1007/978-3-642-23899-4). Expectations are sums over points and panels of Gauss–Legendre nodes, split at kinks and
refined to rounding. The error reported is the change under a finer quadrature plus what rounding in the residuals can do.
Cost: a scan of some 10² to 10³ sets of unknowns on few nodes, then some ten steps on some 10³ nodes: milliseconds.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, islice, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from eqsolve.compile.families import Slopes, over_points
from eqsolve.compile.fixed_point import FamilyMeanProgram, FamilyProgram, FixedPointPlan, FixedPointProgram
from eqsolve.compile.forms import FAMILIES, FIXED_POINT
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import ModelError, SolverError, UsageError, did_you_mean, logger
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array, member_names
from eqsolve.numerics.domains import Domain
from eqsolve.numerics.quadrature import RULE, PanelMesh, branches, coarse_mesh, expectations, gradients, stacked
from eqsolve.results.arrays import LabelledArrays
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_a
from eqsolve.solvers.fixed_point import newton
from eqsolve.solvers.fixed_point.law import FixedPointLaw
from eqsolve.solvers.fixed_point.newton import (
    Iterate,
    Linearisation,
    Problem,
    Sought,
    make_problem,
    polish,
    residuals,
    sides,
)
from eqsolve.solvers.fixed_point.precise import refine
from eqsolve.solvers.options import Options

# --- Fixed points of many unknowns with indices: successive substitution, then Newton's method.
#
# A hundred unknowns cannot be scanned. Where every equation gives its own unknown by the others, f
# = g(f), it is iterated (Picard) from the upper ends of the domains, then from the lower ends and
# between: of monotone equations, as those of mode coupling, this finds the largest solution
# (Tarski). Newton's method with the exact Jacobian is tried on the way and kept where it stays
# near; it ends at rounding. The error is what rounding in the residuals can do, through the inverse
# of the Jacobian.

_PICARD = 4000  # most iterations: next to a fold, at a distance d, it takes some 10/√d
_NEARLY = 0.05  # relative residuals left near a solution, and its distance from Picard's iterate


class FamilyMeans:
    """Means of families at numbers; of what they read each member has a column."""

    def __init__(self, program: FamilyMeanProgram, values: Values) -> None:
        self.values = replace(values, laws={name.partition("[")[0]: law for name, law in values.laws.items()})
        self.problem = make_problem(program.program, self.values)
        self.mesh: Any = None
        self.shape, (self.reads, self.read_slopes) = program.shape, program.reads
        self.size, self.names = math.prod(program.shape), newton.names_of(self.problem)

    def read(self, arguments: Sequence[Any]) -> Array:
        return _flat(self.reads(arguments), [self.shape] * len(self.names)).reshape(len(self.names), self.size)

    def _outputs(self, what: str, columns: Array, means: Array, *along: str) -> Array:
        return stacked(self.problem.plan.piece(what, *along)(*self.problem.parameters, *columns, *means), self.size)

    def __call__(self, columns: Array) -> Array:
        """Return the means, (means, members)."""
        self.mesh = self.problem.adapted(columns)
        return self._outputs("outputs", columns, expectations(self.problem.integrands(columns), self.mesh))

    def slopes(self, columns: Array) -> tuple[Array, Callable[[], Array]]:
        """Return the derivatives of the means just taken by what they read, (means, read, members), and their errors."""
        means, slopes, sizes = gradients(self.problem.integrands(columns), self.mesh, self.names)
        partial = self._outputs("output slopes", columns, means, *self.names).reshape(-1, len(columns) + len(means), self.size)
        through = partial[:, len(columns) :]

        def errors() -> Array:
            finer, halved = [*_finer(self.values, self.problem, columns, self.mesh)][-1]
            change = np.abs(expectations(finer.integrands(columns), halved) - means) + EPSILON * sizes
            return np.einsum("oem,em->om", np.abs(through), change).ravel()

        return partial[:, : len(columns)] + np.einsum("oem,erm->orm", through, slopes), errors


def _flat(found: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Array:
    """Return values of families, one after the other."""
    return np.concatenate([[], *(over_points(item, shape, ()).ravel() for item, shape in zip(found, shapes, strict=True))])


class FamilyProblem(Sought):
    """The equations at numbers, of one vector of all unknowns."""

    def __init__(self, program: FamilyProgram, values: Values) -> None:
        self.program = at(program, values.numbers)
        self.means = [FamilyMeans(item, values) for item in self.program.means]
        self.first = len(self.program.owner) + len(self.program.constants)  # arguments that are no means
        self.domains = [domain for _, shape, domain in self.program.unknowns for _ in range(math.prod(shape))]
        self.starts = np.cumsum([0, *(math.prod(shape) for _, shape, _ in self.program.unknowns)])
        self.count, self._known = len(self.domains), (np.zeros(0), list[Any]())
        if (rows := sum(map(math.prod, self.program.shapes))) != self.count:
            raise ModelError(f"{program.label} has {rows} equations for {self.count} unknowns; expected as many")

    def arguments(self, values: Array) -> list[Any]:
        """Return the arrays that functions take."""
        if not np.array_equal(values, self._known[0]):
            parts = np.split(values, self.starts[1:-1])
            shaped = [part.reshape(shape) for part, (_, shape, _) in zip(parts, self.program.unknowns, strict=True)]
            first = [*(shaped[number] for number in self.program.owner), *self.program.constants]
            means = [row.reshape(item.shape) for item in self.means for row in item(item.read(first))]
            self._known = (values.copy(), [*first, *means])
        return self._known[1]

    def sides(self, values: Array) -> tuple[Array, Array]:
        left, right = (_flat(side(self.arguments(values)), self.program.shapes) for side, _ in self.program.sides)
        return left, right

    def matrix(self, slopes: Slopes, shapes: Sequence[tuple[int, ...]], arguments: list[Any]) -> Array:
        """Return derivatives by the unknowns and, behind, by the means."""
        starts = np.cumsum([0, *map(math.prod, shapes)])
        ends = np.cumsum([self.count, *map(np.size, arguments[self.first :])])
        made = np.zeros((starts[-1], ends[-1]))
        for row, argument, rows, columns, change in slopes(arguments, 0):
            inner = argument >= self.first
            at = ends[argument - self.first] if inner else self.starts[self.program.owner[argument]]
            np.add.at(made.ravel(), (starts[row] + rows) * ends[-1] + at + columns, np.broadcast_to(change, rows.shape))
        return made

    def moving(self, values: Array) -> tuple[Array, list[Callable[[], Array]]]:
        """Return how means move with the unknowns, and what gives the errors of the means."""
        moved, errors, first = [np.zeros((0, self.count))], [], self.arguments(values)[: self.first]
        for item in self.means:
            columns = item.read(first)
            slopes, told = item.slopes(columns)
            read = self.matrix(item.read_slopes, [item.shape] * len(columns), first).reshape(*columns.shape, self.count)
            moved.append(np.einsum("orm,rmv->omv", slopes, read).reshape(-1, self.count))
            errors.append(told)
        return np.concatenate(moved), errors

    def slopes(self, values: Array) -> list[Array]:
        """Return the derivatives of the left sides, and of the right sides, by unknowns and means."""
        return [self.matrix(slopes, self.program.shapes, self.arguments(values)) for _, slopes in self.program.sides]

    def totals(self, slopes: Array, moving: Array) -> Array:
        """Return derivatives by the unknowns alone, from those by unknowns and means."""
        return slopes[:, : self.count] + slopes[:, self.count :] @ moving

    def adapted(self, values: Array, **how: Any) -> Any:
        return ()  # each of the means has a mesh of its own

    def linearise(self, values: Array, mesh: Any) -> Linearisation:
        """Return residuals and their derivatives; sides that are positive are compared by their logarithms."""
        (left, right), (below, above) = self.sides(values), self.slopes(values)
        log = (left > 0) & (right > 0)
        residual = np.where(log, np.log(np.where(log, right / left, 1.0)), right - left)
        weights = [np.where(log, 1 / np.where(log, side, 1.0), 1.0)[:, None] for side in (left, right)]
        jacobian = self.totals(above * weights[1] - below * weights[0], self.moving(values)[0])
        return Linearisation(residual, jacobian, residual[:0], jacobian[:0], residual)

    def stability(self, values: Array) -> float:
        """Return 1 − the largest eigenvalue of the Picard map: positive if it converges, zero at a fold."""
        moving = self.moving(values)[0]
        try:
            gains = np.linalg.eigvals(np.linalg.solve(*(self.totals(side, moving) for side in self.slopes(values))))
        except np.linalg.LinAlgError:
            return float("nan")
        return 1.0 - float(np.max(gains.real, initial=0.0))

    def picard(self, values: Array) -> Array:
        """Return every unknown by its own equation."""
        found = {number: function(self.arguments(values))[0] for number, function in self.program.explicit or ()}
        return _flat([found[number] for number in sorted(found)], [shape for _, shape, _ in self.program.unknowns])

    def inside(self, values: Array) -> bool:
        """Whether all values lie in their domains."""
        return all(item.holds(value) for item, value in zip(self.domains, values, strict=True))

    def start(self, share: float) -> Array:
        """Return a place in the domains; ``share`` from 0, the lower ends, to 1, the upper ends."""
        ends = np.array([item.interval or (-10.0 * (item.sign <= 0), 10.0 * (item.sign >= 0)) for item in self.domains]).T
        return np.asarray(ends[0] + (0.001 + 0.998 * share) * (ends[1] - ends[0]))


def _newton(problem: FamilyProblem, values: Array) -> Array | None:
    """Return the solution that Newton's method comes to, or nothing."""
    found = newton.newton(problem, values, None, rounds=60)
    return found.values if found.converged and problem.inside(found.values) else None


def _search(problem: FamilyProblem, start: Array) -> Array | None:
    """Iterate (Picard) until Newton's method finds a solution nearby."""
    values = start
    if problem.program.explicit is None:
        return _newton(problem, values)
    count = 1
    for number in range(_PICARD):
        if number == count:
            found = _newton(problem, values)
            if found is not None and np.all(np.abs(found - values) <= _NEARLY * np.abs(values)):
                return found
            count = 2 * count
        after = problem.picard(values)
        if not problem.inside(after):
            return None
        if np.max(np.abs(after - values) / (np.abs(after) + EPSILON)) < 1e-15:
            return after
        values = after
    return _newton(problem, values)


def solve_families(compiled: FamilyProgram, name: str, values_at: Values, start: Mapping[str, float] | None) -> Result:
    """Return the solution of a fixed point on arrays, every unknown and observable with its error."""
    problem, settings = FamilyProblem(compiled, values_at), values_at.settings
    program = problem.program
    names = [name for base, shape, _ in program.unknowns for name in member_names(base, shape)]
    found: list[Array] = []
    with np.errstate(all="ignore"):
        if start is not None and set(names) <= set(start):
            near = _newton(problem, np.array([float(start[key]) for key in names]))
            found += [] if near is None else [near]
        for share in (1.0, 0.0, 0.5) if not found else ():
            values = _search(problem, problem.start(share))
            if values is not None and not any(np.allclose(values, other, rtol=1e-7, atol=1e-12) for other in found):
                found.append(values)
        if not found:
            given = ", ".join(f"{key}={value}" for key, value in settings.items())
            raise SolverError(
                f"{compiled.label}: no solution found from the upper ends, the lower ends and the "
                f"middle of the domains; the equations may have none for {given}"
            )
        for place, values in enumerate(found):  # what vanishes is approached without end
            without = np.where(np.abs(values) < EPSILON**2, 0.0, values)
            if np.array_equal(*problem.sides(without)):
                found[place] = without
        values = found[0]
        (left, right), (below, above), (moving, told) = problem.sides(values), problem.slopes(values), problem.moving(values)
        inner = np.concatenate([np.zeros(problem.count), *(errors() for errors in told)])
        rounding = 4 * EPSILON * (np.abs(left) + np.abs(right)) + np.abs(right - left) + np.abs(above - below) @ inner
        errors = np.abs(np.linalg.inv(problem.totals(above - below, moving))) @ rounding + EPSILON * np.abs(values)
        (functions, slopes), shapes = program.outputs, [shape for _, shape in program.observables]
        outputs = _flat(functions(problem.arguments(values)), shapes)
        change = problem.matrix(slopes, shapes, problem.arguments(values))
        moved = np.abs(problem.totals(change, moving)) @ errors + np.abs(change) @ inner + 4 * EPSILON * np.abs(outputs)
    names += [name for base, shape in program.observables for name in member_names(base, shape)]
    data = LabelledArrays.of_numbers(
        *(dict(zip(names, [*one, *more], strict=True)) for one, more in ((values, outputs), (errors, moved)))
    )
    stats: dict[str, Any] = {"residual": float(np.max(np.abs(right - left)))}
    if program.explicit is not None:
        stats["stability"] = problem.stability(values)
    if len(found) > 1:
        stats["other_solutions"] = [dict(zip(names, map(float, other), strict=False)) for other in found[1:]]
        logger.info("%s: there are further solutions (stats['other_solutions'] in Python)", name)
    return Result(data, model=name, kind="fixed point", params=dict(settings), stats=stats)


# --- Find where the solutions of a reduced fixed point are: a scan over the unknowns' domains,
# then a few Newton steps.
_SMALL = 0.01  # an unknown of either sign is scanned evenly below this, logarithmically above
_CUTS = 3  # of a cell of the scan, per axis
_AROUND = 4.0  # how far from a start, in search variables or longest steps, a solution is looked for
_SAME_ROUGHLY = newton.ROUGHLY[0]  # solutions on rough meshes that are as near as this are the same


Near = tuple[Array, PanelMesh | None]
"""Unknowns near a solution, and a mesh that is about right there if one was made."""


_Doubt = tuple[float, tuple[float, ...], list[tuple[float, float]]]
"""A start not followed to its end: how many longest steps away a solution was said to be, it, the box."""


class _Scan(NamedTuple):
    """Decades of positive unknowns, of unknowns of either sign, the reach of bounded ones, points by number of unknowns."""

    decades: tuple[float, float]
    real: float
    bounded: float
    points: tuple[int, ...]


_SCANS = (  # one after the other
    _Scan((-7.0, 5.0), 3.0, 9.0, (49, 13, 9, 5)),
    _Scan((-18.0, 12.0), 6.0, 18.0, (91, 16, 13, 7)),
    _Scan((-55.0, 30.0), 12.0, 30.0, (171, 30, 18, 9)),
)


_LAST = len(_SCANS) - 1


def find_solutions(problem: Problem, scans: int | None = None) -> list[Near]:
    """Return starts near all solutions found by a scan of the unknowns' domains with few quadrature nodes.

    Wider scans follow where one finds nothing, unless fewer are asked for; before the last ones,
    and after all of them, doubtful starts are tried.
    """
    if not problem.plan.unknowns:
        return [(np.zeros(0), None)]
    doubts: list[_Doubt] = []
    if len(problem.plan.unknowns) > 3 and scans != 0:
        points = np.random.default_rng(0).uniform(-1, 1, (len(problem.plan.unknowns), 6))
        if reached := _iterated(problem, points * np.array([0, 0.01, 0.03, 0.1, 0.3, 1])):
            return reached
    for level in range(len(_SCANS) if scans is None else scans):
        found, doubted = _scan_level(problem, level)
        if found:
            return [*found, *_near_ends(problem, level, found)]
        doubts = sorted([*doubts, *doubted])
        while doubts and level and (doubts[0][0] < 5 * _AROUND or level == _LAST):
            start, box = np.array(doubts[0][1]), doubts.pop(0)[2]
            point = newton.newton(problem, start, None, rounds=30, stop=1e-3, box=box)
            if point.converged:
                return [(point.values, None)]
            if _nearly(problem, start, point) and (made := _on_many_nodes(problem, point)) is not None:
                return [made]
    return []


def _near_ends(problem: Problem, level: int, known: list[Near]) -> list[Near]:
    """Return further solutions that iteration leads to from the ends of intervals, beyond which a scan does not look."""
    columns = [[axis[0], axis[-1]] if item.interval else [0.0, 0.0]
               for item, axis in zip(problem.plan.unknowns, scan_axes(problem.plan.unknowns, level), strict=True)]  # fmt: skip
    return _iterated(problem, np.array(columns), known, most=20) if np.any(columns) else []


def _iterated(problem: Problem, points: Array, known: Sequence[Near] = (), most: int = 100) -> list[Near]:
    """Return solutions that damped iteration of u = f(u), then Newton's method, lead to from columns of search variables.

    For many unknowns, whose domains are too wide for a scan.
    """
    unknowns, lefts = problem.plan.unknowns, problem.plan.lefts
    if sorted(str(name) for name in lefts) != sorted(item.name for item in unknowns):
        return []
    order = [lefts.index(item.name) for item in unknowns]
    for _ in range(most):
        step = np.clip(_scan(problem, problem.values(points))[order], -2, 2)
        sound = np.isfinite(step).all(axis=0)
        points, step = points[:, sound] + step[:, sound] / 2, step[:, sound]
        if np.max(np.abs(step), initial=0.0) < 1e-2:
            break
    found: list[Near] = []
    for column in problem.values(points).T:
        if any(same(problem, column, other, 0.1) for other, _ in (*known, *found)):
            continue
        point = newton.newton(problem, column, None, rounds=30, stop=1e-3)
        if point.converged and not any(same(problem, point.values, other, _SAME_ROUGHLY) for other, _ in (*known, *found)):
            found.append((point.values, point.mesh))
    return found


def _scan_level(problem: Problem, level: int) -> tuple[list[Near], list[_Doubt]]:
    """Return the solutions that one scan finds, and the starts that led nowhere soon."""
    axes = scan_axes(problem.plan.unknowns, level)
    cell = np.array([axis[1] - axis[0] for axis in axes])
    box = [(axis[0] - 1.5 * width, axis[-1] + 1.5 * width) for axis, width in zip(axes, cell, strict=True)]
    ends = [_spread(problem, problem.values(np.array([[axis[k]] for axis in axes]))[:, 0]) for k in (0, 1)]
    spacing = ends[1] - ends[0]
    found: list[Near] = []
    tried: list[Array] = []
    unconverged: list[Iterate] = []
    doubts: list[_Doubt] = []
    lost = 0
    for count, (far, start) in enumerate(_candidates(problem, axes, last=level == _LAST)):
        here = _spread(problem, start)
        if found and far > 1:
            break  # the linear interpolants of such cells have no zero in them
        if any((np.abs(here - other) < 0.8 * spacing).all() for other in tried):
            continue  # this neighbourhood has been searched
        if lost >= 4 and not found and level < _LAST:  # a wider scan comes first
            doubts.append((np.inf, tuple(start.tolist()), box))
            continue  # a valley along which residuals are small and never vanish
        few = coarse_mesh(problem.integrands(start), problem.lines(start, 24), 12) if count else None
        point = newton.newton(problem, start, few, rounds=1) if count else None
        if point is None or point.first <= _AROUND:  # few nodes will do to see the others off
            point = newton.newton(problem, start, None, rounds=8 if found else 30, stop=1e-3, box=box, leash=_AROUND)
        if point.converged:
            tried += [here, _spread(problem, point.values)]
            if not any(same(problem, point.values, other, _SAME_ROUGHLY) for other, _ in found):
                found.append((point.values, point.mesh))
        elif _nearly(problem, start, point):
            unconverged.append(point)
        elif point.first > _AROUND:
            lost += 1
            doubts.append((point.first, tuple(start.tolist()), box))
    if not found:  # few nodes do not converge though residuals are small
        converged = (_on_many_nodes(problem, point) for point in unconverged)
        found = list(islice((near for near in converged if near is not None), 1))
    return found, doubts


def _nearly(problem: Problem, start: Array, point: Iterate) -> bool:
    """Whether Newton's method on few nodes stayed near its start and left small residuals."""
    close = same(problem, point.values, start, _AROUND) and point.steps > 1
    return close and bool(np.max(np.abs(point.linear.residual), initial=0.0) <= _NEARLY)


def _on_many_nodes(problem: Problem, point: Iterate) -> Near | None:
    """Return the solution near a point on as many nodes as it needs."""
    finer = polish(problem, point.values, box=_box(problem, point.values))
    return (finer.values, finer.mesh) if finer.converged else None


def _box(problem: Problem, values: Array) -> list[tuple[float, float]]:
    return [(x - _AROUND, x + _AROUND) for x in problem.points(list(values))]


def _spread(problem: Problem, values: Array) -> Array:
    """Return unknowns in coordinates in which the scan's cells are equally wide."""
    return np.array(
        [
            point if item.is_bounded else np.arcsinh(point / _SMALL)
            for item, point in zip(problem.plan.unknowns, problem.points(list(values)), strict=True)
        ]
    )


def searched(plan: FixedPointPlan) -> str:
    """Return the domain of the widest scan in words."""
    widest = _SCANS[-1]
    low, high = widest.decades
    words = []
    for item in plan.unknowns:
        sign, interval = item.sign, item.interval
        if interval is not None:
            ends = (f"{interval[0]:g}", f"{interval[1]:g}")
        elif sign:
            ends = (f"1e{low:g}", f"1e{high:g}") if sign > 0 else (f"-1e{high:g}", f"-1e{low:g}")
        else:
            ends = (f"-1e{widest.real:g}", f"1e{widest.real:g}")
        words.append(f"{item.name} from {ends[0]} to {ends[1]}")
    return ", ".join(words)


def scan_axes(unknowns: Sequence[Domain], level: int) -> list[Array]:
    """Return the search variables at which a scan looks, a column of them per unknown."""
    return [_axis(item, _SCANS[level], len(unknowns)) for item in unknowns]


def _axis(item: Domain, scan: _Scan, unknowns: int) -> Array:
    count = scan.points[min(unknowns, len(scan.points)) - 1]
    if item.interval is not None:
        return np.linspace(-1, 1, count) * scan.bounded
    if item.sign:
        return np.linspace(*scan.decades, count) * np.log(10)
    half = np.arcsinh(10**scan.real / _SMALL)
    return _SMALL * np.sinh(np.linspace(-half, half, count) + 1e-9)


def _candidates(problem: Problem, axes: list[Array], *, last: bool, most: int = 10) -> list[tuple[float, Array]]:
    """Return starts in the cells in which every residual changes sign, found on two levels, the likeliest first.

    The number with each is how far the zero of the cell's linear interpolant lies from its centre, in cells. Where there is
    no such cell, the ``last`` of the scans gives the places of the smallest residuals.
    """
    dims = len(axes)
    shape = tuple(len(axis) for axis in axes)
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    table = _scan_all(problem, grid).reshape(dims, *shape)
    cells = np.argwhere(crossing(table))
    widths = np.array([[axis[k + 1] - axis[k] for axis, k in zip(axes, cell, strict=True)] for cell in cells])
    lows = np.array([[axis[k] for axis, k in zip(axes, cell, strict=True)] for cell in cells])
    near: list[tuple[float, tuple[float, ...]]] = []
    if len(cells):
        cuts = np.array(list(product(np.linspace(0, 1, _CUTS + 1), repeat=dims)))
        inner = (lows[:, None] + widths[:, None] * cuts).reshape(-1, dims).T
        fine = _scan_all(problem, inner).reshape(dims, len(cells), *(_CUTS + 1,) * dims)
        blocks, corners, steps = [], [], []
        for place, *cell in np.argwhere(crossing(fine)).tolist():
            block: Any = (slice(None), place, *(slice(k, k + 2) for k in cell))
            blocks.append(fine[block])
            steps.append(widths[place] / _CUTS)
            corners.append(lows[place] + steps[-1] * (np.array(cell) + 0.5))
        if blocks:
            offsets = _offsets(np.stack(blocks))
            far = np.max(np.abs(offsets), axis=1)
            inside = np.stack(corners) + np.stack(steps) * np.clip(np.nan_to_num(offsets), -0.5, 0.5)
            near = [(float(size), tuple(place)) for size, place in zip(far, inside.tolist(), strict=True) if np.isfinite(size)]
    near.sort()
    starts = [(size, problem.values(np.array(place)[:, None])[:, 0]) for size, place in near[:most]]
    if not starts and last:
        sizes = np.where(np.isfinite(table).all(axis=0), np.abs(table).max(axis=0), np.inf).ravel()
        best = [place for place in np.argsort(sizes)[:3] if np.isfinite(sizes[place])]
        starts = [(float("inf"), problem.values(grid[:, [place]])[:, 0]) for place in best]
    return starts


def crossing(table: Array) -> Array:
    """Return the cells of a table, or of several, on whose corners every residual takes both signs."""
    shape = table.shape[-len(table) :]
    sides: list[Any] = [
        (..., *(slice(k, n - 1 + k) for k, n in zip(corner, shape, strict=True)))
        for corner in product((0, 1), repeat=len(table))
    ]
    corners = np.stack([table[side] for side in sides])
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(corners), np.fmax.reduce(corners)
        return np.asarray(((low <= 0) & (high >= 0)).all(axis=0))


def _offsets(corners: Array) -> Array:
    """Return where the zeros of cells' linear interpolants lie, from the centres, in cell widths; nan where there is none."""
    count, dims = corners.shape[:2]
    with np.errstate(all="ignore"):
        mean = corners.reshape(count, dims, -1).mean(axis=2)
        slopes = np.stack([np.diff(corners, axis=k + 2).reshape(count, dims, -1).mean(axis=2) for k in range(dims)], axis=2)
        slopes = np.where((np.isfinite(slopes).all(axis=(1, 2)) & (np.linalg.det(slopes) != 0))[:, None, None], slopes, np.nan)
        return np.asarray(-np.linalg.solve(slopes, mean[:, :, None])[:, :, 0])


@np.errstate(invalid="ignore")  # variances may be negative in parts of the domains
def _scan_all(problem: Problem, points: Array) -> Array:
    """Return the residuals at many points, a few thousand lines or points at a time."""
    values = problem.values(points)
    count = len(problem.lines(values[:, :1], 12).weight)
    pieces = max(1, points.shape[1] // 2000, points.shape[1] * count // 100_000)
    return np.concatenate([_scan(problem, part) for part in np.array_split(values, pieces, axis=1)], axis=1)


def _scan(problem: Problem, values: Array) -> Array:
    if time.process_time() > problem.deadline:
        plan, names = problem.plan, [item.name for item in problem.plan.unknowns]
        raise SolverError(
            f"model `{plan.name}` ({plan.location}): the search for {len(names)} coupled unknowns "
            f"({', '.join(names)}) did not end within the budget; in Python, `start=` takes values near "
            "a solution, such as those of the dynamics at a late time"
        )
    return residuals(problem, values, _rough_means(problem, values))


def _rough_means(problem: Problem, values: Array) -> Array:
    """Return expectations for columns of unknowns on very few nodes."""
    integrands = problem.integrands(values)
    integrands.rough = True
    return expectations(integrands, coarse_mesh(integrands, problem.lines(values, 12), 4))


def same(problem: Problem, one: Array, other: Array, within: float) -> bool:
    """Whether two sets of unknowns are as near as that, in search variables."""
    return bool(np.max(np.abs(problem.points(list(one)) - problem.points(list(other))), initial=0.0) < within)


# --- Solutions on the edges of closed domains, such as an order parameter that is zero.
#
# Some unknowns are held at ends of their domains and as many equations dropped, which must hold at
# what comes out. Before that costs anything, a scan of the edge tells whether they can.
Held = tuple[tuple[str, float], ...]


def edge_solutions(
    problem: Problem, make: Callable[..., Problem], start: Mapping[str, float] | None = None
) -> list[tuple[Problem, Iterate]]:
    """Return the solutions on edges, each with the problem it solves; with a ``start`` on an edge, those on that one.

    ``make(held=, dropped=)`` gives the problem with unknowns held and equations dropped.
    """
    plan = problem.plan
    found: list[tuple[Problem, Iterate]] = []
    for held in _edges(plan, start):
        for dropped in _without(plan, held):
            if len(held) == len(plan.unknowns):
                likely = _hold(problem, held, dropped, np.zeros(0))
            else:
                likely = start is not None or _likely(problem, held, dropped)
            if not likely:
                continue
            edge = make(held=held, dropped=dropped)
            points = [polish(edge, near) for near, _ in find_solutions(edge)]
            good: list[Iterate] = []
            for point in points:
                if point.converged and not any(same(edge, point.values, other.values, 1e-7) for other in good):
                    good += [point] if _hold(problem, held, dropped, point.values) else []
            found += [(edge, point) for point in good]
            if good:
                break
    return found


def _edges(plan: FixedPointPlan, start: Mapping[str, float] | None) -> Iterator[Held]:
    """Yield the unknowns that may be held, with the ends of their domains."""
    ends = {item.name: item.ends for item in plan.unknowns}
    if start is not None:
        held = tuple((name, end) for name, found in ends.items() for end in found if start[name] == end)
        if held:
            yield held
        return
    most = len(ends) if len(ends) <= 3 else 1  # of many unknowns only one at a time is held
    for size in range(1, most + 1):
        for items in combinations([name for name, found in ends.items() if found], size):
            for chosen in product(*(ends[item] for item in items)):
                yield tuple(zip(items, chosen, strict=True))


def _without(plan: FixedPointPlan, held: Held) -> list[tuple[int, ...]]:
    """Return which equations to drop: those that define the unknowns held, or else any."""
    lefts = plan.lefts
    if all(name in lefts for name, _ in held):
        return [tuple(sorted(lefts.index(name) for name, _ in held))]
    return list(combinations(range(len(lefts)), len(held)))


def _values(plan: FixedPointPlan, held: Held, free: Array) -> Array:
    """Return a column of all unknowns for every column of those that are free."""
    rest = iter(free)
    numbers, count = dict(held), free.shape[1]
    names = [item.name for item in plan.unknowns]
    return np.stack([np.full(count, numbers[name]) if name in numbers else next(rest) for name in names])


def _sides(problem: Problem, values: Array, *, roughly: bool = False) -> tuple[Array, Array]:
    """Return left and right sides of the equations for columns of unknowns."""
    with np.errstate(all="ignore"):  # an edge may be where something diverges
        means = _rough_means(problem, values) if roughly else expectations(problem.integrands(values), problem.adapted(values))
        return sides(problem, values, means)


def _hold(problem: Problem, held: Held, dropped: tuple[int, ...], free: Array) -> bool:
    """Whether the dropped equations hold, compared with their sides in the middle of the domains."""
    column = np.asarray(free, dtype=float)[:, None] if len(free) else np.zeros((0, 1))
    left, right = _sides(problem, _values(problem.plan, held, column))
    names = dict(held)
    middle = tuple((item.name, item.middle) for item in problem.plan.unknowns if item.name in names)
    beside = np.abs(_sides(problem, _values(problem.plan, middle, column))).max(axis=(0, 2))
    where = list(dropped)
    gap = np.abs(right - left)[where, 0]
    size = np.where(np.isfinite(beside), beside, 1.0)[where]
    return bool(np.isfinite(gap).all() and (gap <= ROUNDING * np.maximum(size, np.abs(left[where, 0]))).all())


def _likely(problem: Problem, held: Held, dropped: tuple[int, ...]) -> bool:
    """Whether a scan of the edge finds places where the kept equations may hold and the dropped ones nearly do."""
    plan = problem.plan
    names = dict(held)
    free = [item for item in plan.unknowns if item.name not in names]
    axes = scan_axes(free, 0)
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    values = np.stack([item.value(row) for item, row in zip(free, grid, strict=True)])
    left, right = _sides(problem, _values(plan, held, values), roughly=True)
    gap = (right - left).reshape(len(plan.lefts), *map(len, axes))
    kept = [place for place in range(len(plan.lefts)) if place not in dropped]
    cells = np.argwhere(crossing(gap[kept]))
    for place in dropped:
        size = np.nanmax(np.abs(gap[place]), initial=0.0, where=np.isfinite(gap[place]))
        near = [np.nanmin(np.abs(gap[place][tuple(slice(k, k + 2) for k in cell)])) for cell in cells]
        if not near or not min(near) <= max(_NEARLY * size, ROUNDING):  # an equation may hold everywhere, but for rounding
            return False
    return True


# --- The solution: reduced, found, polished, with its errors.


@dataclass(frozen=True, repr=False, eq=False)
class FixedPointSolution:
    """One solution with everything needed to ask more of it: laws, expectations, derivatives."""

    program: FixedPointProgram
    at: Values
    problem: Problem
    point: Iterate
    values: Mapping[str, float]
    errors: Mapping[str, float]
    others: tuple[Mapping[str, float], ...] = ()
    _laws: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def law(self, name: str) -> Distribution:
        """Return the joint law of a variable and the random constants of the model."""
        plan = self.problem.plan
        known = [*plan.variables, *plan.randoms]
        if name not in known:
            raise UsageError(
                f"model `{plan.name}` has no random variable `{name}`{did_you_mean(name, known)} (it has: {', '.join(known)})"
            )
        if name not in self._laws:
            self._laws[name] = FixedPointLaw.of(self, name)
        law: Distribution = self._laws[name]
        return law

    def expect(self, expr: Any, **values: float) -> tuple[float, float]:
        """Return the mean of an expression in the model's symbols and variables, and its error."""
        problem, names = self.extended(expr, values), newton.names_of(self.problem)
        mesh, integrands = problem.adapted(self.point.values), problem.integrands(self.point.values)
        first, slopes, sizes = newton.gradients(integrands, mesh, names)
        second, _, _ = newton.gradients(integrands, mesh.halved(), names)
        noise = np.array([self.errors[name] for name in names])
        error = abs(second[-1] - first[-1]) + np.abs(slopes[-1]) @ noise + EPSILON * sizes[-1]
        return float(second[-1]), float(error)

    def derivative(self, what: Any, parameter: str, **values: float) -> float:
        """Return the total derivative of an unknown, an observable or an expectation with respect to a parameter."""
        if isinstance(what, str):
            found = newton.sensitivity(self.problem, self.point, parameter)
            if what not in found:
                has = f"(it has: {', '.join(found)})"
                raise UsageError(f"the fixed point has no value `{what}`{did_you_mean(what, found)} {has}")
            return found[what]
        problem = self.extended(what, values)
        name, point = newton.find_parameter(problem, parameter), replace(self.point, mesh=problem.adapted(self.point.values))
        moved = newton.unknown_slopes(problem, point, name)
        _, slopes, _ = newton.gradients(problem.integrands(point.values), point.mesh, (*newton.names_of(problem), name))
        return float(slopes[-1, :-1] @ moved + slopes[-1, -1])

    def derivatives(self, parameter: str) -> dict[str, tuple[float, float]]:
        """Return the total derivatives of all values with respect to a parameter, with their errors.

        These are how they change with a finer mesh, and with each unknown by its own error.
        """
        values, others = (
            newton.sensitivity(self.problem, self.point, parameter),
            [replace(self.point, mesh=self.point.mesh.halved())],
        )
        for place, name in enumerate(newton.names_of(self.problem)):
            unit = np.arange(len(self.point.values)) == place
            others += [replace(self.point, values=self.point.values + side * self.errors[name] * unit) for side in (-1.0, 1.0)]
        found = [newton.sensitivity(self.problem, other, parameter) for other in others]
        return {name: (value, 10 * ROUNDING * abs(value) + sum(abs(item[name] - value) for item in found))
                for name, value in values.items()}  # fmt: skip

    def extended(self, what: Any, more: Mapping[str, Any]) -> Problem:
        """Return the problem with one more expectation, in the model's symbols and names that have numbers."""
        problem, at = self.problem, self.at
        held = tuple(name for name, _ in problem.held)
        plan = self.program.with_mean(problem.plan, at, what, tuple(more), held, problem.dropped)
        return newton.problem_at(plan, at, tuple(float(value) for value in more.values()), problem.held, problem.dropped)


class FixedPointSolver(Solver):
    __doc__ = __doc__
    name = "fixed_point"
    families = True

    def why_not(self, plan: Plan) -> str:
        return why_not_a("FixedPoint", plan)

    def why(self, plan: Plan) -> str:
        if plan.facts.has_families:
            return "equations of families: Picard iteration, then Newton's method"
        return "scalar equations: a scan, then Newton's method, expectations split at kinks"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve a fixed point and report every unknown and observable with its error."""
        if plan.facts.has_families:
            return solve_families(plan.program(FAMILIES), plan.name, values, options.start)
        program = plan.program(FIXED_POINT)
        solution = solve_problem(program, values, options.start, deadline=options.deadline)
        result = to_result(solution)
        if options.precision is not None:
            return refine(solution, result, options.precision)
        return result


def solve_problem(
    program: FixedPointProgram, at: Values, start: Mapping[str, float] | None = None,
    neighbour: FixedPointSolution | None = None, deadline: float = np.inf, *,
    scans: int | None = None,
) -> FixedPointSolution:  # fmt: skip
    """Return the solution, the one nearest to ``start`` if given; others found are listed with it.

    With a ``neighbour`` its quadrature is tried first, and kept if the error shows it to be fine enough.
    Where the start leads to none, so many ``scans`` search the domains, each wider; all by default.
    """
    make = partial(make_problem, program, at, deadline=deadline)
    problem = make()
    plan = problem.plan
    points: list[tuple[Problem, Iterate]] = []
    if start is not None and neighbour is not None:
        quick = _beside(program, at, problem, start, neighbour)
        if quick is not None:
            return quick
    if start is not None and plan.unknowns and all(item.name in start for item in plan.unknowns):
        points = edge_solutions(problem, make, start)
        here = np.array([start[item.name] for item in plan.unknowns], dtype=float)
        point = polish(problem, here, box=_box(problem, here) if scans == 0 else None)
        points += [(problem, point)] if point.converged and not points else []
    if not points and scans != 0:
        if (count := len(plan.unknowns)) > 5:
            logger.info("%s: %d coupled unknowns: the search may be long", plan.name, count)
        for near, _ in find_solutions(problem, scans):
            point = polish(problem, near)
            if point.converged and not any(same(problem, point.values, other.values, 1e-7) for _, other in points):
                points.append((problem, point))
        if len(points) > 1:  # first those that iteration of u = f(u) would reach
            points.sort(key=lambda found: not _is_stable(*found))
        points += edge_solutions(problem, make)
    if not points:
        text = f"model `{plan.name}` ({plan.location}): no solution found; searched {searched(plan)}. "
        text += f"The equations may have none{_said(at, plan)}"
        open_ends = [f"`{item.name}`" for item in plan.declared if item.sign and 0.0 not in item.ends]
        if open_ends and not plan.rootless:
            text += f". Values 0 were left out, of {', '.join(open_ends)}: declare nonnegative=True where 0 is a solution too"
        if plan.rootless:
            text += f". `{plan.rootless}` had no root, or several: what stands left of its = must increase with the variable. "
            text += "Of a state at rest this means that paths can rest in several places, or in none"
        raise SolverError(text)
    points, tables = _apart(problem, points, [_table(at, *found) for found in points])
    order = list(range(len(tables)))
    if start:  # the nearest in what was given
        order = sorted(order, key=lambda k: max(abs(tables[k][0][name] - value) for name, value in start.items()))
    chosen = next((k for k in order if _allowed(plan, tables[k][0])), None)
    if chosen is None:
        found = ", ".join(f"{name} = {value:.6g}" for name, value in tables[0][0].items())
        raise SolverError(
            f"model `{plan.name}` ({plan.location}): the equations hold only for {found}, which lies "
            f"outside the domains declared for the unknowns; searched {searched(plan)}{_said(at, plan)}"
        )
    values, errors = tables[chosen]
    others = tuple(table for k, (table, _) in enumerate(tables) if k != chosen and _allowed(plan, table))
    if others:
        names = [item.name for item in plan.declared]
        listed = "; ".join(", ".join(f"{name} = {other[name]:.6g}" for name in names) for other in others)
        logger.warning("%s: there are further solutions (stats['other_solutions'] in Python): %s", plan.name, listed)
    return FixedPointSolution(program, at, *points[chosen], values, errors, others)


def _is_stable(problem: Problem, point: Iterate) -> bool:
    """Whether damped iteration of u = f(u) converges to a solution; of equations in another form nothing is known."""
    plan = problem.plan
    names = [item.name for item in plan.unknowns]
    if sorted(map(str, plan.lefts)) != sorted(names):
        return True
    slopes = point.linear.jacobian.copy()  # of f(u) − u, or of log(f(u)/u)
    rows = [names.index(str(left)) for left in plan.lefts]
    slopes *= np.where(plan.logarithmic, point.values[rows], 1.0)[:, None]
    return bool((np.linalg.eigvals(slopes[np.argsort(rows)]).real < 0).all())


def _apart(
    problem: Problem, points: list[tuple[Problem, Iterate]], tables: list[tuple[dict[str, float], dict[str, float]]]
) -> tuple[list[tuple[Problem, Iterate]], list[tuple[dict[str, float], dict[str, float]]]]:
    """Return solutions without those inside a domain that are one on its edge, to within their errors."""
    names = [item.name for item in problem.plan.unknowns]
    on_edges = [values for (values, _), (found, _) in zip(tables, points, strict=True) if found is not problem]

    def on_edge(values: Mapping[str, float], errors: Mapping[str, float]) -> bool:
        return any(all(abs(values[n] - edge[n]) <= 3 * errors[n] for n in names) for edge in on_edges)

    kept = [k for k, (found, _) in enumerate(points) if found is not problem or not on_edge(*tables[k])]
    return [points[k] for k in kept], [tables[k] for k in kept]


def _beside(
    program: FixedPointProgram, at: Values, problem: Problem, start: Mapping[str, float], neighbour: FixedPointSolution
) -> FixedPointSolution | None:
    """Return the solution on the mesh of a neighbouring one, if that resolves it to 1e-13."""
    plan, mesh = problem.plan, neighbour.point.mesh
    if plan is not neighbour.problem.plan or problem.parts != neighbour.problem.parts or mesh.lines.turned:
        return None
    first = np.array([start[item.name] for item in plan.unknowns], dtype=float)
    point = polish(problem, first, mesh=mesh)
    if not point.converged:
        return None
    values, errors = _table(at, problem, point)
    good = all(errors[item.name] <= 1e-13 * abs(values[item.name]) for item in plan.unknowns)
    return FixedPointSolution(program, at, problem, point, values, errors) if good and _allowed(plan, values) else None


def _said(at: Values, plan: FixedPointPlan) -> str:
    given = ", ".join(f"{name}={value}" for name, value in settings(at, plan).items())
    return f" for {given}" if given else ""


def settings(at: Values, plan: FixedPointPlan) -> dict[str, float | str]:
    """Return parameters and laws by name, without the Gaussian variables that the equations determine."""
    return {name: value for name, value in at.settings.items() if name not in plan.gaussians}


def _allowed(plan: FixedPointPlan, values: Mapping[str, float]) -> bool:
    """Whether every unknown lies in its domain."""
    return all(item.holds(values[item.name]) for item in plan.declared)


def _table(at: Values, problem: Problem, point: Iterate) -> tuple[dict[str, float], dict[str, float]]:
    """Return all unknowns and observables, and their errors: a finer quadrature, and rounding."""
    plan = problem.plan
    if not plan.unknowns and not plan.means:
        values = _outputs(plan, problem.parameters, point.values, point.linear.means)
        return values, {name: 2 * EPSILON * abs(value) for name, value in values.items()}
    linear = point.linear  # one step before the point: good enough for derivatives
    means = [problem.means(point.values, point.mesh)[:, 0]]
    for finer, mesh in _finer(at, problem, point.values, point.mesh):
        means.append(expectations(finer.integrands(point.values), mesh)[:, 0])
    steps, noise, fine = [np.zeros(0) for _ in means], np.zeros(0), means[-1]
    if plan.unknowns:
        inverse = np.linalg.inv(linear.jacobian)
        steps = [-inverse @ residuals(problem, point.values[:, None], item[:, None])[:, 0] for item in means]
        steps[0] *= 0.0
        noise = np.abs(inverse) @ linear.rounding
    found = [_outputs(plan, problem.parameters, point.values + step, item + linear.mean_slopes @ step)
             for step, item in zip(steps, means, strict=True)]  # fmt: skip
    final, second = point.values + steps[-1], found[-1]
    step = np.sum(np.abs(np.diff(steps, axis=0)), axis=0)
    names = tuple(item.name for item in plan.unknowns)
    slopes = newton.output_slopes(problem, final, linear.means, names)
    sizes = EPSILON * np.abs(fine)
    values = {**dict(zip(names, final.tolist(), strict=True)), **second}
    errors = {name: abs(float(s)) + float(n) for name, s, n in zip(names, step, noise, strict=True)}
    for place, name in enumerate(plan.outputs):
        along, through = np.split(slopes[place], [len(names)])
        rounding = np.abs(along + through @ linear.mean_slopes) @ noise + np.abs(through) @ sizes
        errors[name] = sum(abs(b[name] - a[name]) for a, b in pairwise(found)) + float(rounding) + EPSILON * abs(second[name])
    order = dict.fromkeys([*(item.name for item in plan.declared), *values])
    return {name: values[name] for name in order}, {name: errors[name] for name in order}


def _finer(at: Values, problem: Problem, values: Array, mesh: PanelMesh) -> Iterator[tuple[Problem, PanelMesh]]:
    """Yield the same problem with a finer quadrature: every panel cut in two; rules with more nodes, twice.

    Across a kink the errors of two rules may agree by chance.
    """
    if mesh.lines.exact:
        yield problem, mesh.moved(problem.integrands(values).kinks(mesh.lines)).halved()
        return
    laws = {name: at.laws[name] for name in problem.plan.constants}
    for more in (1.2, 1.5):
        parts = tuple(branches(tuple(laws), laws, int(RULE * more)))
        finer = replace(problem, parts=parts, outer=int(problem.outer * more))
        yield finer, finer.adapted(values)


def _outputs(plan: FixedPointPlan, parameters: tuple[float, ...], values: Array, means: Array) -> dict[str, float]:
    with np.errstate(all="ignore"):
        found = plan.piece("outputs")(*map(np.float64, parameters), *values, *means)  # 0/0 of floats would raise
    return dict(zip(plan.outputs, (float(entry) for entry in found), strict=True))


def _last_residual(solution: FixedPointSolution) -> float:
    """Return the largest residual at the values reported, on the mesh of the solve."""
    problem = solution.problem
    if not problem.plan.unknowns:
        return 0.0
    values = np.array([[solution.values[item.name]] for item in problem.plan.unknowns])
    return float(np.max(np.abs(residuals(problem, values, problem.means(values, solution.point.mesh)))))


def to_result(solution: FixedPointSolution) -> Result:
    """Return a solution as a result with scalar values."""
    stats: dict[str, Any] = {
        "residual": _last_residual(solution),
        "nodes": len(solution.point.mesh.row) * solution.point.mesh.order,
        "steps": solution.point.steps,
    }
    if solution.others:
        stats["other_solutions"] = [dict(other) for other in solution.others]
    plan = solution.problem.plan
    params = settings(solution.at, plan)
    data = LabelledArrays.of_numbers(solution.values, solution.errors)
    return Result(data, model=plan.name, kind="fixed point", params=params, stats=stats, source=solution)
