"""Functions of two times as heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.plotting.curves import time_axis
from eqsolve.plotting.style import DIVERGING, SEQUENTIAL, edges_between, new_axes, plain

if TYPE_CHECKING:
    from eqsolve.results.result import Result

__all__ = ["plot_kernel"]

_SIZE = 160


def plot_kernel(result: Result, name: str, axes: Any = None) -> Any:
    """Draw a function of t and t' in colours, the diagonal dashed; where a response vanishes by causality, nothing."""
    axes = new_axes(axes)
    times, scale = time_axis(result, _SIZE)
    rows, columns = np.meshgrid(times, times, indexing="ij")
    values = result._two_time(name, np.stack([rows.ravel(), columns.ravel()], axis=1)).reshape(rows.shape)
    if not result.dataset[name].attrs["symmetric"]:
        values = np.where(rows >= columns, values, np.nan)
    edges = edges_between(times, log=scale == "log")
    largest = float(np.nanmax(np.abs(values))) or 1.0
    signed = np.nanmin(values) < -1e-3 * largest
    colours = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest} if signed else {"cmap": SEQUENTIAL}
    picture = axes.pcolormesh(edges, edges, values, rasterized=True, **colours)
    axes.plot(times, times, color="0.3" if signed else "white", lw=0.9, ls="--")
    axes.set(xscale=scale, yscale=scale, xlabel="t'", ylabel="t", aspect="equal")
    axes.figure.colorbar(picture, ax=axes, label=f"{name}(t, t')")
    plain(axes, result)
    return axes
