"""The numbers that the search for singularities goes by, each with what it is for and where it comes from.

Where no source is given a number was chosen by trial: the references of the tests hold for values a
factor of two away.
"""

import math
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import EPSILON, ROUNDING

TINY = float(np.finfo(float).tiny)  # keeps quotients finite
GUARD = 15  # digits beyond those asked for, by which numbers of mpmath are computed: sums of a thousand terms cancel


@dataclass(frozen=True)
class Controls:
    """Tolerances are relative, steps in units of the distance to what they must not jump over."""

    rounds: int = 20  # of Newton's method
    enough: float = math.sqrt(EPSILON)  # the last step: the error is its square
    rough: float = enough**0.25  # 0.01, a small change; what is only passed is known to its square
    close: float = ROUNDING / rough  # a place that is known: rounding of h by how steep it is there
    pieces: int = 400  # of a line at most: steps along it, panels of a density on it
    stride: float = rough**-0.5  # factor of p in one step while R is a power of it, to ``rough`` over two of them
    length: float = 0.3  # of a step, and the error of a predicted value: at 1/2 the other sheet is as near
    work: int = 120_000  # points of all meshes, or squares of the plane; with many points of the law less of them
    circle: int = 64  # points around a square; the coefficients of index 32 and beyond are aliased
    hankel: int = 5  # size of Hankel matrices: up to four poles in one circle, more are cut apart
    critical: int = 150  # points at most: a few seconds
    radius: float = EPSILON ** (2 / circle)  # around a critical point: what is aliased is rounding


CONTROLS = Controls()
