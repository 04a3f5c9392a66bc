"""Which branches numbers of the parameters select: compared as floats, and exactly where these are too close to tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sympy import Basic, Expr
from sympy.core.relational import Relational

from eqsolve.compile.lowering import lower
from eqsolve.language.model import Model
from eqsolve.language.symbols import Parameter

__all__ = ["Branches", "is_plain"]

_CLOSE = 1e-12  # sides of a condition that are nearer than this are compared exactly


def is_plain(value: Any) -> bool:
    """Whether a value is a finite number as it is; numpy's floats are."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Branches:
    """On which side of every condition on parameters some numbers lie, and the whole numbers among them."""

    def __init__(self, model: Model, conditions: Sequence[Basic]) -> None:
        relations = sorted({item for condition in conditions for item in condition.atoms(Relational)}, key=str)
        self._whole = tuple(item.name for item in model.parameters if item.is_integer)
        self._relations = relations
        self._sides = lower([side for item in relations for side in (item.lhs, item.rhs)], [], model.parameters)

    def key(self, numbers: Mapping[str, float], exact: Callable[[], Mapping[Parameter, Expr]]) -> tuple[Any, ...]:
        """Return what selects a plan; the numbers are asked for exactly where two sides are close."""
        found = self._sides.at(numbers)() if self._relations else []
        signs = []
        for place, (left, right) in enumerate(zip(found[::2], found[1::2], strict=True)):
            sign = (left > right) - (left < right)
            if sign and abs(left - right) <= _CLOSE * (abs(left) + abs(right)) and not math.isinf(left):
                relation = self._relations[place]
                gap = (relation.lhs - relation.rhs).subs(exact())
                sign = int(gap > 0) - int(gap < 0)
            signs.append(int(sign))
        return (tuple(numbers[name] for name in self._whole), tuple(signs))
