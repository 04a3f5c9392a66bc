"""The law of a random process as it changes in time: mean and quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.plotting.curves import time_axis
from eqsolve.plotting.style import COLOURS, LINE, new_axes, plain
from eqsolve.numerics.grids import Array

if TYPE_CHECKING:
    from eqsolve.results.result import Result

__all__ = ["is_process", "plot_paths", "quantiles", "weights_of"]

_BANDS = ((0.025, 0.975, 0.2, "95 %"), (0.25, 0.75, 0.45, "50 %"))  # levels, opacity
_FEW = 12  # paths that are drawn one by one, since quantiles of a few atoms jump


def is_process(result: Result, name: str) -> bool:
    """Whether a name stands for a random process, kept as paths."""
    dims = result.dataset[name].dims if name in result.names else ()
    return len(dims) == 2 and str(dims[0]).startswith("path") and dims[1] == "t"


def weights_of(result: Result, name: str) -> Array:
    """Return the weights of a process's paths; each ensemble of paths has its own."""
    path = result.dataset[name].dims[0]
    found = [item for key, item in result.dataset.coords.items() if str(key).startswith("weight") and item.dims == (path,)]
    return np.asarray(found[0].values)


def plot_paths(result: Result, name: str, axes: Any = None) -> Any:
    """Draw a process: a few paths as lines as heavy as they are probable, many as bands that hold 50 % and 95 %."""
    axes = new_axes(axes)
    times, scale = time_axis(result, 200)
    values = result._grid().interpolate(result.dataset[name].values, times)
    weights = weights_of(result, name)
    if len(weights) <= _FEW:
        for path, weight in zip(values, weights / weights.max(), strict=True):
            axes.plot(times, path, color=COLOURS[0], lw=0.6 + LINE * weight, alpha=0.8)
    else:
        for low, high, opacity, label in _BANDS:
            lower, upper = quantiles(values, weights, np.array([low, high]))
            axes.fill_between(times, lower, upper, color=COLOURS[0], alpha=opacity, lw=0, label=label)
    axes.plot(times, weights @ values / weights.sum(), color=COLOURS[1], lw=LINE, label="mean")
    axes.set(xscale=scale, xlabel="t", ylabel=name)
    plain(axes, result, legend=1)
    return axes


def quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return weighted quantiles of paths (first axis) at every time, shape (levels, times)."""
    order = np.argsort(values, axis=0)
    sorted_values = np.take_along_axis(values, order, axis=0)
    below = np.cumsum(weights[order], axis=0) / weights.sum()
    places = [(below < level - 1e-12).sum(axis=0).clip(max=len(weights) - 1) for level in levels]
    return np.stack([np.take_along_axis(sorted_values, place[None], axis=0)[0] for place in places])
