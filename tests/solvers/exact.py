"""Systems with known solutions, the shared yardstick of the solvers.

A ``Case`` is a model, its settings, and closed forms of its unknowns and observables: functions of an array of
times or, for kernels, of two arrays t ≥ t'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ive
from sympy import cos, exp, integrate, sin, sqrt

import eqsolve
from eqsolve import Eq, Int, Result, System, correlation, function, param, response, times
from eqsolve.spectra import MarchenkoPastur

MODELS = Path(__file__).resolve().parents[2] / "models"
Array = np.ndarray
Form = Callable[..., Array]


@dataclass(frozen=True)
class Case:
    """A system whose solution is known."""

    name: str
    model: Callable[[], System]
    curves: Mapping[str, Form]
    kernels: Mapping[str, Form] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: float = 0.0
    t_max: float = 10.0
    tight: bool = True  # whether 1e-9 is reached in a second or two

    def solve(self, **options: Any) -> Result:
        return eqsolve.solve(self.model(), **{"t_max": self.t_max, **options}, params=self.settings)


def load(name: str) -> Callable[[], System]:
    return lambda: eqsolve.load(str(MODELS / f"{name}.py"))


def random_pairs(start: float, end: float, count: int = 400, seed: int = 5) -> Array:
    """Pairs t ≥ t' that cover the triangle, with some on the diagonal, some near it, some at early times."""
    rng = np.random.default_rng(seed)
    t = start + (end - start) * rng.random(count)
    tp = start + (t - start) * rng.random(count)
    quarter = count // 4
    tp[:quarter] = np.maximum(start, t[:quarter] - 10.0 ** -rng.uniform(1, 6, quarter))
    t[quarter : 2 * quarter] = start + (end - start) * 10.0 ** -rng.uniform(0, 4, quarter)
    tp[quarter : 2 * quarter] = start + (t[quarter : 2 * quarter] - start) * rng.random(quarter)
    tp[-quarter // 2 :] = t[-quarter // 2 :]
    return np.stack([t, tp], axis=1)


# --- models of the repository -----------------------------------------------------------------------------------
def lazy(delta: float, sigma2: float, rho2: float = 0.1) -> Case:
    law = MarchenkoPastur(delta)
    noise = sigma2 / delta
    nodes, weights = (column[int(delta < 1) :] for column in law.quadrature(200))  # without the atom at 0

    def grown(t: Array) -> Array:
        return -np.expm1(-np.multiply.outer(t, nodes))

    def C_w(t: Array, tp: Array) -> Array:
        return rho2 * law.laplace(t + tp) + noise * (grown(t) * grown(tp) @ (weights / nodes))

    def C_f(t: Array, tp: Array) -> Array:
        return rho2 * law.laplace(t + tp, 1) + noise * (law.laplace(t + tp) + delta - 1)

    return Case(
        f"lazy-{delta:g}-{sigma2:g}",
        load("dln_lazy"),
        {"E_train": lambda t: C_f(t, t), "E_test": lambda t: C_w(t, t) + sigma2},
        {
            "C_w": C_w,
            "C_f": C_f,
            "R_w": lambda t, tp: law.laplace(t - tp) / delta,
            "R_f": lambda t, tp: law.laplace(t - tp, 1) / delta,
        },
        {"delta": delta, "sigma2": sigma2, "rho2": rho2},
    )


def regression(delta: float, lam: float, sigma2: float, rho2: float = 0.1) -> Case:
    law = MarchenkoPastur(delta)
    nodes, weights = law.quadrature(200)

    def mean(values: Array) -> Array:
        return values @ weights

    def phi(t: Array) -> Array:
        return -np.expm1(-np.multiply.outer(t, nodes + lam)) / (nodes + lam)

    def rest(t: Array) -> Array:
        return 1 - nodes * phi(t)

    def C_w(t: Array, tp: Array) -> Array:
        return rho2 * mean(rest(t) * rest(tp)) + sigma2 / delta * mean(nodes * phi(t) * phi(tp))

    def C_f(t: Array, tp: Array) -> Array:
        return rho2 * mean(nodes * rest(t) * rest(tp)) + sigma2 / delta * (mean(rest(t) * rest(tp)) + delta - 1)

    return Case(
        f"regression-{delta:g}-{lam:g}",
        load("linear_regression"),
        {
            "m": lambda t: rho2 * mean(rest(t)),
            "E_train": lambda t: C_f(t, t),
            "E_test": lambda t: C_w(t, t) + sigma2,
        },
        {
            "C_w": C_w,
            "C_f": C_f,
            "R_w": lambda t, tp: np.exp(-lam * (t - tp)) * law.laplace(t - tp) / delta,
            "R_f": lambda t, tp: np.exp(-lam * (t - tp)) * law.laplace(t - tp, 1) / delta,
        },
        {"delta": delta, "lam": lam, "sigma2": sigma2, "rho2": rho2},
    )


def two_spin() -> Case:
    """p = 2 at zero temperature: independent modes, f(τ) = I₁(2τ)/τ being E[e^{xτ}] over the semicircle law."""

    def log_f(tau: Array) -> Array:
        tau = np.maximum(tau, 1e-12)
        return np.log(ive(1, 2 * tau) / tau) + 2 * tau

    def mu(t: Array) -> Array:
        tau = np.maximum(2 * t, 1e-12)
        return 2 * ive(2, 2 * tau) / ive(1, 2 * tau)

    return Case(
        "two-spin",
        load("pspin"),
        {"mu": mu, "energy": lambda t: -mu(t) / 2},
        {
            "C": lambda t, tp: np.exp(log_f(t + tp) - (log_f(2 * t) + log_f(2 * tp)) / 2),
            "R": lambda t, tp: np.exp((log_f(2 * tp) - log_f(2 * t)) / 2 + log_f(t - tp)),
        },
        {"p": 2, "T": 0},
    )


def search(delta: float, lam: float, sigma2: float) -> Case:
    """Search phase: W = e^{−λt} sinh(ct), c Gaussian around w* = 1 (probability 1/10) or 0."""
    variance = (0.1 + sigma2) / delta

    def W_mean(t: Array) -> Array:
        return np.exp(variance * t**2 / 2 - lam * t) * 0.1 * np.sinh(t)

    def W2(t: Array) -> Array:
        growth = 0.9 + 0.1 * np.cosh(2 * t)
        return np.exp(-2 * lam * t) * (np.exp(2 * variance * t**2) * growth - 1) / 2

    settings = {"delta": delta, "lam": lam, "sigma2": sigma2}
    return Case(f"search-{delta:g}", load("dln_search"), {"W_mean": W_mean, "W2": W2}, {}, settings, t_max=2.0)


# --- small systems ------------------------------------------------------------------------------------------------
t, tp, s = times("t t' s")


def oscillator() -> Case:
    """y'' + y = 0 as two equations, one of them through memory."""
    y, z = function("y z")
    model = System(
        "oscillator",
        eqs=[Eq(y(t).diff(t), z(t)), Eq(z(t), 1 - Int(y(s), (s, 0, t)))],
        init={y: 0},
        observables={"energy": (y(t) ** 2 + z(t) ** 2) / 2},
    )
    return Case("oscillator", lambda: model, {"y": np.sin, "z": np.cos, "energy": lambda t: np.full_like(t, 0.5)})


def stiff() -> Case:
    """A fast relaxation towards a slow solution, cos t, with memory."""
    y = function("y")
    rate = param("rate", positive=True)
    model = System(
        "stiff",
        eqs=[Eq(y(t).diff(t), -rate * (y(t) - cos(t)) - 2 * sin(t) + Int(y(s), (s, 0, t)))],
        init={y: 1},
        defaults={rate: 1000},
    )
    return Case("stiff", lambda: model, {"y": np.cos}, {}, {"rate": 1000})


def late_start() -> Case:
    """Memory that begins at t = 1: y = e^{1−t}."""
    y = function("y")
    begin = param("begin")
    model = System(
        "late_start",
        eqs=[Eq(y(t).diff(t), -1 + Int(y(s), (s, begin, t)))],
        init={y: 1},
        defaults={begin: 1},
        start=begin,
    )
    return Case("late-start", lambda: model, {"y": lambda t: np.exp(1 - t)}, {}, {"begin": 1}, start=1.0, t_max=6.0)


def ornstein_uhlenbeck(temperature: float = 0.7, variance: float = 0.2) -> Case:
    """x' = −x + √(2T) ξ: the correlation has a cusp on the diagonal, made by the white noise 2T R(t', t)."""
    C, R = correlation("C"), response("R")
    T, v = param("T v", nonnegative=True)
    model = System(
        "ornstein_uhlenbeck",
        eqs=[
            Eq(R(t, tp).diff(t), -R(t, tp)),
            Eq(C(t, tp).diff(t), -C(t, tp) + 2 * T * R(tp, t)),
        ],
        init={R(t, t): 1, C(0, 0): v},
        defaults={T: 0.7, v: 0.2},
        observables={"variance": C(t, t)},
    )

    def correlations(t: Array, tp: Array) -> Array:
        return variance * np.exp(-t - tp) + temperature * (np.exp(tp - t) - np.exp(-t - tp))

    return Case(
        "ornstein-uhlenbeck",
        lambda: model,
        {"variance": lambda t: correlations(t, t)},
        {"R": lambda t, tp: np.exp(tp - t), "C": correlations},
        {"T": temperature, "v": variance},
        t_max=5.0,
    )


def coloured_noise(temperature: float = 0.7) -> Case:
    """x' = −x + η, E[η(t)η(t')] = 2T e^{−2|t−t'|}, from x = 0: no cusp in C but one in the noise that drives it."""
    C, D = correlation("C D")
    R = response("R")
    T = param("T", nonnegative=True)
    model = System(
        "coloured_noise",
        eqs=[
            Eq(R(t, tp).diff(t), -R(t, tp)),
            Eq(D(t, tp).diff(t), -2 * D(t, tp)),
            Eq(C(t, tp).diff(t), -C(t, tp) + Int(D(t, s) * R(tp, s), (s, 0, tp))),
        ],
        init={R(t, t): 1, D(t, t): 2 * T, C(0, 0): 0},
        defaults={T: 0.7},
        observables={"variance": C(t, t)},
    )

    def correlations(t: Array, tp: Array) -> Array:
        gap = t - tp
        stationary = (2 * np.exp(-gap) - np.exp(-2 * gap)) / 3
        transient = (np.exp(-t - 2 * tp) + np.exp(-2 * t - tp)) / 3 - np.exp(-t - tp)
        return 2 * temperature * (stationary + transient)

    return Case(
        "coloured-noise",
        lambda: model,
        {"variance": lambda t: correlations(t, t)},
        {
            "R": lambda t, tp: np.exp(tp - t),
            "D": lambda t, tp: 2 * temperature * np.exp(-2 * (t - tp)),
            "C": correlations,
        },
        {"T": temperature},
        t_max=5.0,
    )


def resolvent() -> Case:
    """R = K − K∘R for K = e^{−(t−t')}: R = e^{−2(t−t')}."""
    R, K = response("R K")
    model = System(
        "resolvent",
        eqs=[
            Eq(K(t, tp), exp(tp - t)),
            Eq(R(t, tp), K(t, tp) - Int(K(t, s) * R(s, tp), (s, tp, t))),
        ],
        observables={"whole": Int(R(t, s), (s, 0, t))},
    )
    return Case(
        "resolvent",
        lambda: model,
        {"whole": lambda t: (1 - np.exp(-2 * t)) / 2},
        {"K": lambda t, tp: np.exp(tp - t), "R": lambda t, tp: np.exp(2 * (tp - t))},
        t_max=5.0,
    )


def multiplier() -> Case:
    """A one-time multiplier with memory of itself, μ = 1/(1 + t), in front of a response and a correlation."""
    mu, C, R = function("mu"), correlation("C"), response("R")
    model = System(
        "multiplier",
        eqs=[
            Eq(mu(t), 1 - Int(mu(s) ** 2, (s, 0, t))),
            Eq(R(t, tp).diff(t), -mu(t) * R(t, tp)),
            Eq(C(t, tp).diff(t), -mu(t) * C(t, tp)),
        ],
        init={R(t, t): 1, C(0, 0): 1},
        observables={"trace": C(t, t), "whole": Int(R(t, s), (s, 0, t))},
    )
    return Case(
        "multiplier",
        lambda: model,
        {
            "mu": lambda t: 1 / (1 + t),
            "trace": lambda t: (1 + t) ** -2.0,
            "whole": lambda t: ((1 + t) ** 2 - 1) / (2 * (1 + t)),
        },
        {"R": lambda t, tp: (1 + tp) / (1 + t), "C": lambda t, tp: 1 / ((1 + t) * (1 + tp))},
    )


def nonseparable() -> Case:
    """An integrand that does not separate: K = e^{−(t−t')}, for which K(t, s) K(s, t') does not depend on s."""
    K = response("K")
    model = System(
        "nonseparable",
        eqs=[
            Eq(
                K(t, tp).diff(t),
                -K(t, tp) - (t - tp) * sqrt(1 + exp(tp - t)) + Int(sqrt(1 + K(t, s) * K(s, tp)), (s, tp, t)),
            )
        ],
        init={K(t, t): 1},
        observables={"whole": Int(K(t, s), (s, 0, t))},
    )
    return Case(
        "nonseparable",
        lambda: model,
        {"whole": lambda t: 1 - np.exp(-t)},
        {"K": lambda t, tp: np.exp(tp - t)},
        t_max=3.0,
        tight=False,
    )


def renewal() -> Case:
    """Renewal density of a process whose waiting times are sums of two exponential ones: u = (1 − e^{−2t})/2."""
    u = function("u")
    model = System("renewal", eqs=[Eq(u(t), t * exp(-t) + Int((t - s) * exp(s - t) * u(s), (s, 0, t)))])
    return Case("renewal", lambda: model, {"u": lambda t: (1 - np.exp(-2 * t)) / 2}, t_max=30.0)


def self_damping() -> Case:
    """y' = −2y∫y²: with I = ∫y², I' = 1 − 2I², so that y = 1/cosh(√2 t). A Bernoulli equation with memory."""
    y = function("y")
    model = System(
        "self_damping",
        eqs=[Eq(y(t).diff(t), -2 * y(t) * Int(y(s) ** 2, (s, 0, t)))],
        init={y: 1},
        observables={"spent": Int(y(s) ** 2, (s, 0, t)), "y_squared": y(t) ** 2},
    )
    root = np.sqrt(2.0)
    return Case(
        "self-damping",
        lambda: model,
        {
            "y": lambda t: 1 / np.cosh(root * t),
            "spent": lambda t: np.tanh(root * t) / root,
            "y_squared": lambda t: np.cosh(root * t) ** -2.0,
        },
        t_max=6.0,
    )


def polynomial_volterra() -> Case:
    """A kernel t s that is no convolution, solved by t²."""
    u = function("u")
    model = System("polynomial_volterra", eqs=[Eq(u(t), t**2 + t**5 / 4 - Int(t * s * u(s), (s, 0, t)))])
    return Case("polynomial-volterra", lambda: model, {"u": lambda t: t**2}, t_max=4.0)


def polynomial_kernel() -> Case:
    """∂_t R = 1 + t' + R∘R − (R∘R of the solution), solved by R = (t − t')(1 + t'): nonlinear, no convolution."""
    R = response("R")
    square = integrate((t - s) * (1 + s) * (s - tp) * (1 + tp), (s, tp, t))
    model = System(
        "polynomial_kernel",
        eqs=[Eq(R(t, tp).diff(t), 1 + tp - square.expand() + Int(R(t, s) * R(s, tp), (s, tp, t)))],
        init={R(t, t): 0},
        observables={"whole": Int(R(t, s), (s, 0, t))},
    )
    return Case(
        "polynomial-kernel",
        lambda: model,
        {"whole": lambda t: t**2 / 2 + t**3 / 6},
        {"R": lambda t, tp: (t - tp) * (1 + tp)},
        t_max=2.0,
    )


def aging_walk(temperature: float = 0.7) -> Case:
    """x' = −x/(1 + t) + √(2T) ξ from x = 0: a cusp on the diagonal, and no time translation invariance."""
    C, R, T = correlation("C"), response("R"), param("T", nonnegative=True)
    model = System(
        "aging_walk",
        eqs=[
            Eq(R(t, tp).diff(t), -R(t, tp) / (1 + t)),
            Eq(C(t, tp).diff(t), -C(t, tp) / (1 + t) + 2 * T * R(tp, t)),
        ],
        init={R(t, t): 1, C(0, 0): 0},
        defaults={T: 0.7},
        observables={"variance": C(t, t), "whole": Int(C(t, s), (s, 0, t))},
    )

    def correlations(t: Array, tp: Array) -> Array:
        return 2 * temperature * ((1 + tp) ** 3 - 1) / (3 * (1 + t) * (1 + tp))

    def whole(t: Array) -> Array:
        return 2 * temperature / (3 * (1 + t)) * (((1 + t) ** 3 - 1) / 3 - np.log1p(t))

    return Case(
        "aging-walk",
        lambda: model,
        {"variance": lambda t: correlations(t, t), "whole": whole},
        {"R": lambda t, tp: (1 + tp) / (1 + t), "C": correlations},
        {"T": temperature},
    )


def memory_friction(rate: float = 0.8, strength: float = 5.0) -> Case:
    """∂_t R = −K∘R, K = κ e^{−γ(t−t')}: a damped oscillation, the poles of (p + γ)/(p² + γp + κ)."""
    R, K = response("R K")
    gamma, kappa = param("gamma kappa", positive=True)
    model = System(
        "memory_friction",
        eqs=[
            Eq(K(t, tp), kappa * exp(-gamma * (t - tp))),
            Eq(R(t, tp).diff(t), -Int(K(t, s) * R(s, tp), (s, tp, t))),
        ],
        init={R(t, t): 1},
        defaults={gamma: 0.8, kappa: 5},
        observables={"mobility": Int(R(t, s), (s, 0, t))},
    )
    omega = np.sqrt(strength - rate**2 / 4)

    def response_to_kick(tau: Array) -> Array:
        return np.exp(-rate * tau / 2) * (np.cos(omega * tau) + rate / (2 * omega) * np.sin(omega * tau))

    def mobility(t: Array) -> Array:
        decay = np.exp(-rate * t / 2)
        cosine, sine = np.cos(omega * t), np.sin(omega * t)
        return (rate - decay * (rate * cosine + (rate**2 / 2 - strength) / omega * sine)) / strength

    return Case(
        "memory-friction",
        lambda: model,
        {"mobility": mobility},
        {
            "R": lambda t, tp: response_to_kick(t - tp),
            "K": lambda t, tp: strength * np.exp(-rate * (t - tp)),
        },
        {"gamma": rate, "kappa": strength},
    )


CASES = [
    Case("volterra-linear", load("volterra_linear"), {"y": lambda t: np.exp(-t) * np.sin(2 * t) / 2}),
    Case("integro-nonlinear", load("integro_nonlinear"), {"y": lambda t: 2.5 / (1 + 2.5 * t)}, {}, {"a": 2.5}),
    *(lazy(delta, sigma2) for delta in (0.5, 0.9, 2.0) for sigma2 in (0.0, 0.1)),
    regression(0.5, 0.3, 0.1),
    regression(2.0, 0.1, 0.0),
    two_spin(),
    search(0.5, 0.2, 0.1),
    oscillator(),
    stiff(),
    late_start(),
    ornstein_uhlenbeck(),
    coloured_noise(),
    resolvent(),
    multiplier(),
    nonseparable(),
    renewal(),
    self_damping(),
    polynomial_volterra(),
    polynomial_kernel(),
    aging_walk(),
    memory_friction(),
]
