"""Starts for roots of increasing functions: the inverse function read off a table of the function itself.

A function is tabulated for every set of numbers it is needed at, and the inverse between two entries is the cubic with
the right slopes. Two or three Newton steps then give the roots to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["first_grid", "table_starts"]

_EXACT = (1e-8, 1e4, 0.04)  # least and largest |y|, step of log y
_ROUGH = (1e-5, 1e3, 0.12)


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


def table_starts(pair: Callable[[Array], Sequence[Any]], grid: Array, sets: int, which: Array, target: Array) -> Array:
    """Return about where f(y) = target.

    Parameters
    ----------
    pair
        Gives f and f' at ``sets`` copies of the grid, one row per set of numbers in f.
    grid
        Increasing values of y.
    sets, which
        Number of sets of numbers in f, and which of them belongs to each target.
    """
    with np.errstate(all="ignore"):
        value, slope = (np.broadcast_to(part, (sets, len(grid))) for part in pair(grid))
        middle = len(grid) // 2
        value = np.where(np.isfinite(value), value, np.where(np.arange(len(grid)) < middle, -np.inf, np.inf))
        value = np.maximum.accumulate(value, axis=1)
        place = np.empty(target.shape, dtype=int)
        for one in range(sets):
            mine = slice(None) if sets == 1 else np.flatnonzero(which == one)
            place[mine] = np.searchsorted(value[one], target[mine])
        below, above = np.clip(place - 1, 0, len(grid) - 1), np.clip(place, 0, len(grid) - 1)
        row: Any = which if sets > 1 else 0
        f0, f1, m0, m1 = value[row, below], value[row, above], 1 / slope[row, below], 1 / slope[row, above]
        y0, y1, height = grid[below], grid[above], f1 - f0
        s = (target - f0) / height
        t = 1 - s
        curve = y0 * t * t * (1 + 2 * s) + y1 * s * s * (1 + 2 * t) + height * s * t * (m0 * t - m1 * s)
        good = (curve >= y0) & (curve <= y1)
        return np.where(good, curve, np.where(np.isfinite(f0), y0, y1))
