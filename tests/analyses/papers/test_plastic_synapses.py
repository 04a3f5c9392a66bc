"""Plastic synapses that stop: theory against networks; those that go on are in the figure."""

from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module

ROOT = Path(__file__).resolve().parents[3] / "analyses" / "papers"


@pytest.mark.slow
def test_networks() -> None:
    script, halt = load_module(find_analysis(str(ROOT / "plastic_synapses.py"))), 3.0
    found = eqsolve.solve(script.halted(), halt=halt, k=1.5, p=2, gain=2, t_max=6, rtol=5e-2, at2=[(6, 4)])
    rng = np.random.default_rng(2)
    states = [script.plastic_network(400, 2, 1.5, 2, 6, rng, halt) for _ in range(16)]
    runs = np.array([[np.mean(x[60] ** 2), np.mean(x[120] ** 2), np.mean(x[120] * x[80])] for x in states])
    theory = np.append(found.at([3, 6])["q"].values, found.at2([(6, 4)])["C"].values)
    spread = runs.std(axis=0, ddof=1) / len(runs) ** 0.5
    assert np.all(np.abs(runs.mean(axis=0) - theory) < 4 * spread + found.at([3, 6])["q_error"].values.max())
