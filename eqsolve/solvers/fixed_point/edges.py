"""Solutions of a fixed point on the edges of closed domains, such as an order parameter that is zero.

Some unknowns are held at ends of their domains and as many equations dropped; the others are solved for as usual, and the
dropped equations must hold at what comes out. Before that costs anything, a scan of the edge tells whether they can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product

import numpy as np

from eqsolve.compile.fixed_point import FixedPointPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import coarse_mesh, expectations
from eqsolve.numerics.quadrature_rows import make_rows
from eqsolve.solvers.fixed_point.newton import Point, Problem, polish
from eqsolve.solvers.fixed_point.search import crossing, find_solutions, scan_axes

__all__ = ["edge_solutions"]

Held = tuple[tuple[str, float], ...]

_MANY = 3  # unknowns beyond which only one at a time is held
_EQUAL = 1e-13  # a dropped equation holds to this, relative to its sides beside the edge
_LIKELY = 0.05  # and may hold if a scan gets as near as this


def edge_solutions(
    problem: Problem, make: Callable[..., Problem], start: Mapping[str, float] | None = None
) -> list[tuple[Problem, Point]]:
    """Return the solutions on edges, each with the problem it solves; with a ``start`` on an edge, those on that one.

    ``make(held=, dropped=)`` gives the problem with unknowns held and equations dropped.
    """
    plan = problem.plan
    found: list[tuple[Problem, Point]] = []
    for held in _edges(plan, start):
        for dropped in _without(plan, held):
            if len(held) == len(plan.unknowns):
                likely = _hold(problem, held, dropped, np.zeros(0))
            else:
                likely = start is not None or _likely(problem, held, dropped)
            if not likely:
                continue
            edge = make(held=held, dropped=dropped)
            points = [polish(edge, near.values, like=near.mesh) for near in find_solutions(edge)]
            good = [point for point in points if point.converged and _hold(problem, held, dropped, point.values)]
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
    several = range(1, len(ends) + 1) if len(ends) <= _MANY else (1,)
    for size in several:
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
    plan, lines = problem.plan, problem.lines(values)
    with np.errstate(all="ignore"):  # an edge may be where something diverges
        if roughly:
            lines.rough = True
            mesh = coarse_mesh(lines, make_rows(plan, problem.parts, problem.parameters, values, 12), 4)
        else:
            mesh = problem.adapted(values)
        means = expectations(lines, mesh)
        sides = plan.piece("sides")(*problem.parameters, *values, *means)
        table = np.stack([np.broadcast_to(np.asarray(side, dtype=float), (values.shape[1],)) for side in sides])
    return table[: len(plan.lefts)], table[len(plan.lefts) :]


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
    return bool(np.isfinite(gap).all() and (gap <= _EQUAL * np.maximum(size, np.abs(left[where, 0]))).all())


def _likely(problem: Problem, held: Held, dropped: tuple[int, ...]) -> bool:
    """Whether a scan of the edge finds places where the kept equations may hold and the dropped ones nearly do."""
    plan = problem.plan
    names = dict(held)
    free = [item for item in plan.unknowns if item.name not in names]
    axes = scan_axes(free, 0)
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    values = np.stack([item.value(row) for item, row in zip(free, grid, strict=True)])
    left, right = _sides(problem, _values(plan, held, values), roughly=True)
    shape = tuple(len(axis) for axis in axes)
    gap = (right - left).reshape(len(plan.lefts), *shape)
    kept = [place for place in range(len(plan.lefts)) if place not in dropped]
    cells = np.argwhere(crossing(gap[kept]))
    for place in dropped:
        size = np.nanmax(np.abs(gap[place]), initial=0.0, where=np.isfinite(gap[place]))
        near = [np.nanmin(np.abs(gap[place][tuple(slice(k, k + 2) for k in cell)])) for cell in cells]
        if not near or not min(near) <= _LIKELY * size:
            return False
    return True
