"""Exponents of time, data and model size against those of the paper, and gradient flow on few samples against its limits."""

import numpy as np
import pytest

import eqsolve

A, B = 1.75, 1.5


def slope(x: list[float], y: list[float]) -> float:
    return float(np.log(y[1] / y[0]) / np.log(x[1] / x[0]))


@pytest.mark.slow
def test_exponent_of_time() -> None:
    times = [1e3, 1e4]
    res = eqsolve.solve("scaling_law_time", P=1e15, groups=50, features=10**6, a=A, b=B, t_max=1e4, rtol=1e-3)
    assert abs(slope(times, res.at(times)["loss"].values) + (A - 1) / B) < 5e-3


@pytest.mark.parametrize(("model", "number"), [("scaling_law_data", "P"), ("scaling_law_size", "N")])
def test_exponents_of_data_and_size(model: str, number: str) -> None:
    counts = [200, 400]
    losses = [float(eqsolve.solve(model, **{number: x}, a=A, b=B)["loss"]) for x in counts]
    assert abs(slope(counts, losses) / (1 - A) - 1) < 0.02


@pytest.mark.slow
def test_few_samples_end_at_the_interpolator() -> None:
    """After a long time H_k = κ/(λ_k + κ) with Σ λ_k/(λ_k + κ) = P, and for a single variance that is 1 − P/features."""
    variances, count = np.ones(1), np.full(1, 200.0)
    res = eqsolve.solve("scaling_law_time", P=50, groups=1, features=200, count=count, power=np.ones(1), t_max=100,
                        **{"lambda": variances})  # fmt: skip
    assert abs(float(res["H_0"][-1]) - 0.75) < 1e-3
