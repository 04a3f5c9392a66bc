"""Checkpoints: the finished steps of a solve in a file, so that a killed solve goes on where it was.

Every solver is deterministic, so a solve is a sequence of steps whose results decide what comes next. A checkpoint
keeps the results of the steps that took time, one record each, appended and checksummed. When the solve is resumed it
runs again from its first line; a step whose result is there is read, not computed. The numbers are the same, bit by bit.
A record cut short by a crash fails its checksum and is dropped. A file is data only: reading it never runs code.
"""

import json
import logging
import math
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eqsolve.errors import SolverError, UsageError
from eqsolve.files.atomic import cannot_write, lock

# Objects as bytes and back, bit by bit and without running code: a JSON skeleton, then the arrays.
# What is plain (numbers, texts, lists, dictionaries, arrays) is written as it is; objects of the
# classes that a ``Codec`` knows as their attributes; and words, objects that the reader has too
# (symbols, compiled functions), by their place in its vocabulary. Anything else cannot be packed.
# An array keeps the order of its axes in memory, on which the last bits of a matrix product may
# depend; an object met twice is one object again.


Buffer = bytes | memoryview


class PackingError(Exception):
    """An object cannot be packed, or bytes are not what was packed."""


class TooLargeError(PackingError):
    """A value takes more bytes than allowed."""


class Codec:
    """Packs objects.

    Parameters
    ----------
    classes
        Those whose objects are written as their attributes.
    words
        Objects that are there already when bytes are unpacked, in an order that is always the same.
    without
        Names of attributes that need not be kept.
    """

    def __init__(self, classes: Iterable[type] = (), words: Iterable[Any] = (), without: Iterable[str] = ()) -> None:
        self.classes = {item.__name__: item for item in classes}
        self.words = list(words)
        self.without = frozenset(without)
        self._places: dict[Any, int] = {}
        for place, word in enumerate(self.words):
            self._places.setdefault(_key(word), place)

    def pack(self, value: Any, limit: float = math.inf) -> list[Buffer]:
        """Return a value as bytes, in pieces, most of them views of its arrays; more than ``limit`` are refused."""
        work = _Packer(self, limit)
        skeleton = json.dumps(work.encode(value)).encode()
        return [struct.pack("<Q", len(skeleton)), skeleton, *work.blobs]

    def unpack(self, data: Buffer) -> Any:
        """Return the value that was packed."""
        try:
            (length,) = struct.unpack_from("<Q", data)
            return _Unpacker(self, memoryview(data), 8 + length).decode(json.loads(bytes(data[8 : 8 + length])))
        except (struct.error, ValueError, KeyError, IndexError, TypeError) as error:
            raise PackingError(f"{type(error).__name__}: {error}") from None

    def place(self, value: Any) -> int | None:
        """Return the place of a word in the vocabulary, or None."""
        return self._places.get(_key(value))


def _key(value: Any) -> Any:
    """Return what tells words apart: equal ones are the same; those that cannot be compared are themselves."""
    try:
        return (type(value), hash(value), value)
    except TypeError:
        return id(value)


class _Packer:
    """One object on its way into bytes."""

    def __init__(self, codec: Codec, limit: float) -> None:
        self.codec, self.limit, self.size = codec, limit, 0
        self.blobs: list[Buffer] = []
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no identity is used again meanwhile

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str) or type(value) in (int, float):
            return value
        if isinstance(value, list):
            return [self.encode(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.encode(item) for item in value]}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, set | frozenset):
            return {type(value).__name__: [self.encode(item) for item in value]}
        place = self.codec.place(value)
        return {"word": place} if place is not None else self._object(value)

    def _object(self, value: Any) -> Any:
        if id(value) in self.seen:
            return {"again": self.seen[id(value)]}
        name = type(value).__name__
        if isinstance(value, np.generic):
            made: Any = {"number": [value.dtype.str, self._blob(value.tobytes())]}
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            made = {"array": self._array(value)}
        elif self.codec.classes.get(name) is type(value):
            kept = {key: item for key, item in vars(value).items() if key not in self.codec.without}
            made = {"object": [name, {key: self.encode(item) for key, item in kept.items()}]}
        else:
            raise PackingError(f"a {name} cannot be packed")
        self.seen[id(value)] = len(self.kept)
        self.kept.append(value)
        return made

    def _array(self, value: np.ndarray[Any, Any]) -> list[Any]:
        """Return type, shape, order of axes in memory, axes along which nothing changes, and place of the numbers."""
        steps = value.strides
        constant = [axis for axis, step in enumerate(steps) if step == 0 and value.shape[axis] > 1]
        inner = value[tuple(slice(0, 1) if axis in constant else slice(None) for axis in range(value.ndim))]
        order = sorted(range(value.ndim), key=lambda axis: -abs(steps[axis]))
        dense = np.ascontiguousarray(inner.transpose(order))
        data = dense.data.cast("B") if dense.size else b""
        return [value.dtype.str, list(value.shape), order, constant, self._blob(data)]

    def _blob(self, data: Buffer) -> list[int]:
        place = [self.size, len(data)]
        self.blobs.append(data)
        self.size += len(data)
        if self.size > self.limit:
            raise TooLargeError(f"more than {self.limit:g} bytes")
        return place


class _Unpacker:
    """One object on its way out of bytes."""

    def __init__(self, codec: Codec, data: memoryview, begin: int) -> None:
        self.codec, self.data, self.begin = codec, data, begin
        self.made: list[Any] = []

    def decode(self, entry: Any) -> Any:
        if isinstance(entry, list):
            return [self.decode(item) for item in entry]
        if not isinstance(entry, dict):
            return entry
        ((kind, body),) = entry.items()
        match kind:
            case "tuple":
                return tuple(self.decode(item) for item in body)
            case "slice":
                return slice(*body)
            case "dict":
                return {self.decode(key): self.decode(item) for key, item in body}
            case "set" | "frozenset":
                items = [self.decode(item) for item in body]
                return set(items) if kind == "set" else frozenset(items)
            case "word":
                return self.codec.words[body]
            case "again":
                return self.made[body]
        value = self._object(kind, body)
        self.made.append(value)
        return value

    def _object(self, kind: str, body: Any) -> Any:
        if kind == "object":
            name, attributes = body
            value: Any = object.__new__(self.codec.classes[name])
            value.__dict__.update({key: self.decode(item) for key, item in attributes.items()})
            return value
        if kind == "number":
            return np.frombuffer(self._bytes(body[1]), np.dtype(body[0]))[0]
        if kind != "array":
            raise ValueError(f"what is {kind!r}?")
        dtype, shape, order, constant, blob = body
        inner = [1 if axis in constant else size for axis, size in enumerate(shape)]
        numbers = np.frombuffer(self._bytes(blob), np.dtype(dtype)).copy().reshape([inner[axis] for axis in order])
        made = numbers.transpose(np.argsort(order)) if shape else numbers
        return np.broadcast_to(made, shape) if constant else made

    def _bytes(self, place: list[int]) -> memoryview:
        begin = self.begin + place[0]
        found = self.data[begin : begin + place[1]]
        if len(found) != place[1]:
            raise ValueError("bytes are missing")
        return found


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
        good = len(body) == length > 0 and zlib.crc32(body) == checksum  # zeros are what a crash may leave behind
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
