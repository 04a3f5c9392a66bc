"""Derivatives along parameters in a result: which of its values they are, and how they are read.

In the dataset a derivative stands beside the values, its attributes saying of what it is (``derivative_of``) and along what
(``along``); its error stands under the same name with ``_error``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from eqsolve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.results.result import Result

__all__ = [
    "ALONG",
    "derivative_keys",
    "derivative_table",
    "read_derivative",
    "refuse_kinks",
    "with_derivatives",
    "with_scalar_derivatives",
    "with_spread",
]

OF, ALONG = "derivative_of", "along"
_ERROR = "_error"


class Companion(Protocol):
    """What a name of a result stands for: the derivative of a value along a parameter."""

    @property
    def name(self) -> str: ...
    @property
    def of(self) -> str: ...
    @property
    def parameter(self) -> str: ...


def with_derivatives(result: Result, companions: Sequence[Companion]) -> Result:
    """Return a result in which the derivatives are known as such."""
    data = result.dataset.copy(deep=False)
    for item in companions:
        if item.name in data:
            data[item.name] = data[item.name].assign_attrs({OF: item.of, ALONG: item.parameter})
    fields = {**result.__dict__, "dataset": data}
    return type(result)(fields.pop("dataset"), **fields)


def refuse_kinks(switches: Result) -> None:
    """Raise where an observable sits on a kink, or crosses one: there it has no derivative.

    ``switches`` are the arguments of the bent functions in the observables, named by these.
    """
    for name in switches._of_dims("t"):
        if " (" not in name:
            continue
        values = np.asarray(switches.dataset[name].values, float)
        errors = np.asarray(switches.dataset[name + _ERROR].values, float)
        size = float(np.abs(values).max(initial=0.0))
        on = np.abs(values) <= np.maximum(errors, 1e-12 * size)
        on[1:] |= np.sign(values[1:]) != np.sign(values[:-1])
        if on.any():
            time = float(switches.dataset["t"].values[on.argmax()])
            raise UsageError(
                f"`{name.split(' (')[0]}` has a kink near t = {time:.3g}, and no derivative there; "
                "leave it out (observables=), or end before that time"
            )


def with_scalar_derivatives(result: Result, table: Mapping[str, Mapping[str, tuple[float, float]]]) -> Result:
    """Return a result of scalars with derivatives (value, error) by parameter and name."""
    data = result.dataset.copy(deep=False)
    for parameter, entries in table.items():
        for name, (value, error) in entries.items():
            key = f"{name}_d_{parameter}"
            data[key] = ((), value, {OF: name, ALONG: parameter})
            data[key + _ERROR] = ((), error)
    fields = {**result.__dict__, "dataset": data}
    return type(result)(fields.pop("dataset"), **fields)


def derivative_keys(data: xr.Dataset) -> dict[tuple[str, str], str]:
    """Return the names of the derivatives in a dataset, by (value, parameter)."""
    found = {str(key): entry.attrs for key, entry in data.data_vars.items() if ALONG in entry.attrs}
    return {(str(marks[OF]), str(marks[ALONG])): key for key, marks in found.items()}


def read_derivative(result: Result, what: str, parameter: str) -> xr.DataArray | None:
    """Return a derivative with its error as the coordinate ``error``; None where none was asked for."""
    keys = derivative_keys(result.dataset)
    if not keys:
        return None
    if (what, parameter) not in keys:
        along = sorted({name for _, name in keys})
        if parameter not in along:
            raise UsageError(
                f"the result has no derivative along `{parameter}`{did_you_mean(parameter, along)}; "
                f"solve with derivatives=[..., {parameter!r}] (it has those along: {', '.join(along)})"
            )
        has = [name for name, other in keys if other == parameter]
        near = did_you_mean(what, has)
        raise UsageError(f"the result has no derivative of `{what}`{near} (it has those of: {', '.join(has)})")
    key = keys[what, parameter]
    values, errors = result.dataset[key], result.dataset.get(key + _ERROR)
    made = values.rename(what)
    if errors is not None:
        made = made.assign_coords(error=(values.dims, errors.values))
    return made.rename(row="t", column="t'") if "row" in made.dims else made


def derivative_table(data: xr.Dataset, keys: Mapping[tuple[str, str], str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return ``derivatives`` and ``derivative_errors`` by parameter and name, as plain numbers."""
    made: dict[str, dict[str, dict[str, Any]]] = {"derivatives": {}, "derivative_errors": {}}
    for (name, parameter), key in keys.items():
        if key not in data:
            continue
        for part, entry in (("derivatives", key), ("derivative_errors", key + _ERROR)):
            made[part].setdefault(parameter, {})[name] = np.asarray(data[entry].values, float).tolist()
    return made


def with_spread(result: Result, deviations: Mapping[str, float]) -> Result:
    """Return a result whose errors hold what the deviations of parameters make of the values, to first order.

    The errors are added as those of independent causes; ``stats["deviations"]`` records the parameters'.
    """
    data = result.dataset.copy(deep=False)
    for (name, parameter), key in derivative_keys(data).items():
        if parameter in deviations and name + _ERROR in data and data[key].dims == data[name].dims:
            spread = np.hypot(data[name + _ERROR].values, deviations[parameter] * data[key].values)
            data[name + _ERROR] = (data[name].dims, spread)
    fields = {**result.__dict__, "dataset": data, "stats": {**result.stats, "deviations": dict(deviations)}}
    return type(result)(fields.pop("dataset"), **fields)
