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
    """Abundances of a Lotka–Volterra community in the end; with lags, the mean of N(t) N(t + lag) over its last half.

    Couplings have mean μ/S, variance σ²/S and correlation γ of a_ij and a_ji. Steps of Heun's rule for log N.
    """
    rng = np.random.default_rng(seed)
    upper, lower = np.triu(rng.standard_normal((2, size, size)), 1)
    tilt = np.arcsin(gamma) / 2  # cos² − sin² rotated: correlation sin 2·tilt = γ
    couplings = mu / size + sigma / size**0.5 * (np.cos(tilt) * (upper + lower.T) + np.sin(tilt) * (upper.T + lower))
    np.fill_diagonal(couplings, 0)
    x, kept = np.log(rng.uniform(0.5, 1.5, size)), []

    def growth(x):
        abundance = np.exp(x)
        return 1 - abundance - couplings @ abundance + influx / abundance

    for _ in range(round(last / step)):
        first = np.clip(growth(x), -10, 10)
        x = np.maximum(x + step / 2 * (first + np.clip(growth(x + step * first), -10, 10)), -600)
        if lags is not None:
            kept.append(np.exp(x))
    if lags is None:
        return np.exp(x)
    late = np.array(kept[len(kept) // 2 :])
    return np.array([np.mean(late[lag:] * late[: len(late) - lag]) for lag in np.rint(np.asarray(lags) / step).astype(int)])
