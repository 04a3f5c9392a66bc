"""Validations as files: the theory's result, and beside it what finite sizes gave, in one netCDF file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from eqsolve.results.archive import save
from eqsolve.results.result import Result
from eqsolve.validation.comparison import Comparison, Validation

if TYPE_CHECKING:
    import xarray as xr

_ARRAYS = ("theory", "theory_error", "simulation", "standard_error", "bias", "bias_error", "z", "detectable")
_FIELDS = ("kind", "verdict", "d", "n", "seeds", "data", "wasserstein", "notes", "stats", "law_picture")
_MARK = "finite_size_"


def save_validation(found: Validation, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file; what was compared lies over ``compared``, the times of the comparison, and ``draw``."""
    import xarray as xr

    assert found.result is not None
    data: dict[str, Any] = {}
    for name, item in found.observables.items():
        data |= {f"{_MARK}{name}_{part}": ("compared", getattr(item, part)) for part in _ARRAYS}
        if name in found.spread:
            data[f"{_MARK}{name}_draws"] = (("draw", "compared"), found.spread[name])
    coordinates = {} if found.t is None else {"compared": found.t}
    record = {
        "observables": {name: item.verdict for name, item in found.observables.items()},
        "timed": found.t is not None,
        **{name: getattr(found, name) for name in _FIELDS},
    }
    save(found.result, path, beside=xr.Dataset(data, coords=coordinates), more={"validation": record})


def read_validation(
    dataset: xr.Dataset, record: Mapping[str, Any], read_result: Callable[[xr.Dataset, Any], Result]
) -> Validation:
    """Return the validation of a file's values and record; the laws themselves are not kept, their picture is."""
    about = record["validation"]
    beside = [str(key) for key in dataset.variables if str(key).startswith(_MARK)]
    values = {key: dataset[key].values for key in beside}
    times = dataset["compared"].values if about["timed"] else None
    alone = dataset.drop_vars([*beside, *(["compared"] if about["timed"] else [])])
    result = read_result(alone, record)
    observables = {
        name: Comparison(verdict=verdict, **{part: values[f"{_MARK}{name}_{part}"] for part in _ARRAYS})
        for name, verdict in about["observables"].items()
    }
    spread = {name: values[f"{_MARK}{name}_draws"] for name in observables if f"{_MARK}{name}_draws" in values}
    fields = {name: about[name] for name in _FIELDS}
    fields["notes"] = tuple(fields["notes"])
    return Validation(
        model=result.model, params=result.params, observables=observables, t=times, result=result, spread=spread, **fields
    )
