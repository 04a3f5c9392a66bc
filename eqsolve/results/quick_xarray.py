"""xarray asks of every array whether it is one of dask's, and imports all of ``dask.array`` for that where dask is installed.

An array can only be dask's once somebody has imported that module. This answer takes no import,
and holds at any later time.
"""

import functools
import sys
from typing import Any


class _Dask:
    """What xarray keeps of a library of arrays, looked up when it is asked for."""

    @property
    def type(self) -> tuple[Any, ...]:
        made = sys.modules.get("dask.array")
        return (made.Array,) if made is not None and hasattr(made, "Array") else ()

    @property
    def module(self) -> Any:
        import dask

        return dask

    @property
    def version(self) -> Any:
        from packaging.version import Version

        return Version(self.module.__version__)

    available = True


def _is_collection(value: object) -> Any:
    made = sys.modules.get("dask.base")
    return made is not None and made.is_dask_collection(value)


@functools.cache
def spare_dask() -> None:
    """Keep xarray from importing ``dask.array`` for nothing; another xarray than is known here does as it always did."""
    from importlib.util import find_spec

    try:
        from xarray.namedarray import pycompat, utils

        if find_spec("dask") is not None and hasattr(utils, "is_dask_collection"):
            pycompat._cached_duck_array_modules.setdefault("dask", _Dask())  # type: ignore[arg-type]
            utils.is_dask_collection = _is_collection  # type: ignore[assignment]
    except (ImportError, AttributeError):
        pass
