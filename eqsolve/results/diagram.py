"""A phase diagram as a result: what the long run is over a grid, and where that changes."""

from typing import Any

from eqsolve.results.result import Result

MARK = "boundary_"  # before the names of what is told of each point of a boundary


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
        short = {str(name): str(name)[len(MARK) :] for name in self.dataset.coords if str(name).startswith(MARK)}
        return self.dataset.reset_coords()[[*short]].rename(short)

    def _sweep_object(self) -> dict[str, Any]:
        made = super()._sweep_object()
        made["points"]["class"] = self.classes.values.tolist()
        return made | {"boundaries": {str(key): it.values.tolist() for key, it in self.boundaries.items()}}
