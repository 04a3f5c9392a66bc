"""Starts for roots of increasing functions: the inverse function read off a table of the function itself.

A function is tabulated for every set of numbers it is needed at, and the inverse between two entries is the cubic with
the right slopes. Two or three Newton steps then give the roots to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array

__all__ = ["first_grid", "table", "table_starts"]

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
