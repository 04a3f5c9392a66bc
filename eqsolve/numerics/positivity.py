"""Positive semi-definiteness of a function of two times: the least eigenvalue of its matrix on random sets of times.

A function is a covariance if and only if none of these matrices has a negative eigenvalue (Loève,
Probability Theory II, 1978, section 37). Sets of a few times cannot prove that; a negative
eigenvalue beyond rounding, and beyond the error of the entries, disproves it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array

_SPANS = (1.0, 0.1, 0.01)  # lengths of time, in units of the whole: smooth functions fail at any, others at one scale


@dataclass(frozen=True)
class Negative:
    """A sum of values at given times whose variance would be negative: ``terms`` are (process, time, coefficient)."""

    terms: tuple[tuple[int, float, float], ...]
    variance: float

    def describe(self, names: tuple[str, ...]) -> str:
        """Return the times and the sum in words."""
        times = [f"{moment:.4g}" for moment in sorted({moment for _, moment, _ in self.terms})]
        parts = " ".join(f"{factor:+.3g}*{names[number]}({moment:.4g})" for number, moment, factor in self.terms)
        moments = f"at the time{'s' * (len(times) > 1)} {', '.join(times)}"
        shown = parts.removeprefix("+").removeprefix("1*")
        return f"{moments}: `{shown}` would have the variance {self.variance:.3g}"


def find_negative(
    blocks: Callable[[Array, Array], Array], begin: float, end: float, step: float | None = None
) -> list[Negative | None]:
    """Return, for each of several lengths of time, what disproves a covariance; None where nothing does.

    ``blocks`` gives the covariances of k processes at times t and t', arrays of shape (n, n), as an
    array of shape (k, k, n, n); ``step`` is that of discrete time.
    """
    failures = []
    for span in _SPANS:  # (more times in a set only show failures that are below what is allowed for errors)
        # (random times: a function may be positive on all even ones)
        times = begin + span * (end - begin) * np.sort(np.random.default_rng(7).random(12))
        times = times if step is None else np.unique(begin + step * np.round((times - begin) / step))
        with np.errstate(all="ignore"):
            failures.append(negative_on(times, blocks(times[:, None], times[None, :])))
    return failures


def negative_on(times: Array, blocks: Array, error: float = 0.0) -> Negative | None:
    """Return what disproves that matrices on a set of times are covariances, the largest error of an entry allowed for."""
    size, count = blocks.shape[0], len(times)
    matrix = blocks.transpose(0, 2, 1, 3).reshape(size * count, size * count)
    if not np.isfinite(matrix).all() or not matrix.size:
        return None
    chosen = list(range(len(matrix)))
    if (least := _least(matrix, chosen, error)) is None:
        return None
    for place in range(len(matrix)):  # as few times as still show it
        fewer = [item for item in chosen if item != place]
        if fewer and (other := _least(matrix, fewer, error)) is not None:
            chosen, least = fewer, other
    value, vector = least
    terms = tuple((item // count, float(times[item % count]), float(part)) for item, part in zip(chosen, vector, strict=True))
    return Negative(terms, value)


def _least(matrix: Array, kept: list[int], error: float) -> tuple[float, Array] | None:
    """Return the least eigenvalue of a part of a matrix, with its vector, if it is negative beyond errors."""
    part = matrix[np.ix_(kept, kept)]
    values, vectors = np.linalg.eigh((part + part.T) / 2)
    rounding = 1e-12 * max(float(np.abs(np.diag(part)).sum()), float(np.abs(part).max()))
    return (float(values[0]), vectors[:, 0]) if values[0] < -(rounding + len(kept) * error) else None
