"""A sweep between its points: by the derivatives that were solved for, with the error of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.slopes import interpolate_with_slopes, is_geometric
from eqsolve.results.derivatives import ALONG, OF, derivative_keys

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.results.result import Result

__all__ = ["between", "derivative_entries", "interpolate"]

_ERROR = "_error"


def between(result: Result, asked: Mapping[str, Any]) -> xr.Dataset:
    """Return all values of a sweep at other parameters of one axis, by cubic pieces through its points with their slopes."""
    axes = [str(dim) for dim in result.dataset["status"].dims] if result.kind == "sweep" else []
    if not axes:
        raise UsageError(f"between() is for sweeps, and this is a {result.kind} of `{result.model}`; solve again, or sweep")
    if len(asked) != 1:
        raise UsageError(f"between() takes new values of one axis, such as between({axes[0]}=0.5), got {len(asked)} of them")
    [(axis, wanted)] = asked.items()
    if axis not in axes:
        raise UsageError(f"the sweep has no axis `{axis}`{did_you_mean(axis, axes)} (it has: {', '.join(axes)})")
    if not any(along == axis for _, along in derivative_keys(result.dataset)):
        raise UsageError(f"the sweep has no derivatives along `{axis}`: sweep with derivatives=[{axis!r}]")
    nodes = np.asarray(result.dataset[axis].values, float)
    x = _inside(np.atleast_1d(np.asarray(wanted, float)), nodes, axis)
    made = interpolate(result.dataset, axis, x)
    return made.isel({axis: 0}) if np.ndim(wanted) == 0 else made


def interpolate(data: xr.Dataset, axis: str, x: Array) -> xr.Dataset:
    """Return everything whose derivative along an axis is known at other values inside it, with errors."""
    import xarray as xr

    nodes, made = np.asarray(data[axis].values, float), {}
    log = is_geometric(np.sort(nodes))
    for (name, along), key in derivative_keys(data).items():
        if along != axis:
            continue
        entry = data[name]
        place = entry.dims.index(axis)
        tables = [np.moveaxis(data[item].values, place, 0) for item in (name, name + _ERROR, key, key + _ERROR)]
        for item, table in zip((name, name + _ERROR), _along(x, nodes, tables, log=log), strict=True):
            made[item] = (entry.dims, np.moveaxis(table, 0, place))
    kept = {key: value for key, value in data.coords.items() if axis not in value.dims}
    return xr.Dataset(made, coords={**kept, axis: x})


def _inside(x: Array, nodes: Array, axis: str) -> Array:
    if len(nodes) < 3:
        raise UsageError(f"between() needs three values of `{axis}` to tell its error, and the sweep has {len(nodes)}")
    low, high = float(nodes.min()), float(nodes.max())
    if not ((x >= low) & (x <= high)).all():
        bad = x[~((x >= low) & (x <= high))][0]
        raise UsageError(f"{axis} = {bad:g} lies outside the sweep, which goes from {low:g} to {high:g}")
    return x


def _along(x: Array, nodes: Array, tables: list[Array], *, log: bool) -> tuple[Array, Array]:
    """Return values and errors at x; nodes may come in any order, and are taken by their logarithm if ``log``."""
    order = np.argsort(nodes)
    y, y_error, s, s_error = (table[order] for table in tables)
    at = nodes[order]
    if log:
        scale = at.reshape(-1, *(1,) * (y.ndim - 1))
        x, at, s, s_error = np.log(x), np.log(at), s * scale, s_error * scale
    return interpolate_with_slopes(x, at, (y, y_error), (s, s_error))


def derivative_entries(records: list[dict[str, Any]], length: tuple[int, ...]) -> dict[str, tuple[Array, dict[str, str]]]:
    """Return the derivatives that points of a sweep hold, by name, with what marks them as such."""
    made: dict[str, tuple[Array, dict[str, str]]] = {}
    tables = [item for record in records for item in record.get("slopes", {}).items()]
    for name, along in dict.fromkeys((name, along) for along, table in tables for name in table):
        for part, end in (("slopes", ""), ("slope_errors", _ERROR)):
            rows = [record.get(part, {}).get(along, {}).get(name, np.full(length, np.nan)) for record in records]
            made[f"{name}_d_{along}{end}"] = (np.array(rows, dtype=float), {} if end else {OF: name, ALONG: along})
    return made
