"""Agoritsas et al. 2018: the start of the relaxation in closed form, its end at equilibrium."""

from __future__ import annotations

import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module


@pytest.mark.slow
def test_the_first_steps_of_the_relaxation() -> None:
    """At σ = 0 the energy begins at α/4; without noise it falls as the squared tangential force, α/2."""
    found = eqsolve.solve("perceptron_langevin", alpha=2, T=0, t_max=0.1, rtol=1e-2, progress=False).at([0, 0.02, 0.04])
    energy, error = found["energy"].values, found["energy_error"].values
    assert abs(energy[0] - 0.5) < 3 * error[0]  # three times the stated error: what this project promises
    slope = (-3 * energy[0] + 4 * energy[1] - energy[2]) / 0.04
    assert abs(slope + 1) < 0.05


@pytest.mark.slow
def test_noise_leads_to_equilibrium() -> None:
    script = load_module(find_analysis("perceptron_dynamics"))
    found = eqsolve.solve("perceptron_langevin", alpha=1.0, T=1.0, t_max=4, rtol=3e-2, progress=False).at([4.0])
    rest = script.equilibrium(1.0, 1.0)
    assert abs(float(found["energy"][0]) - rest) < 3 * float(found["energy_error"][0]) + 0.01 * rest
    assert abs(float(found["q"][0]) - 1) < 5e-3
