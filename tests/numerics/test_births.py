"""The step of births and deaths: mean, variance, the probability of zero, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from eqsolve.numerics.births import positive_step


@pytest.mark.parametrize(
    ("x", "growth", "inflow", "spread"), [(0.3, -0.1, 0.02, 0.05), (1.0, 0.1, 0.0, 0.05), (0.5, 0.0, 0.1, 0.2)]
)
def test_mean_and_variance_of_a_shifted_square_are_exact(x: float, growth: float, inflow: float, spread: float) -> None:
    nodes, weights = hermegauss(40)
    made, weights = positive_step(0, x, growth, inflow, spread, nodes), weights / weights.sum()
    ratio = np.expm1(growth) / growth if growth else 1.0
    mean = x * np.exp(growth) + inflow * ratio
    assert abs(weights @ made - mean) < 1e-13
    assert abs(weights @ made**2 - mean**2 - spread * ratio * (mean - inflow * ratio / 2)) < 1e-13


def test_few_die_out_as_feller_says(rng: np.random.Generator) -> None:
    """P(0) = exp(−2x/S h), to first order in x; mean and variance are exact."""
    z = np.concatenate([part := rng.standard_normal(400_000), -part])
    made = positive_step(0, 0.01, 0.0, 0.0, 0.2, z)
    assert abs((made == 0).mean() - np.exp(-0.1)) < 0.01
    assert abs(made.mean() - 0.01) < 2e-4
    assert abs(made.var() - 0.002) < 5e-5


@pytest.mark.parametrize("which", [1, 2, 3, 4, 5])
def test_derivatives(which: int, rng: np.random.Generator) -> None:
    point = [rng.uniform(0, 0.3, 400), rng.normal(0, 0.1, 400), rng.uniform(0, 0.05, 400), rng.uniform(0, 0.2, 400)]
    point = [*point, rng.standard_normal(400)]
    sides = [[v + side * 1e-6 * (k == which - 1) for k, v in enumerate(point)] for side in (1, -1)]
    above, below = (positive_step(0, *side) for side in sides)
    off = np.abs(positive_step(which, *point) - (above - below) / 2e-6)
    assert np.quantile(off, 0.99) < 1e-6  # the others lie on a boundary between two forms
