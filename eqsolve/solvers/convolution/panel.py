"""One panel: collocation at its nodes, all unknowns together, by Newton's method with exact slopes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram, Integrand, MemoryEquation, Reading, Terms
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.panel_functions import PanelFunctions, Samples, folded_points

__all__ = ["NoConvergenceError", "NotFiniteError", "Panel"]

_MOST_STEPS = 25
_SHRINKS = 4.0  # the least factor by which a Newton step is shorter than the one before it, near a solution


class NoConvergenceError(Exception):
    """Newton's method does not settle on a panel."""


class NotFiniteError(Exception):
    """A right-hand side is not a number."""

    def __init__(self, equation: MemoryEquation, time: float) -> None:
        super().__init__()
        self.equation, self.time = equation, time


class Panel:
    """A panel behind the functions known so far, and what its unknown values enter.

    Parameters
    ----------
    program
        The system with its numbers.
    past
        The functions on the panels before.
    width
        Of this panel.
    delays
        Lengths of the delays.
    """

    def __init__(self, program: ConvolutionProgram, past: PanelFunctions, width: float, delays: Sequence[float]) -> None:
        self.program, self.past, self.width = program, past, width
        self.begin = float(past.edges[-1])
        self.basis = past.basis
        self.nodes = self.begin + width * self.basis.nodes
        self.places = len(self.nodes)
        self.unknowns = len(program.equations)
        self._identity = np.eye(self.places)
        self._delayed = [self._at_delay(delay) for delay in delays]
        self._folded: tuple[Array, Array, Samples, Samples] | None = None

    # --- readings ---------------------------------------------------------------------------------------------------------
    def _at_delay(self, delay: float) -> Samples:
        """Return all functions a delay before the nodes, the given past before the start."""
        moments = self.nodes - delay
        side = np.where(self.basis.nodes == 0.0, 1.0, -1.0)  # a panel reads its own side of a break point
        before = moments + 1e-9 * self.width * side < 0
        inside = np.where(before, 0.0, moments)
        made = self.past.sample(inside, self.basis.nodes - delay / self.width, self.width, False, side)
        for number, equation in enumerate(self.program.equations):
            if equation.past is not None and before.any():
                made.known[number, before] = _filled(equation.past(moments[before])[0], int(before.sum()))
        if made.rows is not None:
            made.rows[before] = 0.0
        return made

    def _memory(self) -> tuple[Array, Array, Samples, Samples]:
        """Return points v and weights of the folded integrals, and all functions there and at t − v."""
        if self._folded is None:
            readings = [item for integrand in self.program.integrals for item in integrand.readings]
            rates = any(item.rate for item in readings)
            points, weights = folded_points(np.append(self.past.edges, self.begin + self.width), self.nodes, self.basis)
            late = self.nodes[:, None] - points
            early = self.past.sample(points, (points - self.begin) / self.width, self.width, rates)
            later = self.past.sample(late, self.basis.nodes[:, None] - points / self.width, self.width, rates)
            self._folded = points, weights, early, later
        return self._folded

    def integrals(self, wanted: Sequence[int], table: Array, slopes: bool) -> tuple[list[Array], list[dict[int, Array]]]:
        """Return integrals at the nodes, and their derivatives (nodes, nodes) by the values of each unknown on the panel."""
        values: list[Array] = []
        derivatives: list[dict[int, Array]] = []
        for number in wanted:
            value, found = self._integral(self.program.integrals[number], table, slopes)
            values.append(value)
            derivatives.append(found)
        return values, derivatives

    def _integral(self, integrand: Integrand, table: Array, slopes: bool) -> tuple[Array, dict[int, Array]]:
        points, weights, early, late = self._memory()
        later = self.nodes[:, None] - points
        total = np.zeros(self.places)
        found: dict[int, Array] = {}
        for first, lag, at_first, at_lag in ((points, later, early, late), (later, points, late, early)):
            places = {"early": at_first, "lag": at_lag}
            arguments: list[Any] = [first, lag]
            for reading in integrand.readings:
                if reading.where == "now":
                    arguments.append(table[reading.unknown][:, None])
                else:
                    arguments.append(places[reading.where].values(reading.unknown, reading.rate, table))
            total += np.sum(weights * integrand.function(*arguments)[0], axis=1)
            if not slopes:
                continue
            for reading, change in zip(integrand.readings, integrand.slopes(*arguments), strict=True):
                weighted = weights * change
                if reading.where == "now":
                    part = np.diag(weighted.sum(axis=1))
                else:
                    rows = places[reading.where].rate_rows if reading.rate else places[reading.where].rows
                    if rows is None:
                        continue
                    part = np.matmul(weighted[:, None, :], rows)[:, 0, :]
                found[reading.unknown] = found.get(reading.unknown, 0.0) + part
        return total, found

    def _read(self, reading: Reading, table: Array) -> Array:
        if reading.where == "delay":
            return self._delayed[reading.delay].values(reading.unknown, False, table)
        return table[reading.unknown]

    def _entering(self, reading: Reading) -> Array | None:
        """Return how the panel's values enter a reading, (nodes, nodes)."""
        return self._delayed[reading.delay].rows if reading.where == "delay" else self._identity

    # --- expressions ------------------------------------------------------------------------------------------------------
    def evaluate(self, terms: Terms, table: Array) -> list[Array]:
        """Return expressions at the nodes."""
        return self._expressions(terms, table, False)[0]

    def _expressions(self, terms: Terms, table: Array, slopes: bool) -> tuple[list[Array], list[tuple[int, int, Array]]]:
        """Return expressions at the nodes, and (expression, unknown, matrix) of their derivatives."""
        integrals, changes = self.integrals(terms.integrals, table, slopes)
        arguments = [self.nodes, *(self._read(item, table) for item in terms.readings), *integrals]
        values = [_filled(value, self.places) for value in terms.function(*arguments)]
        found: list[tuple[int, int, Array]] = []
        if slopes:
            for (row, column), change in zip(terms.partials, terms.slopes(*arguments), strict=True):
                factor = _filled(change, self.places)[:, None]
                if column < len(terms.readings):
                    reading = terms.readings[column]
                    rows = self._entering(reading)
                    if rows is not None:
                        found.append((row, reading.unknown, factor * rows))
                else:
                    found.extend((row, key, factor * part) for key, part in changes[column - len(terms.readings)].items())
        return values, found

    # --- Newton -----------------------------------------------------------------------------------------------------------
    def solve(self, guess: Array, tolerance: float, sizes: Array) -> tuple[Array, int]:
        """Return the values of all unknowns on the nodes, and the number of Newton steps.

        ``sizes`` are those of the unknowns; ``tolerance`` is relative to them.
        """
        table, before = guess.copy(), np.inf
        for step in range(1, _MOST_STEPS + 1):
            residual, matrix = self._system(table)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    change = np.linalg.solve(matrix, residual.ravel()).reshape(table.shape)
                except (np.linalg.LinAlgError, RuntimeWarning):
                    raise NoConvergenceError from None
            if not np.all(np.isfinite(change)):
                raise NoConvergenceError
            table -= change
            scale = np.maximum(sizes, np.abs(table).max(axis=1))
            moved = float(np.max(np.abs(change).max(axis=1) / np.where(scale > 0, scale, 1.0)))
            if moved <= tolerance or (moved < 1e-10 and moved > before / _SHRINKS):
                return table, step
            if step > 6 and moved > before:
                raise NoConvergenceError
            before = moved
        raise NoConvergenceError

    def _system(self, table: Array) -> tuple[Array, Array]:
        """Return residuals (unknowns, nodes) and their Jacobian."""
        values, changes = self._expressions(self.program.bodies, table, True)
        count, places = self.unknowns, self.places
        residual = np.zeros((count, places))
        matrix = np.zeros((count, places, count, places))
        for number, (equation, value) in enumerate(zip(self.program.equations, values, strict=True)):
            own = matrix[number, :, number]
            finite = np.isfinite(value)
            finite[0] |= equation.kind != "defined"
            if not finite.all():
                place = int(np.argmin(finite))
                raise NotFiniteError(equation, float(self.nodes[place]))
            if equation.kind == "differential":
                residual[number] = self.basis.slopes @ table[number] - self.width * value
                own += self.basis.slopes
                residual[number, 0], own[0] = table[number, 0] - self._left(number), self._identity[0]
            elif equation.kind == "defined":
                residual[number] = table[number] - value
                own += self._identity
            else:
                residual[number] = value
                residual[number, 0] = table[number, 0] - self.basis.first @ table[number, 1:]
                own[0, 0], own[0, 1:] = 1.0, -self.basis.first
        for row, column, part in changes:
            kind = self.program.equations[row].kind
            if kind == "defined":
                matrix[row, :, column] -= part
            else:
                matrix[row, 1:, column] += part[1:] if kind == "constraint" else -self.width * part[1:]
        return residual, matrix.reshape(count * places, -1)

    def _left(self, number: int) -> float:
        """Return the value at the left end of an unknown that has a derivative."""
        if self.past.panels:
            return float(self.past.tables[-1, number, -1])
        past = self.program.equations[number].past
        assert past is not None
        return float(np.ravel(past(np.zeros(1))[0])[0])


def _filled(value: Any, count: int) -> Array:
    array = np.asarray(value, dtype=float)
    return array if array.shape == (count,) else np.broadcast_to(array, (count,)).copy()
