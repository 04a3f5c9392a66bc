"""What is made once for a model and kept, by identity: comparing models is symbolic work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["kept_by_model"]

_KEPT = 128
M = TypeVar("M")
T = TypeVar("T")


def kept_by_model(make: Callable[[M], T]) -> Callable[[M], T]:
    """Return a function that makes something of a model, and keeps the last ones."""
    table: dict[int, tuple[Any, T]] = {}

    @functools.wraps(make, updated=())
    def kept(model: M) -> T:
        known = table.get(id(model))
        if known is None or known[0] is not model:
            known = table[id(model)] = (model, make(model))
            while len(table) > _KEPT:
                del table[next(iter(table))]
        return known[1]

    return kept
