"""Fits in files: the data, the model at their times and between, and what was found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eqsolve.fitting.data import Data
from eqsolve.fitting.fit import Fit
from eqsolve.results.archive import write_dataset

if TYPE_CHECKING:
    import xarray as xr

_FIELDS = ("model", "parameters", "errors", "intervals", "correlations", "chi2", "freedom", "assumes", "solves", "latex")
_PARTS = ("data", "bar", "fit", "sigma", "line")  # of an observable: what was measured, its bars, the model, what was used


def save_fit(found: Fit, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file with one JSON record."""
    import xarray as xr

    data = found.data
    along = "place" if data.times is None else "t"
    dataset = xr.Dataset() if data.times is None else xr.Dataset(coords={"t": data.times})
    for name in data.names:
        dataset[f"{name}_data"] = (("draw", along), data.values[name])
        dataset[f"{name}_fit"] = (along, found.curves[name])
        dataset[f"{name}_sigma"] = (along, found.sigmas[name])
        if name in data.errors:
            dataset[f"{name}_bar"] = (along, data.errors[name])
        if found.lines:
            dataset[f"{name}_line"] = ("moment", found.lines[name])
    if found.lines:
        dataset = dataset.assign_coords(moment=("moment", found.lines["t"]))
    record = {"kind": "fit", "names": data.names, **{name: getattr(found, name) for name in _FIELDS}}
    write_dataset(dataset, record, path)


def read_fit(dataset: xr.Dataset, record: Mapping[str, Any]) -> Fit:
    """Return the fit of a file's values and record."""
    names = tuple(record["names"])
    bars, fits, sigmas, lines = (
        {name: dataset[f"{name}_{part}"].values for name in names if f"{name}_{part}" in dataset} for part in _PARTS[1:]
    )
    data = Data(
        dataset["t"].values if "t" in dataset.coords else None, {name: dataset[f"{name}_data"].values for name in names}, bars
    )
    fields = {name: record[name] for name in _FIELDS}
    fields["intervals"] = {name: tuple(pair) for name, pair in fields["intervals"].items()}
    drawn = {"t": dataset["moment"].values, **lines} if lines else {}
    return Fit(data=data, curves=fits, sigmas=sigmas, lines=drawn, **fields)
