"""Quotients that are 0/0 or ∞/∞ in floating point, declared plainly, in every kind of model."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq
from scipy.special import erfcx
from sympy import erfc, exp, pi, sqrt

import eqsolve
from eqsolve import (
    E,
    Eq,
    FixedPoint,
    Int,
    Singularity,
    System,
    function,
    normal,
    param,
    process,
    random,
    times,
    unknown,
)
from eqsolve.laws import Normal, Point

alpha, delta = param("alpha delta", positive=True)
q = unknown("q", domain=(0, 1))
z = normal("z")
t, s = times("t s")
y, k, m = function("y k m")
x = process("x")
a = random("a", Normal(0, 1))


def hazard(argument):
    """Return e^{−x²}/erfc(x) as one writes it; 1/erfcx(x) without overflow."""
    return exp(-(argument**2)) / erfc(argument)


def gaussian_mean(function: Callable[[float], float]) -> float:
    density = lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    return float(quad(lambda z: density(z) * function(z), -12, 12, epsabs=1e-12, limit=500)[0])


def saddle_point(alpha: float) -> float:
    def gap(q: float) -> float:
        width = math.sqrt(q / (1 - q))
        ratio = lambda z: math.sqrt(2 / math.pi) / erfcx(width * z / math.sqrt(2))  # noqa: E731
        return alpha * gaussian_mean(lambda z: ratio(z) ** 2) - q / (1 - q)

    return float(brentq(gap, 1e-3, 0.9999, xtol=1e-13))


@pytest.mark.parametrize(("load", "known"), [(1.7, 0.901593), (1.9, 0.970875), (1.99, None)])
def test_fixed_point_with_density_over_tail(load: float, known: float | None) -> None:
    width = sqrt(q / (1 - q)) * z
    ratio = exp(-(width**2) / 2) / sqrt(2 * pi) / (erfc(width / sqrt(2)) / 2)
    model = FixedPoint("capacity", eqs=[Eq(q / (1 - q), alpha * E(ratio**2))])
    result = eqsolve.solve(model, alpha=load)
    assert float(result["q"]) == pytest.approx(saddle_point(load), rel=1e-9)
    assert known is None or float(result["q"]) == pytest.approx(known, abs=6e-7)


def test_ode() -> None:
    model = System("hazard", eqs=[Eq(y(t).diff(t), hazard(y(t)) / 2)], init={y: 1})
    result = eqsolve.solve(model, t_max=6, rtol=1e-8)
    truth = solve_ivp(lambda _, y: 0.5 / erfcx(y), (0, 6), [1.0], rtol=1e-12, atol=1e-12).y[0, -1]
    assert truth > 100  # e^{−y²} is 0 beyond 27
    assert float(result["y"][-1]) == pytest.approx(truth, rel=1e-7)


def test_process_with_random_constants() -> None:
    model = System("spread", eqs=[Eq(x(t).diff(t), x(t)), Eq(m(t), E(exp(-2 * x(t) ** 2) / erfc(x(t)) ** 2))], init={x: a})
    result = eqsolve.solve(model, t_max=4, rtol=1e-6)
    width = math.exp(4)
    truth = gaussian_mean(lambda a: 1 / erfcx(max(width * a, -18.0)) ** 2)  # e^{-2·18²} is nothing
    assert float(result["m"][-1]) == pytest.approx(truth, rel=1e-5)


def test_memory() -> None:
    model = System("memory", eqs=[Eq(y(t).diff(t), hazard(t) - Int(exp(-(t - s)) * y(s), (s, 0, t)))], init={y: 0})
    result = eqsolve.solve(model, t_max=40, rtol=1e-6)

    def rates(t: float, state: np.ndarray) -> list[float]:
        return [1 / erfcx(t) - state[1], state[0] - state[1]]

    truth = solve_ivp(rates, (0, 40), [0.0, 0.0], rtol=1e-11, atol=1e-11).y[0, -1]
    assert float(result["y"][-1]) == pytest.approx(truth, rel=1e-5)


def test_expectation_in_a_transform() -> None:
    """One weight of speed v: the branch point of R = (p + R)/δ v/(p + R + v) is at −v (1 − 1/√δ)²."""
    p, R = unknown("p R")
    w = random("w", Point(30))
    speed = exp(-2 * w**2) / erfc(w) ** 2
    model = Singularity(
        "speeds",
        transform=Eq(R, (p + R) / delta * E(speed / (p + R + speed))),
        variable=p,
        unknown=R,
        observables={"gamma": -p},
    )
    result = eqsolve.solve(model, delta=4)
    assert float(result["gamma"]) == pytest.approx(0.25 / erfcx(30.0) ** 2, rel=1e-10)
