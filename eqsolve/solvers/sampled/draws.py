"""What a sample of paths is made of: normal coordinates of noises, unit increments of white noise, random constants.

Coordinates are independent standard normals. The slowest of their modes in time, and Gaussian constants, are scrambled Sobol
points; everything Gaussian comes with both signs, so that means of odd functions are exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import EnsemblePlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.draws import draw_constants
from eqsolve.numerics.growing import grow_factor
from eqsolve.numerics.laws import Component, Law, Normal
from eqsolve.numerics.sobol import DIMENSIONS, sobol_normals

_FINE = 1 << 16  # values of constants that share a law, to know the moments of what paths start from
_ORDER = 24  # points of a rule for the same of other constants


@dataclass(frozen=True, eq=False)
class Draw:
    """One sample: (noises of the group × nodes in the order of time, paths) by group, (steps, paths) by white noise.

    All are arrays of one backend.
    """

    groups: tuple[Any, ...]
    kicks: Mapping[str, Any]
    constants: Mapping[str, Any]

    def on(self, backend: Backend) -> Draw:
        """Return the sample with its arrays on a backend."""
        kicks, constants = ({name: backend.put(item) for name, item in kind.items()} for kind in (self.kicks, self.constants))
        return Draw(tuple(map(backend.put, self.groups)), kicks, constants)

    @property
    def paths(self) -> int:
        every = [*self.groups, *self.kicks.values(), *self.constants.values()]
        return int(every[0].shape[-1]) if every else 1


@dataclass(frozen=True, eq=False)
class Starts:
    """Mean of what paths start from, a factor of its covariance, and whether it is Gaussian."""

    mean: Array
    factor: Array
    gaussian: bool


def draw(
    plan: EnsemblePlan,
    groups: Sequence[int],
    whites: Sequence[str],
    laws: Mapping[str, Law],
    nodes: int,
    paths: int,
    seed: Any,
) -> Draw:
    """Return a sample for ``nodes`` in time; ``groups`` are how many noises are driven together, group by group."""
    from scipy.fft import idct

    half = max(1, paths // 2)
    rng = np.random.default_rng(seed)
    shapes = [*((count, nodes) for count in groups), *((1, nodes - 1) for _ in whites)]
    modes = [rng.standard_normal((count, size, half)) for count, size in shapes]
    gaussian = [name for name in plan.constants if isinstance(laws[name], Normal)]
    points = sobol_normals(half, DIMENSIONS, int(rng.integers(1 << 31)))
    fixed = dict(zip(gaussian, points, strict=False))
    places = (
        (part, row, k) for k in range(nodes) for part, (count, size) in enumerate(shapes) for row in range(count) if k < size
    )
    for (part, row, k), values in zip(itertools.islice(places, DIMENSIONS), points[len(fixed) :], strict=False):
        modes[part][row, k] = values
    made = [idct(item, axis=1, norm="ortho") for item in modes]  # an orthogonal mixture: as independent as before
    signed = [np.concatenate([item, -item], axis=-1) for item in made]
    others = {name: laws[name] for name in plan.constants if name not in fixed}
    constants = {name: np.tile(values, 2) for name, values in draw_constants(others, half, rng).items()}
    for name, values in fixed.items():
        law = laws[name]
        assert isinstance(law, Normal)
        constants[name] = float(law.mean) + math.sqrt(float(law.variance)) * np.concatenate([values, -values])
    flat = [item.transpose(1, 0, 2).reshape(-1, item.shape[-1]) for item in signed[: len(groups)]]
    return Draw(tuple(flat), dict(zip(whites, (item[0] for item in signed[len(groups) :]), strict=True)), constants)


def coarsen(sample: Draw, factors: Sequence[tuple[int, Array]], steps: Array, seed: Any, backend: Backend = CPU) -> Draw:
    """Return the same sample on every other node.

    ``factors`` are, group by group, how many noises it has and the factor of their covariance on the fine nodes; ``steps``
    the fine steps in time. Noises keep their values, as far as the covariances on both grids agree.
    """
    from scipy.linalg import solve_triangular

    rng = np.random.default_rng(seed)
    groups = []
    for coordinates, (count, factor) in zip(sample.groups, factors, strict=True):
        kept = (np.arange(0, len(factor) // count, 2)[:, None] * count + np.arange(count)).ravel()
        rows = factor[kept]
        own = grow_factor(rows @ rows.T)
        turn = solve_triangular(own.solvable, rows, lower=True, check_finite=False)
        values = backend.put(turn) @ coordinates
        lost = np.flatnonzero(own.lost)
        if len(lost):
            fresh = rng.standard_normal((len(lost), values.shape[1] // 2))
            values[lost] = backend.put(np.concatenate([fresh, -fresh], axis=1)[:, : values.shape[1]])
        groups.append(values)
    first, second = np.sqrt(steps[::2] / (steps[::2] + steps[1::2])), np.sqrt(steps[1::2] / (steps[::2] + steps[1::2]))
    first, second = backend.put(first[:, None]), backend.put(second[:, None])
    kicks = {name: first * item[::2] + second * item[1::2] for name, item in sample.kicks.items()}
    return Draw(tuple(groups), kicks, sample.constants)


def start_moments(plan: EnsemblePlan, laws: Mapping[str, Law]) -> Starts:
    """Return mean and covariance of what paths start from: by rules, or by many values where constants share a law."""
    names = plan.constants
    if len(names) <= 3 and not any(isinstance(laws[name], Component) for name in names):
        rules = [laws[name].rule(_ORDER) for name in names]
        nodes = np.meshgrid(*(rule[0] for rule in rules), indexing="ij") if rules else []
        weights = np.ones(1)
        for _, mass in rules:
            weights = np.multiply.outer(weights, mass).ravel()
        values = {name: item.ravel() for name, item in zip(names, nodes, strict=True)}
    else:
        values = draw_constants({name: laws[name] for name in names}, _FINE, np.random.default_rng(_FINE))
        weights = np.full(_FINE, 1.0 / _FINE)
    table = np.array([np.broadcast_to(item, weights.shape) for item in plan.starts(*(values[name] for name in names))])
    table = table.reshape(len(plan.unknowns), -1)
    mean = table @ weights
    centred = table - mean[:, None]
    covariance = (centred * weights) @ centred.T
    variances, directions = np.linalg.eigh(covariance)
    third, fourth = (centred**3) @ weights, (centred**4) @ weights
    own = np.diagonal(covariance)
    affine = np.allclose(third, 0.0, atol=1e-9 * float(own.max(initial=0.0)) ** 1.5) and np.allclose(
        fourth, 3 * own**2, rtol=1e-9
    )
    gaussian = bool(affine) and all(isinstance(laws[name], Normal) for name in names)
    return Starts(mean, directions * np.sqrt(np.clip(variances, 0.0, None)), gaussian)
