"""Finite samples of random constants: drawn, or placed so that their empirical law is that of the constant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import Component, Law

__all__ = ["HOW", "draw_constants", "draw_law"]

HOW = ("sampled", "exact")
_BLOCK = 64  # draws per quantile of a placed sample


def draw_constants(
    laws: Mapping[str, Law], size: int, rng: np.random.Generator, how: str = "sampled"
) -> dict[str, Array]:
    """Return ``size`` values of each constant, independent of each other unless they share a joint law."""
    made: dict[str, Array] = {}
    rows: dict[tuple[str, ...], Array] = {}
    for item, law in laws.items():
        if isinstance(law, Component):
            if law.group not in rows:
                rows[law.group] = _joint_rows(law, size, rng, how)
            made[item] = law.column[rows[law.group]]
        else:
            made[item] = draw_law(law, size, rng, how)
    return made


def draw_law(law: Law, size: int, rng: np.random.Generator, how: str) -> Array:
    """Return ``size`` values of a law.

    ``"sampled"`` draws them independently. ``"exact"`` gives every atom its share (to the nearest whole number) and
    takes quantiles of the rest, in random order.
    """
    if how not in HOW:
        raise UsageError(f"constants= takes {' or '.join(repr(word) for word in HOW)}, got {how!r}")
    if how == "sampled":
        return np.asarray(law.sample(rng, size), dtype=float)
    atoms = law.atoms_of()
    shares = np.array([probability for _, probability in atoms] + [1.0 - sum(p for _, p in atoms)])
    counts = _whole(np.clip(shares, 0.0, None), size)
    parts = [np.full(count, value) for (value, _), count in zip(atoms, counts, strict=False)]
    if counts[-1]:
        parts.append(_quantiles(law, int(counts[-1]), rng, {value for value, _ in atoms}))
    return rng.permutation(np.concatenate(parts))


def _whole(shares: Array, size: int) -> Array:
    """Return whole numbers that sum to ``size``, as near to the shares as can be."""
    ideal = shares / shares.sum() * size
    counts = np.floor(ideal).astype(int)
    rest = size - int(counts.sum())
    counts[np.argsort(-(ideal - counts), kind="stable")[:rest]] += 1
    return counts


def _quantiles(law: Law, count: int, rng: np.random.Generator, atoms: set[float]) -> Array:
    kept = np.empty(0)
    while len(kept) < count * _BLOCK:
        fresh = law.sample(rng, count * _BLOCK)
        if atoms:
            fresh = fresh[~np.isin(fresh, list(atoms))]
        kept = np.concatenate([kept, fresh])
    blocks = np.sort(kept[: count * _BLOCK]).reshape(count, _BLOCK)
    return np.asarray((blocks[:, _BLOCK // 2 - 1] + blocks[:, _BLOCK // 2]) / 2)


def _joint_rows(law: Component, size: int, rng: np.random.Generator, how: str) -> Array:
    number = len(law.table)
    if how == "exact":
        return rng.permutation(np.resize(np.arange(number), size))
    return np.asarray(rng.integers(0, number, size))
