"""Numbers that the search for singularities goes by, in one place: each with what it is for, and where it comes from.

Where nothing else is said a number was chosen by trial: the references of the tests hold for values a factor of three away.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mesh", "Newton", "Squares", "Walk"]

ROUNDING = 2.3e-16  # relative spacing of floats
TINY = 1e-300  # keeps quotients finite


@dataclass(frozen=True)
class Newton:
    """Newton's method and continuation along a line."""

    rounds: int = 30
    enough: float = 1e-8  # relative size of the last step; it leaves the square of it as the error
    last: float = 1e-13  # a step so small is rounding
    accepted: float = 1e-9  # last step of a run that stagnates
    fold_rounds: int = 40
    stagnates: float = 1e-11  # a step of the method for branch points that no longer falls is taken from here on
    overflow: float = 1e300
    bracket: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.01)  # of the way to a branch point
    halvings: int = 14  # of 1/R on the way to a pole; 2^−14 leaves four digits before extrapolation
    orders: int = 5  # of the extrapolation to the pole
    spread: float = 1e-6  # of the last extrapolations, relative to the way to the pole
    same: float = 1e-3  # two ways to one value, relative
    steps: int = 400  # of a continuation
    corrector: int = 12  # rounds
    shortest: float = 1e-12  # step, relative to the whole line
    predicted: float = 0.15  # error of the predictor, in units of the distance to the next sheet
    moved: float = 0.5  # change of R in one step, in the same units


@dataclass(frozen=True)
class Walk:
    """The walk along the real axis."""

    far: tuple[float, ...] = (1e12, 1e9, 1e6, 1e4, 1e2, 20.0, 8.0, 4.0)  # where it begins; nearer where R underflows
    steps: int = 800
    asymptotic: float = 0.01  # how far the powers of p may move while the strides are long
    stride: float = 8.0  # factor of p in one of them
    landing: int = 12  # Newton steps to a branch point that is guessed from afar
    passing: float = 1e-4  # relative size of the last Newton step at points that are only passed
    steady: float = 0.3  # change of a guessed place, relative to the way there, from which on it is tried
    length: float = 0.3  # of a step, in units of the distance to what may come; 0.6 to an edge
    closest: float = 1e-11  # relative distance to the edge of a law at which the walk is there
    branch: float = 1e-5  # relative distance from the edge of a law down to which branch points are expected
    last: int = 8  # of a walk with few points of the law, its last steps and every third before are made with all
    nearly: float = 0.05  # relative distance of what both walks find
    settled: float = 1e-2  # relative move of a branch point when the rule is made there; less needs no other rule
    pole: float = 1e-12  # relative accuracy of a pole on the axis


@dataclass(frozen=True)
class Mesh:
    """The mesh of rays that covers the half plane."""

    refinements: int = 14
    points: int = 6_000  # of a mesh with few points of the law
    examined: int = 40  # cells in one round
    turn: float = 0.9  # radians h_R may turn along one side of a cell
    speed: float = 2.0  # radians it may turn unseen between two points, from its derivative
    winds: float = 1.0  # radians around a cell that count as a turn: it is 0 or 2π
    residue: float = 0.3  # of ∮R dp, relative to its terms
    near: float = 1e-3  # relative size of the last Newton step
    leap: float = 0.35  # how far a side may miss the other end, in units of the distance to the next sheet
    pole: float = 1e-11  # relative accuracy of a pole: 1/R may only seem to vanish, between two branch points
    grows: float = 1.2  # factor of |R| at half the distance to a pole: 2, or 2^(1/k) where it is a branch point
    runaway: float = 1e8  # growth of R on the way to a pole
    beside: float = 1e-2  # how far around a singularity nothing else is looked for, relative to where it is
    known: float = 1e-7  # relative distance of what was found before
    equal: float = 1e-9  # relative distance of real parts that are equal


@dataclass(frozen=True)
class Squares:
    """The squares that cover the plane of a transform that is given explicitly."""

    most: int = 60_000
    batch: int = 96
    around: float = 0.75  # radius of the circle around a square of side 1; its corners are 0.71 away
    smallest: float = 1e-7  # side of a square that is cut no further, relative to where it lies
    merged: float = 0.05  # poles so close to each other, in units of the circle, are looked at as one
    visible: float = 1e-9  # a coefficient of negative index that is seen, relative to the largest value on the circle
    shake: float = 1e-15  # relative change of p that shows the rounding of R
    noise: float = 30.0  # how much more rounding than seen is allowed for
    taken: float = 1e-11  # relative accuracy with which poles are taken out
    rank: float = 1e-7  # singular values of Hankel matrices that count, relative to the largest
    hankel: int = 5  # size of these matrices: up to four poles in one circle
    highest: int = 6  # order of a pole
    deeper: int = 25  # how often the circle around a pole is halved to see that it is one
    closer: int = 12  # how often a way around a branch point is made four times smaller
