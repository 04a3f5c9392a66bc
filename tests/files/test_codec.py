"""Objects become bytes and the same objects again, arrays with their order in memory; nothing is run."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsolve.files.checkpoint import Codec, PackingError


@dataclass(frozen=True, eq=False)
class Thing:
    name: str
    values: Any


class Word:
    """Cannot be packed, only named."""


WORD = Word()
CODEC = Codec([Thing], [WORD, "unused"], without=["passing"])


def packed(codec: Codec, value: Any) -> bytes:
    return b"".join(codec.pack(value))


def there_and_back(value: Any) -> Any:
    return CODEC.unpack(packed(CODEC, value))


words = st.text("aZ0 '\"\\\n\0é∂\ufeff\U0001d53c")  # of letters that are given: all of Unicode takes seconds to list
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner) | st.dictionaries(words | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@given(plain)
@settings(max_examples=30, deadline=None)
def test_plain_values(value: Any) -> None:
    found = there_and_back(value)
    assert found == value
    assert repr(found) == repr(value)  # 1 is not 1.0, −0 is not 0


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0),
        np.arange(20.0)[::3],
        np.arange(20.0)[::-1],
        np.broadcast_to(np.arange(3.0)[:, None], (3, 4)),
        np.broadcast_to(1.5, (3, 4)),
        np.array(2.0),
        np.empty((0, 3)),
        np.array([np.nan, np.inf, -0.0, 5e-324]),
        np.array([True, False]),
        np.array([1 + 2j], dtype=complex),
    ],
)
def test_arrays_keep_their_bits_and_the_order_of_their_axes(array: np.ndarray) -> None:
    found = there_and_back(array)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    assert sorted(range(found.ndim), key=lambda axis: -abs(found.strides[axis])) == order
    assert not array.size or [step == 0 for step in found.strides] == [step == 0 for step in array.strides]


def test_objects_words_and_what_is_the_same_twice() -> None:
    shared = np.arange(3)
    thing = Thing("a", {"first": shared, "second": [shared, WORD], 3: slice(1, None), "s": {1, 2}, "n": np.float64(0.1)})
    found = there_and_back((thing, thing))
    assert found[0] is found[1]
    assert found[0].values["first"] is found[0].values["second"][0]
    assert found[0].values["second"][1] is WORD
    assert found[0].values[3] == slice(1, None)
    assert found[0].values["s"] == {1, 2}
    assert type(found[0].values["n"]) is np.float64


def test_attributes_that_need_not_be_kept() -> None:
    thing = Thing("a", 1)
    thing.__dict__["passing"] = WORD
    assert vars(there_and_back(thing)) == {"name": "a", "values": 1}


@pytest.mark.parametrize("value", [Word(), np.array([Word()]), len, {1: Word()}])
def test_what_cannot_be_packed(value: Any) -> None:
    with pytest.raises(PackingError, match="cannot be packed"):
        CODEC.pack(value)


@given(st.binary(max_size=60), st.integers(0, 200))
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_are_told(noise: bytes, place: int) -> None:
    whole = packed(CODEC, [Thing("a", np.arange(5.0)), WORD, {"x": (1, 2.5)}])
    damaged = whole[:place] + noise + whole[place + len(noise) :]
    with contextlib.suppress(PackingError):
        assert CODEC.unpack(damaged) is not None  # other numbers, perhaps


def test_only_known_classes_are_made() -> None:
    other = packed(Codec([Thing, Word]), Word())
    with pytest.raises(PackingError, match="Word"):
        CODEC.unpack(other)
