"""Factors of covariances, grown row by row, and the trapezoidal rule that goes with them."""

import numpy as np
import pytest

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Factor
from eqsolve.numerics.operators import OperatorGrid


def grow_factor(covariance: Array) -> Factor:
    """Return the lower factor of a whole covariance."""
    made = Factor(np.zeros_like(covariance))
    for row in range(len(covariance)):
        made.keep(made.row(covariance[row, : row + 1]))
    return made


def test_the_factor_of_a_regular_covariance_is_choleskys(rng: np.random.Generator) -> None:
    root = rng.standard_normal((12, 20))
    covariance = root @ root.T
    made = grow_factor(covariance)
    assert np.allclose(made.rows, np.linalg.cholesky(covariance), atol=1e-12)
    assert not made.lost.any()


def test_values_that_the_past_fixes_get_no_coordinate(rng: np.random.Generator) -> None:
    root = rng.standard_normal((9, 4))
    root[6] = root[1] - 2 * root[3]
    made = grow_factor(root @ root.T)
    assert made.lost.tolist() == [False] * 4 + [True] * 5
    assert np.allclose(made.rows @ made.rows.T, root @ root.T, atol=1e-10)


def test_a_smooth_covariance_is_met_to_rounding() -> None:
    times = np.linspace(0, 1, 60)
    covariance = np.exp(-((times[:, None] - times) ** 2))
    made = grow_factor(covariance)
    assert np.allclose(made.rows @ made.rows.T, covariance, atol=1e-8)


@pytest.mark.parametrize("count", [40, 80])
def test_responses_on_the_trapezoidal_rule_are_of_second_order(count: int) -> None:
    nodes = np.concatenate([np.linspace(0, 0.5, count // 4), np.linspace(0.5, 2, count)[1:]])
    grid = OperatorGrid.trapezoid(nodes)
    assert np.allclose(grid.integration @ np.ones(len(nodes)), nodes)
    operator = np.linalg.solve(np.eye(len(nodes)) + grid.integration, grid.integration)  # of x' = -x + z
    exact = np.tril(np.exp(nodes[None, :] - nodes[:, None]))
    assert np.abs(grid.values(operator) - exact).max() < 8 / count**2
