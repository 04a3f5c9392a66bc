"""Systems of finite size, simulated without eqsolve: the points beside the lines of several papers."""

from __future__ import annotations

import numpy as np


def retrieve(N, load, rng):
    """Share of wrong spins where a Hopfield network ends that starts from a stored pattern, spins turned one at a time."""
    patterns = rng.choice([-1.0, 1.0], (round(load * N), N))
    J = patterns.T @ patterns / N
    np.fill_diagonal(J, 0)
    s = patterns[0].copy()
    h = J @ s
    while h[worst := np.argmin(h * s)] * s[worst] < 0:
        s[worst] *= -1
        h += 2 * s[worst] * J[worst]
    return (1 - s @ patterns[0] / N) / 2


def largest_margin(N, load, rng):
    """Largest margin of N couplings on a sphere for random patterns: least distance by Lawson and Hanson."""
    from scipy.optimize import nnls

    patterns = rng.standard_normal((round(load * N), N))
    solution, _ = nnls(np.vstack([patterns.T, np.ones(len(patterns))]), np.eye(N + 1)[-1], maxiter=50 * N)
    w = patterns.T @ solution
    return (patterns @ w / np.linalg.norm(w)).min()


def binary_entropy(N, loads, rng):
    """Logarithm of the number of ±1 solutions per coupling, or 0 where there is none, at several loads: all 2ᴺ counted."""
    w, made = 1 - 2 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1).astype(np.float32), [np.log(2)]
    for _ in range(round(max(loads) * N)):
        w = w[w @ rng.standard_normal(N).astype(np.float32) > 0]
        made.append(np.log(max(len(w), 1)) / N)
    return np.interp(loads, np.arange(len(made)) / N, made)


def reconstructed(N, delta, threshold, sparsities, rng, steps=400):
    """Sparsity up to which message passing finds a signal: its error vanishes, or halves in half of the steps."""
    n = round(delta * N)
    A = (rng.standard_normal((n, N)) / n**0.5).astype(np.float32)
    signal = np.zeros((N, len(sparsities)), np.float32)
    for column, rho in zip(signal.T, sparsities, strict=True):
        column[: round(rho * n)] = rng.choice([-1, 1], round(rho * n))
    y = A @ signal
    x, residual, active, errors = np.zeros_like(signal), np.zeros_like(y), np.float32(0), []
    for _ in range(steps):
        residual = y - A @ x + residual * (active / np.float32(delta))
        residual = np.clip(residual, -1e3, 1e3)  # it may diverge beyond the transition
        seen, level = x + A.T @ residual, np.float32(threshold / n**0.5) * np.linalg.norm(residual, axis=0)
        x = np.sign(seen) * np.maximum(np.abs(seen) - level, 0)
        active = np.mean(x != 0, axis=0, dtype=np.float32)
        errors.append(np.linalg.norm(x - signal, axis=0) / np.linalg.norm(signal, axis=0))
    found = (errors[-1] < 1e-3) | (errors[-1] < errors[steps // 2] / 2)
    return sparsities[0] + (sparsities[1] - sparsities[0]) * (found.sum() - 0.5)


def lasso_error(d, seed, **params):
    """Squared error per coordinate of the lasso on one draw of the data."""
    import eqsolve
    from eqsolve.language.binding import bind
    from eqsolve.microscopic.minimisers import draw, measure, minimise

    binding = bind(eqsolve.load("lasso"), params)
    X, y, target = draw(binding, d, seed, exact=True)
    return measure(binding, X, y, target, minimise(binding, X, y))["C_w"]


def learn_online(N, overlaps, K, eta, at, rng):
    """Overlaps of units after the given numbers of inputs per dimension, from those at the start, on (time, unit, unit)."""
    from scipy.special import erf

    basis = np.linalg.qr(rng.standard_normal((N, len(overlaps))))[0].T
    J, kept, step = np.linalg.cholesky(overlaps + 1e-12 * np.eye(len(overlaps))) @ basis, [], 0
    sign = np.repeat([-1.0, 1.0], [K, len(overlaps) - K])
    for time in at:
        while step < time * N:
            count = min(256, round(time * N) - step)
            for x in rng.standard_normal((count, N)):
                fields = J @ x
                force = (sign @ erf(fields / 2**0.5)) * np.exp(-(fields[:K] ** 2) / 2) * (2 / np.pi) ** 0.5
                J[:K] += eta / N * np.outer(force, x)
            step += count
        kept.append(J @ J.T)
    return np.array(kept)


def ensemble_loss(P, at, a, b, features, rng):
    """Unbiased estimate of the loss of a large ensemble after gradient flow: a product over two sets of P samples."""
    place = np.arange(1.0, features + 1)
    target, left = place ** ((b - a) / 2), []
    for _ in range(2):
        X = rng.standard_normal((P, features)) * place ** (-b / 2)
        values, vectors = np.linalg.eigh(X @ X.T / P)
        shrink = -np.expm1(-np.outer(at, values)) / values / P
        left.append(target - ((shrink * (vectors.T @ (X @ target))) @ vectors.T) @ X)
    return np.sum(left[0] * left[1] * place**-b, axis=1)


def limited_loss(number, a, b, features, rng, *, samples):
    """Loss of regression on so many samples, or of so many random combinations of features and infinitely many samples."""
    place = np.arange(1.0, features + 1)
    variance, target, A = place**-b, place ** ((b - a) / 2), rng.standard_normal((number, features))
    if not samples:
        seen = A * variance
        return np.sum(place**-a) - (seen @ target) @ np.linalg.solve(seen @ A.T, seen @ target)
    X = A * variance**0.5
    return np.sum(variance * (target - X.T @ np.linalg.solve(X @ X.T, X @ target)) ** 2)


def classify(d, batch, at, step, rng, *, tau=0.0, delta=2.0, Delta=0.5, lam=0.1):
    """Generalisation error and training loss of SGD on two clouds, on (quantity, time); tau: how long samples stay."""
    from scipy.special import erfc

    n, c, v, w = round(delta * d), rng.choice([-1, 1], round(delta * d)), rng.standard_normal(d), 0.1 * rng.standard_normal(d)
    v *= (d / (v @ v)) ** 0.5
    X = (np.outer(c, v) / d**0.5 + Delta**0.5 * rng.standard_normal((n, d))) / d**0.5
    kept, done, inside, stay = [], 0, rng.random(n) < batch, np.exp(-step / tau) if tau else 0.0
    for time in at:
        for _ in range(round(time / step) - done):
            w -= step * (X.T @ (-c * inside / batch / (1 + np.exp(c * (X @ w)))) / delta + lam * w)
            inside = np.where(rng.random(n) < stay, inside, rng.random(n) < batch)
        done = round(time / step)
        kept.append((erfc(w @ v / (2 * Delta * d * (w @ w)) ** 0.5) / 2, np.log1p(np.exp(-c * (X @ w))).mean()))
    return np.array(kept).T


def plastic_network(N, gain, k, p, last, rng, halt=np.inf, step=0.05):
    """Neurons of a network with plastic synapses on (time, neuron), by Heun's method; synapses stand still from halt on."""
    J, A, x = gain * rng.standard_normal((N, N)) / N**0.5, np.zeros((N, N)), rng.standard_normal(N)
    kept = [x]
    for i in range(round(last / step)):
        rate = np.tanh(x)
        slope, decay = -x + J @ rate + A @ rate, float(i * step < halt - step / 2) / p
        guess = np.tanh(x + step * slope)
        new = A * (1 - step * decay + (step * decay) ** 2 / 2)  # A' = −A/p is linear; rates are taken in the middle
        new += (k / N * decay * step * (1 - step * decay / 2)) * (np.outer(rate, rate) + np.outer(guess, guess)) / 2
        x, A = x + step / 2 * (slope - x - step * slope + J @ guess + new @ guess), new
        kept.append(x)
    return np.array(kept)


def oscillators(N, J, at, rng, step=0.04):
    """Mean square of the local field over J², its shape ⟨r⁴⟩/⟨r²⟩², and the mean of cos(θ − θ_last), on (quantity, time)."""
    M = rng.standard_normal((N, N))
    M = J * (M + M.T) / (2 * N) ** 0.5
    np.fill_diagonal(M, 0)
    omega, theta, kept = rng.standard_normal(N), rng.uniform(0, 2 * np.pi, N), []

    def speed(phase):
        z = np.exp(1j * phase)
        field = M @ z.real + 1j * (M @ z.imag)
        return omega + (field * z.conj()).imag, np.abs(field) ** 2

    places = np.rint(np.asarray(at) / step).astype(int)
    for i in range(places[-1] + 1):
        slope, square = speed(theta)
        if i in places:
            kept.append((square.mean() / J**2, (square**2).mean() / square.mean() ** 2, theta))
        theta = theta + step / 2 * (slope + speed(theta + step * slope)[0])
    return np.array([(size, shape, np.cos(x - kept[-1][2]).mean()) for size, shape, x in kept]).T
