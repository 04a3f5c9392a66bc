"""A phase diagram as a result: what the long run is at each point of a grid, and where that changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eqsolve.results.result import Result
from eqsolve.verbs import later

if TYPE_CHECKING:
    import xarray as xr

MARK = "boundary_"  # before the names of what is told of each point of a boundary


@dataclass(frozen=True, eq=False, repr=False)
class PhaseDiagram(Result):
    """What the long run is over one or two parameters.

    Values and their errors are arrays over the axes, as of a sweep; ``diagram["class"]`` is the class of each point, and
    ``diagram["message"]`` its reason where there is one.
    """

    @property
    def classes(self) -> xr.DataArray:
        """The class of each point."""
        return self["class"]

    @property
    def boundaries(self) -> xr.Dataset:
        """The points of all boundaries: where they lie, the ``error`` along one axis, and the ``kind``.

        A boundary is where ``stability`` or ``lyapunov`` is zero, or where a fixed point ``grows`` without bound, ``vanishes``
        or ``ends``; ``along`` is the axis along which it was looked for.
        """
        own = [name for name in self.dataset.coords if str(name).startswith(MARK)]
        found = self.dataset[own].reset_coords().drop_vars(self._axes, errors="ignore")
        return found.rename({name: str(name)[len(MARK) :] for name in own})

    @property
    def _axes(self) -> list[str]:
        return [str(dim) for dim in self.dataset["class"].dims]

    def to_dataframe(self, at: Iterable[float] | None = None) -> Any:
        """Return the grid as a pandas table: values, errors and the class of each point."""
        return self.dataset.drop_dims("boundary", errors="ignore").to_dataframe()

    def json_object(self, at: Any = None, at2: Any = None) -> dict[str, Any]:
        """Return the diagram as plain numbers and texts."""
        made = Result.json_object(replace(self, kind="sweep")) | {"kind": self.kind}
        made["points"]["class"] = self.classes.values.tolist()
        found = self.boundaries
        return made | {"boundaries": {str(name): found[name].values.tolist() for name in found}}

    def plot(self, *names: str, **ways: Any) -> Any:
        """Draw the boundaries as lines over one quantity in colours, that of the diagram by default; return the axes."""
        return later("plot_diagram")(self, names, **ways)
