"""The soft committee machine: its equations against averages over inputs, its plateau against the closed form."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

import eqsolve
from eqsolve.figures.make import find_analysis, load_module

ROOT = Path(__file__).resolve().parents[3] / "analyses" / "papers"


@pytest.mark.slow
def test_overlaps_move_as_averages_over_inputs_say() -> None:
    rng, eta, short = np.random.default_rng(0), 0.8, 1e-3
    half = rng.standard_normal((4, 6)) / 6**0.5
    C0 = half @ half.T
    found = eqsolve.solve("soft_committee", K=2, units=4, eta=eta, C0=C0, t_max=short, rtol=1e-8)["C"]
    moved = (found.isel(t=-1) - found.isel(t=0)).values / short
    x = rng.standard_normal((1_000_000, 4)) @ np.linalg.cholesky(C0).T
    error = np.sum(erf(x / 2**0.5) * [-1, -1, 1, 1], axis=1, keepdims=True)
    force = error * np.exp(-(x**2) / 2) * (2 / np.pi) ** 0.5 * [1, 1, 0, 0]
    first = force.T @ x / len(x)
    expected = eta * (first + first.T) + eta**2 * force.T @ force / len(x)
    assert np.abs(moved - expected).max() < 8e-3  # four standard errors of the averages, and the change during the step


@pytest.mark.slow
def test_height_of_the_plateau() -> None:
    script = load_module(find_analysis(str(ROOT / "online_committee.py")))
    found = 2 * script.height(2, 0.02) - script.height(2, 0.04)
    assert abs(found - 2 / np.pi * (np.pi / 6 - 2 * np.arcsin(1 / 4))) < 2e-5  # Saad and Solla, small rates
