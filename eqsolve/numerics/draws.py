"""Finite samples of random constants: drawn, or placed so that their empirical law is that of the constant."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import Component, NumericLaw, joint_groups

HOW = ("sampled", "exact", "balanced")
_BLOCK = 64  # draws per quantile of a placed sample


Order = Callable[[], Any]


def draw_constants(
    laws: Mapping[str, NumericLaw], size: int, rng: np.random.Generator, how: str = "sampled", order: Order | None = None
) -> dict[str, Array]:
    """Return ``size`` values of each constant, independent of each other unless they share a joint law."""
    made: dict[str, Array] = {}
    for members in joint_groups(laws):
        law = laws[members[0]]
        rows = _joint_rows(law, size, rng, how, order) if isinstance(law, Component) else slice(None)
        for item in members:
            one = laws[item]
            made[item] = one.column[rows] if isinstance(one, Component) else draw_law(one, size, rng, how, order)
    return {item: made[item] for item in laws}


def draw_law(law: NumericLaw, size: int, rng: np.random.Generator, how: str, order: Order | None = None) -> Array:
    """Return ``size`` values of a law.

    ``"sampled"`` draws them independently. ``"exact"`` gives every atom its share (to the nearest whole number) and
    takes quantiles of the rest, in random order. ``"balanced"`` gives these quantiles also the mean and the variance
    of the law and the order that ``order`` returns, and rounds shares at random, so that they are right on average.
    """
    if how not in HOW:
        raise UsageError(f"constants= takes {' or '.join(repr(word) for word in HOW)}, got {how!r}")
    if how == "sampled":
        return np.asarray(law.sample(rng, size), dtype=float)
    atoms = law.atoms_of()
    shares = np.array([probability for _, probability in atoms] + [1.0 - sum(p for _, p in atoms)])
    shares = np.clip(shares, 0.0, None)
    counts = _rounded(shares, size, rng) if how == "balanced" else _whole(shares, size)
    parts = [np.full(count, value) for (value, _), count in zip(atoms, counts, strict=False)]
    if counts[-1]:
        parts.append(_quantiles(law, int(counts[-1]), rng, {value for value, _ in atoms}))
        if how == "balanced":
            parts[-1] = _with_moments(law, parts[-1])
    values = np.concatenate(parts)
    return np.sort(values)[order()] if how == "balanced" and order is not None else rng.permutation(values)


def _with_moments(law: NumericLaw, values: Array) -> Array:
    """Return values moved and stretched to the mean and variance that a law has apart from its atoms, where they exist."""
    nodes, weights = law.continuous_rule(200)
    mean = float(weights @ nodes) / float(weights.sum())
    spread = float(np.sqrt(weights @ (nodes - mean) ** 2 / weights.sum()))
    found = float(values.std())
    if len(values) < 2 or not 0.5 < spread / found < 2:  # tails so heavy that so few values do not show the variance
        return values
    return np.asarray(mean + (values - values.mean()) * (spread / found))


def _whole(shares: Array, size: int) -> Array:
    """Return whole numbers that sum to ``size``, as near to the shares as can be."""
    ideal = shares / shares.sum() * size
    counts = np.floor(ideal).astype(int)
    rest = size - int(counts.sum())
    counts[np.argsort(-(ideal - counts), kind="stable")[:rest]] += 1
    return counts


def _rounded(shares: Array, size: int, rng: np.random.Generator) -> Array:
    """Return whole numbers that sum to ``size`` and are on average what the shares say, each within one of it."""
    edges = np.floor(np.cumsum(shares[:-1]) / shares.sum() * size + rng.random() * (1 - 1e-9) + 1e-9 / 2)
    return np.diff(edges, prepend=0, append=size).astype(int)


def _quantiles(law: NumericLaw, count: int, rng: np.random.Generator, atoms: set[float]) -> Array:
    kept = np.empty(0)
    while len(kept) < count * _BLOCK:
        fresh = law.sample(rng, count * _BLOCK)
        if atoms:
            fresh = fresh[~np.isin(fresh, list(atoms))]
        kept = np.concatenate([kept, fresh])
    blocks = np.sort(kept[: count * _BLOCK]).reshape(count, _BLOCK)
    return np.asarray((blocks[:, _BLOCK // 2 - 1] + blocks[:, _BLOCK // 2]) / 2)


def _joint_rows(law: Component, size: int, rng: np.random.Generator, how: str, order: Order | None) -> Array:
    number = len(law.table)
    if how == "balanced" and order is not None:
        return np.asarray(np.sort(np.resize(np.arange(number), size))[order()])
    if how != "sampled":
        return rng.permutation(np.resize(np.arange(number), size))
    return np.asarray(rng.integers(0, number, size))
