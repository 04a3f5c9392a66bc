"""Where an unknown may lie, and the variable in which it is searched: a logarithm, a logistic map, or the unknown itself."""

from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Domain:
    """The domain of one unknown."""

    name: str  # of the unknown
    # 1 or -1 for an unknown of that sign (zero included where ``ends`` holds it), 0 for either
    sign: int = 0
    interval: tuple[float, float] | None = None  # both ends, for a bounded unknown
    ends: tuple[float, ...] = ()  # the ends that belong to the domain

    @property
    def is_bounded(self) -> bool:
        """Whether the search variable is not the unknown itself."""
        return bool(self.sign) or self.interval is not None

    @property
    def middle(self) -> float:
        """A value inside."""
        if self.interval is not None:
            return (self.interval[0] + self.interval[1]) / 2
        return 1.0 if self.sign >= 0 else -1.0

    def value(self, point: Array) -> Array:
        """Return the unknown from its search variable: a logistic map onto an interval, an exponential, or itself."""
        with np.errstate(over="ignore"):
            if self.interval is not None:
                return self.interval[0] + (self.interval[1] - self.interval[0]) / (1 + np.exp(-np.asarray(point)))
            return self.sign * np.exp(point) if self.sign else np.asarray(point)

    def point(self, value: float) -> float:
        """Return the search variable from the unknown."""
        if self.interval is not None:
            return float(np.log(max(value - self.interval[0], _TINY)) - np.log(max(self.interval[1] - value, _TINY)))
        return float(np.log(max(self.sign * value, _TINY))) if self.sign else float(value)

    def scale(self, value: float) -> float:
        """Return d unknown / d search variable."""
        if self.interval is not None:
            return (value - self.interval[0]) * (self.interval[1] - value) / (self.interval[1] - self.interval[0])
        return value if self.sign else 1.0

    def holds(self, value: float) -> bool:
        """Whether a value lies in the domain, to rounding."""
        if not np.isfinite(value) or self.sign * value < 0:
            return False
        if self.interval is None:
            return True
        room = 1e-12 * (self.interval[1] - self.interval[0])  # to leave the interval by
        return bool(self.interval[0] - room <= value <= self.interval[1] + room)
