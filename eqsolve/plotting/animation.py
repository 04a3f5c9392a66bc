"""The law of a random process as a film: its histogram at times one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.plotting.labels import written
from eqsolve.plotting.paths import is_process, weights_of
from eqsolve.plotting.style import COLOURS, LINE, new_axes, plain
from eqsolve.plotting.times import time_axis

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation

    from eqsolve.results.result import Result

_BINS = 60


def animate_law(
    result: Result, name: str, path: str | os.PathLike[str] | None = None, *, frames: int = 60, seconds: float = 6.0
) -> FuncAnimation | None:
    """Draw the law of a process at growing times, its mean as a line: write a GIF, or return the film to be shown."""
    from matplotlib.animation import FuncAnimation

    if path is not None and os.path.splitext(path)[1].lower() != ".gif":
        raise UsageError(f"cannot write {str(path)!r}: a film is a file name ending in .gif")
    if not is_process(result, name):
        there = [item for item in result.names if is_process(result, item)]
        has = f"there are: {', '.join(there)}" if there else "the model has none"
        raise UsageError(f"`{name}` is not a random process of the result{did_you_mean(name, there)} ({has})")
    weights = weights_of(result, name)
    stored = result.dataset[name]
    times = time_axis(stored["t"].values, [weights @ stored.values, weights @ stored.values**2]).times(frames)
    values = result._grid().interpolate(stored.values, times)
    edges = np.linspace(values.min(), values.max() + 1e-12 * max(1.0, abs(float(values.max()))), _BINS + 1)
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

    if path is not None:
        _write(axes.figure, show, frames, path, seconds)
        return None
    return FuncAnimation(axes.figure, show, frames=frames, interval=1000 * seconds / frames, blit=False)


def _write(figure: Any, show: Callable[[int], Any], frames: int, path: str | os.PathLike[str], seconds: float) -> None:
    """Write a GIF; every frame is drawn once, where matplotlib's own writer draws it three times."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    from eqsolve.files.atomic import atomic_path

    canvas: Any = FigureCanvasAgg(figure)
    pictures = []
    for frame in range(frames):
        show(frame)
        canvas.draw()
        pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    plt.close(figure)
    duration = max(20, round(1000 * seconds / frames))  # milliseconds
    with atomic_path(path) as temporary:
        pictures[0].save(temporary, "GIF", save_all=True, append_images=pictures[1:], duration=duration, loop=0)
