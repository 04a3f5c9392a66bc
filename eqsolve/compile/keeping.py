"""What is made once for a model and kept, by identity: comparing models is symbolic work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = ["kept_by_model"]

_KEPT = 128
M = TypeVar("M")


class _Of(Protocol):
    @property
    def model(self) -> Any: ...


T = TypeVar("T", bound=_Of)


def kept_by_model(make: Callable[[M], T]) -> Callable[[M], T]:
    """Return a function that makes something for a model, which it has as an attribute, and keeps the last ones."""
    table: dict[int, T] = {}

    def kept(model: M) -> T:
        known = table.get(id(model))
        if known is None or known.model is not model:
            known = table[id(model)] = make(model)
            while len(table) > _KEPT:
                del table[next(iter(table))]
        return known

    return kept
