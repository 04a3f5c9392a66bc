"""Labelled arrays as a dataset of xarray; lazy ones are computed when they are read."""

from typing import Any

import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from eqsolve.results.arrays import LabelledArray, LabelledArrays, LazyArray


class _Later(BackendArray):
    """An array that is made on first use, as xarray reads one from a file."""

    def __init__(self, made: LazyArray) -> None:
        self.made, self.shape, self.dtype = made, made.shape, made.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support, read = indexing.IndexingSupport.BASIC, lambda place: self.made.make()[place]
        return indexing.explicit_indexing_adapter(key, self.shape, support, read)


def labelled(arrays: LabelledArrays) -> xr.Dataset:
    """Return variables and coordinates as a dataset."""
    data = {name: _entry(item) for name, item in arrays.variables.items()}
    return xr.Dataset(data, coords={name: _entry(item) for name, item in arrays.coords.items()})


def _entry(item: LabelledArray) -> tuple[Any, Any, dict[str, Any]]:
    content = item.content
    if isinstance(content, LazyArray):
        content = indexing.LazilyIndexedArray(_Later(content))
    return item.dims, content, dict(item.attrs)
