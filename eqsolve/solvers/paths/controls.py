"""The settings of solves by paths, in one place."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PathsControls:
    """Settings of a solve by paths."""

    # first panel of the march, in units of the shortest time scale, and the ratio of each panel to
    # the one before
    first: float = 1.5
    growth: float = 2.0
    slower: float = 1.5  # the same ratio where few points have no solution on longer panels
    ratio: float = math.sqrt(2.0)  # density of the panels that a solution is compared with
    # least share of its panels that a rough solution keeps where nothing happens: it tells no more
    quiet: float = 0.25
    rounds: int = 8  # most refinements of panels
    share: float = 0.45  # of the tolerance, for the error of panels, and as much for that of points
    # refinement of panels stops where their error falls to more than this share of the last: what
    # is left is that of points
    stuck: float = 0.7
    # largest residual of the iteration, in units of rtol: at the end, and while panels are chosen
    stop: float = 1e-2
    rough: float = 5e-2
    # residual, in units of rtol, above which panels and points are not refined: their errors cannot
    # be told from it
    settled: float = 0.3
    # accuracy of paths, in units of the residual allowed. Newton's method ends when the square of
    # its last step is below it; the error is this square times a constant, 5e4 with three layers,
    # and would else keep the iteration from converging
    path_accuracy_share: float = 1e-8
    # change of a solution by other points, in tolerances, above which there are more points before
    # panels are chosen, panels are checked again after that, and paths are sampled if it is as
    # large in the end
    large: float = 10.0
    # before panels are chosen: most sets of points that are tried, and most paths in one of them
    early: int = 3
    most_early_paths: int = 500
    # ways to refine points are used if they change the solution by this share of the largest change
    matters: float = 0.3
    # share of the last correction by other points that is stated as the error; and if these points
    # were no finer than those before, so that the errors of both may be alike
    carried_share: float = 0.04
    carried_share_if_alike: float = 0.5
    # change, in tolerances, below which a way to refine points is left out of the next sets
    negligible: float = 0.1
    # most sets of other points that correct a solution (twice as many while corrections fall)
    # before it is iterated again with more points of its own; and the correction, in tolerances, at
    # which that is done at once
    checks: int = 5
    hopeless: float = 30.0
    # nodes of the panels that the last check is made on, relative to those of the solution
    check_ratio: float = 1.1
    # most paths of a set of other points, relative to those of the solution; more where paths ×
    # nodes³ is below `free_work`
    most_growth: float = 10.0
    free_work: float = 1e8
    # highest order of panels at which responses near the diagonal have the accuracy of the order
    highest: int = 8
    # density of the panels that a solve at neighbouring parameters begins with, relative to that
    # needed here: least and most
    handed: tuple[float, float] = (0.75, 1.2)
    paths_shown: int = 4096  # paths that a result keeps
    # paths of a sparse grid at 1e-3, from which on they are sampled (more at a smaller tolerance):
    # two small ensembles
    sampled_from: int = 2048
    sets: int = 4  # independent sets of points for averages of kinks, and of sampled paths
    probe: int = 512  # paths of the sample with which a solution is begun where paths have kinks
    # paths of a set for averages of kinks: at first, and most, unless paths × nodes² is below
    # `small_set_work`/32
    sample: int = 1024
    most_sample: int = 16384
    small_set_work: float = 2e10


@dataclass(frozen=True)
class EnsembleControls:
    """Settings of a solve by sampled paths, from a small ensemble to large ones."""

    small: int = 1024  # paths of the small ensemble
    sets: int = PathsControls.sets  # independent large ensembles
    levels: int = 8  # most rounds of larger ensembles
    # change of the outputs, in tolerances, at which modes are chosen anew, and at which the
    # iteration ends
    rough: float = 0.2
    stop: float = 0.02
    sweeps: int = 25  # most sweeps of the small ensemble
    ratio: float = PathsControls.ratio  # density of the panels that a solution is compared with
    rounds: int = 6  # most refinements of panels
    share: float = PathsControls.share  # of the tolerance, for the error of panels
    stuck: float = PathsControls.stuck  # as for the panels of sparse grids
    # share of the last correction by large ensembles that one more would change (the scheme
    # contracts by 0.02 to 0.06)
    contraction: float = 0.06
    # an ensemble counts beside one that is at most so many times larger
    growth: float = 4.0
    # standard error, estimated to first order, in units of what is left of the tolerance: above it
    # more paths follow at once
    clear: float = 2.0
    # the error of an ensemble falls like paths^−rate (0.85 measured, between 0.5 of chance and 1 of
    # smooth functions)
    rate: float = 0.85
    safety: float = 1.3  # paths of the next ensembles, relative to what the rate predicts
    # most operations of one ensemble in all rounds, which are paths × nodes² × (nodes of tangents
    # and following): a minute of one core for four. With less, soft spins at 1e-3 and four of sixty
    # diagonal networks ended above the tolerance
    cost: float = 4e11
    # speed of a card relative to a core: one H200 is 15 to 25 times as fast with soft spins,
    # diagonal networks and tanh units
    card: float = 15.0
