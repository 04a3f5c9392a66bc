"""Many small linear systems at once."""

from eqsolve.numerics.arrays import Array


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
