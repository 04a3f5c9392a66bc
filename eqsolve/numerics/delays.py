"""Break points of delay equations: where a solution is less smooth than elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsolve.numerics.arrays import Array

__all__ = ["break_points"]

_SAME = 1e-12  # of the last time: points closer than this are one


def break_points(delays: Sequence[float], end: float, levels: int) -> Array:
    """Return the sums of up to ``levels`` delays below ``end``, sorted.

    A solution that starts with a jump in its first derivative has one in derivative k + 1 at sums of k delays; with panels of
    degree below ``levels`` the later ones do not count (Bellen & Zennaro, Numerical Methods for Delay Differential
    Equations, 2003, doi:10.1093/acprof:oso/9780198506546.001.0001).
    """
    lengths = np.array(sorted({float(delay) for delay in delays if 0 < delay < end}))
    found = reached = np.zeros(1)
    for _ in range(levels if len(lengths) else 0):
        sums = (reached[:, None] + lengths).ravel()
        reached = _distinct(sums[sums < end], end)
        if not len(reached):
            break
        found = _distinct(np.concatenate([found, reached]), end)
    return found[found > 0]


def _distinct(points: Array, end: float) -> Array:
    points = np.sort(points)
    if not len(points):
        return points
    kept: Array = points[np.concatenate([[True], np.diff(points) > _SAME * end])]
    return kept
