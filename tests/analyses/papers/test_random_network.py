"""Sompolinsky, Crisanti and Sommers 1988: the exponent at g = 2, the end of rest, and the law just above it."""

from __future__ import annotations

import numpy as np
import pytest

import eqsolve


def test_the_exponent_at_gain_two() -> None:
    exponent, error = eqsolve.stationary("rnn", gain=2).lyapunov()
    assert abs(exponent - 0.1124581) < 1e-7
    assert error < 1e-7


def test_rest_ends_at_gain_one() -> None:
    (edge,) = eqsolve.phase_diagram("rnn", gain=[0.5, 2], progress=False).boundaries["gain"].values
    assert abs(edge - 1) < 1e-6


@pytest.mark.slow
def test_the_exponent_grows_as_half_the_square_above_it() -> None:
    """2λ/(g − 1)² tends to 1; 1/√ of it is nearly straight in g − 1."""
    gains = np.array([1.02, 1.05, 1.1, 1.2])
    law = [2 * eqsolve.stationary("rnn", gain=g, rtol=1e-5).lyapunov()[0] / (g - 1) ** 2 for g in gains]
    assert abs(1 / np.polyval(np.polyfit(gains - 1, 1 / np.array(law), 3), 0) - 1) < 0.001
