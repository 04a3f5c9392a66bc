"""Sweeps: lines over one parameter, maps over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.plotting.style import BAND, LINE, SEQUENTIAL, edges_between, is_geometric, new_axes, plain, shades
from eqsolve.numerics.grids import Array

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.results.result import Result

__all__ = ["plot_sweep"]

_FEW = 7  # values of a second axis that are drawn as lines


def plot_sweep(result: Result, names: tuple[str, ...], axes: Any = None) -> Any:
    """Draw a sweep at its last time: over one axis as lines, over two as a family of lines or as a map."""
    dims = [str(dim) for dim in result.dataset["status"].dims]
    data = result.dataset.isel(t=-1) if "t" in result.dataset.dims else result.dataset
    when = f" at t = {float(result.dataset['t'][-1]):g}" if "t" in result.dataset.dims else ""
    shown = names or result.names
    if not shown:
        raise UsageError(f"the sweep of `{result.model}` has nothing to draw: no point was solved")
    long = [dim for dim in dims if data.sizes[dim] > 1] or dims[:1]
    if len(long) > 2:
        fixed = ", ".join(f"{dim}=..." for dim in long[2:])
        raise UsageError(f"the sweep has {len(long)} axes, two can be drawn; sweep with {fixed} fixed, or use res.dataset")
    data = data.isel({dim: 0 for dim in dims if dim not in long})
    axes = new_axes(axes)
    if len(long) == 1:
        _lines(data, long[0], {name: (name, data) for name in shown}, axes, "" if len(shown) > 1 else shown[0] + when)
        plain(axes, result, legend=len(shown) if len(shown) > 1 else 0)
        return axes
    name = shown[0]
    if len(names) > 1:
        raise UsageError(f"a sweep over two axes is drawn for one name at a time, got {', '.join(names)}")
    short = min(reversed(long), key=lambda dim: data.sizes[dim])
    (other,) = (dim for dim in long if dim != short)
    if data.sizes[short] <= _FEW or data[short].dtype.kind not in "fi" or data[other].dtype.kind not in "fi":
        family = {f"{short}={_text(value)}": (name, data.sel({short: value})) for value in data[short].values}
        _lines(data, other, family, axes, name + when)
        plain(axes, result, legend=len(family))
        return axes
    return _map(result, data, name, long, axes, name + when)


def _lines(data: xr.Dataset, dim: str, family: dict[str, tuple[str, xr.Dataset]], axes: Any, label: str) -> None:
    values = data[dim].values
    numbers = values.dtype.kind in "fi"
    places = values.astype(float) if numbers else np.arange(len(values))
    for (text, (name, part)), colour in zip(family.items(), shades(len(family)), strict=True):
        curve, error = part[name].values, part[f"{name}_error"].values
        axes.plot(places, curve, "o-", color=colour, label=text, lw=LINE, ms=3)
        axes.fill_between(places, curve - error, curve + error, color=colour, alpha=BAND, lw=0)
    axes.set_xscale("log" if numbers and is_geometric(places) else "linear")
    if not numbers:  # (the scale sets ticks of its own)
        axes.set_xticks(places, [str(value) for value in values], rotation=15)
    axes.set(xlabel=dim, ylabel=label)


def _map(result: Result, data: xr.Dataset, name: str, dims: list[str], axes: Any, label: str) -> Any:
    across, up = dims
    x, y = (data[dim].values.astype(float) for dim in dims)
    logs = [is_geometric(values) for values in (x, y)]
    values = data[name].transpose(up, across).values
    picture = axes.pcolormesh(
        edges_between(x, log=logs[0]), edges_between(y, log=logs[1]), values, cmap=SEQUENTIAL, rasterized=True
    )
    bad = data["status"].transpose(up, across).values != "ok"
    if bad.any():
        rows, columns = np.nonzero(bad)
        axes.plot(x[columns], y[rows], "x", color="#D55E00", ms=5, label="not solved as asked")
    axes.set(xlabel=across, ylabel=up, xscale=_scale(logs[0]), yscale=_scale(logs[1]))
    axes.figure.colorbar(picture, ax=axes, label=label)
    plain(axes, result, legend=4 if bad.any() else 0)
    if bad.any():
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.15), fontsize=8)
    return axes


def _scale(log: bool) -> str:
    return "log" if log else "linear"


def _text(value: Array | str | float) -> str:
    return str(value) if isinstance(value, str) else f"{float(value):.4g}"
