"""A page without a server: its sliders interpolate a sweep, and the bands hold the error of that."""

import base64
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import krogh_interpolate
from scipy.ndimage import maximum_filter1d

from eqsolve.errors import UsageError, logger
from eqsolve.explorer.describe import TIMED, Control, describe, list_controls, observable_names, render
from eqsolve.files.atomic import atomic_path
from eqsolve.language.model import Model
from eqsolve.numerics.arrays import Array, over_neighbours
from eqsolve.numerics.grids import DRAWN, ROWS, sample_times
from eqsolve.plotting.curves import time_axis
from eqsolve.results.derivatives import is_geometric
from eqsolve.results.result import Result
from eqsolve.results.words import TELLING
from eqsolve.sweeping.run import read_axes, sweep

SMOOTH = 5.0  # how much less than a line a cubic misses where a dependence counts as smooth


def default_grid(model: Model, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the axes of a page whose grid was left open: the first parameters by name that are not set.

    What is positive runs from a quarter of its default to four times it; others as their sliders do.
    """
    numbers = [item for item in list_controls(model) if item.kind == "number" and not item.whole]
    free = [item for item in numbers if item.low is not None and item.name not in settings]
    if not free:
        raise UsageError(
            f"model `{model.name}` has no parameter to move; name what the sliders run over: --grid NAME=FIRST:LAST:COUNT"
        )
    axes = {}
    for item in free[:2]:  # more axes would take too many solves
        low, high = item.low or 0.0, item.high or 0.0
        if item.scale == "log":
            low, high = max(low, float(item.value) / 4), min(high, 4 * float(item.value))
        axes[item.name] = f"{low:g}:{high:g}:{ROWS + 1}:{item.scale}"
    return axes


def export_page(
    model: Model, path: Path, *, grid: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None, t_max: float | None = None, rtol: float = 1e-3,
    observables: list[str] | None = None, workers: int = 1, progress: Any = None,
) -> Result:  # fmt: skip
    """Solve a sweep and write the page over it; return the sweep."""
    fixed = dict(settings or {})
    axes = dict(grid) if grid else default_grid(model, fixed)
    asked: dict[str, Any] = {}
    if model.kind in TIMED:
        last = 10.0 if t_max is None else t_max
        if model.start == 0:
            asked["at"] = sorted({float(f"{moment:.4g}") for moment in sample_times(0.0, last, DRAWN // 2)})
        else:
            asked["t_max"] = last
    controls = {item.name: item for item in list_controls(model)}
    for axis in read_axes(model, axes):  # refused before anything is solved
        _axis(axis.name, np.array(axis.labels), controls.get(axis.name))
    result = sweep(model, axes, params=fixed, rtol=rtol, workers=workers, progress=progress, observables=observables, **asked)
    if result.stats["failed"] == result.stats["points"]:
        raise UsageError(f"no point of the grid could be solved; {result.message}")
    about = describe(model)
    about["spoken"] = Path(about["spoken"]).name  # the page goes elsewhere, where the folders of this machine mean nothing
    data = pack(result, controls, observable_names(model))
    if advice := advise(data):
        logger.warning("%s", advice)
    with tempfile.TemporaryDirectory(prefix="eqsolve-export-") as folder:
        result.save(file := Path(folder, "sweep.nc"))
        netcdf = base64.b64encode(file.read_bytes()).decode()
    config = {
        "mode": "export", "model": about, "data": data, "advice": advice, "netcdf": netcdf,
        "begin": {"settings": {name: str(value) for name, value in fixed.items()}, "t_max": t_max or 10.0, "rtol": rtol},
    }  # fmt: skip
    with atomic_path(path) as temporary:
        Path(temporary).write_text(render(config, title=f"{model.name} · eqsolve", connect=False), encoding="utf-8")
    return result


def pack(result: Result, controls: Mapping[str, Control], first: list[str]) -> dict[str, Any]:
    """Return a sweep for the page: every quantity as one row of numbers, the last axis running fastest."""
    data = result.dataset
    axes = [_axis(str(dim), data[dim].values, controls.get(str(dim))) for dim in data["status"].dims]
    places = [axis["nodes"] if axis["kind"] == "number" else None for axis in axes]
    packed: dict[str, Any] = {"axes": axes, "t": None, "quantities": {}}
    if "t" in data.coords:
        packed["t"] = data["t"].values.tolist()
        packed["log"] = time_axis(data["t"].values, [data[name].values for name in result.shown]).log
    for name in sorted(result.shown, key=lambda name: first.index(name) if name in first else len(first)):
        values, errors = data[name].values, data[f"{name}_error"].values
        log = bool(np.all(values[np.isfinite(values)] > 0))
        between = interpolation_errors(np.log(values) if log else values, places)
        if packed["t"] is not None:  # residuals may cross zero at single times
            between[..., 1:] = maximum_filter1d(between[..., 1:], 9, axis=-1)
        written = {"values": _short(values, 7), "errors": _short(errors / values if log else errors, 2)}
        packed["quantities"][name] = {"log": log, **written, "between": _short(between, 2)}
    packed["messages"] = [str(text) for text in data["message"].values.ravel()]
    return packed


def advise(data: Mapping[str, Any]) -> str:
    """Return what to do about wide bands: where they are as high as a tenth of the curves, how many values would do.

    The error of a cubic falls like the fourth power of the distance between the values.
    """
    count = len(data.get("t") or [0])

    def widest(finer: float) -> float:
        """Return the largest share of a curve's height that is uncertain with values that are so much denser."""
        shares = [0.0]
        for curve in data["quantities"].values():
            values, between = (np.array(curve[key], dtype=float).reshape(-1, count) for key in ("values", "between"))
            errors = between / finer**4
            if curve["log"]:  # a value between the points is hardly larger than all that are there
                errors = np.minimum(values * np.expm1(errors), np.nanmax(values, axis=0))
            height = np.nanmax(values) - min(np.nanmin(values), 0.0)
            shares.append(float(np.nanmax(errors, initial=0.0)) / height if height > 0 else 0.0)
        return max(shares)

    sliders = {axis["name"]: len(axis["nodes"]) - 1 for axis in data["axes"] if axis["kind"] == "number"}
    if widest(1) < TELLING or not sliders:
        return ""
    finer = next((times for times in (1.5, 2, 3, 4) if widest(times) < TELLING), None)
    advice = "take a narrower range (--grid)"
    if finer is not None:
        enough = [f"{math.ceil(finer * steps) + 1} values of {name}" for name, steps in sliders.items()]
        advice = f"about {' and '.join(enough)} (--grid), or a narrower range, would do"
    counts = ", ".join(f"{name}: {steps + 1} values" for name, steps in sliders.items())
    return f"interpolation is uncertain by up to {widest(1):.0%} of a curve's height ({counts}); {advice}"


def _axis(name: str, labels: Array, control: Control | None) -> dict[str, Any]:
    """Return an axis: numbers to interpolate between, in the slider's coordinate, or words to choose among."""
    numeric = labels.dtype.kind in "fiu" and not (control is not None and control.whole)
    if not numeric or len(labels) == 1:
        words = [f"{label:.12g}" if numeric else str(label) for label in labels.tolist()]
        return {"name": name, "kind": "choice", "labels": words, "nodes": []}
    values = np.asarray(labels, dtype=float)
    if len(values) == 2 or np.any(np.diff(values) <= 0):
        raise UsageError(
            f"--grid {name}: a slider interpolates between at least 3 values in increasing order, got "
            f"{', '.join(f'{value:g}' for value in values)}"
        )
    scale, nodes = ("log", np.log(values)) if is_geometric(values) else ("lin", values)
    return {"name": name, "kind": "number", "scale": scale, "nodes": nodes.tolist()}


def interpolation_errors(values: Array, nodes: list[list[float] | None]) -> Array:
    """Return, at every point of a sweep, an estimate of the error of cubic interpolation around it.

    Leave-one-out cross-validation: along each axis a value is predicted by the cubic through its four nearest points. Half
    the residual is stated where the dependence is smooth (that of a line through the two neighbours is five times as
    large), else three halves: the true error stays below twice what is stated. Of fewer than six points fewer predict.
    Axes add up. Ends take the residuals of their neighbours; ``None`` marks a choice.
    """
    total = np.zeros(values.shape)
    for axis, places in enumerate(nodes):
        if places is not None:
            along, counts = np.moveaxis(values, axis, 0), (max(2, min(4, len(places) - 2)), 2)
            cubic, linear = (over_neighbours(_missed(along, places, count), 1, np.max, [0]) for count in counts)
            total += np.moveaxis(np.where(SMOOTH * cubic <= linear, 0.5 * cubic, 1.5 * cubic), 0, axis)
    return total


def _missed(values: Array, places: list[float], count: int) -> Array:
    """Return how far each value is from the polynomial through the ``count`` points nearest to it."""
    gaps, last = np.empty(values.shape), len(places) - 1
    for j in range(1, last):
        first = min(max(j - count // 2, 0), max(last - count, 0))
        others = [k for k in range(first, min(first + count, last) + 1) if k != j]
        gaps[j] = np.abs(values[j] - krogh_interpolate(np.array(places)[others], values[others], places[j]))
    gaps[0], gaps[-1] = gaps[1], gaps[-2]
    return gaps


def _short(values: Array, digits: int) -> list[float | None]:
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values.ravel().tolist()]
