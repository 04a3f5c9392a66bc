"""Checkpoints: the finished steps of a solve in a file, so that a killed solve goes on where it was.

Every solver is deterministic, so a solve is a sequence of steps whose results decide what comes next. A checkpoint
keeps the results of the steps that took time, one record each, appended and checksummed. When the solve is resumed it
runs again from its first line; a step whose result is there is read, not computed. The numbers are the same, bit by bit.
A record cut short by a crash fails its checksum and is dropped. A file is data only: reading it never runs code.
"""

import json
import logging
import os
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from eqsolve.errors import SolverError, UsageError
from eqsolve.files.atomic import cannot_write, lock
from eqsolve.files.codec import Buffer, Codec, PackingError, TooLargeError

logger = logging.getLogger("eqsolve")

T = TypeVar("T")

_MAGIC = b"eqsolve checkpoint 1\n"
_HEAD = struct.Struct("<QI")  # length and checksum of what follows


class Checkpoint:
    """A file with the finished steps of one solve.

    Parameters
    ----------
    path
        The file. Without ``resume`` there must be none yet: an unfinished run is not given up by mistake.
    resume
        Go on from what the file holds; start from the beginning if there is no file.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False) -> None:
        self.path, self.resume = Path(path), resume
        self.replayed = 0
        self._stream: Any = None
        self._there: dict[int, tuple[int, int]] = {}  # place and length of the records found at the start
        self.steps = 0
        self._end = 0
        self._saved = time.monotonic()
        if self.path.is_dir():
            raise UsageError(f"checkpoint: {str(path)!r} is a folder, not a file")
        if not resume and self.path.exists():
            raise UsageError(
                f"{str(path)!r} is there already, and may hold an unfinished run: go on from it with --resume "
                "(resume=True), remove it, or choose another file"
            )

    # --- the file -----------------------------------------------------------------------------------------------------
    def begin(self, identity: dict[str, Any]) -> None:
        """Open the file for a solve that is described by its model, parameters, options and version."""
        try:
            self._stream = open(self.path, "a+b", buffering=0)  # noqa: SIM115  (closed in close)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        described = json.loads(json.dumps(identity, default=str))
        try:
            lock(self._stream, self.path)
            self._read(described)
        except OSError as error:
            self.close()
            raise cannot_write(self.path, error) from None
        except BaseException:
            self.close()
            raise
        if self._there:
            logger.info("%s holds %d finished steps", self.path, len(self._there))

    def _read(self, identity: dict[str, Any]) -> None:
        stream = self._stream
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        start = stream.read(len(_MAGIC))
        if size and not _MAGIC.startswith(start[: len(_MAGIC)]):
            raise UsageError(f"{str(self.path)!r} is not a checkpoint of eqsolve; choose another file")
        whole = start == _MAGIC
        first, end = self._record(size) if whole else (None, 0)
        if first is None:  # killed before anything was written
            stream.truncate(0)
            self._end = 0
            self._append(_MAGIC)
            self._write(json.dumps(identity).encode())
            return
        self._compare(json.loads(first), identity)
        self._end = end
        while True:
            body, end = self._record(size)
            if body is None:
                break
            (index,) = struct.unpack_from("<Q", body)
            self._there[index] = (end - len(body), len(body))
            self._end = end
        stream.truncate(self._end)
        stream.seek(0, os.SEEK_END)

    def _record(self, size: int) -> tuple[bytes | None, int]:
        """Return the record at the current place and where it ends; None if it is not whole."""
        head = self._stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None, 0
        length, checksum = _HEAD.unpack(head)
        if length > size:
            return None, 0
        body = self._stream.read(length)
        good = len(body) == length and zlib.crc32(body) == checksum
        return (body if good else None), self._stream.tell()

    def _compare(self, found: dict[str, Any], identity: dict[str, Any]) -> None:
        other = [key for key in (*identity, *found) if found.get(key) != identity.get(key)]
        if other:
            key = other[0]
            are, that = ("are", "those") if key.split()[0].endswith("s") else ("is", "that")
            raise UsageError(
                f"{str(self.path)!r} is the checkpoint of another run: its {key} {are} {found.get(key)!r}, {that} of this "
                f"run {identity.get(key)!r}; give the same model, parameters and options, or choose another file"
            )

    def _write(self, *body: Buffer) -> None:
        checksum = 0
        for piece in body:
            checksum = zlib.crc32(piece, checksum)
        self._append(_HEAD.pack(sum(map(len, body)), checksum), *body)

    def _append(self, *pieces: Buffer) -> None:
        """Write whole records only: what an interruption or a full disk cuts short is taken back."""
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[self._stream.write(view) :]
            self._end += sum(map(len, pieces))
            # seconds after which what was written is brought onto the disk
            if time.monotonic() - self._saved > 5.0:
                os.fsync(self._stream.fileno())
                self._saved = time.monotonic()
        except BaseException:
            self._stream.truncate(self._end)
            raise

    def close(self, *, remove: bool = False) -> None:
        """Let go of the file; remove it once its run is finished."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if remove:
            self.path.unlink(missing_ok=True)

    # --- steps --------------------------------------------------------------------------------------------------------
    def step(self, label: str, compute: Callable[[], T], codec: Codec) -> T:
        """Return the result of the next step: from the file if it is there, else computed and kept.

        A solver's failure is a result too. What is cheaper to compute than to write is not kept.
        """
        index, self.steps = self.steps, self.steps + 1
        if index in self._there:
            return self._replay(index, label, codec)
        began = time.perf_counter()
        try:
            result = compute()
        except SolverError as error:
            if type(error) is SolverError:  # others say more than a text, or may not come again: there may be more memory
                self._keep(index, [label, "failed", str(error)], codec, time.perf_counter() - began)
            raise
        self._keep(index, [label, "done", result], codec, time.perf_counter() - began)
        return result

    def holds(self, ahead: int) -> bool:
        """Return whether the result of a step is there already: the next one, or ``ahead`` of it."""
        return self.steps + ahead in self._there

    def _replay(self, index: int, label: str, codec: Codec) -> Any:
        place, length = self._there[index]
        self._stream.seek(place)
        try:
            found, status, result = codec.unpack(memoryview(self._stream.read(length))[8:])
        except (PackingError, ValueError) as error:
            raise self._unfit(str(error)) from None
        if found != label:
            raise self._unfit(f"step {index + 1} is {label!r}, and was {found!r}")
        self.replayed += 1
        if status == "failed":
            raise SolverError(result)
        return result

    def _unfit(self, why: str) -> UsageError:
        return UsageError(
            f"{str(self.path)!r} does not fit this solver ({why}); it may come from another state of eqsolve: "
            "remove it and start again"
        )

    def _keep(self, index: int, result: Any, codec: Codec, seconds: float) -> None:
        if self._stream is None:
            return
        try:
            # kept if computing it took longer than writing 2e7 bytes a second, and 1e5 bytes in any case
            body = codec.pack(result, 2e7 * seconds + 1e5)
        except TooLargeError:
            return
        except PackingError as problem:
            logger.warning("a step of this solve is not kept in the checkpoint: %s", problem)
            return
        try:
            self._write(struct.pack("<Q", index), *body)
        except OSError as error:
            logger.warning("%s; the solve goes on without a checkpoint", cannot_write(self.path, error))
            self.close()
