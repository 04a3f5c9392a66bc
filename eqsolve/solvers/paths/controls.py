"""The settings of solves by paths, in one place."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PathsControls:
    """Settings of a solve by paths."""

    first: float = 1.5  # length of the first panel, in shortest time scales
    growth: float = 2.0  # of a panel, relative to the one before
    slower: float = 1.5  # the same where few points have no solution on longer panels
    ratio: float = math.sqrt(2.0)  # density of the panels that a solution is compared with
    quiet: float = 0.25  # least share of its panels that a rough solution keeps where it is smooth
    rounds: int = 8  # most refinements of panels
    share: float = 0.45  # of the tolerance: for the error of panels, and as much for that of points
    stuck: float = 0.7  # least ratio of two errors of panels that ends refinement
    stop: float = 1e-2  # largest residual of the iteration at the end, in units of rtol
    rough: float = 5e-2  # the same while panels are chosen
    settled: float = 0.3  # residual in rtol above which neither panels nor points are refined
    # accuracy of paths, in units of the residual allowed. Newton's method ends when the square of
    # its last step is below it; the error is this square times a constant, 5e4 with three layers
    path_accuracy_share: float = 1e-8
    # change by other points, in tolerances, above which points are added before panels are chosen,
    # panels are checked again, and, in the end, paths are sampled
    large: float = 10.0
    early: int = 3  # most sets of points that are tried before panels are chosen
    most_early_paths: int = 500  # of such a set
    matters: float = 0.3  # least effect, relative to the largest one, of a way to refine points
    carried_share: float = 0.04  # share of the last correction by points stated as the error
    carried_share_if_alike: float = 0.5  # the same if points were no finer than those before
    negligible: float = 0.1  # effect, in tolerances, below which a way to refine points is left out
    checks: int = 5  # most corrections by other points (twice as many if they fall)
    hopeless: float = 30.0  # correction, in tolerances, at which points are added at once
    check_ratio: float = 1.1  # nodes of the panels of the last check, relative to the solution's
    most_growth: float = 10.0  # most paths of other points, relative to those of the solution
    free_work: float = 1e8  # paths × nodes³ below which there may be more
    highest: int = 8  # highest order of panels that responses near the diagonal have too
    handed: tuple[float, float] = (0.75, 1.2)  # least and most density of a warm start's panels
    paths_shown: int = 4096  # paths that a result keeps
    sampled_from: int = 2048  # paths of a sparse grid at 1e-3 from which on they are sampled
    sets: int = 4  # independent sets of points for averages of kinks, and of sampled paths
    probe: int = 512  # paths of the sample with which a solution is begun where paths have kinks
    sample: int = 1024  # paths of a set for averages of kinks, at first
    most_sample: int = 16384  # most paths of such a set
    small_set_work: float = 2e10  # 32 × paths × nodes² below which there may be more


@dataclass(frozen=True)
class EnsembleControls:
    """Settings of a solve by sampled paths, from a small ensemble to large ones."""

    small: int = 1024  # paths of the small ensemble
    sets: int = PathsControls.sets  # independent large ensembles
    levels: int = 8  # most rounds of larger ensembles
    rough: float = 0.2  # change of outputs, in tolerances, at which modes are chosen anew
    stop: float = 0.02  # the same at which the iteration ends
    sweeps: int = 25  # most sweeps of the small ensemble
    ratio: float = PathsControls.ratio  # density of the panels that a solution is compared with
    rounds: int = 6  # most refinements of panels
    share: float = PathsControls.share  # of the tolerance, for the error of panels
    stuck: float = PathsControls.stuck  # as for the panels of sparse grids
    contraction: float = 0.06  # of corrections by large ensembles (0.02 to 0.06)
    growth: float = 4.0  # most ratio of the paths of two ensembles that are averaged
    clear: float = 2.0  # standard error, in tolerances left, above which more paths follow at once
    rate: float = 0.85  # errors fall like paths^−rate: 0.5 by chance, 1 for smooth functions
    safety: float = 1.3  # paths of the next ensembles, relative to what the rate predicts
    # most operations of one ensemble in all rounds, paths × nodes² × (nodes of tangents and
    # following): a minute of one core for four. With less, soft spins at 1e-3 miss the tolerance
    cost: float = 4e11
    card: float = 15.0  # speed of a card relative to a core: 15 to 25 for one H200


@dataclass(frozen=True)
class NestedStepControls:
    """Settings of the steps of a solve with white noise."""

    first: float = 32.0  # number of steps at first
    ratio: float = 6.0  # of the last step to the first: paths relax from their start
    order: float = 3.0  # of their error, as far as it is relied on to choose them
    growth: float = 3.0  # most ratio of their numbers in two rounds
    rounds: int = 6  # at most
    aim: float = 0.3  # share of the tolerance that their error is to have
    # share of the distance of the two extrapolated solutions (steps h and 2h; 2h and 4h) stated as
    # the error. Of a fourth order it is 1/15; where few steps resolve the start the order is less,
    # and linear spins were seen to err by all of it
    share: float = 0.4
    floor: float = 2e-7  # least relative error: covariances on dense nodes are nearly singular
    halved: float = 4.0  # ratio of errors of steps of twice the length
    block: int = 4  # how many are solved together
    enough: float = 0.45  # share of the tolerance that their error may have
