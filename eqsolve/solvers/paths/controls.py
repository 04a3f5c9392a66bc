"""The settings of solves by paths, in one place."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PathsControls:
    """Settings of a solve by paths."""

    first: float = 1.5  # length of the first panel, in shortest time scales
    growth: float = 2.0  # of a panel, relative to the one before; where there is no solution, its root
    ratio: float = math.sqrt(2.0)  # density of the panels that a solution is compared with
    rounds: int = 8  # most refinements, of panels, of points, of ensembles and of steps
    share: float = 0.45  # of the tolerance: for the error of panels or steps, and as much for that of points
    aim: float = 0.3  # share of the error allowed that a refinement of panels aims at
    stuck: float = 0.7  # least ratio of two errors, or residuals, that counts as no progress
    stop: float = 1e-2  # largest residual of the iteration at the end, in units of rtol
    rough: float = 5e-2  # the same while panels are chosen
    settled: float = 0.3  # residual in rtol above which neither panels nor points are refined
    # accuracy of paths, in units of the residual allowed. Newton's method ends when the square of
    # its last step is below it; the error is this square times a constant, 5e4 with three layers
    path_accuracy_share: float = 1e-8
    # change by other points, in tolerances, above which points are added at once, panels are
    # checked again, and, in the end, paths are sampled
    large: float = 10.0
    negligible: float = 1 / large  # error, in tolerances, below which a difference of samples is not pursued
    # what a correction by other points leaves: 0.02 to 0.06 of it, more where they were no finer
    contraction: float = 0.06
    contraction_if_alike: float = 0.5
    check_ratio: float = 1.1  # nodes of the panels of the last check, relative to the solution's
    most_growth: float = 10.0  # most paths of other points, relative to those of the solution
    free_work: float = 1e8  # paths × nodes³ below which there may be more
    highest: int = 8  # highest order of panels that responses near the diagonal have too
    sets: int = 4  # independent sets of points that are compared; twice as many where they nearly agree
    sample: int = 1024  # paths of the small ensemble, and of a set for averages of kinks, at first
    probe: int = sample // 2  # of the sample with which a solution is begun where paths have kinks, and of a march
    paths_shown: int = sets * sample  # paths that a result keeps: as many as the first sets have
    most_sample: int = 16384  # most paths of a set for averages of kinks
    small_set_work: float = 2e10  # 32 × paths × nodes² below which there may be more


@dataclass(frozen=True)
class EnsembleControls:
    """Settings of a solve by sampled paths, from a small ensemble to large ones."""

    small: int = PathsControls.sample
    sets: int = PathsControls.sets
    rough: float = PathsControls.settled  # change of outputs, in tolerances, at which modes are chosen anew
    stop: float = PathsControls.stop  # the same at which the iteration ends
    sweeps: int = 25  # most sweeps of the small ensemble
    ratio: float = PathsControls.ratio
    rounds: int = PathsControls.rounds
    share: float = PathsControls.share
    aim: float = PathsControls.aim
    stuck: float = PathsControls.stuck
    contraction: float = PathsControls.contraction
    growth: float = 4.0  # most ratio of the paths of two ensembles that are averaged
    clear: float = 2.0  # ratio of two errors that chance does not explain
    rate: float = 0.85  # errors fall like paths^−rate: 0.5 by chance, 1 for smooth functions
    safety: float = 1.3  # paths or steps of the next round, relative to what the rate predicts
    # most operations of one ensemble in all rounds, paths × nodes² × (nodes of tangents and
    # following): a minute of one core for four. With less, soft spins at 1e-3 miss the tolerance
    cost: float = 4e11
    following: int = 64  # nodes on which to follow a path costs as much as its tangents: 20 to 70 with three models
    card: float = 15.0  # speed of a card relative to a core: 15 to 25 for one H200


@dataclass(frozen=True)
class NestedStepControls:
    """Settings of the steps of a solve with white noise."""

    first: float = 32.0  # number of steps at first
    ratio: float = 6.0  # of the last step to the first: paths relax from their start
    order: int = 2  # weak order of the steps
    # share of the distance of the two extrapolated solutions (steps h and 2h; 2h and 4h) stated as
    # the error. Of a fourth order it is 1/15; where few steps resolve the start the order is less,
    # and linear spins were seen to err by all of it
    share: float = 0.4
    floor: float = 2e-7  # least relative error: covariances on dense nodes are nearly singular
    nested: int = 4  # finest steps in one of the coarsest, which are solved together where nothing jumps
    enough: float = PathsControls.share
    together: bool = True

    @property
    def block(self) -> int:
        return self.nested if self.together else 1

    @property
    def halved(self) -> float:
        """The ratio of errors of steps of twice the length."""
        return 2.0**self.order
