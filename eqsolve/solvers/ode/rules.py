"""Gauss rules of the random constants, chosen law by law until the expectations meet the tolerance.

The orders of a law's rules grow by about 2^(1/4). For every law with a density the four rules below the best one share
the integration with it; the error of the best rule is extrapolated from how the expectations change along them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import Paths, make_paths
from eqsolve.solvers.ode.march import Integrator, Run
from eqsolve.solvers.ode.system import OdeSystem
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import excess

__all__ = ["Levels", "choose_rules", "first_levels", "grow", "quadrature_error"]

logger = logging.getLogger("eqsolve")

Levels = Mapping[str, int]
"""Of each law with a density, the place of its best rule in the list of orders."""

# even ones only: whether a rule has a node in the middle must not change along the sequence
_ORDERS = tuple(2 * round(5 * 2 ** (k / 4)) for k in range(30))  # 10, 12, 14, 16, 20, ..., 1522
_BELOW = 4
_SHARE = 0.3  # of the tolerance, for all quadrature errors together


def first_levels(system: OdeSystem) -> Levels:
    """Return the smallest rules that can be compared."""
    return {item: _BELOW for item, law in system.laws.items() if law.has_density}


def choose_rules(integrator: Integrator, tolerance: float, levels: Levels) -> tuple[Run, Levels]:
    """Integrate with growing rules until their error is a small part of the tolerance, or no larger rule is there."""
    system = integrator.system
    while True:
        run = integrator.run(_paths(system, levels), tolerance)
        states = run.states(run.ends)
        curves = system.curves(run.ends, states, run.paths)[0]
        scales = system.scales(run.ends, states, run.paths)
        larger = grow(system, levels, curves, scales, integrator.options)
        if larger == levels:
            return run, levels
        levels = larger


def grow(
    system: OdeSystem, levels: Levels, curves: Mapping[str, Array], scales: Mapping[str, float], options: Options
) -> Levels:
    """Return larger rules for the laws whose quadrature error is too large; the same if none is, or none can grow."""
    watched = system.program.observables or curves
    larger = dict(levels)
    for place, (item, level) in enumerate(levels.items()):
        worst = max(
            (excess(curves[name][-1], _law_error(curves[name], place), options, scale=scales[name]) for name in watched),
            default=0.0,
        )
        logger.info("%s: %d nodes, quadrature error %.2g of rtol", item, _ORDERS[level], worst)
        if worst > _SHARE / len(levels):
            larger[item] = _next(system, item, level, 2 if worst < 100 else 4)
    try:
        _paths(system, larger)
    except UsageError:
        return levels  # too many paths: the error estimate tells what the present rules reach
    return larger


def quadrature_error(values: Array) -> Array:
    """Return the error of expectations under the best rule; ``values`` holds them per rule and time."""
    laws = (len(values) - 1) // _BELOW
    return np.sum([_law_error(values, place) for place in range(laws)], axis=0) + np.zeros(values.shape[1])


def _paths(system: OdeSystem, levels: Levels) -> Paths:
    """Return the paths of all rules: for each law those below its best one, and at the end the best of all."""
    best = {item: _ORDERS[level] for item, level in levels.items()}
    below = [{**best, item: _ORDERS[level - back]} for item, level in levels.items() for back in range(_BELOW, 0, -1)]
    return make_paths(system.laws, [*below, best], system.parts.constants)


def _next(system: OdeSystem, item: str, level: int, steps: int) -> int:
    """Return the level some steps further, as long as the law's rules grow."""
    law = system.laws[item]
    for _ in range(steps):
        if level + 1 == len(_ORDERS) or len(law.rule(_ORDERS[level + 1])[0]) <= len(law.rule(_ORDERS[level])[0]):
            break
        level += 1
    return level


def _law_error(values: Array, place: int) -> Array:
    """Extrapolate the error that one law's best rule leaves from the changes between its rules."""
    chain = values[[*range(_BELOW * place, _BELOW * (place + 1)), -1]]
    changes = np.abs(np.diff(chain, axis=0))
    largest = np.max(changes, axis=1)
    if not largest.all():
        return np.max(changes, axis=0)
    ratios = largest[1:] / largest[:-1]
    ratio = float(np.max(ratios))
    if ratio > 0.9:  # no order in the changes: a kink, oscillating convergence, or rounding
        falling = np.max(largest[2:]) < 0.3 * np.max(largest[:2])
        return 2.0 * np.max(changes[2 if falling else 1 :], axis=0)
    if ratio < 0.3:  # exponential convergence
        ratio = float(np.sqrt(ratios[-1] * ratios[-2]))
        return 1.5 * ratio / (1 - ratio) * changes[-1]
    return 1.5 * ratio / (1 - ratio) * np.maximum(changes[-1], ratio * changes[-2])
