"""Functions of time with their error bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.plotting.style import BAND, LINE, new_axes, plain, shades
from eqsolve.solvers.grids import Array

if TYPE_CHECKING:
    from eqsolve.result import Result

__all__ = ["plot_curves", "time_axis"]


def plot_curves(result: Result, names: tuple[str, ...], axes: Any = None) -> Any:
    """Draw functions of time as lines with error bands on a logarithmic time axis."""
    axes = new_axes(axes)
    times, scale = time_axis(result, 400)
    curves = result.at(times)
    for name, colour in zip(names, shades(len(names)), strict=True):
        values = curves[name].values
        axes.plot(times, values, color=colour, label=name, lw=LINE)
        if f"{name}_error" in curves:
            error = curves[f"{name}_error"].values
            axes.fill_between(times, values - error, values + error, color=colour, alpha=BAND, lw=0)
    axes.set_xscale(scale)
    axes.set_xlabel("t")
    plain(axes, result, legend=len(names))
    return axes


def time_axis(result: Result, count: int) -> tuple[Array, str]:
    """Return times to draw at and the scale of their axis: logarithmic where the solution spans many scales."""
    edges = result._grid().edges
    if edges[0] != 0 or edges[-1] / edges[1] <= 30:
        return np.linspace(edges[0], edges[-1], count), "linear"
    first = np.clip(edges[1], 1e-4 * edges[-1], 1e-3 * edges[-1])
    times = np.geomspace(first, edges[-1], count)
    times[-1] = edges[-1]
    return times, "log"
