"""What a stochastic solve is steered by, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Control"]


@dataclass(frozen=True)
class Control:
    """What a solve is steered by.

    Attributes
    ----------
    first, growth
        The first panel in units of the first time scale, and how each follows from the last.
    ratio
        Density of the panels that a solution is compared with.
    rounds
        Of refinement, at most.
    share
        Of the tolerance, for panels, and for points.
    stop
        Of the tolerance: what the iteration may leave.
    compare
        Of the tolerance: what the iteration may leave of a solution that is only compared with another one. A sweep leaves a
        fifth of a residual at most, so that far less than the share of the panels is left.
    settled
        Of the tolerance: where the iteration leaves more, refining panels and points is of no use.
    paths_to
        Of what the iteration may leave: the accuracy to which paths are followed.
    few
        When more points change the solution by so many tolerances, panels are looked at again.
    matters
        Of the largest effect: ways to have more points that have less are left.
    hope
        Of the change under more points: what may be left when they are taken in; other points then tell.
    negligible
        Of the tolerance: a way to have more points that changes less is not needed to check the rest.
    checks, other
        Sets of other points, and nodes on the panels that check others, relative to these.
    dearest, cheap
        Paths of a set of other points, relative to those of the solution, at most; unless paths × nodes³ is cheap.
    highest
        Order of panels in which responses are recovered near the diagonal to the order's own accuracy.
    handed
        How much denser, at least and at most, the panels handed on to a neighbour are than those of the solution: along a
        sweep they follow what is needed, also where that is less.
    kept
        Paths, to look at laws.
    sample, fair_sample, most_sample, sets
        Paths to average kinks, in so many independent sets: at first, where the tolerance is out of reach, and most.
    """

    first: float = 1.5
    growth: float = 2.0
    ratio: float = math.sqrt(2.0)
    rounds: int = 8
    share: float = 0.45
    stop: float = 1e-2
    compare: float = 0.1
    settled: float = 0.3
    paths_to: float = 1e-3
    few: float = 10.0
    matters: float = 0.3
    hope: float = 0.3
    negligible: float = 0.1
    checks: int = 2
    other: float = 1.1
    dearest: float = 6.0
    cheap: float = 3e10
    highest: int = 8
    handed: tuple[float, float] = (0.75, 1.2)
    kept: int = 4096
    sample: int = 1024
    fair_sample: int = 4096
    most_sample: int = 16384
    sets: int = 4
