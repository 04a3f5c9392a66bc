"""Drawings of functions of time: their axis, curves with error bands, random processes by quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import DRAWN, PanelGrid, sample_times
from eqsolve.plotting.style import (
    COLOURS,
    LINE,
    SIZE,
    TITLE_SIZE,
    Ways,
    draw_line,
    new_axes,
    plain,
    set_scales,
    shared_title,
    tell_apart,
    written,
)
from eqsolve.results.result import Result

# --- The axis of time: one rule for its scale, and times that look right on either scale.
_SEEN = LINE / (2 * 72 * SIZE[1])  # the share of all change where a logarithmic axis begins: half a line


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
        return (np.geomspace if self.log else np.linspace)(self.first, self.last, count)


def spread_times(grid: PanelGrid, count: int = 2 * DRAWN, until: float = np.inf) -> Array:
    """Return times of a grid that are dense on a linear and on a logarithmic axis."""
    return sample_times(float(grid.edges[0]), min(until, float(grid.edges[-1])), count)


def time_axis(times: Array, curves: Sequence[Array], log: bool | None = None) -> TimeAxis:
    """Return the axis for values over time (last dimension).

    Unless asked for, it is logarithmic if of all change, in the mean over the curves, half happens in the first quarter of the
    time, and what lies between 5 % and 95 % takes two decades (of an exponential decay, 1.8) or a twentieth of the time;
    not for two decades in which a curve swings later than that. It begins where change is seen.
    """
    first, last = float(times[0]), float(times[-1])
    done = _changed(curves)
    positive = times[times > 0]
    if log is None and done is not None and first >= 0:
        quarter = first + (last - first) / 4
        early = np.interp(quarter, times, done) >= 0.5
        begin, end = np.interp((0.05, 0.95), done, times)
        soon, late = end - first <= 0.05 * (last - first), end >= 100 * begin
        turns = (_turns(times, values) for values in curves if early and late)
        log = bool(early and (soon or (late and not any(len(at) > 1 and at[-1] > quarter for at in turns))))
    if not log:
        return TimeAxis(False, first, last)
    if not len(positive):
        raise UsageError(f"logx: time runs from {first:g} to {last:g}, which has no logarithm")
    if first > 0:
        return TimeAxis(True, float(positive[0]), last)
    seen = 1e-3 * last if done is None else times[np.searchsorted(done, _SEEN, side="right").clip(1, len(times) - 1)]
    return TimeAxis(True, float(np.clip(seen, positive[0], 0.1 * last)), last)


def _turns(times: Array, values: Array) -> Array:
    """Return the times at which a curve turns by more than a hundredth of its range."""
    from scipy.signal import find_peaks

    if np.ndim(values) > 1 or not np.isfinite(values).all():
        return np.empty(0)
    turns = [find_peaks(sign * values, prominence=0.01 * np.ptp(values))[0] for sign in (1, -1)]
    return times[np.sort(np.concatenate(turns))]


def _changed(curves: Sequence[Array]) -> Array | None:
    """Return the share of all change that has happened, in the mean over the curves; None if nothing changes."""
    shares = []
    for values in curves:
        moves = np.abs(np.diff(np.asarray(values, dtype=float), axis=-1))
        done = np.append(0.0, np.cumsum(np.nansum(moves.reshape(-1, moves.shape[-1]), axis=0)))
        if done[-1] > 1e-9 * np.nanmax(np.abs(values)) > 0:
            shares.append(done / done[-1])
    return np.mean(shares, axis=0) if shares else None


def plot_curves(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw functions of time as lines with error bands; on axes that hold something, the next colours go on."""
    axes = new_axes(ways.ax)
    before = len(axes.lines)
    used = before > 0 or axes.has_data()
    times = spread_times(result._grid(), until=getattr(result, "settled", np.inf))
    curves = result.at(times)
    log = ways.logx
    if log is None and (used or axes.get_xscale() != "linear"):
        log = axes.get_xscale() == "log"
    axis = time_axis(times, [curves[name].values for name in names], log)
    begin = min(axis.first, axes.get_xlim()[0]) if used and axes.get_xscale() == "log" else axis.first
    set_scales(axes, log_x=axis.log, log_y=ways.logy)
    drawn = []
    for place, name in enumerate(names):
        own = [] if len(names) == 1 and ways.label else [written(name, result.latex)]
        label = ", ".join([*own, *filter(None, [ways.label])])
        style = {"color": COLOURS[(before + place) % len(COLOURS)], "label": label, **ways.style}
        error = curves[f"{name}_error"].values if f"{name}_error" in curves else None
        drawn.append((draw_line(axes, times, curves[name].values, error, style), name))
    if axis.log:
        axes.set_xlim(begin, max(axis.last, axes.get_xlim()[1]) if used else axis.last)
    if not axes.get_xlabel():
        axes.set_xlabel(written("t", result.latex))
    label = written(names[0], result.latex) if len(names) == 1 else ""
    if not before and not axes.get_ylabel():
        axes.set_ylabel(label)
    elif axes.get_ylabel() != label and axes.get_ylabel().startswith("$"):
        axes.set_ylabel("")
    plain(axes, result, legend=ways.legend(before + len(names)))
    drawn_before = axes.__dict__.setdefault("_eqsolve_results", [])
    drawn_before.append(result)
    if before:  # the settings of one result would not be those of the others
        axes.set_title(shared_title(axes, drawn_before), fontsize=TITLE_SIZE)
    if ways.label is None and "label" not in ways.style:
        tell_apart(axes, result, drawn)
    return axes


# --- The law of a random process as it changes in time: mean and quantiles.
_BANDS = ((0.025, 0.975, 0.2, "95 %"), (0.25, 0.75, 0.45, "50 %"))  # levels, opacity


def is_process(result: Result, name: str) -> bool:
    """Whether a name stands for a random process, kept as paths."""
    dims = result.dataset[name].dims if name in result.names else ()
    return len(dims) == 2 and str(dims[0]).startswith("path") and dims[1] == "t"


def weights_of(result: Result, name: str) -> Array:
    """Return the weights of a process's paths; each ensemble of paths has its own."""
    path = result.dataset[name].dims[0]
    weights = [item for key, item in result.dataset.coords.items() if str(key).startswith("weight") and item.dims == (path,)]
    return np.asarray(weights[0].values)


def plot_paths(result: Result, name: str, ways: Ways) -> Any:
    """Draw a process: a few paths as lines as heavy as they are probable, many as bands that hold 50 % and 95 %."""
    axes = new_axes(ways.ax)
    times = spread_times(result._grid(), DRAWN)
    values = result._grid().interpolate(result.dataset[name].values, times)
    weights = weights_of(result, name)
    mean = weights @ values / weights.sum()
    axis = time_axis(times, [mean, np.sqrt(np.maximum(weights @ values**2 / weights.sum() - mean**2, 0))], ways.logx)
    style = {"color": COLOURS[0], **ways.style}
    if len(weights) <= 12:  # paths that are drawn one by one, since quantiles of a few atoms jump
        for path, weight in zip(values, weights / weights.max(), strict=True):
            axes.plot(times, path, **{"lw": 0.6 + LINE * weight, "alpha": 0.8, **style})
    else:
        for low, high, opacity, label in _BANDS:
            lower, upper = quantiles(values, weights, np.array([low, high]))
            axes.fill_between(times, lower, upper, color=style["color"], alpha=opacity, lw=0, label=label)
    axes.plot(times, mean, color=COLOURS[1], lw=LINE, label=ways.label or "mean")
    set_scales(axes, log_x=axis.log, log_y=ways.logy)
    axes.set(xlim=(axis.first, axis.last), xlabel=written("t", result.latex), ylabel=written(name, result.latex))
    return plain(axes, result, legend=4)  # outside, as the bands fill the axes


def quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return weighted quantiles of paths (first axis) at every time, shape (levels, times)."""
    return np.asarray(np.quantile(values, levels, axis=0, weights=weights, method="inverted_cdf"))
