"""Systems in which kernels enter through compositions only, so that they can be matrices on few nodes."""

from __future__ import annotations

from typing import Any

from sympy import Add, expand

from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Correlation, Response, Time, Value
from eqsolve.language.system import System

__all__ = ["is_composition", "on_diagonal"]


def is_composition(system: System) -> bool:
    """Whether every kernel enters linearly or through integrals of at most one other kernel."""
    marker = Time("i")
    for equation in system.equations:
        head = equation.head
        if isinstance(head, Correlation) and any(on_diagonal(key) for key in system.init if _belongs(key, head)):
            return False  # a value on the diagonal means a cusp there
        for node in equation.rhs.atoms(Int):
            kernels = [value for value in node.integrand.atoms(Value) if value.head.arity == 2]
            if len(kernels) > 2 or not any(isinstance(value.head, Response) for value in kernels):
                return False
            if any(node.integrand.diff(value).has(value) for value in kernels):
                return False
        outside = equation.rhs.replace(lambda item: isinstance(item, Int), lambda item: marker)
        values = [value for value in outside.atoms(Value) if value.head.arity == 2]
        if any(outside.diff(value).atoms(Value) & set(values) for value in values):
            return False
        responses = {value for value in values if isinstance(value.head, Response)}
        if isinstance(head, Correlation) and responses:
            return False  # white noise: a cusp again
        if isinstance(head, Response) and not all(
            term.atoms(Value) & responses or marker in term.free_symbols for term in Add.make_args(expand(outside))
        ):
            return False  # a given kernel, which is no composition of others
    return bool(system.kernels)


def _belongs(key: Any, head: Any) -> bool:
    return isinstance(key, Value) and key.head == head


def on_diagonal(key: Value) -> bool:
    return isinstance(key.moments[0], Time) and key.moments[0] == key.moments[1]
