"""Stochastic systems against truth found another way: finite systems, closed forms, and equations solved by plain methods."""

from __future__ import annotations

import functools
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ive, ndtr
from sympy import Expr, cos, exp, sin, tanh

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    Int,
    Result,
    System,
    UsageError,
    correlation,
    process,
    random,
    times,
)
from eqsolve.laws import Normal

MODELS = Path(__file__).resolve().parents[3] / "models"
Array = np.ndarray
t, tp, s = times("t t' s")
x, y, a, b = process("x y a b")
C = correlation("C")


def solve(name: str, rtol: float, **options: Any) -> Result:
    return eqsolve.solve(str(MODELS / f"{name}.py"), rtol=rtol, **options)


def largest(result: Result, name: str) -> float:
    """The largest error estimate of a function of time."""
    return float(result.error[name].max())


# --- the diagonal network: finite dimension ---------------------------------------------------------------------------
MOMENTS = [0.1, 0.3, 1, 3, 10, 30]
# Gradient flow of the network itself with d = 2000 weights: mean and standard error over 8 draws, at MOMENTS.
FINITE: list[tuple[dict[str, float], dict[str, tuple[list[float], list[float]]]]] = [
    (
        {"alpha": 0.3, "delta": 0.5, "lam": 0, "sigma2": 0},
        {
            "E_train": (
                [0.09612430973449913, 0.08615613535378336, 0.055945388490370604, 0.01181126445165218,
                 0.0010432957771000515, 6.685942768768445e-05],
                [0.001706802812235406, 0.0014305386410313678, 0.000565651437184686, 0.00020813430523935827,
                 2.4911758509335215e-05, 2.7640967749176555e-06],
            ),
            "E_test": (
                [0.09821694804470534, 0.09482722550176442, 0.08307857355372247, 0.05571926008199048,
                 0.03617618896698089, 0.03016580855986265],
                [3.2303874248589455e-05, 9.425832208908451e-05, 0.00035180582544035437, 0.0007135085603763068,
                 0.0005447015848412496, 0.0004728276615703651],
            ),
        },
    ),
    (
        {"alpha": 1, "delta": 0.5, "lam": 0.1, "sigma2": 0.01},
        {
            "E_train": (
                [0.06471720804396455, 0.028033471819865152, 0.006110382789300621, 0.0014834253908952984,
                 0.0011904704553914794, 0.002717125832144761],
                [0.0005876274059499129, 0.0003726287419958512, 0.00012074705437647134, 3.070582516972478e-05,
                 1.9282724097833745e-05, 3.734836975523749e-05],
            ),
            "E_test": (
                [0.09483652288010117, 0.08075854197353836, 0.06909281570846978, 0.06555022570086258,
                 0.062477810184193, 0.04871470695847921],
                [0.00016676126364859473, 0.00031361852196844296, 0.00043043525752238906, 0.0004717549143602148,
                 0.000516650904226487, 0.0006546318597551583],
            ),
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "measured"),
    [pytest.param(*FINITE[0], id="no decay"), pytest.param(*FINITE[1], id="decay and noise", marks=pytest.mark.slow)],
)
def test_network_of_finite_dimension(settings: dict[str, float], measured: dict[str, Any]) -> None:
    result = solve("dln", 1e-3, at=MOMENTS, params=settings)
    assert result.status == "ok"
    found = result.at(MOMENTS)
    for name, (mean, error) in measured.items():
        assert np.all(np.abs(found[name].values - mean) <= 3 * np.array(error)), name


# --- the diagonal network: closed forms and relations -------------------------------------------------------------------
@pytest.mark.slow
def test_rich_phase_is_the_network_in_shifted_time() -> None:
    lam, tau0 = 0.5, -4.0
    rich = solve("dln_rich", 1e-3, t_max=2, lam=lam, tau0=tau0)
    plain = solve("dln", 1e-3, t_max=2 - tau0, lam=lam, alpha=float(np.exp(-lam * tau0 / 2)))
    moments = np.array([0.1, 0.5, 1, 2, 4, 6])
    first, second = rich.at(moments + tau0), plain.at(moments)
    for name in ("E_train", "E_test"):
        allowed = 3 * (largest(rich, name) + largest(plain, name))
        assert np.abs(first[name].values - second[name].values).max() <= allowed, name


@pytest.mark.slow
def test_long_time_with_weight_decay() -> None:
    """Soft thresholds settle algebraically: at t = 1000 the fixed point (i) is 1e-3 away, a tenth of the tolerance."""
    res = eqsolve.solve("dln", t_max=1000, alpha=1, delta=0.5, lam=0.1, sigma2=0.01, rtol=1e-2, observables=["E_test"])
    found = res.at([1000.0])
    value, error, limit = float(found["E_test"][0]), float(found["E_test_error"][0]), 0.0291640524
    assert abs(value / limit - 1) <= 1e-2
    assert abs(value - limit) <= 3 * error + 1e-3 * limit


# --- several processes ------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_two_ensembles_that_drive_each_other() -> None:
    """Two populations, each the input of the other, with equal laws: each as if its input were its own output."""
    starts = random("x0", Normal(0, 1)), random("y0", Normal(0, 1))
    model = System(
        "pair",
        eqs=[Eq(x(t).diff(t), -x(t) + a(t)), Eq(y(t).diff(t), -y(t) + b(t))],
        laws={a: GP(0.64 * E(tanh(y(t)) * tanh(y(tp)))), b: GP(0.64 * E(tanh(x(t)) * tanh(x(tp))))},
        init={x: starts[0], y: starts[1]},
        observables={"q_x": E(x(t) ** 2), "q_y": E(y(t) ** 2)},
    )
    asked = {"t_max": 3, "solver": "stochastic"}
    both, one = eqsolve.solve(model, rtol=1e-3, **asked), solve("rnn", 1e-3, gain=0.8, **asked)
    moments = np.linspace(0, 3, 4)
    for name in ("q_x", "q_y"):
        difference = np.abs(both.at(moments)[name].values - one.at(moments)["q"].values).max()
        assert difference <= 3 * (largest(both, name) + largest(one, "q"))


def turning(second: Expr, mean: Any = 0, watched: Collection[str] = ()) -> System:
    """x and y relax towards a = u cos t + v sin t and b = u sin t − v cos t, with standard normal u and v."""
    lag = t - second
    observables = {
        "mean_x": E(x(t)),
        "mean_y": E(y(t)),
        "variance": E(x(t) ** 2),
        "cross": E(x(t) * y(t)),
        "lagged": E(Int(exp(s - t) * x(s), (s, 0, t)) * y(t)),
        "growth": E(exp(x(t) / 2 + y(t) / 3)),
    }
    return System(
        "turning",
        eqs=[Eq(x(t).diff(t), -x(t) + a(t)), Eq(y(t).diff(t), -y(t) + b(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={(a, b): GP([[cos(lag), -sin(lag)], [sin(lag), cos(lag)]], mean)},
        init={x: 0, y: 0},
        observables={name: observables[name] for name in watched or observables},
    )


def relaxed(moments: Any) -> tuple[Any, Any]:
    """What cos and sin become when relaxed towards: the coefficients of u and v in x; y has (v's, −u's)."""
    fade = np.exp(-moments)
    return (np.cos(moments) + np.sin(moments) - fade) / 2, (np.sin(moments) - np.cos(moments) + fade) / 2


@pytest.mark.slow
@pytest.mark.parametrize("second", [tp, s], ids=str)
def test_tuple_of_correlated_noises(second: Expr) -> None:
    """The covariance of a with b is odd in t − t', so a mixed-up order of times shows as a wrong sign."""
    watched = () if second == tp else ("mean_x", "variance", "cross", "lagged")
    result = eqsolve.solve(turning(second, 0, watched), t_max=5, rtol=1e-3, solver="stochastic")
    assert result.status == "ok"  # although three of the observables vanish
    moments = np.linspace(0.5, 5, 6)
    found = result.at(moments)
    by_u, by_v = relaxed(moments)
    variance = by_u**2 + by_v**2

    def delayed(now: float) -> float:
        u, v = relaxed(now)
        return float(quad(lambda s: np.exp(s - now) * (relaxed(s)[0] * v - relaxed(s)[1] * u), 0, now)[0])

    exact = {
        "variance": variance,
        "cross": np.zeros(6),
        "mean_x": np.zeros(6),
        "lagged": np.array([delayed(now) for now in moments]),
        "growth": np.exp(variance * (1 / 4 + 1 / 9) / 2),
    }
    for name in watched or exact:
        values = exact[name]
        assert np.abs(found[name].values - values).max() <= 1e-3 * max(1e-6, np.abs(values).max()), name


def test_means_of_a_tuple_of_noises() -> None:
    found = eqsolve.solve(turning(tp, [1, t], ("mean_x", "mean_y")), t_max=5, rtol=1e-3, solver="stochastic").at([1, 2, 5])
    moments = np.array([1, 2, 5])
    np.testing.assert_allclose(found["mean_x"].values, 1 - np.exp(-moments), rtol=1e-3)
    np.testing.assert_allclose(found["mean_y"].values, moments - 1 + np.exp(-moments), rtol=1e-3)


# --- what cannot be solved ----------------------------------------------------------------------------------------------
def driven(drift: Expr, average: Expr, **parts: Any) -> System:
    equations = [Eq(C(t, tp), average), Eq(x(t).diff(t), drift + a(t))]
    return System("driven", eqs=equations, laws={a: GP(exp(-((t - tp) ** 2)))}, init={x: 1}, **parts)


def test_kernels_are_watched_when_nothing_else_is() -> None:
    """Without observables the tolerance is on the kernels: E x(t)x(t') of a linear equation."""
    result = eqsolve.solve(driven(-x(t), E(x(t) * x(tp))), t_max=3, rtol=1e-4)

    def response(now: float) -> float:  # Var x(t) of x' = −x + a by direct integration
        inner = functools.partial(quad, a=0, b=now, epsabs=1e-11)
        return float(inner(lambda u: inner(lambda v: np.exp(u + v - 2 * now - (u - v) ** 2))[0])[0])

    exact = np.array([np.exp(-2 * now) + response(now) for now in (1.0, 3.0)])
    found = result.at2([(1.0, 1.0), (3.0, 3.0)])["C"].values
    assert result.status == "ok"
    np.testing.assert_allclose(found, exact, rtol=1e-4)


def test_unknown_solver() -> None:
    with pytest.raises(UsageError, match="did you mean `stochastic`"):
        solve("rnn", 1e-3, t_max=1, solver="stochastc")


# --- discrete time, laws, interruption ----------------------------------------------------------------------------------
def test_the_discrete_system_is_solved_exactly() -> None:
    """x ← x + η(−x + a), a ~ GP(cos(t − t')): the variance of the recursion, not of the differential equation."""
    eta, count = 0.5, 12
    model = System(
        "relaxing",
        eqs=[Eq(x(t).diff(t), -x(t) + a(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={a: GP(cos(t - tp))},
        init={x: 0},
        observables={"variance": C(t, t)},
    )
    result = eqsolve.solve(model, t_max=eta * count, step=eta)
    moments = eta * np.arange(count + 1)
    weights = np.zeros((count + 1, count + 1))
    for step in range(count):
        weights[step + 1] = (1 - eta) * weights[step]
        weights[step + 1, step] += eta
    truth = np.einsum("ti,ij,tj->t", weights, np.cos(np.subtract.outer(moments, moments)), weights)
    np.testing.assert_allclose(result["t"].values, moments)
    np.testing.assert_allclose(result["variance"].values, truth, atol=1e-12)


def test_gradient_descent_of_a_network_is_not_its_flow() -> None:
    """One path without noise: u and v of a two-layer network with a huge number of data, by hand and by the engine."""
    eta, decay = 0.2, 0.3
    model = System("shrinking", eqs=[Eq(x(t).diff(t), -decay * x(t) + 0 * a(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
                   laws={a: GP(exp(-((t - tp) ** 2)))}, init={x: 1}, observables={"square": C(t, t)})  # fmt: skip
    result = eqsolve.solve(model, t_max=2, step=eta)
    np.testing.assert_allclose(result["square"].values, (1 - eta * decay) ** (2 * np.arange(11)), rtol=1e-12)


@pytest.mark.parametrize("solver", ["stochastic", "gaussian"])
def test_law_of_a_process(solver: str) -> None:
    """x(t) of a process driven by a Gaussian with known variance is normal; the kept paths say so."""
    model = System(
        "relaxing",
        eqs=[Eq(x(t).diff(t), -x(t) + a(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={a: GP(cos(t - tp))},
        init={x: 1},
        observables={"variance": C(t, t), "size": E(abs(x(t)))},
    )
    result = eqsolve.solve(model, t_max=3, rtol=1e-3, solver=solver)
    law = result.law("x", 2.0)
    by_cos, by_sin = relaxed(np.array([2.0]))
    mean, variance = np.exp(-2), float(by_cos[0] ** 2 + by_sin[0] ** 2)
    assert law.mean() == pytest.approx(mean, abs=5e-3)
    assert law.var() == pytest.approx(variance, rel=2e-2)
    assert law.quantile(0.9) == pytest.approx(mean + 1.2815515655 * np.sqrt(variance), abs=0.02)
    deviation = np.sqrt(variance)
    size = deviation * np.sqrt(2 / np.pi) * np.exp(-(mean**2) / 2 / variance) + mean * (2 * ndtr(mean / deviation) - 1)
    found = result.at([2.0])
    assert abs(found["size"].values[0] - size) <= 3 * found["size_error"].values[0] + 1e-3 * size


def test_an_interruption_returns_what_is_done() -> None:
    def stop(done: float, total: float, text: str) -> None:
        if text.startswith("time grid"):
            raise KeyboardInterrupt

    result = solve("dln", 1e-4, t_max=5, progress=stop)
    assert result.status == "interrupted"
    assert (result.error["E_test"].values > 0).all()
    exact = solve("dln", 1e-3, t_max=5)
    moments = [0.5, 2, 5]
    gap = np.abs(result.at(moments)["E_test"].values - exact.at(moments)["E_test"].values)
    assert (gap <= result.at(moments)["E_test_error"].values + exact.at(moments)["E_test_error"].values).all()


def test_a_mean_of_the_process_alone_acts_back_exactly() -> None:
    """x' = −x + a, a ~ GP(C), C = E[x x'], x(0) = 1 has C(t, t) = e^{−2t} I₀(2t)."""
    model = System("echo", eqs=[Eq(x(t).diff(t), -x(t) + a(t)), Eq(C(t, tp), E(x(t) * x(tp)))], laws={a: GP(C(t, tp))},
                   init={x: 1}, observables={"v": C(t, t)})  # fmt: skip
    for rtol in (1e-3, 1e-5):
        result = eqsolve.solve(model, t_max=5, rtol=rtol)
        moments = np.linspace(0.1, 5, 20)
        found = result.at(moments)
        gap = np.abs(found["v"].values - ive(0, 2 * moments)).max()
        assert gap <= rtol * 0.3
        assert gap <= 3 * found["v_error"].values.max()
