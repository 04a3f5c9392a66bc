"""Oscillators with random couplings: their fields at the start in closed form; runs are in the figure."""

import pytest

import eqsolve


@pytest.mark.slow
def test_fields_at_the_start() -> None:
    found = eqsolve.solve("kuramoto_glass", J=1, t_max=0.2, rtol=0.1).at([0])
    for name, gaussian in (("field2", 1), ("shape", 2)):  # Gaussian at the start
        assert abs(found[name].values[0] - gaussian) < 3 * found[f"{name}_error"].values[0]  # what is promised of errors
