"""Processes at the start of time, ``x(0)`` under an expectation, replaced by what they start from.

A state starts from its ``init``, a process that is defined from its definition there. A start that is drawn from a law becomes
a random constant, the same one in the paths and where it is read.
"""

from typing import Any

from sympy import Basic, Expr, KroneckerDelta, S, expand

from eqsolve.errors import ModelError
from eqsolve.language.laws import Normal, Resampled
from eqsolve.language.model import Equation, Table, mapper
from eqsolve.language.nodes import GP, E, Int, Resp, White
from eqsolve.language.symbols import Correlation, Function, Parameter, Process, Response, Time, Value, fresh_name
from eqsolve.language.system import System, start_constant
from eqsolve.passes.forms.expressions import free_times, outermost

# --- Discrete time: noises without memory become Gaussian processes uncorrelated from step to step.
#
# With steps of length h, white noise of strength S, held during a step, has the variance S/h.
STEP = Parameter("step", positive=True)
"""The length of a step, which the option of the same name sets."""


def put_in_steps(system: System) -> System:
    """Return a system for discrete time; its step is ``STEP`` unless it has one of its own."""
    length: Any = STEP if system.step is None else system.step
    times = sorted(system.time_symbols, key=lambda item: (len(item.name), item.name))
    running = [eq.time for eq in system.equations if eq.time is not None]
    t = running[0] if running else Time("t")
    other = next((item for item in times if item != t and item.name == f"{t.name}'"), Time("t'" if t.name != "t'" else "t1"))
    apart = KroneckerDelta(t, other)
    laws: dict[Any, Any] = {}
    for noise, law in system.laws.items():
        match law:
            case White():
                clocks = {item: t for item in law.strength.free_symbols if isinstance(item, Time)}
                laws[noise] = GP(law.strength.xreplace(clocks) / length * apart)
            case Resampled(law=Normal(args=(mean, variance))):
                laws[noise] = GP(variance * apart, mean)
            case _:
                laws[noise] = law
    return system if laws == dict(system.laws) else system._with(laws=Table(laws), step=length)


def start_of(system: System, head: Process) -> Expr | None:
    """Return what a process starts from; None where that is a noise's own value, or not known."""
    if head in system.init:
        return start_constant(head, system.init[head])
    equation = next((item for item in system.equations if item.head == head and not item.is_differential), None)
    if equation is None:
        return None
    body = equation.rhs.xreplace({equation.time: system.start})
    body = body.replace(lambda node: isinstance(node, Int), lambda node: S.Zero)
    inner = {value: start_of(system, value.head) for value in body.atoms(Value) if isinstance(value.head, Process)}
    known = {value: item for value, item in inner.items() if item is not None}
    return body.xreplace(known) if len(known) == len(inner) else None


def put_starts(system: System) -> System:
    """Return a system whose equations and observables read no process at the start."""
    sides = [*(item.rhs for item in system.equations), *system.observables.values()]
    values = {value for side in sides for value in side.atoms(Value) if value.moments[0] == system.start}
    read = [value for value in values if isinstance(value.head, Process) and value.head not in system.noises]
    known = {value: start for value in read if (start := start_of(system, value.head)) is not None}
    return system._mapped(mapper(known), "equations", "observables") if known else system


def name_means(system: System) -> System:
    """Return a system whose means in forces, and under integrals of functions and observables, are unknowns of their own.

    Those of one time are functions, those of two times kernels: a correlation, or a response where one is averaged.
    """
    if not system.noises or system.is_indexed:
        return system
    sides = [(eq.key, eq.label, eq.rhs, isinstance(eq.head, Process)) for eq in system.equations]
    sides += [(key, f"observable `{key}`", expr, False) for key, expr in system.observables.items()]
    swaps: dict[Basic, Basic] = {}
    made: dict[Basic, Equation] = {}
    places, taken = (Time("t"), Time("t'")), {*system.names}
    for key, label, expr, force in sides:
        under = {node for item in expr.atoms(Int) for node in item.atoms(E)}
        for node in outermost(expr, E, but=Int) if force else sorted(under, key=str):
            noises = {moment for item in node.atoms(Resp) for moment in item.noise.moments}  # the second time of a response
            moments = sorted(free_times(node.argument), key=lambda item: (item in noises, str(item)))
            if not moments:
                continue
            body = node.xreplace(dict(zip(moments, places, strict=False)))
            turned = body.xreplace(dict(zip(places, places[::-1], strict=True)))
            kind = Function if len(moments) == 1 else Response if noises else Correlation
            if kind is Correlation and expand(body.argument - turned.argument) != 0:
                raise ModelError(
                    f"{label} has the mean `{node}` under an integral; expected one that is symmetric in its times"
                )
            if body not in made:
                head = kind(fresh_name(f"{key}_mean", taken))
                taken.add(head.name)
                made[body] = Equation(head(*places[: len(moments)]), body, system.location)
            swaps[node] = made[body].head(*moments)  # type: ignore[misc]
    given = system._mapped(mapper(swaps), "equations", "observables")
    return given._with(equations=(*given.equations, *made.values())) if made else system
