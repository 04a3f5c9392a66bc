"""The array type of every numerical piece, its rounding, and products of quadrature rules."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = float(np.finfo(float).eps)
ROUNDING = 500 * EPSILON  # relative, of sums of hundreds of terms and of linear solves: 1e-13


def tensor_rule(rules: Sequence[tuple[Array, Array]]) -> tuple[list[Array], Array]:
    """Return the points of a product of quadrature rules, a column per rule, and their weights."""
    weights = functools.reduce(np.multiply.outer, (mass for _, mass in rules), np.ones(()))
    return [grid.ravel() for grid in np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")], weights.ravel()
