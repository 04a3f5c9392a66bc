"""Folded integrals over panels, and break points of delays."""

import itertools
import math

import numpy as np
import pytest

from eqsolve.numerics.grids import radau
from eqsolve.solvers.convolution.march import PanelFunctions, PointValues, break_points, folded_points, gauss


@pytest.mark.parametrize("m", [2, 5, 8, 12])
def test_a_basis_differentiates_and_expands_polynomials_exactly(m: int) -> None:
    rule, (points, weights, expand) = radau(m), gauss(m)
    nodes = rule.with_start
    values = nodes**m
    np.testing.assert_allclose(rule.slopes @ values, m * nodes ** (m - 1), atol=1e-10)
    coefficients = rule.legendre @ values
    np.testing.assert_allclose(np.polynomial.legendre.legval(2 * nodes - 1, coefficients), values, atol=1e-13)
    np.testing.assert_allclose(expand @ points**m, coefficients, atol=1e-13)
    assert weights @ points**m == pytest.approx(1 / (m + 1), rel=1e-13)
    assert rule.back @ (1 + nodes[1:]) == pytest.approx(1.0, abs=1e-12)


def _exponential(edges: list[float], m: int) -> PanelFunctions:
    functions = PanelFunctions(1, m)
    for low, high in itertools.pairwise(edges):
        functions.add(high, np.exp(-(low + (high - low) * functions.rule.with_start))[None])
    return functions


def test_a_folded_convolution_of_exponentials_is_exact() -> None:
    """∫_0^t e^{−s} e^{−(t−s)} ds = t e^{−t}, with half of it in a panel that is not finished."""
    m, edges = 12, [0.0, 0.25, 0.75, 1.75]
    functions, width = _exponential(edges, m), 1.5
    targets = edges[-1] + width * functions.rule.with_start
    newest = np.exp(-targets)[None]
    points, weights = folded_points(np.array([*edges, edges[-1] + width]), targets, len(functions.rule.nodes))
    assert np.all(points <= targets[:, None] / 2)
    early = PointValues(functions, points, (points - edges[-1]) / width, width)
    late = PointValues(functions, targets[:, None] - points, functions.rule.with_start[:, None] - points / width, width)
    first = slice(0, 1)
    total = 2 * np.sum(weights * early.values(first, False, newest)[0] * late.values(first, False, newest)[0], axis=1)
    np.testing.assert_allclose(total, targets * np.exp(-targets), rtol=1e-12)
    rates = np.sum(weights * early.values(first, True, newest)[0] * late.values(first, False, newest)[0], axis=1)
    np.testing.assert_allclose(2 * rates, -targets * np.exp(-targets), rtol=1e-10)


def test_small_times_are_not_lost_in_large_ones() -> None:
    """∫_0^t e^{−s} ds at t = 1e15, where t − s has no digits left for s."""
    edges = np.concatenate([[0.0], np.geomspace(0.1, 1e15, 60)])
    points, weights = folded_points(edges, np.array([1e15]), 12)
    assert np.sum(weights * np.exp(-points)) == pytest.approx(1.0, rel=1e-9)
    assert np.sum(weights) == pytest.approx(0.5e15, rel=1e-13)


def test_break_points_are_sums_of_delays() -> None:
    np.testing.assert_allclose(break_points([1.0], 10.0, 3), [1, 2, 3])
    np.testing.assert_allclose(
        break_points([1.0, math.sqrt(2)], 3.0, 2), [1, math.sqrt(2), 2, 1 + math.sqrt(2), 2 * math.sqrt(2)]
    )
    assert len(break_points([], 10.0, 5)) == 0
    assert len(break_points([20.0], 10.0, 5)) == 0
    np.testing.assert_allclose(break_points([0.1, 0.3], 1.0, 3), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9])
