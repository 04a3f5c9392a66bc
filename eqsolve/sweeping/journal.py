"""The journal of a sweep: finished points, appended one by one, so that a killed sweep goes on where it stopped.

One line per point: the checksum of the rest, then JSON. The first line says which sweep it is. A line that was cut
short by a crash fails its checksum and is dropped, with everything after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import IO, Any

from eqsolve.errors import UsageError
from eqsolve.files.atomic import cannot_write, lock
from eqsolve.sweeping.points import Record


def fingerprint(described: dict[str, Any]) -> str:
    """Return a hash of everything that decides a sweep's numbers."""
    return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Journal:
    """Finished points beside the file they will end up in; ``done`` are those found there at the start."""

    def __init__(self, out: Path, identity: str) -> None:
        self.path = out.with_name(out.name + ".journal")
        self.done: dict[int, Record] = {}
        try:
            self._stream: IO[bytes] = open(self.path, "a+b")  # noqa: SIM115  (closed in close)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        try:
            lock(self._stream, self.path)
            self._read(identity)
        except BaseException:
            self._stream.close()
            raise

    def _read(self, identity: str) -> None:
        self._stream.seek(0)
        good = 0
        for number, line in enumerate(self._stream):
            entry = _decode(line)
            if entry is None:
                break
            if number == 0 and entry.get("sweep") != identity:
                raise UsageError(
                    f"{str(self.path)!r} keeps the points of an unfinished sweep with another model, grid or options; "
                    "remove it to give them up, or choose another file"
                )
            if number > 0:
                self.done[int(entry["index"])] = entry["record"]
            good += len(line)
        self._stream.truncate(good)
        if good == 0:
            self._append({"sweep": identity})

    def write(self, index: int, record: Record) -> None:
        """Append a finished point; it is on the disk when this returns."""
        self._append({"index": index, "record": record})

    def _append(self, entry: dict[str, Any]) -> None:
        try:
            self._stream.write(_encode(entry))
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def close(self, *, remove: bool) -> None:
        """Let go of the journal; remove it once the result is saved."""
        if remove:
            self.path.unlink(missing_ok=True)
        self._stream.close()


def _encode(entry: dict[str, Any]) -> bytes:
    body = json.dumps(entry).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line, or None when the line is not whole."""
    head, _, body = line.rstrip(b"\n").partition(b" ")
    try:
        if not line.endswith(b"\n") or int(head, 16) != zlib.crc32(body):
            return None
        entry = json.loads(body)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
