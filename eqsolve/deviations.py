"""Values that are known with an error bar, in the habit of the package ``uncertainties``: a nominal value and a deviation."""

import math
from dataclasses import dataclass
from typing import Any

from eqsolve.arguments import number
from eqsolve.errors import UsageError


@dataclass(frozen=True)
class Uncertain:
    """A number with its standard deviation."""

    nominal_value: float
    std_dev: float

    def __str__(self) -> str:
        return f"{self.nominal_value:g}+/-{self.std_dev:g}"


def uncertain(value: float, deviation: float) -> Uncertain:
    """Return a value with its standard deviation: ``solve(model, alpha=uncertain(0.3, 0.01))`` carries it to every error.

    The numbers of the package ``uncertainties`` (``ufloat(0.3, 0.01)``) are taken as well.

    Examples
    --------
    >>> eqsolve.uncertain(0.3, 0.01)
    Uncertain(nominal_value=0.3, std_dev=0.01)
    """
    made = Uncertain(number(value, "value"), number(deviation, "deviation"))
    if made.std_dev < 0 or not math.isfinite(made.std_dev):
        raise UsageError(f"uncertain: a standard deviation is not negative, got {deviation}")
    return made


def is_uncertain(value: Any) -> bool:
    """Whether a value comes with a standard deviation."""
    return hasattr(value, "nominal_value") and hasattr(value, "std_dev")
