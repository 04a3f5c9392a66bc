"""Where a finite-size flow comes to rest, and how fast: long runs, and the linearised flow at their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.language.binding import bind
from eqsolve.errors import UsageError
from eqsolve.language.flow import Flow
from eqsolve.microscopic.data import read_data
from eqsolve.microscopic.integrators import flow_through
from eqsolve.microscopic.linearised import slowest
from eqsolve.microscopic.lowered import lower_flow
from eqsolve.microscopic.simulate import draw_sample
from eqsolve.numerics.grids import Array

__all__ = ["decay_rates"]

_MOST = 4000.0
"""Longest run, in units of the flow's time."""
_REST = 1e-6
"""A flow that moves slower than this is at rest; what an explicit integrator leaves is below it."""


def decay_rates(flow: Flow, d: int, seeds: int, seed: int, settings: Mapping[str, Any], data: Any = "gaussian") -> Array:
    """Return, per draw, the smallest decay rate of the flow linearised where it has come to rest."""
    lowered = lower_flow(bind(flow, dict(settings)))
    features = read_data(data)
    n = round(lowered.ratio * d)
    found = []
    for index in range(seeds):
        sample = draw_sample(lowered, features, n, d, seed, index, "exact")
        flat, horizon = sample.start.ravel(), 50.0
        while True:
            sample.start = flat.reshape(len(lowered.states), d)
            (flat,) = flow_through(sample, np.array([horizon]), 1e-10, lambda _: None)
            speed = float(np.abs(sample.drift(0.0, flat)).max())
            if speed < _REST * max(1.0, float(np.abs(flat).max())):
                break
            horizon *= 2
            if horizon > _MOST:
                raise UsageError(
                    f"flow `{flow.name}` does not come to rest by t = {_MOST:g} at d = {d} (it still moves at {speed:.2g}); "
                    "its rate cannot be read from the linearised flow for these parameters"
                )
        found.append(slowest(sample, 0.0, flat, floor=10 * _REST))
    return np.array(found)
