"""A stationary state: correlations and responses over the lag τ, numbers, spectra, the growth of distances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import checked, numbers, text
from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import Array, special
from eqsolve.numerics.grids import PanelGrid
from eqsolve.results.result import Result

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Stationary(Result):
    """A stationary state: functions of the lag ``tau``, and numbers, each with its error.

    ``status`` is ``"still"`` where nothing moves, ``"fluctuating"``, ``"not found"``, with the reason in ``message``, or
    ``"tolerance not met"``.
    """

    def __getitem__(self, name: str) -> xr.DataArray:
        array = super().__getitem__("t" if name == "tau" else name)
        return array.rename(t="tau") if "t" in array.dims else array

    @checked(lags=numbers)
    def at(self, lags: float | Iterable[float]) -> xr.Dataset:
        """Return every function of the lag at other lags, by the method's own interpolant."""
        return super().at(lags).rename(t="tau")

    @property
    def settled(self) -> float:
        """The lag at which all that is left of every correlation is a thousandth of its height."""
        nodes, last = self._grid().nodes, 0
        for name in self._of_dims("t"):
            values = self.variables[name].values
            moving = np.abs(values - values[-1]) > 1e-3 * np.abs(values).max()
            last = max(last, *np.flatnonzero(moving), 0)
        return float(nodes[min(last + 1, len(nodes) - 1)]) if last else float(nodes[-1])

    def lyapunov(self) -> tuple[float, float]:
        """Return the largest Lyapunov exponent and its error: the rate at which two copies near each other come apart.

        The copies have the same couplings and the same external noise. It is negative where they come together.
        """
        if self.source is None:
            why = "it was not found" if self.grid is None else "a result read from a file keeps numbers only; find it again"
            raise UsageError(f"the stationary state of `{self.model}` cannot answer lyapunov(): {why}")
        found: tuple[float, float] = self.source.lyapunov()
        return found

    @checked(name=text, omega=numbers)
    def spectrum(self, name: str, omega: float | Iterable[float] | None = None) -> xr.DataArray:
        """Return the power spectrum S(ω) = ∫ (C(τ) − C(∞)) cos ωτ dτ over all τ; its error is the coordinate ``error``.

        Parameters
        ----------
        name
            A correlation.
        omega
            Angular frequencies; by default 200 from 0 to where the spectrum has fallen.
        """
        import xarray as xr

        demand_known([name], self._of_dims("t"), "`{}` is no function of the lag", "there are")
        values, grid = self.variables[name].values, self._grid()
        around = values - values[-1]
        if omega is None:
            half = grid.nodes[np.argmax(np.abs(around) < 0.5 * abs(around[0]))] if around[0] else 1.0
            omega = np.linspace(0.0, 12 / max(float(half), 1e-300), 200)
        at = np.asarray(omega, float)
        step = self.stats.get("step")
        made = cosines(grid, around, at, step)
        error = np.full(len(at), cosines(grid, self.variables[f"{name}_error"].values, np.zeros(1), step)[0])
        return xr.DataArray(
            made, dims=("omega",), coords={"omega": at, "error": ("omega", error)}, name=name, attrs={"static": values[-1]}
        )

    def json_object(self, at: Any = None, at2: Any = None, *, nested: bool = True, lyapunov: Any = None) -> dict[str, Any]:
        """Return the result as plain numbers and texts, over given lags or the panel ends, with what ``lyapunov()`` gave."""
        made = super().json_object(at=at, nested=nested)
        if lyapunov is not None:
            made["lyapunov"], made["lyapunov_error"] = lyapunov
        if "t" in made:
            every = self.variables
            single = {name: float(every[name].values) for name in self._of_dims()}
            made = {("tau" if key == "t" else key): value for key, value in made.items()}
            made["numbers"] = single
            made["number_errors"] = {name: float(every[f"{name}_error"].values) for name in single}
        return made


def cosines(grid: PanelGrid, values: Array, omega: Array, step: float | None) -> Array:
    """Return ∫ f(|τ|) cos ωτ dτ of a function on the panels, exactly for what their polynomials are; or the sum over steps."""
    if step is not None:
        weights = np.where(np.arange(len(values)) > 0, 2.0, 1.0) * step
        return np.asarray(np.cos(np.multiply.outer(omega, grid.nodes)) @ (weights * values))
    points, _ = np.polynomial.legendre.leggauss(grid.order + 1)
    halves, middles = np.diff(grid.edges) / 2, (grid.edges[1:] + grid.edges[:-1]) / 2
    inner = (middles[:, None] + halves[:, None] * points).ravel()
    inside = grid.interpolate(values, inner).reshape(grid.panels, -1)
    legendre = np.linalg.inv(np.polynomial.legendre.legvander(points, grid.order))
    coefficients = inside @ legendre.T  # of Legendre polynomials, by panel
    degrees = np.arange(grid.order + 1)
    phase = np.multiply.outer(omega, middles)
    made = np.zeros(len(omega))
    for degree in degrees:  # ∫ P_k(x) e^{iax} dx = 2 i^k j_k(a)
        bessel = 2 * special.spherical_jn(degree, np.multiply.outer(omega, halves)) * halves
        turned = np.cos(phase + degree * np.pi / 2)
        made += (bessel * turned) @ coefficients[:, degree]
    return 2 * made
