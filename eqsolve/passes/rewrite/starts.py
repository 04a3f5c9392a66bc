"""Processes at the start of time, ``x(0)`` under an expectation, replaced by what they start from.

A state starts from its ``init``, a process that is defined from its definition there. A start that is drawn from a law becomes
a random constant, the same one in the paths and where it is read.
"""

from sympy import Expr, S

from eqsolve.language.model import mapper
from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Process, Value
from eqsolve.language.system import System, start_constant


def start_of(system: System, head: Process) -> Expr | None:
    """Return what a process starts from; None where that is a noise's own value, or not known."""
    if head in system.init:
        return start_constant(head, system.init[head])
    equation = next((item for item in system.equations if item.head == head and not item.is_differential), None)
    if equation is None:
        return None
    body = equation.rhs.xreplace({equation.time: system.start})
    body = body.replace(lambda node: isinstance(node, Int), lambda node: S.Zero)
    starts = {value: start_of(system, value.head) for value in body.atoms(Value) if isinstance(value.head, Process)}
    return None if None in starts.values() else body.xreplace(starts)


def put_starts(system: System) -> System:
    """Return a system whose equations and observables read no process at the start."""
    sides = [*(item.rhs for item in system.equations), *system.observables.values()]
    values = {value for side in sides for value in side.atoms(Value) if value.moments[0] == system.start}
    read = [value for value in values if isinstance(value.head, Process) and value.head not in system.noises]
    known = {value: start for value in read if (start := start_of(system, value.head)) is not None}
    return system._mapped(mapper(known), "equations", "observables") if known else system
