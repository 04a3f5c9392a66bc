"""Expectations over Gaussian processes and random constants: few modes that matter, each with the points it needs.

A Gaussian process on N nodes is a sum of modes. The modes are rotated to the singular vectors of what they do to the
unknowns (the drive), so that few of them carry almost all variance; those get a tensor product of Gauss–Hermite
rules, with
fewer points the weaker the mode, and the weakest a Hadamard design. When too many modes matter for that, a randomly
shifted Kronecker sequence takes its place. Atoms of discrete laws are summed exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.ode import make_paths
from eqsolve.language.laws import Law
from eqsolve.language.symbols import Random
from eqsolve.solvers.grids import Array

__all__ = ["Level", "Points", "factor_covariance", "make_points"]


@dataclass(frozen=True)
class Level:
    """How fine an expectation is.

    Attributes
    ----------
    first
        Gauss points along the strongest mode.
    accuracy
        A mode of strength r relative to the strongest gets log(accuracy) / (2 log r) points, rounded up.
    constants
        Gauss points per random constant with a density.
    most
        Most points of the tensor product; beyond it all modes are sampled with so many points.
    seed
        Of the random shift of sampled modes.
    """

    first: int
    accuracy: float
    constants: int
    most: int
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Points:
    """Quadrature points: standard normal coordinates per mode, values of constants, and weights."""

    normals: Array
    constants: dict[Random, Array]
    weights: Array


def factor_covariance(covariance: Array, count: int | None = None, drop: float = 1e-11) -> Array:
    """Return L with L Lᵀ = covariance, columns by decreasing size; modes below ``drop`` are left out.

    ``count`` fixes the number of columns, so that an iteration does not jump when a weak mode comes or goes.
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = np.where(values > drop * max(values[-1], 1e-300), values, 0.0)
    columns = (vectors * np.sqrt(kept))[:, ::-1]
    return np.asarray(columns[:, : max(1, np.count_nonzero(kept)) if count is None else count])


def align(factor: Array, drive: Array, previous: Array | None) -> Array:
    """Rotate modes: to the previous ones if there are any (so that an iteration is continuous), else by their drive."""
    if previous is not None and previous.shape == factor.shape:
        left, _, right = np.linalg.svd(factor.T @ previous)
        return factor @ (left @ right)
    _, _, right = np.linalg.svd(drive, full_matrices=True)
    rotated = factor @ right.T
    signs = np.sign(rotated[np.abs(rotated).argmax(axis=0), np.arange(rotated.shape[1])])
    return rotated * np.where(signs == 0, 1.0, signs)


@functools.lru_cache(maxsize=128)
def _hermite(order: int) -> tuple[Array, Array]:
    from scipy.special import roots_hermitenorm

    nodes, weights = roots_hermitenorm(order)
    return nodes, weights / weights.sum()


def orders(strengths: Sequence[float], level: Level) -> tuple[list[int], int, bool]:
    """Return the Gauss points per strong mode, the number of weak modes, and whether too many modes are strong.

    A strong mode needs three points or more, a weak one two, and what needs less than two is left out.
    """
    counts: list[int] = []
    weak, total, crowded = 0, 1, False
    for strength in strengths:
        ratio = strength / max(strengths[0], 1e-300)
        needed = float(level.first)
        if counts:
            needed = float(np.log(level.accuracy) / (2 * np.log(max(min(ratio, 0.999), 1e-300))))
        if needed <= 1:
            break
        if needed <= 2:
            weak += 1
            continue
        count = min(level.first, int(np.ceil(needed)))
        crowded |= total * count > level.most
        counts.append(count)
        total *= count
    return counts, weak, crowded


def make_points(strengths: Sequence[float], laws: dict[Random, Law], level: Level) -> Points:
    """Return points for modes of given strengths and for the random constants, all independent.

    Strong modes get a tensor product of Gauss–Hermite rules. Weak modes together get the values ±1 in the patterns of a
    Hadamard matrix and its negative, which is exact to third order in all of them at once.
    """
    counts, weak, crowded = orders(strengths, level)
    if crowded:
        normals, weights = _crowded(len(strengths), level)
    else:
        strong, weights = _tensor(counts, level)
        block = _hadamard(weak)
        normals = np.zeros((len(strengths), strong.shape[1] * block.shape[1]))
        normals[: len(counts)] = np.repeat(strong, block.shape[1], axis=1)
        normals[len(counts) : len(counts) + weak] = np.tile(block, strong.shape[1])
        weights = np.repeat(weights, block.shape[1]) / block.shape[1]
    constants = make_paths(laws, [dict.fromkeys(laws, level.constants)])
    count = len(constants.weights)
    return Points(
        np.tile(normals, count),
        {item: np.repeat(values, len(weights)) for item, values in constants.values.items()},
        np.multiply.outer(constants.weights, weights).ravel(),
    )


def _tensor(counts: list[int], level: Level) -> tuple[Array, Array]:
    """Return the product of Gauss–Hermite rules without the points whose weight does not matter."""
    grids = [_hermite(count) for count in counts]
    mesh = np.meshgrid(*(nodes for nodes, _ in grids), indexing="ij") if grids else []
    weights = np.ones(1)
    for _, mass in grids:
        weights = np.multiply.outer(weights, mass)
    weights = weights.reshape(-1)
    points = np.array([axis.ravel() for axis in mesh]).reshape(len(counts), -1)
    keep = weights > 1e-2 * level.accuracy * weights.max()
    return points[:, keep], weights[keep] / weights[keep].sum()


def _hadamard(dimension: int) -> Array:
    """Return ± patterns with zero first and third moments and unit covariance, shape (dimension, points)."""
    if dimension == 0:
        return np.zeros((0, 1))
    matrix = np.ones((1, 1))
    while len(matrix) < dimension:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.hstack([matrix[:dimension], -matrix[:dimension]])


def _crowded(modes: int, level: Level) -> tuple[Array, Array]:
    """Many modes matter: a quasi-random sample of all of them, each point used with both signs."""
    half = level.most // 2
    sample = _kronecker(half, modes, level.seed)
    return np.hstack([sample, -sample]), np.full(2 * half, 0.5 / half)


def _kronecker(count: int, dimension: int, seed: int) -> Array:
    """Return a randomly shifted Kronecker sequence mapped to standard normals (generalised golden ratio)."""
    from scipy.special import ndtri

    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (dimension + 1))
    steps = ratio ** -np.arange(1, dimension + 1)
    shift = np.random.default_rng(seed).random(dimension)
    points = (shift[:, None] + np.outer(steps, np.arange(1, count + 1))) % 1.0
    return np.asarray(ndtri(np.clip(points, 1e-12, 1 - 1e-12)))
