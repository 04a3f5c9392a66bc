"""What a stochastic solve is steered by, in one place."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Control:
    """What a solve is steered by."""

    # the first panel in units of the first time scale, and how each follows from the last; where
    # few points have no start
    first: float = 1.5
    growth: float = 2.0
    slower: float = 1.5
    ratio: float = math.sqrt(2.0)  # density of the panels that a solution is compared with
    # of the density of panels that is left, at least, where a rough solution is quiet: it tells no
    # more
    quiet: float = 0.25
    rounds: int = 8  # of refinement, at most
    share: float = 0.45  # of the tolerance, for panels, and for points
    # of the error of panels: where denser ones leave more, it is that of the points
    stuck: float = 0.7
    # residuals of the iteration, as fractions of rtol: final, and while panels are chosen
    stop: float = 1e-2
    rough: float = 5e-2
    # residual, as a fraction of rtol, above which refining panels and points is of no use
    settled: float = 0.3
    # of what the iteration may leave: the accuracy to which paths are followed. Newton's method
    # ends when the square of its last step is below that; the error is this square times a
    # constant, 5e4 with three layers, and where it exceeds what the iteration may leave, that
    # stalls
    paths_to: float = 1e-8
    # a large change of the solution by other points, in tolerances: above it more points are taken
    # before panels are chosen, panels are checked again, and in the end paths are sampled instead
    large: float = 10.0
    # sets of points that are tried before panels are chosen, and paths in them, at most
    early: int = 3
    crowd: int = 500
    matters: float = 0.3  # of the largest effect: ways to have more points that have less are left
    # fraction of the correction before the last that counts as error: usually, and if the last set
    # of points was not finer than the one before, so that their errors may be correlated
    hope: float = 0.04
    alike: float = 0.5
    # of the tolerance: a way to have more points that changes less is left out of the next sets
    negligible: float = 0.1
    # sets of other points that move a solution, at most (twice as many while their errors fall),
    # before it is iterated again with more points of its own; at once where a set moves it by
    # `hopeless` tolerances
    checks: int = 5
    hopeless: float = 30.0
    other: float = 1.1  # nodes on the panels that check others, relative to these
    # paths of a set of other points, relative to those of the solution, at most; unless paths ×
    # nodes³ is cheap
    dearest: float = 10.0
    cheap: float = 1e8
    # order of panels in which responses are recovered near the diagonal to the order's own accuracy
    highest: int = 8
    # how much denser, at least and at most, the panels handed on to a neighbour are than those of
    # the solution: along a sweep they follow what is needed, also where that is less
    handed: tuple[float, float] = (0.75, 1.2)
    kept: int = 4096  # paths, to look at laws
    # paths of a sparse grid at 1e-3, from which on they are sampled (more at a higher accuracy):
    # two small ensembles
    crowded: int = 2048
    sets: int = 4  # independent sets of points to average kinks, and of sampled paths
    probe: int = 512  # paths of a small sample, with which a start is made where paths have kinks
    # paths of a set for averages of kinks: at first, and most, unless paths × nodes² is below
    # `quick`/32
    sample: int = 1024
    most_sample: int = 16384
    quick: float = 2e10


@dataclass(frozen=True)
class Sampling:
    """What a solve by sampled paths is steered by."""

    # paths of the small ensemble; independent large ones; rounds of larger ones, at most
    small: int = 1024
    sets: int = Control.sets
    levels: int = 8
    # tolerances that outputs would still move by where modes are chosen anew, and where an
    # iteration ends
    rough: float = 0.2
    stop: float = 0.02
    sweeps: int = 25  # of the small ensemble, at most
    # density of the panels compared with; rounds of refinement, at most; of the tolerance for the
    # panels' error; of the last error, where denser panels leave more it is not the panels'
    ratio: float = Control.ratio
    rounds: int = 6
    share: float = Control.share
    stuck: float = Control.stuck
    # of the last change of a solution by large ensembles: what one more would change (the
    # contraction of the scheme was 0.02 to 0.06)
    left: float = 0.06
    # paths of an ensemble relative to those of the last one, at most: smaller ones do not count
    # beside them
    growth: float = 4.0
    # times the error budget left: first-order standard errors above it ask for more paths at once
    clear: float = 2.0
    # the error of an ensemble falls like paths^−rate (0.85 measured, between 0.5 of chance and 1 of
    # smooth functions)
    rate: float = 0.85
    safety: float = 1.3
    # operations of one ensemble in all rounds, at most, which are paths × nodes² × (nodes of
    # tangents and following): a minute of one core for four. With less, soft spins at 1e-3 and four
    # of sixty diagonal networks ended above the tolerance
    cost: float = 4e11
    # times as fast as a core, where a card follows the paths: one H200 is 15 to 25 times with soft
    # spins, diagonal networks and tanh units
    card: float = 15.0
