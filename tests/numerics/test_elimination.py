"""Small systems, all at once, against LAPACK."""

import numpy as np

from eqsolve.numerics.arrays import eliminate


def test_as_a_general_solver(rng):
    matrix = np.eye(6)[:, :, None] + 0.2 * rng.standard_normal((6, 6, 50))
    right = rng.standard_normal((6, 50))
    expected = np.linalg.solve(np.moveaxis(matrix, -1, 0), right.T[:, :, None])[:, :, 0].T
    np.testing.assert_allclose(eliminate(matrix.copy(), right.copy()), expected, rtol=1e-9, atol=1e-12)


def test_a_vanishing_pivot_shows():
    matrix = np.array([[0.0, 1.0], [1.0, 0.0]])[:, :, None]
    with np.errstate(all="ignore"):
        assert not np.isfinite(eliminate(matrix, np.ones((2, 1)))).all()
