"""Functions of two times as heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.plotting.labels import written
from eqsolve.plotting.style import DIVERGING, SEQUENTIAL, Ways, edges_between, new_axes, plain
from eqsolve.plotting.times import time_axis

if TYPE_CHECKING:
    from eqsolve.results.result import Result


def plot_kernel(result: Result, name: str, ways: Ways) -> Any:
    """Draw a function of t and t' in colours, the diagonal dashed; where a response vanishes by causality, nothing."""
    axes = new_axes(ways.ax)
    stored = result.dataset[name]
    axis = time_axis(stored["row"].values, [stored.values.T], ways.logx)
    scale, times = axis.scale, axis.times(160)
    rows, columns = np.meshgrid(times, times, indexing="ij")
    values = result._two_time(name, np.stack([rows.ravel(), columns.ravel()], axis=1)).reshape(rows.shape)
    if not result.dataset[name].attrs["symmetric"]:
        values = np.where(rows >= columns, values, np.nan)
    edges = edges_between(times, log=scale == "log")
    largest = float(np.nanmax(np.abs(values))) or 1.0
    signed = np.nanmin(values) < -1e-3 * largest
    colours = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest} if signed else {"cmap": SEQUENTIAL}
    picture = axes.pcolormesh(edges, edges, values, rasterized=True, **{**colours, **ways.style})
    axes.plot(times, times, color="0.3" if signed else "white", lw=0.9, ls="--")
    now = written("t", result.latex)
    then = f"{now[:-1]}'$" if now.isascii() and now[1:-1].isalpha() else "$t'$"
    axes.set(xscale=scale, yscale=scale, xlabel=then, ylabel=now, aspect="equal")
    axes.figure.colorbar(picture, ax=axes, label=ways.label or written(name, result.latex, f"({now[1:-1]}, {then[1:-1]})"))
    plain(axes, result)
    return axes
