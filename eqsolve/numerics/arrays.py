"""The array type of every numerical piece, its rounding, products of quadrature rules, many small linear systems."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = float(np.finfo(float).eps)
ROUNDING = 500 * EPSILON  # relative, of sums of hundreds of terms and of linear solves: 1e-13


def filled(value: Any, shape: tuple[int, ...]) -> Array:
    """Return a new array of a shape, filled with what is broadcast to it."""
    made = np.empty(shape)
    made[...] = value
    return made


def over_neighbours(values: Array, reach: int, combine: Any) -> Array:
    """Return the mean, or another function, over a window around every value."""
    for axis in range(values.ndim):
        last = values.shape[axis] - 1
        places = [np.clip(np.arange(last + 1) + k, 0, last) for k in range(-reach, reach + 1)]
        values = combine([np.take(values, place, axis=axis) for place in places], axis=0)
    return np.asarray(values)


def tensor_rule(rules: Sequence[tuple[Array, Array]]) -> tuple[list[Array], Array]:
    """Return the points of a product of quadrature rules, a column per rule, and their weights."""
    weights = functools.reduce(np.multiply.outer, (mass for _, mass in rules), np.ones(()))
    return [grid.ravel() for grid in np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")], weights.ravel()


def eliminate(matrix: Array, right: Array) -> Array:
    """Solve systems of the same size, one per entry of the last axis, by elimination without pivoting.

    For matrices near one, as those of implicit steps; a vanishing pivot shows as a solution that is not finite. Both
    arguments are overwritten.
    """
    size = matrix.shape[0]
    for pivot in range(size - 1):
        below = slice(pivot + 1, size)
        factors = matrix[below, pivot] / matrix[pivot, pivot]
        matrix[below, below] -= factors[:, None] * matrix[pivot, below]
        right[below] -= factors * right[pivot]
    for pivot in range(size - 1, -1, -1):
        if pivot + 1 < size:
            right[pivot] -= (matrix[pivot, pivot + 1 :] * right[pivot + 1 :]).sum(axis=0)
        right[pivot] /= matrix[pivot, pivot]
    return right


def invert(matrix: Array) -> Array:
    """Return the inverses of matrices, one per entry of the last axes, by elimination without pivoting; overwritten."""
    size = matrix.shape[0]
    for pivot in range(size):
        row = matrix[pivot] / matrix[pivot, pivot]
        column = matrix[:, pivot].copy()
        row[pivot] = 1.0 / column[pivot]
        column[pivot] = 0.0
        matrix[:, pivot] = 0.0
        matrix -= column[:, None] * row
        matrix[pivot] = row
    return matrix
