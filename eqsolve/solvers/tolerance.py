"""What a tolerance means: one rule for all solvers."""

from __future__ import annotations

import numpy as np

from eqsolve.solvers.grids import Array
from eqsolve.solvers.options import Options

__all__ = ["excess"]


def excess(values: Array, errors: Array, options: Options, floor: float = 1e-3) -> float:
    """Return the largest error in units of the tolerance.

    Allowed is rtol times the value, or times ``floor`` of the largest value where the value is smaller, plus atol.
    """
    largest = float(np.max(np.abs(values)))
    if largest == 0.0:
        return 0.0
    allowed = options.rtol * np.maximum(np.abs(values), floor * largest) + (options.atol or 0.0)
    return float(np.max(errors / allowed))
