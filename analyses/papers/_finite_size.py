"""Runs at finite size that the papers are held against."""

from __future__ import annotations

import numpy as np


def network(gain, size, seed, last, lags, *, step=0.1, copies=4):
    """Autocorrelation of x at some lags, and the exponent of small disturbances, of a network from several starts."""
    rng = np.random.default_rng(seed)
    couplings = (gain / size**0.5 * rng.standard_normal((size, size))).astype("f4")
    x, v = rng.standard_normal((2, size, copies)).astype("f4")  # states, and their disturbances
    fade, turn, kept, growth = np.float32(np.exp(-step)), np.float32((np.exp(-step) - 1 + step) / step), [], []

    def inputs(x, v):
        rate = np.tanh(x)
        return np.split(couplings @ np.concatenate([rate, (1 - rate**2) * v], axis=1), 2, axis=1)

    for _ in range(round(last / step)):  # exponential Runge–Kutta, of second order
        first, second = inputs(x, v)
        x, v = fade * x + (1 - fade) * first, fade * v + (1 - fade) * second
        later, after = inputs(x, v)
        x, v = x + turn * (later - first), v + turn * (after - second)
        grown = np.linalg.norm(v, axis=0)
        v /= grown
        growth.append(np.log(grown))
        kept.append(x)
    late = np.array(kept[len(kept) // 4 :])
    means = [np.mean(late[lag:] * late[: len(late) - lag]) for lag in np.rint(lags / step).astype(int)]
    return np.array(means), np.mean(growth[len(kept) // 4 :]) / step


def community(sigma, gamma, size, seed, last, *, mu=4.0, influx=0.0, step=0.05, lags=None):
    """1 − Σ a_ij N_j of a Lotka–Volterra community in the end: at rest N_i where that is positive, and N_i = 0 elsewhere.

    With lags the mean of N(t) N(t + lag) over the last half instead. Couplings have mean μ/S, variance σ²/S and correlation γ
    of a_ij and a_ji. Steps of Heun's rule for log N.
    """
    rng = np.random.default_rng(seed)
    upper, lower = np.triu(rng.standard_normal((2, size, size)), 1)
    tilt = np.arcsin(gamma) / 2  # of two independent numbers: their correlation is sin 2·tilt = γ
    couplings = mu / size + sigma / size**0.5 * (np.cos(tilt) * (upper + lower.T) + np.sin(tilt) * (upper.T + lower))
    np.fill_diagonal(couplings, 0)
    couplings = couplings.astype("f4")
    x, kept = np.log(rng.uniform(0.5, 1.5, size)), []

    def growth(x):
        abundance = np.exp(x)
        return 1 - abundance - couplings @ abundance.astype("f4") + influx / abundance

    for _ in range(round(last / step)):
        first = np.clip(growth(x), -10, 10)
        x = np.maximum(x + step / 2 * (first + np.clip(growth(x + step * first), -10, 10)), -600)
        if lags is not None:
            kept.append(np.exp(x))
    if lags is None:
        return 1 - couplings @ np.exp(x)
    late = np.array(kept[len(kept) // 2 :])
    return np.array([np.mean(late[lag:] * late[: len(late) - lag]) for lag in np.rint(np.asarray(lags) / step).astype(int)])


def perceptron(alpha, sigma, temperature, size, seed, times, step=0.02):
    """Energy per weight, and overlap with the start, of Langevin dynamics of the spherical perceptron: Heun's rule."""
    rng = np.random.default_rng(seed)
    patterns = rng.standard_normal((round(alpha * size), size)) / size**0.5
    x = rng.standard_normal(size)
    start = x = x / np.sqrt(np.mean(x**2))
    told, rows = np.rint(np.asarray(times) / step).astype(int), []
    for now in range(told[-1] + 1):
        lack = np.maximum(0, sigma - patterns @ x)
        if now in told:
            rows.append((np.sum(lack**2) / (2 * size), np.mean(x * start)))
        kick = np.sqrt(2 * temperature * step) * rng.standard_normal(size)
        first = patterns.T @ lack
        guess = x + step * first + kick
        guess /= np.sqrt(np.mean(guess**2))
        x = x + step / 2 * (first + patterns.T @ np.maximum(0, sigma - patterns @ guess)) + kick
        x /= np.sqrt(np.mean(x**2))
    return np.array(rows).T


def spiked(delta_2, delta_3, overlap, size, seed, times, step=0.02):
    """Overlap of Langevin dynamics (T = 1) with a signal that is seen through a matrix and a tensor of three indices."""
    rng = np.random.default_rng(seed)
    signal = np.ones(size)  # any direction is as good
    noise = rng.standard_normal((size, size, size))
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    tensor = np.sqrt(delta_3 / 6) * sum(noise.transpose(order) for order in orders) + np.sqrt(2) / size
    tensor = (tensor / (np.sqrt(2) * delta_3 * size)).astype("f4")
    noise = rng.standard_normal((size, size))
    matrix = (np.sqrt(delta_2 / 2) * (noise + noise.T) + 1 / np.sqrt(size)) / (delta_2 * np.sqrt(size))
    x = rng.standard_normal(size)
    x -= np.mean(x)
    x = overlap * signal + np.sqrt(1 - overlap**2) * x / np.sqrt(np.mean(x**2))

    def force(x):
        return matrix @ x + (tensor @ x.astype("f4")) @ x

    told, rows = np.rint(np.asarray(times) / step).astype(int), []
    for now in range(told[-1] + 1):
        if now in told:
            rows.append(np.mean(x))
        kick, first = np.sqrt(2 * step) * rng.standard_normal(size), force(x)
        guess = x + step * first + kick
        x = x + step / 2 * (first + force(guess / np.sqrt(np.mean(guess**2)))) + kick
        x /= np.sqrt(np.mean(x**2))
    return np.array(rows)
