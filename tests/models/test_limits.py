"""The reduced systems are limits of the network: distances with their rates, in the times and units of each phase."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eqsolve


def lazy_gap(alpha: float, rtol: float) -> float:
    """Return the largest |ΔE_test| or |ΔE_train| between the network in the time α²t and the closed form of the lazy phase."""
    times = np.linspace(0.1, 10, 60)
    law = eqsolve.spectra.MarchenkoPastur(0.5)
    dln = eqsolve.load("dln")
    faster = dln.rescale_time(dln.symbols("alpha") ** 2)
    solved = eqsolve.solve(faster, alpha=alpha, delta=0.5, t_max=10, rtol=rtol).at(times)
    curves = (("E_test", law.laplace(2 * times)), ("E_train", law.laplace(2 * times, 1)))
    return max(float(np.abs(solved[name].values - 0.1 * closed).max()) for name, closed in curves)


@pytest.mark.slow
def test_lazy_phase() -> None:
    """The difference falls as α^(−4)."""
    alphas = np.array([3.0, 10.0])
    gaps = [lazy_gap(alpha, 1e-5) for alpha in alphas]
    assert gaps[-1] <= 2e-6
    power = np.polyfit(np.log(alphas), np.log(gaps), 1)[0]
    assert abs(power + 4) < 0.05
    assert lazy_gap(30.0, 1e-5) <= 5e-8


@pytest.mark.slow
def test_search_phase() -> None:
    """W = w/α² on t = O(1): E[W²] differs from that of the search system by O(α²)."""
    dln = eqsolve.load("dln")
    alpha, t, w = dln.symbols("alpha t w")
    network = dln.replace("small_weights", observables={"W2": eqsolve.E(w(t) ** 2) / alpha**4})
    times = np.linspace(0.1, 1.0, 10)
    limit = eqsolve.solve("dln_search", t_max=1, delta=0.5, rtol=1e-6).at(times)["W2"].values
    gaps = []
    for value in (0.02, 0.04):
        found = eqsolve.solve(network, alpha=value, delta=0.5, t_max=1, rtol=1e-4).at(times)["W2"].values
        gaps.append(np.abs(found - limit).max())
    assert gaps[0] < 2e-3
    assert abs(math.log2(gaps[1] / gaps[0]) - 2) < 0.1


@pytest.mark.slow
def test_rich_phase() -> None:
    """Started at τ₀ = −2 log(α)/λ the curves stop depending on α; the last is the network itself, shifted."""
    tau, curves = np.linspace(0, 8, 41), {}
    for alpha in (1.5, 2.0, 3.0, 6.0):
        solved = eqsolve.solve("dln_rich", delta=0.5, lam=0.5, tau0=-4 * math.log(alpha), t_max=8, rtol=1e-3, atol=1e-5)
        curves[alpha] = solved.at(tau)["E_test"].values
    gaps = [np.abs(curves[alpha] - curves[6.0]).max() for alpha in (1.5, 2.0, 3.0)]
    assert gaps[0] < 3e-3
    assert gaps[1] < gaps[0] / 5
    assert gaps[2] < 5e-5  # that is the error of two solutions to 1e-3, in part
    later = 4 * math.log(6.0)
    full = eqsolve.solve("dln", delta=0.5, lam=0.5, alpha=6, t_max=8 + later, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(full.at(tau + later)["E_test"].values, curves[6.0], rtol=2e-3)
