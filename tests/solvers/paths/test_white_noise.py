"""Systems with white noise against what is known of them for other reasons.

Linear ones against their closed two-time equations, single particles against the Fokker–Planck equation,
self-consistent ones against a simulation of many coupled spins (N = 2000, 48 copies, Heun's method) and the
fluctuation–dissipation theorem.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.sparse import diags

import eqsolve
from eqsolve import E, Eq, Int, System, White, correlation, function, param, process, random, response, times
from eqsolve.errors import UsageError
from eqsolve.laws import Normal, Rademacher

t, tp, s = times("t t' s")
T, J, kappa = param("T", positive=True), param("J", nonnegative=True), param("kappa", real=True)
C, R = correlation("C"), response("R")

FEW = [0.5, 1.0, 2.0, 4.0]


@functools.cache
def linear_truth(kappa_: float, temperature: float, coupling: float, end: float) -> eqsolve.Result:
    """The closed equations of soft_spin for u = 0, which hold no path."""
    model = System(
        "linear_spins",
        [
            Eq(R(t, tp).diff(t), -R(t, tp) + kappa * J**2 * Int(R(t, s) * R(s, tp), (s, tp, t))),
            Eq(
                C(t, tp).diff(t),
                -C(t, tp) + 2 * T * R(tp, t) + J**2 * Int(R(tp, s) * C(t, s), (s, 0, tp))
                + kappa * J**2 * Int(R(t, s) * C(s, tp), (s, 0, t)),
            ),
        ],
        init={R(t, t): 1, C(0, 0): 1},
        observables={"q": C(t, t)},
    )  # fmt: skip
    return eqsolve.solve(model, kappa=kappa_, T=temperature, J=coupling, t_max=end, rtol=1e-9, at=FEW, kernels=True)


@pytest.mark.slow
def test_linear_spins_have_no_statistical_error() -> None:
    truth = linear_truth(1, 0.5, 0.4, 4.0).at(FEW)["q"].values
    res = eqsolve.solve("soft_spin", u=0, T=0.5, J=0.4, kappa=1, t_max=4, at=FEW, rtol=1e-6, solver="stochastic")
    found = res.at(FEW)
    errors = np.abs(found["q"].values - truth)
    assert res.status == "ok"
    assert errors.max() < 1e-6
    assert (errors <= 3 * found["q_error"].values + 1e-9).all()


@pytest.mark.slow
def test_kernels_of_linear_spins() -> None:
    pairs = [(2.0, 1.0), (4.0, 1.0), (4.0, 4.0), (1.0, 0.5)]
    truth = linear_truth(1, 0.5, 0.4, 4.0)
    res = eqsolve.solve("soft_spin", u=0, T=0.5, J=0.4, kappa=1, t_max=4, at2=pairs, at=FEW, rtol=1e-3, solver="stochastic")
    table = res.dataset
    for name, near in (("C", 3e-4), ("R", 3e-3)):
        for pair in pairs:
            place = {"row": pair[0], "column": pair[1]}
            found = float(table[name].sel(place, method="nearest"))
            stated = float(table[name + "_error"].sel(place, method="nearest"))
            exact = float(truth.at2([pair])[name].item())
            assert abs(found - exact) < near, (name, pair)
            assert abs(found - exact) <= 3 * stated + 1e-8, (name, pair)


def fokker_planck(u: float, temperature: float, moments: list[float]) -> list[float]:
    """E x² of x' = −x − u x³ + ξ from x(0) ~ N(0, 1): jumps between the points of a fine lattice, in detailed balance."""
    x = np.linspace(-5, 5, 1001)
    rate = temperature / (x[1] - x[0]) ** 2
    change = np.diff(x**2 / 2 + u * x**4 / 4) / temperature
    up, down = rate * np.exp(-change / 2), rate * np.exp(change / 2)
    jumps = diags([-np.append(up, 0) - np.append(0, down), up, down], [0, -1, 1], format="csc")
    start = np.exp(-(x**2) / 2)
    made = solve_ivp(
        lambda time, p: jumps @ p, (0, moments[-1]), start / start.sum(), "Radau", moments, jac=jumps, rtol=1e-8, atol=1e-12
    )
    return [float(x**2 @ p) for p in made.y.T]


@pytest.mark.parametrize(("strength", "rtol"), [(0.3, 1e-2), pytest.param(1.0, 1e-3, marks=pytest.mark.slow)])
def test_single_spins_obey_the_fokker_planck_equation(strength: float, rtol: float) -> None:
    """At 1e-3 enough of many paths must have tangents, though responses do not act back."""
    moments = [0.5, 1.0, 2.0]
    truth = fokker_planck(strength, 0.5, moments)
    res = eqsolve.solve("soft_spin", u=strength, T=0.5, J=0, t_max=2, at=moments, rtol=rtol, seed=1)
    found = res.at(moments)
    errors = np.abs(found["q"].values - truth)
    assert res.status == "ok"
    assert (errors <= rtol * np.array(truth)).all()
    assert (errors <= 3 * found["q_error"].values).all()


@pytest.mark.slow
def test_coupled_spins_meet_a_simulation() -> None:
    """The simulation's mean over 3 ≤ t ≤ 10, and over lags 1 there; u = 1, T = 1/2, J = 1, independent couplings."""
    res = eqsolve.solve("soft_spin", kappa=0, t_max=4, at=[2.0, 3.0, 4.0], at2=[(4.0, 3.0)], rtol=4e-2)
    found = res.at([4.0])
    assert res.status == "ok"
    assert abs(found["q"].item() - 0.33156) <= 2 * found["q_error"].item() + 2 * 0.0005
    last = {"row": 4.0, "column": 3.0}
    lagged, error = (float(res.dataset[name].sel(last, method="nearest")) for name in ("C", "C_error"))
    assert abs(lagged - 0.07670) <= 2 * error + 2 * 0.0004


@pytest.mark.slow
def test_symmetric_couplings_obey_fluctuation_dissipation() -> None:
    """T ∫_s^t R(t, s') ds' = C(t, t) − C(t, s) at late times, above the transition."""
    temperature = 1.0
    res = eqsolve.solve("soft_spin", u=0.5, T=temperature, J=0.6, kappa=1, t_max=6, rtol=2e-2)
    table = res.dataset
    clock = table["row"].values
    late = slice(int(np.searchsorted(clock, 2.5)), None)
    curve = CubicSpline(clock[late], table["R"].values[-1, late])
    spread = CubicSpline(clock[late], table["R_error"].values[-1, late])
    for place in range(late.start, len(clock) - 1, 2):
        answer = temperature * float(curve.integrate(clock[place], clock[-1]))
        fall = float(table["C"].values[-1, -1] - table["C"].values[-1, place])
        error = temperature * float(spread.integrate(clock[place], clock[-1]))
        error += float(table["C_error"].values[-1, -1] + table["C_error"].values[-1, place])
        assert abs(answer - fall) <= 3 * error, clock[place]


def test_noise_makes_a_quiet_network_fluctuate() -> None:
    """At small gain the network's neurons are single ones with noise: E x² = e^{−2t} + D (1 − e^{−2t})."""
    found = eqsolve.solve(
        "noisy_rnn", gain=0, D=0.25, t_max=2, at=[1.0, 2.0], rtol=1e-3, observables=["q"], solver="stochastic"
    )
    found = found.at([1.0, 2.0])
    fall = np.exp(-2 * np.array([1.0, 2.0]))
    assert np.abs(found["q"].values - fall - 0.25 * (1 - fall)).max() < 1e-6


x, y, xi = process("x y xi")
m = function("m")
a = random("a", Rademacher())


def made(equations: list[Any], law: White, start: dict[Any, Any], observables: dict[str, Any]) -> System:
    return System("made", [*equations, Eq(C(t, tp), E(x(t) * x(tp)))], laws={xi: law}, init=start, observables=observables)


@pytest.mark.slow
def test_noise_that_grows_and_what_it_drives_together() -> None:
    """x' = 2t ξ, y' = −y + ξ from a = ±1: E x² = 1 + 4t³/3 · S, E x y by one integral; the same noise drives both."""
    import sympy

    model = made(
        [Eq(x(t).diff(t), 2 * t * xi(t)), Eq(y(t).diff(t), -y(t) + xi(t))], White(sympy.Rational(1, 2)), {x: a, y: 0},
        {"q": E(x(t) ** 2), "both": E(x(t) * y(t)), "own": E(y(t) ** 2)},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=1, rtol=1e-4, solver="stochastic").at([1.0])
    exact = {"q": 1 + 2 / 3, "both": np.exp(-1), "own": (1 - np.exp(-2)) / 4}
    exact["both"] = 0.5 * 2 * (1 - (1 - np.exp(-1)))  # ½ ∫ 2s e^{s − 1} ds
    for name, value in exact.items():
        assert abs(found[name].item() - value) < 1e-4, name


@pytest.mark.slow
def test_the_strength_may_follow_from_the_means() -> None:
    """x' = −x + ξ with ⟨ξξ⟩ = E[x²] δ: dq/dt = −2q + q."""
    model = made([Eq(x(t).diff(t), -x(t) + xi(t))], White(C(t, t)), {x: Normal(0, 1)}, {"q": C(t, t)})
    found = eqsolve.solve(model, t_max=1, rtol=1e-5, solver="stochastic").at([1.0])
    assert abs(found["q"].item() - np.exp(-1)) < 1e-5


def test_the_choice_says_why() -> None:
    explained = eqsolve.explain("soft_spin").solver
    assert explained.name == "stochastic"
    assert "white noise xi" in explained.reason
    with pytest.raises(UsageError, match="neither noise nor memory"):
        eqsolve.solve("pspin", t_max=1, solver="sampled")  # another name of stochastic


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_on_any_threads_and_paths_have_the_law() -> None:
    first, again = (eqsolve.solve("soft_spin", kappa=0, t_max=0.5, rtol=3e-2, seed=4, threads=n) for n in (1, 3))
    assert np.array_equal(first.dataset["q"].values, again.dataset["q"].values)
    paths = first.dataset["x"].values
    assert abs((paths[:, -1] ** 2).mean() / float(first.dataset["q"][-1]) - 1) < 0.1


@pytest.mark.slow
def test_an_interruption_returns_what_there_is(tmp_path: Path) -> None:
    def stop(done: float, total: float, text: str) -> None:
        if "number 2" in text and "ensembles of 1024" not in text:
            raise KeyboardInterrupt

    asked: dict[str, Any] = {"u": 0.3, "J": 0, "t_max": 1, "rtol": 1e-3, "at": [1.0]}
    log = str(tmp_path / "log")
    res = eqsolve.solve("soft_spin", **asked, progress=stop, checkpoint=log)
    assert res.status == "interrupted"
    truth = fokker_planck(0.3, 0.5, [1.0])[0]
    found = res.at([1.0])
    assert abs(found["q"].item() - truth) <= 3 * found["q_error"].item()
    resumed = eqsolve.solve("soft_spin", **asked, checkpoint=log, resume=True)
    whole = eqsolve.solve("soft_spin", **asked)
    assert resumed.status == "ok"
    for name in ("q", "q_error", "x"):
        assert np.array_equal(resumed.dataset[name].values, whole.dataset[name].values), name
