"""How far a march is from its horizon: what it costs to get there with panels that follow the fastest scale for ever."""

from __future__ import annotations

import math

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.solvers.two_time.march import March, NoConvergenceError, NotFiniteError

__all__ = ["begin_march", "panels_ahead"]

_FIRST_STEP = 0.05  # of the whole time
_LARGEST_GROWTH = 2.5
_MOST_TRIES = 6  # for each panel


def begin_march(
    compiled: CompiledPlan,
    order: int,
    begin: float,
    t_max: float,
    resolution: float,
    panels: int,
    checkpoint: Checkpoint | None = None,
) -> March | None:
    """March adaptively over so many panels, or to the end; None where that does not work out."""
    try:
        march = March(compiled, order, begin, 1e-2 * resolution, resolution, checkpoint=checkpoint)
    except NotFiniteError:
        return None
    step = _FIRST_STEP * (t_max - begin)
    smallest = 1e-13 * max(t_max - begin, abs(t_max))
    for _ in range(_MOST_TRIES * panels):
        if march.panels == panels or march.end >= t_max - smallest:
            return march
        step = min(step, t_max - march.end)
        if step < 10 * smallest:
            return None
        try:
            indicator = march.add_panel(step) / resolution
        except (NoConvergenceError, NotFiniteError):
            step /= 3
            continue
        if not indicator <= 1.0:
            step *= max(0.2, 0.8 * indicator ** (-1 / (order + 1))) if math.isfinite(indicator) else 0.2
            continue
        march.accept()
        step *= min(_LARGEST_GROWTH, 0.85 * max(indicator, 1e-12) ** (-1 / (order + 1)))
    return None


def panels_ahead(march: March, t_max: float) -> float:
    """Return how many more panels a march needs, if its steps go on to grow as they did over its second half."""
    edges = np.array(march.history.row_edges) - march.history.row_edges[0]
    steps, half, now, end = np.diff(edges), len(edges) // 2, edges[-1], t_max - march.history.row_edges[0]
    late = float(np.median(steps[-max(1, len(steps) // 8) :]))
    middle = float(np.median(steps[half - max(1, len(steps) // 8) : half + 1]))
    power = max(0.0, math.log(late / middle) / math.log(now / edges[half])) if half else 0.0
    if power > 0.99:
        return now / late * math.log(end / now)
    return now / late * ((end / now) ** (1 - power) - 1) / (1 - power)
