"""Networks of finite width with one or two hidden layers, trained by gradient flow on the squared error of a few samples."""

from __future__ import annotations

import numpy as np


def train(layers, gram, target, gamma, moments, width, seed, step=0.02):
    """Return losses, (moment,), outputs, (moment, sample), and kernels of the last features, (moment, sample, sample).

    f = w·φ(h)/(γ N) with φ = tanh and h = χ of one hidden layer, h = V φ(χ)/√N of two; the rate of learning is γ² N, that of
    the first layer stands in χ' = … K, K the Gram matrix. Each of the units comes with a second one of opposite readout
    weight where there is one hidden layer; where there are two, the output at the start is subtracted.
    """
    rng = np.random.default_rng(seed)
    chi, w = np.linalg.cholesky(gram) @ rng.standard_normal((len(gram), width)), rng.standard_normal(width)
    if layers == 1:
        w = np.concatenate([w[: width // 2], -w[: width // 2]])
        chi[:, width // 2 :] = chi[:, : width // 2]
    V = rng.standard_normal((width, width)) if layers == 2 else np.zeros(0)
    offset = 0.0

    def forward(chi, V):
        first = np.tanh(chi)
        return (first, np.tanh(first @ V.T / width**0.5)) if layers == 2 else (first, first)

    def slope(chi, V, w):
        first, last = forward(chi, V)
        away = (target - last @ w / (gamma * width) + offset)[:, None]
        back = (1 - last**2) * w
        if layers == 1:
            return gamma * gram @ (away * back), 0.0, gamma * (away * last).sum(axis=0)
        rise = gamma / width**0.5 * (away * back).T @ first
        return gamma * gram @ (away * (1 - first**2) * (back @ V / width**0.5)), rise, gamma * (away * last).sum(axis=0)

    offset = forward(chi, V)[1] @ w / (gamma * width)
    state, made, now = (chi, V, w), [], 0.0
    for moment in moments:
        for _ in range(round((moment - now) / step)):  # the midpoint rule
            half = [part + step / 2 * change for part, change in zip(state, slope(*state), strict=True)]
            state = [part + step * change for part, change in zip(state, slope(*half), strict=True)]
        now = moment
        last = forward(*state[:2])[1]
        f = last @ state[2] / (gamma * width) - offset
        made.append((np.mean((target - f) ** 2) / 2, f, last @ last.T / width))
    return tuple(np.array(part) for part in zip(*made, strict=True))
