"""The style of all drawings: colours that colour-blind readers can tell apart, plain axes."""

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eqsolve.results.result import Result


# --- How names and settings are written: as the model's LaTeX, where matplotlib can set it.

TITLE_SIZE = "small"


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
    names = dict.fromkeys(name for result in results for name in result.params)
    if several := len({result.model for result in results}) > 1:  # what only some of the models have does not compare
        names = {name: None for name in names if all(name in result.params for result in results)}
    differ = [name for name in names if len({str(result.params.get(name)) for result in results}) > 1]
    told = ([setting(name, it.params[name], it.latex) for name in differ if name in it.params] for it in results)
    return [", ".join([result.model] * several + words) for result, words in zip(results, told, strict=True)]


def tell_apart(axes: Any, result: Any, lines: Sequence[tuple[Any, str]]) -> None:
    """Remember which lines show what of a result; label those of several results by what differs."""
    held = axes.__dict__.setdefault("_eqsolve_lines", [])
    held.append((result, lines))
    words = differences([item for item, _ in held])
    if not any(words):
        return
    shown = {name for _, those in held for _, name in those}
    for (item, those), text in zip(held, words, strict=True):
        for line, name in those:
            line.set_label(text if len(shown) == 1 else f"{written(name, item.latex)}, {text}")
    axes.set_title(shared_title(axes, [item for item, _ in held]), fontsize=TITLE_SIZE)
    add_legend(axes, beside=sum(len(those) for _, those in held) > 3)


def add_legend(axes: Any, *, beside: bool) -> None:
    """Add a legend without a frame: where there is room, or beside the axes."""
    axes.legend(frameon=False, **({"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {}))


def shared_title(axes: Any, results: Sequence[Any]) -> str:
    """Return the model of results beside other lines, and the settings that they share."""
    first, *others = results
    if any(other.model != first.model for other in others):
        return ""
    same = {key: it for key, it in first.params.items() if others and all(other.params.get(key) == it for other in others)}
    return settings_title(first.model, same, first.latex, axes)


def settings_title(model: str, params: Mapping[str, Any], latex: Mapping[str, str], where: Any) -> str:
    """Return the model's name and its settings, in lines as wide as axes or a figure."""
    from matplotlib.font_manager import FontProperties

    points = where.bbox.width * 72 / where.figure.dpi * (0.9 if where is where.figure else 1.0)
    longest = max(24, int(points / (0.55 * FontProperties(size=TITLE_SIZE).get_size_in_points())))
    lines, length = [model], longest
    for name, value in params.items():
        words = f"{name} = {value:g}" if isinstance(value, int | float) else f"{name} ~ {value}"
        shown = setting(name, value, latex)
        if len(words) > longest and not isinstance(value, int | float):  # a law with many entries
            pieces = textwrap.wrap(words, longest)
            lines += pieces
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


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe & Ito
SEQUENTIAL, DIVERGING = "viridis", "PuOr"
LINE, BAND = 1.6, 0.25  # width of a line, opacity of its error band
SIZE = (5.2, 3.6)


@dataclass(frozen=True)
class Ways:
    """How the user wants a drawing: where, on which scales, under which label, in which style of line."""

    ax: Any = None
    logx: bool | None = None
    logy: bool | None = None
    label: str | None = None
    kind: str | None = None  # of a sweep over two axes: "lines" or "map"
    at: float | None = None  # of a sweep: the time
    x: str | None = None  # of a sweep: the axis that runs across
    style: dict[str, Any] = field(default_factory=dict)


def new_axes(axes: Any = None) -> Any:
    """Return the axes given, or those of a new figure."""
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(figsize=SIZE, layout="constrained")
    return axes


def plain(axes: Any, result: Result, *, legend: int = 0) -> None:
    """Finish a drawing: no frame, a legend beside more than three lines, the settings as the title."""
    if legend:
        add_legend(axes, beside=legend > 3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title_of(result, axes), fontsize=TITLE_SIZE)


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
