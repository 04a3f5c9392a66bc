"""Plastic synapses: theory against networks, and what is left when the synapses stop."""

from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve.figures.make import find_analysis, load_module

ROOT = Path(__file__).resolve().parents[3] / "analyses" / "papers"


@pytest.mark.slow
def test_networks_and_frozen_chaos() -> None:
    script = load_module(find_analysis(str(ROOT / "plastic_synapses.py")))
    settings, rng = {"k": 1.5, "p": 2, "gain": 2, "t_max": 8, "rtol": 5e-2}, np.random.default_rng(2)
    plastic = eqsolve.solve("plastic_rnn", **settings, at2=[(8, 5)])
    halted = eqsolve.solve(script.halted(), halt=4, **settings, at2=[(8, 5)])
    runs = np.array([[np.mean(x[80] ** 2), np.mean(x[160] ** 2)]
                     for x in (script.plastic_network(400, 2, 1.5, 2, 8, rng) for _ in range(12))])  # fmt: skip
    found = plastic.at([4, 8])
    spread = runs.std(axis=0, ddof=1) / len(runs) ** 0.5
    assert np.all(np.abs(runs.mean(axis=0) - found["q"].values) < 4 * spread + found["q_error"].values)
    kept = [float(res.at2([(8, 5)])["C"][0]) / float(res["q"][-1]) for res in (plastic, halted)]
    assert kept[0] < 0.8 < 0.9 < kept[1]  # synapses that stop keep the state, those that go on let it drift
