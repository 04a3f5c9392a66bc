"""Cubic pieces with known slopes: exact for cubics, of fourth order, and honest about what they leave."""

from __future__ import annotations

import numpy as np
import pytest

from eqsolve.results.derivatives import interpolate_with_slopes

Array = np.ndarray
NODES = np.array([0.0, 0.4, 1.0, 1.3, 2.0])


def pieces(x: Array, nodes: Array, y: Array, s: Array) -> tuple[Array, Array]:
    return interpolate_with_slopes(x, nodes, (y, np.zeros_like(y)), (s, np.zeros_like(s)))


def test_cubics_are_exact() -> None:
    x = np.linspace(0, 2, 31)
    found, error = pieces(x, NODES, NODES**3 - NODES, 3 * NODES**2 - 1)
    np.testing.assert_allclose(found, x**3 - x, atol=1e-14)
    np.testing.assert_allclose(error, 0, atol=1e-13)


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_what_is_left_is_told(rate: float) -> None:
    x = np.linspace(0, 2, 201)
    found, error = pieces(x, NODES, np.exp(rate * NODES), rate * np.exp(rate * NODES))
    wrong = np.abs(found - np.exp(rate * x))
    assert (wrong <= 3 * error + 1e-14).all()
    assert error.max() < 20 * wrong.max()


def test_the_order_is_four() -> None:
    def worst(count: int) -> float:
        nodes, x = np.linspace(0, 2, count), np.linspace(0, 2, 999)
        return float(np.abs(pieces(x, nodes, np.sin(3 * nodes), 3 * np.cos(3 * nodes))[0] - np.sin(3 * x)).max())

    assert np.log2(worst(11) / worst(21)) == pytest.approx(4, abs=0.15)


def test_errors_of_nodes_and_slopes_are_carried() -> None:
    """At a node its own error; in the middle of a piece half of both, and of each slope an eighth of the length."""
    y, s = np.zeros((3, 2)), np.zeros((3, 2))
    y_error, s_error = np.array([[1.0, 0], [3.0, 0], [0, 0]]), np.array([[0, 1.0], [0, 1.0], [0, 0]])
    nodes = np.array([0.0, 2.0, 4.0])
    _, error = interpolate_with_slopes(np.array([0.0, 1.0, 2.0]), nodes, (y, y_error), (s, s_error))
    np.testing.assert_allclose(error, [[1, 0], [2, 0.5], [3, 0]], atol=1e-15)
