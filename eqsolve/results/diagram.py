"""A phase diagram as a result: what the long run is over a grid, and where that changes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from eqsolve.results.result import Result
from eqsolve.verbs import later

MARK = "boundary_"  # before the names of what is told of each point of a boundary


@dataclass(frozen=True, eq=False, repr=False)
class PhaseDiagram(Result):
    """What the long run is over one or two parameters: values over the axes, as of a sweep.

    ``diagram["class"]`` is the class of each point, ``diagram["message"]`` its reason.
    """

    @property
    def classes(self) -> Any:
        """The class of each point, an ``xarray.DataArray``."""
        return self["class"]

    @property
    def boundaries(self) -> Any:
        """The points of all boundaries: their places, ``error``, ``along`` and ``kind``.

        The kind is ``stability`` or ``lyapunov``, which is zero there, or what a fixed point does:
        ``grows`` without bound, ``vanishes``, ``ends``. The error is that along one axis.
        """
        names = [str(name) for name in self.dataset.coords if str(name).startswith(MARK)]
        short = {name: name[len(MARK) :] for name in names}
        return self.dataset.reset_coords()[names].rename(short)

    def to_dataframe(self, at: Iterable[float] | None = None) -> Any:
        """Return the grid as a pandas table: values, errors and the class of each point."""
        return self.dataset.drop_dims("boundary").to_dataframe()

    def json_object(self, at: Any = None, at2: Any = None) -> dict[str, Any]:
        """Return the diagram as plain numbers and texts."""
        made = Result.json_object(replace(self, kind="sweep")) | {"kind": self.kind}
        made["points"]["class"] = self.classes.values.tolist()
        found = {str(key): it.values.tolist() for key, it in self.boundaries.items()}
        return made | {"boundaries": found}

    def plot(self, *names: str, **ways: Any) -> Any:
        """Draw the boundaries as lines over one quantity in colours; return the axes."""
        return later("plot_diagram")(self, names, **ways)
