"""Flows whose loss gradients bend: held against finite sizes, and against least squares where nothing bends."""

from pathlib import Path

import numpy as np
import pytest

import eqsolve

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["perceptron_hinge", "relu_student"])
def test_a_finite_size_agrees(name: str) -> None:
    found = eqsolve.validate(name, d=600, seeds=8, t_max=1, rtol=1e-2, workers=1)
    assert found.verdict == "agrees"


@pytest.mark.slow
def test_hubers_loss_with_a_far_bend_is_least_squares() -> None:
    """q' and m' of ridge regression with noise of variance E s²: a closed system, solved to 1e-6."""
    at = [0.5, 1.0, 2.0]
    found = eqsolve.solve("huber_regression", at=at, k=40, outliers=0, lam=0, rtol=1e-2).at(at)
    known = eqsolve.solve("linear_regression", at=at, delta=2, lam=0, sigma2=0.04, rho2=1, rtol=1e-6).at(at)
    test = found["q"].values - 2 * found["m"].values + 1 + 0.04
    stated = found["q_error"].values + 2 * found["m_error"].values
    gap = np.abs(test - known["E_test"].values)
    assert (gap <= 3 * stated + 1e-6).all()
