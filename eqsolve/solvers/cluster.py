"""Many machines: a dask scheduler, for the points of a sweep or for pieces of one solve."""

from __future__ import annotations

import contextlib
import functools
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve._version import __version__
from eqsolve.errors import EqsolveError, MemoryLimitError, UsageError, logger
from eqsolve.solvers.threads import one_each


@contextlib.contextmanager
def connect(address: str | None, *, timeout: float = 10) -> Iterator[Any]:
    """Give the client of a dask scheduler, whose workers have the same eqsolve; None without one.

    dask gives work whose worker died to another worker by itself. Its workers run with one
    linear-algebra thread unless told otherwise; start them with ``--nthreads 1``.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        install = "install it with: pip install 'eqsolve[distributed]'"
        raise UsageError(f"a scheduler needs dask.distributed; {install}") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # workers may get lost
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"no dask scheduler answers at {address!r}: {reason}; start one with `dask scheduler`, "
            "and give its address, such as tcp://host:8786"
        ) from None
    try:
        yield client
    finally:
        client.close()


class Cluster:
    """Where the pieces of a solve are done: by the workers of a dask client, or here."""

    def __init__(self, client: Any = None) -> None:
        self.client, self.sent = client, 0

    def piece(self, function: Callable[..., Any], *args: Any, after: Sequence[Piece] = ()) -> Piece:
        """Return a piece of work: a function of arguments, then of the results of other pieces."""
        piece = Piece(function, args, after)
        if self.client is not None and all(item.future is not None for item in after):
            body, futures = pickle.dumps((__version__, function, args)), [item.future for item in after]
            piece.future, self.sent = self.client.submit(_do, body, *futures, pure=False), self.sent + 1
        return piece


@dataclass(eq=False)
class Piece:
    """A piece of work, begun at once by a worker, or done here when its result is asked for.

    One that a cluster loses for good is done here, with all it rests on, to the same numbers.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    after: Sequence[Piece]
    future: Any = None

    def result(self) -> Any:
        if self.future is not None:
            try:
                return self.future.result()
            except Exception as reason:
                if isinstance(reason, EqsolveError) and not isinstance(reason, MemoryLimitError):
                    raise
                logger.warning("a piece of work comes back from the cluster, to be done here: %s", reason)
                self.future = None
        return self._here

    @functools.cached_property
    def _here(self) -> Any:
        return _call(self.function, self.args, [item._here for item in self.after])


def _do(body: bytes, *after: Any) -> Any:
    """On a worker: do a piece of work."""
    version, function, args = pickle.loads(body)
    if version != __version__:
        raise RuntimeError(f"a worker has eqsolve {__version__}, not {version}")
    return _call(function, args, after)


def _call(function: Callable[..., Any], args: Sequence[Any], after: Sequence[Any]) -> Any:
    with one_each(), np.errstate(all="ignore"):
        return function(*args, *after)
