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
        self.steps: list[Array] = []
        self.changes: list[Array] = []
        self._last: tuple[Array, Array] | None = None

    def next(self, point: Array, image: Array) -> Array:
        """Return the next point to try, given a point and its image."""
        residual = image - point
        if self._last is not None:
            self.steps.append(image - self._last[0])
            self.changes.append(residual - self._last[1])
            if len(self.steps) > self.depth:
                self.steps.pop(0)
                self.changes.pop(0)
        self._last = (image, residual)
        if not self.changes:
            return image
        matrix = np.array(self.changes)
        gram = matrix @ matrix.T
        gram[np.diag_indices_from(gram)] += 1e-14 * np.trace(gram) + 1e-300
        weights = np.linalg.solve(gram, matrix @ residual)
        return image - weights @ np.array(self.steps)
