"""Drawings of laws; the law of a random process as a film."""

import os
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.files.atomic import atomic_path
from eqsolve.plotting.curves import is_process, time_axis, weights_of
from eqsolve.plotting.style import COLOURS, LINE, new_axes, plain, written
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result


def plot_law(
    law: Distribution, name: str | None, *, ax: Any, bins: Any, label: str | None, logy: bool = False, **style: Any
) -> Any:
    """Draw the law of one variable: its density, or else a histogram; probabilities of atoms as stems."""
    axes = new_axes(ax)
    variable = name or law.names[0]
    histogram = law.histogram(bins, variable)
    try:
        where = np.linspace(histogram.edges[0], histogram.edges[-1], 801)
        density = law.density(where, variable)
        (line,) = axes.plot(where, density, label=label or "density", **{"color": COLOURS[0], "lw": LINE, **style})
        colour = line.get_color()
    except UsageError:
        colour = style.get("color", COLOURS[0])
        axes.stairs(histogram.density, histogram.edges, fill=True, label=label or "histogram",
                    **{"alpha": 0.5, **style, "color": colour})  # fmt: skip
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    if 0 < len(atoms) <= 64:
        places, masses = zip(*atoms, strict=True)
        right = axes.twinx()
        right.vlines(places, 0, masses, colors=colour, linewidth=2)
        right.plot(places, masses, "o", color=colour)
        right.set(ylim=(0, 1.05), ylabel="probability of atoms")
    axes.set(xlabel=written(variable, {}), ylabel="density", yscale="log" if logy else "linear")
    axes.spines[["top"]].set_visible(False)
    return axes


def animate_law(
    result: Result, name: str, path: str | os.PathLike[str] | None = None, *, frames: int = 60, seconds: float = 6.0
) -> FuncAnimation | None:
    """Draw the law of a process at growing times, its mean as a line: write a GIF, or return the film."""
    if path is not None and os.path.splitext(path)[1].lower() != ".gif":
        raise UsageError(f"cannot write {str(path)!r}: a film is a file name ending in .gif")
    if not is_process(result, name):
        processes = [name for name in result.names if is_process(result, name)]
        has = f"there are: {', '.join(processes)}" if processes else "the model has none"
        raise UsageError(f"`{name}` is not a random process of the result{did_you_mean(name, processes)} ({has})")
    weights = weights_of(result, name)
    stored = result.dataset[name]
    times = time_axis(stored["t"].values, [weights @ stored.values, weights @ stored.values**2]).times(frames)
    values = result._grid().interpolate(stored.values, times)
    edges = np.linspace(values.min(), values.max() + 1e-12 * max(1.0, abs(float(values.max()))), 61)
    heights = np.array([np.histogram(column, edges, weights=weights)[0] for column in values.T])
    heights /= weights.sum() * np.diff(edges)
    axes = new_axes()
    shape = axes.stairs(heights[0], edges, fill=True, color=COLOURS[0], alpha=0.6)
    mean = axes.axvline(0.0, color=COLOURS[1], lw=LINE, label="mean")
    highest = 1.05 * float(np.quantile(heights.max(axis=1), 0.5))  # a start in one point would hide all the rest
    axes.set(xlabel=written(name, result.latex), ylabel="density", xlim=(edges[0], edges[-1]), ylim=(0, highest))
    plain(axes, result, legend=1)
    clock = axes.text(0.03, 0.95, "", transform=axes.transAxes, va="top")

    axes.figure.draw_without_rendering()
    axes.figure.set_layout_engine("none")  # laid out once, not for every frame

    def show(frame: int) -> tuple[Any, ...]:
        shape.set_data(heights[frame])
        centre = float(weights @ values[:, frame] / weights.sum())
        mean.set_xdata([centre, centre])
        clock.set_text(f"t = {times[frame]:.3g}")
        return shape, mean, clock

    if path is None:
        return FuncAnimation(axes.figure, show, frames=frames, interval=1000 * seconds / frames, blit=False)
    writer = PillowWriter(fps=min(50, frames / seconds))  # type: ignore[arg-type]
    with atomic_path(path) as temporary, writer.saving(axes.figure, temporary, dpi=None):
        for frame in range(frames):  # each drawn once, where FuncAnimation draws it three times
            show(frame)
            writer.grab_frame()
    plt.close(axes.figure)
    return None
