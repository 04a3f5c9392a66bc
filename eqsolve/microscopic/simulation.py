"""`Simulation`: what finite-size runs of a flow gave, labelled like every other result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import checked, text
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, demand_known, did_you_mean
from eqsolve.numerics.arrays import Array
from eqsolve.verbs import later

if TYPE_CHECKING:
    import xarray as xr

_KEPT = "coordinates_"
_FIELDS = ("model", "n", "d", "params", "data", "step", "seed", "notes", "stats", "latex")


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Finite-size runs of a flow.

    Attributes
    ----------
    t
        The times reported.
    values
        Each observable on (draw, time).
    snapshots
        With ``keep=True``: for each draw and time, states, variables and constants on the d coordinates.
    n, d, params, data, step, seed
        What was run.
    notes
        What the user should know, such as a step beyond the stability limit.
    stats
        Seconds, evaluations of the drift, bytes held.
    latex
        How names are written in pictures and notebooks.

    Examples
    --------
    >>> import eqsolve
    >>> runs = eqsolve.load("dln_flow").simulate(d=40, delta=0.5, seeds=3, at=[1, 3], alpha=0.3)
    >>> runs["E_test"].dims
    ('draw', 't')
    >>> bool(runs.error["E_test"].sel(t=1) < runs.mean["E_test"].sel(t=1))
    True
    """

    model: str
    t: Array
    values: dict[str, Array]
    n: int
    d: int
    params: dict[str, Any]
    data: str
    step: float | None
    seed: int
    snapshots: tuple[tuple[dict[str, Array], ...], ...] = ()
    notes: tuple[str, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)
    latex: dict[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """How many independent draws there are."""
        return len(next(iter(self.values.values()), np.empty(0)))

    @property
    def names(self) -> tuple[str, ...]:
        """Every observable there is."""
        return tuple(self.values)

    @property
    def dataset(self) -> xr.Dataset:
        """All observables over draws and times."""
        import xarray as xr

        data = {name: (("draw", "t"), values) for name, values in self.values.items()}
        return xr.Dataset(data, coords={"draw": np.arange(self.seeds), "t": self.t})

    def __getitem__(self, name: str) -> xr.DataArray:
        if name not in self.values:
            has = ", ".join(self.values)
            raise KeyError(f"the simulation has no `{name}`{did_you_mean(name, self.values)} (it has: {has})")
        return self.dataset[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    @property
    def mean(self) -> Mapping[str, xr.DataArray]:
        """Each observable over time, averaged over the draws."""
        return {name: self[name].mean("draw") for name in self.values}

    @property
    def error(self) -> Mapping[str, xr.DataArray]:
        """The standard error of each mean; infinite for a single draw."""
        if self.seeds < 2:
            return {name: self[name].isel(draw=0, drop=True) * 0 + np.inf for name in self.values}
        return {name: self[name].std("draw", ddof=1) / self.seeds**0.5 for name in self.values}

    def coordinates(self, name: str, time: float) -> Array:
        """Return the values of a state, variable or constant on (draw, coordinate) at a reported time."""
        if not self.snapshots:
            raise UsageError("the run kept no coordinates; simulate with keep=True")
        place = int(np.argmin(np.abs(self.t - time)))
        if abs(self.t[place] - time) > 1e-9 * max(1.0, abs(time)):
            raise UsageError(f"the run has no time {time:g}; it reports {', '.join(f'{t:g}' for t in self.t)}")
        known = self.snapshots[0][place]
        demand_known([name], known, "the run has no `{}`")
        return np.stack([run[place][name] for run in self.snapshots])

    def to_dataframe(self) -> Any:
        """Return the observables as a pandas table, one row per draw and time."""
        return self.dataset.to_dataframe()

    def json_object(self) -> dict[str, Any]:
        """Return the runs as plain numbers and texts: of every observable its values over (draw, t)."""
        values = {name: np.asarray(item).tolist() for name, item in self.values.items()}
        return {**{name: getattr(self, name) for name in _FIELDS}, "t": self.t.tolist(), "values": values}

    def plot(
        self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None,
        label: str | None = None, **style: Any,
    ) -> Any:  # fmt: skip
        """Draw means over the draws as points with bars of one standard error; on the axes of a solve, over its curves.

        Parameters are those of ``Result.plot``; without names, every observable is drawn.
        """
        for name in names:
            text(name, "plot")
        return later("plot_simulation")(self, names, ax=ax, logx=logx, logy=logy, label=label, **style)

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which ``eqsolve.open`` reads back; or ``*.csv``, ``*.parquet`` or ``*.json``."""
        if later("write_table")(self, path):
            return
        dataset = self.dataset
        for name in self.snapshots[0][0] if self.snapshots and self.snapshots[0] else ():
            kept = np.array([[moment[name] for moment in run] for run in self.snapshots])
            dataset[_KEPT + name] = (("draw", "t", "coordinate"), kept)
        later("write_dataset")(dataset, {"kind": "simulation", **{name: getattr(self, name) for name in _FIELDS}}, path)

    @property
    def _how(self) -> str:
        how = "gradient flow" if self.step is None else f"step {self.step:g}"
        return f"n={self.n}, d={self.d}, {self.seeds} draw{'s' if self.seeds > 1 else ''}, {how}, {self.data}"

    def __repr__(self) -> str:
        return f"<Simulation of {self.model!r}: {self._how}: {', '.join(self.values)}>"

    def _repr_html_(self) -> str:
        from eqsolve.results.html import simulation_html

        return simulation_html(self)


def read_simulation(dataset: xr.Dataset, record: Mapping[str, Any]) -> Simulation:
    """Return the simulation of a file's values and record."""
    kept = {str(key).removeprefix(_KEPT): dataset[key].values for key in dataset.data_vars if str(key).startswith(_KEPT)}
    values = {str(key): dataset[key].values for key in dataset.data_vars if not str(key).startswith(_KEPT)}
    draws, times = range(dataset.sizes["draw"]), range(dataset.sizes["t"])
    snapshots = tuple(tuple({n: v[i, k] for n, v in kept.items()} for k in times) for i in draws) if kept else ()
    fields = {name: record[name] for name in _FIELDS}
    fields["notes"] = tuple(fields["notes"])
    return Simulation(t=dataset["t"].values, values=values, snapshots=snapshots, **fields)
