"""What changes in time: the law of a random process as a film, a sweep with a slider."""

import base64
import html
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation
from matplotlib.backends.backend_agg import FigureCanvasAgg

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.plotting.curves import is_process, time_axis, weights_of
from eqsolve.plotting.labels import written
from eqsolve.plotting.style import COLOURS, LINE, new_axes, plain
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result


# --- Drawings of laws: density or histogram, atoms as stems.
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
        beside = axes.twinx()
        beside.vlines(places, 0, masses, colors=colour, linewidth=2)
        beside.plot(places, masses, "o", color=colour)
        beside.set(ylim=(0, 1.05), ylabel="probability of atoms")
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
        there = [item for item in result.names if is_process(result, item)]
        has = f"there are: {', '.join(there)}" if there else "the model has none"
        raise UsageError(f"`{name}` is not a random process of the result{did_you_mean(name, there)} ({has})")
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

    if path is not None:
        _write(axes.figure, show, frames, path, seconds)
        return None
    return FuncAnimation(axes.figure, show, frames=frames, interval=1000 * seconds / frames, blit=False)


@dataclass(frozen=True)
class Slider:
    """Pictures at several times with a slider that chooses one: HTML and a line of JavaScript."""

    times: tuple[float, ...]
    pictures: tuple[bytes, ...] = field(repr=False)
    title: str

    def _repr_html_(self) -> str:
        last = len(self.times) - 1
        shown = "".join(
            f"<figure style='margin:0' {'' if place == last else 'hidden'}><figcaption>t = {time:.4g}</figcaption>"
            f"<img alt='t = {time:.4g}' src='data:image/png;base64,{base64.b64encode(picture).decode()}'></figure>"
            for place, (time, picture) in enumerate(zip(self.times, self.pictures, strict=True))
        )
        choose = "this.parentNode.querySelectorAll('figure').forEach((each, place) => each.hidden = place != this.value)"
        bar = (
            f'<input type="range" min="0" max="{last}" value="{last}" aria-label="time" style="width:20em" oninput="{choose}">'
        )
        return f"<div>{bar}{shown}</div>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that holds everything in itself."""
        head = f"<!doctype html><meta charset='utf-8'><title>{html.escape(self.title)}</title>"
        Path(path).write_text(f"{head}<body style='font-family:sans-serif'>{self._repr_html_()}\n", encoding="utf-8")


def slide_sweep(result: Result, names: tuple[str, ...], **ways: Any) -> Slider:
    """Draw a sweep at each of its times, on the same scales."""
    if result.kind != "sweep" or result.dataset.sizes.get("t", 0) < 2:
        raise UsageError("a slider of time is for a sweep that reports several times; use plot")
    if {"ax", "at"} & set(ways):
        raise UsageError("a slider draws figures of its own, at all times: leave out ax= and at=")
    times = result.dataset["t"].values
    drawn = [np.ravel(np.asarray(result.plot(*names, at=float(moment), **ways), dtype=object)) for moment in times]
    for panels in zip(*drawn, strict=True):
        maps = [panel.collections[0] for panel in panels if panel.collections and panel.collections[0].colorbar]
        ends = [item.get_clim() for item in maps] or [panel.get_ylim() for panel in panels]
        common = min(low for low, _ in ends), max(high for _, high in ends)
        for item in maps:
            item.set_clim(*common)
        for panel in () if maps else panels:
            panel.set_ylim(*common)
    pictures = []
    for first, *_ in drawn:
        buffer = io.BytesIO()
        first.figure.savefig(buffer, format="png", dpi=90)
        plt.close(first.figure)
        pictures.append(buffer.getvalue())
    return Slider(tuple(map(float, times)), tuple(pictures), f"{result.model}: {', '.join(names or result.shown)}")


def _write(figure: Any, show: Callable[[int], Any], frames: int, path: str | os.PathLike[str], seconds: float) -> None:
    """Write a GIF; every frame is drawn once, where matplotlib's own writer draws it three times."""
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
