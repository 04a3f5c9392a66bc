"""Drawing for a column of print: theory as lines with bands, simulation as points with error bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from eqsolve.plotting.style import draw_line, shades

RC: dict[Any, Any] = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8.5, "legend.fontsize": 7, "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.3,
    "legend.frameon": False, "legend.handlelength": 1.6, "legend.borderaxespad": 0.3, "pdf.fonttype": 42,
    "svg.fonttype": "none", "axes.linewidth": 0.7, "xtick.major.width": 0.7, "ytick.major.width": 0.7,
    "figure.figsize": (3.4, 2.5),
}  # fmt: skip
COLUMN, _HEIGHT = RC["figure.figsize"]
_BARS = {"fmt": "o", "ms": 3, "mfc": "white", "mew": 0.9, "elinewidth": 0.9, "capsize": 1.5, "zorder": 4}


def panels(rows: int = 1, columns: int = 1, *, height: float = _HEIGHT, width: float | None = None, **more: Any) -> Any:
    """Return a figure, not shown anywhere, and its axes as a flat list."""
    across = width or (COLUMN if columns == 1 else 6.9)
    figure = Figure(figsize=(across, height * rows), layout="constrained")
    return figure, list(np.ravel(figure.subplots(rows, columns, **more)))


def colours(count: int) -> list[Any]:
    """Return colours for an ordered family; of more than three, dark to light, also in grey print."""
    return shades(count, few=3)


def curve(axes: Any, x: Any, y: Any, error: Any = None, **style: Any) -> Any:
    """Draw theory: a line, with a band of its error."""
    width = {} if "linewidth" in style else {"lw": RC["lines.linewidth"]}
    band = None if error is None else np.asarray(error)
    return draw_line(axes, x, np.asarray(y), band, {"zorder": 3, **width, **style})


def points(axes: Any, x: Any, runs: Any, **style: Any) -> Any:
    """Draw simulation: means over draws (first axis) with bars of one standard error."""
    values = np.asarray(runs, dtype=float)
    error = values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else None
    return axes.errorbar(x, values.mean(axis=0), error, **{**_BARS, **style})


def spread(axes: Any, x: Any, runs: Any, **style: Any) -> Any:
    """Draw means over draws with bars of one standard deviation, as the paper's error bars are."""
    values = np.asarray(runs, dtype=float)
    return axes.errorbar(x, values.mean(axis=0), values.std(axis=0, ddof=1), **{**_BARS, **style})


def label_panels(all_axes: Sequence[Any]) -> None:
    """Write (a), (b), … above the panels."""
    for letter, axes in zip("abcdefghijkl", all_axes, strict=False):
        axes.set_title(f"({letter})", loc="left", fontsize=8.5, fontweight="bold")
