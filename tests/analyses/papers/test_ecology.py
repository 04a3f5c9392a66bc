"""Opper & Diederich 1992, Bunin 2017: where the state at rest is lost, and how many species survive there."""

from __future__ import annotations

import pytest
from scipy.optimize import brentq

import eqsolve
from eqsolve.figures.make import find_analysis, load_module


@pytest.mark.parametrize("gamma", [pytest.param(-0.5, marks=pytest.mark.slow), 0.0, 0.5])
def test_stability_is_lost_where_half_of_the_species_survive(gamma: float) -> None:
    script = load_module(find_analysis("ecology"))
    rest = eqsolve.load("lotka_volterra").long_time()
    sigma = 2**0.5 / (1 + gamma)
    found = brentq(lambda s: script.at_rest(rest, "stability", s, gamma), 0.9 * sigma, 1.1 * sigma, xtol=1e-10)
    assert abs(found - sigma) < 1e-8
    assert abs(script.at_rest(rest, "survivors", found, gamma) - 0.5) < 1e-8
