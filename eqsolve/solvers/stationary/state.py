"""A stationary state as both of its solvers report it, for Gaussian paths and for sampled ones."""

from dataclasses import dataclass, replace

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import allowance

Means = dict[str, Array]
PLAIN = 12  # iterations before Anderson's method, which finds unstable states too
REACH = 30.0  # lags at first, in the time on which paths react: more while correlations fall


class NoStationaryStateError(SolverError):
    """Says why there is no stationary state, or none that was found."""


@dataclass(frozen=True, eq=False)
class StationaryState:
    """Kernels over lags and numbers, each with its error."""

    curves: Means
    curve_errors: Means
    numbers: dict[str, float]
    number_errors: dict[str, float]
    still: bool  # whether nothing moves
    grid: PanelGrid  # of the lags
    residual: float
    floor: float  # what counts as nothing

    def worst_error(self, options: Options) -> tuple[str, float]:
        """Return what has the largest error in tolerances, and that."""
        asked = replace(options, atol=(options.atol or 0.0) + options.rtol * self.floor)
        allowed = allowance(np.array([0.0, *self.numbers.values()]), asked)[1:]
        parts = zip(self.numbers, allowed, strict=True)
        over = {name: self.number_errors[name] / max(part, 1e-14) for name, part in parts}
        for name, values in self.curves.items():
            over[name] = float(self.curve_errors[name].max()) / max(allowance(values, asked, 1.0).max(), 1e-14)
        return max(over.items(), key=lambda item: item[1], default=("", 0.0))

    def lyapunov(self) -> tuple[float, float]:
        """Return the largest Lyapunov exponent and its error."""
        raise NotImplementedError

    def gain(self) -> tuple[float, float]:
        """Return by what changes at the longest lags are multiplied, and its error: above one, unstable."""
        return 0.0, 0.0

    def is_balanced(self) -> bool:
        """Whether a response is the slope of a correlation up to a factor (fluctuation-dissipation)."""
        return False
