"""Networks with several outputs: units as Python lists, held against finite sizes and against fresh inputs."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

import eqsolve

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_committees_test_loss_is_that_of_fresh_inputs() -> None:
    """10⁵ fresh inputs: their mean loss within five standard errors of the closed form in the overlaps."""
    runs = eqsolve.load("committee").simulate(d=50, seed=4, at=[2.0], keep=True)
    student, teacher = (np.array([runs.coordinates(f"{name}_{k}", 2.0)[0] for k in (0, 1)]) for name in ("w", "w_star"))
    inputs = np.random.default_rng(5).standard_normal((50, 100000)) / np.sqrt(50)
    outputs = [erf(weights @ inputs / np.sqrt(2)).sum(axis=0) / np.sqrt(2) for weights in (student, teacher)]
    losses = (outputs[0] - outputs[1]) ** 2 / 2
    assert abs(losses.mean() - float(runs["test_loss"][0, 0])) < 5 * losses.std() / np.sqrt(losses.size)


@pytest.mark.slow
def test_a_committee_agrees_with_its_finite_size() -> None:
    """d = 800, 24 draws (balanced, seed 5), mean and standard error at t = 0.5 and 2."""
    at = [0.5, 2.0]
    found = eqsolve.solve("committee", at=at, rtol=1e-2)
    assert found.status == "ok"
    runs = {
        "train_loss": ((0.07599, 0.00038), (0.02302, 0.00010)),
        "test_loss": ((0.08597, 0.00041), (0.03418, 0.00014)),
        "m_00": ((0.3530, 0.0020), (0.4405, 0.0019)),
        "m_01": ((0.0545, 0.0025), (0.1472, 0.0030)),
        "q_00": ((0.3311, 0.0015), (0.3592, 0.0017)),
    }
    theory = found.at(at)
    for name, pairs in runs.items():
        for place, (mean, error) in enumerate(pairs):
            value, stated = float(theory[name][place]), float(theory[f"{name}_error"][place])
            assert abs(value - mean) < 3 * np.hypot(error, stated)
