"""Which shifted times may be read: t − s under an integral over s, and t − τ with a constant delay."""

from __future__ import annotations

from collections.abc import Iterable

from sympy import Derivative, Expr

from eqsolve.language.model import Model
from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Function, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.convolution_form import delay_of, is_lag


def shift_problem(value: Value, model: Model, times: Iterable[Expr], integrals: tuple[Int, ...]) -> str | None:
    """Return what is wrong with a function at a shifted time; nothing if it is right, None if it is no such function.

    ``times`` have a meaning where it stands, ``integrals`` are around it.
    """
    head, moment = value.head, value.moments[0]
    if not isinstance(head, Function) or not isinstance(model, System) or not moment.atoms(Time):
        return None
    name = head.name
    if moment.has(Value):
        return (
            f"reads `{value}`, whose delay depends on the solution; which past is read, and where the solution has break "
            f"points, must be known beforehand: expected a constant delay, such as `{name}(t - tau)` with tau = param('tau')"
        )
    if other := _others(model):
        return (
            f"reads `{value}` at a shifted time beside `{other}`; shifted times are read in systems of one-time functions "
            "only: write the equation with two times, or leave the other unknowns out"
        )
    variables = [node.variable for node in integrals]
    if integrals and is_lag(moment, integrals[-1].high, integrals[-1].variable):
        if model.start != 0:
            return f"reads `{value}`, but the system starts at `{model.start}`; a convolution starts at 0: use shift_time()"
        return ""
    for now in (item for item in times if item not in variables):
        delay = delay_of(moment, now)
        if delay is None:
            continue
        if delay.is_negative:
            return (
                f"reads the future: `{value}` lies later than the running time; "
                "an equation may read the present and the past only"
            )
        if not delay.is_nonnegative:
            return (
                f"reads `{value}`, whose delay `{delay}` may be negative; declare its parameters positive, "
                "param('tau', positive=True)"
            )
        if integrals:
            return (
                f"reads `{value}` at a delay under an integral; give it a name by a further equation, Eq(z({now}), {value}), "
                f"and read z({variables[-1]}) or z({integrals[-1].high} - {variables[-1]})"
            )
        return ""
    now = next((item for item in times if item not in variables), None)
    if variables and moment.atoms(Time) <= {*times}:
        return (
            f"reads `{value}` under an integral over `{variables[-1]}`; expected `{name}({variables[-1]})`, or "
            f"`{name}({integrals[-1].high} - {variables[-1]})` in a convolution"
        )
    if now is not None and moment.atoms(Time) == {now}:
        return (
            f"reads `{value}`, whose delay `{now - moment}` changes with time; expected a constant delay of parameters, "
            f"such as `{name}({now} - tau)`"
        )
    return None


def derivative_problem(expr: Derivative, model: Model, integrals: tuple[Int, ...]) -> str | None:
    """Return what is wrong with a derivative on a right-hand side; nothing if it is right, None if it has no place there."""
    value = expr.expr
    if not (isinstance(model, System) and integrals and isinstance(value, Value) and isinstance(value.head, Function)):
        return None
    if _others(model):
        return None
    variable = integrals[-1].variable
    times = (variable, integrals[-1].high)
    if len(expr.variables) > 1:
        return f"has the derivative `{expr}` of higher order under an integral; introduce a further function for it"
    if value.moments[0] == variable or is_lag(value.moments[0], times[1], variable):
        return ""
    return (
        f"has the derivative `{expr}` under an integral over `{variable}`; expected one of `{value.head.name}({variable})` "
        f"or `{value.head.name}({times[1]} - {variable})`"
    )


def _others(system: System) -> str:
    """Return the first unknown that is no function of one time."""
    return next((head.name for head in system.unknowns if not isinstance(head, Function)), "")
