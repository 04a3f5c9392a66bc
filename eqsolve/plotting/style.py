"""The style of all drawings: names as mathematics, plain axes, colours that colour-blind readers tell apart."""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.language.symbols import default_latex
from eqsolve.numerics.arrays import Array
from eqsolve.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE_SIZE = "small"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe & Ito
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
LINE, BAND = 1.6, 0.25  # width of a line, opacity of its error band
SIZE = (5.2, 3.6)


# --- How names and settings are written: as the model's LaTeX, where matplotlib can set it.
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
    settings = ([setting(name, r.params[name], r.latex) for name in differ if name in r.params] for r in results)
    return [", ".join([r.model] * several + words) for r, words in zip(results, settings, strict=True)]


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


# --- How a drawing is wanted, its axes, lines and colours.
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


def read_ways(**given: Any) -> Ways:
    """Read how a drawing is wanted; what is not ours is matplotlib's."""
    if "axes" in given:
        raise UsageError("the axes to draw on are given by ax=, as in matplotlib's neighbours")
    if (ax := given.get("ax")) is not None and not hasattr(ax, "plot"):
        raise UsageError(f"ax= takes the axes of matplotlib, got {ax!r}")
    for name in ("logx", "logy"):
        if not isinstance(given.get(name), bool | None):
            raise UsageError(f"{name}= takes True or False, got {given[name]!r}")
    if given.get("kind") not in (None, "lines", "map"):
        raise UsageError(f"kind= takes 'lines' or 'map', got {given['kind']!r}")
    if given.get("label") is not None:
        given["label"] = str(given["label"])
    own = {item.name: given.pop(item.name) for item in fields(Ways)[:-1] if item.name in given}
    return Ways(**own, style=given)


def new_axes(axes: Any = None) -> Any:
    """Return the axes given, or those of a new figure."""
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(figsize=SIZE, layout="constrained")
    return axes


def rows_and_columns(count: int) -> tuple[int, int]:
    """Return in how many rows and columns panels are laid out."""
    columns = min(count, 3 if count != 4 else 2)
    return -(-count // columns), columns


def make_panels(count: int) -> Any:
    """Return the axes of several panels, row by row."""
    rows, columns = rows_and_columns(count)
    size = (0.75 * SIZE[0] * columns, 0.85 * SIZE[1] * rows)
    import matplotlib.pyplot as plt

    _, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    panels = grid.ravel()
    for spare in panels[count:]:
        spare.axis("off")
    return panels[:count]


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
