"""Systems that are affine in Gaussian drives: against closed forms, independent solvers and classical limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from sympy import Abs, Heaviside, Max, Piecewise, erf, exp, tanh

import eqsolve
from eqsolve import GP, E, Eq, System, correlation, param, process, random, times
from eqsolve.laws import Bernoulli, Normal, Uniform

Array = np.ndarray
t, tp = times("t t'")
x, y, eta, zeta = process("x y eta zeta")
C, D = correlation("C D")
gain = param("gain", nonnegative=True)
x0, y0 = random("x0", Normal(0, 1)), random("y0", Normal(0, 1))
LARGEST = 3.0


def network(rate: Callable) -> System:
    """A random network with rates of any kind."""
    return System(
        "network", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + eta(t))],
        laws={eta: GP(gain**2 * E(rate(x(t)) * rate(x(tp))))}, init={x: x0}, defaults={gain: 1},
        observables={"q": C(t, t), "rates": E(rate(x(t)) ** 2)},
    )  # fmt: skip


def marched(kernel: Callable[[Array, Array, Array], Array], gain: float, end: float, count: int = 41) -> tuple[Array, Array]:
    """Return times and C of C = e⁻ᵗe⁻ˢ + g² K Q Kᵀ on Chebyshev points, Q = kernel(E x², E y², E x y) in closed form."""
    nodes = (1 - np.cos(np.pi * np.arange(count) / (count - 1))) / 2 * end
    basis = np.cos(np.arange(count) * np.arccos(np.clip(1 - 2 * nodes[:, None] / end, -1, 1)))
    sums = np.zeros_like(basis)
    for k in range(count):
        integral = np.polynomial.chebyshev.chebint(np.eye(count)[k][: k + 1], lbnd=1)
        sums[:, k] = -np.polynomial.chebyshev.chebval(1 - 2 * nodes / end, integral) * end / 2
    operator = sums @ np.linalg.inv(basis)
    memory = np.linalg.solve(np.eye(count) + operator, operator)
    start = np.outer(np.exp(-nodes), np.exp(-nodes))
    table = start
    for _ in range(200):
        variances = np.maximum(np.diag(table), 1e-300)
        new = start + gain**2 * memory @ kernel(variances[:, None], variances[None, :], table) @ memory.T
        change, table = np.abs(new - table).max(), new
        if change < 1e-12:
            break
    return nodes, table


def arcsine(a: Array, b: Array, c: Array) -> Array:
    """Return E erf(x) erf(y) (Williams 1997)."""
    return 2 / np.pi * np.arcsin(np.clip(2 * c / np.sqrt((1 + 2 * a) * (1 + 2 * b)), -1, 1))


def arc_cosine(a: Array, b: Array, c: Array) -> Array:
    """Return E max(x, 0) max(y, 0) (Cho & Saul 2009)."""
    size = np.sqrt(a * b)
    rho = np.clip(c / size, -1, 1)
    return size / (2 * np.pi) * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho)


def demand_honest(result: eqsolve.Result, moments: Array, truth: dict[str, Array], slack: float = 1e-11) -> None:
    found = result.at(moments)
    for name, values in truth.items():
        error = np.abs(found[name].values - values)
        assert (error <= LARGEST * found[f"{name}_error"].values + slack).all(), name


# --- networks --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rtol", [1e-2, 1e-6])
def test_chaotic_network(rtol: float) -> None:
    """Gain 2, C at a few pairs by Chebyshev points and two-dimensional quadrature; good to the digits given."""
    result = eqsolve.solve("rnn", gain=2, t_max=10, rtol=rtol, kernels=True)
    assert result.status == "ok"
    assert result.stats["solver"] == "gaussian"
    pairs, truth = [(10, 10), (10, 5), (5, 5)], np.array([1.8446723003, 0.6127988616, 1.5524510932])
    found = result.at2(pairs)
    error = np.abs(found["C"].values - truth)
    assert (error <= LARGEST * found["C_error"].values + 2e-10).all()
    assert (error <= rtol * truth.max()).all()


@pytest.mark.parametrize(
    ("rate", "kernel", "strength", "rtol"),
    [
        (erf, arcsine, 1.5, 1e-3),
        (lambda u: Max(u, 0), arc_cosine, 1.2, 1e-2),
        pytest.param(lambda u: Max(u, 0), arc_cosine, 1.2, 1e-6, marks=pytest.mark.slow),
    ],
)
def test_networks_whose_rates_average_in_closed_form(rate: Callable, kernel: Callable, strength: float, rtol: float) -> None:
    nodes, table = marched(kernel, strength, 4.0)
    variances = np.diag(table)
    result = eqsolve.solve(network(rate), gain=strength, t_max=4, rtol=rtol)
    assert result.status == "ok", result.message
    truth = {"q": variances, "rates": kernel(variances, variances, variances)}
    demand_honest(result, nodes, truth, 1e-10)
    assert (np.abs(result.at(nodes)["q"].values - variances) <= rtol * variances.max()).all()


def classical(gain: float, taus: Array) -> Array:
    """Return the stationary C(τ): Δ'' = Δ − g² E[tanh tanh](Δ) from Δ'(0) = 0 to 0, by the energy that it conserves."""
    line = np.arange(-9, 9.01, 0.05)
    mass = np.exp(-(line**2) / 2) / np.exp(-(line**2) / 2).sum()

    def pair(function: Callable[[Array], Array], now: float, first: float) -> float:
        rho = now / first
        other = np.sqrt(first) * (rho * line[:, None] + np.sqrt(max(1 - rho**2, 0.0)) * line)
        return float((function(np.sqrt(first) * line) * mass) @ (function(other) @ mass))

    def energy(first: float) -> float:
        def potential(u: Array) -> Array:
            return np.logaddexp(u, -u) - np.log(2)

        return -(first**2) / 2 + gain**2 * (
            pair(potential, first, first) - float(mass @ potential(np.sqrt(first) * line)) ** 2
        )

    first = brentq(energy, 0.05, 5.0, xtol=1e-12)
    path = solve_ivp(lambda _, u: [u[1], u[0] - gain**2 * pair(np.tanh, u[0], first)], (0, taus[-1]), [first, 0.0],
                     rtol=1e-9, atol=1e-11, t_eval=taus)  # fmt: skip
    return path.y[0]


@pytest.mark.slow
def test_late_times_are_those_of_the_classical_particle() -> None:
    """Sompolinsky, Crisanti & Sommers 1988: at late times C depends on the time between and rolls down a potential."""
    taus = np.array([0.0, 1, 2, 3, 4, 6])
    truth = classical(1.5, taus)
    result = eqsolve.solve("rnn", gain=1.5, t_max=100, rtol=1e-4, kernels=True)
    assert result.status == "ok"
    gaps = [np.abs(result.at2([(mid + u / 2, mid - u / 2) for u in taus])["C"].values - truth).max() for mid in (20, 50, 95)]
    assert gaps[2] < gaps[1] < gaps[0]  # it is approached
    assert gaps[2] <= 5e-3 * truth[0]  # the transient that is left at t = 95, a thousand times the error of the solve


def test_equal_populations_are_one() -> None:
    """The excitatory–inhibitory network without mean couplings, variances adding up alike: each population is `rnn`."""
    strength, still = 1.7, dict.fromkeys(["J_ee", "J_ei", "J_ie", "J_ii", "h_e", "h_i"], 0)
    shares = {"g_ee": 0.6 * strength, "g_ei": 0.8 * strength, "g_ie": 0.8 * strength, "g_ii": 0.6 * strength}
    both = eqsolve.solve("rnn_ei", t_max=5, rtol=1e-4, **shares, **still)
    one = eqsolve.solve("rnn", t_max=5, rtol=1e-5, gain=strength)
    moments = np.linspace(0, 5, 11)
    here, there = both.at(moments), one.at(moments)
    for name in ("q_e", "q_i"):
        gap = np.abs(here[name].values - there["q"].values)
        assert (gap <= LARGEST * (here[f"{name}_error"].values + there["q_error"].values)).all()
    assert np.abs(here["r_e"].values).max() <= 1e-12


@pytest.mark.slow
def test_populations_with_means_agree_with_paths() -> None:
    exact = eqsolve.solve("rnn_ei", t_max=3, rtol=1e-5)
    sampled = eqsolve.solve("rnn_ei", t_max=3, rtol=1e-2, solver="stochastic")
    moments = np.linspace(0, 3, 7)[1:]
    truth = {name: exact.at(moments)[name].values for name in ("q_e", "q_i", "r_e", "r_i")}
    demand_honest(sampled, moments, truth)


# --- linear systems ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rtol", [1e-4, pytest.param(1e-10, marks=pytest.mark.slow)])
def test_a_linear_drive_in_closed_form(rtol: float) -> None:
    """x' = −x + a + b t from a random start of mean 1/2; E|x|, P(x > 1/2) and a cut-off mean as well."""
    from scipy.special import ndtr

    begun = random("begun", Normal(0.5, 0.3))
    observables = {
        "q": C(t, t), "size": E(Abs(x(t))), "above": E(Heaviside(x(t) - 0.5)),
        "cut": E(Piecewise((x(t), x(t) > 0.5), (0, True))),
    }  # fmt: skip
    model = System(
        "driven", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + eta(t))], laws={eta: GP(1 + t * tp)},
        init={x: begun}, observables=observables,
    )  # fmt: skip
    moments = np.linspace(0.1, 3, 30)
    steady, rising = 1 - np.exp(-moments), moments - 1 + np.exp(-moments)
    variance, mean = steady**2 + rising**2 + 0.3 * np.exp(-2 * moments), 0.5 * np.exp(-moments)
    s = np.sqrt(variance)
    density = lambda u: np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    truth = {
        "q": variance + mean**2,
        "size": 2 * s * density(mean / s) + mean * (2 * ndtr(mean / s) - 1),
        "above": ndtr((mean - 0.5) / s),
        "cut": mean * ndtr((mean - 0.5) / s) + s * density((mean - 0.5) / s),
    }
    result = eqsolve.solve(model, t_max=3, rtol=rtol)
    assert result.status == "ok", result.message
    demand_honest(result, moments, truth, 1e-13)
    for name, values in truth.items():
        assert (np.abs(result.at(moments)[name].values - values) <= rtol * values.max() + 1e-13).all(), name


def test_ridge_regression_with_responses() -> None:
    """The mean-field equations of a flow, with memory through responses, against the closed system without processes."""
    moments = np.array([0.3, 1.0, 3.0])
    closed = eqsolve.solve("linear_regression", t_max=3, rtol=1e-8).at(moments)
    result = eqsolve.solve("linear_flow", t_max=3, rtol=1e-5)
    assert result.stats["solver"] == "gaussian"
    demand_honest(result, moments, {name: closed[name].values for name in ("E_train", "E_test")})


# --- constants that are not Gaussian ---
def test_atoms_and_densities_are_conditioned_on() -> None:
    """x' = −k x + η with a random rate k, and a start that is one of two numbers."""
    rate, side = random("rate", Uniform(0.5, 1.5)), random("side", Bernoulli(0.3))
    model = System(
        "mixed", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -rate * x(t) + eta(t))],
        laws={eta: GP(exp(t - tp) * 0 + 1)}, init={x: 2 * side - 1}, observables={"q": C(t, t), "fourth": E(x(t) ** 4)},
    )  # fmt: skip
    result = eqsolve.solve(model, t_max=2, rtol=1e-4)
    assert result.stats["solver"] == "gaussian"
    moments = np.linspace(0.2, 2, 10)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    k, mass = 1 + nodes[:, None] / 2, weights / 2
    mean, spread = np.exp(-k * moments), (1 - np.exp(-k * moments)) / k  # of ±1, and of the drive, constant in time
    truth = {"q": mass @ (mean**2 + spread**2), "fourth": mass @ (mean**4 + 6 * mean**2 * spread**2 + 3 * spread**4)}
    demand_honest(result, moments, truth, 1e-10)
    law = result.law("x", 2.0)
    assert law.mean() == pytest.approx(float(-0.4 * (mass @ mean)[-1]), abs=0.02)


def test_a_law_given_instead_of_a_gaussian_one() -> None:
    """The plan is made for a Gaussian start; another law is conditioned on."""
    result = eqsolve.solve("rnn", gain=0, t_max=1, rtol=1e-6, x0="Rademacher()")
    np.testing.assert_allclose(result.at([1.0])["phi2"].values, np.tanh(np.exp(-1)) ** 2, rtol=1e-6)


# --- several variables at one time ---
def test_products_of_two_processes() -> None:
    """E[x y] and E[x(t) y(t) x(t') y(t')] of independent processes factorise; E[x(t) tanh y(t)] of one drive is Stein's."""
    model = System(
        "two", eqs=[
            Eq(x(t).diff(t), -x(t) + eta(t)), Eq(y(t).diff(t), -2 * y(t) + zeta(t)),
            Eq(C(t, tp), E(x(t) * x(tp))), Eq(D(t, tp), E(x(t) * y(t) * x(tp) * y(tp))),
        ],
        laws={eta: GP(1 + t * tp), zeta: GP(1 + 0 * t * tp)}, init={x: x0, y: y0},
        observables={"pair": D(t, t), "q": C(t, t), "mixed": E(x(t) * tanh(x(t) + y(t)))},
    )  # fmt: skip
    result = eqsolve.solve(model, t_max=2, rtol=1e-6)
    assert result.stats["solver"] == "gaussian"
    moments = np.linspace(0.2, 2, 7)
    steady, rising = 1 - np.exp(-moments), moments - 1 + np.exp(-moments)
    one = steady**2 + rising**2 + np.exp(-2 * moments)
    two = ((1 - np.exp(-2 * moments)) / 2) ** 2 + np.exp(-4 * moments)
    line = np.arange(-9, 9.01, 0.05)
    mass = np.exp(-(line**2) / 2) / np.exp(-(line**2) / 2).sum()
    stein = np.array([a * mass @ (1 - np.tanh(np.sqrt(a + b) * line) ** 2) for a, b in zip(one, two, strict=True)])
    demand_honest(result, moments, {"q": one, "pair": one * two, "mixed": stein}, 1e-10)


# --- when it is not chosen ---
def test_what_is_not_gaussian_says_why() -> None:
    with pytest.raises(eqsolve.UsageError, match="the equation of `theta` is not linear along a path"):
        eqsolve.solve("dln", t_max=1, solver="gaussian")
    assert "Gaussian, no paths" in str(eqsolve.explain("rnn"))
    assert eqsolve.solve("rnn", t_max=1, rtol=1e-2, solver="stochastic").stats["solver"] == "stochastic"
    assert eqsolve.solve("rnn", t_max=1, step=0.1, rtol=1e-2).stats["solver"] == "stochastic"


def test_the_log_names_what_asks_for_a_finer_grid(caplog):
    caplog.set_level("INFO", logger="eqsolve")
    eqsolve.solve("rnn", gain=2, at=[2], rtol=1e-2)
    assert "of `C`" not in caplog.text
    caplog.clear()
    eqsolve.solve("rnn", gain=2, at=[2], at2=[(2, 1)], rtol=1e-2)
    assert "the error of `C` is " in caplog.text


def test_a_declared_covariance_with_a_kink() -> None:
    """A trapped particle, driven by an Ornstein–Uhlenbeck process: c = E x z and q = E x² obey c' = 1 − 3c/2, q' = 2c − q."""
    model = System(
        "driven", eqs=[Eq(x(t).diff(t), -x(t) / 2 + eta(t))], laws={eta: GP(exp(-Abs(t - tp)))}, init={x: 0},
        observables={"q": E(x(t) ** 2)},
    )  # fmt: skip
    moments = np.array([0.1, 0.5, 1.0, 2.0, 3.0])
    motion = solve_ivp(lambda _, b: [1 - 1.5 * b[0], 2 * b[0] - b[1]], (0, 3), [0, 0], t_eval=moments, rtol=1e-11, atol=1e-13)
    found = eqsolve.solve(model, t_max=3).at(moments)
    assert np.all(np.abs(found["q"].values - motion.y[1]) <= 3 * found["q_error"].values)
    assert np.all(found["q_error"].values <= 1e-3 * motion.y[1].max())
