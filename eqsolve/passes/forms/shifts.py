"""One-time functions at shifted times: φ(t − s) under an integral over s, and y(t − τ) at a constant delay."""

from __future__ import annotations

from sympy import Derivative, Expr, expand

from eqsolve.language.symbols import Function, Parameter, Time, Value
from eqsolve.language.system import System

__all__ = ["delay_of", "delayed_heads", "has_shifts", "is_lag", "shifted_values"]


def has_shifts(system: System) -> bool:
    """Whether a function stands at a shifted time, or its derivative on a right-hand side: only convolutions know these."""
    sides = [equation.rhs for equation in system.equations]
    sides += [side for item in system.constraints.values() for side in (item.lhs, item.rhs)]
    return any(_shifted(side) for side in (*sides, *system.observables.values()))


def _shifted(expr: Expr) -> bool:
    return expr.has(Derivative) or any(not moment.is_Atom for value in expr.atoms(Value) for moment in value.moments)


def shifted_values(system: System) -> tuple[Value, ...]:
    """Return the values at shifted times, in order."""
    found = {value for equation in system.equations for value in equation.rhs.atoms(Value)}
    found |= {value for expr in system.observables.values() for value in expr.atoms(Value)}
    return tuple(sorted((v for v in found if any(not moment.is_Atom for moment in v.moments)), key=str))


def is_lag(moment: Expr, late: Expr, early: Expr) -> bool:
    """Whether a moment is the time between two."""
    return expand(moment - (late - early)) == 0


def delay_of(moment: Expr, now: Expr) -> Expr | None:
    """Return τ of a moment ``now − τ`` with τ made of parameters; None where it is something else."""
    delay = expand(now - moment)
    if delay.has(Value) or any(not isinstance(item, Parameter) for item in delay.free_symbols):
        return None
    return delay


def delayed_heads(system: System) -> frozenset[Function]:
    """Return the functions that are read at a delay, so that their past before the start counts."""
    found: set[Function] = set()
    for value in shifted_values(system):
        moment = value.moments[0]
        times = moment.atoms(Time)
        if isinstance(value.head, Function) and len(times) == 1 and delay_of(moment, next(iter(times))) is not None:
            found.add(value.head)
    return frozenset(found)
