"""Inverse functions at many points: the y with f(y) = x, in floats or in mpmath numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sympy import Basic, lambdify

from eqsolve.language.nodes import InverseValue

__all__ = ["InverseFunction"]

Array = np.ndarray[Any, np.dtype[Any]]
_ROUNDS = 200


class InverseFunction:
    """y with f(y) = x for an increasing f: Newton's method inside a shrinking bracket, all points at once."""

    def __init__(self, node: InverseValue, randoms: Sequence[Basic], parameters: Sequence[Basic]) -> None:
        y, arguments = node.variable, [*randoms, *parameters]
        slope = node.expression.diff(y)
        self._target = lambdify(arguments, node.argument, "numpy")
        self._ends = [lambdify(list(parameters), end, "numpy") for end in node.domain]
        self._both = lambdify([y, *arguments], [node.expression, slope], ["scipy", "numpy"], cse=True)
        self._precise = lambdify([y, *arguments], [node.expression - node.argument, slope], "mpmath", cse=True)

    def __call__(self, columns: Sequence[Array], numbers: Sequence[Any], module: str) -> Array:
        """Return the roots; the columns hold the random variables' values at the points."""
        floats = [np.asarray(column, dtype=float) for column in columns]
        values = [float(number) for number in numbers]
        roots = self._floats(floats, values)
        return roots if module == "numpy" else self._polish(roots, columns, numbers)

    def _floats(self, columns: list[Array], numbers: list[float]) -> Array:
        size = len(columns[0])
        target = self._target(*columns, *numbers) * np.ones(size)
        low, high = (np.full(size, float(end(*numbers))) for end in self._ends)
        y = _between(low, high)
        with np.errstate(all="ignore"):
            for _ in range(_ROUNDS):
                value, slope = self._both(y, *columns, *numbers)
                gap = value - target
                low, high = np.where(gap <= 0, y, low), np.where(gap >= 0, y, high)
                new = y - gap / slope
                outside = ~((new > low) & (new < high)) & (gap != 0)
                new = np.where(outside, _between(low, high), np.where(gap == 0, y, new))
                moved = np.abs(new - y)
                y = new
                if np.all(moved <= 4e-16 * np.abs(y)):
                    break
        return y

    def _polish(self, roots: Array, columns: Sequence[Array], numbers: Sequence[Any]) -> Array:
        import mpmath

        found = []
        for index, start in enumerate(roots):
            y = mpmath.mpf(float(start))
            given = [*(column[index] for column in columns), *numbers]
            for _ in range(60):
                value, slope = self._precise(y, *given)
                step = value / slope
                y -= step
                if abs(step) <= 100 * mpmath.eps * (abs(y) + mpmath.eps):
                    break
            found.append(y)
        return np.array(found, dtype=object)


def _between(low: Array, high: Array) -> Array:
    """Return a point inside each bracket: halfway in asinh y, further out where an end is infinite."""
    a, b = np.arcsinh(low), np.arcsinh(high)
    outward = np.sinh(np.where(np.isinf(b), a + 1.5, b - 1.5))
    middle = np.where(np.isinf(a) ^ np.isinf(b), outward, np.sinh((a + b) / 2))
    middle = np.where(np.isinf(a) & np.isinf(b), 0.0, middle)
    return np.where((middle > low) & (middle < high), middle, (low + high) / 2)
