"""`Simulation`: what finite-size runs of a flow gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.numerics.grids import Array

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Simulation"]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Finite-size runs of a flow.

    Attributes
    ----------
    t
        The times reported.
    values
        Each observable on (seed, time).
    snapshots
        With ``keep=True``: for each seed and time, states, variables and constants on the d coordinates.
    n, d, params, data, step, seed
        What was run.
    notes
        What the user should know, such as a step beyond the stability limit.
    stats
        Seconds, evaluations of the drift, bytes held.
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

    @property
    def seeds(self) -> int:
        return len(next(iter(self.values.values()), np.empty(0)))

    def __getitem__(self, name: str) -> xr.DataArray:
        import xarray as xr

        if name not in self.values:
            has = ", ".join(self.values)
            raise KeyError(f"the simulation has no `{name}`{did_you_mean(name, self.values)} (it has: {has})")
        return xr.DataArray(
            self.values[name], dims=("seed", "t"), coords={"seed": np.arange(self.seeds), "t": self.t}, name=name
        )

    @property
    def mean(self) -> dict[str, Array]:
        """Each observable, averaged over the seeds."""
        return {name: values.mean(axis=0) for name, values in self.values.items()}

    @property
    def standard_error(self) -> dict[str, Array]:
        """The standard error of each mean; infinite for a single seed."""
        if self.seeds < 2:
            return {name: np.full(len(self.t), np.inf) for name in self.values}
        return {name: values.std(axis=0, ddof=1) / self.seeds**0.5 for name, values in self.values.items()}

    def coordinates(self, name: str, time: float) -> Array:
        """Return the values of a state, variable or constant on (seed, coordinate) at a reported time."""
        if not self.snapshots:
            raise UsageError("the run kept no coordinates; simulate with keep=True")
        place = int(np.argmin(np.abs(self.t - time)))
        if abs(self.t[place] - time) > 1e-9 * max(1.0, abs(time)):
            raise UsageError(f"the run has no time {time:g}; it reports {', '.join(f'{t:g}' for t in self.t)}")
        known = self.snapshots[0][place]
        if name not in known:
            raise UsageError(f"the run has no `{name}`{did_you_mean(name, known)} (it has: {', '.join(known)})")
        return np.stack([run[place][name] for run in self.snapshots])

    def __repr__(self) -> str:
        how = "gradient flow" if self.step is None else f"step {self.step:g}"
        return f"<Simulation of {self.model!r}: n={self.n}, d={self.d}, {self.seeds} seeds, {how}>"
