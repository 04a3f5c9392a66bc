"""Find the solutions of a reduced fixed point: a scan over the unknowns' domains, then Newton's method.

Unknowns that are positive are searched in their logarithms, and an equation whose left side is positive is solved as
log(right/left) = 0, so that power laws are straight lines. The Jacobian is symbolic under the expectations; jumps
that move with the unknowns contribute their own terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sympy import Basic

from eqsolve.compile.fixed_point import Plan
from eqsolve.solvers.quadrature import Lines, Mesh, adapt, coarse_mesh, expectations, gradients
from eqsolve.solvers.quadrature_laws import Branch
from eqsolve.solvers.quadrature_rows import make_rows

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Linearised", "Point", "Problem", "find_solutions", "newton", "polish", "residuals"]

_SCANS = ((-7.0, 5.0), (-18.0, 12.0), (-55.0, 30.0))  # decades searched for a positive unknown, one after the other
_POINTS = {1: (49, 91, 171), 2: (13, 16, 30), 3: (9, 13, 18)}
_SMALL = 0.01  # an unknown of either sign is scanned evenly below this, logarithmically above
_CUTS = 3  # of a cell of the scan, per axis
_OUTER = 96
_IDLE = 4  # steps of ordinary length in which the residuals need not halve
_LEASH = 3.0  # a zero said to be in a cell of the scan is not this many longest steps away
_AROUND = 3.0  # how far from a start, in search variables, a solution is looked for on many nodes
_NEARLY = 0.05  # residuals that few nodes may leave
_FARTHEST = 160.0  # a search variable beyond this has run away; for a logarithm that is 1e69


@dataclass(frozen=True)
class Problem:
    """A plan at given numbers."""

    plan: Plan
    parameters: tuple[float, ...]
    parts: tuple[Branch, ...]
    outer: int = _OUTER

    def lines(self, unknowns: Array) -> Lines:
        table = unknowns if unknowns.ndim == 2 else unknowns[:, None]
        return Lines(self.plan, self.parameters, table)

    def values(self, points: Array) -> Array:
        """Return unknowns from the variables searched in."""
        if not self.plan.unknowns:
            return np.asarray(points)
        return np.stack([_value(item, row) for item, row in zip(self.plan.unknowns, points, strict=True)])

    def points(self, values: Sequence[float]) -> Array:
        """Return the variables searched in from unknowns."""
        with np.errstate(all="ignore"):
            return np.array([_point(item, value) for item, value in zip(self.plan.unknowns, values, strict=True)])

    def jacobian_scale(self, values: Array) -> Array:
        """Return d unknown / d search variable."""
        return np.array([_scale(item, v) for item, v in zip(self.plan.unknowns, values, strict=True)])

    def adapted(self, values: Array, **how: Any) -> Mesh:
        lines = self.lines(values)
        rows = make_rows(self.plan, self.parts, self.parameters, lines.unknowns, how.pop("outer", self.outer))
        return adapt(lines, rows, **how)


@dataclass(frozen=True)
class Linearised:
    """Residuals at a point, their derivatives along the unknowns, and how large rounding in them may be."""

    residual: Array
    jacobian: Array
    means: Array
    mean_slopes: Array
    rounding: Array


@dataclass(frozen=True)
class Point:
    """A solution found: unknowns, the mesh it was found on, and the linearised equations there."""

    values: Array
    mesh: Mesh
    linear: Linearised
    steps: int
    converged: bool
    first: float = 0.0  # how many longest steps away the first one said the solution is


def _sign(item: Basic) -> int:
    return 1 if item.is_nonnegative else -1 if item.is_nonpositive else 0


def _interval(item: Basic) -> tuple[float, float] | None:
    low, high = item.bounds
    return None if low is None or high is None else (float(low), float(high))


def _value(item: Basic, point: Array) -> Array:
    """Return an unknown from its search variable: a logistic map onto an interval, an exponential, or itself."""
    interval, sign = _interval(item), _sign(item)
    with np.errstate(over="ignore"):
        if interval is not None:
            return interval[0] + (interval[1] - interval[0]) / (1 + np.exp(-np.asarray(point)))
        return sign * np.exp(point) if sign else np.asarray(point)


def _point(item: Basic, value: float) -> float:
    interval, sign = _interval(item), _sign(item)
    if interval is not None:
        return float(np.log(max(value - interval[0], 1e-300)) - np.log(max(interval[1] - value, 1e-300)))
    return float(np.log(max(sign * value, 1e-300))) if sign else float(value)


def _scale(item: Basic, value: float) -> float:
    interval = _interval(item)
    if interval is not None:
        return (value - interval[0]) * (interval[1] - value) / (interval[1] - interval[0])
    return value if _sign(item) else 1.0


def residuals(problem: Problem, values: Array, means: Array) -> Array:
    """Return the residuals for several sets of unknowns (columns)."""
    plan = problem.plan
    with np.errstate(all="ignore"):
        sides = plan.side_values()(*problem.parameters, *values, *means)
        count = values.shape[1]
        table = np.stack([np.broadcast_to(np.asarray(side, dtype=float), (count,)) for side in sides])
        left, right = table[: len(table) // 2], table[len(table) // 2 :]
        return np.stack([
            np.log(r / s) if log else r - s for s, r, log in zip(left, right, plan.logarithmic, strict=True)
        ])  # fmt: skip


def linearise(problem: Problem, values: Array, mesh: Mesh, along: tuple[Basic, ...] | None = None) -> Linearised:
    """Return residuals and their derivatives along the unknowns (or other symbols) on a mesh that follows its kinks."""
    plan = problem.plan
    symbols = plan.unknowns if along is None else along
    lines = problem.lines(values)
    mesh = mesh.moved(lines.kinks(mesh.rows))
    means, slopes, sizes = gradients(lines, mesh, symbols)
    count, wide = len(plan.sides), len(symbols) + len(means)
    scalars = (*problem.parameters, *values, *means)
    with np.errstate(all="ignore"):
        sides = np.array([float(side) for side in plan.side_values()(*scalars)]).reshape(2, count)
        partial = np.array([float(entry) for entry in plan.side_slopes(symbols)(*scalars)]).reshape(2, count, wide)
        left, right = sides
        log = np.array(plan.logarithmic, dtype=bool)
        residual = np.where(log, np.log(right / left), right - left)
        scale_left, scale_right = np.where(log, 1 / left, 1.0), np.where(log, 1 / right, 1.0)
        change = partial[1] * scale_right[:, None] - partial[0] * scale_left[:, None]
    through = change[:, len(symbols) :]
    jacobian = change[:, : len(symbols)] + through @ slopes
    rounding = 2.3e-16 * (np.abs(through) @ sizes + np.where(log, 1.0, np.abs(left) + np.abs(right)))
    return Linearised(residual, jacobian, means, slopes, rounding)


def newton(
    problem: Problem,
    start: Array,
    mesh: Mesh | None,
    *,
    rounds: int = 40,
    stop: float = 1e-8,
    box: list[tuple[float, float]] | None = None,
    leash: float = np.inf,
) -> Point:
    """Newton's method with limited steps; on ``mesh`` if given, else on coarse meshes made anew at every step.

    A search that leaves ``box`` is given up, and one whose first step would be ``leash`` times the longest one; so is one
    whose residuals no longer shrink: the mesh is then too coarse to settle on.
    """
    point, last = problem.points(list(start)), np.inf
    values, best = np.array(start, dtype=float), None
    step, halvings = np.zeros_like(point), 0
    least, idle, first = np.inf, 0, np.inf
    for count in range(1, rounds + 1):
        here = mesh if mesh is not None else _coarse(problem, values)
        linear = linearise(problem, values, here)
        size = float(np.max(np.abs(linear.residual), initial=0.0))
        sound = np.isfinite(size) and np.isfinite(linear.jacobian).all()
        if (not sound or (size > 1.5 * last and size > 1e-6)) and halvings < 6 and np.isfinite(last):
            halvings, idle = halvings + 1, idle + 1  # the last step led astray: half of it
            step = step / 2
            point = point - step
            values = problem.values(point[:, None])[:, 0]
            continue
        if not sound or (box is not None and not _inside(point, box)):
            break
        halvings = 0
        best = Point(values, here, linear, count, False)
        scaled = linear.jacobian * problem.jacobian_scale(values)
        try:
            step = -np.linalg.solve(scaled, linear.residual)
        except np.linalg.LinAlgError:
            break
        longest = float(np.max(np.abs(step) / _reach(problem, point), initial=0.0))
        first = longest if count == 1 else first
        quiet = float(np.max(np.abs(step) / (1 + np.abs(point)), initial=0.0))
        if quiet < stop or (quiet < 1e-9 and size >= last * 0.5):  # the error after this step is that of its square
            values = problem.values((point + step)[:, None])[:, 0] if len(point) else values
            return Point(values, here, linear, count, True)
        last = size
        least, idle = (size, 0) if size < 0.5 * least else (least, idle + (longest <= 1))
        if idle > _IDLE or (count == 1 and longest > leash):
            break
        if longest > 1:
            step = step / longest
        point = point + step
        values = problem.values(point[:, None])[:, 0]
    failed = best if best is not None else Point(values, _coarse(problem, values), _nothing(problem), 0, False)
    return replace(failed, first=first)


def _reach(problem: Problem, point: Array) -> Array:
    """Return the longest step of each search variable: a factor e², or the size of the variable."""
    return np.array([
        2.0 if _sign(item) or _interval(item) is not None else 1 + abs(x)
        for item, x in zip(problem.plan.unknowns, point, strict=True)
    ])  # fmt: skip


def _inside(point: Array, box: list[tuple[float, float]]) -> bool:
    return all(low <= x <= high for x, (low, high) in zip(point, box, strict=True))


def _nothing(problem: Problem) -> Linearised:
    count, means = len(problem.plan.unknowns), len(problem.plan.means)
    nan = np.full(count, np.nan)
    return Linearised(nan, np.full((count, count), np.nan), np.full(means, np.nan), np.zeros((means, count)), nan)


def _coarse(problem: Problem, values: Array) -> Mesh:
    lines = problem.lines(values)
    rows = make_rows(problem.plan, problem.parts, problem.parameters, lines.unknowns, 24)
    return coarse_mesh(lines, rows, 12)


def polish(
    problem: Problem, start: Array, *, mesh: Mesh | None = None, box: list[tuple[float, float]] | None = None
) -> Point:
    """Return the solution near a start to rounding: meshes adapted until they no longer need to change.

    A mesh that is given is kept; whoever gives it looks at the error. A search that leaves ``box`` is given up.
    """
    if mesh is not None:
        return newton(problem, start, mesh)
    values = np.array(start, dtype=float)
    steps = 0
    for _ in range(6):
        before = values
        mesh = problem.adapted(values, like=mesh)
        found = newton(problem, values, mesh, box=box or [(-_FARTHEST, _FARTHEST)] * len(values))
        steps += found.steps
        values = found.values
        moved = np.max(np.abs(problem.points(list(values)) - problem.points(list(before))), initial=0.0)
        if found.converged and moved < (1e-8 if found.mesh.rows.turned else 0.02):
            return Point(values, found.mesh, found.linear, steps, True)
        if not np.isfinite(values).all():
            break
    return Point(values, found.mesh, found.linear, steps, False)


def find_solutions(problem: Problem) -> list[Array]:
    """Return starts near all solutions found by a scan of the unknowns' domains with few quadrature nodes."""
    plan = problem.plan
    dims = len(plan.unknowns)
    if dims == 0:
        return [np.zeros(0)]
    doubtful: list[tuple[float, tuple[float, ...], list[tuple[float, float]]]] = []
    for level, decades in enumerate(_SCANS):
        axes = [_axis(item, decades, dims, level) for item in plan.unknowns]
        cell = np.array([axis[1] - axis[0] for axis in axes])
        box = [(axis[0] - 1.5 * width, axis[-1] + 1.5 * width) for axis, width in zip(axes, cell, strict=True)]
        ends = [_spread(problem, problem.values(np.array([[axis[k]] for axis in axes]))[:, 0]) for k in (0, 1)]
        spacing = ends[1] - ends[0]
        found: list[Array] = []
        tried: list[Array] = []
        for far, start in _candidates(problem, axes, last=level == len(_SCANS) - 1):
            here = _spread(problem, start)
            if found and far > 1:
                break  # the linear interpolants of such cells have no zero in them
            if any((np.abs(here - other) < 0.8 * spacing).all() for other in tried):
                continue  # this neighbourhood has been searched
            first, values = _settle(problem, start, box, rounds=14 if found else 30, leash=_LEASH, near=found)
            if values is None:
                if first > _LEASH:
                    doubtful.append((first, tuple(start.tolist()), box))
                continue
            tried += [here, _spread(problem, values)]
            if not any(_same(problem, values, other, 1e-3) for other in found):
                found.append(values)
        if found:
            return found
        doubtful.sort()
        while doubtful and level and (doubtful[0][0] < 5 * _LEASH or level == len(_SCANS) - 1):
            _, near, inside = doubtful.pop(0)
            _, values = _settle(problem, np.array(near), inside, rounds=30, leash=np.inf, near=[])
            if values is not None:
                return [values]
    return []


def _settle(
    problem: Problem, start: Array, box: list[tuple[float, float]], *, rounds: int, leash: float, near: list[Array]
) -> tuple[float, Array | None]:
    """Return the solution near a start on few nodes, or on many where few do not settle though residuals are small.

    The number says how far away Newton's method thought it to be, in longest steps.
    """
    point = newton(problem, start, None, rounds=rounds, stop=1e-3, box=box, leash=leash)
    if point.converged:
        return 0.0, point.values
    close = _same(problem, point.values, start, _AROUND) and point.steps > 1
    if not close or np.max(np.abs(point.linear.residual), initial=0.0) > _NEARLY:
        return point.first, None
    if any(_same(problem, point.values, other, 0.3) for other in near):
        return point.first, None
    around = [(x - _AROUND, x + _AROUND) for x in problem.points(list(point.values))]
    finer = polish(problem, point.values, box=around)
    return point.first, finer.values if finer.converged else None


def _spread(problem: Problem, values: Array) -> Array:
    """Return unknowns in coordinates in which the scan's cells are equally wide."""
    return np.array([
        point if _sign(item) or _interval(item) is not None else np.arcsinh(point / _SMALL)
        for item, point in zip(problem.plan.unknowns, problem.points(list(values)), strict=True)
    ])  # fmt: skip


def searched(plan: Plan) -> str:
    """Return the domain of the widest scan in words."""
    low, high = _SCANS[-1]
    words = []
    for item in plan.unknowns:
        sign, interval = _sign(item), _interval(item)
        if interval is not None:
            ends = (f"{interval[0]:g}", f"{interval[1]:g}")
        elif sign:
            ends = (f"1e{low:g}", f"1e{high:g}") if sign > 0 else (f"-1e{high:g}", f"-1e{low:g}")
        else:
            ends = (f"-1e{_real_decades(2):g}", f"1e{_real_decades(2):g}")
        words.append(f"{item.name} from {ends[0]} to {ends[1]}")
    return ", ".join(words)


def _real_decades(level: int) -> float:
    return (3.0, 6.0, 12.0)[level]


def _axis(item: Basic, decades: tuple[float, float], dims: int, level: int) -> Array:
    count = _POINTS.get(dims, (5, 7, 9))[level]
    if _interval(item) is not None:
        return np.linspace(-1, 1, count) * (9.0, 18.0, 30.0)[level]
    if _sign(item):
        return np.linspace(*decades, count) * np.log(10)
    half = np.arcsinh(10 ** _real_decades(level) / _SMALL)
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
    cells = np.argwhere(_crossing(table))
    widths = np.array([[axis[k + 1] - axis[k] for axis, k in zip(axes, cell, strict=True)] for cell in cells])
    lows = np.array([[axis[k] for axis, k in zip(axes, cell, strict=True)] for cell in cells])
    near: list[tuple[float, tuple[float, ...]]] = []
    if len(cells):
        cuts = np.array(list(product(np.linspace(0, 1, _CUTS + 1), repeat=dims)))
        inner = (lows[:, None] + widths[:, None] * cuts).reshape(-1, dims).T
        fine = _scan_all(problem, inner).reshape(dims, len(cells), *(_CUTS + 1,) * dims)
        blocks, corners, steps = [], [], []
        for low, width, part in zip(lows, widths / _CUTS, fine.swapaxes(0, 1), strict=True):
            for cell in np.argwhere(_crossing(part)):
                blocks.append(part[(slice(None), *(slice(k, k + 2) for k in cell))])
                corners.append(low + width * (cell + 0.5))
                steps.append(width)
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


def _crossing(table: Array) -> Array:
    """Return the cells of a table on whose corners every residual takes both signs."""
    dims, shape = len(table), table.shape[1:]
    corners = np.stack([
        table[(slice(None), *(slice(k, n - 1 + k) for k, n in zip(corner, shape, strict=True)))]
        for corner in product((0, 1), repeat=dims)
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(corners), np.fmax.reduce(corners)
        return np.asarray(((low <= 0) & (high >= 0)).all(axis=0))


def _offsets(corners: Array) -> Array:
    """Return where the zeros of cells' linear interpolants lie, from the centres, in cell widths; nan where there is none."""
    count, dims = corners.shape[:2]
    with np.errstate(all="ignore"):
        mean = corners.reshape(count, dims, -1).mean(axis=2)
        slopes = np.stack(
            [np.diff(corners, axis=k + 2).reshape(count, dims, -1).mean(axis=2) for k in range(dims)], axis=2
        )
        slopes = np.where((np.isfinite(slopes).all(axis=(1, 2)) & (np.linalg.det(slopes) != 0))[:, None, None], slopes, np.nan)
        return np.asarray(-np.linalg.solve(slopes, mean[:, :, None])[:, :, 0])


def _scan_all(problem: Problem, points: Array) -> Array:
    """Return the residuals at many points, a few thousand at a time."""
    pieces = max(1, points.shape[1] // 2000)
    values = problem.values(points)
    return np.concatenate([_scan(problem, part) for part in np.array_split(values, pieces, axis=1)], axis=1)


def _scan(problem: Problem, values: Array) -> Array:
    lines = problem.lines(values)
    lines.rough = True
    rows = make_rows(problem.plan, problem.parts, problem.parameters, values, 12)
    means = expectations(lines, coarse_mesh(lines, rows, 4))
    return residuals(problem, values, means)


def _same(problem: Problem, one: Array, other: Array, within: float) -> bool:
    return bool(np.max(np.abs(problem.points(list(one)) - problem.points(list(other))), initial=0.0) < within)
