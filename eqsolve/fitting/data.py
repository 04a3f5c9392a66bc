"""Data to fit: observables at times, with error bars, or in several draws."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.microscopic.simulate import Simulation
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
        places: Any = slice(None)
        if at is not None:
            if self.times is None:
                raise UsageError("times are asked for, and the data have none")
            wanted = np.array(list(at), dtype=float)
            places = np.abs(self.times - wanted[:, None]).argmin(axis=1)
            if len(missed := wanted[np.abs(self.times[places] - wanted) > 1e-9 * np.maximum(1.0, np.abs(wanted))]):
                known = ", ".join([*(f"{time:g}" for time in self.times[:8]), *["..."] * (len(self.times) > 8)])
                raise UsageError(f"the data have no time {missed[0]:g}; they have {known}")
        times = None if self.times is None else self.times[places]
        errors = {name: self.errors[name][places] for name in chosen if name in self.errors}
        return Data(times, {name: self.values[name][:, places] for name in chosen}, errors)


def read_data(data: Any) -> Data:
    """Return data from a CSV file, a DataFrame, an xarray Dataset, a table of columns, or a Simulation.

    A table has a column ``t``, one for each observable, error bars as ``NAME_error``, and, of several draws, a column
    ``seed`` (or ``draw``, ``run``).
    """
    if isinstance(data, Simulation):
        return Data(np.asarray(data.t, float), {name: np.asarray(entry, float) for name, entry in data.values.items()}, {})
    lines: list[int] = []
    if isinstance(data, str | os.PathLike):
        import pandas as pd

        path = Path(data)
        if not path.is_file():
            raise UsageError(f"data: there is no file {str(path)!r}")
        try:
            data = pd.read_csv(path, skipinitialspace=True)
            texts = path.read_text(encoding="utf-8").splitlines()
            lines = [number for number, text in enumerate(texts, 1) if text.strip()][1:]
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
    return _from_columns(columns, lines)


def _from_columns(columns: dict[str, Any], lines: Sequence[int]) -> Data:
    draw = next((name for name in _DRAWS if name in columns), None)
    numbers = {name: np.empty(len(entry)) for name, entry in columns.items() if name != draw}
    for name, column in numbers.items():
        for row, value in enumerate(columns[name]):
            try:
                column[row] = value
            except (TypeError, ValueError):
                where = f"line {lines[row]}" if row < len(lines) else f"row {row + 1}"
                hint = "; values are separated by commas, not `;`" if ";" in name else ""
                raise UsageError(f"data: {str(value)!r} in column `{name}`, {where}, is not a number{hint}") from None
    names = [name for name in numbers if name != "t" and not name.endswith(_ERROR)]
    if not names or not len(numbers[names[0]]):
        raise UsageError(f"data: there is no column to fit; expected t and observables, got {', '.join(columns) or 'nothing'}")
    if gaps := [name for name in names if not np.isfinite(numbers[name]).all()]:
        raise UsageError(f"data: the column `{gaps[0]}` has entries that are not finite numbers; leave those rows out")
    moments = numbers.get("t", np.zeros(len(numbers[names[0]])))
    labels = np.zeros(len(moments)) if draw is None else np.asarray(columns[draw])
    labels = labels if "t" in numbers else np.arange(len(moments))  # every row is a draw
    order = [rows[np.argsort(moments[rows])] for label in np.unique(labels) for rows in [np.flatnonzero(labels == label)]]
    times, *_ = runs = [moments[rows] for rows in order]
    if len(np.unique(times)) != len(times) or any(len(run) != len(times) or not np.allclose(run, times) for run in runs):
        raise UsageError("data: every draw must have the same times, each once; name the draws in a column `seed`")
    values = {name: np.stack([numbers[name][rows] for rows in order]) for name in names}
    errors = {name: numbers[name + _ERROR][order[0]] for name in names if name + _ERROR in numbers}
    if wrong := [name for name, entry in errors.items() if not (entry > 0).all()]:
        raise UsageError(f"data: the error bars of `{wrong[0]}` must be positive")
    return Data(times if "t" in numbers else None, values, errors)
