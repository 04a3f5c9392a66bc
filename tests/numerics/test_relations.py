"""Closed relations on a grid of operators, against closed forms: compositions, resolvents, integrals, differential ones."""

import numpy as np
import pytest

from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import (
    Composition,
    Definition,
    DiagonalPart,
    Integral,
    Kernels,
    Leaf,
    OperatorSum,
    Pointwise,
    PointwiseSum,
    ScaledPart,
    SmoothKernel,
    evaluate,
)

ROW, COLUMN = Leaf("time", "", "r"), Leaf("time", "", "c")


@pytest.fixture
def grid() -> OperatorGrid:
    return OperatorGrid.from_panels(PanelGrid(np.array([0.0, 0.2, 0.5, 0.9, 1.4, 2.0]), 8))


def of_times(function):
    return Pointwise(lambda *times: [function(*times)], (ROW, COLUMN))


def at_row(function):
    return Pointwise(lambda time: [function(time)], (ROW,))


def test_an_integral_over_the_past_of_the_row_and_of_the_column(grid):
    state, t = Kernels(grid, {}), grid.nodes
    past = Integral("r", SmoothKernel(None), None, None)
    np.testing.assert_allclose(state.vector(Pointwise(lambda x: [x], (past,))), t, atol=1e-13)
    table = Integral("r", SmoothKernel(None), of_times(lambda s, tp: np.cos(s) * tp), None)
    found = state.table(Pointwise(lambda x: [x], (table,)))
    np.testing.assert_allclose(found, np.outer(np.sin(t), t), atol=1e-11)
    other = Integral("c", SmoothKernel(None), of_times(lambda r, s: r * np.cos(s)), None)
    found = state.table(Pointwise(lambda x: [x], (other,)))
    np.testing.assert_allclose(found, np.outer(t, np.sin(t)), atol=1e-11)


def test_a_resolvent_is_solved_for(grid):
    """X = 1 + ∫₀ᵗ X is eᵗ."""
    item = Definition("X", "function", at_row(np.ones_like), (ScaledPart(SmoothKernel(None), None),))
    state = evaluate([item], grid, {})
    np.testing.assert_allclose(state.functions["X"], np.exp(grid.nodes), rtol=1e-10)


def test_differential_definitions(grid):
    """y' = −y + t, y(0) = 1; a response R' = −R with R(t, t) = 1; a correlation C' = −C, C(0, 0) = 2."""
    minus = DiagonalPart(at_row(lambda t: -np.ones_like(t)))
    y = Definition("y", "function", at_row(lambda t: t), (minus,), True, at_row(np.ones_like))
    response = Definition("R", "response", OperatorSum(()), (minus,), True, at_row(np.ones_like))
    nothing = of_times(lambda t, s: 0.0 * t * s)
    pair = Definition("C", "correlation", nothing, (minus,), True, at_row(lambda t: 2 + 0 * t))
    state, t = evaluate([y, response, pair], grid, {}), grid.nodes
    np.testing.assert_allclose(state.functions["y"], t - 1 + 2 * np.exp(-t), rtol=1e-10)
    np.testing.assert_allclose(state.correlation("C"), 2 * np.exp(-np.add.outer(t, t)), rtol=1e-9)
    np.testing.assert_allclose(state.operators["R"] @ np.ones(grid.size), 1 - np.exp(-t), atol=1e-10)


def test_compositions_and_values_of_responses(grid):
    """e^{−(t−s)} composed with itself is (t − s) e^{−(t−s)}."""
    decay = SmoothKernel(of_times(lambda t, s: np.exp(s - t)))
    twice = OperatorSum(((Composition(decay, decay), None),))
    state = Kernels(grid, {})
    state.define(Definition("R", "response", twice, ()))
    t = grid.nodes
    ones = np.ones(grid.size)
    np.testing.assert_allclose(state.operators["R"] @ ones, 1 - np.exp(-t) - t * np.exp(-t), atol=1e-10)
    values, gaps = state.response("R"), np.subtract.outer(t, t)
    late = gaps > 0.7  # apart from the diagonal values are found, not continued
    np.testing.assert_allclose(values[late], (gaps * np.exp(-gaps))[late], rtol=1e-6)


def test_leaves_at_all_patterns_of_times(grid):
    table = np.add.outer(grid.nodes, 2 * grid.nodes)
    state = Kernels(grid, {"E0": grid.nodes}, {"C": table})
    for times, expected in {
        "rc": table, "cr": table.T, "rr": np.diagonal(table)[:, None], "cc": np.diagonal(table)[None],
        "r0": table[:, :1], "0c": table[:1], "00": table[0, 0],
    }.items():  # fmt: skip
        np.testing.assert_array_equal(state.pointwise(Pointwise(lambda x: [x], (Leaf("table", "C", times),))), expected)
    mean = Pointwise(lambda x: [x], (Leaf("mean", "E0", ""),))
    np.testing.assert_array_equal(state.vector(PointwiseSum((mean, mean))), 2 * grid.nodes)


def test_what_was_known_of_a_kernel_is_forgotten_when_it_is_defined_again(grid):
    kernel = OperatorSum(((Leaf("response", "R", "rc"), None),))
    state = Kernels(grid, {}, operators={"R": np.eye(grid.size)})
    np.testing.assert_array_equal(state.operator(kernel), np.eye(grid.size))
    state.define(Definition("R", "response", OperatorSum(((Composition(kernel, kernel), at_row(lambda t: 2 + 0 * t)),)), ()))
    np.testing.assert_array_equal(state.operator(kernel), 2 * np.eye(grid.size))
