"""A stable hash of a model's content: the same on every machine and in every process."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from sympy import And, Basic, Or

from eqsolve.language.equations import Equation
from eqsolve.language.keeping import kept_by_model
from eqsolve.language.laws import Empirical
from eqsolve.language.model import Model, Table
from eqsolve.language.symbols import Head, Named

__all__ = ["sign"]


@kept_by_model
@functools.lru_cache(maxsize=256)
def sign(model: Model) -> str:
    """Return 16 hexadecimal digits that change exactly when the model's content does."""
    parts = [type(model).__name__, *(f"{field}={_canonical(getattr(model, field))}" for field in model.content)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _canonical(value: Any) -> str:
    if isinstance(value, Table):
        return "{" + ",".join(f"{_canonical(k)}:{_canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ",".join(_canonical(entry) for entry in value) + ")"
    if isinstance(value, Equation):
        return f"{_canonical(value.lhs)}=={_canonical(value.rhs)}"
    if isinstance(value, Named):
        given = ",".join(f"{key}={value.assumptions0[key]}" for key in sorted(value._assumptions_orig))
        extra = ",".join(_canonical(entry) for entry in value.extra)
        return f"{type(value).__name__}[{value.name};{given};{extra}]"
    if isinstance(value, Head | Empirical):
        return f"{type(value).__name__}{value._hashable_content()}"
    if isinstance(value, Basic) and value.args:
        inner = [_canonical(arg) for arg in value.args]
        if value.is_Add or value.is_Mul or isinstance(value, And | Or):
            inner.sort()  # sympy's own order of arguments may depend on the session
        return f"{type(value).__name__}({','.join(inner)})"
    return repr(value)
