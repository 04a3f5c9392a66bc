"""Many machines: a dask scheduler as the executor of a sweep."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import Executor

from eqsolve.errors import UsageError


@contextlib.contextmanager
def connect(address: str, *, timeout: float = 10) -> Iterator[Executor]:
    """Give the executor of a dask scheduler; its workers need eqsolve installed, of the same version.

    dask gives a point whose worker died to another worker by itself. Its workers run with one linear-algebra thread
    unless told otherwise; start them with ``--nthreads 1``.
    """
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--scheduler needs dask.distributed; install it with: pip install 'eqsolve[distributed]'") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost workers are its daily business
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"no dask scheduler answers at {address!r}: {reason}; start one with `dask scheduler`, "
            "and give its address, such as tcp://host:8786"
        ) from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
