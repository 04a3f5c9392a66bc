"""Oscillators with random couplings: their fields at the start in closed form, later against runs."""

from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module

ROOT = Path(__file__).resolve().parents[3] / "analyses" / "papers"


@pytest.mark.slow
def test_fields_against_runs() -> None:
    script = load_module(find_analysis(str(ROOT / "kuramoto_volcano.py")))
    at, rng = [0.4, 1.0], np.random.default_rng(1)
    found = eqsolve.solve("kuramoto_glass", J=1, t_max=1, rtol=0.1).at([0, *at])
    for name, gaussian in (("field2", 1), ("shape", 2)):  # Gaussian at the start
        assert abs(found[name].values[0] - gaussian) < found[f"{name}_error"].values[0]
    runs = np.array([script.oscillators(500, 1.0, at, rng)[:2] for _ in range(20)])
    for place, name in enumerate(("field2", "shape")):
        spread = runs[:, place].std(axis=0, ddof=1) / len(runs) ** 0.5
        assert np.all(
            np.abs(runs[:, place].mean(axis=0) - found[name].values[1:]) < 4 * spread + found[f"{name}_error"].values[1:]
        )
