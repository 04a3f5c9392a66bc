"""Derivatives, initial values and observables of all paths at once, for one choice of numbers.

Every combination of atoms and Gauss nodes of the random constants is a path. Several quadrature rules of different orders
stand side by side, each with its own expectations, so that one integration shows how well the rules agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.lowering import at
from eqsolve.compile.ode import OdeEquation, OdeProgram
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import Parts, Paths, find_parts
from eqsolve.numerics.laws import Law

__all__ = ["OdeSystem", "bind_system"]


@dataclass(frozen=True, eq=False)
class OdeSystem:
    """A program with its numbers: the laws of its constants, and which of these meet."""

    program: OdeProgram
    laws: Mapping[str, Law]
    parts: Parts

    @property
    def begin(self) -> float:
        """The first time."""
        return float(self.program.begin()[0])

    def part(self, equation: OdeEquation) -> int:
        """Return the part that a process belongs to."""
        return self.parts.of((equation.key,))

    def initial(self, paths: Paths) -> Array:
        """Return the states at the start, one after the other, each on all paths."""
        given = self.program.starts(*(paths.values[item] for item in self.laws))
        return np.concatenate([_filled(value, (paths.count,)) for value in given])

    def slope(self, moment: float, state: Array, paths: Paths) -> Array:
        """Return the derivative of one state, or of several in columns."""
        table = state if state.ndim == 2 else state[:, None]
        moments = np.full(table.shape[1], moment)
        values = self._evaluate(moments, table, paths, self.program.needed)
        shape = (paths.count, table.shape[1])
        slopes = np.concatenate([_filled(value, shape) for value in self.program.derivatives(*values)])
        return slopes if state.ndim == 2 else slopes[:, 0]

    def curves(self, moments: Array, table: Array, paths: Paths) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the functions of time, per rule, and the paths of the processes under the best rule."""
        values = self._evaluate(moments, table, paths, self.program.reported)
        single: dict[str, Array] = {}
        each: dict[str, Array] = {}
        for equation in (*self.program.states, *self.program.definitions):
            value = values[equation.place]
            if equation.process:
                full = np.broadcast_to(value, (paths.count, len(moments)))
                each[equation.key] = full[paths.best[self.part(equation)]]
            else:
                single[equation.key] = paths.per_rule(_filled(value, (len(value), len(moments))))
        for name, value in zip(self.program.observables, self.program.outputs(*values), strict=True):
            single[name] = paths.per_rule(_filled(value, (paths.count, len(moments))))
        return single, each

    def scales(self, moments: Array, table: Array, paths: Paths) -> dict[str, float]:
        """Return, per function of time, the largest size of what was averaged and added up to give it.

        A state's is the most that is added to it from one of the moments, the ends of the steps, to the next.
        """
        program = self.program
        values = self._evaluate(moments, table, paths, len(program.steps))
        functions = [equation for equation in program.states if not equation.process]
        defined = [equation for equation in program.definitions if not equation.process]
        names = [*(equation.key for equation in (*functions, *defined)), *program.observables]
        own = [np.abs(values[equation.place]) for equation in functions]

        def evaluate(stand_ins: Sequence[Array]) -> list[Array]:
            shape = (paths.count, len(moments))
            return [_filled(value, shape)[paths.best[0].start] for value in program.sizes(*values, *stand_ins)]

        rates = evaluate(own)[: len(own)]
        added = [np.maximum(value, np.max(np.diff(moments) * rate[:-1])) for value, rate in zip(own, rates, strict=True)]
        found = evaluate(added)[len(added) :]
        return dict(zip(names, (float(np.max(value)) for value in (*added, *found)), strict=True))

    def _evaluate(self, moments: Array, table: Array, paths: Paths, steps: int) -> list[Array]:
        """Return all quantities at several moments; ``table`` holds the states, one column per moment."""
        values: list[Array] = [moments[None, :], *(paths.values[item][:, None] for item in self.laws)]
        values.extend(table.reshape(len(self.program.states), paths.count, -1))
        for step in self.program.steps[:steps]:
            value = np.atleast_2d(np.asarray(step.function(*values)[0], dtype=float))
            if step.averaged:
                value = paths.mean(_filled(value, (len(value), len(moments))), self.parts.of(step.members))
            values.append(value)
        return values


def _filled(value: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=float)
    return array if array.shape == shape else np.broadcast_to(array, shape)


def bind_system(program: OdeProgram, numbers: Mapping[str, float], laws: Mapping[str, Law]) -> OdeSystem:
    """Return a program with numbers of its parameters and laws of its random constants."""
    drawn = {name: law.at(numbers, laws) for name, law in program.laws}
    used = {name: drawn[name] if name in drawn else laws[name] for name in program.constants}
    return OdeSystem(at(program, numbers), used, find_parts(program.meetings, used))
