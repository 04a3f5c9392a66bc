"""Checkpoints: the finished steps of a solve in a file, so that a killed solve goes on where it was.

Every solver is deterministic. A checkpoint keeps the results of the steps that took time, one record each, appended and
checksummed. When the solve is resumed it runs again from its first line; a step whose result is there is read, not computed.
The numbers are the same, bit by bit. A record cut short by a crash is dropped. A file is data only: reading it runs no code.
"""

import io
import itertools
import json
import os
import pickle
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eqsolve.errors import SolverError, UsageError, logger
from eqsolve.files.atomic import cannot_write

try:
    import fcntl
except ImportError:  # not on Windows: there two processes that append to one file are not noticed
    fcntl = None  # type: ignore[assignment]

# --- Objects as bytes and back, bit by bit and without running code: a pickle of plain values and
# arrays, of objects of the classes that a ``Codec`` knows, and of references (``shared``) to objects
# that the reader has too, by their index. An array keeps the order of its axes in memory.
Buffer = bytes | memoryview
_SIZES = struct.Struct("<Q")
_PLAIN = (bool, str, int, float, list, tuple, dict, set, frozenset, slice, type(None))


class PackingError(Exception):
    """An object cannot be packed, or bytes are not what was packed."""


class Codec:
    """Packs objects.

    Parameters
    ----------
    classes
        Those whose objects are written as their attributes.
    shared
        Shared objects, known to writer and reader in the same order; stored by index.
    without
        Names of attributes that need not be kept.
    """

    def __init__(self, classes: Iterable[type] = (), shared: Iterable[Any] = (), without: Iterable[str] = ()) -> None:
        self.classes = {item.__name__: item for item in classes}
        self.shared = list(shared)
        self.without = frozenset(without)
        self._places = {_key(word): place for place, word in reversed([*enumerate(self.shared)])}

    def pack(self, value: Any) -> list[Buffer]:
        """Return a value as pieces of bytes, most of them views of arrays."""
        packer = _Packer(self, stream := io.BytesIO())
        packer.dump(value)
        arrays = packer.arrays
        return [_SIZES.pack(len(arrays)), *(_SIZES.pack(len(piece)) for piece in arrays), *arrays, stream.getvalue()]

    def unpack(self, data: Buffer) -> Any:
        """Return the value that was packed."""
        try:
            whole = memoryview(data)
            (count,) = _SIZES.unpack_from(whole)
            ends = np.cumsum([_SIZES.size * (count + 1), *(_SIZES.unpack_from(whole, 8 * k)[0] for k in range(1, count + 1))])
            arrays = [whole[begin:end] for begin, end in itertools.pairwise(ends.tolist())]
            return _Unpacker(self, io.BytesIO(whole[ends[-1] :]), arrays).load()
        except PackingError:
            raise
        except Exception as error:  # bytes that are no pickle may be anything
            raise PackingError(f"{type(error).__name__}: {error}") from None

    def place(self, value: Any) -> int | None:
        """Return the index of an object among ``shared``, or None."""
        return self._places.get(_key(value))


def _key(value: Any) -> Any:
    """Return what tells shared objects apart: equality, or identity where they cannot be compared."""
    try:
        return (type(value), hash(value), value)
    except TypeError:
        return id(value)


class _Packer(pickle.Pickler):
    def __init__(self, codec: Codec, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self.codec = codec
        self.arrays: list[Buffer] = []

    def persistent_id(self, value: Any) -> int | None:
        return None if isinstance(value, _PLAIN) else self.codec.place(value)

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, slice) or any(value is item for item in (_array, _made, slice)):
            return NotImplemented
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
            return _array, (self._place(np.asarray(value)), isinstance(value, np.generic))
        if self.codec.classes.get(kind.__name__) is not kind:
            raise PackingError(f"a {kind.__name__} cannot be packed")
        without = self.codec.without
        return _made, (kind.__name__,), {key: item for key, item in vars(value).items() if key not in without}

    def _place(self, value: np.ndarray[Any, Any]) -> Any:
        """Return type, shape, order of axes in memory, axes without a change, and number of an array."""
        steps = value.strides
        constant = [axis for axis, step in enumerate(steps) if step == 0 and value.shape[axis] > 1]
        inner = value[tuple(slice(0, 1) if axis in constant else slice(None) for axis in range(value.ndim))]
        order = sorted(range(value.ndim), key=lambda axis: -abs(steps[axis]))
        dense = np.ascontiguousarray(inner.transpose(order))
        self.arrays.append(dense.data.cast("B") if dense.size else b"")
        return [value.dtype.str, list(value.shape), order, constant, len(self.arrays) - 1]


class _Unpacker(pickle.Unpickler):
    def __init__(self, codec: Codec, stream: io.BytesIO, arrays: list[memoryview]) -> None:
        super().__init__(stream)
        self.codec, self.arrays = codec, arrays

    def persistent_load(self, place: int) -> Any:
        return self.codec.shared[place]

    def find_class(self, module: str, name: str) -> Any:
        known = {"_array": self._array, "_made": self._made, "slice": slice}
        if name not in known:
            raise PackingError(f"{name} is not made of bytes")
        return known[name]

    def _made(self, name: str) -> Any:
        return object.__new__(self.codec.classes[name])

    def _array(self, place: list[Any], is_number: bool) -> Any:
        dtype, shape, order, constant, number = place
        inner = [1 if axis in constant else size for axis, size in enumerate(shape)]
        numbers = np.frombuffer(self.arrays[number], np.dtype(dtype)).copy().reshape([inner[axis] for axis in order])
        array = numbers.transpose(np.argsort(order)) if shape else numbers
        array = np.broadcast_to(array, shape) if constant else array
        return array[()] if is_number else array


def _array(*_: Any) -> Any:
    """Stand in the bytes for the method of ``_Unpacker`` of that name, as ``_made`` does."""


def _made(*_: Any) -> Any: ...


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
        self.there: dict[int, tuple[int, int]] = {}  # place and length of records, at the start
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

    # --- the file
    def begin(self, identity: dict[str, Any]) -> None:
        """Open the file for a solve, described by model, parameters, options and version."""
        try:
            self._stream = open(self.path, "a+b", buffering=0)  # noqa: SIM115  (closed in close)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        try:
            if fcntl is not None:
                try:  # no other process may append to the file until it is closed
                    fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise UsageError(f"another process is writing {str(self.path)!r}; wait for it, or stop it") from None
            self._read(json.loads(json.dumps(identity, default=str)))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise cannot_write(self.path, error) from None
            raise
        if self.there:
            logger.info("%s holds %d finished steps", self.path, len(self.there))

    def _read(self, identity: dict[str, Any]) -> None:
        stream = self._stream
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        start = stream.read(len(_MAGIC))
        if size and not _MAGIC.startswith(start[: len(_MAGIC)]):
            raise UsageError(f"{str(self.path)!r} is not a checkpoint of eqsolve; choose another file")
        first = self._record(size) if start == _MAGIC else None
        if first is None:  # killed before anything was written
            stream.truncate(0)
            self._append(_MAGIC)
            self._write(json.dumps(identity).encode())
            return
        self._compare(json.loads(first), identity)
        self._end = stream.tell()
        while body := self._record(size):
            self._end = stream.tell()
            self.there[_SIZES.unpack_from(body)[0]] = (self._end - len(body), len(body))
        stream.truncate(self._end)
        stream.seek(0, os.SEEK_END)

    def _record(self, size: int) -> bytes | None:
        """Return the record at the current place; None if it is not whole."""
        head = self._stream.read(_HEAD.size)
        length, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
        body: bytes = self._stream.read(length) if length <= size else b""
        return body if len(body) == length > 0 and zlib.crc32(body) == checksum else None  # a crash may leave zeros

    def _compare(self, old: dict[str, Any], identity: dict[str, Any]) -> None:
        if key := next((key for key in (*identity, *old) if old.get(key) != identity.get(key)), None):
            are, that = ("are", "those") if key.split()[0].endswith("s") else ("is", "that")
            raise UsageError(
                f"{str(self.path)!r} is the checkpoint of another run: its {key} {are} {old.get(key)!r}, {that} of this "
                f"run {identity.get(key)!r}; give the same model, parameters and options, or choose another file"
            )

    def _write(self, *body: Buffer) -> None:
        checksum = 0
        for piece in body:
            checksum = zlib.crc32(piece, checksum)
        self._append(_HEAD.pack(sum(map(len, body)), checksum), *body)

    def append(self, index: int, *body: Buffer) -> None:
        """Keep a record under a number."""
        self._write(_SIZES.pack(index), *body)

    def read(self, index: int) -> memoryview:
        """Return a record that was there at the start."""
        place, length = self.there[index]
        self._stream.seek(place)
        return memoryview(self._stream.read(length))[_SIZES.size :]

    def _append(self, *pieces: Buffer) -> None:
        """Write whole records only: what an interruption or a full disk cuts short is taken back."""
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[self._stream.write(view) :]
            self._end += sum(map(len, pieces))
            if time.monotonic() - self._saved > 5.0:  # seconds: onto the disk itself
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

    # --- steps
    def step(self, label: str, compute: Callable[[], T], codec: Codec) -> T:
        """Return the result of the next step: from the file if it is there, else computed and kept.

        A solver's failure is a result too. What is cheaper to compute than to write is not kept.
        """
        index, self.steps = self.steps, self.steps + 1
        if index in self.there:
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
        """Return whether the result of the step ``ahead`` of the next one is there already."""
        return self.steps + ahead in self.there

    def _replay(self, index: int, label: str, codec: Codec) -> Any:
        try:
            recorded_label, status, result = codec.unpack(self.read(index))
        except (PackingError, ValueError) as error:
            raise self._unfit(str(error)) from None
        if recorded_label != label:
            raise self._unfit(f"step {index + 1} is {label!r}, and was {recorded_label!r}")
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
            body = codec.pack(result)
            # kept if computing took longer than writing 2e7 bytes a second; 1e5 bytes in any case
            if sum(map(len, body)) <= 2e7 * seconds + 1e5:
                self.append(index, *body)
        except PackingError as problem:
            logger.warning("a step of this solve is not kept in the checkpoint: %s", problem)
        except OSError as error:
            logger.warning("%s; the solve goes on without a checkpoint", cannot_write(self.path, error))
            self.close()


def recorded(checkpoint: Checkpoint | None, label: str, compute: Callable[[], T]) -> T:
    """Return the result of a step, from a checkpoint that holds it, else computed."""
    return compute() if checkpoint is None else checkpoint.step(label, compute, Codec())
