"""Inverse functions at many points: the y with f(y) = x, in floats or in mpmath numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sympy import Basic

from eqsolve.compile.lowering import as_function
from eqsolve.language.nodes import InverseValue
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.increasing import increasing_roots
from eqsolve.numerics.root_tables import first_grid, table, table_starts

__all__ = ["InverseFunction"]


class InverseFunction:
    """y with f(y) = x for an increasing f, at all points at once; polished in mpmath numbers where asked for."""

    def __init__(self, node: InverseValue, randoms: Sequence[Basic], parameters: Sequence[Basic]) -> None:
        y, arguments = node.variable, [*randoms, *parameters]
        slope = node.expression.diff(y)
        self._target = as_function(arguments, [node.argument])
        self._ends = [as_function(list(parameters), [end]) for end in node.domain]
        self._plain = not node.expression.free_symbols & set(randoms)
        self._both = as_function([y, *arguments], [node.expression, slope])
        self._precise = as_function([y, *arguments], [node.expression - node.argument, slope], "mpmath")

    def __call__(self, columns: Sequence[Array], numbers: Sequence[Any], module: str) -> Array:
        """Return the roots; the columns hold the random variables' values at the points."""
        floats = [np.asarray(column, dtype=float) for column in columns]
        values = [float(number) for number in numbers]
        roots = self._floats(floats, values)
        return roots if module == "numpy" else self._polish(roots, columns, numbers)

    def _floats(self, columns: list[Array], numbers: list[float]) -> Array:
        size = len(columns[0])
        target = self._target(*columns, *numbers)[0] * np.ones(size)
        low, high = (np.asarray(float(end(*numbers)[0])) for end in self._ends)

        def value_and_slope(y: Array, places: Array) -> tuple[Array, Array]:
            given = columns if len(places) == size else [column[places] for column in columns]
            value, slope = self._both(y, *given, *numbers)
            return value, slope

        start = None
        if self._plain:
            grid = first_grid(float(low), float(high))
            nothing = [0.0] * len(columns)
            made = table(lambda y: self._both(y, *nothing, *numbers), grid, 1)
            start = table_starts(made, grid, np.zeros(1, dtype=int), target)
        return increasing_roots(value_and_slope, target, low, high, start)

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
