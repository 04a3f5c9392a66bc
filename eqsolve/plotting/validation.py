"""Theory as lines with error bands, finite-size draws as points with standard errors, z-scores below.

Wide grey bars around the theory hold the deviations that the comparison would not have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.plotting.curves import TimeAxis, spread_times, time_axis
from eqsolve.plotting.style import (
    COLOURS,
    LINE,
    SEQUENTIAL,
    TITLE_SIZE,
    Ways,
    add_legend,
    draw_line,
    new_axes,
    read_ways,
    rows_and_columns,
    set_scales,
    settings_title,
    written,
)
from eqsolve.results.words import percent

if TYPE_CHECKING:
    from eqsolve.fitting.fit import Fit
    from eqsolve.fitting.optimise import Optimum
    from eqsolve.microscopic.simulate import Simulation
    from eqsolve.validation.validate import Validation

# --- Finite-size runs: means over the draws as points with bars of one standard error.
POINTS = {"fmt": "o", "ms": 4, "mfc": "white", "mew": 1.1, "elinewidth": 1.1, "capsize": 2, "zorder": 4}


def plot_simulation(runs: Simulation, names: tuple[str, ...], **given: Any) -> Any:
    """Draw observables over time; on axes that hold as many lines, a point has the colour of its line."""
    ways = read_ways(**given)
    demand_known(names, runs.names, "`{}` is not in the simulation", "to draw there are")
    shown = names or runs.names
    axes = new_axes(ways.ax)
    lines, used = list(axes.lines), axes.has_data()
    axis = time_axis(runs.t, [runs.mean[name].values for name in shown], ways.logx) if len(runs.t) > 1 else None
    if not used or ways.logx is not None:
        set_scales(axes, log_x=None if axis is None else axis.log, log_y=None)
    set_scales(axes, log_x=None, log_y=ways.logy)
    theory = {str(line.get_label()): line.get_color() for line in lines}
    for place, name in enumerate(shown):
        text = written(name, runs.latex)
        colour = theory.get(text, COLOURS[(place if len(lines) == len(shown) else len(lines) + place) % len(COLOURS)])
        mean, error = runs.mean[name].values, runs.error[name].values
        label = ways.label or (f"{text}, d = {runs.d}" if used or len(shown) > 1 else f"d = {runs.d}")
        bars = error if np.isfinite(error).all() else None
        axes.errorbar(runs.t, mean, bars, **{"color": colour, "label": label, **POINTS, **ways.style})
    if used and runs.t[-1] > 0.99 * axes.get_xlim()[1]:  # the last point would be cut
        low, high = axes.get_xlim()
        axes.set_xlim(low, high * (high / low) ** 0.02 if axes.get_xscale() == "log" else high + 0.02 * (high - low))
    if not axes.get_xlabel():
        axes.set_xlabel(written("t", runs.latex))
    if not used:
        axes.set_ylabel(written(shown[0], runs.latex) if len(shown) == 1 else "")
        head = f"{runs.model}: d = {runs.d}, n = {runs.n}, {runs.seeds} draw{'s' if runs.seeds > 1 else ''}"
        axes.set_title(settings_title(head, runs.params, runs.latex, axes), fontsize=TITLE_SIZE)
    axes.spines[["top", "right"]].set_visible(False)
    add_legend(axes, outside=len(axes.get_legend_handles_labels()[1]) > 4)
    return axes


def plot_validation(check: Validation, names: tuple[str, ...], **given: Any) -> Any:
    """Draw one validation; return the matplotlib figure, or the axes if they were given."""
    ways = read_ways(**given)
    demand_known(names, check.observables, "`{}` was not compared", "compared were")
    shown = list(names) or list(check.observables)
    axis = _time(check, shown, ways)
    if ways.ax is not None:
        before, latex = len(ways.ax.lines), check.result.latex
        for place, name in enumerate(shown):
            _draw(ways.ax, check, name, COLOURS[(before + place) % len(COLOURS)], axis, ways, named=True)
        ways.ax.set_ylabel(written(shown[0], latex) if len(shown) == 1 else "")
        ways.ax.set_xlabel(written("t", latex) if check.t is not None else "")
        ways.ax.legend(frameon=False)
        return ways.ax
    panels = len(shown) + (check.law_picture is not None and not names)
    rows, columns = rows_and_columns(panels)
    size, heights = (3.7 * columns, 3.7 * rows), [3.2, 1] * rows
    figure, axes = plt.subplots(2 * rows, columns, figsize=size, layout="constrained", squeeze=False, height_ratios=heights)
    for place, (above, below) in enumerate(zip(axes[::2].ravel(), axes[1::2].ravel(), strict=True)):
        if place < len(shown):
            _draw(above, check, shown[place], COLOURS[place % len(COLOURS)], axis, ways)
            _deviations(above, below, check, shown[place], axis)
        elif place < panels:
            below.axis("off")
            _draw_laws(above, below, check)
        else:
            above.axis("off")
            below.axis("off")
    verdict = f"{check.verdict}{', low power' if check.low_power else ''}"
    head = f"{check.model}: {verdict} (d = {check.d}, {check.seeds} draws, {check.data})"
    figure.suptitle(settings_title(head, check.params, check.result.latex, figure), fontsize=TITLE_SIZE)
    return figure


def _time(check: Validation, names: list[str], ways: Ways) -> TimeAxis | None:
    """Return the axis of time of all panels: by the rule of curves, over the times compared too."""
    if check.t is None or len(check.t) < 2:
        return None
    times = spread_times(check.result._grid())
    curves = check.result.at(times)
    axis = time_axis(times, [curves[name].values for name in names], ways.logx)
    if not axis.log:
        return TimeAxis(False, axis.first, 1.03 * float(check.t[-1]))
    return TimeAxis(True, min(axis.first, 0.7 * float(check.t[check.t > 0].min())), 1.15 * float(check.t[-1]))


def _draw(
    axes: Any, check: Validation, name: str, colour: str, axis: TimeAxis | None, ways: Ways, named: bool = False
) -> None:
    """Draw one observable: the theory, what could not have been told from it, and the draws."""
    pair, text = check.observables[name], written(name, check.result.latex)
    times = check.t if check.t is not None else np.zeros(1)
    set_scales(axes, log_x=None if axis is None else axis.log, log_y=ways.logy)
    line_t, line, band = times, pair.theory, pair.theory_error
    if axis is not None:
        line_t = spread_times(check.result._grid())
        curves = check.result.at(line_t)
        line, band = curves[name].values, curves[f"{name}_error"].values
    single = {"marker": "_", "ms": 20} if len(line_t) == 1 else {}
    label = f"{text}: theory" if named else "theory"
    draw_line(axes, line_t, line, band, {"color": colour, "label": label, **single, **ways.style})
    if not named:
        for draw in check.spread.get(name, ()):
            axes.plot(times, draw, ".", color="0.6", ms=2.5, zorder=1)
        unseen = np.where(np.isfinite(pair.detectable), pair.detectable, 0.0) * np.abs(pair.theory)
        label = "undetectable deviations"
        axes.errorbar(times, pair.theory, unseen, fmt="none", ecolor="0.9", elinewidth=7, label=label, zorder=0)
    label = f"{text}: d = {check.d}" if named else f"d = {check.d}, {check.seeds} draws"
    axes.errorbar(times, pair.simulation, pair.standard_error, color=colour, label=label, **POINTS)
    if axis is not None:
        axes.set_xlim(axis.first, axis.last)
    axes.spines[["top", "right"]].set_visible(False)


def _deviations(above: Any, below: Any, check: Validation, name: str, axis: TimeAxis | None) -> None:
    """Finish a panel: its verdict above, the z-scores below."""
    pair = check.observables[name]
    times = check.t if check.t is not None else np.zeros(1)
    best, worst = (float(pair.detectable[place]) for place in (pair.most_sensitive, pair.least_sensitive))
    seen = " to ".join(dict.fromkeys(map(percent, (best, worst))))
    power = f" (would detect deviations of {seen})" if np.isfinite(best) else ""
    above.set_title(f"{pair.verdict}{power}", fontsize=8)
    above.set_ylabel(written(name, check.result.latex))
    above.legend(frameon=False, fontsize=7)
    below.axhspan(-3, 3, color="0.93", lw=0)
    below.axhline(0, color="0.6", lw=0.8)
    below.plot(times, pair.z, "o", color="black", ms=3.5)
    largest = max(4.0, 1.2 * float(np.abs(pair.z).max()))
    below.set(ylabel="$z$-score", ylim=(-largest, largest))
    if axis is not None:
        below.set_xscale(axis.scale)
    below.set_xlim(above.get_xlim())
    above.tick_params(labelbottom=False)
    if check.t is not None:
        below.set_xlabel(written("t", check.result.latex))
    else:
        below.set_xticks([])
        above.set_xticks([])
    below.spines[["top", "right"]].set_visible(False)


def _draw_laws(axes: Any, below: Any, check: Validation) -> None:
    law = check.law_picture
    assert law is not None
    heights = np.asarray(law["heights"])
    axes.stairs(heights, law["edges"], fill=True, color="0.75", label=f"finite size, d = {check.d}")
    axes.plot(law["where"], law["density"], color=COLOURS[0], lw=LINE, label="theory")
    if heights.max(initial=0) > 0:
        axes.set_yscale("log")
        axes.set_ylim(law["least"], None)
    for value, mass, share in law["atoms"]:
        text = f"atom at {value:g}: {mass:.4f}, finite size {share:.4f}"
        axes.axvline(value, color=COLOURS[1], lw=1, ls=":", label=text)
    variable = written(law["variable"], check.result.latex)
    axes.set(xlabel=variable, ylabel="density")
    distance = "" if check.wasserstein is None else f", $W_2$ = {check.wasserstein['values'][-1][0]:.2g}"
    axes.set_title(f"law of {variable}{distance}", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    below.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=7, loc="upper left")


# --- Fits with their residuals in units of the errors, and landscapes with their optima.


def plot_fit(fit: Fit, names: Sequence[str], *, ax: Any = None, logx: bool | None = None, logy: bool | None = None) -> Any:
    """Draw data with error bars and the fit above, residuals below; ``ax`` are two, if given."""
    if ax is None:
        _, ax = plt.subplots(2, 1, sharex=True, height_ratios=(3, 1), figsize=(5.2, 4.4), layout="constrained")
    elif np.size(np.asarray(ax, dtype=object)) != 2:
        raise UsageError("ax= takes two axes here, for the data and for the residuals below them")
    above, below = np.ravel(np.asarray(ax, dtype=object))
    lines = [item.lines for item in fit.sets if item.lines]
    axis = time_axis(lines[0]["t"], [item[name] for item in lines for name in names if name in item], logx) if lines else None
    numbered = [(item, f"set {number}" if len(fit.sets) > 1 else "") for number, item in enumerate(fit.sets, 1)]
    drawn = [(item, name, number) for item, number in numbered for name in names if name in item.data.names]
    for place, (item, name, number) in enumerate(drawn):
        values, sigmas = item.data.values[name].mean(axis=0), item.sigmas[name]
        where = np.arange(len(values)) if item.data.times is None else item.data.times
        colour = COLOURS[place % len(COLOURS)]
        own = ", ".join(f"{written(key, fit.latex)} = {value}" for key, value in item.settings.items())
        label = ", ".join(filter(None, (written(name, fit.latex), own or number)))
        bars = None if fit.chi2 is None else np.where(np.isfinite(sigmas), sigmas, 0.0)
        above.errorbar(where, values, yerr=bars, fmt="o", ms=4, mfc="white", color=colour, label=label)
        if item.lines:
            above.plot(item.lines["t"], item.lines[name], lw=LINE, color=colour)
        else:
            above.plot(where, item.curves[name], "_", ms=14, color=colour)
        below.plot(where, (values - item.curves[name]) / sigmas, "o", ms=4, color=colour)
    below.axhspan(-2, 2, color="0.93", lw=0, zorder=0)
    below.axhline(0.0, lw=0.8, color="0.5")
    below.set_ylabel("residual/error" if fit.chi2 is not None else "residual/scatter")
    if any(item.data.draws > 1 for item in fit.sets):
        below.set_title("errors are correlated between times", fontsize=TITLE_SIZE, color="0.4")
    below.set_xlabel(written("t", fit.latex) if fit.data.times is not None else "")
    if len(drawn) > 1:
        above.legend(frameon=False)
    else:
        above.set_ylabel(written(names[0], fit.latex))
    for axes in (above, below):
        set_scales(axes, log_x=None if axis is None else axis.log, log_y=logy if axes is above else None)
        axes.spines[["top", "right"]].set_visible(False)
    above.set_title(f"{fit.model}: {_best(fit)}", fontsize=TITLE_SIZE)
    return np.array([above, below], dtype=object)


def _best(fit: Fit | Optimum) -> str:
    shown = (f"{written(n, fit.latex)} = {x:.4g} ± {fit.errors[n]:.2g}" for n, x in fit.parameters.items())
    return ", ".join(shown)


def plot_landscape(optimum: Optimum, axes: Any = None) -> Any:
    """Draw the scan and the optimum; over more than two parameters, values along the first."""
    names = [written(item.name, optimum.latex) for item in optimum.ranges]
    logs, label = [item.log for item in optimum.ranges], written(optimum.observable, optimum.latex)
    axes, (points, values) = new_axes(axes), optimum.scan
    where = [optimum.parameters[item.name] for item in optimum.ranges]
    told = f"{'largest' if optimum.maximise else 'smallest'} at {_best(optimum)}"
    if len(names) == 2:
        scaled = [np.log10(x) if log else x for x, log in zip([*points.T, *where], logs * 2, strict=True)]
        shown = axes.tricontourf(*scaled[:2], values, 20, cmap=SEQUENTIAL)
        axes.figure.colorbar(shown, ax=axes, label=label)
        axes.plot(*scaled[2:], "o", color="white", markeredgecolor="black", label=told)
        labels = (f"$\\log_{{10}}$ {name}" if log else name for name, log in zip(names, logs, strict=True))
        axes.set(**dict(zip(("xlabel", "ylabel"), labels, strict=True)))
    else:
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    if names and len(names) != 2:
        order, error = np.argsort(points[:, 0]), optimum.errors[optimum.ranges[0].name]
        axes.plot(points[order, 0], values[order], "o-" if len(names) == 1 else "o", lw=LINE, color=COLOURS[0], label="scan")
        bars = {"xerr": [error if np.isfinite(error) else 0.0], "fmt": "s", "capsize": 3, "color": COLOURS[1], "label": told}
        axes.errorbar([where[0]], [optimum.value], **bars)
        axes.set(xlabel=names[0], xscale="log" if logs[0] else "linear")
    if names:
        axes.legend(frameon=len(names) == 2, fontsize=TITLE_SIZE)
    axes.set_title(settings_title(optimum.model, optimum.settings, optimum.latex, axes), fontsize=TITLE_SIZE)
    return axes
