"""Bordelon and Pehlevan 2022: the kernel limit of two hidden layers; networks of finite width are in the figure."""

from __future__ import annotations

import numpy as np
import pytest

import eqsolve


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
