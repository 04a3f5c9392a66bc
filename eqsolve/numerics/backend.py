"""Where arrays live while a solve runs: in the machine's memory, or on a graphics card.

The engine calls numpy's functions. Arrays on a card take these calls over by numpy's own protocols
(``__array_ufunc__`` and ``__array_function__``), so the same code, and the same lowered functions,
run on both. What no array at hand can decide is asked here: making arrays, moving them, and how
much memory there is. Nothing of a card is imported unless it is asked for.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.arguments import one_of
from eqsolve.errors import MemoryLimitError, MissingExtraError, UsageError, logger
from eqsolve.numerics.arrays import Array


def _installed() -> float:
    """Return the machine's memory in bytes; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


def memory() -> float:
    """Return the bytes that are free: of the machine, and of a batch job or container (control groups)."""
    return min(_installed(), _free(int(10 * time.monotonic())))


@functools.lru_cache(1)  # many files are read, and a solve asks often
def _free(tenth_of_a_second: int) -> float:
    limits, nothing = [float("inf")], contextlib.suppress(OSError, ValueError, StopIteration)
    kinds = {"": ("max", "anon"), "memory": ("limit_in_bytes", "total_rss")}
    with nothing:
        limits.append(1024 * _entry("/proc/meminfo", "MemAvailable:"))
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, place = line.split(":", 2)
            for folder in Path("/sys/fs/cgroup", kind, place[1:], "x").parents if kind in kinds else ():
                with nothing:
                    limit, used = kinds[kind]
                    limits.append(_entry(f"{folder}/memory.{limit}", "") - _entry(f"{folder}/memory.stat", used))
    return min(limits)


def _entry(path: str, name: str) -> float:
    """Return the number after a name in a file of the system."""
    with open(path) as file:
        return next(float(line.removeprefix(name).split()[0]) for line in file if line.startswith(name))


SHARE = 0.5  # of the free memory, of the machine or of a card, that one thing in a solve may take


def demand_memory(needed: float, what: str) -> None:
    """Refuse what would not fit into the memory; say what needs much of it."""
    if needed < 0.01 * _installed():
        return
    told, there = f"about {needed / 1e9:.1f} GB", memory()
    if needed > SHARE * there:
        told += f" of the {there / 1e9:.1f} GB that are free"
        raise MemoryLimitError(f"{what} would need {told}; ask for a larger rtol or a shorter time")
    logger.info("%s need %s", what, told)


DEVICES = ("cpu", "gpu", "auto")
read_device = one_of(*DEVICES)

# floating-point operations above which `auto` opens the card: loading its libraries takes 0.5 to 1
# s, in which one core does 2e9 to 1e10 of them; and where it is open, moving arrays a tenth of a
# second
_WORTH = 1e10
_WORTH_AGAIN = _WORTH / 10

_LIBRARY = "cupy"
_INSTALL = "pip install 'eqsolve[gpu]' (CuPy for CUDA 12; for CUDA 13, pip install cupy-cuda13x)"


@dataclass(frozen=True, eq=False)
class Backend:
    """The arrays of one solve. ``arrays`` is their namespace: numpy, or a library with numpy's interface."""

    name: str
    label: str
    arrays: Any

    def put(self, values: Any) -> Any:
        """Return real numbers as an array of this backend; one that is there already stays as it is."""
        home = arrays_of(values)
        return self.arrays.asarray(values if home in (np, self.arrays) else home.asnumpy(values), dtype=float)

    def get(self, values: Any) -> Array:
        """Return an array of this backend in the machine's memory."""
        return np.asarray(values if isinstance(values, np.ndarray) else self.arrays.asnumpy(values))

    def spread(self, value: Any, shape: tuple[int, ...]) -> Any:
        """Return a view of a number or an array, repeated to a shape."""
        return self.arrays.broadcast_to(self.put(value), shape)

    def full(self, value: Any, shape: tuple[int, ...]) -> Any:
        """Return an array of a shape of its own; a number stands for the same value everywhere."""
        array = self.put(value)
        return array if array.shape == shape else self.arrays.broadcast_to(array, shape).copy()

    def stack(self, values: Any, shape: tuple[int, ...]) -> Any:
        """Return what a lowered function made, numbers or arrays, as one array, each of a shape."""
        array = self.arrays.empty((len(values), *shape))
        for place, value in enumerate(values):
            array[place] = value
        return array

    @functools.lru_cache(maxsize=256)  # noqa: B019 - a backend lives as long as the process
    def kernel(self, text: str, name: str) -> Any:
        """Return a kernel of CUDA C, called with the numbers of groups and of threads in each, and its arguments."""
        return self.arrays.RawModule(code=text, options=("-std=c++14",)).get_function(name)

    def memory(self) -> float:
        """Return the bytes that arrays can have: of the machine, or what is free on the card."""
        if not hasattr(self.arrays, "cuda"):
            return memory()
        return float(self.arrays.cuda.Device().mem_info[0] + self.arrays.get_default_memory_pool().free_bytes())

    def __reduce__(self) -> Any:  # modules do not pickle: the device is opened anew where it is needed
        return (choose_backend, (self.name,))


CPU = Backend("cpu", "the CPU", np)


def choose_backend(device: str, work: float = 0.0, held: float = 0.0) -> Backend:
    """Return the backend of a device; ``auto`` takes the card where there is one and the work is worth it.

    ``work`` is an estimate of the floating-point operations, ``held`` of the peak memory in bytes:
    what exceeds the memory of the card is left to the CPU.
    """
    worth = _WORTH_AGAIN if card_problem.cache_info().currsize else _WORTH
    if device == "cpu" or (device == "auto" and (work < worth or card_problem())):
        return CPU
    if problem := card_problem():
        error = MissingExtraError if "not installed" in problem else UsageError
        raise error(f"device='gpu': {problem}; or take device='cpu' (--device cpu)")
    card = _open()
    if held > SHARE * card.memory():
        logger.warning("%.3g GB are more than is free on %s: this part runs on the CPU", held / 1e9, card.label)
        return CPU
    return card


@functools.cache
def card_problem() -> str:
    """Return what keeps a card from being used, and the remedy; nothing when all is there."""
    if importlib.util.find_spec(_LIBRARY) is None:
        return f"CuPy is not installed; get it with {_INSTALL}"
    try:
        _open()
    except Exception as error:  # whatever a library, a driver or a card says
        said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        return f"CuPy finds no graphics card it can use ({said}); `nvidia-smi` shows cards and their driver"
    return ""


@functools.cache
def _open() -> Backend:
    """Return the backend of the card, having computed something on it."""
    library = importlib.import_module(_LIBRARY)
    if not library.cuda.runtime.getDeviceCount():
        raise RuntimeError("there is none")
    if float((library.ones(2) @ library.ones(2)).sum()) != 2.0:
        raise RuntimeError("it computes wrongly")
    name = library.cuda.runtime.getDeviceProperties(library.cuda.Device().id)["name"]
    return Backend("gpu", name.decode() if isinstance(name, bytes) else str(name), library)


def anywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that computes in the machine's memory wherever its arguments live."""

    @functools.wraps(function, updated=())
    def call(*values: Any) -> Any:
        home = next((space for space in map(arrays_of, values) if space is not np), None)
        if home is None:
            return function(*values)
        return home.asarray(function(*(value if arrays_of(value) is np else home.asnumpy(value) for value in values)))

    return call


def like_array(array: Any, values: Array) -> Any:
    """Return values where an array is."""
    home = arrays_of(array)
    return values if home is np else home.asarray(values)


def home_of(array: Any) -> Backend:
    return CPU if arrays_of(array) is np else _open()


def arrays_of(values: Any) -> Any:
    """Return the namespace that an array belongs to; numpy for everything that is on no card."""
    if isinstance(values, np.ndarray | np.generic | float | int):
        return np
    space = sys.modules.get(type(values).__module__.partition(".")[0])
    return space if hasattr(space, "asnumpy") else np
