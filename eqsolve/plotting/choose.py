"""Which drawing a result gets: by its kind, or by what the names stand for."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import member_names
from eqsolve.plotting.curves import is_process, plot_curves, plot_paths, time_axis
from eqsolve.plotting.style import (
    COLOURS,
    DIVERGING,
    SEQUENTIAL,
    Ways,
    differences,
    edges_between,
    make_panels,
    new_axes,
    plain,
    read_ways,
    set_scales,
    written,
)
from eqsolve.plotting.sweeps import plot_diagram, plot_sweep
from eqsolve.results.result import Result


def plot_kernel(result: Result, name: str, ways: Ways) -> Any:
    """Draw a function of t and t' in colours, the diagonal dashed; nothing where a response vanishes by causality."""
    axes, stored = new_axes(ways.ax), result.dataset[name]
    axis = time_axis(stored["row"].values, [stored.values.T], ways.logx)
    scale, times = axis.scale, axis.times(160)
    rows, columns = np.meshgrid(times, times, indexing="ij")
    values = result._two_time(name, np.stack([rows.ravel(), columns.ravel()], axis=1)).reshape(rows.shape)
    if not stored.attrs["symmetric"]:
        values = np.where(rows >= columns, values, np.nan)
    edges = edges_between(times, log=axis.log)
    largest = float(np.nanmax(np.abs(values))) or 1.0
    signed = np.nanmin(values) < -1e-3 * largest
    colours = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest} if signed else {"cmap": SEQUENTIAL}
    picture = axes.pcolormesh(edges, edges, values, rasterized=True, **{**colours, **ways.style})
    axes.plot(times, times, color="0.3" if signed else "white", lw=0.9, ls="--")
    now = written("t", result.latex)
    then = f"{now[:-1]}'$" if now.isascii() and now[1:-1].isalpha() else "$t'$"
    axes.set(xscale=scale, yscale=scale, xlabel=then, ylabel=now, aspect="equal")
    axes.figure.colorbar(picture, ax=axes, label=ways.label or written(name, result.latex, f"({now[1:-1]}, {then[1:-1]})"))
    return plain(axes, result)


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
    return plain(axes, result)


def plot_over_index(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw families of numbers, or tables, over their index, with error bars."""
    known = {**result.families, **result.tables}
    demand_known(names, known, "`{}` carries no index", "over an index there are")
    axes = new_axes(ways.ax)
    before = len(axes.lines)
    for place, name in enumerate(names):
        (index, *others) = known[name]
        if others:
            raise UsageError(f"`{name}` carries the indices {index}, {', '.join(others)}; a drawing is over one index")
        values, errors = result[name].values, result.error[name].values if name in result.families else None
        label = ways.label or written(name, result.latex)
        style = {"color": COLOURS[(before + place) % len(COLOURS)], "fmt": ".-", "label": label, **ways.style}
        axes.errorbar(np.arange(len(values)), values, yerr=errors, **style)
    axes.set(xlabel=f"${index}$", ylabel=written(names[0], result.latex) if len(names) == 1 else "")
    set_scales(axes, log_x=ways.logx, log_y=ways.logy)
    return plain(axes, result, legend=ways.legend(before + len(names)))


_CURVE, _KERNEL, _PATHS = ("t",), ("row", "column"), ("path", "t")
_WORDS: dict[Any, str] = {_CURVE: "a function of time", _KERNEL: "a function of two times", _PATHS: "a random process"}
_WORDS |= {(): "a number"}


def plot_result(result: Result, names: tuple[str, ...], **given: Any) -> Any:
    """Draw what was asked for, or what the result is about; return the axes."""
    ways = read_ways(**given)
    if len(names) == 1 and names[0] not in result.names and hasattr(result.source, "law"):
        axes = result.law(names[0]).plot(names[0], ax=new_axes(ways.ax), label=ways.label, **ways.style)
        set_scales(axes, log_x=ways.logx, log_y=ways.logy)
        axes.set_xlabel(written(names[0], result.latex))
        return plain(axes, result)
    sizes = {name: tuple(result.families[name].values()) for name in names if name in result.families}
    families = {name: {*member_names(name, shape)} for name, shape in sizes.items()}
    if (families and result.kind == "fixed point") or {*names} & result.tables.keys():
        return plot_over_index(result, names, ways)
    shown = [[m for m in result.shown if m in families[name]] if name in families else [name] for name in names]
    names = tuple(itertools.chain(*shown))
    demand_known(names, result.names, "`{}` is not in the result", "to draw there are")
    if result.kind in ("sweep", "diagram"):
        return (plot_sweep if result.kind == "sweep" else plot_diagram)(result, names, ways)
    if idle := [word for word in ("kind", "at", "x") if getattr(ways, word) is not None]:
        raise UsageError(f"{idle[0]}= is for a sweep, and this is the result of a single solve")
    if not names:
        curves, kernels, paths = (
            [name for name in result.shown if result.dataset[name].dims == dims] for dims in (_CURVE, _KERNEL, _PATHS)
        )
        names = (*(curves or kernels[:1] or paths[:1] or result._of_dims()),)
    return _plot(result, names, ways)


def plot_together(results: Mapping[str, Any], names: Sequence[str], **given: Any) -> Any:
    """Draw several results, by the names of their files, over each other, a panel for each quantity."""
    held = {file: _over_one_axis(file, result) for file, result in results.items()}
    first, *others = held.values()
    common = [name for name, axis in first.items() if all(other.get(name) == axis for other in others)]
    if not set(names or common) <= set(common) or not common:
        each = "; ".join(
            f"{file}: {', '.join(f'{n} over {a}' for n, a in has.items()) or 'nothing'}" for file, has in held.items()
        )
        raise UsageError(f"there is no {' and '.join(names) or 'quantity'} over the same axis in all files ({each})")
    shown = list(names) or common
    words = differences(list(results.values()))
    alike = len(set(words)) < len(words)  # (such as results of different tolerances)
    panels = make_panels(len(shown)) if len(shown) > 1 else [new_axes()]
    for name, axes in zip(shown, panels, strict=True):
        for file, result in results.items():
            result.plot(name, ax=axes, **given, **({"label": file} if alike else {}))
        given.setdefault("logx", axes.get_xscale() == "log")  # the same in every panel
        if not axes.get_ylabel():
            axes.set_ylabel(written(name, next(iter(results.values())).latex))
    return panels


def _over_one_axis(file: str, result: Any) -> dict[str, str]:
    """Return what a saved result has over time, or over the one axis of a sweep, with that axis."""
    kind = getattr(result, "kind", type(result).__name__)
    if kind == "Simulation":
        return dict.fromkeys(result.names, "t")
    if kind not in ("sweep", "dynamics"):
        raise UsageError(f"{file}: solves in time, sweeps over one axis and simulations are drawn together, not a {kind}")
    if kind == "dynamics":
        return {name: "t" for name in result.shown if result.dataset[name].dims == _CURVE}
    long = [str(dim) for dim in result.dataset["status"].dims if result.dataset.sizes[dim] > 1]
    return dict.fromkeys(result.shown, long[0]) if len(long) == 1 else {}


def _plot(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    kinds = {result.dataset[name].dims for name in names}
    if not kinds:
        raise UsageError(f"the result of `{result.model}` has nothing to draw")
    dims, *others = kinds
    if others:
        described = ", ".join(f"`{name}` is {_WORDS.get(result.dataset[name].dims, 'a table')}" for name in names)
        raise UsageError(f"one drawing shows one kind of thing: {described}")
    if dims in (_CURVE, ()):
        return (plot_curves if dims else plot_numbers)(result, names, ways)
    if len(names) > 1:
        what = _WORDS.get(dims, "a table")
        raise UsageError(f"a drawing shows {what} at a time; choose one, such as {names[0]}, of {', '.join(names)}")
    if dims == _KERNEL:
        return plot_kernel(result, names[0], ways)
    if is_process(result, names[0]):
        return plot_paths(result, names[0], ways)
    raise UsageError(f"`{names[0]}` lies over {', '.join(map(str, dims))}, for which there is no drawing")
