"""Independent pieces of work on several threads, in a fixed order: the same numbers whatever the number of threads.

Linear algebra has one thread inside each, also where there is one thread in all, since its sums depend on that number.
"""

import functools
import os
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""The variables of the environment that say how many threads linear algebra may use."""

LIMIT = "EQSOLVE_THREADS"
"""The variable of the environment that says how many threads a process may use; one in the workers of a sweep."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def usable_threads(asked: int | None, length: int, *, enough: int = 2048) -> int:
    """Return how many threads to use: as many as asked for, else all cores where arrays are long enough.

    Arrays of ``enough`` numbers keep numpy busy for longer than the interpreter, which only one thread at a time runs.
    """
    if asked is not None:
        return asked
    if length < enough:
        return 1
    limit = os.environ.get(LIMIT, "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


@functools.cache
def _linear_algebra() -> Any:
    """Return the controller of the threads of linear algebra; creating it is slow."""
    import scipy.linalg  # noqa: F401  # which brings a library of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_each() -> Any:
    """Return a context in which linear algebra has one thread."""
    return _linear_algebra().limit(limits=1)


def in_order(
    function: Callable[[_T], _R], items: Sequence[_T], threads: int, before: Callable[[int], None] = lambda place: None
) -> Generator[_R]:
    """Yield the results of a function for all items, in their order; ``before`` is called with the place of each."""
    import numpy as np

    with one_each():
        if threads == 1:
            for place, item in enumerate(items):
                before(place)
                yield function(item)
            return
        from concurrent.futures import ThreadPoolExecutor

        state = np.geterr()

        def alike(item: _T) -> _R:
            with np.errstate(**state):  # which each thread has for itself
                return function(item)

        pool = ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="eqsolve-paths")
        try:
            futures = [pool.submit(alike, item) for item in items]
            for place, future in enumerate(futures):
                before(place)
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
