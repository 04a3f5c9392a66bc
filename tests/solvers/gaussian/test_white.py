"""Affine systems with white noise, which have no paths to sample: against closed forms, and an independent march."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import besseli, mp, quad, sqrt
from scipy.integrate import solve_ivp
from scipy.special import iv
from scipy.stats import norm
from sympy import Max, Rational, exp, tanh

import eqsolve
from eqsolve import GP, E, Eq, System, White, correlation, param, process, random, times
from eqsolve.laws import Bernoulli, Normal
from eqsolve.numerics.grids import radau
from eqsolve.numerics.operators import continuation

Array = np.ndarray
t, tp = times("t t'")
x, y, eta, xi, zeta = process("x y eta xi zeta")
C = correlation("C")
theta, D = param("theta", positive=True), param("D", nonnegative=True)
FEW = [0.5, 1.0, 2.0, 4.0]
PAIRS = [(2.0, 1.0), (4.0, 0.5), (3.7, 3.6), (4.0, 1.111), (4.0, 4.0)]


@pytest.mark.parametrize("rtol", [1e-3, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_an_ornstein_uhlenbeck_process(rtol: float) -> None:
    """C(t, t') = e^{−θ(t + t')} + D/θ (e^{−θ|t − t'|} − e^{−θ(t + t')}), also between the nodes, and E e^x of the Gaussian."""
    model = System(
        "ou", [Eq(x(t).diff(t), -theta * x(t) + xi(t)), Eq(C(t, tp), E(x(t) * x(tp)))], laws={xi: White(2 * D)},
        init={x: random("x0", Normal(0, 1))}, observables={"q": C(t, t), "grown": E(exp(x(t)))},
    )  # fmt: skip
    res = eqsolve.solve(model, theta=1.5, D=0.7, t_max=4, rtol=rtol, kernels=True)
    assert res.stats["solver"] == "gaussian"
    assert res.status == "ok"

    def exact(late: Array, early: Array) -> Array:
        both = np.exp(-1.5 * (late + early))
        return both + 0.7 / 1.5 * (np.exp(-1.5 * np.abs(late - early)) - both)

    clock = np.array([0.1, 0.777, 1.0, 2.345, 4.0])
    found = res.at(clock)
    for name, truth in (("q", exact(clock, clock)), ("grown", np.exp(exact(clock, clock) / 2))):
        errors = np.abs(found[name].values - truth)
        assert (errors <= rtol * truth).all()
        assert (errors <= 3 * found[name + "_error"].values + 1e-12).all()
    for pair in PAIRS:
        values = res.at2([pair])
        error = abs(values["C"].item() - exact(*np.array(pair)))
        assert error <= min(rtol, 3 * values["C_error"].item() + 1e-12), pair


def independent(late: float, early: float, coupling: float, temperature: float) -> float:
    """C of linear spins with independent couplings: (∂ + 1)(∂' + 1) C = J² C + 2T δ, whose Riemann function is I₀."""

    def kernel(a: float, b: float) -> float:
        return float(mp.exp(-(a + b)) * besseli(0, 2 * coupling * sqrt(a * b)))

    inner = quad(lambda s: kernel(late - s, early - s), [0, min(late, early)])
    return kernel(late, early) + 2 * temperature * float(inner)


def symmetric(late: float, early: float, coupling: float, temperature: float) -> float:
    """C of linear spins with symmetric couplings: Ornstein–Uhlenbeck modes of rates 1 − λ, λ of the semicircle law."""

    def mode(angle: float) -> float:
        rate = 1 - 2 * coupling * mp.cos(angle)
        both = mp.exp(-rate * (late + early))
        return (both + temperature / rate * (mp.exp(-rate * abs(late - early)) - both)) * mp.sin(angle) ** 2 * 2 / mp.pi

    return float(quad(mode, [0, mp.pi]))


@pytest.mark.parametrize(("kappa", "law", "rtol"), [(0, independent, 1e-6), (1, symmetric, 1e-4)])
@pytest.mark.slow
def test_linear_soft_spins(kappa: int, law: object, rtol: float) -> None:
    res = eqsolve.solve("soft_spin", u=0, T=0.5, J=0.4, kappa=kappa, t_max=4, at=FEW, rtol=rtol)
    assert res.stats["solver"] == "gaussian"
    found = res.at(FEW)
    errors = np.abs(found["q"].values - [law(time, time, 0.4, 0.5) for time in FEW])
    assert errors.max() < rtol
    assert (errors <= 3 * found["q_error"].values).all()
    for pair in PAIRS:
        values = res.at2([pair])
        error = abs(values["C"].item() - law(*pair, 0.4, 0.5))
        assert error < 2 * rtol, pair  # between nodes, and not watched
        assert error <= 3 * values["C_error"].item(), pair
        lag = pair[0] - pair[1]
        answer = np.exp(-lag) * (iv(1, 0.8 * lag) / (0.4 * lag) if kappa and lag else 1.0)
        assert abs(values["R"].item() - answer) <= 3 * values["R_error"].item(), pair


def march(gain: float, strength: float, end: float, steps: int) -> Array:
    """C of x' = −x + η + ξ, ⟨ηη'⟩ = g² E φ φ', by Heun's steps of C along its rows; E φ φ' by a rule over the plane."""
    h = end / steps
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def average(first: Array, both: Array, second: Array) -> Array:
        a, b = np.sqrt(first)[:, None, None] * points[:, None], (both / np.sqrt(first))[:, None, None] * points[:, None]
        b = b + np.sqrt(np.maximum(second - both**2 / first, 0))[:, None, None] * points
        return np.einsum("nij,i,j->n", np.tanh(a) * np.tanh(b), weights, weights)

    c, s, q = (np.zeros((steps + 1, steps + 1)) for _ in range(3))  # E x x', E x η', g² E φ φ'
    c[0, 0], q[0, 0] = 1.0, gain**2 * average(*np.ones((3, 1)))[0]
    for n in range(1, steps + 1):
        c[n, :n], c[n, n], s[n, :n] = c[n - 1, :n], c[n - 1, n - 1], s[n - 1, :n]
        for _ in range(4):  # the implicit trapezoidal step, iterated; x(t_j) knows of no later white noise
            q[n, : n + 1] = gain**2 * average(np.diag(c)[: n + 1], c[n, : n + 1], np.full(n + 1, c[n, n]))
            q[:n, n] = q[n, :n]
            s[: n + 1, n] = 0.0  # E x(t_j) η(t_n): x(t_j) = Σ over its own past
            for j in range(1, n + 1):
                s[j, n] = (s[j - 1, n] * (1 - h / 2) + h / 2 * (q[j - 1, n] + q[j, n])) / (1 + h / 2)
            s[n, :n] = (s[n - 1, :n] * (1 - h / 2) + h / 2 * (q[n - 1, :n] + q[n, :n])) / (1 + h / 2)
            c[n, :n] = (c[n - 1, :n] * (1 - h / 2) + h / 2 * (s[:n, n - 1] + s[:n, n])) / (1 + h / 2)
            known = c[n - 1, n - 1] * (1 - h / 2) ** 2 + 2 * strength * h
            drive = (1 - h / 2) * h * (s[n - 1, n - 1] + s[n - 1, n])
            noise = h**2 / 4 * (q[n - 1, n - 1] + 2 * q[n - 1, n] + q[n, n])
            c[n, n] = (known + drive + noise) / (1 + h / 2) ** 2
    return np.array([c[steps, steps], c[steps, steps // 2], c[steps // 2, steps // 2]])


@pytest.mark.slow
def test_a_network_with_noise() -> None:
    rough, fine, finest = (march(1.2, 0.25, 1.0, steps) for steps in (8, 16, 32))
    first, second = (4 * fine - rough) / 3, (4 * finest - fine) / 3
    truth = (16 * second - first) / 15
    assert np.abs(truth - second).max() < 1e-6
    pairs = [(1.0, 1.0), (1.0, 0.5), (0.5, 0.5)]
    res = eqsolve.solve("noisy_rnn", gain=1.2, D=0.25, t_max=1, at2=pairs, rtol=1e-6)
    found = res.at2(pairs)
    assert res.stats["solver"] == "gaussian"
    assert np.abs(found["C"].values - truth).max() < 2e-7


def test_constants_strengths_in_time_and_two_noises() -> None:
    """x' = (1 + t) ξ + a, y' = −y + ξ + ζ with the same ξ, a = 0 or 1 with odds 3 : 1."""
    a = random("a", Bernoulli(Rational(1, 4)))
    model = System(
        "two",
        [Eq(x(t).diff(t), (1 + t) * xi(t) + a), Eq(y(t).diff(t), -y(t) + xi(t) + zeta(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={xi: White(2), zeta: White(t)}, init={x: 0, y: 0},
        observables={"xx": E(x(t) ** 2), "xy": E(x(t) * y(t)), "yy": E(y(t) ** 2)},
    )  # fmt: skip
    res = eqsolve.solve(model, t_max=1, rtol=1e-5)
    found = res.at([1.0])
    fall = np.exp(-2.0)
    truth = {
        "xx": 2 * 7 / 3 + 0.25, "xy": 2.0,  # 2 ∫ (1 + s) e^{s − 1} ds
        "yy": (1 - fall) + (0.5 - (1 - fall) / 4),  # 2 ∫ e^{2(s − 1)}, ∫ s e^{2(s − 1)}
    }  # fmt: skip
    for name, value in truth.items():
        assert abs(found[name].item() - value) < 1e-5 * value, name
        assert abs(found[name].item() - value) <= 3 * found[name + "_error"].item() + 1e-12, name


def test_paths_are_drawn_from_the_law() -> None:
    res = eqsolve.solve("noisy_rnn", gain=1.2, t_max=2, rtol=1e-3)
    paths = res.dataset["x"].values
    size = float(res.dataset["q"][-1])
    assert abs((paths[:, -1] ** 2).mean() / size - 1) < 5 * np.sqrt(2 / len(paths))


def test_the_strength_may_follow_from_the_means() -> None:
    """x' = −x + ξ with ⟨ξξ⟩ = (1 + E tanh(x)²) δ is not closed; with E[x²] it is: dq/dt = −2q + q."""
    model = System(
        "own", [Eq(x(t).diff(t), -x(t) + xi(t)), Eq(C(t, tp), E(x(t) * x(tp)))], laws={xi: White(C(t, t))},
        init={x: Normal(0, 1)}, observables={"q": C(t, t)},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=2, rtol=1e-6).at([2.0])
    assert abs(found["q"].item() - np.exp(-2)) < 1e-6 * np.exp(-2)


def test_the_choice_and_what_it_may_be_overridden_by() -> None:
    explained = eqsolve.explain("noisy_rnn").solver
    assert explained.name == "gaussian"
    assert "no paths" in explained.reason
    assert dict(explained.others)["stochastic"].startswith("also applicable")


@pytest.mark.parametrize("order", [3, 5, 8])
def test_polynomials_are_continued_across_the_diagonal(order: int) -> None:
    c = np.append(0.0, radau(order).nodes)
    rng = np.random.default_rng(order)
    table = sum(rng.normal() * np.outer(c**p, c**q) for p in range(order + 1) for q in range(order + 1 - p))
    matrix = continuation(order)
    made = matrix @ table[np.tril_indices(order + 1)]
    rounding = np.finfo(float).eps * np.abs(matrix).sum(axis=1).max() * np.abs(table).max()  # 2e-13, 2e-11, 2e-8
    assert np.abs(made - table[np.triu_indices(order + 1, 1)]).max() < rounding


@pytest.mark.slow
def test_a_kink_and_a_white_noise() -> None:
    """E max(x, 0) E x² of an Ornstein–Uhlenbeck process that is driven by its own mean rate: two equations of moments."""
    f = eqsolve.function("f")
    model = System(
        "mean", [Eq(x(t).diff(t), -x(t) + f(t) + xi(t)), Eq(f(t), E(Max(x(t), 0)))], laws={xi: White(1)},
        init={x: random("x0", Normal(0, 1))}, observables={"rate": E(Max(x(t), 0)), "centre": E(x(t))},
    )  # fmt: skip

    def rate(centre: float, size: float) -> float:
        return float(centre * norm.cdf(centre / size) + size * norm.pdf(centre / size))

    def flow(time: float, centre: Array) -> list[float]:
        return [-centre[0] + rate(centre[0], np.sqrt(0.5 + 0.5 * np.exp(-2 * time)))]

    truth = float(solve_ivp(flow, (0, 1), [0.0], rtol=1e-10, atol=1e-12).y[0, -1])
    found = eqsolve.solve(model, t_max=1, rtol=1e-5).at([1.0])
    assert abs(found["centre"].item() - truth) < 1e-5 * truth


def test_noise_that_is_coloured_and_white() -> None:
    """x' = −x + η + ξ with ⟨ηη'⟩ = e^{−|t − t'|}, itself with a kink: E x² in closed form."""
    model = System(
        "coloured", [Eq(x(t).diff(t), -x(t) + eta(t) + xi(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={eta: GP(exp(-abs(t - tp))), xi: White(1)}, init={x: 0}, observables={"q": C(t, t), "bound": E(tanh(x(t)) ** 2)},
    )  # fmt: skip
    clock = np.array([0.5, 1.0])
    res = eqsolve.solve(model, t_max=1, at=clock, rtol=1e-4)
    truth = (1 - np.exp(-2 * clock)) / 2 + (1 - np.exp(-2 * clock)) / 2 - clock * np.exp(-2 * clock)
    found = res.at(clock)
    assert (np.abs(found["q"].values - truth) < 1e-5 * truth).all()


def test_a_function_that_vanishes_by_symmetry_is_held_against_what_cancels() -> None:
    from sympy import erf

    from eqsolve import function

    r = function("r")
    model = System(
        "odd",
        [Eq(r(t), E(erf(x(t)))), Eq(x(t).diff(t), -x(t) + xi(t))],
        laws={xi: White(1)},
        init={x: random("x0", Normal(0, 1))},
        observables={"rate": r(t)},
    )
    res = eqsolve.solve(model, t_max=1, rtol=1e-4)
    assert res.status == "ok"
    assert np.abs(res.dataset["rate"].values).max() < 1e-12
