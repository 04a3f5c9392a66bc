"""White noise: trapezoidal steps in time, whose error is extrapolated over nested grids with the same noise.

With noise that is added the trapezoidal rule is of second weak order, and its error has an expansion in the squares of the
steps (Talay & Tubaro, Stoch. Anal. Appl. 8, 483 (1990), doi:10.1080/07362999008809220). Every ensemble is solved with steps
h, 2h and 4h on the same increments, so that its scatter cancels from the differences.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.numerics.arrays import Array, over_neighbours
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.judge import Curves, Errors
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.modes import Choice
from eqsolve.solvers.paths.sweep import Engine, Kept

_EVEN = 4  # fine steps that make one of the coarsest
_BLOCK = 4  # steps that are solved together


@dataclass(frozen=True)
class Steps:
    """What the steps of a solve are chosen by."""

    # how many there are at first; the last to the first: paths relax from their start
    first: float = 32.0
    ratio: float = 6.0
    # of their error, as far as it is relied on to choose them; how many more in every round, and
    # rounds, at most
    order: float = 3.0
    growth: float = 3.0
    rounds: int = 6
    aim: float = 0.3  # of the tolerance, that their error is to leave
    # of the distance of the two extrapolated solutions (steps h and 2h; 2h and 4h): stated as the
    # error. Of a fourth order it is 1/15; where few steps resolve the start the order is less, and
    # linear spins were seen to err by all of it
    share: float = 0.4
    # of a value: stated in any case, for nearly singular covariances on dense nodes
    floor: float = 2e-7


def steps_in_time(begin: float, options: Options, count: float, ratio: float) -> OperatorGrid:
    """Return a grid of about ``count`` steps, with a node at every time asked for.

    Between these times nodes are evenly spaced in s with t = begin + span (eˢ − 1)/(ratio − 1): steps are shorter at the
    start, from which paths relax, and their error keeps its expansion in the squares of the spacing.
    """
    span, last = options.t_max - begin, math.log(ratio)
    asked = {*options.at, *(moment for pair in options.at2 for moment in pair)}
    edges = [begin, *sorted(time for time in asked if begin < time < options.t_max), options.t_max]
    places = np.log1p((ratio - 1) * (np.array(edges) - begin) / span)
    parts = []
    for k, (low, high) in enumerate(itertools.pairwise(places)):
        inside = _EVEN * max(1, math.ceil((high - low) / last * count / _EVEN - 1e-9))
        times = begin + span * np.expm1(np.linspace(low, high, inside + 1)[:-1]) / (ratio - 1)
        times[0] = edges[k]
        parts.append(times)
    return OperatorGrid.trapezoid(np.append(np.concatenate(parts), options.t_max), _BLOCK)


def coarsen(grid: OperatorGrid) -> OperatorGrid:
    """Return the grid of every other node."""
    return OperatorGrid.trapezoid(grid.nodes[::2], _BLOCK)


def on_coarser(engine: Engine, averages: Sequence[Averages]) -> tuple[Kept, ...]:
    """Return the points and modes of paths on every other node, and these as a guess."""
    kernels = averages[0].paths.kernels
    size, steps = kernels.grid.size, np.diff(kernels.grid.nodes)
    before, behind = steps[::2] / (steps[::2] + steps[1::2]), steps[1::2] / (steps[::2] + steps[1::2])
    made = []
    for plan, item in zip(engine.plan.ensembles, averages, strict=True):
        factors = []
        for group, factor in zip(engine.groups(kernels, plan), item.choice.factors, strict=True):
            if group.noises[0] in plan.noises:
                factors.append(np.vstack([part[::2] for part in np.split(factor, len(factor) // size)]))
            else:  # of two steps the mean
                both = before[:, None] * factor[1::2] + behind[:, None] * factor[2::2]
                factors.append(np.vstack([factor[:1], both]))
        choice: Choice = replace(item.choice, factors=tuple(factors), shapes=None)
        made.append(Kept(choice, item.paths.unknowns[:, ::2]))
    return tuple(made)


def extrapolate(levels: Sequence[Curves]) -> Curves:
    """Return curves in the limit of vanishing steps, from those with steps h and 2h; on one grid they are as they are."""
    if len(levels) == 1:
        return levels[0]
    fine, middle = (item.all for item in levels[:2])
    return levels[0].filled({name: (4 * _halved(values) - middle[name]) / 3 for name, values in fine.items()})


def step_errors(levels: Sequence[Curves], control: Steps) -> Errors:
    """Return the error of extrapolated curves, from steps h, 2h and 4h."""
    better, rough = extrapolate(levels).all, extrapolate(levels[1:]).all
    gaps = {  # the largest of neighbouring values: one may be small by chance
        name: over_neighbours(np.abs(_halved(values) - rough[name]), 1, np.max) for name, values in better.items()
    }
    return {
        name: control.share * _doubled(gaps[name], len(values)) + control.floor * np.abs(values)
        for name, values in better.items()
    }


def _halved(values: Array) -> Array:
    return values[::2] if values.ndim == 1 else values[::2, ::2]


def _doubled(values: Array, size: int) -> Array:
    """Return values on every other node on all nodes: the larger of two neighbours."""
    for axis in range(values.ndim):
        wide = np.take(np.repeat(values, 2, axis=axis), range(size), axis=axis)
        values = np.maximum(wide, np.take(wide, np.minimum(np.arange(size) + 1, size - 1), axis=axis))
    return values
