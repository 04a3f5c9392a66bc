"""A closed system of compositions as definitions between operators, in the order in which they are swept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Expr, Symbol

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.relations import Relations
from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.symbols import Function, Value
from eqsolve.language.system import System
from eqsolve.numerics.relations import Definition, Sum
from eqsolve.passes.forms.composition import on_diagonal
from eqsolve.passes.forms.derivation import Derivation
from eqsolve.passes.forms.sectors import ROW

__all__ = ["OperatorsProgram", "compile_operators"]


@dataclass(frozen=True, eq=False)
class OperatorsProgram:
    """Definitions of all unknowns, the observables, and the first time."""

    definitions: tuple[Definition, ...]
    observables: tuple[tuple[str, Sum], ...]
    begin: Lowered


def compile_operators(derivation: Derivation, parameters: Sequence[Symbol]) -> OperatorsProgram:
    """Return the definitions of a closed system; differential ones know their start."""
    system, form, relations = derivation.system, derivation.form, Relations(parameters, {})
    assert form is not None
    definitions = tuple(
        relations.definition(equation, _start(system, equation) if equation.is_differential else None)
        for equation in (*form.kernels, *form.functions)
    )
    observables = tuple((name, relations.sum(expr)) for name, expr in form.observables)
    return OperatorsProgram(definitions, observables, lower([system.start], [], parameters))


def _start(system: System, equation: Equation) -> Expr:
    """Return the value at the start, or on the diagonal in ROW."""
    head = equation.head
    if isinstance(head, Function):
        value: Expr = system.init[head]
        return value
    for key, value in system.init.items():
        if isinstance(key, Value) and key.head == head:
            return value.xreplace({key.moments[0]: ROW}) if on_diagonal(key) else value
    raise ModelError(f"{equation.label} has no initial value")
