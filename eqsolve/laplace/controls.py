"""The numbers that the search for singularities goes by, each with what it is for and where it comes from.

Where no source is given a number was chosen by trial: the references of the tests hold for values a
factor of two away.
"""

import math
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import EPSILON
from eqsolve.numerics.quadrature import LineRule

TINY = float(np.finfo(float).tiny)  # keeps quotients finite


@dataclass(frozen=True)
class Controls:
    """Tolerances are relative, steps in units of the distance to what they must not jump over."""

    # Newton's method
    rounds: int = 30
    few: int = 12  # rounds where failure is cheap: a shorter step follows
    enough: float = math.sqrt(EPSILON)  # the last step: the error is its square
    # three degrees of near
    rough: float = 1e-2  # a change that is called small
    near: float = 1e-3  # values that are only passed; two ways to one value
    close: float = 1e-11  # a place that is known: where rounding of h, some 1e-13, leaves off
    # the walk along the real axis
    far: tuple[float, ...] = (1e12, 1e9, 1e6, 1e4, 1e2, 20.0, 8.0, 4.0)  # where it begins; nearer where R underflows
    steps: int = 800
    stride: float = 8.0  # factor of p in one step while R is a power of it
    length: float = 0.3  # of a step, and the error of a predicted value: at 1/2 the other sheet is as near
    # the mesh over the half plane
    points: int = 6_000  # of a mesh with few points of the law: some 10 ms
    turn: float = 0.9  # radians h_R may turn along one side of a cell; four sides stay below 2π
    # circles around squares of the plane
    circle: int = 64  # points; the coefficients of index 32 and beyond are aliased
    squares: int = 60_000
    batch: int = 64  # squares, or cells of the mesh, in one round
    noise: float = 30.0  # how much more rounding than seen is allowed for
    hankel: int = 5  # size of Hankel matrices: up to four poles in one circle
    # sheets of algebraic transforms
    digits: int = 40  # of critical points: the distance between two of them takes fewer
    critical: int = 150  # points at most: a few seconds
    radius: float = 0.4  # of a circle around a critical point: 0.4^64 is far below rounding
    # panels of densities
    order: int = LineRule.nodes  # of Gauss rules
    panels: int = 400
    tolerance: float = 8 * EPSILON


CONTROLS = Controls()
