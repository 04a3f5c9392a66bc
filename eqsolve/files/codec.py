"""Objects as bytes and back, bit by bit and without running code: a JSON skeleton, then the arrays.

What is plain (numbers, texts, lists, dictionaries, arrays) is written as it is; objects of the classes that a ``Codec``
knows as their attributes; and words, objects that the reader has too (symbols, compiled functions), by their place in
its vocabulary. Anything else cannot be packed. An array keeps the order of its axes in memory, on which the last bits of
a matrix product may depend; an object met twice is one object again.
"""

import json
import math
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

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
