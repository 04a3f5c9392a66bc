"""Safeguarded Newton iteration with bisection for roots of increasing functions, one per node."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import EPSILON, Array

_QUADRATIC = 0.1 * EPSILON**0.5  # a relative Newton step after which the error is below rounding
_STUCK = EPSILON ** (1 / 3)  # steps of this size that no longer shrink are rounding in f
_FALLING = EPSILON**0.5  # of a typical slope: what falls by less is rounding


def increasing_roots(
    value_and_slope: Callable[[Array, Any], tuple[Array, Array]], target: Array, low: Array,
    high: Array, *, rough: bool = False,
) -> Array:  # fmt: skip
    """Return y with f(y) = target for an f that increases on (low, high).

    Newton's method inside a shrinking bracket (for log f where f is far above the target); where a
    step leaves the bracket, is no number, or does not halve the last one, the bracket is halved
    instead, in asinh y, so that roots of any size are reached in a few rounds. ``value_and_slope(y,
    places)`` gives f and f' at the nodes ``places`` (an index array, or a slice for all). A root
    that does not exist is nan, and so is one of an f that is seen to fall: there may be others.
    ``rough`` roots are good to about 1e-4 of their size, and are any of several.
    """
    enough = 3e-3 if rough else _QUADRATIC
    out = np.full(target.shape, np.nan)
    active: Array = np.arange(target.size)
    low, high = (np.array(np.broadcast_to(end, target.shape), dtype=float) for end in (low, high))
    with np.errstate(all="ignore"):
        y = _between(low, high)
    left, right, wanted = low, high, target
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
                # those of some places where f is many times the target and grows faster than y²
                ratio = value[far] / wanted[far]
                fast = np.abs(y[far] * slope[far]) > 2 * np.abs(value[far])
                over = far[(ratio > 4.0) & fast & np.isfinite(ratio)]
                if over.size:  # far beyond the root of something that grows fast: Newton's step for its logarithm
                    step[over] = value[over] * np.log(value[over] / wanted[over]) / slope[over]
                    size = np.abs(step)
            new = y - step
            slow = size > 0.5 * last  # near a root steps shrink quadratically
            exact = (gap == 0) | (slow & (last < _STUCK * (1 + room)))
            final = exact | (size <= enough * room)
            bad = np.flatnonzero((~((new > left) & (new < right)) | slow) & ~final)
            if bad.size:
                new[bad] = _between(left[bad], right[bad])
            new = np.where(exact, y, new)
            last = np.abs(new - y)
            last[bad] = np.inf
            last[over] = np.inf
            lost = np.isnan(gap) | ((slope < -_FALLING * (1 + np.abs(value) / (1 + room))) & (not rough))
            done = final | (right - left <= 2 * EPSILON * np.abs(new)) | lost  # two roundings
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


def roots_at(
    function: Callable[..., Any], arguments: Sequence[Any], size: int, ends: Sequence[Any], *, rough: bool = False
) -> Array:
    """Return at many points the y with f(y) = target; the function gives f and its slope at (y, arguments).

    ``ends`` are the target, and the ends of the interval in which f increases; arrays of this size hold a value per point.
    """
    arrays = [k for k, item in enumerate(arguments) if np.ndim(item) and np.size(item) == size]

    def value_and_slope(y: Array, places: Array) -> tuple[Array, Array]:
        given = list(arguments)
        if len(places) < size:
            for k in arrays:
                given[k] = given[k][places]
        value, slope = function(y, *given)
        return value, slope

    target, low, high = ends
    wanted = np.array(np.broadcast_to(target, (size,)), dtype=float)
    return increasing_roots(value_and_slope, wanted, np.asarray(low), np.asarray(high), rough=rough)


def _between(left: Array, right: Array) -> Array:
    """Return a point inside each bracket: halfway in asinh y, further out where an end is infinite."""
    a, b = np.arcsinh(left), np.arcsinh(right)
    middle = np.sinh((a + b) / 2)
    outward = np.sinh(np.where(np.isinf(b), a + 1.5, b - 1.5))
    middle = np.where(np.isinf(a) ^ np.isinf(b), outward, middle)
    middle = np.where(np.isinf(a) & np.isinf(b), 0.0, middle)
    return np.where((middle > left) & (middle < right), middle, (left + right) / 2)
