"""Numbers in words, as several outputs say them."""

import math
from collections.abc import Mapping
from typing import Any

TELLING = 0.1  # of a quantity: an error beyond this says too little of it


def percent(fraction: float) -> str:
    """Return a fraction in percent, to two digits."""
    return f"{100 * fraction:.2g}%" if fraction < 0.995 else f"{100 * fraction:.0f}%"


def list_settings(params: Mapping[str, Any]) -> str:
    """Return parameters and laws with their values: `g=3, gamma=0.2`."""
    return ", ".join(f"{key}={item:.6g}" if isinstance(item, float) else f"{key}={item}" for key, item in params.items())


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
