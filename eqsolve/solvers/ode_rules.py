"""Gauss rules of the random constants, chosen law by law until the expectations meet the tolerance.

The orders of a law's rules grow by 2^(1/4). For every law with a density the three rules below the best one share the
integration with it; the error of the best rule is extrapolated from how the expectations change along them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from eqsolve.compile.ode import OdeProgram, make_paths
from eqsolve.errors import UsageError
from eqsolve.language.laws import Component
from eqsolve.language.symbols import Random
from eqsolve.solvers.grids import Array
from eqsolve.solvers.ode_march import Integrator, Run
from eqsolve.solvers.tolerance import excess

__all__ = ["choose_rules", "quadrature_error"]

logger = logging.getLogger("eqsolve")

_ORDERS = tuple(round(10 * 2 ** (k / 4)) for k in range(30))  # 10, 12, 14, 17, ..., 1522
_BELOW = 3
_SHARE = 0.3  # of the tolerance, for all quadrature errors together


def choose_rules(integrator: Integrator, tolerance: float) -> Run:
    """Integrate with growing rules until their error is a small part of the tolerance, or no larger rule is there."""
    program, options = integrator.program, integrator.options
    continuous = [
        item for item, law in program.laws.items() if not isinstance(law, Component) and law.has_density
    ]
    levels = dict.fromkeys(continuous, _BELOW)
    paths = make_paths(program.laws, _orders(levels))
    while True:
        run = integrator.run(paths, tolerance)
        states = run.states(run.ends)
        curves = program.curves(run.ends, states, paths)[0]
        scales = program.scales(run.ends, states, paths)
        watched = program.system.observables or curves
        growing = dict(levels)
        for place, item in enumerate(continuous):
            worst = max(
                excess(curves[name][-1], _law_error(curves[name], place), options, scale=scales[name])
                for name in watched
            )
            logger.info("%s: %d nodes, quadrature error %.2g of rtol", item.name, _ORDERS[levels[item]], worst)
            if worst > _SHARE / len(continuous) and _can_grow(program, item, levels[item]):
                growing[item] += 2 if worst < 100 or levels[item] + 4 >= len(_ORDERS) else 4
        if growing == levels:
            return run
        levels = growing
        try:
            paths = make_paths(program.laws, _orders(levels))
        except UsageError:
            return run  # too many paths: the error estimate tells what these rules reached


def quadrature_error(values: Array) -> Array:
    """Return the error of expectations under the best rule; ``values`` holds them per rule and time."""
    laws = (len(values) - 1) // _BELOW
    return np.sum([_law_error(values, place) for place in range(laws)], axis=0) + np.zeros(values.shape[1])


def _orders(levels: Mapping[Random, int]) -> list[dict[Random, int]]:
    """Return the orders of all rules: for each law the three below its best, and at the end the best of all."""
    best = {item: _ORDERS[level] for item, level in levels.items()}
    below = [
        {**best, item: _ORDERS[level - back]} for item, level in levels.items() for back in range(_BELOW, 0, -1)
    ]
    return [*below, best]


def _can_grow(program: OdeProgram, item: Random, level: int) -> bool:
    if level + 2 >= len(_ORDERS):
        return False
    sizes = [len(program.laws[item].rule(_ORDERS[place])[0]) for place in (level - 1, level, level + 1, level + 2)]
    return sizes == sorted(set(sizes))


def _law_error(values: Array, place: int) -> Array:
    """Extrapolate the error that one law's best rule leaves from the changes between its rules."""
    chain = values[[*range(_BELOW * place, _BELOW * (place + 1)), -1]]
    changes = np.abs(np.diff(chain, axis=0))
    largest = np.max(changes, axis=1)
    if not largest.all():
        return np.max(changes, axis=0)
    earlier, later = largest[1:] / largest[:-1]
    ratio = float(max(earlier, later))
    if ratio > 0.95:  # no order in the changes: a kink, or rounding
        return 2.0 * np.max(changes, axis=0)
    if ratio < 0.3:  # exponential convergence
        ratio = float(np.sqrt(earlier * later))
        return 1.5 * ratio / (1 - ratio) * changes[-1]
    return 1.5 * ratio / (1 - ratio) * np.maximum(changes[-1], ratio * changes[-2])
