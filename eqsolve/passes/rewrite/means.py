"""Means over paths that equations read where solvers take none: each becomes an unknown, or a process that has this mean."""

from sympy import Add, Basic, Derivative, Mul, S, expand, simplify

from eqsolve.errors import ModelError
from eqsolve.language.model import Equation, Table, mapper
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Process, Response, Time, Value, fresh_name
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import free_times, outermost


def name_means(system: System) -> System:
    """Return a system whose means in forces, and under integrals of functions and observables, are unknowns of their own.

    Those of one time are functions, those of two times correlations, or responses where these
    are averaged.
    """
    if not system.processes or system.is_indexed:
        return system
    driven = system.equations if system.noises else ()
    sides = [(eq.key, eq.label, eq.rhs, isinstance(eq.head, Process)) for eq in driven]
    sides += [(key, f"observable `{key}`", expr, False) for key, expr in system.observables.items()]
    named: dict[Basic, Basic] = {}
    equations: dict[Basic, Equation] = {}
    places, taken = (Time("t"), Time("t'")), {*system.names}
    for key, label, expr, is_force in sides:
        under_integrals = {node for item in expr.atoms(Int) for node in item.atoms(E)}
        for node in outermost(expr, E, but=Int) if is_force else sorted(under_integrals, key=str):
            causes = {moment for item in node.atoms(Resp) for moment in item.noise.moments}  # the second time of a response
            moments = sorted(free_times(node.argument), key=lambda item: (item in causes, str(item)))
            if not moments:
                continue
            body = node.xreplace(dict(zip(moments, places, strict=False)))
            turned = body.xreplace(dict(zip(places, places[::-1], strict=True)))
            kind = Function if len(moments) == 1 else Response if causes else Correlation
            if kind is Correlation and expand(body.argument - turned.argument) != 0:
                raise ModelError(
                    f"{label} has the mean `{node}` under an integral; expected one that is symmetric in its times"
                )
            if body not in equations:
                taken.add(name := fresh_name(f"{key}_mean", taken))
                equations[body] = Equation(kind(name)(*places[: len(moments)]), body, system.location)
            named[node] = equations[body].defined.head(*moments)
    changed = system._mapped(mapper(named), "equations", "observables")
    return changed._with(equations=(*changed.equations, *equations.values())) if equations else system


def follow_memories(system: System) -> System:
    """Return a system with means over random constants and memory, but no processes, with a process for every memory.

    ∫ E(a e^{−b (t − s)}) y(s) ds is the mean of x with x' = −b x + a y, x = 0 at the start.
    """
    moving = any(free_times(node.argument) for eq in system.equations for node in eq.rhs.atoms(E))
    if system.processes or system.is_indexed or not (moving and any(eq.rhs.has(Int) for eq in system.equations)):
        return system
    equations: list[Equation] = []
    memories: dict[Basic, Basic] = {}
    starts = {**system.init}
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
                    taken.add(name := fresh_name(f"{equation.key}_memory", taken))
                    path = Process(name)
                    drive = (part * term / (means[0] if means else kernel)).xreplace({s: t})
                    equations.append(Equation(Derivative(path(t), t), rate * path(t) + drive, equation.location))
                    starts[path] = S.Zero
                    total += E(path(t))
            memories[node] = total
    changed = system._mapped(mapper(memories), "equations")
    return changed._with(equations=(*changed.equations, *equations), init=Table(starts))
