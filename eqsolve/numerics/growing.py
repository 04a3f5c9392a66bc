"""The lower factor of a covariance, grown row by row: each new value given all before it."""

import math
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array


@dataclass(eq=False)
class Factor:
    """The lower factor of a covariance, grown row by row; a variance that the past fixes up to rounding gets no coordinate."""

    rows: Array
    known: int = 0

    def row(self, covariance: Array) -> Array:
        """Return the next row for the covariances with all before and the variance; ``keep`` keeps it."""
        from scipy.linalg.lapack import dtrtrs

        n = self.known
        made = np.zeros(n + 1)
        if n:
            made[:n] = dtrtrs(self.solvable.T, covariance[:n], lower=0, trans=1)[0]
        left = float(covariance[n] - made[:n] @ made[:n])
        # of a variance: what is left of it, given the past, counts as nothing below this
        made[n] = math.sqrt(left) if left > 1e-10 * abs(float(covariance[n])) else 0.0
        return made

    def keep(self, row: Array) -> None:
        self.rows[self.known, : len(row)] = row
        self.known += 1

    @property
    def lost(self) -> Array:
        return np.diagonal(self.rows)[: self.known] == 0

    @property
    def solvable(self) -> Array:
        """The factor with infinite pivots where there is no coordinate: these solve to zero."""
        whole = self.rows[: self.known, : self.known]
        lost = self.lost
        if lost.any():
            whole = whole.copy()
            whole[lost, lost] = np.inf
        return whole
