"""Models of other people's papers, each declared from the documentation alone and held against a truth of its own.

    python benchmarks/unseen.py [NAME ...] [--limit 30]

Every model is solved at rtol 1e-3 in a process of its own, on one core, compilation included. It is *solved* if it is done within the
limit of CPU seconds and no value is off by more than three times its stated error, *refused rightly* if it is ill posed and the message says
why, *refused* if it is well posed, *stuck* if it is not done or misses its tolerance, *wrong* otherwise. No truth comes from eqsolve: closed forms, mpmath, scipy,
and schemes written out here.
"""

# ruff: noqa: E731

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import signal
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "EQSOLVE_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ["EQSOLVE_CACHE"] = ""  # every model is compiled

import mpmath
import numpy as np
import scipy.special as special
import sympy
from scipy.integrate import dblquad, quad, solve_ivp
from scipy.optimize import brentq, fsolve
from sympy import Abs, Max, Piecewise, Rational, acos, besseli, cos, erf, exp, gamma, pi, sin, sqrt, tanh

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    FixedPoint,
    Flow,
    Int,
    Inverse,
    Singularity,
    Sum,
    System,
    White,
    correlation,
    field,
    function,
    gradient,
    index,
    normal,
    param,
    process,
    random,
    response,
    state,
    symbol,
    table,
    times,
    unknown,
)
from eqsolve.laws import Discrete, GaussBernoulli, MarchenkoPastur, Normal, StudentT, Uniform

MODELS = {}
t, tp, s = times("t t' s")
y, u, v = function("y u v")
x, z, xi, theta = process("x z xi theta")
C, R = correlation("C"), response("R")
C_x = correlation("C_x")
p, G = unknown("p G")


def paper(reference):
    """Keep a function that returns (model, settings, truths). Truths: {name or (name, times): value or (value, error)}, or a part of the message."""

    def keep(make):
        MODELS[make.__name__] = (reference, make)
        return make

    return keep


# --- truths


def mean(f, *, n=1201, dims=1):
    """Return E f(z), z standard normal, by the trapezoidal rule, which is spectral here."""
    nodes = np.linspace(-12, 12, n)
    weights = np.exp(-(nodes**2) / 2)
    weights = weights / weights.sum()
    return weights @ f(nodes) if dims == 1 else weights @ f(nodes[:, None], nodes[None, :]) @ weights


def root(f, guess):
    found, _, flag, why = fsolve(f, guess, xtol=1e-13, full_output=True)
    assert flag == 1 or np.abs(f(found)).max() < 1e-11, why
    return found


def ode(force, start, end, **options):
    return solve_ivp(force, (0, end), start, method="DOP853", rtol=1e-13, atol=1e-15, **options).y[:, -1]


def delayed(force, past, delay, end):
    """Return y(end) of y' = force(y, y(t - delay)), by steps of a delay; vectors allowed."""
    before, now, value = past, 0.0, np.atleast_1d(past(0.0))
    while now < end:
        last = min(now + delay, end)
        piece = solve_ivp(
            lambda a, b: force(b, before(a - delay)),
            (now, last),
            value,
            method="DOP853",
            rtol=1e-11,
            atol=1e-13,
            dense_output=True,
        )
        before, now, value = piece.sol, last, piece.y[:, -1]
    return value


def inverse_laplace(transform, moment):
    return float(mpmath.invertlaplace(transform, moment, method="talbot"))


def extrapolated(scheme, n):
    """Return the limit of a scheme with errors of order 2 and 3 in 1/n, and what the last step of the extrapolation changed."""
    a, b, c = (np.asarray(scheme(k * n)) for k in (1, 2, 4))
    first, second = b + (b - a) / 3, c + (c - b) / 3
    best = second + (second - first) / 7
    return best, np.abs(best - second).max()


def mittag_leffler(a, b, w):
    with mpmath.workdps(60):
        return float(sum(mpmath.mpf(w) ** k / mpmath.gamma(mpmath.mpf(a) * k + b) for k in range(400)))


def network(overlap, kernel, start, end, n):
    """Return (times, C) of x = ∫ kernel(t - s) η(s) ds + start(t) x(0), η ~ GP(overlap(C)), x(0) ~ N(0, 1), by the trapezoidal rule."""
    grid = np.linspace(0, end, n + 1)
    rule = np.tril(kernel(grid[:, None] - grid[None, :])) * (end / n)
    rule[:, 0] /= 2
    rule[np.diag_indices(n + 1)] /= 2
    free = np.outer(start(grid), start(grid))
    c = free
    for _ in range(60):
        c, old = free + rule @ overlap(c) @ rule.T, c
    assert np.abs(c - old).max() < 1e-12
    return c


# --- spin glasses


@paper("Sherrington & Kirkpatrick 1975: the spin glass with a field, replica symmetric")
def sk_field():
    q = unknown("q", domain=(0, 1))
    g = normal("g", variance=q)
    model = FixedPoint("sk_field", eqs=[Eq(q, E(tanh((g + 0.3) / 0.8) ** 2))])
    truth = brentq(lambda a: mean(lambda n: np.tanh((np.sqrt(a) * n + 0.3) / 0.8) ** 2) - a, 0.01, 0.99, xtol=1e-14)
    return model, {}, {"q": truth}


@paper("de Almeida & Thouless 1978: the temperature at which that solution becomes unstable")
def almeida_thouless():
    q, T = unknown("q", domain=(0, 1)), unknown("T", positive=True)
    g = normal("g", variance=q)
    field_ = tanh((g + 0.5) / T)
    model = FixedPoint("almeida_thouless", eqs=[Eq(q, E(field_**2)), Eq(T**2, E((1 - field_**2) ** 2))])

    def off(a):
        f = lambda n: np.tanh((np.sqrt(a[0]) * n + 0.5) / a[1])
        return [mean(lambda n: f(n) ** 2) - a[0], mean(lambda n: (1 - f(n) ** 2) ** 2) - a[1] ** 2]

    return model, {}, dict(zip("qT", root(off, [0.5, 0.6]), strict=True))


@paper("Cugliandolo & Dean 1995: the spherical model after a quench, through its normalisation")
def spherical_quench():
    kernel = lambda a: besseli(0, 4 * a) - besseli(2, 4 * a)  # I_1(4t)/(2t)
    model = System("spherical_quench", eqs=[Eq(y(t), kernel(t) + 2 * 0.5 * Int(kernel(t - s) * y(s), (s, 0, t)))])

    def transform(a):
        lap = (a / 2 - mpmath.sqrt(a / 2 - 2) * mpmath.sqrt(a / 2 + 2)) / 4
        return lap / (1 - lap)

    return model, {"t_max": 2}, {("y", m): inverse_laplace(transform, m) for m in (0.5, 2)}


@paper("Cugliandolo & Dean 1995: the same by its paths, on the sphere by a constraint")
def spherical_paths():
    mu = function("mu")
    model = System(
        "spherical_paths",
        eqs=[
            Eq(C(t, tp), E(x(t) * x(tp))),
            Eq(R(t, tp), E(eqsolve.Resp(x(t), z(tp)))),
            Eq(x(t).diff(t), -mu(t) * x(t) + z(t) + Int(R(t, s) * x(s), (s, 0, t))),
        ],
        constraints={mu: Eq(E(x(t) ** 2), 1)},
        laws={z: GP(C(t, tp))},
        init={x: Normal(0, 1)},
    )
    wave = lambda a: special.iv(1, 2 * a) / a
    return model, {"at2": [(3, 1)]}, {("C", 3, 1): wave(4) / np.sqrt(wave(6) * wave(2)), ("C", 3, 3): 1}


@paper("Amit, Gutfreund & Sompolinsky 1987: retrieval in the Hopfield network at a temperature")
def hopfield_heat():
    m, q, r = unknown("m q r", nonnegative=True)
    g = normal("g", variance=0.05 * r)
    f = tanh((m + g) / 0.2)
    model = FixedPoint("hopfield_heat", eqs=[Eq(m, E(f)), Eq(q, E(f**2)), Eq(r, q / (1 - 5 * (1 - q)) ** 2)])

    def off(a):
        f = lambda n: np.tanh((a[0] + np.sqrt(0.05 * a[2]) * n) / 0.2)
        return [mean(f) - a[0], mean(lambda n: f(n) ** 2) - a[1], a[1] / (1 - 5 * (1 - a[1])) ** 2 - a[2]]

    return model, {"start": {"m": 0.97, "q": 0.97, "r": 1.2}}, dict(zip("mqr", root(off, [0.97, 0.97, 1.2]), strict=True))


@paper("Schneider & Pytte 1977: the ferromagnet in a random field")
def random_field():
    m = unknown("m", positive=True)
    h = random("h", Normal(0, 0.25))
    model = FixedPoint("random_field", eqs=[Eq(m, E(tanh((m + h) / 0.5)))])
    return model, {}, {"m": brentq(lambda a: mean(lambda n: np.tanh((a + n / 2) / 0.5)) - a, 0.1, 1, xtol=1e-14)}


# --- neural networks


@paper("Crisanti & Sompolinsky 1987: a noisy linear network with independent couplings")
def asymmetric_network():
    g = 0.6
    model = System(
        "asymmetric_network",
        eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + z(t) + xi(t))],
        laws={z: GP(g**2 * C(t, tp)), xi: White(1)},
        init={x: 0},
    )
    c = lambda a, b: quad(lambda r: np.exp(2 * r - a - b) * special.iv(0, 2 * g * np.sqrt((a - r) * (b - r))), 0, min(a, b))[0]
    return model, {"at2": [(4, 4), (4, 2)]}, {("C", 4, 4): c(4, 4), ("C", 4, 2): c(4, 2)}


@paper("Crisanti & Sompolinsky 1987: what that network ends in")
def asymmetric_network_late():
    model, _, _ = asymmetric_network()
    root_ = 0.8  # sqrt(1 - g²)
    return model, {"by": eqsolve.stationary}, {("C", 0): 0.5 / root_, ("C", 1): 0.5 / root_ * np.exp(-root_)}


@paper("Sompolinsky, Crisanti & Sommers 1988: chaos in a random network")
def chaotic_network():
    eqs = [Eq(C(t, tp), E(tanh(x(t)) * tanh(x(tp)))), Eq(C_x(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + z(t))]
    model = System("chaotic_network", eqs=eqs, laws={z: GP(4 * C(t, tp))}, init={x: Normal(0, 1)})
    known = {(10, 10): 1.8446723003, (10, 5): 0.6127988616, (5, 5): 1.5524510932}  # by a Hermite series, to all digits
    return model, {"at2": list(known)}, {("C_x", *pair): (value, 1e-10) for pair, value in known.items()}


@paper("Sompolinsky, Crisanti & Sommers 1988: the energy of the potential gives what it ends in")
def chaotic_network_late():
    model = chaotic_network()[0]

    def energy(c):  # gain 2: E Φ² − (E Φ)² = c²/(2 g²), Φ = log cosh
        wave = lambda n: np.log(np.cosh(np.sqrt(c) * n))
        return 4 * (mean(lambda n: wave(n) ** 2) - mean(wave) ** 2) - c**2 / 2

    return model, {"by": eqsolve.stationary}, {("C_x", 0): brentq(energy, 0.5, 5, xtol=1e-14)}


@paper("Sompolinsky, Crisanti & Sommers 1988, with threshold units as in Amari 1972")
def threshold_network():
    model = System(
        "threshold_network",
        eqs=[
            Eq(C_x(t, tp), E(x(t) * x(tp))),
            Eq(C(t, tp), E(sympy.sign(x(t)) * sympy.sign(x(tp)))),
            Eq(x(t).diff(t), -x(t) + z(t)),
        ],
        laws={z: GP(C(t, tp))},
        init={x: Normal(0, 1)},
        observables={"q": C_x(t, t)},
    )
    sine = lambda c: 2 / np.pi * np.arcsin(np.clip(c / np.sqrt(np.outer(np.diag(c), np.diag(c))), -1, 1))
    best, error = extrapolated(lambda n: network(sine, lambda a: np.exp(-a), lambda a: np.exp(-a), 3, n)[-1, -1], 150)
    return model, {"t_max": 3}, {("q", 3): (best, error)}


@paper("Muscinelli, Gerstner & Schwalger 2019: a random network with adaptation, error functions for units")
def adaptation():
    a = process("a")
    model = System(
        "adaptation",
        eqs=[
            Eq(C(t, tp), E(erf(x(t)) * erf(x(tp)))),
            Eq(C_x(t, tp), E(x(t) * x(tp))),
            Eq(x(t).diff(t), -x(t) - 0.5 * a(t) + z(t)),
            Eq(a(t).diff(t), (x(t) - a(t)) / 2),
        ],
        laws={z: GP(4 * C(t, tp))},
        init={x: Normal(0, 1), a: 0},
    )

    def kernel(lag):  # of the matrix ((-1, -1/2), (1/2, -1/2)): eigenvalues -3/4 ± i √3/4
        w = np.sqrt(3) / 4
        return np.exp(-0.75 * lag) * (np.cos(w * lag) - 0.25 / w * np.sin(w * lag))

    sine = lambda c: 8 / np.pi * np.arcsin(2 * c / np.sqrt(np.outer(1 + 2 * np.diag(c), 1 + 2 * np.diag(c))))
    best, error = extrapolated(lambda n: network(sine, kernel, kernel, 4, n)[[-1, -1], [-1, n // 2]], 120)
    return model, {"at2": [(4, 4), (4, 2)]}, {("C_x", 4, 4): (best[0], error), ("C_x", 4, 2): (best[1], error)}


@paper("Mastrogiuseppe & Ostojic 2018: rank-one structure on random couplings")
def low_rank():
    k, D = unknown("k D", positive=True)
    m, g = random("m", Normal(0, 1)), normal("g", variance=0.64 * D)
    f = tanh(m * k + g)
    model = FixedPoint("low_rank", eqs=[Eq(k, 2 * E(m * f)), Eq(D, E(f**2))])

    def off(a):
        w = np.sqrt(a[0] ** 2 + 0.64 * a[1])
        return [2 * mean(lambda n: 1 - np.tanh(w * n) ** 2) - 1, mean(lambda n: np.tanh(w * n) ** 2) - a[1]]

    return model, {}, dict(zip("kD", root(off, [1, 0.5]), strict=True))


@paper("Poole et al. 2016: the angle between two inputs deep in a random network")
def deep_angle():
    q, c = unknown("q", positive=True), unknown("c", domain=(0, 0.99))
    a, b = normal("a b", variance=1)
    one, two = tanh(sqrt(q) * a), tanh(sqrt(q) * (c * a + sqrt(1 - c**2) * b))
    model = FixedPoint("deep_angle", eqs=[Eq(q, 6 * E(one**2) + 0.3), Eq(q * c, 6 * E(one * two) + 0.3)])

    def off(a):
        other = lambda n, m: np.tanh(np.sqrt(a[0]) * n) * np.tanh(np.sqrt(a[0]) * (a[1] * n + np.sqrt(1 - a[1] ** 2) * m))
        return [6 * mean(lambda n: np.tanh(np.sqrt(a[0]) * n) ** 2) + 0.3 - a[0], 6 * mean(other, dims=2) + 0.3 - a[0] * a[1]]

    return model, {}, dict(zip("qc", root(off, [4, 0.3]), strict=True))


# --- ecology and populations


@paper("Opper & Diederich 1992: replicators with random symmetric interactions, at rest")
def replicators():
    q, chi, nu = unknown("q", positive=True), unknown("chi", positive=True), unknown("nu")
    g = normal("g", variance=q)
    alive = Max(0, g - nu) / (2 - chi)
    model = FixedPoint(
        "replicators", eqs=[Eq(1, E(alive)), Eq(q, E(alive**2)), Eq(chi, E(sympy.Heaviside(g - nu)) / (2 - chi))]
    )

    def off(a):
        k, w = -a[2] / np.sqrt(a[0]), np.sqrt(a[0]) / (2 - a[1])
        top, share = np.exp(-(k**2) / 2) / np.sqrt(2 * np.pi), special.ndtr(k)
        return [w * (k * share + top) - 1, w**2 * ((1 + k**2) * share + k * top) - a[0], share / (2 - a[1]) - a[1]]

    return model, {}, dict(zip(["q", "chi", "nu"], root(off, [1.5, 0.5, -1]), strict=True))


@paper("Opper & Diederich 1992: the same in time without memory, the mean kept by a constraint")
def replicator_paths():
    nu = function("nu")
    model = System(
        "replicator_paths",
        eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), x(t) * (-2 * x(t) + z(t) - nu(t)))],
        constraints={nu: Eq(E(x(t)), 1)},
        laws={z: GP(C(t, tp))},
        init={x: 1},
        observables={"m": E(x(t)), "q": C(t, t)},
    )
    # q is drawn: 12 × 120,000 paths, which are closed forms of ∫z and ν; the covariance iterated, steps of 1/25 and 1/50
    return model, {"t_max": 2}, {("m", 2): 1, ("q", 2): (1.2545, 5e-4)}


@paper("Bunin 2017: a community with independent interactions, on its way to rest")
def community():
    m = function("m")
    model = System(
        "community",
        eqs=[Eq(m(t), E(x(t))), Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), x(t) * (1 - x(t) - 4 * m(t) + z(t)))],
        laws={z: GP(0.25 * C(t, tp))},
        init={x: 1},
        observables={"q": C(t, t)},
    )

    def off(a):
        w = 0.5 * np.sqrt(a[1])
        k = (1 - 4 * a[0]) / w
        top, share = np.exp(-(k**2) / 2) / np.sqrt(2 * np.pi), special.ndtr(k)
        return [w * (k * share + top) - a[0], w**2 * ((1 + k**2) * share + k * top) - a[1]]

    m, q = root(off, [0.2, 0.05])
    return model, {"t_max": 200}, {("m", 200): (m, 1e-3 * m), ("q", 200): (q, 1e-3 * q)}  # approached like 1/t²


@paper("Hutchinson 1948: logistic growth with a delay")
def hutchinson():
    model = System("hutchinson", eqs=[Eq(y(t).diff(t), 1.8 * y(t) * (1 - y(t - 1)))], init={y: 0.5})
    return model, {"t_max": 20}, {("y", 20): delayed(lambda a, b: 1.8 * a * (1 - b), lambda a: np.array([0.5]), 1, 20)[0]}


@paper("Gurney, Blythe & Nisbet 1980: Nicholson's blowflies")
def blowflies():
    model = System("blowflies", eqs=[Eq(y(t).diff(t), 8 * y(t - 2) * exp(-y(t - 2)) - y(t))], init={y: 1 + t / 4})
    truth = delayed(lambda a, b: 8 * b * np.exp(-b) - a, lambda a: np.array([1 + a / 4]), 2, 15)[0]
    return model, {"t_max": 15}, {("y", 15): truth}


@paper("Sharpe & Lotka 1911: births of an age-structured population")
def renewal():
    model = System("renewal", eqs=[Eq(y(t), exp(-t) + 3 * Int(s * exp(-s) * y(t - s), (s, 0, t)))])
    return model, {"t_max": 4}, {("y", m): np.exp(-m) * np.cosh(np.sqrt(3) * m) for m in (1, 4)}


@paper("TeBeest 1997: Volterra's population in a closed system, poisoned by its past")
def toxins():
    model = System("toxins", eqs=[Eq(y(t).diff(t), 10 * y(t) * (1 - y(t) - Int(y(s), (s, 0, t))))], init={y: 0.1})
    return (
        model,
        {"t_max": 3},
        {("y", m): ode(lambda a, b: [10 * b[0] * (1 - b[0] - b[1]), b[0]], [0.1, 0], m)[0] for m in (0.5, 3)},
    )


@paper("May 1973: logistic growth in a random environment, in Itô's sense")
def environment():
    eqs = [Eq(x(t).diff(t), x(t) * (1 - x(t)) + x(t) * xi(t))]
    model = System("environment", eqs=eqs, laws={xi: White(0.25, sense="ito")}, init={x: 0.5}, observables={"m": E(1 / x(t))})
    return model, {"t_max": 2}, {("m", m): 4 / 3 + 2 / 3 * np.exp(-0.75 * m) for m in (0.5, 2)}


@paper("Horsthemke & Lefever 1984: the same in Stratonovich's sense")
def environment_stratonovich():
    eqs = [Eq(x(t).diff(t), x(t) * (1 - x(t)) + x(t) * xi(t))]
    model = System(
        "strat", eqs=eqs, laws={xi: White(0.25, sense="stratonovich")}, init={x: 0.5}, observables={"m": E(1 / x(t))}
    )
    return model, {"t_max": 2}, {("m", m): 8 / 7 + 6 / 7 * np.exp(-0.875 * m) for m in (0.5, 2)}


@paper("Feller 1951: a branching population, which may die out")
def branching():
    eqs = [Eq(x(t).diff(t), x(t) / 2 + sqrt(x(t)) * xi(t))]
    laws, seen = {xi: White(1, sense="ito")}, {"m": E(x(t)), "small": E(exp(-x(t)))}
    model = System("branching", eqs=eqs, laws=laws, init={x: 1}, observables=seen)
    grown = np.exp(0.5)
    return model, {"t_max": 1}, {("m", 1): grown, ("small", 1): np.exp(-grown / (1 + (grown - 1)))}


@paper("Cox, Ingersoll & Ross 1985: interest rates")
def interest():
    eqs = [Eq(x(t).diff(t), 1 - x(t) + sqrt(x(t)) * xi(t))]
    model = System("interest", eqs=eqs, laws={xi: White(1, sense="ito")}, init={x: 1}, observables={"q": E(x(t) ** 2)})
    return model, {"t_max": 2}, {("q", 2): 1 + (1 - np.exp(-4)) / 2}


# --- glasses


@paper("Sjögren 1986: a tagged particle in the schematic glass, its plateau after 10^10")
def tagged():
    bath, one = function("bath one")
    model = System(
        "tagged",
        eqs=[
            Eq(bath(t).diff(t), -bath(t) - Int(4.5 * bath(t - s) ** 2 * bath(s).diff(s), (s, 0, t))),
            Eq(one(t).diff(t), -one(t) - Int(5 * bath(t - s) * one(t - s) * one(s).diff(s), (s, 0, t))),
        ],
        init={bath: 1, one: 1},
    )
    f = (1 + np.sqrt(1 - 4 / 4.5)) / 2
    return model, {"t_max": 1e10}, {("bath", 1e10): f, ("one", 1e10): 1 - 1 / (5 * f)}


def relaxation(memory, end, n):
    """Return φ(end) of φ' = -φ - ∫ m(t - s) φ'(s) ds by the trapezoidal rule, m(t) = memory(t, φ(t))."""
    grid, h = np.linspace(0, end, n + 1), end / n
    f, m = np.ones(n + 1), np.full(n + 1, memory(0.0, 1.0))
    for i in range(1, n + 1):
        f[i] = f[i - 1]
        for _ in range(50):  # (φ*m)' in place of m*φ': φ' + φ + d/dt ∫ m(t-s) φ(s) ds - m(t) = 0, integrated over [0, t]
            m[i], old = memory(grid[i], f[i]), f[i]
            ends = np.ones(i + 1)
            ends[[0, -1]] = 0.5
            rest = 1 - h * (ends @ f[: i + 1]) - h * (ends @ (m[i::-1] * f[: i + 1])) + h * (ends @ m[: i + 1])
            f[i] = rest * 0.5 + 0.5 * old
            if abs(f[i] - old) < 1e-14:
                break
    return f[-1]


@paper("Fuchs & Cates 2002: the schematic glass under shear")
def sheared():
    kernel = lambda a: 4.2 * y(a) ** 2 / (1 + (a / 5) ** 2)
    model = System("sheared", eqs=[Eq(y(t).diff(t), -y(t) - Int(kernel(t - s) * y(s).diff(s), (s, 0, t)))], init={y: 1})
    best, error = extrapolated(lambda n: relaxation(lambda a, b: 4.2 * b**2 / (1 + (a / 5) ** 2), 10, n), 200)
    return model, {"t_max": 10}, {("y", 10): (best, error)}


@paper("Götze & Sperl 2002: the plateau of the model F13")
def plateau():
    f = unknown("f", domain=(0.01, 1))
    model = FixedPoint("plateau", eqs=[Eq(f / (1 - f), 0.5 * f + 8 * f**3)])
    roots = np.roots([8, -8, 0.5, 0.5])  # 1 = (1 - f)(0.5 + 8 f²)
    return model, {"start": {"f": 0.95}}, {"f": max(r.real for r in roots if abs(r.imag) < 1e-9 and r.real < 1)}


@paper("Bouchaud 1992: traps with exponential depths, seen from a uniform start")
def traps():
    a = random("a", Uniform(0, 1))
    rate = a**2  # temperature half of the glass's: exp(-βE) = a^(1/x), x = 1/2
    w = function("w")
    model = System("traps", eqs=[Eq(w(t), E(rate * x(t))), Eq(x(t).diff(t), -rate * x(t) + w(t))], init={x: 1})

    def transform(b):  # E 1/(p + a²) = atan(1/√p)/√p
        stay = mpmath.atan(1 / mpmath.sqrt(b)) / mpmath.sqrt(b)
        return (1 - b * stay) / (b * stay)

    return model, {"t_max": 100}, {("w", m): inverse_laplace(transform, m) for m in (1, 10, 100)}


# --- learning


@paper("Advani & Saxe 2017: the test error of a linear student, mode by mode")
def linear_student():
    k, w_star, noise = random("k", MarchenkoPastur(0.5)), random("w_star", Normal(0, 1)), random("noise", Normal(0, 0.25))
    eqs = [Eq(x(t).diff(t), -k * (x(t) - w_star) + sqrt(k) * noise)]
    model = System("linear_student", eqs=eqs, init={x: 0}, observables={"e": E((x(t) - w_star) ** 2)})

    def truth(m):
        low, high = (1 - 2**0.5) ** 2, (1 + 2**0.5) ** 2
        f = lambda a: np.exp(-2 * a * m) + 0.25 * (1 - np.exp(-a * m)) ** 2 / a
        angle = lambda b: (low + high) / 2 - (high - low) / 2 * np.cos(b)
        bulk = lambda b: f(angle(b)) * 0.5 * ((high - low) / 2 * np.sin(b)) ** 2 / (2 * np.pi * angle(b))
        return 0.5 + quad(bulk, 0, np.pi, epsabs=1e-12)[0]

    return model, {"t_max": 10}, {("e", m): truth(m) for m in (1, 10)}


@paper("Sollich & Halees 2002: learning curve of a Gaussian process")
def learning_curve():
    k = index("k", 60)
    lam, e = table("lam", k), unknown("e", positive=True)
    model = FixedPoint(
        "learning_curve",
        eqs=[Eq(e, Sum(lam[k] / (1 + 20 * lam[k] / (0.1 + e)), k))],
        tables={lam: [1 / (1 + i) ** 2 for i in range(60)]},
    )
    lams = 1 / (1 + np.arange(60.0)) ** 2
    return model, {}, {"e": brentq(lambda a: (lams / (1 + 20 * lams / (0.1 + a))).sum() - a, 1e-6, 5, xtol=1e-14)}


@paper("Dobriban & Wager 2018: ridge regression with correlated features")
def correlated_features():
    g, k = unknown("g", positive=True), random("k", Uniform(1, 3))
    model = FixedPoint("correlated_features", eqs=[Eq(1 / g, 0.2 + 1.5 * E(k / (1 + k * g)))])
    stieltjes = lambda a: 0.2 + 1.5 * quad(lambda b: b / (1 + b * a) / 2, 1, 3)[0] - 1 / a
    return model, {}, {"g": brentq(stieltjes, 1e-3, 10, xtol=1e-14)}


@paper("Opper & Haussler 1991: Bayes' generalisation of a perceptron")
def bayes_perceptron():
    q = unknown("q", domain=(0.001, 0.999))
    g = normal("g", variance=1)
    k = q / (1 - q)
    hat = 6 / pi / (1 - q) * E(exp(-k * g**2) / sympy.erfc(-sqrt(k / 2) * g))
    model = FixedPoint("bayes_perceptron", eqs=[Eq(q, hat / (1 + hat))], observables={"e": acos(sqrt(q)) / pi})

    def off(a):
        b = a / (1 - a)
        hat = 3 / np.pi / (1 - a) * mean(lambda n: np.exp(-b * n**2 - special.log_ndtr(np.sqrt(b) * n)))
        return hat / (1 + hat) - a

    truth = brentq(off, 0.01, 0.99, xtol=1e-13)
    return model, {}, {"q": truth, "e": np.arccos(np.sqrt(truth)) / np.pi}


@paper("El Karoui et al. 2013: least absolute deviations in high dimension")
def absolute_deviations():
    r, c = unknown("r c", positive=True)
    eps, g = random("eps", Normal(0, 1)), normal("g", variance=r**2)
    a = eps + g
    model = FixedPoint(
        "absolute_deviations",
        eqs=[Eq(r**2, 3 * E(sympy.Min(Abs(a), c) ** 2)), Eq(Rational(1, 3), E(sympy.Heaviside(c - Abs(a))))],
    )
    k = special.ndtri(2 / 3)
    part = 1 / 3 - 2 * k * np.exp(-(k**2) / 2) / np.sqrt(2 * np.pi) + k**2 * 2 / 3  # E min(|n|, k)²
    truth = np.sqrt(3 * part / (1 - 3 * part))
    return model, {}, {"r": truth, "c": k * np.sqrt(1 + truth**2)}


@paper("Sur, Chen & Candès 2019: logistic regression when there is nothing to find")
def logistic_null():
    width, lam = unknown("width lam", positive=True)
    a = symbol("a")
    g = normal("g", variance=width**2)
    near = Inverse(a + lam / (1 + exp(-a)), a)(g)
    up = 1 / (1 + exp(-near))
    model = FixedPoint(
        "logistic_null", eqs=[Eq(0.2 * width**2, E((lam * up) ** 2)), Eq(0.8, E(1 / (1 + lam * up * (1 - up))))]
    )

    def off(b):
        def prox(n):
            m = b[0] * n - b[1] / 2
            for _ in range(60):
                up = special.expit(m)
                m = m - (m + b[1] * up - b[0] * n) / (1 + b[1] * up * (1 - up))
            return special.expit(m)

        return [
            mean(lambda n: (b[1] * prox(n)) ** 2) - 0.2 * b[0] ** 2,
            mean(lambda n: 1 / (1 + b[1] * prox(n) * (1 - prox(n)))) - 0.8,
        ]

    return model, {}, dict(zip(["width", "lam"], root(off, [1.5, 1.5]), strict=True))


# --- inference


@paper("Deshpande, Abbe & Montanari 2017: a spike of signs in a Wigner matrix")
def spiked_wigner():
    m, g = unknown("m", domain=(0.001, 1)), normal("g", variance=1)
    model = FixedPoint("spiked_wigner", eqs=[Eq(m, E(tanh(1.5 * m + sqrt(1.5 * m) * g)))])
    off = lambda a: mean(lambda n: np.tanh(1.5 * a + np.sqrt(1.5 * a) * n)) - a
    return model, {}, {"m": brentq(off, 0.05, 1, xtol=1e-14)}


@paper("Krzakala et al. 2012: state evolution of compressed sensing with the right prior")
def compressed_sensing():
    w, g, x0 = unknown("w", positive=True), normal("g", variance=1), random("x0", GaussBernoulli(0.2, 1))
    seen = x0 + sqrt(w) * g
    guess = seen / (1 + w) / (1 + 4 * sqrt((1 + w) / w) * exp(-(seen**2) / (2 * w * (1 + w))))
    model = FixedPoint("compressed_sensing", eqs=[Eq(w, 0.01 + 2 * E((guess - x0) ** 2))])

    def off(a):
        guess = lambda b: b / (1 + a) / (1 + 4 * np.sqrt((1 + a) / a) * np.exp(-(b**2) / (2 * a * (1 + a))))
        density = lambda b, c: np.exp(-(b**2) / (2 * c)) / np.sqrt(2 * np.pi * c)
        kept = lambda b: 2 * guess(b) ** 2 * (0.2 * density(b, 1 + a) + 0.8 * density(b, a))
        return 0.01 + 2 * (0.2 - quad(kept, 0, 12, epsabs=1e-13, limit=400, points=[0.3, 1, 3])[0]) - a

    return model, {}, {"w": brentq(off, 1e-3, 0.1, xtol=1e-15)}


@paper("Tanaka 2002: detection of many users of one channel")
def many_users():
    m, a, g = unknown("m", domain=(0, 1)), unknown("a", positive=True), normal("g", variance=1)
    model = FixedPoint("many_users", eqs=[Eq(m, E(tanh(a + sqrt(a) * g))), Eq(a, 1 / (0.3 + 0.8 * (1 - m)))])
    gain = lambda b: 1 / (0.3 + 0.8 * (1 - b))
    truth = brentq(lambda b: mean(lambda n: np.tanh(gain(b) + np.sqrt(gain(b)) * n)) - b, 0.1, 1, xtol=1e-14)
    return model, {}, {"m": truth, "a": gain(truth)}


@paper("Mézard, Ricci-Tersenghi & Zecchina 2003: where the core of random 3-XORSAT appears")
def xorsat():
    a, f = unknown("a", positive=True), unknown("f", domain=(0.1, 1))
    model = FixedPoint("xorsat", eqs=[Eq(f, 1 - exp(-3 * a * f**2)), Eq(1, 6 * a * f * exp(-3 * a * f**2))])
    b = brentq(lambda c: np.expm1(c) - 2 * c, 0.5, 3, xtol=1e-15)
    return model, {}, {"a": b / 3 / (1 - np.exp(-b)) ** 2, "f": 1 - np.exp(-b)}


@paper("Richardson & Urbanke 2001: the erasure threshold of a (3, 6) code")
def erasures():
    a, f = unknown("a", domain=(0, 1)), unknown("f", domain=(0.05, 0.95))
    pieces = 1 - (1 - f) ** 5
    model = FixedPoint("erasures", eqs=[Eq(f, a * pieces**2), Eq(1, 10 * a * pieces * (1 - f) ** 4)])
    b = brentq(lambda c: 1 - (1 - c) ** 5 - 10 * c * (1 - c) ** 4, 0.1, 0.9, xtol=1e-15)
    return model, {}, {"f": b, "a": b / (1 - (1 - b) ** 5) ** 2}


# --- games


@paper("Challet, Marsili & Zecchina 2000: the transition of the minority game")
def minority_game():
    k, q, a = unknown("k q a", positive=True)
    g = normal("g", variance=1)
    played = Max(-1, sympy.Min(1, g / k))
    eqs = [Eq(q, E(played**2)), Eq(a, k**2 * (1 + q)), Eq(a, E(sympy.Heaviside(k - Abs(g))))]
    model = FixedPoint("minority_game", eqs=eqs)
    share = lambda b: special.erf(b / np.sqrt(2))
    size = lambda b: 1 - share(b) + (share(b) - np.sqrt(2 / np.pi) * b * np.exp(-(b**2) / 2)) / b**2
    b = brentq(lambda c: share(c) - c**2 * (1 + size(c)), 0.1, 2, xtol=1e-15)  # 0.3374…
    return model, {}, {"k": b, "a": share(b)}


# --- epidemics


@paper("Miller 2011: an epidemic on a network, by its edges, with degrees 1, 3 and 6")
def edges():
    k = random("k", Discrete([1, 3, 6], [0.5, 0.3, 0.2]))
    rest = function("rest")
    eqs = [
        Eq(rest(t), E(k * y(t) ** (k - 1)) / 2.6),
        Eq(y(t).diff(t), -y(t) + rest(t) + 0.5 * (1 - y(t))),
        Eq(v(t).diff(t), 0.5 * (1 - E(y(t) ** k) - v(t))),
    ]
    model = System("edges", eqs=eqs, init={y: 0.999, v: 0})
    sizes = lambda a: (0.5 * a + 0.3 * a**3 + 0.2 * a**6, (0.5 + 0.9 * a**2 + 1.2 * a**5) / 2.6)
    force = lambda a, b: [-b[0] + sizes(b[0])[1] + 0.5 * (1 - b[0]), 0.5 * (1 - sizes(b[0])[0] - b[1])]
    return model, {"t_max": 10}, {("v", m): ode(force, [0.999, 0], m)[1] for m in (3, 10)}


@paper("Hethcote & van den Driessche 1995: infections that last a fixed time")
def fixed_duration():
    model = System("fixed_duration", eqs=[Eq(y(t).diff(t), -2.5 * y(t) * (y(t - 1) - y(t)))], init={y: 0.98 - t / 50})
    truth = lambda m: delayed(lambda a, b: -2.5 * a * (b - a), lambda a: np.array([0.98 - a / 50]), 1, m)[0]
    return model, {"t_max": 12}, {("y", m): truth(m) for m in (3, 12)}


@paper("Novozhilov 2008: an epidemic among people who differ in susceptibility")
def susceptibility():
    k = random("k", Uniform(0, 2))
    eqs = [Eq(x(t).diff(t), -2 * k * x(t) * y(t)), Eq(y(t).diff(t), 2 * y(t) * E(k * x(t)) - y(t))]
    model = System("susceptibility", eqs=eqs, init={x: 1, y: 0.01})
    left = lambda a: (1 - (1 + 4 * a) * np.exp(-4 * a)) / (8 * a**2) if a > 1e-4 else 1 - 8 * a / 3 + 4 * a**2
    force = lambda a, b: [2 * b[0] * left(b[1]) - b[0], b[0]]
    return model, {"t_max": 10}, {("y", m): ode(force, [0.01, 0], m)[0] for m in (5, 10)}


@paper("Jaisson & Rosenbaum 2016: events that excite others after a power law")
def excited_events():
    kernel = 0.8 * exp(-s) / sqrt(pi * s)
    model = System("excited_events", eqs=[Eq(y(t), 1 + Int(kernel * y(t - s), (s, 0, t)))])
    truth = lambda m: inverse_laplace(lambda a: 1 / a / (1 - 0.8 / mpmath.sqrt(a + 1)), m)
    return model, {"t_max": 5}, {("y", m): truth(m) for m in (0.5, 5)}


# --- synchronisation


@paper("Pazó 2005: Kuramoto's oscillators with frequencies between -1 and 1")
def uniform_frequencies():
    omega = random("omega", Uniform(-1, 1))
    eqs = [Eq(y(t), E(cos(theta(t)))), Eq(theta(t).diff(t), omega - 2 * y(t) * sin(theta(t)))]
    model = System("uniform_frequencies", eqs=eqs, init={theta: 0})
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = ode(lambda a, b: nodes - weights @ np.cos(b) * np.sin(b), 0 * nodes, 4)
    return model, {"t_max": 4}, {("y", 4): weights @ np.cos(end) / 2}


@paper("Sakaguchi 1988: oscillators with noise, all alike")
def noisy_oscillators():
    eqs = [Eq(y(t), E(cos(theta(t)))), Eq(theta(t).diff(t), -2 * y(t) * sin(theta(t)) + xi(t))]
    model = System("noisy_oscillators", eqs=eqs, laws={xi: White(1)}, init={theta: Normal(0, 1)})
    n = np.arange(1, 41)

    def force(a, c):  # of E cos nθ
        before, after = np.append(1, c[:-1]), np.append(c[1:], 0)
        return -(n**2) / 2 * c + n * c[0] * (before - after)

    truth = solve_ivp(force, (0, 1), np.exp(-(n**2) / 2), method="Radau", rtol=1e-10, atol=1e-13).y[0, -1]
    return model, {"t_max": 1}, {("y", 1): truth}


@paper("Tanaka, Lichtenberg & Oishi 1997: oscillators with inertia")
def inertia():
    (a, b), w = function("a b"), random("w", Normal(0, 1))
    eqs = [
        Eq(a(t), E(cos(theta(t)))),
        Eq(b(t), E(sin(theta(t)))),
        Eq(theta(t).diff(t, 2), -theta(t).diff(t) + w + 4 * (b(t) * cos(theta(t)) - a(t) * sin(theta(t)))),
    ]
    model = System("inertia", eqs=eqs, init={theta: Normal(0, 1), theta(t).diff(t): 0})
    nodes, weights = np.polynomial.hermite_e.hermegauss(90)
    mass, w_ = np.outer(weights, weights).ravel() / weights.sum() ** 2, np.repeat(nodes, 90)

    def force(now, both):
        place, speed = np.split(both, 2)
        c, d = mass @ np.cos(place), mass @ np.sin(place)
        return np.append(speed, w_ - speed + 4 * (d * np.cos(place) - c * np.sin(place)))

    end = solve_ivp(force, (0, 3), np.append(np.tile(nodes, 90), 0 * w_), rtol=1e-9, atol=1e-10).y[:, -1]
    return model, {"t_max": 3}, {("a", 3): (mass @ np.cos(end[: len(mass)]), 1e-6)}


@paper("Desai & Zwanzig 1978: coupled double wells with noise")
def double_wells():
    eqs = [Eq(y(t), E(x(t))), Eq(x(t).diff(t), x(t) - x(t) ** 3 - (x(t) - y(t)) + xi(t))]
    model = System("double_wells", eqs=eqs, laws={xi: White(1)}, init={x: Normal(0.5, 0.25)})

    def density(n):  # finite volumes
        edge = np.linspace(-4, 4, n + 1)
        mid, h = (edge[1:] + edge[:-1]) / 2, 8 / n
        start = np.exp(-((mid - 0.5) ** 2) / 0.5)

        def force(now, rho):
            flow = np.zeros(n + 1)
            drift = -(edge[1:-1] ** 3) + (rho @ mid) / rho.sum()
            flow[1:-1] = drift * (rho[1:] + rho[:-1]) / 2 - (rho[1:] - rho[:-1]) / (2 * h)
            return -np.diff(flow) / h

        rho = solve_ivp(force, (0, 1), start / start.sum(), method="LSODA", lband=1, uband=1, rtol=1e-9, atol=1e-12).y[:, -1]
        return rho @ mid

    best, error = extrapolated(density, 80)
    return model, {"t_max": 1}, {("y", 1): (best, error)}


@paper("Yeung & Strogatz 1999: the frequency of oscillators coupled with a delay")
def delayed_frequency():
    w = unknown("w")
    model = FixedPoint("delayed_frequency", eqs=[Eq(w, 2 - 0.8 * sin(w))])
    return model, {}, {"w": brentq(lambda a: 2 - 0.8 * np.sin(a) - a, 0, 4, xtol=1e-15)}


# --- queues and kinetics


@paper("Smoluchowski 1916: coagulation")
def coagulation():
    k, i, j = index("k i j", 20)
    n, pairs, start = function("n", k), table("pairs", k, i, j), table("start", k)
    eqs = [
        Eq(n[k](t).diff(t), Sum(pairs[k, i, j] * n[i](t) * n[j](t), i, j) / 2 - n[k](t) * y(t)),
        Eq(y(t).diff(t), -(y(t) ** 2) / 2),
    ]
    one = np.arange(20)
    adds = (one[None, :, None] + one[None, None, :] + 1 == one[:, None, None]).astype(float)
    model = System("coagulation", eqs=eqs, init={n[k]: start[k], y: 1}, tables={pairs: adds, start: (one == 0) * 1.0})
    size = lambda a, m: (m / 2) ** (a - 1) / (1 + m / 2) ** (a + 1)
    return model, {"t_max": 4}, {("n_0", 4): size(1, 4), ("n_4", 4): size(5, 4), ("n_19", 4): size(20, 4)}


@paper("Mitzenmacher 1996: the shorter of two queues")
def two_queues(places=6):
    k = index("k", places)
    q = function("q", k)
    left = Piecewise((1, sympy.Eq(k, 0)), (q[k - 1](t), True))
    right = Piecewise((0, sympy.Eq(k, places - 1)), (q[k + 1](t), True))
    eqs = [Eq(q[k](t).diff(t), 0.9 * (left**2 - q[k](t) ** 2) - (q[k](t) - right))]
    model = System("two_queues", eqs=eqs, init={q[k]: 0})

    def force(a, b):
        before, after = np.append(1, b[:-1]), np.append(b[1:], 0)
        return 0.9 * (before**2 - b**2) - (b - after)

    end = ode(force, np.zeros(places), 8)
    return model, {"t_max": 8}, {("q_0", 8): end[0], ("q_2", 8): end[2]}


@paper("Kendall 1951: how long a busy period lasts")
def busy_period():
    model = Singularity(
        "busy_period", transform=Eq(0.5 * G**2 + 1, (1.5 + p) * G), variable=p, unknown=G, observables={"rate": -p}
    )
    return model, {}, {"rate": (1 - np.sqrt(0.5)) ** 2}


@paper("Collins & Kimball 1949, Smoluchowski's limit: a reaction as fast as diffusion")
def diffusion_limited():
    model = System("diffusion_limited", eqs=[Eq(y(t).diff(t), -(1 + 1 / sqrt(pi * t)) * y(t) ** 2)], init={y: 1})
    return model, {"t_max": 5}, {("y", m): 1 / (1 + m + 2 * np.sqrt(m / np.pi)) for m in (0.1, 5)}


@paper("Johari & Tan 2001: congestion control with a delay")
def congestion():
    model = System("congestion", eqs=[Eq(y(t).diff(t), 0.7 * (1 - y(t - 1) ** 2))], init={y: 0.5})
    return model, {"t_max": 15}, {("y", 15): delayed(lambda a, b: 0.7 * (1 - b**2), lambda a: np.array([0.5]), 1, 15)[0]}


# --- random matrices and rates


@paper("Pastur 1972: the edge of a Wigner matrix plus a diagonal of ±3/2")
def deformed_wigner():
    e = random("e", Discrete([-1.5, 1.5], [0.5, 0.5]))
    model = Singularity("deformed_wigner", transform=Eq(G, E(1 / (p - e - G))), variable=p, unknown=G, observables={"edge": p})
    a = brentq(lambda b: 0.5 / (b - 1.5) ** 2 + 0.5 / (b + 1.5) ** 2 - 1, 1.6, 9, xtol=1e-15)
    return model, {}, {"edge": a + 0.5 / (a - 1.5) + 0.5 / (a + 1.5)}


@paper("Penson & Życzkowski 2011: singular values of a product of two random matrices")
def product_of_matrices():
    model = Singularity(
        "product_of_matrices", transform=Eq(p * G, 1 + p**2 * G**3), variable=p, unknown=G, observables={"edge": p}
    )
    return model, {}, {"edge": 27 / 4}


@paper("Silverstein & Choi 1995: the edge of a sample covariance with variances 1 and 3")
def sample_covariance():
    k = random("k", Discrete([1, 3], [0.5, 0.5]))
    model = Singularity(
        "sample_covariance",
        transform=Eq(p * G, 1 + 0.5 * G * E(k / (1 - k * G))),
        variable=p,
        unknown=G,
        observables={"edge": p},
    )
    slope = lambda a: 0.25 * (1 / (1 - a) ** 2 + 9 / (1 - 3 * a) ** 2) - 1 / a**2
    a = brentq(slope, 0.01, 0.33, xtol=1e-15)
    return model, {}, {"edge": 1 / a + 0.25 * (1 / (1 - a) + 3 / (1 - 3 * a))}


@paper("Hayes 1950: stability of y' = -y(t - 1)/2 - y/5")
def delay_rate():
    model = Singularity(
        "delay_rate", transform=Eq(G, 1 / (p + 0.2 + exp(-p) / 2)), variable=p, unknown=G, observables={"rate": -p}
    )
    return model, {}, {"rate": -(special.lambertw(-0.5 * np.exp(0.2)).real - 0.2)}


# --- optimisation


@paper("Su, Boyd & Candès 2016: Nesterov's method in continuous time")
def nesterov():
    model = System("nesterov", eqs=[Eq(y(t).diff(t, 2), -3 / t * y(t).diff(t) - y(t))], init={y: 1, y(t).diff(t): 0})
    return model, {"t_max": 10}, {("y", m): 2 * special.jv(1, m) / m for m in (0.1, 10)}


@paper("Barakat & Bianchi 2021: Adam in continuous time, with its corrections of the start")
def adam():
    m, w = function("m w")
    eqs = [
        Eq(m(t).diff(t), y(t) - m(t)),
        Eq(w(t).diff(t), 2 * (y(t) ** 2 - w(t))),
        Eq(y(t).diff(t), -m(t) / (1 - exp(-t)) / (sqrt(w(t) / (1 - exp(-2 * t))) + 0.1)),
    ]
    model = System("adam", eqs=eqs, init={y: 1, m: 0, w: 0})

    def force(a, b):  # of the corrected averages
        return [-b[1] / (np.sqrt(b[2]) + 0.1), (b[0] - b[1]) / -np.expm1(-a), 2 * (b[0] ** 2 - b[2]) / -np.expm1(-2 * a)]

    e = 1e-7
    early = [1 - e / 1.1, 1 - e / 2.2, 1 - e / 1.1]
    truth = solve_ivp(force, (e, 1), early, method="DOP853", rtol=1e-11, atol=1e-13).y[0, -1]
    return model, {"t_max": 1}, {("y", 1): (truth, 1e-10)}


def marchenko_pastur(f, delta):
    """Return E f over the Marchenko–Pastur law, for δ > 1."""
    mid, half = 1 + 1 / delta, 2 / np.sqrt(delta)
    nodes = lambda b: mid - half * np.cos(b)
    return quad(lambda b: f(nodes(b)) * delta * (half * np.sin(b)) ** 2 / (2 * np.pi * nodes(b)), 0, np.pi, epsabs=1e-12)[0]


@paper("Polyak 1964 on random data: momentum, as in Paquette & Paquette 2021 without batches")
def heavy_ball():
    w, (f, f_star), (g, g_star) = state("w"), field("f f_star"), gradient("g g_star")
    w_star, delta = random("w_star", Normal(0, 1)), param("delta", positive=True)
    flow = Flow(
        "heavy_ball", state={w: 0}, weights=[w, w_star], fields=[f, f_star], loss_gradient=[f - f_star, 0], gradients=[g, g_star],
        drift={w: -g}, defaults={delta: 2}, observables={"e": E((w - w_star) ** 2)},
    )  # fmt: skip

    def left(a, m):  # of a'' + a' + xa = 0
        r = np.sqrt(complex(0.25 - a))
        return (np.exp(-m / 2) * (np.cosh(r * m) + np.sinh(r * m) / (2 * r))).real ** 2

    return flow.momentum(1), {"t_max": 5}, {("e", m): marchenko_pastur(lambda a: left(a, m), 2) for m in (1, 5)}


@paper("Paquette, Lee, Pedregosa & Paquette 2021: the loss under stochastic gradients, a Volterra equation")
def stochastic_gradients():
    k = random("k", MarchenkoPastur(2))
    eqs = [Eq(y(t), E(k * x(t))), Eq(x(t).diff(t), -2 * k * x(t) + 0.3 * k * y(t))]  # x: mode by mode
    model = System("stochastic_gradients", eqs=eqs, init={x: 1})

    def scheme(n):
        grid = np.linspace(0, 3, n + 1)
        kernels = np.array([marchenko_pastur(lambda a: a**2 * np.exp(-2 * a * m), 2) for m in grid]) * 0.3 * 3 / n
        losses = np.array([marchenko_pastur(lambda a: a * np.exp(-2 * a * m), 2) for m in grid])
        for i in range(1, n + 1):
            losses[i] += kernels[i] * losses[0] / 2 + kernels[i - 1 : 0 : -1] @ losses[1:i]
            losses[i] /= 1 - kernels[0] / 2
        return losses[-1]

    best, error = extrapolated(scheme, 40)
    return model, {"t_max": 3}, {("y", 3): (best, error)}


# --- integral equations


@paper("Abel 1826: an integral equation of the first kind")
def abel():
    model = System("abel", eqs=[], constraints={y: Eq(Int(y(s) / sqrt(t - s), (s, 0, t)), t)})
    return model, {"t_max": 1}, {("y", m): 2 * np.sqrt(m) / np.pi for m in (0.1, 1)}


@paper("Brunner 2004: a weakly singular equation of the second kind")
def weakly_singular():
    model = System("weakly_singular", eqs=[Eq(y(t), 1 - Int(y(t - s) / sqrt(s), (s, 0, t)) / sqrt(pi))])
    return model, {"t_max": 4}, {("y", m): special.erfcx(np.sqrt(m)) for m in (0.1, 4)}


@paper("Metzler & Klafter 2000: fractional relaxation")
def fractional_relaxation():
    model = System("fractional", eqs=[Eq(y(t), 1 - Int((t - s) ** Rational(-2, 5) * y(s), (s, 0, t)) / gamma(Rational(3, 5)))])
    return model, {"t_max": 3}, {("y", m): mittag_leffler(0.6, 1, -(m**0.6)) for m in (0.1, 3)}


@paper("Lutz 2001: the fractional Langevin equation, its velocity correlation")
def fractional_langevin():
    model = System("fractional_langevin", eqs=[Eq(y(t).diff(t), -Int(y(s) / sqrt(pi * (t - s)), (s, 0, t)))], init={y: 1})
    return model, {"t_max": 4}, {("y", m): mittag_leffler(1.5, 1, -(m**1.5)) for m in (0.3, 4)}


@paper("Basset 1888: a sphere that falls in a viscous fluid, with the force of its history")
def basset():
    model = System("basset", eqs=[Eq(y(t).diff(t), 1 - y(t) - Int(y(s).diff(s) / sqrt(pi * (t - s)), (s, 0, t)))], init={y: 0})
    truth = lambda m: inverse_laplace(lambda a: 1 / (a * (a + mpmath.sqrt(a) + 1)), m)
    return model, {"t_max": 5}, {("y", m): truth(m) for m in (0.5, 5)}


@paper("Lighthill 1950, Mann & Wolf 1951: a wall that radiates heat")
def radiating_wall():
    model = System("radiating_wall", eqs=[Eq(y(t), Int((1 - y(s) ** 4) / sqrt(pi * (t - s)), (s, 0, t)))])
    cheb, (nodes, weights) = np.polynomial.chebyshev, np.polynomial.legendre.leggauss(60)
    angles, root_t = np.pi / 4 * (nodes + 1), (1 + np.cos(np.pi * (np.arange(50) + 0.5) / 50)) / 2  # y is smooth in √t
    value = 0 * root_t
    for _ in range(400):
        fit = cheb.chebfit(2 * root_t - 1, value, 49)
        past = cheb.chebval(2 * np.outer(root_t, np.sin(angles)) - 1, fit)
        value = value + 0.5 * (2 * root_t / np.sqrt(np.pi) * ((1 - past**4) @ (np.sin(angles) * weights) * np.pi / 4) - value)
    return model, {"t_max": 1}, {("y", 1): (float(cheb.chebval(1, cheb.chebfit(2 * root_t - 1, value, 49))), 1e-11)}


@paper("El Euch & Rosenbaum 2019: the fractional Riccati equation of rough volatility")
def rough_volatility():
    a = Rational(3, 5)
    model = System("rough", eqs=[Eq(y(t), Int((t - s) ** (a - 1) * (1 - 1.2 * y(s) + 0.1 * y(s) ** 2), (s, 0, t)) / gamma(a))])
    terms = [0.0]  # of y = Σ a_k t^(0.6 k)
    for k in range(80):
        square = sum(terms[i] * terms[k - i] for i in range(k + 1))
        terms.append(((k == 0) - 1.2 * terms[k] + 0.1 * square) * special.gamma(0.6 * k + 1) / special.gamma(0.6 * k + 1.6))
    return model, {"t_max": 0.5}, {("y", 0.5): sum(b * 0.5 ** (0.6 * k) for k, b in enumerate(terms))}


@paper("Kohlrausch 1854, as an equation: y' = -y/√t")
def stretched():
    model = System("stretched", eqs=[Eq(y(t).diff(t), -y(t) / sqrt(t))], init={y: 1})
    return model, {"t_max": 4}, {("y", m): np.exp(-2 * np.sqrt(m)) for m in (0.1, 4)}


@paper("Bessel 1824, as an initial value problem")
def bessel():
    model = System("bessel", eqs=[Eq(y(t).diff(t, 2), -y(t).diff(t) / t - y(t))], init={y: 1, y(t).diff(t): 0})
    return model, {"t_max": 12}, {("y", m): special.jv(0, m) for m in (0.5, 12)}


# --- active matter and noise with memory


@paper("Howse et al. 2007: an active Brownian particle")
def active_particle():
    eqs = [Eq(theta(t).diff(t), xi(t)), Eq(x(t).diff(t), cos(theta(t)))]
    model = System(
        "active_particle", eqs=eqs, laws={xi: White(2)}, init={theta: 0, x: 0}, observables={"m": E(x(t)), "q": E(x(t) ** 2)}
    )
    square = dblquad(lambda a, b: np.exp(a - b) * (1 + np.exp(-4 * a)), 0, 2, 0, lambda b: b)[0]
    return model, {"t_max": 2}, {("m", 2): 1 - np.exp(-2), ("q", 2): square}


@paper("Szamel 2014: a particle driven by an Ornstein–Uhlenbeck process, in a trap")
def driven_particle():
    eqs = [Eq(x(t).diff(t), -x(t) / 2 + z(t))]
    model = System("driven_particle", eqs=eqs, laws={z: GP(exp(-Abs(t - tp)))}, init={x: 0}, observables={"q": E(x(t) ** 2)})
    truth = 2 * dblquad(lambda a, b: np.exp(-(3 - a) / 2 - (3 - b) / 2 - (b - a)), 0, 3, 0, lambda b: b)[0]
    return model, {"t_max": 3}, {("q", 3): truth}


@paper("Mandelbrot & Van Ness 1968: relaxation under fractional Brownian motion, H = 0.3")
def fractional_brownian():
    law = (t**0.6 + tp**0.6 - Abs(t - tp) ** 0.6) / 2
    model = System(
        "fbm", eqs=[Eq(x(t).diff(t), -x(t) + z(t))], laws={z: GP(law)}, init={x: 0}, observables={"q": E(x(t) ** 2)}
    )
    f = lambda a, b: np.exp(a + b - 4) * (a**0.6 + b**0.6 - (b - a) ** 0.6)
    truth = dblquad(f, 0, 2, 0, lambda b: b, epsabs=1e-10)[0]
    return model, {"t_max": 2}, {("q", 2): (truth, 1e-8)}


@paper("Cessac 1995: a random network in discrete time, with thresholds")
def discrete_network():
    eqs = [Eq(C(t, tp), E(tanh(x(t)) * tanh(x(tp)))), Eq(x(t).diff(t), -x(t) + z(t))]
    model = System(
        "discrete", eqs=eqs, laws={z: GP(4 * C(t, tp) + 0.09)}, init={x: Normal(0, 1)}, observables={"q": C(t, t)}, step=1
    )
    q = 1.0
    for _ in range(8):
        q = 4 * mean(lambda n: np.tanh(np.sqrt(q) * n) ** 2) + 0.09
    return model, {"t_max": 8}, {("q", 8): mean(lambda n: np.tanh(np.sqrt(q) * n) ** 2)}


@paper("Derrida, Gardner & Zippelius 1987: retrieval in a diluted network, step by step")
def diluted_network():
    model = System("diluted_network", eqs=[Eq(y(t).diff(t), erf(y(t) / sqrt(Rational(3, 5))) - y(t))], init={y: 0.1})
    m = 0.1
    for _ in range(12):
        m = special.erf(m / np.sqrt(0.6))
    return model, {"t_max": 12, "step": 1}, {("y", 12): m}


@paper("Cho & Saul 2009: the angle between two inputs with rectified units, layer by layer")
def arc_cosine():
    turned = (sqrt(1 - y(t) ** 2) + y(t) * (pi - sympy.acos(y(t)))) / pi
    model = System("arc_cosine", eqs=[Eq(y(t).diff(t), turned - y(t))], init={y: 0.2})
    c = 0.2
    for _ in range(10):
        c = (np.sqrt(1 - c**2) + c * (np.pi - np.arccos(c))) / np.pi
    return model, {"t_max": 10, "step": 1}, {("y", 10): c}


# --- well posed, and not solved at first: two of them still are not


@paper("Ott & Antonsen 2008: Kuramoto's oscillators with a Lorentzian, whose tails are heavy")
def lorentzian():
    omega = random("omega", StudentT(1))
    eqs = [Eq(y(t), E(cos(theta(t)))), Eq(theta(t).diff(t), omega - 4 * y(t) * sin(theta(t)))]
    model = System("lorentzian", eqs=eqs, init={theta: 0})
    truth = lambda m: ode(lambda a, b: -b + 2 * b * (1 - b**2), [1.0], m)[0]
    return model, {"t_max": 2}, {("y", m): truth(m) for m in (0.5, 2)}


@paper("Bunin 2017: the community from a uniform start, which has species near zero")
def community_uniform():
    model, _, truths = community()
    known = {(name, 60): (truth[0], 0.01 * truth[0]) for (name, _), truth in truths.items()}
    return model.replace("community_uniform", init={x: Uniform(0, 1)}), {"t_max": 60}, known


@paper("Mitzenmacher 1996: the shorter of two queues, twelve places, the last of them of size 1e-187")
def two_queues_long():
    return two_queues(12)


@paper("Paquette, Lee, Pedregosa & Paquette 2021: the Volterra equation itself, with means in its kernel")
def stochastic_gradients_kernel():
    k = random("k", MarchenkoPastur(2))
    memory = Int(E(k**2 * exp(-2 * k * (t - s))) * y(s), (s, 0, t))
    model = System("stochastic_gradients_kernel", eqs=[Eq(y(t), E(k * exp(-2 * k * t)) + 0.3 * memory)])
    return model, *stochastic_gradients()[1:]


@paper("Cugliandolo & Dean 1995: the normalisation, its kernel written as I_1(4t)/(2t)")
def spherical_quench_ratio():
    kernel = lambda a: besseli(1, 4 * a) / (2 * a)
    eqs = [Eq(y(t), kernel(t) + Int(kernel(t - s) * y(s), (s, 0, t)))]
    return System("spherical_quench_ratio", eqs=eqs), *spherical_quench()[1:]


@paper("Kimura 1955: random drift of a gene's frequency, which is lost or fixed in finite time")
def gene_drift():
    eqs = [Eq(x(t).diff(t), sqrt(x(t) * (1 - x(t))) * xi(t))]
    model = System(
        "gene_drift", eqs=eqs, laws={xi: White(1, sense="ito")}, init={x: 0.5}, observables={"h": E(x(t) * (1 - x(t)))}
    )
    return model, {"t_max": 1}, {("h", 1): np.exp(-1) / 4}


@paper("Heston 1997: the 3/2 model of volatility")
def three_halves():
    eqs = [Eq(x(t).diff(t), x(t) * (1 - x(t)) + x(t) ** Rational(3, 2) * xi(t))]
    model = System("three_halves", eqs=eqs, laws={xi: White(1, sense="ito")}, init={x: 1}, observables={"m": E(1 / x(t))})
    return model, {"t_max": 1}, {("m", 1): 2 - np.exp(-1)}


# --- ill posed, or documented as not taken


@paper("Mallet-Paret & Nussbaum 1992: a delay that depends on the solution")
def state_delay():
    return System("state_delay", eqs=[Eq(y(t).diff(t), -y(t - y(t)))], init={y: 1}), {"t_max": 2}, "delay"


@paper("Kato & McLeod 1971: the pantograph, a delay that grows with time")
def pantograph():
    return System("pantograph", eqs=[Eq(y(t).diff(t), -y(t / 2))], init={y: 1}), {"t_max": 2}, "delay"


def perceptron_runs(d=1000, runs=8, steps=500):
    """Return E w² of the rule at t = 1 over finite sizes, n = 2 d, and its standard error."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        data, teacher, w = rng.standard_normal((2 * d, d)) / np.sqrt(d), rng.standard_normal(d), rng.standard_normal(d)
        w *= np.sqrt(d) / np.linalg.norm(w)
        labels = np.sign(data @ teacher)
        for _ in range(steps):
            w -= data.T @ (np.sign(data @ w) - labels) / (2 * steps)
        found.append(w @ w / d)
    return np.mean(found), 2 * np.std(found, ddof=1) / np.sqrt(runs)


@paper("Rosenblatt 1958: the perceptron's rule, which jumps in the student's own field (to 1e-2)")
def perceptron_rule():
    w, (f, f_star), (g, g_star) = state("w"), field("f f_star"), gradient("g g_star")
    w_star, delta = random("w_star", Normal(0, 1)), param("delta", positive=True)
    model = Flow(
        "perceptron_rule", state={w: Normal(0, 1)}, weights=[w, w_star], fields=[f, f_star], gradients=[g, g_star], drift={w: -g},
        loss_gradient=[sympy.sign(f) - sympy.sign(f_star), 0], defaults={delta: 2}, observables={"q": E(w**2)},
    )  # fmt: skip
    return model, {"t_max": 1, "rtol": 1e-2}, {("q", 1): perceptron_runs()}


@paper("Fuchs 1866: a regular singular point, with no finite solution from the value given")
def singular_start():
    return System("singular_start", eqs=[Eq(y(t).diff(t), -y(t) / t)], init={y: 1}), {"t_max": 1}, "singular"


@paper("Bochner 1932: a function that is no covariance")
def no_covariance():
    eqs = [Eq(x(t).diff(t), -x(t) + z(t))]
    model = System("no_covariance", eqs=eqs, laws={z: GP(1 - (t - tp) ** 2)}, init={x: 0}, observables={"q": E(x(t) ** 2)})
    return model, {"t_max": 1}, "no covariance"


@paper("van Kampen 1981: noise times the unknown, without saying in which sense")
def no_sense():
    eqs = [Eq(x(t).diff(t), -x(t) + x(t) * xi(t))]
    return System("no_sense", eqs=eqs, laws={xi: White(1)}, init={x: 1}, observables={"m": E(x(t))}), {"t_max": 1}, "sense"


@paper("Derrida 1981, as rates: relaxation with Gaussian energies for rates, which has no rate")
def gaussian_rates():
    k = random("k", Normal(0, 1))
    model = Singularity("gaussian_rates", transform=Eq(G, E(1 / (p + k))), variable=p, unknown=G, observables={"rate": -p})
    return model, {}, "no finite rate"


@paper("Lang & Kobayashi 1980: a laser's complex field")
def complex_field():
    return System("complex_field", eqs=[Eq(y(t).diff(t), sympy.I * y(t))], init={y: 1}), {"t_max": 1}, "imaginary"


@paper("Driver 1963: an equation that knows the future")
def advanced():
    return System("advanced", eqs=[Eq(y(t).diff(t), -y(t + 1))], init={y: 1}), {"t_max": 1}, "future"


@paper("Volterra 1896: an equation of the first kind that its right-hand side contradicts at the start")
def contradicted():
    model = System("contradicted", eqs=[], constraints={y: Eq(Int(exp(s - t) * y(s), (s, 0, t)), 1 + t)})
    return model, {"t_max": 1}, "does not hold at the start"


@paper("Fujita 1966, without space: growth that ends in finite time")
def blow_up():
    return System("blow_up", eqs=[Eq(y(t).diff(t), y(t) ** 2)], init={y: 1}), {"t_max": 2}, "cannot be continued past t = 1"


# --- running


def one(name, limit, pipe):
    """Solve one model in this process, and send what comes out: a forecast, then the outcome."""
    model, settings, truths = MODELS[name][1]()
    begin = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(begin + limit) + 1, resource.RLIM_INFINITY))

    def progress(done, total, text):
        if done and (spent := time.process_time() - begin) < 5:
            pipe.send({"note": f"forecast after {spent:.1f} s: {spent * total / done:.0f} s"})

    by = settings.pop("by", eqsolve.solve)
    worst, note = 0.0, ""
    try:
        result = by(model, **{"rtol": 1e-3, **settings}, progress=progress)
        status = result.status
    except eqsolve.EqsolveError as error:
        rightly = isinstance(truths, str) and truths in str(error)
        outcome = {"outcome": "refused rightly" if rightly else "refused", "note": str(error)}
    else:
        if isinstance(truths, str):
            outcome = {"outcome": "wrong", "note": f"solved, where {truths!r} was expected"}
        else:
            for key, truth in truths.items():
                value, stated = read(result, key)
                exact, error = truth if isinstance(truth, tuple) else (truth, 0.0)
                off = max(abs(value - exact) - error - 1e-12 * abs(exact), 0.0) / max(stated, 1e-14 * abs(value), 1e-300)
                note += f" {key} = {value:.8g}, off {abs(value - exact):.1e} (known to {error:.0e}), stated {stated:.1e};"
                worst = max(worst, off) if off == off else np.inf
            done = status in ("ok", "still", "fluctuating")
            outcome = {"outcome": "wrong" if worst > 3 else "solved" if done else "stuck", "note": status + note}
    pipe.send(outcome | {"ratio": worst, "seconds": time.process_time() - begin})


def read(result, key):
    """Return a value and its stated error: of a number, at a time or a lag, or at two times."""
    if isinstance(key, str):
        return float(result[key]), float(result.error[key])
    name, *when = key
    found = result.at2([tuple(when)]) if len(when) == 2 else result.at([when[0]])
    return float(found[name].values.ravel()[0]), float(found[f"{name}_error"].values.ravel()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all by default")
    parser.add_argument("--limit", type=int, default=30, help="CPU seconds for one solve")
    parser.add_argument("--notes", action="store_true", help="print values and messages too")
    options = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    counts = dict.fromkeys(("solved", "refused rightly", "refused", "stuck", "wrong"), 0)
    print("| model | paper | outcome | true error / stated | CPU s |\n|---|---|---|---|---|")
    for name in options.names or MODELS:
        ours, theirs = fork.Pipe(duplex=False)
        child = fork.Process(target=one, args=(name, options.limit, theirs))
        child.start()
        theirs.close()
        found = {"note": "no forecast", "ratio": float("nan"), "seconds": options.limit}
        with contextlib.suppress(EOFError):
            while True:
                found |= ours.recv()
        child.join()
        found.setdefault("outcome", "stuck" if child.exitcode == -signal.SIGXCPU else "wrong")  # by a crash
        counts[found["outcome"]] = counts.get(found["outcome"], 0) + 1
        ratio = "–" if "refused" in found["outcome"] else f"{found['ratio']:.2g}"
        print(f"| {name} | {MODELS[name][0]} | {found['outcome']} | {ratio} | {found['seconds']:.1f} |", flush=True)
        if options.notes or found["outcome"] not in ("solved", "refused rightly"):
            print("    ", found["note"], flush=True)
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items()))


if __name__ == "__main__":
    main()
