"""White noise that is multiplied by the unknown, against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from sympy import Expr, Piecewise, Rational, asinh, exp, log, sqrt

import eqsolve
from eqsolve import E, Eq, Resp, System, White, process, random, response, times
from eqsolve.laws import Uniform

t, tp = times("t t'")
x, y, xi = process("x y xi")
R = response("R")
a = random("a", Uniform(0.2, 0.6))
MOMENTS = {"m": E(x(t)), "q": E(x(t) ** 2)}
S = 0.25


def solved(right: Expr, start: Any, observables: dict[str, Expr], sense: str | None = "ito", **more: Any) -> eqsolve.Result:
    keys = {key: more.pop(key) for key in ("t_max", "rtol", "step") if key in more}
    model = System(
        "multiplied",
        [Eq(x(t).diff(t), right)],
        laws={xi: White(S, sense=sense)},
        init={x: start},
        observables=observables,
        **more,
    )
    return eqsolve.solve(model, **{"t_max": 1, "rtol": 1e-2, **keys})


def holds(result: eqsolve.Result, truth: dict[str, float], times: float = 1.0) -> None:
    found = result.at([times])
    assert result.status == "ok", result.message
    for name, value in truth.items():
        assert abs(found[name].item() - value) < 3 * found[f"{name}_error"].item() + 1e-12, (name, found[name].item(), value)


@pytest.mark.parametrize("sense", ["ito", "stratonovich"])
@pytest.mark.parametrize("start", [1, -1])
def test_geometric_brownian_motion(sense: str, start: int) -> None:
    rate = 0.3 + (S / 2 if sense == "stratonovich" else 0)
    found = solved(Rational(3, 10) * x(t) + x(t) * xi(t), start, MOMENTS, sense)
    holds(found, {"m": start * math.exp(rate), "q": math.exp(2 * rate + S)})
    assert found.stats["solver"] == "gaussian"  # log x is: no paths


@pytest.mark.slow
def test_linear_noise_beside_a_drift_that_changes_the_sign() -> None:
    """x' = c − x + x ξ from a negative start: E x and E x² obey closed equations, and x passes zero."""
    found = solved(1 - x(t) + x(t) * xi(t), -1, MOMENTS)
    moment, second = 1 - 2 * math.exp(-1), 0.0
    k = 2 - S  # q' = 2 m − k q, m = 1 − 2 e^{−t}
    second = math.exp(-k) + 2 * (1 - math.exp(-k)) / k - 4 * (math.exp(-1) - math.exp(-k)) / (k - 1)
    holds(found, {"m": moment, "q": second})


@pytest.mark.slow
@pytest.mark.parametrize("sense", ["ito", pytest.param("stratonovich", marks=pytest.mark.slow)])
def test_a_function_of_an_ornstein_uhlenbeck_process(sense: str) -> None:
    """x = sinh y with y' = −y + ξ."""
    root = sqrt(1 + x(t) ** 2)
    drift = -asinh(x(t)) * root + (Rational(1, 8) * x(t) if sense == "ito" else 0)
    v, mean = S * (1 - math.exp(-2)) / 2, math.asinh(1) * math.exp(-1)
    truth = {"m": math.exp(v / 2) * math.sinh(mean), "q": (math.exp(2 * v) * math.cosh(2 * mean) - 1) / 2}
    holds(solved(drift + root * xi(t), 1, MOMENTS, sense), truth)


@pytest.mark.slow
def test_a_power_of_the_unknown_above_one() -> None:
    """x' = x (1 − x) + x^{3/2} ξ (Heston's 3/2 model): the mean of 1/x obeys r' = 1 + S − r."""
    found = solved(x(t) * (1 - x(t)) + x(t) ** Rational(3, 2) * xi(t), 1, {"m": E(1 / x(t))})
    holds(found, {"m": 1 + S - S * math.exp(-1)})


@pytest.mark.parametrize("more", [{"substitute": {x: 1 / (1 + exp(-y(t)))}}, pytest.param({}, marks=pytest.mark.slow)])
def test_a_declared_change_of_variable_and_the_one_found_agree(more: dict[str, Any]) -> None:
    """x(1 − x) ξ: log(x/(1 − x)) is a Brownian motion in Stratonovich's sense."""
    right, observables = x(t) * (1 - x(t)) * xi(t), {"l": E(log(x(t) / (1 - x(t))))}
    holds(solved(right, Rational(1, 5), observables, "stratonovich", **more), {"l": math.log(0.25)})


@pytest.mark.slow
def test_a_random_coefficient_needs_no_sense() -> None:
    second = math.exp(-2) + S * (0.6**3 - 0.2**3) / 1.2 * (1 - math.exp(-2)) / 2
    holds(solved(-x(t) + a * xi(t), 1, MOMENTS, None), {"m": math.exp(-1), "q": second})


def test_the_response_to_the_noise_is_that_to_a_field_beside_it() -> None:
    """x = exp(ξ integrated): ∂x(t)/∂ξ(t') = x(t)."""
    model = System(
        "answered",
        [Eq(x(t).diff(t), x(t) * xi(t)), Eq(R(t, tp), E(Resp(x(t), xi(tp))))],
        laws={xi: White(S, sense="stratonovich")},
        init={x: 1},
        observables={"r": E(x(t))},
    )
    found = eqsolve.solve(model, t_max=1, rtol=1e-2, at2=[(1, 0.5)]).at2([(1, 0.5)])["R"].item()
    assert abs(found - math.exp(S / 2)) < 0.02


def test_steps_in_discrete_time_are_eulers_in_itos_sense() -> None:
    """E x' = (1 + h S/2) E x for Stratonovich's x ξ."""
    found = solved(x(t) * xi(t), 1, {"m": E(x(t))}, "stratonovich", step=0.25)
    assert abs(found.at([1.0])["m"].item() - (1 + 0.25 * S / 2) ** 4) < 3e-3


# --- noise of births and deaths
def births(inflow: float, k: float, sense: str, **more: Any) -> tuple[eqsolve.Result, dict[str, float]]:
    """Return the solution of x' = a − k x + √(x) ξ, ⟨ξξ⟩ = δ, from x = 1 to t = 2, and the moments known of it."""
    gone, strength = math.exp(-2 * k), 1.0
    mean = gone + inflow * (1 - gone) / k
    variance = strength * (gone * (1 - gone) / k + inflow * (1 - gone) ** 2 / (2 * k**2))
    c = strength * (1 - gone) / (4 * k)
    truth = {
        "m": mean,
        "q": variance + mean**2,
        "laplace": (1 + 2 * c) ** (-2 * inflow / strength) * math.exp(-gone / (1 + 2 * c)),
    }
    observables = {**MOMENTS, "laplace": E(exp(-x(t)))}
    if not inflow:
        truth["extinct"] = math.exp(-gone / (2 * c))
        observables["extinct"] = E(Piecewise((1, x(t) < 1e-9), (0, True)))
    constant = inflow - (strength / 4 if sense == "stratonovich" else 0)
    model = System(
        "births",
        [Eq(x(t).diff(t), constant - k * x(t) + sqrt(x(t)) * xi(t))],
        laws={xi: White(1, sense=sense)},
        init={x: 1},
        observables=observables,
    )
    return eqsolve.solve(model, t_max=2, **more), truth


@pytest.mark.parametrize(
    ("inflow", "sense", "rtol"),
    [
        (0.2, "ito", 0.2),
        pytest.param(0.6, "stratonovich", 0.1, marks=pytest.mark.slow),
        pytest.param(0.0, "ito", 0.1, marks=pytest.mark.slow),
    ],
)
def test_births_and_deaths(inflow: float, sense: str, rtol: float) -> None:
    """Feller's diffusion and that of Cox, Ingersoll and Ross: moments, and the probability of extinction."""
    found, truth = births(inflow, 1.0 if inflow else 0.5, sense, rtol=rtol)
    holds(found, truth, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0, Rational(1, 2)])
def test_genetic_drift_stays_between_its_ends(rate: Any) -> None:
    """Wright and Fisher's √(x (1 − x)) ξ beside mutation u (1 − 2x), whose moments close."""
    right, start = rate * (1 - 2 * x(t)) + sqrt(x(t) * (1 - x(t))) * xi(t), 0.2
    result = solved(right, start, {"m": E(x(t)), "h": E(x(t) * (1 - x(t)))}, t_max=2, rtol=6e-2)
    u = float(rate)
    # of m and m₂ the derivatives are u (1 − 2m) and 2u (m − 2m₂) + S (m − m₂)
    m = 0.5 + (start - 0.5) * math.exp(-4 * u)
    falls = 4 * u + S
    square = (
        math.exp(-2 * falls) * start**2
        + quad(lambda s: (2 * u + S) * (0.5 + (start - 0.5) * math.exp(-2 * u * s)) * math.exp(-falls * (2 - s)), 0, 2)[0]
    )
    if not rate:
        assert m - square == pytest.approx(start * (1 - start) * math.exp(-2 * S))
    holds(result, {"m": m, "h": m - square}, 2.0)


@pytest.mark.slow
def test_species_without_variance_settle_to_the_boltzmann_law() -> None:
    """σ = 0: the density of N is N^(ι/T − 1) exp((N (1 − μ m) − N²/2)/T), with m its own mean."""
    mu, iota, T = 1.0, 0.1, 0.1

    def mean(m: float) -> float:
        parts = [quad(lambda n, k=k: n**k * math.exp((n * (1 - mu * m) - n * n / 2) / T), 0, 6, limit=200)[0] for k in (0, 1)]
        return parts[1] / parts[0]  # ι = T: the power is zero

    m = brentq(lambda value: mean(value) - value, 0.01, 2)
    found = eqsolve.solve("lotka_volterra_demographic", sigma=0, mu=mu, iota=iota, T=T, t_max=8, rtol=0.1)
    last = found.at([8.0])
    assert abs(last["m"].item() - m) < 3 * last["m_error"].item()
    assert last["m_error"].item() < 0.1 * m


@pytest.mark.slow
def test_many_species_with_demographic_noise() -> None:
    """Against 8 communities of 1,500 species, followed with steps of 0.01."""
    found = eqsolve.solve("lotka_volterra_demographic", t_max=4, rtol=0.1).at([2.0, 4.0])
    simulated = {"m": ([0.54422, 0.49929], [0.003, 0.0025]), "q": ([0.40639, 0.37718], [0.005, 0.0048])}
    for name, (truth, error) in simulated.items():
        off = np.abs(found[name].values - truth)
        assert (off < 3 * np.hypot(found[f"{name}_error"].values, error)).all(), (name, off)
