"""Numbers in words, as several outputs say them."""

import math
from collections.abc import Mapping
from typing import Any


def percent(fraction: float) -> str:
    """Return a fraction in percent, to two digits."""
    return f"{100 * fraction:.2g}%" if fraction < 0.995 else f"{100 * fraction:.0f}%"


def jsonable(value: Any) -> Any:
    """Return plain numbers and texts; numbers that JSON cannot hold become None."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return jsonable(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
