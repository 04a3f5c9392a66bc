"""Running one sample through time: an adaptive Runge–Kutta pair, short steps where there is noise, or gradient descent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.microscopic.lowered import Sample
from eqsolve.numerics.arrays import Array

__all__ = ["descend", "flow_through", "wander"]

Report = Callable[[float], None]
_SHARE = 0.05  # of the shortest time of relaxation, one step of a flow with noise
_FEWEST = 200  # steps of such a run, at least


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


def wander(sample: Sample, times: Array, speed: float, report: Report) -> Iterator[Array]:
    """Yield the flat state of a flow with noise at increasing times, by Heun's steps, which follow its largest rate.

    For additive white noise they are of second order in the weak sense (Kloeden & Platen 1992, section 15.1).
    """
    flat, now = sample.start.ravel().copy(), 0.0
    sample.begin()
    longest = _SHARE / max(speed, _SHARE / max(float(times[-1]) / _FEWEST, 1e-12))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for wanted in times:
            count = max(1, math.ceil((wanted - now) / longest - 1e-9)) if wanted > now else 0
            length = (wanted - now) / max(count, 1)
            for _ in range(count):
                sample.shake(now, length)
                first = sample.drift(now, flat)
                sample.shake(now + length, length, fresh=False)
                second = sample.drift(now + length, flat + length * first)
                flat, now = flat + length / 2 * (first + second), now + length
            now = float(wanted)
            report(now)
            if not np.isfinite(flat).all():
                raise SolverError(f"the flow could not be followed past t = {now:.6g}; it may blow up there")
            yield flat


def descend(sample: Sample, steps: Array, size: float, report: Report) -> Iterator[Array]:
    """Yield the flat state after given numbers of steps θ ← θ + η p(g, θ); it may stop being finite."""
    flat = sample.start.ravel().copy()
    done = 0
    sample.begin()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for wanted in steps:
            while done < wanted:
                sample.shake(done * size, size)
                flat = flat + size * sample.drift(done * size, flat)
                done += 1
                if done % 16 == 0:
                    report(done * size)
                    if not np.isfinite(flat).all():
                        done = int(steps[-1])
            yield flat
