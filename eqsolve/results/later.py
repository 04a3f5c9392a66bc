"""Arrays of a result that are computed when somebody looks at them."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from eqsolve.numerics.arrays import Array


class _Later(BackendArray):
    """An array of a known shape, made on first use; it is pickled with its values."""

    def __init__(self, make: Callable[[], Array], shape: tuple[int, ...]) -> None:
        self.make, self.shape, self.dtype = make, shape, np.dtype(float)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, lambda place: self.make()[place])

    def __reduce__(self) -> Any:
        return _Later, (functools.partial(_known, self.make()), self.shape)


def _known(values: Array) -> Array:
    return values


def later(make: Callable[[], Array], shape: tuple[int, ...]) -> Any:
    """Return an array for a dataset that is made, once, when it is read."""
    return indexing.LazilyIndexedArray(_Later(make, shape))
