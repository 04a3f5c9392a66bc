"""What a tolerance means: one rule for all solvers."""

from __future__ import annotations

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.solvers.options import Options

__all__ = ["allowance", "excess", "nodes_per_panel"]


def allowance(values: Array, options: Options, floor: float = 1e-3, *, scale: float = 0.0) -> Array:
    """Return the largest error allowed, value by value.

    It is rtol times the value, or times ``floor`` of the largest value where the value is smaller, plus atol. A solver
    may pass a natural ``scale``, the size of the terms that were averaged or added up to give the values: where they
    cancel, as in a mean that vanishes by symmetry, ``floor`` of that scale counts, not what the cancellation leaves.
    """
    sizes = np.abs(values)
    largest = max(float(np.max(sizes)), scale)
    return options.rtol * np.maximum(sizes, floor * largest) + (options.atol or 0.0)


def excess(values: Array, errors: Array, options: Options, floor: float = 1e-3, *, scale: float = 0.0) -> float:
    """Return the largest error in units of what is allowed; 0 for values that vanish identically."""
    if not np.any(values):
        return 0.0
    return float(np.max(errors / allowance(values, options, floor, scale=scale)))


def nodes_per_panel(rtol: float) -> int:
    """Return the number of collocation nodes that suits a tolerance."""
    return 8 if rtol > 1e-4 else 10 if rtol > 1e-7 else 12
