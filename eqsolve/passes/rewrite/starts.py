"""Processes at the start of time, ``x(0)`` under an expectation, replaced by what they start from.

A state starts from its ``init``, a process that is defined from its definition there. A start that is drawn from a law becomes
a random constant, the same one in the paths and where it is read.
"""

from typing import Any

from sympy import Add, Basic, Derivative, Expr, KroneckerDelta, Mul, S, expand, simplify

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
    if not system.processes or system.is_indexed:
        return system
    every = system.equations if system.noises else ()
    sides = [(eq.key, eq.label, eq.rhs, isinstance(eq.head, Process)) for eq in every]
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


def follow_memories(system: System) -> System:
    """Return a system with means over random constants and memory, but no processes, with a process for every memory.

    ∫ E(a e^{−b (t − s)}) y(s) ds is the mean of x with x' = −b x + a y, x = 0 at the start.
    """
    moving = any(free_times(node.argument) for eq in system.equations for node in eq.rhs.atoms(E))
    if system.processes or system.is_indexed or not (moving and any(eq.rhs.has(Int) for eq in system.equations)):
        return system
    made: list[Equation] = []
    swaps: dict[Basic, Basic] = {}
    taken = {*system.names}
    for equation in system.equations:
        for node in sorted(equation.rhs.atoms(Int), key=str):
            total, t, s = S.Zero, node.high, node.variable
            lagged = any(value.has(t) for value in node.integrand.atoms(Value)) and node.low == 0
            integrand = node.integrand.xreplace({s: t - s}) if lagged else node.integrand
            for term in Add.make_args(expand(integrand, power_exp=False)):
                means = [item for item in Mul.make_args(term) if isinstance(item, E)]
                kernel = means[0].argument if means else Mul(*(item for item in Mul.make_args(term) if item.has(t)))
                for part in Add.make_args(expand(kernel, power_exp=False)):
                    rate = simplify(part.diff(t) / part)
                    if node.low != system.start or rate.has(t, s) or simplify(part.diff(s) / part + rate) != 0:
                        raise ModelError(
                            f"{equation.label}: beside means over random constants, memory is taken whose kernel is a sum of "
                            f"exponentials a*exp(-b*(t - s)) from the start on, got `{node}`; declare processes that give it"
                        )
                    path = Process(fresh_name(f"{equation.key}_memory", taken))
                    taken.add(path.name)
                    drive = (part * term / (means[0] if means else kernel)).xreplace({s: t})
                    made.append(Equation(Derivative(path(t), t), rate * path(t) + drive, equation.location))
                    total += E(path(t))
            swaps[node] = total
    given = system._mapped(mapper(swaps), "equations")
    init = Table({**given.init, **{item.lhs.args[0].head: S.Zero for item in made}})
    return given._with(equations=(*given.equations, *made), init=init)
