"""Anderson acceleration of a fixed-point iteration x ← G(x)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Anderson"]


class Anderson:
    """Combines the last few iterates so that their residuals cancel (Walker & Ni, SIAM J. Numer. Anal. 49, 2011)."""

    def __init__(self, depth: int = 5) -> None:
        self.depth = depth
        self._count = 0
        self._last: tuple[Array, Array] | None = None
        self._steps = self._changes = np.empty((0, 0))

    def next(self, point: Array, image: Array) -> Array:
        """Return the next point to try, given a point and its image."""
        residual = image - point
        if self._last is None:
            self._last = (image, residual)
            return image
        if not self._count:
            self._steps, self._changes = (np.empty((self.depth, len(image))) for _ in range(2))
        place = self._count % self.depth
        self._steps[place] = image - self._last[0]
        self._changes[place] = residual - self._last[1]
        self._last = (image, residual)
        self._count += 1
        used = min(self._count, self.depth)
        steps, changes = self._steps[:used], self._changes[:used]
        gram = changes @ changes.T
        gram.flat[:: used + 1] += 1e-14 * gram.trace() + 1e-300
        return np.asarray(image - np.linalg.solve(gram, changes @ residual) @ steps)
