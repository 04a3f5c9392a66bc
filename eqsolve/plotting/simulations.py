"""Finite-size runs: means over the draws as points with bars of one standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.plotting.choose import read_ways
from eqsolve.plotting.labels import TITLE_SIZE, settings_title, written
from eqsolve.plotting.style import COLOURS, new_axes
from eqsolve.plotting.times import set_scales, time_axis

if TYPE_CHECKING:
    from eqsolve.microscopic.simulation import Simulation

POINTS = {"fmt": "o", "ms": 4, "mfc": "white", "mew": 1.1, "elinewidth": 1.1, "capsize": 2, "zorder": 4}


def plot_simulation(found: Simulation, names: tuple[str, ...], **given: Any) -> Any:
    """Draw observables over time; on axes that hold as many lines, a point has the colour of its line."""
    ways = read_ways(**given)
    for name in names:
        if name not in found.names:
            has = ", ".join(found.names)
            raise UsageError(f"`{name}` is not in the simulation{did_you_mean(name, found.names)} (to draw there are: {has})")
    shown = names or found.names
    axes = new_axes(ways.ax)
    lines, used = list(axes.lines), axes.has_data()
    axis = time_axis(found.t, [found.mean[name].values for name in shown], ways.logx) if len(found.t) > 1 else None
    if not used or ways.logx is not None:
        set_scales(axes, log_x=None if axis is None else axis.log, log_y=None)
    set_scales(axes, log_x=None, log_y=ways.logy)
    theory = {str(line.get_label()): line.get_color() for line in lines}
    for place, name in enumerate(shown):
        text = written(name, found.latex)
        colour = theory.get(text, COLOURS[(place if len(lines) == len(shown) else len(lines) + place) % len(COLOURS)])
        mean, error = found.mean[name].values, found.error[name].values
        label = ways.label or (f"{text}, d = {found.d}" if used or len(shown) > 1 else f"d = {found.d}")
        axes.errorbar(
            found.t, mean, error if np.isfinite(error).all() else None,
            **{"color": colour, "label": label, **POINTS, **ways.style},
        )  # fmt: skip
    if used and found.t[-1] > 0.99 * axes.get_xlim()[1]:  # the last point would be cut
        low, high = axes.get_xlim()
        axes.set_xlim(low, high * (high / low) ** 0.02 if axes.get_xscale() == "log" else high + 0.02 * (high - low))
    if not axes.get_xlabel():
        axes.set_xlabel(written("t", found.latex))
    if not used:
        axes.set_ylabel(written(shown[0], found.latex) if len(shown) == 1 else "")
        inches = axes.get_position().width * axes.figure.get_figwidth()
        head = f"{found.model}: d = {found.d}, n = {found.n}, {found.seeds} draw{'s' if found.seeds > 1 else ''}"
        axes.set_title(settings_title(head, found.params, found.latex, inches), fontsize=TITLE_SIZE)
    axes.spines[["top", "right"]].set_visible(False)
    count = len(axes.get_legend_handles_labels()[1])
    axes.legend(frameon=False, **({"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if count > 4 else {}))
    return axes
