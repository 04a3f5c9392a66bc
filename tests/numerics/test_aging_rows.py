"""Row panels in three kinds of coordinates: places, interpolation and derivatives against a closed form."""

from __future__ import annotations

import numpy as np

from eqsolve.numerics.grids import radau
from eqsolve.numerics.rows import Layout, Solved


def layout() -> Layout:
    return Layout(100.0, 140.0, 7, 9, np.array([0, 0.5, 1, 2, 4, 8, 16, 33.0]), np.array([0, 1, 2, 4, 8, 16, 33.0]), 3)


def smooth(t: np.ndarray, column: np.ndarray, lag: np.ndarray) -> np.ndarray:
    """Fast near the diagonal and near the start, slow otherwise."""
    return np.exp(-lag) + 1 / (1 + lag / t + np.log1p(column) / np.log(t))


def test_nodes_lie_where_they_are_found() -> None:
    grid = layout()
    for time in grid.times:
        lag, column, _, _ = grid.places(time)
        assert lag.shape == (grid.width,)
        assert np.allclose(lag + column, time, rtol=1e-14)
        assert (np.diff(lag) > 0).all()
        places, weights = grid.stencil(np.full(grid.width, time), column, lag)
        values = np.sum(lag[places] * weights, axis=1)
        assert np.allclose(values, lag, atol=1e-10)


def test_interpolation_between_the_nodes() -> None:
    grid = layout()
    rows = [smooth(np.full(grid.width, time), *grid.places(time)[1::-1]) for time in grid.times]
    solved = Solved(grid, {"C": np.array(rows)}, {})
    rng = np.random.default_rng(1)
    t = rng.uniform(100, 140, 500)
    lag = np.where(rng.random(500) < 0.5, t * rng.random(500), np.minimum(t, 10 ** rng.uniform(-3, 2, 500)))
    assert np.abs(solved.kernel("C", t, t - lag, lag) - smooth(t, t - lag, lag)).max() < 1e-6


def test_derivatives_of_polynomials_are_exact() -> None:
    nodes = radau(6).with_start
    assert np.allclose(radau(6).slopes[1:] @ nodes**6, 6 * nodes[1:] ** 5, atol=1e-12)


def test_a_function_of_the_column_alone_does_not_change() -> None:
    """∂_t at fixed t' is ∂_t|_y + (1 − ∂_t lag)/(∂_y lag) ∂_y: zero on polynomials of t'."""
    grid = layout()
    values = np.array([grid.places(time)[1] ** 2 for time in grid.times])
    in_time = radau(grid.rows).slopes[1:] @ values / (grid.end - grid.begin)
    for row in range(grid.rows):
        _, column, rate, by_place = grid.places(grid.times[row + 1])
        pieces = np.stack([values[row + 1, p * grid.nodes : (p + 1) * grid.nodes + 1] for p in range(grid.panels)])
        along = (pieces @ radau(grid.nodes).slopes[1:].T).ravel()
        total = in_time[row, 1:] + (1 - rate[1:]) / by_place[1:] * along
        assert np.abs(total).max() < 1e-9 * column.max() ** 2
