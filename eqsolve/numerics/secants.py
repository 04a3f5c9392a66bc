"""Anderson acceleration of x ← G(x) (J. ACM 12, 547 (1965)), and linear equations by GMRES."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from eqsolve.numerics.arrays import EPSILON, Array


class Secants:
    """Combines the last few iterates so that their residuals cancel (Walker & Ni, SIAM J. Numer. Anal. 49, 1715 (2011)).

    The pairs (change of the image, change of the residual) approximate the map's Jacobian. They are
    kept for a map that differs little, the same system with more points or on another grid.
    """

    def __init__(self, depth: int = 24) -> None:
        self.depth = depth
        self.steps: list[Array] = []
        self.changes: list[Array] = []
        self._last: tuple[Array, Array] | None = None

    def next(self, point: Array, image: Array, weights: Array | float = 1.0) -> Array:
        """Return the next point to try, given a point, its image and the weight of each entry."""
        residual = image - point
        if self._last is not None:
            self.steps.append(image - self._last[0])
            self.changes.append(residual - self._last[1])
            del self.steps[: -self.depth], self.changes[: -self.depth]
        self._last = (image, residual)
        return self.anderson_step(image, residual, weights)

    def anderson_step(self, image: Array, residual: Array, weights: Array | float = 1.0) -> Array:
        """Return the point where the residual would vanish if the pairs told everything about the map."""
        if not self.changes:
            return image
        changes = np.array(self.changes) * weights
        sizes = np.sqrt(np.einsum("ij,ij->i", changes, changes)) + 1e-300
        changes /= sizes[:, None]
        gram = changes @ changes.T
        gram.flat[:: len(gram) + 1] += 1e-11
        amounts = np.linalg.solve(gram, changes @ (weights * residual)) / sizes
        return np.asarray(image - amounts @ np.array(self.steps))

    def interrupt(self) -> None:
        """Say that the map is about to change, so that no pair is made across the change."""
        self._last = None


def solve_krylov(apply: Callable[[Array], Array], right: Array, weights: Array, *, most: int, tolerance: float) -> Array:
    """Return x with apply(x) ≈ right by GMRES, at most ``most`` columns; entries count by their weights.

    Saad & Schultz, SIAM J. Sci. Stat. Comput. 7, 856 (1986), doi:10.1137/0907058. Written out since
    scipy's applies the operator once more to check the answer: a third of the work at these
    tolerances.
    """
    from scipy.linalg import solve_triangular

    scaled = right * weights
    size = float(np.linalg.norm(scaled))
    if not 0 < size < math.inf:
        return right
    basis, products = [scaled / size], np.zeros((1, 0))
    for column in range(most):
        products = np.pad(products, ((0, 1), (0, 1)))
        image = weights * apply(basis[-1] / weights)
        for row, vector in enumerate(basis):
            products[row, column] = vector @ image
            image = image - products[row, column] * vector
        products[column + 1, column] = length = np.linalg.norm(image)
        rotation, triangle = np.linalg.qr(products, mode="complete")
        if not abs(rotation[0, -1]) > tolerance or not length > EPSILON * np.linalg.norm(products[:, column]):
            break
        basis.append(image / length)
    count = triangle.shape[1]
    amounts = solve_triangular(triangle[:count], size * rotation[0, :count], check_finite=False)
    return np.asarray(amounts @ np.array(basis[:count]) / weights)


def linear_solver(
    matrix: Callable[[], Array], apply: Callable[[Array], Array] | None = None, size: int = 0, entries: int = 1, *,
    weights: Array | float = 1.0, tolerance: float = math.sqrt(EPSILON),
) -> Callable[[Array], Array]:  # fmt: skip
    """Return a solver of A x = b for several b, to a tolerance with weights of the entries.

    GMRES is taken where it moves less memory than LAPACK: a factorisation by 64 columns at a time
    reads and writes what is left of the matrix size/64 times, 16 size³/192 bytes, a column of GMRES
    reads 8 bytes for each of the ``entries`` that ``apply`` goes through. What has not converged
    when both have moved as much is factorised, once, so that the cost is at most twice the lesser
    one. ``LinAlgError`` or ``LinAlgWarning`` of scipy are raised for singular matrices.
    """
    from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

    most, factors = size**3 // (96 * entries), list[tuple[Array, Array]]()

    def solve(right: Array) -> Array:
        if apply is not None and most and not factors:
            found = solve_krylov(apply, right, weights + 0 * right, most=most, tolerance=tolerance)
            if np.linalg.norm(weights * (apply(found) - right)) <= 2 * tolerance * np.linalg.norm(weights * right):
                return found
        if not factors:
            with warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)
                factors.append(lu_factor(matrix(), overwrite_a=True, check_finite=False))
        return np.asarray(lu_solve(factors[0], right, check_finite=False))

    return solve
