"""Sarao Mannelli et al. 2020: Langevin dynamics ends in the posterior mean, or stays at its start where it is hard."""

from __future__ import annotations

import numpy as np
import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module


def test_the_line_of_threshold_states() -> None:
    """On it Q''(q)(1 − q)² = 1 with q = 1 − Δ₂, for p = 3."""
    script = load_module(find_analysis("spiked_tensor"))
    for delta_p in (0.3, 1.0, 1.7):
        delta_2 = script.langevin_line(delta_p)
        assert abs((1 / delta_2 + 2 * (1 - delta_2) / delta_p) * delta_2**2 - 1) < 1e-12


@pytest.mark.slow
def test_the_overlap_ends_where_message_passing_does() -> None:
    script = load_module(find_analysis("spiked_tensor"))
    settings = {"Delta_p": 1.0, "m0": 0.1, "rtol": 1e-3}
    easy = eqsolve.solve("spiked_matrix_tensor", Delta_2=0.4, t_max=25, **settings)
    assert abs(float(easy["m"][-1]) - script.passed(0.4)) < 1e-4
    hard = eqsolve.solve("spiked_matrix_tensor", Delta_2=0.9, t_max=25, **settings)
    assert float(hard["m"][-1]) < 0.5 * script.passed(0.9)
    matrix = eqsolve.solve("spiked_matrix_tensor", Delta_2=0.4, t_max=25, **settings | {"Delta_p": 1e9})
    assert abs(float(matrix["m"][-1]) - 0.6) < 1e-4  # of a matrix alone: 1 − Δ₂


@pytest.mark.slow
def test_a_tiny_overlap_grows_ever_more_slowly() -> None:
    """The rate, extrapolated to t → ∞, is beyond its error well inside the easy region, and within it on the line."""
    script = load_module(find_analysis("spiked_tensor"))
    rates = np.array([script.growth(delta_2, 60.0, 1e-3) for delta_2 in (0.45, 0.7071)])
    assert np.all(np.diff(rates[:, :3], axis=1) < 0)
    assert rates[0, 3] > 3 * rates[0, 4]
    assert abs(rates[1, 3]) < 2 * rates[1, 4]
