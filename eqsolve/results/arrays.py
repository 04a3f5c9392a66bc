"""Arrays with names of their axes; xarray, which takes half a second to import, is not needed."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from eqsolve.numerics.arrays import Array


@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array of a known shape that is made when it is read; it is pickled with its values."""

    make: Callable[[], Array]
    shape: tuple[int, ...]
    dtype = np.dtype(float)

    def __reduce__(self) -> Any:
        return LazyArray, (functools.partial(np.asarray, self.make()), self.shape)


@dataclass(frozen=True, eq=False)
class LabelledArray:
    """An array, or a lazy one, with the names of its axes and further attributes."""

    dims: tuple[str, ...]
    content: Any
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> Array:
        lazy = isinstance(self.content, LazyArray)
        return np.asarray(self.content.make() if lazy else self.content)


@dataclass(frozen=True, eq=False)
class LabelledArrays:
    """The variables of a result and the coordinates they depend on, by name."""

    variables: Mapping[str, LabelledArray]
    coords: Mapping[str, LabelledArray] = field(default_factory=dict)

    @classmethod
    def of_numbers(cls, values: Mapping[str, Any], errors: Mapping[str, Any]) -> Self:
        """Return numbers, each with its error behind it."""
        pairs = [pair for key, value in values.items() for pair in ((key, value), (f"{key}_error", errors[key]))]
        return cls({key: LabelledArray((), value) for key, value in pairs})
