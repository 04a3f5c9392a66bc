"""The law of a random process as it changes in time: mean and quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.plotting.labels import written
from eqsolve.plotting.style import COLOURS, LINE, Ways, new_axes, plain
from eqsolve.plotting.times import set_scales, spread_times, time_axis

if TYPE_CHECKING:
    from eqsolve.results.result import Result

_BANDS = ((0.025, 0.975, 0.2, "95 %"), (0.25, 0.75, 0.45, "50 %"))  # levels, opacity


def is_process(result: Result, name: str) -> bool:
    """Whether a name stands for a random process, kept as paths."""
    dims = result.dataset[name].dims if name in result.names else ()
    return len(dims) == 2 and str(dims[0]).startswith("path") and dims[1] == "t"


def weights_of(result: Result, name: str) -> Array:
    """Return the weights of a process's paths; each ensemble of paths has its own."""
    path = result.dataset[name].dims[0]
    found = [item for key, item in result.dataset.coords.items() if str(key).startswith("weight") and item.dims == (path,)]
    return np.asarray(found[0].values)


def plot_paths(result: Result, name: str, ways: Ways) -> Any:
    """Draw a process: a few paths as lines as heavy as they are probable, many as bands that hold 50 % and 95 %."""
    axes = new_axes(ways.ax)
    times = spread_times(result._grid(), 200)
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
    plain(axes, result, legend=1)
    return axes


def quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return weighted quantiles of paths (first axis) at every time, shape (levels, times)."""
    order = np.argsort(values, axis=0)
    sorted_values = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(weights[order], axis=0) / weights.sum()
    places = [(below < level - 1e-12).sum(axis=0).clip(max=len(weights) - 1) for level in levels]
    return np.stack([np.take_along_axis(sorted_values, place[None], axis=0)[0] for place in places])
