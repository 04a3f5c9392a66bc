"""What a solve by samples is steered by, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Control:
    """What a solve is steered by.

    Attributes
    ----------
    batches
        Independent samples, each of which is self-consistent by itself; their spread is the statistical error.
    paths, steps
        Of one sample, and fine steps in time, at first. Every sample is marched with these steps, and with twice and four
        times as long ones.
    ratio
        Of the last step to the first: paths relax from their start.
    order
        Of the error of the steps, as far as it is relied on to choose them.
    growth
        Of the number of steps from one round to the next, at most.
    tangents
        Of the paths of a sample: the share of which responses are followed, and the least and largest number of them.
    margin
        Times the standard error of the mean over samples is stated; with eight samples the true error is more than three times
        that in one case of a thousand.
    share
        Of the distance of the two extrapolated solutions (steps h and h/2; 2h and h): stated as the error of the steps. Of a
        fourth order it is 1/15; where few steps resolve the start the order is less, and linear spins were seen to err by all
        of it.
    floor
        Of a value: stated in any case. Factors of covariances that are nearly singular on dense nodes leave as much (linear
        spins with 65 to 100 nodes), whatever the steps.
    aim
        Of the tolerance: what steps, and what samples, are to leave.
    inner
        Iterations of the means at a new node, at most.
    settled
        Of the tolerance: where these end. What they leave adds up over the nodes, up to a hundred times this (linear spins).
    work
        nodes² × paths of all samples, at most: a solve that needs more returns what it has.
    rounds
        Of refinement, at most.
    """

    batches: int = 8
    paths: int = 2048
    steps: int = 32
    ratio: float = 6.0
    order: float = 3.0
    growth: float = 3.0
    tangents: tuple[float, int, int] = (0.0625, 64, 4096)
    margin: float = 2.0
    share: float = 0.4
    floor: float = 2e-7
    aim: tuple[float, float] = (0.25, 0.65)
    inner: int = 8
    settled: float = 1e-4
    work: float = 6e10
    rounds: int = 6
