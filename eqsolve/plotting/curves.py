"""Functions of time with their error bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.plotting.labels import TITLE_SIZE, tell_apart, written
from eqsolve.plotting.style import BAND, COLOURS, LINE, Ways, new_axes, plain
from eqsolve.plotting.times import set_scales, spread_times, time_axis

if TYPE_CHECKING:
    from eqsolve.results.result import Result


def plot_curves(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw functions of time as lines with error bands; on axes that hold something, the next colours go on."""
    axes = new_axes(ways.ax)
    before = len(axes.lines)
    used = before > 0 or axes.has_data()
    times = spread_times(result._grid())
    curves = result.at(times)
    log, begin = ways.logx, None
    if log is None and (used or axes.get_xscale() != "linear"):
        log = axes.get_xscale() == "log"
    axis = time_axis(times, [curves[name].values for name in names], log)
    if axis.log:
        begin = min(axis.first, axes.get_xlim()[0]) if used and axes.get_xscale() == "log" else axis.first
    set_scales(axes, log_x=axis.log, log_y=ways.logy)
    drawn = []
    for place, name in enumerate(names):
        style = {"color": COLOURS[(before + place) % len(COLOURS)], "label": _label(result, name, names, ways), **ways.style}
        error = curves[f"{name}_error"].values if f"{name}_error" in curves else None
        drawn.append((draw_line(axes, times, curves[name].values, error, style), name))
    if begin is not None:
        axes.set_xlim(begin, max(axis.last, axes.get_xlim()[1]) if used else axis.last)
    if not axes.get_xlabel():
        axes.set_xlabel(written("t", result.latex))
    _label_values(axes, result, names, before)
    plain(axes, result, legend=before + len(names) if before + len(names) > 1 or ways.label is not None else 0)
    if before:  # the settings of one result would not be those of the others
        axes.set_title(result.model if axes.get_title().startswith(result.model) else "", fontsize=TITLE_SIZE)
    if ways.label is None and "label" not in ways.style:
        tell_apart(axes, result, drawn)
    return axes


def draw_line(axes: Any, x: Any, y: Any, error: Any, style: dict[str, Any]) -> Any:
    """Draw one line, with a band of its error, in a style of matplotlib's words."""
    width = {} if {"lw", "linewidth"} & set(style) else {"lw": LINE}
    try:
        (line,) = axes.plot(x, y, **{**width, **style})
    except (AttributeError, TypeError, ValueError) as problem:
        raise UsageError(f"matplotlib cannot draw a line with {style}: {problem}") from None
    if error is not None:
        low = np.asarray(y - error)
        if axes.get_yscale() == "log":  # a band that reaches below zero goes down to the edge
            low = np.maximum(low, 1e-3 * np.abs(y))
        opacity = BAND * (line.get_alpha() or 1.0)
        axes.fill_between(x, low, y + error, color=line.get_color(), alpha=opacity, lw=0, zorder=line.get_zorder() - 0.1)
    return line


def _label(result: Result, name: str, names: tuple[str, ...], ways: Ways) -> str:
    if ways.label is None:
        return written(name, result.latex)
    return ways.label if len(names) == 1 else f"{written(name, result.latex)}, {ways.label}"


def _label_values(axes: Any, result: Result, names: tuple[str, ...], before: int) -> None:
    """Name the axis of the values as long as everything on it is the same quantity."""
    mine = written(names[0], result.latex) if len(names) == 1 else ""
    if not before and not axes.get_ylabel():
        axes.set_ylabel(mine)
    elif axes.get_ylabel() != mine and axes.get_ylabel().startswith("$"):
        axes.set_ylabel("")
