"""Functions of time with their error bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.plotting.style import BAND, LINE, TITLE_SIZE, new_axes, plain, shades
from eqsolve.numerics.grids import Array

if TYPE_CHECKING:
    from eqsolve.results.result import Result

__all__ = ["plot_curves", "time_axis"]


def plot_curves(result: Result, names: tuple[str, ...], axes: Any = None, label: str | None = None) -> Any:
    """Draw functions of time as lines with error bands on a logarithmic time axis; further results go on in colour."""
    axes = new_axes(axes)
    before = len(axes.lines)
    colours = shades(before + len(names))[before:]
    times, scale = time_axis(result, 400)
    curves = result.at(times)
    for name, colour in zip(names, colours, strict=True):
        values = curves[name].values
        axes.plot(times, values, color=colour, label=_label(name, names, label), lw=LINE)
        if f"{name}_error" in curves:
            error = curves[f"{name}_error"].values
            axes.fill_between(times, values - error, values + error, color=colour, alpha=BAND, lw=0)
    axes.set_xscale(scale)
    axes.set_xlabel("t")
    plain(axes, result, legend=before + len(names))
    if before:  # the settings of one result would not be those of the others
        axes.set_title(result.model if axes.get_title().startswith(result.model) else "", fontsize=TITLE_SIZE)
    if label is not None and len(names) == 1:
        axes.set_ylabel(names[0])
    return axes


def _label(name: str, names: tuple[str, ...], label: str | None) -> str:
    if label is None:
        return name
    return label if len(names) == 1 else f"{name}, {label}"


def time_axis(result: Result, count: int) -> tuple[Array, str]:
    """Return times to draw at and the scale of their axis: logarithmic where the solution spans many scales."""
    edges = result._grid().edges
    if edges[0] != 0 or edges[-1] / edges[1] <= 30:
        return np.linspace(edges[0], edges[-1], count), "linear"
    first = np.clip(edges[1], 1e-4 * edges[-1], 1e-3 * edges[-1])
    times = np.geomspace(first, edges[-1], count)
    times[-1] = edges[-1]
    return times, "log"
