"""Drawings of sweeps: lines over one parameter, families of lines or maps over two, a panel for each quantity."""

import base64
import html
import io
import itertools
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from eqsolve.errors import UsageError
from eqsolve.numerics.grids import DRAWN
from eqsolve.plotting.style import (
    COLOURS,
    LINE,
    SEQUENTIAL,
    TITLE_SIZE,
    Ways,
    draw_line,
    edges_between,
    make_panels,
    new_axes,
    plain,
    set_scales,
    setting,
    shades,
    tell_apart,
    title_of,
    written,
)
from eqsolve.results.derivatives import derivative_keys, interpolate, is_geometric
from eqsolve.results.result import Result

_MISSED = "not solved as asked"


def plot_sweep(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw a sweep, a panel for each quantity and each value of a third axis; return the axes, an array if there are several.

    Over two axes, lines are drawn if one of them has few values or has none that are numbers, else a map.
    """
    shown = names or result.shown
    if not shown:
        raise UsageError(f"the sweep of `{result.model}` has nothing to draw: no point was solved")
    dims = [str(dim) for dim in result.dataset[shown[0]].dims if dim != "t"]
    data = _moment(result, ways.at)
    long = [dim for dim in dims if data.sizes[dim] > 1] or dims[:1]
    if ways.x is not None:
        if ways.x not in long:
            raise UsageError(f"x={ways.x!r}: expected an axis of the sweep: {', '.join(long)}")
        long.sort(key=lambda dim: dim != ways.x)
    data = data.isel({dim: 0 for dim in dims if dim not in long})
    facets = [{}] if len(long) < 3 else [{long[2]: value} for value in data[long[2]].values]
    if len(long) > 3 or len(facets) * len(shown) > 24:  # panels of a picture
        fixed = ", ".join(f"{dim}=..." for dim in long[2:])
        raise UsageError(
            f"the sweep has too many axes or values for one picture; sweep with {fixed} fixed, or use res.dataset"
        )
    if len(shown) * len(facets) == 1:
        return _draw(result, data, long, shown[0], new_axes(ways.ax), ways)
    if ways.ax is not None:
        if len(long) >= 2:
            raise UsageError(f"a sweep over two axes is drawn on given axes for one name at a time, got {', '.join(shown)}")
        family = {written(name, result.latex): (name, data) for name in shown}
        return _lines(result, data, long[0], family, ways.ax, "", ways)
    panels = make_panels(len(shown) * len(facets))
    for axes, (name, facet) in zip(panels, itertools.product(shown, facets), strict=True):
        _draw(result, data.sel(facet), long[:2], name, axes, ways, data[name].values if facet else None)
        axes.set_title("".join(_member(result, dim, value) for dim, value in facet.items()), fontsize=TITLE_SIZE)
    figure = panels[0].figure
    figure.suptitle(title_of(result, figure), fontsize=TITLE_SIZE)
    marked = [axes for axes in panels if axes.get_legend_handles_labels()[1] == [_MISSED]]
    for axes in marked:  # said once, below all
        axes.get_legend().remove()
    if marked:
        figure.legend(*marked[0].get_legend_handles_labels(), loc="outside lower left", frameon=False, fontsize=8)
    return panels


def _moment(result: Result, at: float | None) -> xr.Dataset:
    """Return a sweep at a time, the last one by default."""
    if at is None:
        return result.dataset.isel(t=-1, missing_dims="ignore")
    if "t" not in result.dataset.dims:
        raise UsageError(f"at={at:g}: the sweep of `{result.model}` has no time")
    times = result.dataset["t"].values
    place = int(np.argmin(np.abs(times - at)))
    if abs(times[place] - at) > 1e-9 * max(1.0, abs(at)):
        raise UsageError(f"at={at:g}: the sweep reports the times {', '.join(f'{moment:g}' for moment in times)}")
    return result.dataset.isel(t=place)


def _draw(result: Result, data: xr.Dataset, dims: list[str], name: str, axes: Any, ways: Ways, every: Any = None) -> Any:
    """Draw one quantity over one axis as a line, over two as a family of lines or as a map; ``every`` value has a colour."""
    when = f" at {setting('t', float(data['t']), result.latex)}" if "t" in data.coords else ""
    label = written(name, result.latex) + when
    if len(dims) == 1:
        _lines(result, data, dims[0], {ways.label: (name, data)}, axes, label, ways)
        if ways.label is None and "label" not in ways.style:
            tell_apart(axes, result, [(axes.lines[-1], name)])
        return axes
    short = min(reversed(dims), key=lambda dim: data.sizes[dim]) if ways.x is None else dims[1]
    numbers = all(data[dim].dtype.kind in "fi" for dim in dims)
    if ways.kind == "map" and not numbers:
        raise UsageError("a map needs numbers along both axes")
    # values of a second axis that are drawn as lines
    if ways.kind == "lines" or not numbers or (ways.kind is None and data.sizes[short] <= 7):
        family = {_member(result, short, value): (name, data.sel({short: value})) for value in data[short].values}
        return _lines(result, data, dims[dims[0] == short], family, axes, label, ways)
    return _map(result, data, name, dims, axes, label, ways, every)


def _member(result: Result, dim: str, value: Any) -> str:
    return setting(dim, value if isinstance(value, str) else float(f"{float(value):.4g}"), result.latex)


def _lines(
    result: Result, data: xr.Dataset, dim: str, family: dict[Any, tuple[str, xr.Dataset]], axes: Any, label: str, ways: Ways
) -> Any:
    """Draw a line for each member of a family, over one axis; one without a name has no legend."""
    values = data[dim].values
    numbers = values.dtype.kind in "fi"
    places = values.astype(float) if numbers else np.arange(len(values))
    log = numbers and is_geometric(places) if ways.logx is None else ways.logx
    set_scales(axes, log_x=log, log_y=ways.logy)
    before = len(axes.lines)
    for (text, (name, part)), colour in zip(family.items(), shades(before + len(family))[before:], strict=True):
        curve = part[name].values
        error = part[f"{name}_error"].values if f"{name}_error" in part else None
        style = {"color": colour, "label": text, **ways.style}
        marks = {"marker": "o", "ms": 3} if len(places) <= 60 else {}
        if len(places) > 2 and (name, dim) in derivative_keys(part):  # a smooth curve through the points
            low, high = places.min(), places.max()
            fine = np.clip((np.geomspace if log else np.linspace)(low, high, DRAWN), low, high)
            smooth = interpolate(part, dim, fine)
            draw_line(axes, fine, smooth[name].values, smooth[f"{name}_error"].values, style)
            axes.plot(places, curve, **{**marks, "color": axes.lines[-1].get_color(), "ls": ""})
        else:
            draw_line(axes, places, curve, error, {**style, **marks})
    if not numbers:  # (the scale sets ticks of its own)
        axes.set_xticks(places, [str(value) for value in values], rotation=15)
    axes.set(xlabel=written(dim, result.latex), ylabel=label)
    return plain(axes, result, legend=len(family.keys() - {None}))


def _map(
    result: Result, data: xr.Dataset, name: str, dims: list[str], axes: Any, label: str, ways: Ways, every: Any = None
) -> Any:
    across, up = dims
    x, y = (data[dim].values.astype(float) for dim in dims)
    logs = [is_geometric(values) if asked is None else asked for values, asked in ((x, ways.logx), (y, ways.logy))]
    values = data[name].transpose(up, across).values
    known = np.isfinite(every) if every is not None and "norm" not in ways.style else np.zeros(1, dtype=bool)
    ends = {"vmin": float(every[known].min()), "vmax": float(every[known].max())} if known.any() else {}
    edges = (edges_between(centres, log=log) for centres, log in zip((x, y), logs, strict=True))
    picture = axes.pcolormesh(*edges, values, **{"cmap": SEQUENTIAL, "rasterized": True, **ends, **ways.style})
    missed = data["status"].transpose(up, across).values != "ok" if "status" in data else np.zeros(0)
    rows, columns = np.nonzero(np.reshape(missed, (-1, len(x))))
    if len(rows):
        axes.plot(x[columns], y[rows], "x", color="#D55E00", ms=5, label=_MISSED)
    axes.set(xlabel=written(across, result.latex), ylabel=written(up, result.latex))
    axes.set(xscale="log" if logs[0] else "linear", yscale="log" if logs[1] else "linear")
    for axis, places, log in zip((axes.xaxis, axes.yaxis), (x, y), logs, strict=True):
        if not log and len(places) <= 6:  # the cells reach beyond them
            axis.set_ticks(places)
    axes.figure.colorbar(picture, ax=axes, label=label)
    plain(axes, result)
    if len(rows):
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.15), fontsize=8)
    return axes


# --- Phase diagrams: boundaries as lines over one quantity in colours, the classes by name.

_BOUNDARIES = {
    "stability": "stability lost", "lyapunov": "Lyapunov exponent zero",
    "grows": "grows without bound", "vanishes": "correlations vanish", "ends": "fixed point ends",
}  # fmt: skip


def plot_diagram(diagram: Any, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw one quantity, the boundaries over it, and the names of classes; return the axes."""
    asked = [diagram.stats.get("observable"), "stability", "lyapunov", *diagram.names]
    names = names or tuple(name for name in asked if name in diagram.names)[:1]
    if len(names) != 1:
        raise UsageError(f"a diagram shows one of: {', '.join(diagram.names) or '(nothing)'}")
    dims = sorted((str(dim) for dim in diagram.classes.dims), key=lambda dim: dim != ways.x)
    axes = plot_sweep(diagram, names, replace(ways, kind="map" if len(dims) == 2 else None))
    points, grids = diagram.boundaries, [np.sort(diagram.dataset[dim].values) for dim in dims]
    places = {kind: [points[dim].values[points["kind"].values == kind] for dim in dims] for kind in _BOUNDARIES}
    lines = {kind: _pieces(columns, grids) for kind, columns in places.items() if len(dims) == 2}
    for (kind, word), colour in zip(_BOUNDARIES.items(), COLOURS[1:6], strict=True):
        if len(dims) == 1:
            for count, place in enumerate(places[kind][0]):
                axes.axvline(place, color=colour, lw=LINE, ls="--", label=None if count else word)
        elif len(places[kind][0]):
            axes.plot(*_drawn(lines[kind], grids), label=word, color=colour, lw=1.5 * LINE, solid_capstyle="round")
            if not len(lines[kind]):  # no two of its points are in neighbouring cells
                axes.plot(*places[kind], "o", color=colour, ms=3 * LINE)
            others = [piece for other in lines if other != kind for piece in lines[other]]
            for piece in _gaps(lines[kind], others):  # on to another line
                axes.plot(*_drawn([piece], grids), color=colour, lw=LINE, ls=":")
    for name in dict.fromkeys(diagram.classes.values.ravel()) if len(dims) == 2 else ():
        cells = np.argwhere(diagram.classes.transpose(*dims).values == name)
        inside = cells[np.argmin(np.abs(cells - np.median(cells, axis=0)).sum(axis=1))]
        place = [diagram.dataset[dim].values[at] for dim, at in zip(dims, inside, strict=True)]
        box = {"boxstyle": "round,pad=0.2", "fc": "white", "alpha": 0.75, "lw": 0}
        axes.text(*place, name, fontsize=8, ha="center", va="center", bbox=box)
    if axes.get_legend_handles_labels()[0]:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
        axes.legend(fontsize=8, frameon=False, **below)
    return axes


def _pieces(columns: list[Any], grids: list[Any]) -> Any:
    """Return pairs of points, in units of cells, that lie in one cell or in neighbours and have no other between them."""
    cells = [np.interp(x, g, np.arange(len(g))) for x, g in zip(columns, grids, strict=True)]
    apart = [np.abs(np.subtract.outer(x, x)) for x in cells]
    far = np.hypot(*apart)
    between = [(np.maximum(far[k], far[:, k, None]) < far - 1e-9) for k in range(len(far))]
    near = np.argwhere(np.triu((np.maximum(*apart) <= 1 + 1e-9) & ~np.any(between, axis=0), 1))
    return np.stack(cells, axis=1)[near]


def _gaps(pieces: Any, others: Any) -> list[Any]:
    """Return what is missing, two cells at most, where the end of a line goes on straight to a piece of others."""
    joints, count = np.unique(np.reshape(pieces, (-1, 2)), axis=0, return_counts=True)
    ends = {tuple(joint) for joint in joints[count == 1]}
    gaps = []
    for before, end in [pair for piece in pieces for pair in (piece, piece[::-1]) if tuple(pair[1]) in ends]:
        along, steps = (end - before) / (np.hypot(*(end - before)) or 1.0), []
        for one, other in others:
            sides = np.array([along, one - other]).T  # end + step·along = one + share·(other − one)
            if abs(np.linalg.det(sides)) > 1e-9:
                step, share = np.linalg.solve(sides, one - end)
                steps += [step] if 0 < step <= 2 and 0 <= share <= 1 else []
        gaps += [np.array([end, end + min(steps) * along])] if steps else []
    return gaps


def _drawn(pieces: Any, grids: list[Any]) -> list[Any]:
    """Return pieces in units of cells as columns of values, with gaps between them."""
    columns = np.insert(np.asarray(pieces, float).reshape(-1, 2, 2), 2, np.nan, axis=1).reshape(-1, 2).T
    return [np.interp(x, np.arange(len(g)), g) for x, g in zip(columns, grids, strict=True)]


# --- A sweep with a slider of time.
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
        how = f'min="0" max="{last}" value="{last}" aria-label="time" style="width:20em"'
        return f'<div><input type="range" {how} oninput="{choose}">{shown}</div>'

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
        first.figure.savefig(buffer := io.BytesIO(), format="png", dpi=90)
        plt.close(first.figure)
        pictures.append(buffer.getvalue())
    return Slider(tuple(map(float, times)), tuple(pictures), f"{result.model}: {', '.join(names or result.shown)}")
