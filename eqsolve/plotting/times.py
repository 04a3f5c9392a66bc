"""The axis of time: one rule for its scale, and times at which a curve looks right on either scale."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array

if TYPE_CHECKING:
    from eqsolve.numerics.grids import PanelGrid

_QUARTER, _HALF = 0.25, 0.5
_SEEN = 0.003  # the share of all change at which a logarithmic axis begins: less than a line is wide
_DECADES = 1e-6  # of the last time, where the earliest sample lies


@dataclass(frozen=True)
class TimeAxis:
    """Whether time is logarithmic, and where such an axis begins."""

    log: bool
    first: float
    last: float

    @property
    def scale(self) -> str:
        return "log" if self.log else "linear"

    def times(self, count: int) -> Array:
        """Return times spread evenly over the axis."""
        if not self.log:
            return np.linspace(self.first, self.last, count)
        times = np.geomspace(self.first, self.last, count)
        times[-1] = self.last
        return times


def spread_times(grid: PanelGrid, count: int = 400) -> Array:
    """Return times, the first and last among them, that are dense on a linear and on a logarithmic axis."""
    first, last = float(grid.edges[0]), float(grid.edges[-1])
    made = np.concatenate([np.linspace(first, last, count), first + (last - first) * np.geomspace(_DECADES, 1, count)])
    return np.unique(np.clip(made, first, last))


def time_axis(times: Array, curves: Sequence[Array], log: bool | None = None) -> TimeAxis:
    """Return the axis for values over time (last dimension).

    Unless asked for, it is logarithmic if of all change, in the mean over the curves, half happens in the first quarter of the
    time, and what lies between 5 % and 95 % takes two decades (of an exponential decay, 1.8) or a twentieth of the time.
    It begins where change is seen.
    """
    first, last = float(times[0]), float(times[-1])
    done = _changed(curves)
    positive = times[times > 0]
    if log is None and done is not None and first >= 0:
        early = np.interp(_QUARTER * (last - first) + first, times, done) >= _HALF
        begin, end = np.interp((0.05, 0.95), done, times)
        log = bool(early and (end >= 100 * begin or end - first <= 0.05 * (last - first)))
    if not log:
        return TimeAxis(False, first, last)
    if not len(positive):
        raise UsageError(f"logx: time runs from {first:g} to {last:g}, which has no logarithm")
    seen = float(positive[0])
    if first <= 0:
        seen = (
            1e-3 * last if done is None else float(times[np.searchsorted(done, _SEEN, side="right").clip(1, len(times) - 1)])
        )
        seen = min(max(seen, float(positive[0])), 0.1 * last)
    return TimeAxis(True, seen, last)


def _changed(curves: Sequence[Array]) -> Array | None:
    """Return the share of all change that has happened, in the mean over the curves; None if nothing changes."""
    shares = []
    for values in curves:
        moves = np.abs(np.diff(np.asarray(values, dtype=float), axis=-1))
        moves = np.nansum(moves.reshape(-1, moves.shape[-1]), axis=0)
        if (total := moves.sum()) > 1e-9 * np.nanmax(np.abs(values)) > 0:
            shares.append(np.append(0.0, np.cumsum(moves) / total))
    return np.mean(shares, axis=0) if shares else None


def set_scales(axes: Any, *, log_x: bool | None, log_y: bool | None) -> None:
    """Set the scales that are asked for; those of axes that hold something already stay."""
    for axis, set_scale, log in ((axes.xaxis, axes.set_xscale, log_x), (axes.yaxis, axes.set_yscale, log_y)):
        if log is not None:
            set_scale("log" if log else "linear")
        if log:
            _write_ticks(axis)


def _write_ticks(axis: Any) -> None:
    """Label a logarithmic axis by powers of ten; over less than a decade and a half by 0.1, 0.2, 0.5, which take less room."""
    from matplotlib.ticker import FuncFormatter

    powers = axis.get_major_formatter()

    def write(value: float, place: int | None, *, major: bool) -> str:
        low, high = axis.get_view_interval()
        if high > 30 * low:
            return str(powers(value, place)) if major else ""
        return f"{value:g}" if major or high < 4 * low or f"{value:e}"[0] in "25" else ""

    axis.set_major_formatter(FuncFormatter(functools.partial(write, major=True)))
    axis.set_minor_formatter(FuncFormatter(functools.partial(write, major=False)))
