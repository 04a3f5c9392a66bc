"""Phases of a learning curve: plateaus, and the transitions between them, with uncertainties.

A curve is read on its own clock (logarithmic time by default). It moves where its slope exceeds a
fraction of the mean slope; stretches that move in one direction and change the curve enough are
transitions, what lies between is a plateau. The time of a transition is where half of the change is
done; its uncertainty is the error of the curve over its slope, plus half the spacing of the times.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import Array


@dataclass(frozen=True)
class Plateau:
    """A stretch of time in which a curve stands still."""

    start: float
    end: float
    value: float


@dataclass(frozen=True)
class Transition:
    """A change of a curve from one value to another: 10% done at ``start``, half at ``time``, 90% at ``end``."""

    start: float
    time: float
    end: float
    error: float
    before: float
    after: float

    @property
    def falls(self) -> bool:
        return self.after < self.before


def find_phases(
    data: Any, observable: str | None = None, *, log: bool = True, flat: float = 0.15, least: float = 0.03, points: int = 600
) -> list[Plateau | Transition]:
    """Return the plateaus and transitions of a curve in order of time.

    Parameters
    ----------
    data, observable
        A result of ``solve`` and the name of a curve, or a tuple (t, y) or (t, y, error) of arrays.
    log
        Whether phases are told apart on a logarithmic clock.
    flat
        Slopes below this fraction of the mean slope count as standing still.
    least
        Changes below this fraction of the whole range are no transition.
    points
        How many times a solved curve is read at.
    """
    t, y, error = _curve(data, observable, log, points)
    clock = np.log(t) if log else t
    extent = float(np.ptp(y))
    if extent == 0:
        return [Plateau(float(t[0]), float(t[-1]), float(y[0]))]
    slope = np.gradient(y, clock)
    direction = np.where(np.abs(slope) > flat * extent / np.ptp(clock), np.sign(slope), 0).astype(int)
    edges = np.flatnonzero(np.diff(direction)) + 1
    phases: list[Plateau | Transition] = []
    begin = 0
    for first, last in zip([0, *edges], [*edges, len(t)], strict=True):
        end = min(last, len(t) - 1)
        if direction[first] == 0 or abs(y[end] - y[first]) < least * extent:
            continue
        if first > begin:
            phases.append(Plateau(float(t[begin]), float(t[first]), float(np.mean(y[begin : first + 1]))))
        phases.append(_transition(t[first : end + 1], y[first : end + 1], error[first : end + 1]))
        begin = end
    if begin < len(t) - 1:
        phases.append(Plateau(float(t[begin]), float(t[-1]), float(np.mean(y[begin:]))))
    return phases


def grokking_time(data: Any, observable: str = "E_test", **options: Any) -> Transition:
    """Return the last fall of a test error that comes after a plateau: late generalization."""
    pairs = itertools.pairwise(find_phases(data, observable, **options))
    falls = [phase for before, phase in pairs if isinstance(before, Plateau) and isinstance(phase, Transition) and phase.falls]
    if not falls:
        raise UsageError(f"`{observable}` has no fall after a plateau: there is no grokking in this window")
    return falls[-1]


def crossing(t: Array, y: Array, level: float) -> float:
    """Return the first time at which a curve crosses a level, linearly interpolated; nan if it never does."""
    places = np.flatnonzero(np.diff(y >= level))
    if not len(places):
        return float("nan")
    k = int(places[0])
    return float(t[k] + (level - y[k]) / (y[k + 1] - y[k]) * (t[k + 1] - t[k]))


def activation_times(result: Any, process: str, level: float, times: Iterable[float] | None = None) -> Array:
    """Return when |process| first reaches a level on every path, nan where it never does.

    Paths are those the result keeps, in their order: ``result["weight"]`` are their weights, and
    random constants are kept with them. Without ``times``, 20 times per panel are read.
    """
    kept = [name for name in result.names if result.dataset[name].dims == ("path", "t")]
    demand_known([process], kept, f"the result of `{result.model}` keeps no paths of `{{}}`", "it keeps")
    edges = result.grid.edges
    fine = np.interp(np.linspace(0, len(edges) - 1, 20 * (len(edges) - 1) + 1), np.arange(len(edges)), edges)
    grid = fine if times is None else np.asarray(list(times), dtype=float)
    return np.array([crossing(grid, row, level) for row in np.abs(result.at(grid)[process].values)])


def _transition(t: Array, y: Array, error: Array) -> Transition:
    before, after = float(y[0]), float(y[-1])
    start, time, end = (crossing(t, y, before + share * (after - before)) for share in (0.1, 0.5, 0.9))
    near = int(np.argmin(np.abs(t - time)))
    slope = abs(float(np.gradient(y, t)[near]))
    spacing = float(np.gradient(t)[near])
    return Transition(start, time, end, float(error[near]) / max(slope, 1e-300) + spacing / 2, before, after)


def _curve(data: Any, observable: str | None, log: bool, points: int) -> tuple[Array, Array, Array]:
    if isinstance(data, tuple):
        t, y = (np.asarray(item, dtype=float) for item in data[:2])
        error = np.asarray(data[2], dtype=float) if len(data) > 2 else np.zeros_like(y)
    else:
        if observable is None:
            raise UsageError("name the curve whose phases are wanted, such as find_phases(result, 'E_test')")
        edges = data.grid.edges
        t = np.geomspace(edges[edges > 0][0], edges[-1], points) if log else np.linspace(edges[0], edges[-1], points)
        read = data.at(t)
        y, error = read[observable].values, read[f"{observable}_error"].values
    if len(t) < 8 or len(t) != len(y) or not (np.diff(t) > 0).all():
        raise UsageError("phases need a curve of at least 8 increasing times")
    if log and t[0] <= 0:
        keep = t > 0
        t, y, error = t[keep], y[keep], error[keep]
    return t, y, error
