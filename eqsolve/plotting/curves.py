"""Drawings of functions of time, and the style of all drawings: plain axes, colours that colour-blind readers tell apart."""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.language.symbols import default_latex
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import DRAWN, PanelGrid, sample_times
from eqsolve.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# --- How names and settings are written: as the model's LaTeX, where matplotlib can set it.

TITLE_SIZE = "small"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe & Ito
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
LINE, BAND = 1.6, 0.25  # width of a line, opacity of its error band
SIZE = (5.2, 3.6)


def written(name: str, latex: Mapping[str, str], times: str = "") -> str:
    """Return a name as mathematics for matplotlib, ``times`` after it; plain, if matplotlib cannot set its LaTeX."""
    text = f"${latex.get(name) or default_latex(name)}{times}$"
    return text if _can_be_set(text) else f"{name}{times}"


@functools.lru_cache(maxsize=1024)
def _can_be_set(text: str) -> bool:
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except (ValueError, RuntimeError):  # matplotlib knows a part of LaTeX only
        return False
    return True


def setting(name: str, value: Any, latex: Mapping[str, str]) -> str:
    """Return what a parameter was set to: a value, or the law of a random constant."""
    math = written(name, latex)
    if isinstance(value, int | float):
        return f"{math[:-1]} = {value:g}$" if math.startswith("$") else f"{math} = {value:g}"
    return f"{math[:-1]} \\sim$ {value}" if math.startswith("$") else f"{math} ~ {value}"


def differences(results: Sequence[Any]) -> list[str]:
    """Return of each result what it does not share with all others: its model, its settings; empty where they are alike."""
    names = dict.fromkeys(name for r in results for name in r.params)
    if several := len({r.model for r in results}) > 1:  # what only some of the models have does not compare
        names = {name: None for name in names if all(name in r.params for r in results)}
    differ = [name for name in names if len({str(r.params.get(name)) for r in results}) > 1]
    told = ([setting(name, r.params[name], r.latex) for name in differ if name in r.params] for r in results)
    return [", ".join([r.model] * several + words) for r, words in zip(results, told, strict=True)]


def tell_apart(axes: Any, result: Any, lines: Sequence[tuple[Any, str]]) -> None:
    """Remember which lines show what of a result; label those of several results by what differs."""
    held = axes.__dict__.setdefault("_eqsolve_lines", [])
    held.append((result, lines))
    words = differences([item for item, _ in held])
    if not any(words):
        return
    shown = {name for _, own in held for _, name in own}
    for (other, own), text in zip(held, words, strict=True):
        for line, name in own:
            line.set_label(text if len(shown) == 1 else f"{written(name, other.latex)}, {text}")
    axes.set_title(shared_title(axes, [item for item, _ in held]), fontsize=TITLE_SIZE)
    add_legend(axes, outside=sum(len(own) for _, own in held) > 3)


def add_legend(axes: Any, *, outside: bool) -> None:
    """Add a legend without a frame: where there is room, or right of the axes."""
    axes.legend(frameon=False, **({"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if outside else {}))


def shared_title(axes: Any, results: Sequence[Any]) -> str:
    """Return the model of results on the same axes, and the settings that they share."""
    first, *others = results
    if any(other.model != first.model for other in others):
        return ""
    same = {key: v for key, v in first.params.items() if others and all(other.params.get(key) == v for other in others)}
    return settings_title(first.model, same, first.latex, axes)


def settings_title(model: str, params: Mapping[str, Any], latex: Mapping[str, str], where: Any) -> str:
    """Return the model's name and its settings, in lines as wide as axes or a figure."""
    from matplotlib.font_manager import FontProperties

    points = where.bbox.width * 72 / where.figure.dpi * (0.9 if where is where.figure else 1.0)
    longest = max(24, int(points / (0.55 * FontProperties(size=TITLE_SIZE).get_size_in_points())))
    lines, length = [model], longest
    for name, value in params.items():
        number = isinstance(value, int | float)
        shown = setting(name, value, latex)
        words = f"{name} = {value:g}" if number else f"{name} ~ {value}"
        if len(words) > longest and not number:  # a law with many entries
            lines += (pieces := textwrap.wrap(words, longest))
            length = len(pieces[-1])
        elif length + 2 + len(words) <= longest:
            lines[-1] += f", {shown}"
            length += 2 + len(words)
        else:
            lines.append(shown)
            length = len(words)
    return "\n".join(lines)


# --- Writing figures: whole or not at all.
def figure_of(drawn: Any) -> Figure:
    """Return the figure of what a drawing returned: axes, several of them, or the figure itself."""
    return drawn if hasattr(drawn, "savefig") else np.ravel(np.asarray(drawn, dtype=object))[0].figure


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> None:
    """Write a figure in the format of the file's suffix, and close it."""
    from eqsolve.files.atomic import atomic_path

    suffix = os.path.splitext(path)[1].lower().removeprefix(".")
    known = figure.canvas.get_supported_filetypes()
    if suffix not in known:
        named = ", ".join(f".{name}" for name in sorted(known))
        raise UsageError(f"cannot draw {str(path)!r}: expected a file name ending in one of {named}")
    try:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=dpi, format=suffix)
    finally:
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close(figure)


@dataclass(frozen=True)
class Ways:
    """How the user wants a drawing: where, on which scales, under which label, in which style of line."""

    ax: Any = None
    logx: bool | None = None
    logy: bool | None = None
    label: str | None = None
    kind: str | None = None  # of a sweep over two axes: "lines" or "map"
    at: float | None = None  # of a sweep: the time
    x: str | None = None  # of a sweep: the parameter on the x axis
    style: dict[str, Any] = field(default_factory=dict)

    def legend(self, lines: int) -> int:
        """Return how many lines a legend is to tell apart; none where there is one line without a label."""
        return lines if lines > 1 or self.label is not None else 0


def new_axes(axes: Any = None) -> Any:
    """Return the axes given, or those of a new figure."""
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(figsize=SIZE, layout="constrained")
    return axes


def plain(axes: Any, result: Result, *, legend: int = 0) -> Any:
    """Finish a drawing: no frame, a legend outside for more than three lines, a title; return the axes."""
    if legend:
        add_legend(axes, outside=legend > 3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title_of(result, axes), fontsize=TITLE_SIZE)
    return axes


def title_of(result: Result, where: Any) -> str:
    """Return the settings of a result, and what was not solved as asked."""
    missed = "" if result.status == "ok" else f"\n({result.status})"
    return settings_title(result.model, result.params, result.latex, where) + missed


def shades(count: int, few: int = len(COLOURS)) -> list[Any]:
    """Return colours for an ordered family, dark to light, that colour-blind readers and grey print keep in order.

    A few have the colours of unordered ones.
    """
    if count <= few:
        return list(COLOURS[:count])
    from matplotlib import colormaps

    return [colormaps[SEQUENTIAL](0.9 * place / (count - 1)) for place in range(count)]


def edges_between(values: Array, *, log: bool) -> Array:
    """Return the edges of cells around given centres."""
    centres = np.log(values) if log else values
    steps = np.diff(centres) if len(centres) > 1 else np.ones(1)
    edges = np.concatenate([[centres[0] - steps[0] / 2], (centres[1:] + centres[:-1]) / 2, [centres[-1] + steps[-1] / 2]])
    return np.exp(edges) if log else edges


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
