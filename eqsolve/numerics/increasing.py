"""Roots of increasing functions, one per node, all nodes at once, to machine precision."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array

# --- Starts for roots of increasing functions: the inverse function read off a table of the function itself.
#
# A function is tabulated for every set of numbers it is needed at, and the inverse between two entries is the cubic with
# the right slopes. Two or three Newton steps then give the roots to rounding.
_EXACT = (1e-5, 1e3, 0.04)  # least and largest |y|, step of log y
_ROUGH = (1e-3, 1e2, 0.07)


@functools.lru_cache(maxsize=64)
def first_grid(low: float, high: float, *, rough: bool = False) -> Array:
    """Return values between two ends, dense around 0 (or at a finite end) on the scale of their distance from it."""
    least, largest, step = _ROUGH if rough else _EXACT
    away = np.exp(np.arange(np.log(least), np.log(largest), step))
    if np.isinf(low) and np.isinf(high):
        return np.concatenate([-away[::-1], [0.0], away])
    if np.isinf(high):
        return low + away
    if np.isinf(low):
        return high - away[::-1]
    return low + (high - low) / (1 + np.exp(-np.arange(-24, 24, step)))


def table(pair: Callable[[Array], Sequence[Any]], grid: Array, sets: int) -> tuple[Array, Array]:
    """Return f, increasing along each row, and 1/f' on ``sets`` copies of the grid, one per set of numbers in f."""
    with np.errstate(all="ignore"):
        value, slope = (np.broadcast_to(part, (sets, len(grid))) for part in pair(grid))
        if not np.isfinite(value).all():
            value = np.where(np.isfinite(value), value, np.where(np.arange(len(grid)) < len(grid) // 2, -np.inf, np.inf))
        return np.maximum.accumulate(value, axis=1), 1 / slope


def table_starts(made: tuple[Array, Array], grid: Array, which: Array, target: Array) -> Array:
    """Return about where f(y) = target; ``which`` says which row of the table each target belongs to."""
    value, inverse = made
    place = np.empty(target.shape, dtype=int)
    row: Any = which if len(value) > 1 else 0
    if len(value) == 1:
        place = np.searchsorted(value[0], target)
    else:
        for one in range(len(value)):
            mine = np.flatnonzero(which == one)
            place[mine] = np.searchsorted(value[one], target[mine])
    below, above = np.maximum(place - 1, 0), np.minimum(place, len(grid) - 1)
    with np.errstate(all="ignore"):
        f0, y0, y1 = value[row, below], grid[below], grid[above]
        height = value[row, above] - f0
        s = (target - f0) / height
        t = 1 - s
        curve = y0 * t * t * (1 + 2 * s) + y1 * s * s * (1 + 2 * t)
        curve += height * s * t * (inverse[row, below] * t - inverse[row, above] * s)
        good = (curve >= y0) & (curve <= y1)
        return curve if good.all() else np.where(good, curve, np.where(np.isfinite(f0), y0, y1))


# --- Roots of increasing functions, one per node, all nodes at once, to machine precision.
_QUADRATIC = 1e-9  # the error after a Newton step of this relative size is below rounding
_STUCK = 1e-5  # steps of this size that no longer shrink are rounding in f


def increasing_roots(
    value_and_slope: Callable[[Array, Any], tuple[Array, Array]],
    target: Array,
    low: Array,
    high: Array,
    start: Array | None = None,
    *,
    rough: bool = False,
) -> Array:
    """Return y with f(y) = target for an f that increases on (low, high).

    Newton's method inside a shrinking bracket (for log f where f is far above the target); where a step leaves the
    bracket, is no number, or does not halve the last one, the bracket is halved instead, in asinh y, so that roots of
    any size are reached in a few rounds.
    ``value_and_slope(y, places)`` gives f and f' at the nodes ``places`` (an index array, or a slice for all).
    A root that does not exist is nan. ``rough`` roots are good to about 1e-4 of their size.
    """
    enough = 3e-3 if rough else _QUADRATIC
    out = np.full(target.shape, np.nan)
    active: Array = np.arange(target.size)
    if start is not None:
        out, active = _from_near(value_and_slope, target, low, high, start, enough)
        if not active.size:
            return out
    low, high = (np.array(np.broadcast_to(end, target.shape), dtype=float)[active] for end in (low, high))
    with np.errstate(all="ignore"):
        middle = _between(low, high)
    y = middle if start is None else np.where((start[active] > low) & (start[active] < high), start[active], middle)
    left, right, wanted = low.copy(), high.copy(), target[active]
    last = np.full(wanted.shape, np.inf)
    with np.errstate(all="ignore"):
        for _ in range(200):
            value, slope = value_and_slope(y, active)
            gap = value - wanted
            left = np.where(gap <= 0, y, left)
            right = np.where(gap >= 0, y, right)
            step = gap / slope
            size, room = np.abs(step), np.abs(y)
            far = np.flatnonzero(size > 0.5)
            over = far[:0]
            if far.size:
                over = _beyond(far, value, wanted, y, slope)
                if over.size:  # far beyond the root of something that grows fast: Newton's step for its logarithm
                    step[over] = value[over] * np.log(value[over] / wanted[over]) / slope[over]
                    size = np.abs(step)
            new = y - step
            slow = size > 0.5 * last
            stuck = slow & (last < _STUCK * (1 + room))
            exact = (gap == 0) | stuck
            final = exact | (size <= enough * room)
            bad = np.flatnonzero((~((new > left) & (new < right)) | slow) & ~final)
            if bad.size:
                new[bad] = _between(left[bad], right[bad])
            new = np.where(exact, y, new)
            last = np.abs(new - y)
            last[bad] = np.inf
            last[over] = np.inf
            lost = np.isnan(gap)
            done = final | (right - left <= 4e-16 * np.abs(new)) | lost  # two roundings
            y = new
            if done.all():
                out[active] = np.where(lost, np.nan, y)
                break
            if done.any():
                out[active[done]] = np.where(lost[done], np.nan, y[done])
                keep = np.flatnonzero(~done)
                active, y, left, right, wanted, last = (part[keep] for part in (active, y, left, right, wanted, last))
        else:
            out[active] = y  # the last bit flickers: the bracket is as small as rounding allows
    return out


def _from_near(
    value_and_slope: Callable[[Array, Any], tuple[Array, Array]],
    target: Array,
    low: Array,
    high: Array,
    start: Array,
    enough: float,
) -> tuple[Array, Array]:
    """Return roots by a few plain Newton steps, and the nodes at which these do not converge."""
    y, nodes = start, np.arange(target.size)
    with np.errstate(all="ignore"):
        for _ in range(4):  # Newton steps from a start that is expected to be good
            value, slope = value_and_slope(y, nodes)
            step = (value - target) / slope
            y = y - step
            converged = np.abs(step) <= enough * np.abs(y)
            if converged.all():
                break
        converged &= (y > low) & (y < high)
    return y, np.flatnonzero(~converged)


def _beyond(places: Array, value: Array, wanted: Array, y: Array, slope: Array) -> Array:
    """Return those of some places where f is many times the target and grows faster than y²."""
    ratio = value[places] / wanted[places]
    fast = np.abs(y[places] * slope[places]) > 2 * np.abs(value[places])
    return places[(ratio > 4.0) & fast & np.isfinite(ratio)]


def _between(left: Array, right: Array) -> Array:
    """Return a point inside each bracket: halfway in asinh y, further out where an end is infinite."""
    a, b = np.arcsinh(left), np.arcsinh(right)
    middle = np.sinh((a + b) / 2)
    outward = np.sinh(np.where(np.isinf(b), a + 1.5, b - 1.5))
    middle = np.where(np.isinf(a) ^ np.isinf(b), outward, middle)
    middle = np.where(np.isinf(a) & np.isinf(b), 0.0, middle)
    return np.where((middle > left) & (middle < right), middle, (left + right) / 2)
