"""Stochastic gradient descent on two Gaussian clouds: its first step in closed form; runs are in the figure."""

import pytest
from scipy.special import erfc

import eqsolve


@pytest.mark.slow
def test_first_step() -> None:
    """From w = 0 every sample pulls with −c/2: w = 0.2 (v/2 + noise of variance Δ/(4 batch δ))."""
    batch = 0.3
    found = eqsolve.solve("mixture_sgd", batch=batch, step=0.2, at=[0.2], rtol=1e-2, w_0="Point(0)").at([0.2])
    assert abs(found["E_gen"].item() - erfc(1 / (2 * 0.5 * (1 + 0.5 / (batch * 2))) ** 0.5) / 2) < 1e-3
