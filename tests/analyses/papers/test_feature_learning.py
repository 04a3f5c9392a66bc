"""Bordelon and Pehlevan 2022: the kernel limit of two hidden layers, and networks of finite width."""

from __future__ import annotations

import numpy as np
import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module


@pytest.mark.slow
def test_two_hidden_layers_without_features() -> None:
    """γ → 0, one sample: f = 1 − e^{−Θt}, Θ = Φ² + G² Φ¹ + G¹ K from Gaussian means on a line; the rest is of order γ²."""
    x, mass = np.polynomial.hermite_e.hermegauss(80)
    mass = mass / mass.sum()
    first = mass @ np.tanh(x) ** 2
    h = first**0.5 * x
    back = mass @ (1 - np.tanh(h) ** 2) ** 2
    kernel = mass @ np.tanh(h) ** 2 + back * first + back * (mass @ (1 - np.tanh(x) ** 2) ** 2)
    found = eqsolve.solve("deep_features", samples=1, gamma=0.01, t_max=0.5, rtol=1e-2, atol=1e-3)
    there = found.at([0.25, 0.5])
    np.testing.assert_allclose(there["f"].values[0], 1 - np.exp(-kernel * np.array([0.25, 0.5])), atol=1e-3)


@pytest.mark.slow
def test_two_hidden_layers_against_finite_width() -> None:
    """Two samples, γ = 1, eight networks of width 1,000: their losses within errors of the theory."""
    train = load_module(find_analysis("feature_learning")).train
    (source,) = eqsolve.load("deep_features").tables.values()
    moments = [0.2, 0.6, 1.0]
    runs = np.array([train(2, *source.source(2), 1.0, moments, 1000, seed)[0] for seed in range(8)])
    found = eqsolve.solve("deep_features", samples=2, t_max=1, rtol=0.05, atol=5e-3).at(moments)
    error = np.hypot(runs.std(axis=0, ddof=1) / 8**0.5, found["loss_error"].values)
    assert np.all(np.abs(runs.mean(axis=0) - found["loss"].values) < 3 * error)
