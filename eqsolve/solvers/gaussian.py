"""Expectations over Gaussian processes and random constants: few modes that matter, each with the points it needs.

A Gaussian process on N nodes is a sum of modes. The modes are rotated to the singular vectors of what they do to the
unknowns (the drive), so that few of them carry almost all variance; those get a tensor product of Gauss–Hermite rules, with
fewer points the weaker the mode, and the rest gets a randomly shifted Kronecker sequence, used with both signs.
Atoms of discrete laws are summed exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsolve.language.laws import Law
from eqsolve.language.symbols import Random
from eqsolve.solvers.grids import Array
from eqsolve.solvers.ode import make_paths

__all__ = ["Level", "Points", "factor_covariance", "make_points"]


@dataclass(frozen=True)
class Level:
    """How fine an expectation is.

    Attributes
    ----------
    first
        Gauss points along the strongest mode.
    reach
        A mode of relative strength r gets about ``first`` points if r = 1 and one point if r < reach.
    constants
        Gauss points per random constant with a density.
    copies
        Quasi-random samples of the weak modes per tensor point (each with both signs); 0 leaves them out.
    seed
        Of the random shift.
    """

    first: int
    reach: float
    constants: int
    copies: int
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Points:
    """Quadrature points: standard normal coordinates per mode, values of constants, and weights."""

    normals: Array
    constants: dict[Random, Array]
    weights: Array


def factor_covariance(covariance: Array, drop: float = 1e-11) -> Array:
    """Return L with L Lᵀ = covariance, columns by decreasing size; modes below ``drop`` are left out."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    keep = values > drop * max(values[-1], 1e-300)
    return np.asarray((vectors[:, keep] * np.sqrt(values[keep]))[:, ::-1])


def align(factor: Array, drive: Array, previous: Array | None) -> Array:
    """Rotate modes: to the previous ones if there are any (so that an iteration is continuous), else by their drive."""
    if previous is not None and previous.shape[1] <= factor.shape[1] and previous.shape[0] == factor.shape[0]:
        left, _, right = np.linalg.svd(factor.T @ previous, full_matrices=True)
        rotation = np.hstack([left[:, : previous.shape[1]] @ right, left[:, previous.shape[1] :]])
        return factor @ rotation
    _, _, right = np.linalg.svd(drive, full_matrices=True)
    rotated = factor @ right.T
    signs = np.sign(rotated[np.abs(rotated).argmax(axis=0), np.arange(rotated.shape[1])])
    return rotated * np.where(signs == 0, 1.0, signs)


@functools.lru_cache(maxsize=128)
def _hermite(order: int) -> tuple[Array, Array]:
    from scipy.special import roots_hermitenorm

    nodes, weights = roots_hermitenorm(order)
    return nodes, weights / weights.sum()


def orders(strengths: Sequence[float], level: Level, most: int) -> list[int]:
    """Return the number of Gauss points per mode."""
    counts: list[int] = []
    total = 1
    for strength in strengths:
        ratio = strength / max(strengths[0], 1e-300)
        if ratio <= level.reach:
            break
        share = 1 - np.log(max(ratio, 1e-300)) / np.log(level.reach)
        count = max(2, int(np.ceil(level.first * share)))
        if total * count > most:
            break
        counts.append(count)
        total *= count
    return counts


def make_points(
    strengths: Sequence[float], laws: dict[Random, Law], level: Level, most: int = 200_000
) -> Points:
    """Return points for modes of given strengths and for the random constants, all independent."""
    counts = orders(strengths, level, most) if len(strengths) else []
    grids = [_hermite(count) for count in counts]
    mesh = np.meshgrid(*(nodes for nodes, _ in grids), indexing="ij") if grids else []
    weights = np.ones(1)
    for _, mass in grids:
        weights = np.multiply.outer(weights, mass)
    weights = weights.reshape(-1)
    strong = np.array([axis.ravel() for axis in mesh]).reshape(len(counts), -1)
    keep = weights > 1e-10 * weights.max()
    strong, weights = strong[:, keep], weights[keep] / weights[keep].sum()
    modes = len(strengths)
    weak = modes - len(counts)
    copies = level.copies if weak else 0
    if copies:
        strong, weights = np.tile(strong, 2 * copies), np.tile(weights, 2 * copies) / (2 * copies)
        tail = _kronecker(len(weights) // 2, weak, level.seed)
        normals = np.vstack([strong, np.hstack([tail, -tail])])
    else:
        normals = np.vstack([strong, np.zeros((weak, len(weights)))])
    constants = make_paths(laws, level.constants)
    count = len(constants.weights)
    return Points(
        np.tile(normals, count) if modes else np.zeros((0, len(weights) * count)),
        {item: np.repeat(values, len(weights)) for item, values in constants.values.items()},
        np.multiply.outer(constants.weights, weights).ravel(),
    )


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
