"""Stochastic systems of other fields: a recurrent network and interacting species, against equations solved plainly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.special import ndtr

import eqsolve
from tests.solvers.paths.test_stochastic import MODELS, Array, largest, solve


# --- the recurrent network: its closed two-time equation ----------------------------------------------------------------
def gaussian_rates(first: float, second: Array, cross: Array) -> Array:
    """E[tanh u tanh v] of centred Gaussians with the given variances and covariances.

    The trapezoid rule in both standard normals: its error falls exponentially, at the step 14/30 to about 1e-9.
    """
    nodes = np.linspace(-7, 7, 31)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    slope = cross / np.sqrt(first)
    rest = np.sqrt(np.maximum(second - slope**2, 0))
    inner = np.tanh(slope[:, None, None] * nodes[:, None] + rest[:, None, None] * nodes) @ weights
    return inner @ (weights * np.tanh(np.sqrt(first) * nodes))


def march_rates(gain: float, end: float, steps: int) -> tuple[Array, Array]:
    """Solve C(t, t') = e^{−t−t'} + g² ∫∫ e^{−(t−s)−(t'−s')} F(s, s') ds ds' on a uniform grid; return C and F.

    Trapezoid rule in both times, row by row, each row a fixed point. D(t, t') is the inner integral, over s'.
    """
    step, decay = end / steps, np.exp(-end / steps)
    table, rates, inner = np.zeros((3, steps + 1, steps + 1))
    table[0, 0] = 1.0
    rates[0, 0] = gaussian_rates(1.0, np.ones(1), np.ones(1))[0]
    for i in range(1, steps + 1):
        here = np.exp(-step * np.arange(i + 1))
        table[i, : i + 1] = np.append(table[i - 1, :i], table[i - 1, i - 1])
        for _ in range(60):
            table[:i, i] = table[i, :i]
            rates[i, : i + 1] = gaussian_rates(table[i, i], np.diagonal(table)[: i + 1], table[i, : i + 1])
            rates[:i, i] = rates[i, :i]
            drive = gain**2 * rates
            inner[:i, i] = decay * inner[:i, i - 1] + step / 2 * (decay * drive[:i, i - 1] + drive[:i, i])
            for j in range(1, i + 1):
                inner[i, j] = decay * inner[i, j - 1] + step / 2 * (decay * drive[i, j - 1] + drive[i, j])
            before = table[i - 1, : i + 1] - here[i - 1] * here
            new = here[i] * here + decay * before + step / 2 * (decay * inner[i - 1, : i + 1] + inner[i, : i + 1])
            change = np.abs(new - table[i, : i + 1]).max()
            table[i, : i + 1] = new
            if change < 1e-12:
                break
        table[:i, i] = table[i, :i]
    return table, rates


def rates_at(gain: float, end: float, steps: int, count: int) -> tuple[Array, Array, Array, Array]:
    """Return C(t, t), F(t, t) and C(end, t) at ``count`` + 1 equal times by Richardson's rule, and its last correction."""
    rows = []
    for number in (steps, 2 * steps):
        table, rates = march_rates(gain, end, number)
        every = number // count
        rows.append(np.array([np.diagonal(table)[::every], np.diagonal(rates)[::every], table[-1, ::every]]))
    best = (4 * rows[1] - rows[0]) / 3
    return best[0], best[1], best[2], np.abs(rows[1] - rows[0]).max(axis=1)


@pytest.mark.parametrize("solver", ["stochastic", "gaussian"])
def test_recurrent_network_at_weak_coupling(solver: str) -> None:
    variance, rate, last, _ = rates_at(0.8, 5.0, 50, 5)
    result = solve("rnn", 1e-3, t_max=5, gain=0.8, kernels=True, solver=solver)
    moments = np.linspace(0, 5, 6)
    found, pairs = result.at(moments), result.at2([(5.0, moment) for moment in moments])
    slack = 5e-7  # of the reference
    assert np.abs(found["q"].values - variance).max() <= 3 * largest(result, "q") + slack
    assert np.abs(found["phi2"].values - rate).max() <= 3 * largest(result, "phi2") + slack
    assert np.abs(pairs["C"].values - last).max() <= 3 * largest(result, "C") + slack
    assert np.abs(found["q"].values / variance - 1).max() <= 1e-3


@pytest.mark.slow
def test_recurrent_network_in_the_chaotic_phase() -> None:
    variance, _, last, corrections = rates_at(2.0, 6.0, 60, 6)
    result = solve("rnn", 1e-2, t_max=6, gain=2.0, solver="stochastic")
    moments = np.linspace(0, 6, 7)
    found, pairs = result.at(moments), result.at2([(6.0, moment) for moment in moments])
    slack = 0.1 * corrections.max()
    assert np.abs(found["q"].values - variance).max() <= 3 * largest(result, "q") + slack
    assert np.abs(pairs["C"].values - last).max() <= 1e-2 * variance.max() + slack


# --- Lotka–Volterra: finite systems and the cavity ----------------------------------------------------------------------
def simulate_species(species: int, gamma: float, seed: int, moments: Array, step: float = 0.1) -> Array:
    """Return mean abundance and mean square of a finite system at multiples of ``step`` (μ = 4, σ = 0.5; RK4)."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((species, species))
    if gamma:
        other = rng.standard_normal((species, species))
        even, odd = (matrix + matrix.T) / np.sqrt(2), (other - other.T) / np.sqrt(2)
        matrix = np.sqrt((1 + gamma) / 2) * even + np.sqrt((1 - gamma) / 2) * odd
    np.fill_diagonal(matrix, 0)
    matrix *= 0.5 / np.sqrt(species)

    def speed(n: Array) -> Array:
        return n * (1 - n - 4 * n.mean() - matrix @ n)

    state = rng.uniform(0.5, 1.5, species)
    seen = []
    for _ in range(round(moments[-1] / step)):
        k1 = speed(state)
        k2 = speed(state + step / 2 * k1)
        k3 = speed(state + step / 2 * k2)
        k4 = speed(state + step * k3)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        seen.append((state.mean(), (state**2).mean()))
    return np.array(seen)[np.round(moments / step).astype(int) - 1].T


def check_species(gamma: float, species: int, seeds: int, moments: Array) -> None:
    """Means over seeds within three standard errors, and an allowance of 1/S relative for the finite number of species."""
    runs = np.array([simulate_species(species, gamma, seed, moments) for seed in range(seeds)])
    mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(seeds)
    result = solve("lotka_volterra", 1e-3, t_max=moments[-1], mu=4, sigma=0.5, gamma=gamma)
    found = result.at(moments)
    assert result.status == "ok"
    for name, centre, spread in zip(("m", "q"), mean, error, strict=True):
        assert np.all(np.abs(found[name].values - centre) <= 3 * spread + centre / species), name


@pytest.mark.slow
def test_species_of_a_finite_system() -> None:
    check_species(0.5, 1500, 6, np.array([0.5, 1, 2, 4]))


def cavity(mu: float, sigma: float) -> Array:
    """Return m = E N and q = E N² of N = max(0, 1 − μm + σ√q ξ) with a standard normal ξ: the rest state for γ = 0."""

    def off(pair: Array) -> Array:
        m, q = pair
        width = sigma * np.sqrt(q)
        k = (1 - mu * m) / width
        density, mass = np.exp(-(k**2) / 2) / np.sqrt(2 * np.pi), ndtr(k)
        return np.array([width * (density + k * mass) - m, width**2 * ((1 + k**2) * mass + k * density) - q])

    return fsolve(off, np.array([0.2, 0.05]), xtol=1e-12)


@pytest.mark.slow
def test_species_approach_the_cavity_fixed_point() -> None:
    """Species close to extinction relax at rates close to zero, whose density is finite: the rest is approached as 1/t².

    Two times give the limit up to the next power, 1/t³, a part 1/t of the correction at late times.
    """
    result = solve("lotka_volterra", 1e-3, t_max=200, mu=4, sigma=0.5, gamma=0)
    assert result.status == "ok"
    found = result.at([100, 200])
    for name, rest in zip(("m", "q"), cavity(4, 0.5), strict=True):
        early, late = found[name].values
        correction = (late - early) / 3
        allowed = 2 * found[f"{name}_error"].values.max() + abs(correction) / 3
        assert abs(late + correction - rest) <= allowed, name


@pytest.mark.slow
def test_noise_that_multiplies_the_process() -> None:
    """Without the logarithm the noise multiplies N; the same means come out."""
    model = eqsolve.load(str(MODELS / "lotka_volterra.py"))
    heads = {head.name: head for head in (*model.processes, *model.init)}
    plain = model.replace("plain", substitute={heads["N"]: None}, init={heads["x"]: None})
    first, second = (eqsolve.solve(m, t_max=2, rtol=1e-3, gamma=0.5) for m in (model, plain))
    moments = np.linspace(0.5, 2, 4)
    for name in ("m", "q"):
        difference = np.abs(first.at(moments)[name].values - second.at(moments)[name].values).max()
        assert difference <= 3 * (largest(first, name) + largest(second, name)), name
