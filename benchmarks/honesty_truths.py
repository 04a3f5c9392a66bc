"""Values known for another reason than the engine's, for honesty.py: closed forms, quadrature, other methods.

Each function takes (settings, at, pairs) and returns curves and kernels: two dictionaries of arrays (numbers, for a fixed point),
together with the same of their errors.
"""

from __future__ import annotations

import functools

import mpmath
import numpy as np
from honesty_sampled import Panels, diagonal, flow, refine, solve_thrice, species
from numpy.polynomial.legendre import leggauss
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, root
from scipy.special import ive

import eqsolve

ROUNDING = 4e-15  # of a closed form, relative to its largest value


def exact(curves, kernels=None):
    """Return values with the errors of rounding."""
    made = []
    for group in (curves, kernels or {}):  # without pairs of times there are no kernels
        group = {name: value for name, value in group.items() if np.size(value)}
        values = {name: np.asarray(value, float) for name, value in group.items()}
        made += [values, {name: np.full(value.shape, ROUNDING * np.abs(value).max()) for name, value in values.items()}]
    return made[0], made[2], made[1], made[3]


def digits(values):
    """Return numbers of many digits as floats, whose rounding is their only error."""
    values = {name: float(value) for name, value in values.items()}
    return values, {}, {name: 1.2e-16 * abs(value) for name, value in values.items()}, {}


def many_digits():
    mp = mpmath.mp.clone()
    mp.dps = 30
    return mp


def twice(coarse, fine):
    """Return the finer of two solutions, with what lies between them as its error."""
    made = []
    for low, high in zip(coarse, fine, strict=True):
        made.append({name: np.abs(high[name] - low[name]) + ROUNDING * np.abs(high[name]).max() for name in high})
    return *fine, *made


def columns(pairs):
    table = np.asarray(pairs, float).reshape(-1, 2)
    return table[:, 0], table[:, 1]


# --- equations with memory ---------------------------------------------------------------------------------------------
def volterra_linear(settings, at, pairs):
    t = np.asarray(at)
    return exact({"y": np.exp(-t) * np.sin(2 * t) / 2})


def integro_nonlinear(settings, at, pairs):
    return exact({"y": settings["a"] / (1 + settings["a"] * np.asarray(at))})


def spectrum(delta, count=2000):
    """Return eigenvalues and weights of the Marchenko–Pastur law of XᵀX/δ, by the midpoint rule in its angle."""
    angle = (np.arange(count) + 0.5) * np.pi / count
    x = 1 + 1 / delta + 2 / np.sqrt(delta) * np.cos(angle)
    weights = 2 * np.sin(angle) ** 2 / (count * x)
    if delta < 1:
        x, weights = np.append(x, 0.0), np.append(weights, 1 - delta)
    return x, weights


def linear_regression(settings, at, pairs):
    delta, lam, rho2, sigma2 = (settings[name] for name in ("delta", "lam", "rho2", "sigma2"))
    x, weights = spectrum(delta)

    def phi(t):
        rate = np.where(x + lam > 0, x + lam, 1.0)
        time = np.asarray(t, float)[:, None]
        return np.where(x + lam > 0, -np.expm1(-rate * time) / rate, time)

    def C_w(t, s):
        return (rho2 * (1 - x * phi(t)) * (1 - x * phi(s)) + sigma2 / delta * x * phi(t) * phi(s)) @ weights

    def C_f(t, s):
        rest = (1 - x * phi(t)) * (1 - x * phi(s))
        return (rho2 * x * rest + sigma2 / delta * rest) @ weights + sigma2 / delta * (delta - 1)

    t, s = columns(pairs)
    decay = np.exp(-(x + lam) * np.maximum(t - s, 0)[:, None]) / delta * (t >= s)[:, None]
    return exact(
        {"m": rho2 * (1 - x * phi(at)) @ weights, "E_train": C_f(at, at), "E_test": C_w(at, at) + sigma2},
        {"C_w": C_w(t, s), "C_f": C_f(t, s), "R_w": decay @ weights, "R_f": (x * decay) @ weights},
    )


def without_overlap(settings, at, pairs):
    """dln_lazy and linear_flow: ridge regression (λ = 0 in the first) without the unknown m."""
    values, kernels, *errors = linear_regression({"lam": 0.0, **settings}, at, pairs)
    del values["m"], errors[0]["m"]
    return values, kernels, *errors


def two_spin(settings, at, pairs):
    """pspin with p = 2, T = 0: independent modes of a semicircle law, f(τ) = I₁(2τ)/τ."""

    def log_f(tau):
        tau = np.maximum(tau, 1e-12)
        return np.log(ive(1, 2 * tau) / tau) + 2 * tau

    t, s = columns(pairs)
    double = np.maximum(2 * np.asarray(at), 1e-12)
    mu = 2 * ive(2, 2 * double) / ive(1, 2 * double)
    response = np.exp((log_f(2 * s) - log_f(2 * t)) / 2 + log_f(np.abs(t - s))) * (t >= s)
    return exact({"mu": mu, "energy": -mu / 2}, {"C": np.exp(log_f(t + s) - (log_f(2 * t) + log_f(2 * s)) / 2), "R": response})


def spins(settings, at, pairs):
    """pspin: p = 2, T = 0 in closed form, else the engine at tolerances far below those tried."""
    if settings["p"] == 2 and settings["T"] == 0:
        return two_spin(settings, at, pairs)

    def solve(rtol):
        found = eqsolve.solve("pspin", at=at, at2=pairs, rtol=rtol, params=settings)
        curves, kernels = found.at(at), found.at2(pairs)
        return {name: curves[name].values for name in ("mu", "energy")}, {name: kernels[name].values for name in ("C", "R")}

    return twice(solve(1e-6), solve(1e-8))


# --- differential equations with random constants -------------------------------------------------------------------------
def law_nodes(law, count):
    """Return nodes and weights of a law given as (name, numbers)."""
    name, *numbers = law
    if name == "Bernoulli":
        return np.array([0.0, 1.0]), np.array([1 - numbers[0], numbers[0]])
    if name == "Rademacher":
        return np.array([-1.0, 0.0, 1.0]), np.array([numbers[0] / 2, 1 - numbers[0], numbers[0] / 2])
    if name == "Uniform":
        nodes, weights = leggauss(count)
        return numbers[0] + (nodes + 1) / 2 * (numbers[1] - numbers[0]), weights / 2
    nodes = np.linspace(-9, 9, 2 * count + 1)
    weights = np.exp(-(nodes**2) / 2)
    return numbers[0] + np.sqrt(numbers[1]) * nodes, weights / weights.sum()


def dln_infinite_data(settings, at, pairs):
    def solve(count, tolerance):
        target, weights = law_nodes(settings["law"], count)
        alpha, lam = settings["alpha"], settings["lam"]

        def slope(t, theta):
            return target - alpha**2 * np.exp(-lam * t) * np.sinh(theta)

        times = np.asarray(at, float)
        found = solve_ivp(slope, (0, times.max()), np.zeros(len(target)), "DOP853", times, rtol=tolerance, atol=tolerance)
        w = alpha**2 * np.exp(-lam * times)[:, None] * np.sinh(found.y.T)
        return {"E_test": (w - target) ** 2 @ weights + settings["sigma2"], "w_mean": w @ weights}, {}

    return twice(solve(150, 1e-10), solve(240, 1e-13))


# --- random network ----------------------------------------------------------------------------------------------------------
@functools.cache
def hermite_functions(count, terms):
    """Return nodes of a standard normal variable, and weights times normalised Hermite polynomials (odd ones)."""
    x = np.linspace(-14, 14, count)
    low, high, made = np.zeros_like(x), np.exp(-(x**2) / 4), []
    for k in range(2 * terms):
        if k % 2:
            made.append(high)
        low, high = high, (x * high - np.sqrt(k) * low) / np.sqrt(k + 1)
    return x, np.array(made) * np.exp(-(x**2) / 4) * (x[1] - x[0]) / np.sqrt(2 * np.pi)


def rnn(settings, at, pairs):
    """Affine in its noise, so x is Gaussian: C = e^{−t−t'} + G g²Q(C) Gᵀ with Q = E tanh tanh' by Hermite coefficients."""

    def solve(order, terms, longest):
        grid = Panels(refine([*at, *(t for pair in pairs for t in pair)], longest), order)
        gain, n = settings["gain"], len(grid.nodes)
        G = np.linalg.solve(np.eye(n) + grid.integral, grid.integral)
        begin = np.outer(np.exp(-grid.nodes), np.exp(-grid.nodes))
        x, rows = hermite_functions(1201, terms)
        powers = 2 * np.arange(terms) + 1
        C = begin
        for _ in range(400):
            deviation = np.sqrt(np.diag(C))
            coefficients = np.tanh(deviation[:, None] * x) @ rows.T
            rho = np.clip(C / np.outer(deviation, deviation), -1, 1)
            Q = np.zeros_like(C)
            for k, power in enumerate(powers):
                Q += np.outer(coefficients[:, k], coefficients[:, k]) * rho**power
            new = begin + gain**2 * G @ Q @ G.T
            change, C = np.abs(new - C).max(), new
            if change < 1e-14:
                break
        where = [grid.index(t) for t in at]
        kernel = np.array([C[grid.index(t), grid.index(s)] for t, s in pairs])
        return {"q": np.diag(C)[where], "phi2": np.diag(Q)[where]}, {"C": kernel}

    return twice(solve(7, 60, 1.2), solve(9, 90, 1.0))


# --- stochastic systems by tensor quadrature ----------------------------------------------------------------------------------
def sampled(solver, model):
    return lambda settings, at, pairs: solve_thrice(solver, model, settings, at, pairs)


# --- fixed points -----------------------------------------------------------------------------------------------------------
def soft_threshold(settings, at, pairs, names):
    """lasso, elastic_net, state_evolution, dln_fixed_point_l1 by Gaussian integrals in closed form, 30 digits."""
    mp = many_digits()
    delta, lam, sigma2, p = (mp.mpf(settings[name]) for name in ("delta", "lam", "sigma2", "p"))
    kappa = mp.mpf(settings.get("kappa", 0))

    def tail(x):
        return mp.erfc(x / mp.sqrt(2)) / 2

    def bump(x):
        return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)

    def parts(target, tau, level):
        """Return P(active) and E[(w − w*)²]."""
        shrink = 1 / (1 + kappa * level)
        active, square = mp.mpf(0), target**2
        for sign in (1, -1):  # sign · observation > level; excess = sign·target − level + τG
            a = (level - sign * target) / tau
            mass, first, second = tail(a), bump(a), tail(a) + a * bump(a)
            base = sign * target - level
            e1 = base * mass + tau * first
            e2 = base**2 * mass + 2 * base * tau * first + tau**2 * second
            active += mass
            square += shrink**2 * e2 - 2 * shrink * sign * target * e1
        return active, square, shrink

    def balance(b, tau2):
        tau, level = mp.sqrt(tau2), lam / (1 - b)
        found = [(weight, *parts(mp.mpf(target), tau, level)) for target, weight in ((0, 1 - p), (1, p))]
        active = sum(weight * each for weight, each, _, _ in found)
        square = sum(weight * each for weight, _, each, _ in found)
        return active, square, active * found[0][3], level

    def gap(b, tau2):
        _, square, slope, _ = balance(b, tau2)
        return [b - slope / delta, tau2 - (square + sigma2) / delta]

    b, tau2 = mp.mpf("0.3"), (p + sigma2) / delta
    for _ in range(300):  # state evolution converges; Newton's method finishes
        active, square, slope, _ = balance(b, tau2)
        b, tau2 = (b + min(slope / delta, mp.mpf("0.99"))) / 2, (square + sigma2) / delta
    b, tau2 = mp.findroot(gap, (b, tau2), tol=1e-25)
    active, square, _, level = balance(b, tau2)
    everything = {
        "C_w": square,
        "tau2": tau2,
        "b": b,
        "b_star": b,
        "sigma2_star": tau2,
        "t_star": level,
        "chi_w": b / (1 - b),
        "C_f": (square + sigma2) * (1 - b) ** 2,
        "E_train": (square + sigma2) * (1 - b) ** 2,
        "E_test": square + sigma2,
        "P_w_zero": 1 - active,
    }
    return digits({name: everything[name] for name in names})


def ridge(settings, at, pairs):
    """By the Marchenko–Pastur law: w − w* has variance (λ²ρ² + σ²x/δ)/(x + λ)² along an eigenvector of eigenvalue x."""
    mp = many_digits()
    delta, lam, sigma2, p = (mp.mpf(settings[name]) for name in ("delta", "lam", "sigma2", "p"))

    def stieltjes(z):  # E[1/(x + z)]
        c = 1 / delta
        return (mp.sqrt((1 - c + z) ** 2 + 4 * c * z) - (1 - c + z)) / (2 * c * z)

    first, second = stieltjes(lam), -mp.diff(stieltjes, lam)
    C_w = lam**2 * p * second + sigma2 / delta * (first - lam * second)
    b, E_test = (1 - lam * first) / delta, C_w + sigma2
    return digits({"C_w": C_w, "b": b, "tau2": E_test / delta, "E_test": E_test, "E_train": E_test * (1 - b) ** 2})


class MinimumNorm:
    """The interpolator of minimum norm (two layers): w = α² sinh θ, x = α² cosh θ, and w + Rθ = w* + noise.

    The noise is explicit in θ, so its mean is an integral over θ of an entire function: equal steps.
    """

    def __init__(self, settings):
        self.mp = mp = many_digits()
        self.alpha, self.delta, self.sigma2, self.p = (mp.mpf(settings[name]) for name in ("alpha", "delta", "sigma2", "p"))
        start = None
        for C in (1, 0.3, 0.1, 0.01):
            for R in (1.0, 0.1, 10.0):
                found = root(lambda logs: self.gap(*np.exp(logs), np), np.log([C * float(self.p), R]), tol=1e-13)
                if found.success and np.abs(found.fun).max() < 1e-9:
                    start = np.exp(found.x)
                    break
            if start is not None:
                break
        self.C, self.R = mp.findroot(lambda C, R: self.gap(C, R, mp), tuple(mp.mpf(float(x)) for x in start), tol=1e-40)

    def nodes(self, R, spread, lib, count=1200):
        """Return (w*, weight, w, x) at equal steps of θ."""
        exact = lib is self.mp
        alpha2, p = (self.alpha**2, self.p) if exact else (float(self.alpha) ** 2, float(self.p))
        for target, mass in ((0, 1 - p), (1, p)):
            low, high = (
                brentq(lambda y: float(alpha2) * np.sinh(y) + float(R) * y - target - sign * 12 * float(spread), -300, 300)
                for sign in (-1, 1)
            )
            if exact:
                low, high = self.mp.mpf(low), self.mp.mpf(high)
                grid, step = [low + (high - low) * k / count for k in range(count + 1)], (high - low) / count
                for y in grid:
                    up = self.mp.exp(y)
                    w, x = alpha2 * (up - 1 / up) / 2, alpha2 * (up + 1 / up) / 2
                    z = (w + R * y - target) / spread
                    weight = mass * self.mp.exp(-z * z / 2) * (x + R) / spread * step / self.mp.sqrt(2 * self.mp.pi)
                    yield target, weight, w, x
            else:
                y = np.linspace(low, high, count + 1)
                w, x = alpha2 * np.sinh(y), alpha2 * np.cosh(y)
                z = (w + R * y - target) / spread
                yield target, mass * np.exp(-z * z / 2) * (x + R) / spread * (y[1] - y[0]) / np.sqrt(2 * np.pi), w, x

    def gap(self, C, R, lib):
        exact = lib is self.mp
        delta, sigma2 = (self.delta, self.sigma2) if exact else (float(self.delta), float(self.sigma2))
        square = ratio = 0
        for target, weight, w, x in self.nodes(R, lib.sqrt((C + sigma2) / delta), lib):
            square = square + (weight * (w - target) ** 2 if exact else np.sum(weight * (w - target) ** 2))
            ratio = ratio + (weight * x / (x + R) if exact else np.sum(weight * x / (x + R)))
        return [lib.log(square / C), lib.log(ratio / delta)]

    def law(self):
        """Return x and its weights."""
        spread = self.mp.sqrt((self.C + self.sigma2) / self.delta)
        made = [(x, weight) for _, weight, _, x in self.nodes(self.R, spread, self.mp)]
        return [x for x, _ in made], [weight for _, weight in made]


def dln_fixed_point(settings, at, pairs):
    delta, sigma2, p = (settings[name] for name in ("delta", "sigma2", "p"))
    if settings.get("lam", 0) > 0:
        return soft_threshold(settings, at, pairs, ["C_w", "C_f", "chi_w", "E_train", "E_test", "P_w_zero"])
    if delta > 1:
        delta, sigma2 = mpmath.mpf(delta), mpmath.mpf(sigma2)
        C_w, C_f = sigma2 / (delta - 1), (delta - 1) / delta * sigma2
        zero = 0.0 if sigma2 else 1 - p
        return digits(
            {"C_w": C_w, "C_f": C_f, "chi_w": 1 / (delta - 1), "E_train": C_f, "E_test": C_w + sigma2, "P_w_zero": zero}
        )
    found = MinimumNorm(settings)
    C, R = found.C, found.R
    return digits({"C_w": C, "R_w": R, "Cf_tilde": (C + found.sigma2) / R**2, "E_test": C + found.sigma2})


def dln_rate(settings, at, pairs):
    """With u = p + R the transform is explicit, p = u − (u/δ) E[x/(u + x)], and singular where dp/du = 0."""
    mp = many_digits()
    delta, alpha, p = (mp.mpf(settings[name]) for name in ("delta", "alpha", "p"))
    if delta < 1:
        x, weights = MinimumNorm(settings).law()
    else:  # w = w* + noise, again in θ
        spread, x, weights = mp.sqrt(mp.mpf(settings["sigma2"]) / (delta - 1)), [], []
        for target, mass in ((0, 1 - p), (1, p)):
            low, high = (mp.asinh((target + sign * 12 * spread) / alpha**2) for sign in (-1, 1))
            for k in range(3001):
                y = low + (high - low) * k / 3000
                w, slope = alpha**2 * mp.sinh(y), alpha**2 * mp.cosh(y)
                weight = mp.exp(-(((w - target) / spread) ** 2) / 2) * slope / spread * (high - low) / 3000
                x.append(slope)
                weights.append(mass * weight / mp.sqrt(2 * mp.pi))

    def gap(u):
        return mp.fsum(weight * (each / (u + each)) ** 2 for each, weight in zip(x, weights, strict=True)) - delta

    floats, masses = np.array([float(each) for each in x]), np.array([float(weight) for weight in weights])
    low, high = (-(float(alpha) ** 2) * (1 - 1e-9), 0.0) if delta > 1 else (0.0, 1e4)
    near = brentq(lambda u: (floats / (u + floats)) ** 2 @ masses - float(delta), low, high, xtol=1e-300, rtol=1e-13)
    u = mp.findroot(gap, (mp.mpf(near), mp.mpf(near) * (1 + mp.mpf(10) ** -9)), tol=1e-45)
    A = mp.fsum(weight * each / (u + each) for each, weight in zip(x, weights, strict=True))
    return digits({"gamma": -u * (1 - A / delta), "u": u, "A": A})


def linear_regression_rate(settings, at, pairs):
    root_delta = mpmath.sqrt(mpmath.mpf(settings["delta"]))
    return digits({"gamma": settings["lam"] + (1 - 1 / root_delta) ** 2, "u": 1 / root_delta - 1, "A": root_delta})


TRUTHS = {
    "volterra_linear": volterra_linear,
    "integro_nonlinear": integro_nonlinear,
    "linear_regression": linear_regression,
    "dln_lazy": without_overlap,
    "linear_flow": without_overlap,
    "dln_infinite_data": dln_infinite_data,
    "pspin": spins,
    "rnn": rnn,
    "dln": sampled(diagonal, "dln"),
    "dln_flow": sampled(diagonal, "dln_flow"),
    "dln_rich": sampled(diagonal, "dln_rich"),
    "lotka_volterra": sampled(species, "lotka_volterra"),
    **{name: sampled(flow, name) for name in ("teacher_student_tanh", "logistic_regression", "phase_retrieval")},
    "lasso": functools.partial(soft_threshold, names=["C_w", "tau2", "b", "E_train", "E_test", "P_w_zero"]),
    "elastic_net": functools.partial(soft_threshold, names=["C_w", "tau2", "b", "E_train", "E_test", "P_w_zero"]),
    "state_evolution": functools.partial(
        soft_threshold, names=["b_star", "sigma2_star", "t_star", "chi_w", "C_w", "C_f", "E_train", "E_test", "P_w_zero"]
    ),
    "ridge": ridge,
    "dln_fixed_point": dln_fixed_point,
    "dln_rate": dln_rate,
    "linear_regression_rate": linear_regression_rate,
}
