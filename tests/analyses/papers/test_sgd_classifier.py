"""Stochastic gradient descent on two Gaussian clouds: theory against runs, and its first step in closed form."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import erfc

import eqsolve
from eqsolve.figures.make import find_analysis, load_module

ROOT = Path(__file__).resolve().parents[3] / "analyses" / "papers"


@pytest.mark.slow
def test_first_step_and_runs() -> None:
    script = load_module(find_analysis(str(ROOT / "sgd_classifier.py")))
    at, batch, rng = [0.2, 1.0, 2.0], 0.3, np.random.default_rng(0)
    found = eqsolve.solve("mixture_sgd", batch=batch, step=0.2, at=at, rtol=1e-2, w_0="Point(0)").at(at)
    # from w = 0 every sample pulls with −c/2: w = 0.2 (v/2 + noise of variance Δ/(4 batch δ))
    assert abs(found["E_gen"].values[0] - erfc(1 / (2 * 0.5 * (1 + 0.5 / (batch * 2))) ** 0.5) / 2) < 1e-3
    found = eqsolve.solve("mixture_sgd", batch=batch, step=0.2, at=at, rtol=1e-2).at(at)
    runs = np.array([script.classify(1000, batch, at, 0.2, rng)[0] for _ in range(20)])
    spread = runs.std(axis=0, ddof=1) / len(runs) ** 0.5
    assert np.all(np.abs(runs.mean(axis=0) - found["E_gen"].values) < 4 * spread + found["E_gen_error"].values)
