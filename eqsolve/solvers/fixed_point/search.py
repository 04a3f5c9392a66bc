"""Where the solutions of a reduced fixed point are: a scan of the unknowns' domains, then a few Newton steps.

Every residual changes sign among the corners of a cell that holds a solution; the zeros of the
linear interpolants in such cells are starts for Newton's method on rough meshes. Solutions on the
edges of closed domains, where equations need not change sign, are looked for with unknowns held
there.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import numpy as np

from eqsolve.compile.fixed_point import FixedPointPlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import ROUNDING, Array
from eqsolve.numerics.domains import Domain
from eqsolve.numerics.quadrature import PanelMesh, coarse_mesh, expectations
from eqsolve.solvers.fixed_point import newton
from eqsolve.solvers.fixed_point.newton import Iterate, Problem, polish, residuals, sides

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
        solutions, more_doubts = _scan_level(problem, level)
        if solutions:
            return [*solutions, *_near_ends(problem, level, solutions)]
        doubts = sorted([*doubts, *more_doubts])
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
    if sorted(str(name) for name in lefts) != sorted(unknown.name for unknown in unknowns):
        return []
    order = [lefts.index(unknown.name) for unknown in unknowns]
    for _ in range(most):
        step = np.clip(_scan(problem, problem.values(points))[order], -2, 2)
        sound = np.isfinite(step).all(axis=0)
        points, step = points[:, sound] + step[:, sound] / 2, step[:, sound]
        if np.max(np.abs(step), initial=0.0) < 1e-2:
            break
    solutions: list[Near] = []
    for column in problem.values(points).T:
        if any(same(problem, column, other, 0.1) for other, _ in (*known, *solutions)):
            continue
        point = newton.newton(problem, column, None, rounds=30, stop=1e-3)
        if point.converged and not any(same(problem, point.values, other, _SAME_ROUGHLY) for other, _ in (*known, *solutions)):
            solutions.append((point.values, point.mesh))
    return solutions


def _scan_level(problem: Problem, level: int) -> tuple[list[Near], list[_Doubt]]:
    """Return the solutions that one scan finds, and the starts that led nowhere soon."""
    axes = scan_axes(problem.plan.unknowns, level)
    cell = np.array([axis[1] - axis[0] for axis in axes])
    box = [(axis[0] - 1.5 * width, axis[-1] + 1.5 * width) for axis, width in zip(axes, cell, strict=True)]
    ends = [_spread(problem, problem.values(np.array([[axis[k]] for axis in axes]))[:, 0]) for k in (0, 1)]
    spacing = ends[1] - ends[0]
    solutions: list[Near] = []
    tried: list[Array] = []
    unconverged: list[Iterate] = []
    doubts: list[_Doubt] = []
    lost = 0
    for far, start in _candidates(problem, axes, last=level == _LAST):
        here = _spread(problem, start)
        if solutions and far > 1:
            break  # the linear interpolants of such cells have no zero in them
        if any((np.abs(here - other) < 0.8 * spacing).all() for other in tried):
            continue  # this neighbourhood has been searched
        if lost >= 4 and not solutions and level < _LAST:  # a wider scan comes first
            doubts.append((np.inf, tuple(start.tolist()), box))
            continue  # a valley along which residuals are small and never vanish
        point = newton.newton(problem, start, None, rounds=8 if solutions else 30, stop=1e-3, box=box, leash=_AROUND)
        if point.converged:
            tried += [here, _spread(problem, point.values)]
            if not any(same(problem, point.values, other, _SAME_ROUGHLY) for other, _ in solutions):
                solutions.append((point.values, point.mesh))
        elif _nearly(problem, start, point):
            unconverged.append(point)
        elif point.first > _AROUND:
            lost += 1
            doubts.append((point.first, tuple(start.tolist()), box))
    if not solutions:  # few nodes do not converge though residuals are small
        converged = (_on_many_nodes(problem, point) for point in unconverged)
        solutions = list(islice((near for near in converged if near is not None), 1))
    return solutions, doubts


def _nearly(problem: Problem, start: Array, point: Iterate) -> bool:
    """Whether Newton's method on few nodes stayed near its start and left small residuals."""
    close = same(problem, point.values, start, _AROUND) and point.steps > 1
    return close and bool(np.max(np.abs(point.linear.residual), initial=0.0) <= newton.NEARLY)


def _on_many_nodes(problem: Problem, point: Iterate) -> Near | None:
    """Return the solution near a point on as many nodes as it needs."""
    polished = polish(problem, point.values, box=box_around(problem, point.values))
    return (polished.values, polished.mesh) if polished.converged else None


def box_around(problem: Problem, values: Array) -> list[tuple[float, float]]:
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
    for unknown in plan.unknowns:
        sign, interval = unknown.sign, unknown.interval
        if interval is not None:
            ends = (f"{interval[0]:g}", f"{interval[1]:g}")
        elif sign:
            ends = (f"1e{low:g}", f"1e{high:g}") if sign > 0 else (f"-1e{high:g}", f"-1e{low:g}")
        else:
            ends = (f"-1e{widest.real:g}", f"1e{widest.real:g}")
        words.append(f"{unknown.name} from {ends[0]} to {ends[1]}")
    return ", ".join(words)


def scan_axes(unknowns: Sequence[Domain], level: int) -> list[Array]:
    """Return the search variables at which a scan looks, a column of them per unknown."""
    return [_axis(item, _SCANS[level], len(unknowns)) for item in unknowns]


def _axis(domain: Domain, scan: _Scan, unknowns: int) -> Array:
    count = scan.points[min(unknowns, len(scan.points)) - 1]
    if domain.interval is not None:
        return np.linspace(-1, 1, count) * scan.bounded
    if domain.sign:
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
    solutions: list[tuple[Problem, Iterate]] = []
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
            held_solutions: list[Iterate] = []
            for point in points:
                if point.converged and not any(same(edge, point.values, other.values, 1e-7) for other in held_solutions):
                    held_solutions += [point] if _hold(problem, held, dropped, point.values) else []
            solutions += [(edge, point) for point in held_solutions]
            if held_solutions:
                break
    return solutions


def _edges(plan: FixedPointPlan, start: Mapping[str, float] | None) -> Iterator[Held]:
    """Yield the unknowns that may be held, with the ends of their domains."""
    ends = {unknown.name: unknown.ends for unknown in plan.unknowns}
    if start is not None:
        held = tuple((name, end) for name, ends_of in ends.items() for end in ends_of if start[name] == end)
        if held:
            yield held
        return
    most = len(ends) if len(ends) <= 3 else 1  # of many unknowns only one at a time is held
    for size in range(1, most + 1):
        for names in combinations([name for name, ends_of in ends.items() if ends_of], size):
            for chosen in product(*(ends[unknown] for unknown in names)):
                yield tuple(zip(names, chosen, strict=True))


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
    middle = tuple((unknown.name, unknown.middle) for unknown in problem.plan.unknowns if unknown.name in names)
    middle_sides = np.abs(_sides(problem, _values(problem.plan, middle, column))).max(axis=(0, 2))
    where = list(dropped)
    gap = np.abs(right - left)[where, 0]
    size = np.where(np.isfinite(middle_sides), middle_sides, 1.0)[where]
    return bool(np.isfinite(gap).all() and (gap <= ROUNDING * np.maximum(size, np.abs(left[where, 0]))).all())


def _likely(problem: Problem, held: Held, dropped: tuple[int, ...]) -> bool:
    """Whether a scan of the edge finds places where the kept equations may hold and the dropped ones nearly do."""
    plan = problem.plan
    names = dict(held)
    free = [unknown for unknown in plan.unknowns if unknown.name not in names]
    axes = scan_axes(free, 0)
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    values = np.stack([unknown.value(row) for unknown, row in zip(free, grid, strict=True)])
    left, right = _sides(problem, _values(plan, held, values), roughly=True)
    gap = (right - left).reshape(len(plan.lefts), *map(len, axes))
    kept = [place for place in range(len(plan.lefts)) if place not in dropped]
    cells = np.argwhere(crossing(gap[kept]))
    for place in dropped:
        size = np.nanmax(np.abs(gap[place]), initial=0.0, where=np.isfinite(gap[place]))
        near = [np.nanmin(np.abs(gap[place][tuple(slice(k, k + 2) for k in cell)])) for cell in cells]
        # an equation may hold everywhere, but for rounding
        if not near or not min(near) <= max(newton.NEARLY * size, ROUNDING):
            return False
    return True
