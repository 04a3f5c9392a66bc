"""Means of functions with kinks and jumps on models of several fields, and their stated errors, against closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr
from sympy import Abs, Heaviside, Max, Min, Piecewise, exp, sqrt

import eqsolve
from eqsolve import GP, E, Eq, System, correlation, process, random, times
from eqsolve.compile.forms import STOCHASTIC
from eqsolve.laws import Bernoulli, Normal, Uniform

Array = np.ndarray
t, tp = times("t t'")
x, y, eta = process("x y eta")
C, D = correlation("C D")
LARGEST = 3.0
MOMENTS = np.linspace(0, 2, 21)
STEADY, RISING = 1 - np.exp(-MOMENTS), MOMENTS - 1 + np.exp(-MOMENTS)
DRIVEN = STEADY**2 + RISING**2  # the variance of ∫ e^{−(t − s)} (a + b s) ds with independent standard normals a, b


def folded(mean: Array, variance: Array) -> Array:
    """Return E|X| of a Gaussian."""
    size = np.sqrt(variance) + 1e-100
    return np.sqrt(2 / np.pi) * size * np.exp(-((mean / size) ** 2) / 2) + mean * (1 - 2 * ndtr(-mean / size))


def relaxing(start: object, **observables: object) -> System:
    """x' = −x + η, driven by a + b t."""
    eqs = [Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + eta(t))]
    return System("relaxing", eqs=eqs, laws={eta: GP(1 + t * tp)}, init={x: start}, observables=observables)


def growing() -> System:
    """y' = y η: a population in a random environment, log-normal."""
    eqs = [Eq(C(t, tp), E(y(t) * y(tp))), Eq(y(t).diff(t), y(t) * eta(t) / 2)]
    away = {"away": E(Abs(y(t) - 1)), "most": E(Max(y(t), 1)), "least": E(Min(y(t), exp(-t), 1))}
    return System("growing", eqs=eqs, laws={eta: GP(1 + t * tp)}, init={y: 1}, observables=away)


def saturating() -> System:
    """y' = y (1 + η − y), η constant in time: logistic growth to a random capacity."""
    eqs = [Eq(C(t, tp), E(y(t) * y(tp))), Eq(y(t).diff(t), y(t) * (1 + eta(t) - y(t)))]
    laws = {eta: GP(0.25 + 0 * C(t, tp))}
    return System("saturating", eqs=eqs, laws=laws, init={y: 1}, observables={"away": E(Abs(y(t) - 1))})


def saturated() -> Array:
    """Return E|y − 1| of logistic growth, y = r eʳᵗ / (r + eʳᵗ − 1) with r = 1 + ζ/2; it bends at ζ = 0."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    total = np.zeros_like(MOMENTS)
    for side in (-1, 1):
        zeta = side * 4.5 * (nodes + 1)
        rate = 1 + zeta / 2 + 1e-12
        grown = rate / (1 + (rate - 1) * np.exp(-rate * MOMENTS[:, None]))
        total += (np.abs(grown - 1) * np.exp(-(zeta**2) / 2)) @ weights * 4.5 / math.sqrt(2 * math.pi)
    return total


def lognormal() -> dict[str, Array]:
    spread = np.sqrt(MOMENTS**2 + MOMENTS**4 / 4) / 2
    mean = np.exp(spread**2 / 2)
    away = mean * (2 * ndtr(spread) - 1)
    floor = np.exp(-MOMENTS)  # E min(y, e⁻ᵗ), as e⁻ᵗ ≤ 1
    gap = -MOMENTS / (spread + 1e-300)
    least = np.where(MOMENTS > 0, mean * ndtr(gap - spread) + floor * ndtr(-gap), 1.0)
    return {"away": away, "most": (mean + 1 + away) / 2, "least": least}


x0 = random("x0", Normal(0.5, 0.25))
atom = random("atom", Bernoulli(0.3))
flat = random("flat", Uniform(-1, 1))
LINE, WEIGHTS = np.polynomial.legendre.leggauss(200)
DECAY = np.exp(-MOMENTS)
WIDE = DRIVEN + 0.25 * DECAY**2
CASES: dict[str, tuple[Callable[[], System], Callable[[], dict[str, Array]]]] = {
    "gaussian start": (
        lambda: relaxing(x0, size=E(Abs(x(t))), relu=E(Max(x(t), 0)), further=E(Max(x(t), x0)), q=C(t, t)),
        lambda: {
            "size": folded(0.5 * DECAY, WIDE),
            "relu": (0.5 * DECAY + folded(0.5 * DECAY, WIDE)) / 2,
            "further": 0.5 + (0.5 * (DECAY - 1) + folded(0.5 * (DECAY - 1), DRIVEN + 0.25 * (1 - DECAY) ** 2)) / 2,
        },
    ),
    "atoms": (
        lambda: relaxing(atom, size=E(Abs(x(t))), q=C(t, t)),
        lambda: {"size": 0.7 * folded(0 * DECAY, DRIVEN) + 0.3 * folded(DECAY, DRIVEN)},
    ),
    "a law without Gaussians": (
        lambda: relaxing(flat, size=E(Abs(x(t) - flat)), q=C(t, t)),
        lambda: {"size": folded(np.outer(DECAY - 1, LINE), DRIVEN[:, None]) @ WEIGHTS / 2},
    ),
    "a population": (growing, lognormal),
    "logistic growth": (saturating, lambda: {"away": saturated()}),
}


@pytest.mark.parametrize("rtol", [1e-2, pytest.param(1e-3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in ("a population", "logistic growth") else []) for name in CASES],
)
def test_means_with_kinks_meet_the_tolerance(name: str, rtol: float) -> None:
    make, truth = CASES[name]
    result = eqsolve.solve(make(), t_max=2, rtol=rtol, solver="stochastic")
    assert result.status == "ok", result.message
    found = result.at(MOMENTS)
    for observable, values in truth().items():
        error, stated = np.abs(found[observable].values - values), found[f"{observable}_error"].values
        assert (error <= LARGEST * stated + 1e-9).all(), observable
        assert (error <= rtol * np.maximum(values, 0.1 * values.max())).all(), observable


@pytest.mark.slow
def test_a_jump_is_averaged_and_its_error_told() -> None:
    """P(x > 1/2): half a jump of a Gaussian, and a function that is cut off."""
    observables = {"above": E(Heaviside(x(t) - 0.5)), "cut": E(Piecewise((x(t), x(t) > 0.5), (0, True)))}
    result = eqsolve.solve(relaxing(x0, **observables, q=C(t, t)), t_max=0.5, rtol=2e-2, solver="stochastic")
    found, size = result.at(MOMENTS[:6]), np.sqrt(WIDE)
    level = (0.5 - 0.5 * DECAY) / size
    density = np.exp(-(level**2) / 2) / math.sqrt(2 * math.pi)
    truth = {"above": ndtr(-level), "cut": 0.5 * DECAY * ndtr(-level) + size * density}
    for name, values in truth.items():
        error = np.abs(found[name].values - values[:6])[1:]
        assert (error <= LARGEST * found[f"{name}_error"].values[1:]).all(), name
        assert (error <= 0.03 * values[1:6]).all(), name


def test_functions_that_have_no_value_for_a_stand_in_are_averaged_all_the_same() -> None:
    """The root of a positive path: what stands in for the path may be negative."""
    eqs = [Eq(C(t, tp), E(y(t) * y(tp))), Eq(y(t).diff(t), y(t) * eta(t) / 2)]
    system = System(
        "rooted", eqs=eqs, laws={eta: GP(1 + t * tp)}, init={y: 1}, observables={"root": E(Abs(sqrt(y(t)) - 1)), "q": C(t, t)}
    )
    result = eqsolve.solve(system, t_max=1, rtol=1e-2)
    moments = np.linspace(0, 1, 11)
    spread = np.sqrt(moments**2 + moments**4 / 4) / 4
    truth = np.exp(spread**2 / 2) * (2 * ndtr(spread) - 1)
    found = result.at(moments)
    assert (np.abs(found["root"].values - truth) <= LARGEST * found["root_error"].values + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", list(CASES))
def test_stated_errors_hold_for_other_points(name: str, seed: int) -> None:
    make, truth = CASES[name]
    found = eqsolve.solve(make(), t_max=2, rtol=3e-3, seed=seed, solver="stochastic").at(MOMENTS)
    for observable, values in truth().items():
        error = np.abs(found[observable].values - values)
        assert (error <= LARGEST * found[f"{observable}_error"].values + 1e-9).all(), observable


# --- pieces ------------------------------------------------------------------------------------------------------------------
def test_a_plan_tells_what_a_mean_reads_and_where_it_bends() -> None:
    plan = eqsolve.compile(relaxing(x0, further=E(Max(x(t), x0) * exp(-t)), q=C(t, t))).program(STOCHASTIC)
    (mean,) = (mean for mean in plan.ensembles[0].means if mean.kinked)
    names = [0.0, 0.3, 0.0, 0.8]  # time, x, η, x0
    assert mean.reads == (0, 1, 3)
    assert abs(float(mean.switches(*names)[0])) == pytest.approx(0.5)
    assert all(not other.switches(*names) for other in plan.ensembles[0].means if not other.kinked)
