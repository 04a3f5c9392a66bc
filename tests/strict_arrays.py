"""Arrays that behave like those on a graphics card, on a machine without one: numpy's, behind a wall.

Like CuPy's, they take numpy's functions over by its protocols, and refuse to be mixed with arrays of the machine's memory
or to become such arrays unasked. What CuPy refuses beyond that is refused too: conditions that are Python's, scipy functions
it lacks, lists as arrays.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import re
import shutil
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from eqsolve.numerics import backend

__all__ = ["STRICT", "StrictArray", "strict_card", "strict_namespace"]

_LACKING = {"dawsn", "ive", "kve", "iv", "kv"}
_UNKNOWN = {"select", "block", "broadcast_arrays"}


class StrictArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that is not in the machine's memory, for all that its users can tell."""

    __slots__ = ("_values",)

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    # --- numpy's protocols ----------------------------------------------------------------------------------------------
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed; use the backend's `get`")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc.__name__ in _LACKING or method not in ("__call__", "reduce", "accumulate"):
            return NotImplemented
        return _wrap(getattr(ufunc, method)(*(_inside(item) for item in inputs), **_inside(kwargs)))

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in _UNKNOWN:
            raise TypeError(f"this namespace has no {function.__name__}")
        if function is np.where and isinstance(args[0], bool):
            raise AttributeError("'bool' object has no attribute 'astype'")
        return _wrap(function(*_inside(args), **_inside(kwargs)))

    # --- what an array has ----------------------------------------------------------------------------------------------
    shape = property(lambda self: self._values.shape)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    dtype = property(lambda self: self._values.dtype)
    strides = property(lambda self: self._values.strides)
    flags = property(lambda self: self._values.flags)
    T = property(lambda self: StrictArray(self._values.T))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[StrictArray]:
        return (StrictArray(self._values[k]) for k in range(len(self._values)))

    def __getitem__(self, key: Any) -> StrictArray:
        return StrictArray(self._values[_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[_key(key)] = _inside(value)

    def __float__(self) -> float:
        return float(self._values)

    def __int__(self) -> int:
        return int(self._values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("flat", "tolist", "tobytes"):
            raise AttributeError(f"arrays on a card have no `{name}` here")
        method = getattr(self._values, name)
        return lambda *args, **kwargs: _wrap(method(*_inside(args), **_inside(kwargs)))


def _inside(item: Any) -> Any:
    """Return what an argument holds; arrays of the machine's memory are refused."""
    if isinstance(item, StrictArray):
        return item._values
    if isinstance(item, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(item, list | tuple):
        return type(item)(_inside(part) for part in item)
    if isinstance(item, dict):
        return {key: _inside(part) for key, part in item.items()}
    return item


def _key(key: Any) -> Any:
    """Return an index; arrays of whole numbers may come from the machine's memory, as CuPy allows."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    return key._values if isinstance(key, StrictArray) else key


def _wrap(item: Any) -> Any:
    if isinstance(item, np.ndarray | np.generic):
        return StrictArray(item)
    if isinstance(item, tuple) and any(isinstance(part, np.ndarray) for part in item):
        return tuple(map(_wrap, item))
    return [_wrap(part) for part in item] if isinstance(item, list) else item


class _Strict(types.ModuleType):
    """numpy's names, with arrays behind the wall; linear algebra likewise."""

    def __init__(self, name: str, source: Any) -> None:
        super().__init__(name)
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name in _UNKNOWN:
            raise AttributeError(f"this namespace has no {name}")
        found = getattr(self._source, name)
        if isinstance(found, types.ModuleType):
            return _Strict(f"{self.__name__}.{name}", found)
        if not callable(found) or isinstance(found, type):
            return found
        return lambda *args, **kwargs: _wrap(found(*_inside(args), **_inside(kwargs)))


def strict_namespace() -> Any:
    """Return the namespace: as numpy's, and with ``asarray`` and ``asnumpy`` the doors in the wall."""
    made = _Strict("strict_arrays", np)

    def asarray(values: Any, dtype: Any = None) -> StrictArray:
        return StrictArray(np.array(values._values if isinstance(values, StrictArray) else values, dtype=dtype, copy=None))

    def asnumpy(values: Any) -> Any:
        return values._values.copy() if isinstance(values, StrictArray) else np.asarray(values)

    made.asarray, made.asnumpy = asarray, asnumpy
    return made


COMPILER = shutil.which("g++") or shutil.which("c++")
_SHIM = """
#include <cmath>
#include <cstddef>
#define __global__
#define __device__
using namespace std;
static struct { int x; } blockIdx, threadIdx, blockDim, gridDim;
"""


class StrictCard(backend.Backend):
    """Runs the text of a card's kernels, thread after thread, as the C++ that it nearly is."""

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def kernel(self, text: str, name: str) -> Any:
        if COMPILER is None:
            raise NotImplementedError("no compiler of C++")
        declared = re.search(rf"__global__ void {name}\(([^)]*)\)", text).group(1)
        names = [item.split()[-1].lstrip("*") for item in declared.split(",")]
        every = f"""
extern "C" void every_{name}(int groups, int threads, {declared}) {{
    gridDim.x = groups; blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < groups; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {name}({", ".join(names)});
}}
"""
        folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (folder / "kernel.cpp").write_text(_SHIM + text + every)
        command = [COMPILER, "-O2", "-shared", "-fPIC", "-w", "-o", folder / "kernel.so", folder / "kernel.cpp"]
        subprocess.run(command, check=True)
        function = getattr(ctypes.CDLL(folder / "kernel.so"), f"every_{name}")

        def run(groups: tuple[int], threads: tuple[int], arguments: tuple[Any, ...]) -> None:
            kinds = {np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.float64: ctypes.c_double}
            given = []
            for item in arguments:
                if isinstance(item, StrictArray):
                    assert item._values.flags.c_contiguous
                    assert item.dtype in (np.float64, np.int32)
                    given.append(ctypes.c_void_p(item._values.ctypes.data))
                else:
                    given.append(kinds[type(item)](item))
            function(*map(ctypes.c_int, (*groups, *threads)), *given)

        return run


StrictArray.__module__ = "strict_arrays"
sys.modules["strict_arrays"] = strict_namespace()
STRICT = StrictCard("gpu", "a strict stand-in", sys.modules["strict_arrays"])


@contextlib.contextmanager
def strict_card(card: backend.Backend = STRICT) -> Iterator[None]:
    """Let ``device="gpu"`` mean strict arrays."""
    with (
        mock.patch.object(backend, "_open", return_value=card),
        mock.patch.object(backend, "card_problem", functools.cache(str)),
    ):
        yield
