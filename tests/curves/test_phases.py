"""Phases of curves that are known, and the activation times of the infinite-data network."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eqsolve
from eqsolve.errors import UsageError
from eqsolve.phases import Plateau, Transition, activation_times, crossing, find_phases, grokking_time


def steps(t: np.ndarray, *when: float) -> np.ndarray:
    return 1 - sum(0.4 / (1 + (when_ / t) ** 6) for when_ in when)


def test_two_steps_on_a_logarithmic_clock() -> None:
    t = np.geomspace(1e-3, 1e5, 2000)
    phases = find_phases((t, steps(t, 1.0, 500.0), np.full(t.size, 1e-4)))
    kinds = [type(item) for item in phases]
    assert kinds == [Plateau, Transition, Plateau, Transition, Plateau]
    for item, expected in zip([p for p in phases if isinstance(p, Transition)], (1.0, 500.0), strict=True):
        assert abs(item.time - expected) < 0.01 * expected  # the spacing of the times is 0.9%
        assert item.start < item.time < item.end
        assert item.falls
        assert 0 < item.error < 0.02 * expected
    assert abs(grokking_time((t, steps(t, 1.0, 500.0))).time - 500) < 5


def test_no_grokking_is_said() -> None:
    t = np.geomspace(1e-2, 1e2, 200)
    with pytest.raises(UsageError, match="no grokking"):
        grokking_time((t, 1 / (1 + (1 / t) ** 3)))
    with pytest.raises(UsageError, match="at least 8"):
        find_phases(([1.0, 2.0], [1.0, 2.0]))
    assert find_phases((t, np.ones_like(t)))[0] == Plateau(pytest.approx(0.01), pytest.approx(100), 1.0)


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_activation_times_with_infinite_data(lam: float) -> None:
    """Slope of t_c over log(1/α) is 2/(|w*| − λ), to 1%."""
    model = eqsolve.load("dln_infinite_data")
    alphas, found = (1e-2, 1e-3, 1e-4), []
    for alpha in alphas:
        last = 3 * 2 * math.log(1 / alpha) / (1 - lam)
        res = eqsolve.solve(model, alpha=alpha, lam=lam, w_star="Point(1)", t_max=last, rtol=1e-4)
        read = res.at(np.linspace(0, last, 1000))
        level = (1 - lam) / 2
        found.append(crossing(read["t"].values, read["w_mean"].values, level))
    slope = np.polyfit(np.log(1 / np.array(alphas)), found, 1)[0]
    assert abs(slope / (2 / (1 - lam)) - 1) < 0.01


def test_activation_on_paths() -> None:
    """Infinite data, w* = 1: w = 1/2 at t = 2 log(1/α) + log 2; never for w* = 0."""
    res = eqsolve.solve("dln_infinite_data", alpha=1e-3, t_max=30, rtol=1e-6)
    when = activation_times(res, "w", 0.5)
    active = res["w_star"].values == 1
    assert np.isnan(when[~active]).all()
    exact = 2 * math.log(1e3) + math.log(2)  # w/(1 − w) = (α²/2) e^t once w ≫ α², to order α²
    np.testing.assert_allclose(when[active], exact, rtol=1e-3)
    with pytest.raises(UsageError, match=r"no paths of `E_test` \(it keeps"):
        activation_times(res, "E_test", 0.5)


def quantiles(times: np.ndarray, weights: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    order = np.argsort(np.where(np.isnan(times), np.inf, times))
    return times[order][np.searchsorted(np.cumsum(weights[order]) / weights.sum(), shares)]


@pytest.mark.slow
def test_activation_times_with_finite_data() -> None:
    """δ = 0.5: quantiles of the activation times over log(1/α) have slopes t_c, the implicit formula; order as predicted."""
    alphas, shares, found, halves = np.array([1e-2, 1e-3, 1e-4]), (0.1, 0.25, 0.5), [], []
    for alpha in alphas:
        res = eqsolve.solve("dln_descent", alpha=alpha, delta=0.5, lam=0, t_max=4, rtol=2e-2, atol=1e-3)
        active = res["w_star"].values == 1
        weights, scale = res["weight"].values[active], math.log(1 / alpha)
        reached = activation_times(res, "w", 0.1)[active]
        predicted = activation_times(res, "growth", 2)[active]
        found.append(scale * quantiles(reached, weights, shares))
        fine = np.linspace(0, 4, 800)
        halves.append(scale * crossing(fine, res.at(fine)["E_train"].values, 0.05))
    slopes = np.polyfit(np.log(1 / alphas), np.array(found), 1)[0]
    np.testing.assert_allclose(slopes, quantiles(predicted, weights, shares), rtol=0.1)
    first, last = np.diff(halves) / math.log(10)  # E_train falls on the clock t/log(1/α)
    assert abs(last / first - 1) < 0.05
    earlier = predicted[None, :] - predicted[:, None] > 1 / scale  # by more than the correction to the formula
    known = earlier & np.isfinite(reached[None, :]) & np.isfinite(reached[:, None])
    assert known.sum() > 1000
    assert (reached[None, :] > reached[:, None])[known].mean() > 0.99  # activated in the order predicted


@pytest.mark.slow
def test_grokking_slope_of_the_network() -> None:
    """With weight decay λ = 0.5 the rich phase begins at (2/λ) log α: slope over α within 3%."""
    found, alphas = [], (10.0, 1e3)
    for alpha in alphas:
        last = 4 * math.log(alpha) + 8
        res = eqsolve.solve("dln", alpha=alpha, lam=0.5, delta=0.5, t_max=last, rtol=3e-2, atol=1e-3, observables=["E_train"])
        t = np.linspace(0.5, last, 400)
        moves = [p for p in find_phases((t, res.at(t)["E_train"].values), log=False) if isinstance(p, Transition)]
        found.append(moves[-1].time)
    slope = np.polyfit(np.log(alphas), found, 1)[0]
    assert abs(slope / 4 - 1) < 0.03
