"""Gaussian systems with white noise: correlations have a kink at equal times; time goes in steps, which are extrapolated.

The nodes of panels are kept, and every interval between them is cut into 1, 2, 4, ... equal steps of the trapezoidal rule.
Kinks lie on its nodes, and white noise is exact over every step; the rule is its own adjoint, so that values on the panels'
nodes have an expansion in the squares of the steps, also where intervals differ in length (Hairer, Lubich & Wanner 2006,
doi:10.1007/3-540-30666-8, section II.3). With L grids the extrapolated values are of order 2L. Between the nodes of the
panels they are polynomials: of two times, on either side of the kink by itself.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from eqsolve.numerics.arrays import ROUNDING, Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.richardson import extrapolate
from eqsolve.numerics.rows import RowStore
from eqsolve.solvers.paths.judge import Curves, Errors

_SHARE = 0.3  # of the distance of the limit to that without the coarsest grid, which is the error of the latter
_SQUARE = 3.4  # changes that fall by less as steps halve do not go with their squares: 2**1.5 is 2.8
_LEAST = math.sqrt(2)  # ratio of changes with which a limit is still taken


def even_panels(begin: float, end: float, length: float, asked: Sequence[float], order: int) -> PanelGrid:
    """Return panels of about equal length that end at the times asked for."""
    edges = [begin, *sorted({time for time in asked if begin < time < end}), end]
    pieces = [np.linspace(low, high, max(1, int(np.ceil((high - low) / length))) + 1)[:-1] for low, high in pairwise(edges)]
    return PanelGrid(np.append(np.concatenate(pieces), end), order)


def denser_between(panels: PanelGrid, ratios: Array, asked: Sequence[float]) -> PanelGrid:
    """Return panels that are denser by given ratios, and still end at the times asked for."""
    cuts = [0, *np.flatnonzero(np.isin(panels.edges[1:-1], list(asked))) + 1, panels.panels]
    parts = [PanelGrid(panels.edges[low : high + 1], panels.order).denser(ratios[low:high]) for low, high in pairwise(cuts)]
    return PanelGrid(np.concatenate([*(part.edges[:-1] for part in parts), panels.edges[-1:]]), panels.order)


def subdivided(panels: PanelGrid, parts: int) -> Array:
    """Return the nodes of panels, every interval between them cut into equal parts."""
    nodes = panels.nodes
    inner = nodes[:-1, None] + np.diff(nodes)[:, None] * np.arange(parts) / parts
    return np.append(inner.ravel(), nodes[-1])


def extrapolated(panels: PanelGrid, found: Sequence[Curves], beside: Curves) -> tuple[Curves, Errors]:
    """Return the limit of solutions on nodes that are subdivided into 1, 2, 4, ... parts.

    ``beside`` is another solution on the coarsest nodes, with other rules for integrals. The errors are a share of what the
    coarsest grid changes, what the rules change, and how far polynomials between the nodes are from the limit of the others.
    """
    values, errors = {}, {}
    middle = subdivided(panels, 2)
    within = panels.locate(panels.nodes)
    between = panels.locate(middle)
    forward = panels.interpolation(middle)
    tables = [*found[0].tables, *found[0].values]
    halves = {}
    for name in found[0].all:
        levels = [_every(item.all[name], 2**place) for place, item in enumerate(found)]
        values[name], change = extrapolate(levels, ratio=4)
        errors[name] = _SHARE * change + np.abs(beside.all[name] - levels[0])
        fine = [_every(item.all[name], 2**place) for place, item in enumerate(found[1:])]
        halves[name] = extrapolate(fine, ratio=4)[0]
        if (rate := falling(levels)) < _SQUARE:
            limits = [low + (low - high) / (rate - 1) for high, low in pairwise(levels)]
            errors[name] += _SHARE * np.abs(limits[-1] - values[name]) + np.abs(limits[-1] - limits[-2])
            values[name], halves[name] = limits[-1], fine[-1] + (fine[-1] - fine[-2]) / (rate - 1)
    found_tables = {name: values[name] for name in tables}
    rows = RowStore.from_tables(panels, found_tables, kinked=True).tables(middle) if tables else {}
    for name, value in values.items():
        rough = rows[name] if name in rows else forward @ value
        gap = np.abs(np.tril(halves[name]) - rough if name in rows else halves[name] - rough)
        start = float(errors[name].flat[0])
        errors[name] = _spread(errors[name], within) + _spread(gap, between, within)
        if name in rows:
            errors[name] = np.maximum(errors[name], errors[name].T)
        errors[name].flat[0] = start
    return found[-1].filled(values), errors


def falling(levels: Sequence[Array]) -> float:
    """Return the ratio by which changes fall as steps halve: four for smooth means, less where averages jump.

    A jump of what is averaged leaves the square root of |t − t'| in its correlation, and the power 3/2 of the step elsewhere.
    """
    first, second = (float(np.linalg.norm(low - high)) for high, low in list(pairwise(levels))[-2:])
    size = float(np.linalg.norm(levels[-1]))
    return max(first / second, _LEAST) if second > 100 * ROUNDING * size else np.inf


def _every(values: Array, step: int) -> Array:
    return values[(slice(None, None, step),) * values.ndim]


def _spread(values: Array, panels: Array, wanted: Array | None = None) -> Array:
    """Give every node the largest value of its panel."""
    largest = np.zeros((int(panels.max()) + 1,) * values.ndim)
    np.maximum.at(largest, np.ix_(*(panels,) * values.ndim), values)
    return largest[np.ix_(*(panels if wanted is None else wanted,) * values.ndim)]
