"""What the spectral laws share about arguments: the error they raise, checks, scalars in -> scalars out."""

from __future__ import annotations

from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from eqsolve.errors import ParameterError

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
RealLike = TypeVar("RealLike", float, NDArray[Any])


class SpectrumError(ParameterError, ValueError):
    """An argument a spectral law cannot accept; the message says what, got and expected."""


def check_positive(name: str, value: object) -> float:
    """Return `value` as a float, or raise when it is not a positive finite real number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if 0.0 < number < np.inf:
            return number
    raise SpectrumError(f"`{name}` is not usable: got {value!r}, expected a positive finite real number")


def check_integer(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int, or raise when it is not an integer >= `minimum`."""
    if isinstance(value, int | np.integer) and int(value) >= minimum:
        return int(value)
    raise SpectrumError(f"`{name}` is not usable: got {value!r}, expected an integer >= {minimum}")


def check_times(name: str, value: object) -> Floats:
    """Return `value` as a float array, or raise unless all entries are finite and >= 0."""
    times = real_array(name, value)
    bad = ~(np.isfinite(times) & (times >= 0.0))
    if bad.any():
        raise SpectrumError(f"`{name}` is not usable: got {times[bad][0]}, expected finite values >= 0")
    return times


def real_array(name: str, value: object) -> Floats:
    """Return `value` as a float array, or raise when it is complex or not numeric."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise SpectrumError(f"`{name}` is not usable: got dtype {array.dtype}, expected real numbers")
    return array.astype(np.float64)


def complex_array(name: str, value: object) -> Complexes:
    """Return `value` as a complex array, or raise when it is not numeric."""
    array = np.asarray(value)
    if array.dtype.kind not in "iufc":
        raise SpectrumError(f"`{name}` is not usable: got dtype {array.dtype}, expected numbers")
    return array.astype(np.complex128)


def shaped_like(result: Floats, argument: RealLike) -> RealLike:
    """Return `result` as a float when the argument was a scalar, else as the array it is."""
    return cast(RealLike, result.item() if np.ndim(argument) == 0 else result)
