"""Fits in files: the data, the model at their times and between, and what was found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eqsolve.fitting.data import Data
from eqsolve.fitting.fit import Fit, FitSet
from eqsolve.results.archive import write_dataset

if TYPE_CHECKING:
    import xarray as xr

_FIELDS = (
    "model", "parameters", "errors", "intervals", "correlations", "chi2", "freedom", "at_edge", "assumes", "solves", "latex",
)  # fmt: skip
_PARTS = ("data", "bar", "fit", "sigma", "line")  # of an observable: what was measured, its bars, the model, what was used


def save_fit(found: Fit, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file with one JSON record; the names of a second set of data end in ``@2``."""
    import xarray as xr

    made: dict[str, Any] = {}
    for number, item in enumerate(found.sets, 1):
        end = f"@{number}" if number > 1 else ""
        data = item.data
        along, moment = "t" + end if data.times is not None else "place" + end, "moment" + end
        made |= {} if data.times is None else {along: (along, data.times)}
        made |= {moment: (moment, item.lines["t"])} if item.lines else {}
        for name in data.names:
            parts = (data.values[name], data.errors.get(name), item.curves[name], item.sigmas[name], item.lines.get(name))
            dims = (("draw" + end, along), along, along, along, moment)
            entries = zip(_PARTS, dims, parts, strict=True)
            made |= {f"{name}_{part}{end}": (dim, values) for part, dim, values in entries if values is not None}
    sets = [{"names": item.data.names, "settings": item.settings} for item in found.sets]
    record = {"kind": "fit", "sets": sets, **{name: getattr(found, name) for name in _FIELDS}}
    write_dataset(xr.Dataset(made), record, path)


def read_fit(dataset: xr.Dataset, record: Mapping[str, Any]) -> Fit:
    """Return the fit of a file's values and record."""
    sets = []
    for number, entry in enumerate(record["sets"], 1):
        end = f"@{number}" if number > 1 else ""
        values, bars, fits, sigmas, lines = (
            {name: dataset[key].values for name in entry["names"] if (key := f"{name}_{part}{end}") in dataset}
            for part in _PARTS
        )
        data = Data(dataset["t" + end].values if "t" + end in dataset else None, values, bars)
        drawn = {"t": dataset["moment" + end].values, **lines} if lines else {}
        sets.append(FitSet(data, entry["settings"], fits, sigmas, drawn))
    fields = {name: record[name] for name in _FIELDS}
    fields["intervals"] = {name: tuple(pair) for name, pair in fields["intervals"].items()}
    return Fit(sets=tuple(sets), **fields)
