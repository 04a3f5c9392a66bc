"""Which drawing a result gets: by its kind, or by what the names stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import member_names
from eqsolve.plotting.curves import set_scales, time_axis
from eqsolve.plotting.labels import differences, written
from eqsolve.plotting.style import COLOURS, DIVERGING, SEQUENTIAL, Ways, edges_between, new_axes, plain

if TYPE_CHECKING:
    from eqsolve.results.result import Result


# --- Functions of two times as heat maps.
def plot_kernel(result: Result, name: str, ways: Ways) -> Any:
    """Draw a function of t and t' in colours, the diagonal dashed; nothing where a response vanishes by causality."""
    axes = new_axes(ways.ax)
    stored = result.dataset[name]
    axis = time_axis(stored["row"].values, [stored.values.T], ways.logx)
    scale, times = axis.scale, axis.times(160)
    rows, columns = np.meshgrid(times, times, indexing="ij")
    values = result._two_time(name, np.stack([rows.ravel(), columns.ravel()], axis=1)).reshape(rows.shape)
    if not result.dataset[name].attrs["symmetric"]:
        values = np.where(rows >= columns, values, np.nan)
    edges = edges_between(times, log=scale == "log")
    largest = float(np.nanmax(np.abs(values))) or 1.0
    signed = np.nanmin(values) < -1e-3 * largest
    colours = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest} if signed else {"cmap": SEQUENTIAL}
    picture = axes.pcolormesh(edges, edges, values, rasterized=True, **{**colours, **ways.style})
    axes.plot(times, times, color="0.3" if signed else "white", lw=0.9, ls="--")
    now = written("t", result.latex)
    then = f"{now[:-1]}'$" if now.isascii() and now[1:-1].isalpha() else "$t'$"
    axes.set(xscale=scale, yscale=scale, xlabel=then, ylabel=now, aspect="equal")
    axes.figure.colorbar(picture, ax=axes, label=ways.label or written(name, result.latex, f"({now[1:-1]}, {then[1:-1]})"))
    plain(axes, result)
    return axes


# --- Numbers with their errors, as a fixed point has them.
def plot_numbers(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw numbers as points with error bars, one row each."""
    axes = new_axes(ways.ax)
    values = [float(result.dataset[name]) for name in names]
    errors = [float(result.error[name]) if name in result.error else 0.0 for name in names]
    rows = range(len(names))
    axes.errorbar(values, rows, xerr=errors, label=ways.label, **{"fmt": "o", "color": COLOURS[0], "capsize": 3, **ways.style})
    for row, value in zip(rows, values, strict=True):
        axes.annotate(f"{value:.5g}", (value, row), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
    axes.set(yticks=list(rows), yticklabels=[written(name, result.latex) for name in names], ylim=(len(names) - 0.5, -0.7))
    set_scales(axes, log_x=ways.logx, log_y=None)
    axes.margins(x=0.12)
    plain(axes, result)
    return axes


def plot_over_index(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw families of numbers over their index, with error bars."""
    demand_known(names, result.families, "`{}` carries no index", "over an index there are")
    axes = new_axes(ways.ax)
    before = len(axes.lines)
    for place, name in enumerate(names):
        (index, *others) = result.families[name]
        if others:
            raise UsageError(f"`{name}` carries the indices {index}, {', '.join(others)}; a drawing is over one index")
        values, errors = result[name].values, result.error[name].values
        label = ways.label or written(name, result.latex)
        style = {"color": COLOURS[(before + place) % len(COLOURS)], "fmt": ".-", "label": label, **ways.style}
        axes.errorbar(np.arange(len(values)), values, yerr=errors, **style)
    axes.set(xlabel=f"${index}$", ylabel=written(names[0], result.latex) if len(names) == 1 else "")
    set_scales(axes, log_x=ways.logx, log_y=ways.logy)
    plain(axes, result, legend=before + len(names) if before + len(names) > 1 or ways.label is not None else 0)
    return axes


_CURVE, _KERNEL, _PATHS = ("t",), ("row", "column"), ("path", "t")
_WORDS = {_CURVE: "a function of time", _KERNEL: "a function of two times", _PATHS: "a random process", (): "a number"}


def plot_result(result: Result, names: tuple[str, ...], **given: Any) -> Any:
    """Draw what was asked for, or what the result is about; return the axes."""
    ways = read_ways(**given)
    if len(names) == 1 and names[0] not in result.names and hasattr(result.source, "law"):
        return _law(result, names[0], ways)
    families = [name for name in names if name in result.families]
    if families and result.kind == "fixed point":
        return plot_over_index(result, names, ways)
    for name in families:
        members = [item for item in result.shown if item in set(member_names(name, tuple(result.families[name].values())))]
        names = tuple(item for other in names for item in (members if other == name else (other,)))
    demand_known(names, result.names, "`{}` is not in the result", "to draw there are")
    if result.kind in ("sweep", "diagram"):
        from eqsolve.plotting.sweeps import plot_diagram, plot_sweep

        return (plot_sweep if result.kind == "sweep" else plot_diagram)(result, names, ways)
    if idle := [word for word in ("kind", "at", "x") if getattr(ways, word) is not None]:
        raise UsageError(f"{idle[0]}= is for a sweep, and this is the result of a single solve")
    return _plot(result, names or _default(result), ways)


def plot_together(found: Mapping[str, Any], names: Sequence[str], **given: Any) -> Any:
    """Draw several results, by the names of their files, over each other, a panel for each quantity."""
    from eqsolve.plotting.sweeps import make_panels

    there = {file: _over_one_axis(file, item) for file, item in found.items()}
    first, *others = there.values()
    common = [name for name, axis in first.items() if all(other.get(name) == axis for other in others)]
    if not set(names or common) <= set(common) or not common:
        each = "; ".join(
            f"{file}: {', '.join(f'{n} over {a}' for n, a in has.items()) or 'nothing'}" for file, has in there.items()
        )
        raise UsageError(f"there is no {' and '.join(names) or 'quantity'} over the same axis in all files ({each})")
    shown = list(names) or common
    words = differences(list(found.values()))
    alike = len(set(words)) < len(words)  # (such as results of different tolerances)
    panels = make_panels(len(shown)) if len(shown) > 1 else [new_axes()]
    for name, axes in zip(shown, panels, strict=True):
        for file, item in found.items():
            item.plot(name, ax=axes, **given, **({"label": file} if alike else {}))
        given.setdefault("logx", axes.get_xscale() == "log")  # the same in every panel
        if not axes.get_ylabel():
            axes.set_ylabel(written(name, next(iter(found.values())).latex))
    return panels


def _over_one_axis(file: str, item: Any) -> dict[str, str]:
    """Return what a saved result has over time, or over the one axis of a sweep, with that axis."""
    kind = getattr(item, "kind", type(item).__name__)
    if kind == "Simulation":
        return dict.fromkeys(item.names, "t")
    if kind not in ("sweep", "dynamics"):
        raise UsageError(f"{file}: solves in time, sweeps over one axis and simulations are drawn together, not a {kind}")
    if kind == "dynamics":
        return {name: "t" for name in item.shown if item.dataset[name].dims == _CURVE}
    long = [str(dim) for dim in item.dataset["status"].dims if item.dataset.sizes[dim] > 1]
    return dict.fromkeys(item.shown, long[0]) if len(long) == 1 else {}


def read_ways(
    *, ax: Any = None, logx: bool | None = None, logy: bool | None = None, label: str | None = None,
    kind: str | None = None, at: float | None = None, x: str | None = None, **style: Any,
) -> Ways:  # fmt: skip
    """Read how a drawing is wanted; what is not ours is matplotlib's."""
    if "axes" in style:
        raise UsageError("the axes to draw on are given by ax=, as in matplotlib's neighbours")
    if ax is not None and not hasattr(ax, "plot"):
        raise UsageError(f"ax= takes the axes of matplotlib, got {ax!r}")
    for name, value in (("logx", logx), ("logy", logy)):
        if not isinstance(value, bool | None):
            raise UsageError(f"{name}= takes True or False, got {value!r}")
    if not isinstance(label, str | None):
        label = str(label)
    if kind not in (None, "lines", "map"):
        raise UsageError(f"kind= takes 'lines' or 'map', got {kind!r}")
    return Ways(ax, logx, logy, label, kind, at, x, style)


def _law(result: Result, name: str, ways: Ways) -> Any:
    """Draw the law of a random variable of a fixed point: its density, its atoms as stems."""
    axes = result.law(name).plot(name, ax=new_axes(ways.ax), label=ways.label, **ways.style)
    set_scales(axes, log_x=ways.logx, log_y=ways.logy)
    axes.set_xlabel(written(name, result.latex))
    plain(axes, result)
    return axes


def _default(result: Result) -> tuple[str, ...]:
    for dims in (_CURVE, _KERNEL, _PATHS):
        if found := tuple(name for name in result.shown if result.dataset[name].dims == dims):
            return found if dims == _CURVE else found[:1]
    return tuple(name for name in result.names if not result.dataset[name].dims)


def _plot(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    kinds = {result.dataset[name].dims for name in names}
    if not kinds:
        raise UsageError(f"the result of `{result.model}` has nothing to draw")
    dims, *others = kinds
    if others:
        told = ", ".join(f"`{name}` is {_WORDS.get(_dims(result, name), 'a table')}" for name in names)
        raise UsageError(f"one drawing shows one kind of thing: {told}")
    if dims == _CURVE:
        from eqsolve.plotting.curves import plot_curves

        return plot_curves(result, names, ways)
    if dims == ():
        return plot_numbers(result, names, ways)
    if len(names) > 1:
        what = _WORDS.get(_dims(result, names[0]), "a table")
        raise UsageError(f"a drawing shows {what} at a time, got {', '.join(names)}")
    if dims == _KERNEL:
        return plot_kernel(result, names[0], ways)
    from eqsolve.plotting.curves import is_process, plot_paths

    if is_process(result, names[0]):
        return plot_paths(result, names[0], ways)
    raise UsageError(f"`{names[0]}` lies over {', '.join(map(str, dims))}, for which there is no drawing")


def _dims(result: Result, name: str) -> tuple[str, ...]:
    return tuple(str(dim) for dim in result.dataset[name].dims)
