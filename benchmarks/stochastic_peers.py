"""What one would use instead, in plain numpy: the discretised system 𝔖^η with Monte-Carlo paths, and finite dimension.

Both are written to be fast: 𝔖^η is marched causally, so it needs no damped outer iteration, and the finite-d flow is
integrated in the variable θ (w = α² e^{−λt} sinh θ), which lets an adaptive method take long steps.
"""

from __future__ import annotations

import numpy as np

PROBABILITY = 0.1  # of w* = 1, else 0


def euler_monte_carlo(alpha, delta, lam, sigma2, t_max, eta, paths, seed=0):
    """Return times, E_test and E_train of 𝔖^η with N paths: Euler steps, sampled drives, tangents of every path.

    z is extended in time by the next row of a Cholesky factor of its covariance, with a little jitter on the diagonal
    because that covariance is singular to rounding. Cost N T³/3 and memory N T²/2 for T = t_max/η steps.
    """
    rng = np.random.default_rng(seed)
    steps = round(t_max / eta)
    target = np.zeros(paths)
    target[: round(PROBABILITY * paths)] = 1.0
    off = np.empty((steps, paths))  # w − w*
    normals = np.empty((steps, paths))
    tangent = np.zeros((steps, steps, paths))  # [n, m] = ∂w(n)/∂z(m)
    r_w, r_f = np.zeros((steps, steps)), np.zeros((steps, steps))
    c_w, c_f, chol = np.zeros((steps, steps)), np.zeros((steps, steps)), np.zeros((steps, steps))
    w = np.zeros(paths)
    for n in range(steps):
        off[n] = w - target
        c_w[n, : n + 1] = c_w[: n + 1, n] = off[: n + 1] @ off[n] / paths + sigma2
        r_w[n, :n] = -tangent[n, :n].mean(axis=1)
        r_f[n, :n] = r_w[n, :n] - eta * r_w[n, :n] @ r_f[:n, :n]
        # C_f = (I + ηR_w)⁻¹ (C_w + σ²) (I + ηR_w)⁻ᵀ, its row n; I − ηR_f is the inverse
        inverse = -eta * r_f[n, : n + 1]
        inverse[n] = 1.0
        half = c_w[: n + 1, : n + 1] @ inverse
        c_f[n, : n + 1] = half - eta * r_f[: n + 1, : n + 1] @ half
        c_f[: n + 1, n] = c_f[n, : n + 1]
        row = np.linalg.solve(chol[:n, :n], delta * c_f[n, :n]) if n else np.zeros(0)
        chol[n, :n] = row
        chol[n, n] = np.sqrt(max(delta * c_f[n, n] - row @ row, 0.0) + 1e-9 * delta * c_f[0, 0])
        normals[n] = rng.standard_normal(paths)
        z = chol[n, : n + 1] @ normals[: n + 1]
        gradient = z / delta + off[n] - eta * r_f[n, :n] @ off[:n]
        root = np.sqrt(w**2 + alpha**4 * np.exp(-2 * lam * n * eta))
        if n + 1 < steps:
            slope = 1 - eta * (w / root * gradient + lam)
            if n:
                past = np.tensordot(r_f[n, :n], tangent[:n, :n], 1)
                tangent[n + 1, :n] = slope * tangent[n, :n] - eta * root * (tangent[n, :n] - eta * past)
            tangent[n + 1, n] = -root / delta
        w = w + eta * (-root * gradient - lam * w)
    times = eta * np.arange(steps)
    return times, c_w.diagonal().copy(), c_f.diagonal().copy()


def finite_dimension(alpha, delta, lam, sigma2, times, dimension, seed=0, rtol=1e-5):
    """Return E_test and E_train of one gradient flow in d dimensions (adaptive Runge–Kutta of order 5(4))."""
    from scipy.integrate import solve_ivp

    rng = np.random.default_rng(seed)
    samples = round(delta * dimension)
    data = rng.standard_normal((samples, dimension)) / np.sqrt(dimension)
    target = np.zeros(dimension)
    target[: round(PROBABILITY * dimension)] = 1.0
    labels = data @ target + np.sqrt(sigma2) * rng.standard_normal(samples)

    def weights(t, theta):
        return alpha**2 * np.exp(-lam * t) * np.sinh(theta)

    def flow(t, theta):
        return data.T @ (labels - data @ weights(t, theta)) / delta

    found = solve_ivp(flow, (0, times[-1]), np.zeros(dimension), t_eval=times, rtol=rtol, atol=1e-6)
    test, train = [], []
    for t, theta in zip(found.t, found.y.T, strict=True):
        w = weights(t, theta)
        test.append(((w - target) ** 2).mean() + sigma2)
        train.append(((labels - data @ w) ** 2).mean())
    return np.array(test), np.array(train)
