"""Cugliandolo and Kurchan 1993: the threshold energy at zero temperature, and the violation of fluctuation–dissipation."""

from __future__ import annotations

import numpy as np
import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module


@pytest.mark.slow
def test_the_energy_tends_to_its_threshold() -> None:
    """−√(4/3) = −1.1547 at T = 0, extrapolated from t ≤ 300 with its power law t^(−2/3); the stated error holds."""
    script = load_module(find_analysis("aging_pspin"))
    times = np.geomspace(1, 300, 100)
    energy = eqsolve.solve("pspin", p=3, T=0, t_max=300, rtol=1e-3, solver="aging").at(times)["energy"].values
    end, error = script.extrapolate(times, energy)
    assert abs(end + 1.1547) < 1e-4
    assert abs(end + np.sqrt(4 / 3)) < error < 1e-3


@pytest.mark.slow
def test_fluctuation_and_dissipation_above_the_plateau() -> None:
    """χ = (1 − C)/T where C is above the plateau; below it the response is weaker, and −dχ/dC tends to X/T from below."""
    script = load_module(find_analysis("aging_pspin"))
    result = eqsolve.solve("pspin", p=3, T=0.5, t_max=300, rtol=1e-3, solver="aging", kernels=True)
    C, chi = script.susceptibility(result, 300.0)
    quasi = C > script.Q + 0.1
    np.testing.assert_allclose(chi[quasi], (1 - C[quasi]) / 0.5, atol=5e-3)
    old = np.abs(C / script.Q - 0.6) < 0.3
    assert 0.85 < -np.polyfit(C[old], chi[old], 1)[0] / (script.X / 0.5) < 1
