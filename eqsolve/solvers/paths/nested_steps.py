"""White noise: trapezoidal steps in time, extrapolated over nested grids with the same noise.

With noise that is added the trapezoidal rule is of second weak order, and its error has an
expansion in the squares of the steps (Talay & Tubaro, Stoch. Anal. Appl. 8, 483 (1990),
doi:10.1080/07362999008809220). Every ensemble is solved with steps h, 2h and 4h on the same
increments, so that its scatter cancels from the differences.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eqsolve.numerics.arrays import Array, over_neighbours
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import NestedStepControls
from eqsolve.solvers.paths.error_control import Curves, Errors
from eqsolve.solvers.paths.modes import Choice
from eqsolve.solvers.paths.sweep import Engine, Kept

_EVEN = 4  # fine steps that make one of the coarsest


def steps_in_time(begin: float, options: Options, count: float, control: NestedStepControls) -> OperatorGrid:
    """Return a grid of about ``count`` steps, with a node at every time asked for, and one on both sides of every break.

    Between these times nodes are evenly spaced in s with t = begin + span (eˢ − 1)/(ratio − 1):
    steps are shorter at the start, from which paths relax, and their error keeps its expansion in
    the squares of the spacing.
    """
    span, ratio, last = options.t_max - begin, control.ratio, math.log(control.ratio)
    edges = [begin, *sorted(time for time in options.step_ends(begin) if begin < time < options.t_max), options.t_max]
    places = np.log1p((ratio - 1) * (np.array(edges) - begin) / span)
    parts = []
    for k, (low, high) in enumerate(itertools.pairwise(places)):
        inside = _EVEN * max(1, math.ceil((high - low) / last * count / _EVEN - 1e-9))
        times = begin + span * np.expm1(np.linspace(low, high, inside + 1)[:-1]) / (ratio - 1)
        times[0] = edges[k]
        parts.append(times)
    return OperatorGrid.trapezoid(np.append(np.concatenate(parts), options.t_max), control.block)


def on_coarser(engine: Engine, kernels: Kernels, kept: Sequence[Kept]) -> tuple[Kept, ...]:
    """Return the points and modes of paths on every other node, and these as a guess."""
    size, steps = kernels.grid.size, np.diff(kernels.grid.nodes)
    before, behind = steps[::2] / (steps[::2] + steps[1::2]), steps[1::2] / (steps[::2] + steps[1::2])
    made = []
    for plan, item in zip(engine.ensembles, kept, strict=True):
        factors = []
        for group, factor in zip(engine.groups(kernels, plan), item.choice.factors, strict=True):
            if group.noises[0] in plan.noises:
                factors.append(np.vstack([part[::2] for part in np.split(factor, len(factor) // size)]))
            else:  # of two steps the mean
                both = before[:, None] * factor[1::2] + behind[:, None] * factor[2::2]
                factors.append(np.vstack([factor[:1], both]))
        choice: Choice = replace(item.choice, factors=tuple(factors), shapes=None)
        made.append(Kept(choice, item.unknowns[:, ::2]))
    return tuple(made)


def extrapolate_steps(levels: Sequence[Curves], control: NestedStepControls) -> Curves:
    """Return the limit of vanishing steps, from steps h and 2h; on one grid curves stay as they are."""
    if len(levels) == 1:
        return levels[0]
    fine, middle = (item.all for item in levels[:2])
    share = 1 / (control.halved - 1)
    return levels[0].filled({
        name: (1 + share) * _halved(values) - share * middle[name] for name, values in fine.items()
    })  # fmt: skip


def on_fine_steps(
    levels: Sequence[Curves], errors: Errors, control: NestedStepControls, nodes: Array
) -> tuple[Curves, Errors]:
    """Return extrapolated curves with their errors, of one time on all ``nodes`` of the steps h.

    What extrapolation adds is smooth and small: it is interpolated from the steps 2h.
    """
    limit, coarse = extrapolate_steps(levels, control), PanelGrid.smooth(nodes[::2])
    added = {name: values - _halved(levels[0].all[name]) for name, values in limit.single.items()}
    single = {name: levels[0].single[name] + coarse.interpolate(values, nodes) for name, values in added.items()}
    return replace(limit, single=single), errors | {name: _doubled(errors[name], len(nodes)) for name in single}


def step_errors(levels: Sequence[Curves], control: NestedStepControls, nodes: Array) -> Errors:
    """Return the error of extrapolation, from steps h, 2h and 4h, and between the ``nodes`` of h."""
    better, rough = extrapolate_steps(levels, control).all, extrapolate_steps(levels[1:], control).all
    gaps = {  # the largest of neighbouring values: one may be small by chance
        name: over_neighbours(np.abs(_halved(values) - rough[name]), 1, np.max) for name, values in better.items()
    }
    grid = PanelGrid.smooth(nodes)
    between = {name: grid.error_between(values)[::2] for name, values in levels[0].all.items() if values.ndim == 1}
    return {
        name: control.share * _doubled(gaps[name], len(values)) + control.floor * np.abs(values)
        + between.get(name, 0.0)
        for name, values in better.items()
    }  # fmt: skip


def _halved(values: Array) -> Array:
    return values[::2] if values.ndim == 1 else values[::2, ::2]


def _doubled(values: Array, size: int) -> Array:
    """Return values on every other node on all nodes: the larger of two neighbours."""
    for axis in range(values.ndim):
        wide = np.take(np.repeat(values, 2, axis=axis), range(size), axis=axis)
        values = np.maximum(wide, np.take(wide, np.minimum(np.arange(size) + 1, size - 1), axis=axis))
    return values
