"""The style of all drawings: colours that colour-blind readers can tell apart, plain axes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.plotting.labels import TITLE_SIZE, add_legend, settings_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eqsolve.results.result import Result


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
    inches = axes.get_position().width * axes.figure.get_figwidth()
    axes.set_title(title_of(result, inches), fontsize=TITLE_SIZE)


def title_of(result: Result, inches: float) -> str:
    """Return the settings of a result, and what was not solved as asked."""
    missed = "" if result.status == "ok" else f"\n({result.status})"
    return settings_title(result.model, result.params, result.latex, inches) + missed


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
    if len(centres) == 1:
        edges = centres[0] + np.array([-0.5, 0.5])
    else:
        middle = (centres[1:] + centres[:-1]) / 2
        edges = np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])
    return np.exp(edges) if log else edges
