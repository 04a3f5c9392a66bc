"""Radau rules and panel grids: degrees of exactness, interpolation of polynomials; tables of rows of panels."""

import numpy as np
import pytest

from eqsolve.numerics.grids import PanelGrid, lagrange, over_panels, radau
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.rows import RowStore

EDGES = np.array([0.5, 0.7, 1.2, 2.0])


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 12])
def test_degrees_of_exactness(m: int) -> None:
    """Weights to 2m − 2, one more is wrong; rows to m − 1 from the start."""
    rule = radau(m)
    assert rule.nodes[-1] == 1.0
    assert (np.diff(rule.nodes) > 0).all()
    assert rule.weights.sum() == pytest.approx(1, abs=1e-14)
    assert (rule.weights > 0).all()
    for power in range(2 * m - 1):
        assert rule.weights @ rule.nodes**power == pytest.approx(1 / (power + 1), abs=1e-13)
    for power in range(m):
        np.testing.assert_allclose(rule.integrals @ rule.nodes**power, rule.nodes ** (power + 1) / (power + 1), atol=1e-13)
    if m <= 5:
        assert abs(rule.weights @ rule.nodes ** (2 * m - 1) - 1 / (2 * m)) > 1e-7


def test_two_nodes_are_the_textbook_rule() -> None:
    rule = radau(2)
    np.testing.assert_allclose(rule.nodes, [1 / 3, 1], atol=1e-15)
    np.testing.assert_allclose(rule.integrals, [[5 / 12, -1 / 12], [3 / 4, 1 / 4]], atol=1e-15)


def test_lagrange_polynomials() -> None:
    nodes, points = np.array([0.0, 0.3, 1.0]), np.array([0.3, 0.5, 2.0])
    weights = lagrange(nodes, points)
    assert weights[0].tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(weights @ nodes**2, points**2, atol=1e-14)


@pytest.mark.parametrize("order", [1, 4, 7])
def test_a_grid_interpolates_polynomials_of_its_order(order: int) -> None:
    grid = PanelGrid(EDGES, order)
    assert len(grid.nodes) == grid.size == 1 + 3 * order
    assert set(EDGES) <= set(grid.nodes)
    times = np.linspace(0.5, 2.0, 23)
    values = grid.nodes**order - 2 * grid.nodes
    np.testing.assert_allclose(grid.interpolate(values, times), times**order - 2 * times, atol=1e-12)
    np.testing.assert_allclose(grid.interpolation(times) @ values, grid.interpolate(values, times), atol=1e-12)
    np.testing.assert_allclose(grid.interpolation(grid.nodes), np.eye(grid.size), atol=1e-13)


def test_a_panel_owns_its_right_end() -> None:
    grid = PanelGrid(EDGES, 3)
    assert grid.locate(np.array([0.5, 0.6, 0.7, 0.71, 1.2, 2.0, 9.0])).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_integration_is_exact_on_panels_and_a_sum_in_discrete_time() -> None:
    grid = OperatorGrid.from_panels(PanelGrid(EDGES, 4))
    np.testing.assert_allclose(grid.integration @ grid.nodes**3, (grid.nodes**4 - 0.5**4) / 4, atol=1e-13)
    steps = OperatorGrid.discrete(0.25, 0.0, 1.0)
    np.testing.assert_allclose(steps.integration @ np.ones(5), steps.nodes, atol=1e-15)
    assert steps.integration[0].tolist() == [0.0] * 5


def test_every_node_gets_the_largest_of_its_panel() -> None:
    assert over_panels(np.array([9.0, 1.0, 3.0, 2.0, 0.0]), 2).tolist() == [9.0, 3.0, 3.0, 2.0, 2.0]


def kernel(t: np.ndarray, s: np.ndarray) -> np.ndarray:
    return t**2 * s - 3 * t + s**3


@pytest.fixture
def store() -> RowStore:
    grid = PanelGrid(EDGES, 5)
    table = kernel(grid.nodes[:, None], grid.nodes)
    return RowStore.from_tables(grid, {"K": table, "L": -table})


def test_rows_of_a_polynomial_kernel_are_exact(store: RowStore, rng: np.random.Generator) -> None:
    pairs = np.sort(0.5 + 1.5 * rng.random((40, 2)), axis=1)[:, ::-1]
    np.testing.assert_allclose(store.evaluate("K", pairs), kernel(*pairs.T), atol=1e-12)
    times = np.linspace(0.5, 2.0, 9)
    table = np.tril(kernel(times[:, None], times))
    np.testing.assert_allclose(store.tables(times)["K"], table, atol=1e-12)
    np.testing.assert_allclose(store.tables(times)["L"], -table, atol=1e-12)
    assert (store.edges == EDGES).all()
