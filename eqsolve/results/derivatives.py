"""Derivatives along parameters in a result: which of its values they are, and how they are read.

In the dataset a derivative is a variable of its own, its attributes saying of what it is (``derivative_of``) and along what
(``along``); its error stands under the same name with ``_error``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import Array

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.passes.rewrite.sensitivity import NamedDerivative
    from eqsolve.results.result import Result

OF, ALONG = "derivative_of", "along"
_ERROR = "_error"


def with_derivatives(result: Result, companions: Sequence[NamedDerivative]) -> Result:
    """Return a result in which the derivatives are known as such."""
    data = result.dataset.copy(deep=False)
    for item in companions:
        if item.name in data:
            data[item.name] = data[item.name].assign_attrs({OF: item.of, ALONG: item.parameter})
    return replace(result, table=data)


def refuse_kinks(switches: Result) -> None:
    """Raise where an observable sits on a kink, or crosses one: there it has no derivative.

    ``switches`` are the arguments of the non-smooth functions in the observables, named by these.
    """
    for name in switches._of_dims("t"):
        if " (" not in name:
            continue
        values = np.asarray(switches.dataset[name].values, float)
        errors = np.asarray(switches.dataset[name + _ERROR].values, float)
        on = np.abs(values) <= np.maximum(errors, 1e-12 * np.abs(values).max(initial=0.0))
        on[1:] |= np.sign(values[1:]) != np.sign(values[:-1])
        if on.any():
            time = float(switches.dataset["t"].values[on.argmax()])
            raise UsageError(
                f"`{name.split(' (')[0]}` has a kink near t = {time:.3g}, and no derivative there; "
                "leave it out (observables=), or end before that time"
            )


def _put(data: xr.Dataset, dims: Any, name: str, parameter: str, value: Any, error: Any) -> None:
    key = f"{name}_d_{parameter}"
    data[key], data[key + _ERROR] = (dims, value, {OF: name, ALONG: parameter}), (dims, error)


def with_scalar_derivatives(result: Result, table: Mapping[str, Mapping[str, tuple[float, float]]]) -> Result:
    """Return a result of scalars with derivatives (value, error) by parameter and name."""
    data = result.dataset.copy(deep=False)
    for parameter, entries in table.items():
        for name, pair in entries.items():
            _put(data, (), name, parameter, *pair)
    return replace(result, table=data)


def with_differences(result: Result, parameter: str, step: float, near: Sequence[Result]) -> Result:
    """Return a result with derivatives along a parameter from four others, at −step, −step/2, step/2 and step.

    Two central differences are extrapolated; the error is what that changes, and what errors of the values make of it.
    """
    data = result.dataset.copy(deep=False)
    nodes = None if result.grid is None else result.grid.nodes
    tables = [item.dataset if nodes is None else item.at(np.minimum(nodes, item.grid.nodes[-1])) for item in near]  # type: ignore[union-attr]
    for name in result.names:
        if data[name].dims in ((), ("t",)) and all(name in table for table in tables):
            values, errors = ([item[name + end].values for item in tables] for end in ("", _ERROR))
            wide, narrow = (values[3] - values[0]) / (2 * step), (values[2] - values[1]) / step
            slope = (4 * narrow - wide) / 3
            size = np.abs(slope - narrow) + (4 * (errors[1] + errors[2]) / step + (errors[0] + errors[3]) / (2 * step)) / 3
            _put(data, data[name].dims, name, parameter, slope, size)
    return replace(result, table=data)


def width_limit(results: Sequence[Result]) -> Result:
    """Return the limit of three results, each with half the width of the one before, as the last one with other values.

    The limit is between what a width to the second power leaves and what the first power does, or a slower one where the
    results say so; the middle is returned, the distance to both ends is in the error. What has no limit is left out.
    """
    fine = results[-1]
    assert fine.grid is not None
    data, nodes = fine.dataset.copy(deep=False), fine.grid.nodes
    pairs = [(float(one), float(other)) for one in nodes for other in nodes]
    for name in fine.names:
        if (dims := data[name].dims) not in (("t",), ("row", "column")):
            continue
        tables = [item.at(nodes) if dims == ("t",) else item.at2(pairs) for item in results]
        first, second, third = (table[name].values.reshape(data[name].shape) for table in tables)
        coarse, error = (table[name + _ERROR].values.reshape(data[name].shape) for table in tables[1:])
        moved = float(np.abs(third - second).max())
        if (ratio := float(np.abs(second - first).max()) / max(moved, 1e-300)) < 1 and moved > (coarse + error).max():
            data = data.drop_vars([name, name + _ERROR])
            continue
        slow, fast = 1 / (min(max(ratio, 1.25), 2.0) - 1), 1 / 3
        share = (slow + fast) / 2
        data[name] = (dims, third + share * (third - second), data[name].attrs)
        left = (slow - fast) / 2 * np.abs(third - second)
        data[name + _ERROR] = (dims, left + (1 + share) * error + share * coarse)
    return replace(fine, table=data)


def derivative_keys(data: Mapping[Any, Any]) -> dict[tuple[str, str], str]:
    """Return the names of the derivatives among variables, by (value, parameter)."""
    attrs = {str(key): entry.attrs for key, entry in data.items() if ALONG in entry.attrs}
    return {(str(marks[OF]), str(marks[ALONG])): key for key, marks in attrs.items()}


def read_derivative(result: Result, what: str, parameter: str) -> xr.DataArray | None:
    """Return a derivative with its error as the coordinate ``error``; None where none was asked for."""
    keys = derivative_keys(result.dataset)
    if not keys:
        return None
    if (what, parameter) not in keys:
        along = sorted({name for _, name in keys})
        how = f"solve with derivatives=[..., {parameter!r}]"
        demand_known([parameter], along, f"the result has no derivative along `{{}}`, {how}", "it has those along")
        has = [name for name, other in keys if other == parameter]
        demand_known([what], has, "the result has no derivative of `{}`", "it has those of")
    key = keys[what, parameter]
    slope, errors = result.dataset[key].rename(what), result.dataset.get(key + _ERROR)
    slope = slope if errors is None else slope.assign_coords(error=(slope.dims, errors.values))
    return slope.rename(row="t", column="t'") if "row" in slope.dims else slope


def derivative_table(data: Mapping[Any, Any], keys: Mapping[tuple[str, str], str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return ``derivatives`` and ``derivative_errors`` by parameter and name, as plain numbers."""
    table: dict[str, dict[str, dict[str, Any]]] = {"derivatives": {}, "derivative_errors": {}}
    for (name, parameter), key in keys.items():
        for part, entry in (("derivatives", key), ("derivative_errors", key + _ERROR)) if key in data else ():
            table[part].setdefault(parameter, {})[name] = np.asarray(data[entry].values, float).tolist()
    return table


def with_spread(result: Result, deviations: Mapping[str, float]) -> Result:
    """Return a result whose errors hold what the deviations of parameters make of the values, to first order.

    The errors are added as those of independent causes; ``stats["deviations"]`` records the parameters'.
    """
    data = result.dataset.copy(deep=False)
    for (name, parameter), key in derivative_keys(data).items():
        if parameter in deviations and name + _ERROR in data and data[key].dims == data[name].dims:
            spread = np.hypot(data[name + _ERROR].values, deviations[parameter] * data[key].values)
            data[name + _ERROR] = (data[name].dims, spread)
    return replace(result, table=data, stats={**result.stats, "deviations": dict(deviations)})


# --- A sweep between its points: by the derivatives that were solved for, with the error of that.
def between(result: Result, asked: Mapping[str, Any]) -> xr.Dataset:
    """Return all values of a sweep at other parameters of one axis, by cubics through its points with their slopes."""
    axes = [str(dim) for dim in result.dataset["status"].dims] if result.kind == "sweep" else []
    if not axes:
        raise UsageError(f"between() is for sweeps, and this is a {result.kind} of `{result.model}`; solve again, or sweep")
    if len(asked) != 1:
        raise UsageError(f"between() takes new values of one axis, such as between({axes[0]}=0.5), got {len(asked)} of them")
    [(axis, wanted)] = asked.items()
    demand_known([axis], axes, "the sweep has no axis `{}`")
    if not any(along == axis for _, along in derivative_keys(result.dataset)):
        raise UsageError(f"the sweep has no derivatives along `{axis}`: sweep with derivatives=[{axis!r}]")
    nodes, x = (np.asarray(values, float) for values in (result.dataset[axis].values, np.atleast_1d(wanted)))
    if len(nodes) < 3:
        raise UsageError(f"between() needs three values of `{axis}` to tell its error, and the sweep has {len(nodes)}")
    low, high = float(nodes.min()), float(nodes.max())
    if len(bad := x[~((x >= low) & (x <= high))]):
        raise UsageError(f"{axis} = {bad[0]:g} lies outside the sweep, which goes from {low:g} to {high:g}")
    table = interpolate(result.dataset, axis, x)
    return table.isel({axis: 0}) if np.ndim(wanted) == 0 else table


def interpolate(data: xr.Dataset, axis: str, x: Array) -> xr.Dataset:
    """Return everything whose derivative along an axis is known at other values inside it, with errors."""
    import xarray as xr

    data = data.sortby(axis)
    variables: dict[str, Any] = {}
    nodes = np.asarray(data[axis].values, float)
    log = is_geometric(nodes)
    to = np.log if log else np.asarray  # a geometric axis is taken in its logarithm
    for (name, along), key in derivative_keys(data).items():
        if along != axis:
            continue
        dims, place = data[name].dims, data[name].dims.index(axis)
        y, y_error, s, s_error = (np.moveaxis(data[k].values, place, 0) for k in (name, name + _ERROR, key, key + _ERROR))
        scale = nodes.reshape(-1, *(1,) * (len(dims) - 1)) if log else 1.0  # d/d log x = x d/dx
        known = (y, y_error), (scale * s, scale * s_error)
        value, error = interpolate_with_slopes(to(x), to(nodes), *known)
        variables |= {name: (dims, np.moveaxis(value, 0, place)), name + _ERROR: (dims, np.moveaxis(error, 0, place))}
    other = {key: value for key, value in data.coords.items() if axis not in value.dims}
    return xr.Dataset(variables, coords={**other, axis: x})


# --- Interpolation between few nodes whose slopes are known too, by cubic Hermite pieces.
#
# On a piece of length h the error is f''''/24 (x − a)² (b − x)², at most f'''' h⁴/384 (de Boor, A
# Practical Guide to Splines, 1978). f''''/24 is estimated by leaving one node out: the cubic
# through its two neighbours misses the value there by that times the squared product of the two
# lengths.

Between = tuple[Array, Array]
"""Values and their errors."""


def is_geometric(nodes: Array) -> bool:
    """Whether nodes are spread more evenly by their logarithms than as they are."""
    if len(nodes) < 3 or np.any(nodes <= 0):
        return False
    steps, ratios = np.diff(nodes), np.diff(np.log(nodes))
    return bool(np.ptp(ratios) < 0.5 * np.ptp(steps) / np.mean(np.abs(steps)) * np.mean(np.abs(ratios)))


def interpolate_with_slopes(x: Array, nodes: Array, values: Between, slopes: Between) -> Between:
    """Return values at x, and their errors, given those at increasing nodes with their slopes along the first axis.

    The errors are the nodes' own, what those of the slopes make of a value (at most 4/27 of a
    piece's length each), and what cubic pieces leave.
    """
    place = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, len(nodes) - 2)
    (y, y_error), (s, s_error) = values, slopes
    wide = (slice(None), *(None,) * (y.ndim - 1))
    left, length = nodes[place][wide], np.diff(nodes)[place][wide]
    u = (x[wide] - left) / length
    fourth = _fourth_derivatives(nodes, y, s)
    rest = np.maximum(fourth[place], fourth[place + 1]) * (u * (1 - u) * length**2) ** 2
    slack = u * (1 - u) * length * ((1 - u) * s_error[place] + u * s_error[place + 1])
    share = u**2 * (3 - 2 * u)
    own = (1 - share) * y_error[place] + share * y_error[place + 1]
    value = _piece(u, length, y[place], y[place + 1], s[place], s[place + 1])
    return value, own + slack + 2.0 * rest  # f'''' differs from piece to piece


def _piece(u: Array, length: Array, y0: Array, y1: Array, s0: Array, s1: Array) -> Array:
    """Return the cubic with given values and slopes at both ends, at the share u of its length."""
    first = (1 + 2 * u) * (1 - u) ** 2 * y0 + u**2 * (3 - 2 * u) * y1
    return np.asarray(first + length * (u * (1 - u) ** 2 * s0 - u**2 * (1 - u) * s1))


def _fourth_derivatives(nodes: Array, y: Array, s: Array) -> Array:
    """Return |f''''|/24 at every node: found at the inner ones, and the nearest of these at the ends."""
    wide = (slice(None), *(None,) * (y.ndim - 1))
    before, after = np.diff(nodes)[:-1], np.diff(nodes)[1:]
    length = (before + after)[wide]
    guess = _piece(before[wide] / length, length, y[:-2], y[2:], s[:-2], s[2:])
    inner = np.abs(guess - y[1:-1]) / ((before * after) ** 2)[wide]
    return np.concatenate([inner[:1], inner, inner[-1:]])
