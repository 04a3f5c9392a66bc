"""Data to fit: observables at times, with error bars, or in several draws; from a table, a file or a simulation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.microscopic.simulation import Simulation
from eqsolve.numerics.arrays import Array

_ERROR = "_error"
_DRAWS = ("seed", "draw", "run")


@dataclass(frozen=True, eq=False)
class Data:
    """Observables on (draw, time), and the error bars of their means where they were given.

    ``times`` is None for numbers without a time.
    """

    times: Array | None
    values: dict[str, Array]
    errors: dict[str, Array]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def draws(self) -> int:
        return len(next(iter(self.values.values())))

    def cut(self, at: Iterable[float] | None, names: Iterable[str] | None) -> Data:
        """Return some of the observables, at some of the times."""
        chosen = self.names if names is None else tuple(names)
        demand_known(chosen, self.values, "the data have no `{}`", "they have")
        keep = slice(None)
        if at is not None:
            if self.times is None:
                raise UsageError("times are asked for, and the data have none")
            places = []
            for moment in at:
                place = int(np.argmin(np.abs(self.times - moment)))
                if abs(self.times[place] - moment) > 1e-9 * max(1.0, abs(moment)):
                    raise UsageError(f"the data have no time {moment:g}; they have {_listed(self.times)}")
                places.append(place)
            keep = places  # type: ignore[assignment]
        times = None if self.times is None else self.times[keep]
        errors = {name: self.errors[name][keep] for name in chosen if name in self.errors}
        return Data(times, {name: self.values[name][:, keep] for name in chosen}, errors)


def _listed(times: Array) -> str:
    shown = ", ".join(f"{moment:g}" for moment in times[:8])
    return f"{shown}, ..." if len(times) > 8 else shown


def read_data(data: Any) -> Data:
    """Return data from a CSV file, a DataFrame, an xarray Dataset, a table of columns, or a Simulation.

    A table has a column ``t``, one for each observable, error bars as ``NAME_error``, and, of several draws, a column
    ``seed`` (or ``draw``, ``run``).
    """
    if isinstance(data, Data):
        return data
    if isinstance(data, Simulation):
        return Data(np.asarray(data.t, float), {name: np.asarray(entry, float) for name, entry in data.values.items()}, {})
    if isinstance(data, str | os.PathLike):
        import pandas as pd

        path = Path(data)
        if not path.is_file():
            raise UsageError(f"data: there is no file {str(path)!r}")
        try:
            data = pd.read_csv(path, skipinitialspace=True)
        except (ValueError, UnicodeDecodeError) as reason:
            raise UsageError(f"data: {str(path)!r} cannot be read as a table of comma-separated values: {reason}") from None
    if hasattr(data, "data_vars") or (hasattr(data, "to_dataframe") and hasattr(data, "dims")):
        data = data.to_dataframe().reset_index()
    if hasattr(data, "columns"):
        columns = {str(name): data[name].to_numpy() for name in data.columns}
        if "t" not in columns and getattr(data.index, "name", None) == "t":
            columns["t"] = data.index.to_numpy()
    elif isinstance(data, Mapping):
        columns = {str(name): np.atleast_1d(np.asarray(entry)) for name, entry in data.items()}
    else:
        raise UsageError(
            f"data: expected a CSV file, a DataFrame, an xarray Dataset or a Simulation, got {type(data).__name__}"
        )
    return _from_columns(columns)


def _from_columns(columns: dict[str, Any]) -> Data:
    draw = next((name for name in _DRAWS if name in columns), None)
    try:
        numbers = {name: np.asarray(entry, float) for name, entry in columns.items() if name != draw}
    except (TypeError, ValueError):
        raise UsageError("data: every column must hold numbers") from None
    names = [name for name in numbers if name != "t" and not name.endswith(_ERROR)]
    if not names or not len(numbers[names[0]]):
        raise UsageError(f"data: there is no column to fit; expected t and observables, got {', '.join(columns) or 'nothing'}")
    for name in names:
        if not np.isfinite(numbers[name]).all():
            raise UsageError(f"data: the column `{name}` has entries that are not finite numbers; leave those rows out")
    if "t" not in numbers:
        values = {name: numbers[name].reshape(-1, 1) for name in names}
        errors = {name: numbers[name + _ERROR][:1] for name in names if name + _ERROR in numbers}
        return Data(None, values, errors)
    labels = np.zeros(len(numbers["t"])) if draw is None else np.asarray(columns[draw])
    runs = [numbers["t"][labels == label] for label in np.unique(labels)]
    times = np.sort(runs[0])
    if len(np.unique(times)) != len(times) or any(
        len(run) != len(times) or not np.allclose(np.sort(run), times) for run in runs
    ):
        raise UsageError("data: every draw must have the same times, each once; name the draws in a column `seed`")
    order = [np.flatnonzero(labels == label)[np.argsort(run)] for label, run in zip(np.unique(labels), runs, strict=True)]
    values = {name: np.stack([numbers[name][rows] for rows in order]) for name in names}
    errors = {name: numbers[name + _ERROR][order[0]] for name in names if name + _ERROR in numbers}
    for name, entry in errors.items():
        if not (entry > 0).all():
            raise UsageError(f"data: the error bars of `{name}` must be positive")
    return Data(times, values, errors)
