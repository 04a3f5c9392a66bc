"""Averages of functions with a kink: quasi-random in all modes but the strongest, a fine line along that one.

What paths do is smooth along a mode; a kink is in what is averaged. So few paths are followed along the strongest mode, they
are interpolated between, and the function is evaluated on the many points of the line. Averaged along it, the function is
smooth in the other modes, where few points are enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import make_paths
from eqsolve.numerics.gaussian import Points
from eqsolve.numerics.laws import Law
from eqsolve.numerics.sobol import DIMENSIONS, sobol_normals

__all__ = ["Lines", "make_lines"]

_REACH = 5.0  # standard deviations that a line goes out to
_FINE = 4  # points of a line for each path on it


@dataclass(frozen=True, eq=False)
class Lines:
    """Points whose paths are followed, and the way to the finer ones on which functions are averaged.

    Points are ordered by constants, then along the line (``interpolation`` goes from these to the fine ones), then by the
    ``others`` that the other modes are. ``weights`` are those of the fine points.
    """

    points: Points
    others: int
    interpolation: Array
    weights: Array

    def refine(self, values: Any) -> Any:
        """Return values given per path (last axis) on the fine points; what is the same for all paths stays as it is."""
        shape = np.shape(values)
        if not shape or shape[-1] != len(self.points.weights):
            return values
        blocks = np.reshape(values, (*shape[:-1], -1, self.interpolation.shape[1], self.others))
        return np.matmul(self.interpolation, blocks).reshape(*shape[:-1], -1)


def make_lines(
    modes: int, laws: Mapping[str, Law], orders: int, along: int, others: int, seed: int
) -> Lines:
    """Return lines with ``along`` paths each, for ``others`` quasi-random points in the other modes and every constant.

    The nodes along a line are moved by a random part of their spacing, so that sets with other seeds share nothing.
    """
    from scipy.interpolate import make_interp_spline

    rng = np.random.default_rng((seed, 5))
    nodes = np.linspace(-_REACH, _REACH, along)
    nodes = nodes + rng.uniform(-0.5, 0.5) * (nodes[1] - nodes[0])
    fine = np.linspace(nodes[0], nodes[-1], _FINE * (along - 1) + 1)
    matrix = make_interp_spline(nodes, np.eye(along), k=5)(fine)
    mass = np.exp(-(fine**2) / 2)
    mass /= mass.sum()
    first = min(max(modes - 1, 0), DIMENSIONS)
    rest = rng.standard_normal((max(modes - 1 - first, 0), others))
    sample = np.vstack([sobol_normals(others, first, seed), rest]) if modes > 1 else np.zeros((0, others))
    if others > 1:
        sample = sample - sample.mean(axis=1, keepdims=True)
        sample /= np.sqrt((sample**2).mean(axis=1, keepdims=True)) + 1e-300
    normals = np.vstack([np.repeat(nodes, others)[None, :], np.tile(sample, along)])[:modes]
    constants = make_paths(laws, [dict.fromkeys(laws, orders)])
    share = np.full(others, 1 / others)
    coarse = np.multiply.outer(np.exp(-(nodes**2) / 2) / np.exp(-(nodes**2) / 2).sum(), share).ravel()
    points = Points(
        np.tile(normals, len(constants.weights)),
        {name: np.repeat(values, len(coarse)) for name, values in constants.values.items()},
        np.multiply.outer(constants.weights, coarse).ravel(),
    )
    weights = np.multiply.outer(constants.weights, np.multiply.outer(mass, share)).ravel()
    return Lines(points, others, matrix, weights)
