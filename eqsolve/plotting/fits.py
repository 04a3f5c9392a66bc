"""Fits with their residuals in units of the errors, and landscapes with their optima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.plotting.curves import set_scales, time_axis
from eqsolve.plotting.labels import TITLE_SIZE, settings_title, written
from eqsolve.plotting.style import COLOURS, LINE, SEQUENTIAL, new_axes

if TYPE_CHECKING:
    from eqsolve.fitting.fit import Fit
    from eqsolve.fitting.optimise import Optimum


def plot_fit(found: Fit, names: Sequence[str], *, ax: Any = None, logx: bool | None = None, logy: bool | None = None) -> Any:
    """Draw data with error bars and the fit above, residuals below; ``ax`` are two, if given."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(2, 1, sharex=True, height_ratios=(3, 1), figsize=(5.2, 4.4), layout="constrained")
    elif np.size(np.asarray(ax, dtype=object)) != 2:
        raise UsageError("ax= takes two axes here, for the data and for the residuals below them")
    above, below = np.ravel(np.asarray(ax, dtype=object))
    lines = [item.lines for item in found.sets if item.lines]
    axis = time_axis(lines[0]["t"], [item[name] for item in lines for name in names if name in item], logx) if lines else None
    numbered = [(item, f"set {number}" if len(found.sets) > 1 else "") for number, item in enumerate(found.sets, 1)]
    drawn = [(item, name, number) for item, number in numbered for name in names if name in item.data.names]
    for place, (item, name, number) in enumerate(drawn):
        values, sigmas = item.data.values[name].mean(axis=0), item.sigmas[name]
        where = np.arange(len(values)) if item.data.times is None else item.data.times
        colour = COLOURS[place % len(COLOURS)]
        own = ", ".join(f"{written(key, found.latex)} = {value}" for key, value in item.settings.items())
        label = ", ".join(filter(None, (written(name, found.latex), own or number)))
        bars = None if found.chi2 is None else np.where(np.isfinite(sigmas), sigmas, 0.0)
        above.errorbar(where, values, yerr=bars, fmt="o", ms=4, mfc="white", color=colour, label=label)
        if item.lines:
            above.plot(item.lines["t"], item.lines[name], lw=LINE, color=colour)
        else:
            above.plot(where, item.curves[name], "_", ms=14, color=colour)
        below.plot(where, (values - item.curves[name]) / sigmas, "o", ms=4, color=colour)
    below.axhspan(-2, 2, color="0.93", lw=0, zorder=0)
    below.axhline(0.0, lw=0.8, color="0.5")
    below.set_ylabel("residual/error" if found.chi2 is not None else "residual/scatter")
    if any(item.data.draws > 1 for item in found.sets):
        below.set_title("errors are correlated between times", fontsize=TITLE_SIZE, color="0.4")
    below.set_xlabel(written("t", found.latex) if found.data.times is not None else "")
    if len(drawn) > 1:
        above.legend(frameon=False)
    else:
        above.set_ylabel(written(names[0], found.latex))
    for axes in (above, below):
        set_scales(axes, log_x=None if axis is None else axis.log, log_y=logy if axes is above else None)
        axes.spines[["top", "right"]].set_visible(False)
    best = [f"{written(n, found.latex)} = {x:.4g} ± {found.errors[n]:.2g}" for n, x in found.parameters.items()]
    above.set_title(f"{found.model}: {', '.join(best)}", fontsize=TITLE_SIZE)
    return np.array([above, below], dtype=object)


# --- The landscape of an observable over one or two parameters, with its optimum.
def plot_landscape(found: Optimum, axes: Any = None) -> Any:
    """Draw the scan and the optimum; over more than two parameters, values along the first."""
    names = [written(item.name, found.latex) for item in found.ranges]
    logs, label = [item.log for item in found.ranges], written(found.observable, found.latex)
    axes, (points, values) = new_axes(axes), found.scan
    where = [found.parameters[item.name] for item in found.ranges]
    best = [f"{written(n, found.latex)} = {x:.4g} ± {found.errors[n]:.2g}" for n, x in found.parameters.items()]
    told = f"{'largest' if found.maximise else 'smallest'} at {', '.join(best)}"
    if len(names) == 2:
        shown = axes.tricontourf(_scaled(points[:, 0], logs[0]), _scaled(points[:, 1], logs[1]), values, 20, cmap=SEQUENTIAL)
        axes.figure.colorbar(shown, ax=axes, label=label)
        place = (_scaled(x, log) for x, log in zip(where, logs, strict=True))
        axes.plot(*place, "o", color="white", markeredgecolor="black", label=told)
        for name, log, put in zip(names, logs, (axes.set_xlabel, axes.set_ylabel), strict=True):
            put(f"$\\log_{{10}}$ {name}" if log else name)
    else:
        if names:
            order, error = np.argsort(points[:, 0]), found.errors[found.ranges[0].name]
            marks = "o-" if len(names) == 1 else "o"
            axes.plot(points[order, 0], values[order], marks, lw=LINE, color=COLOURS[0], label="scan")
            error = error if np.isfinite(error) else 0.0
            axes.errorbar([where[0]], [found.value], xerr=[error], fmt="s", capsize=3, color=COLOURS[1], label=told)
            axes.set_xlabel(names[0])
            axes.set_xscale("log" if logs[0] else "linear")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    if names:
        axes.legend(frameon=len(names) == 2, fontsize=TITLE_SIZE)
    inches = axes.get_position().width * axes.figure.get_figwidth()
    axes.set_title(settings_title(found.model, found.settings, found.latex, inches), fontsize=TITLE_SIZE)
    return axes


def _scaled(values: Any, log: bool) -> Any:
    return np.log10(values) if log else values
