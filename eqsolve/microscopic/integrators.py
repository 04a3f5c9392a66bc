"""Running one sample through time: an adaptive Runge–Kutta pair, or gradient descent with a fixed step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.microscopic.lowered import Sample
from eqsolve.numerics.grids import Array

__all__ = ["descend", "flow_through"]

Report = Callable[[float], None]


def flow_through(sample: Sample, times: Array, rtol: float, report: Report) -> Iterator[Array]:
    """Yield the flat state at increasing times, by Dormand–Prince 5(4) and its own interpolant."""
    from scipy.integrate import RK45

    last = float(times[-1])
    flat = sample.start.ravel().copy()
    scale = max(float(np.sqrt(np.mean(flat**2))), 1e-3)
    place = 0
    while place < len(times) and times[place] <= 0.0:
        yield flat
        place += 1
    if place == len(times):
        return
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        stepper: Any = RK45(sample.drift, 0.0, flat, last, rtol=rtol, atol=rtol * scale)
        while place < len(times):
            message = stepper.step()
            if stepper.status == "failed" or not np.isfinite(stepper.y).all():
                raise SolverError(
                    f"the flow could not be followed past t = {stepper.t:.6g}"
                    f"{': ' + message if message else ''}; it may blow up there"
                )
            report(stepper.t)
            if times[place] <= stepper.t:
                inside = stepper.dense_output()
                while place < len(times) and times[place] <= stepper.t:
                    yield inside(times[place])
                    place += 1


def descend(sample: Sample, steps: Array, size: float, report: Report) -> Iterator[Array]:
    """Yield the flat state after given numbers of steps θ ← θ + η p(g, θ); it may stop being finite."""
    flat = sample.start.ravel().copy()
    done = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for wanted in steps:
            while done < wanted:
                flat = flat + size * sample.drift(done * size, flat)
                done += 1
                if done % 16 == 0:
                    report(done * size)
                    if not np.isfinite(flat).all():
                        done = int(steps[-1])
            yield flat
