"""The linearised processes behind every `Resp`, derived from the declared right-hand sides.

For a noise z and a process x the response ∂x(t)/∂z(t') is an instantaneous part a_x(t) δ(t − t') and a regular part
D_x(t, t'), zero for t < t'. With x defined by x(t) = F or x'(t) = F, where F reads processes y now and under integrals,

    a_x(t) = ∂F/∂z(t) + Σ_y ∂F/∂y(t) a_y(t)                                     (x defined pointwise; a_x = 0 otherwise)
    [F]    = Σ_y ∂F/∂y(t) D_y(t, t') + Σ_y ∫_{t'}^t ∂F/∂y(s) D_y(s, t') ds + Σ_y K_y(t, t') a_y(t')
    D_x(t, t') = [F],   or   dD_x(t, t')/dt = [F]  with  D_x(t', t') = Σ_y ∂F/∂y(t') a_y(t'),

K_y being the kernel with which F integrates y. Nothing here depends on a model, a grid or a number of paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sympy import Basic, Dummy, Expr, S
from sympy.core.function import Derivative

from eqsolve.errors import ModelError
from eqsolve.graphs import make_graph, reached
from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Head, Process, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.derivatives import partial as derivative


class Tangent(Head):
    """The regular response ∂x(t)/∂z(t') of a process to a noise, path by path."""

    arity = 2
    kind_name = "tangent process"
    process: Process
    noise: Process

    def __new__(cls, process: Process, noise: Process) -> Tangent:
        obj: Tangent = Basic.__new__(cls, process, noise)
        obj.process, obj.noise = process, noise
        obj.name = f"∂{process.name}/∂{noise.name}"
        obj.latex_name = rf"\partial {process.latex_name}/\partial {noise.latex_name}"
        return obj

    def __getnewargs__(self) -> tuple[Process, Process]:
        return (self.process, self.noise)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.process, self.noise)

    def __call__(self, *moments: Any) -> TangentValue:
        return TangentValue(self, *moments)


class TangentValue(Value):
    """A tangent at two times, printed as ∂x(t)/∂z(t')."""

    def _sympystr(self, printer: Any) -> str:
        first, second = (printer._print(moment) for moment in self.moments)
        return f"∂{self.head.process.name}({first})/∂{self.head.noise.name}({second})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        first, second = (printer._print(moment) for moment in self.moments)
        body = (
            rf"\frac{{\partial {self.head.process.latex_name}({first})}}"
            rf"{{\partial {self.head.noise.latex_name}({second})}}"
        )
        return rf"\left({body}\right)^{{{exp}}}" if exp is not None else body


@dataclass(frozen=True)
class TangentEquation:
    """How one process responds to one noise."""

    process: Process
    noise: Process
    equation: Equation  # D_x(t, t') = ... or dD_x(t, t')/dt = ...
    instantaneous: Expr  # a_x(t), the weight of the part proportional to δ(t − t')
    initial: Expr | None  # D_x(t', t') for a differential equation, else None


def derive_tangents(system: System) -> tuple[TangentEquation, ...]:
    """Return the linearised equation of every process that can respond to a noise named in a ``Resp``."""
    found = {node for equation in system.equations for node in equation.rhs.atoms(Resp)}
    found |= {node for value in system.observables.values() for node in value.atoms(Resp)}
    noises = sorted({node.noise.head for node in found}, key=lambda head: head.name)
    return tuple(item for noise in noises for item in _for_noise(system, noise))


def _for_noise(system: System, noise: Process) -> list[TangentEquation]:
    if noise not in system.noises:
        raise ModelError(
            f"model `{system.name}` takes a response to `{noise.name}`, which has no law; "
            f"a response is taken to a driving process, so give it one: laws={{{noise.name}: GP(...)}}"
        )
    driven = _driven_by(system, noise)
    now, then = _times(system)
    instantaneous = _instantaneous(system, noise, driven, now)
    result = []
    for process in driven:
        equation = system[process.name]
        right = equation.rhs.xreplace({equation.time: now}) if equation.time != now else equation.rhs
        body = linearise(right, noise, driven, instantaneous, now, then)
        tangent = Tangent(process, noise)(now, then)
        if equation.is_differential:
            jump = _local(right, noise, driven, instantaneous, now)
            left: Expr = Derivative(tangent, now, evaluate=False)
            initial = jump.xreplace({now: then})
            result.append(TangentEquation(process, noise, Equation(left, body, equation.location), S.Zero, initial))
        else:
            made = Equation(tangent, body, equation.location)
            result.append(TangentEquation(process, noise, made, instantaneous[process], None))
    return result


def _times(system: System) -> tuple[Time, Time]:
    """Return the running time of the processes and a second time that their equations do not use."""
    now = next(eq.time for eq in system.equations if isinstance(eq.head, Process))
    pairs = [node for equation in system.equations for node in equation.rhs.atoms(Resp)]
    for node in pairs:
        if isinstance(node.noise.moments[0], Time) and node.noise.moments[0] != now:
            return now, node.noise.moments[0]  # type: ignore[return-value]
    return now, Time(f"{now.name}'")  # type: ignore[return-value,union-attr]


def _driven_by(system: System, noise: Process) -> list[Process]:
    """Return the processes that a noise reaches, in the order declared."""
    paths = [equation for equation in system.equations if isinstance(equation.head, Process)]
    graph = make_graph((), ((value.head, eq.head) for eq in paths for value in _outside_expectation(eq.rhs)))
    driven = reached(graph, [noise])
    return [head for head in system.processes if head in driven]


def _outside_expectation(expr: Basic) -> list[Value]:
    if isinstance(expr, E):
        return []
    if isinstance(expr, Value):
        return [expr]
    return [value for arg in expr.args for value in _outside_expectation(arg)]


def partial(expr: Expr, value: Value) -> Expr:
    """Return ∂expr/∂value, the value being treated as an independent variable; integrals are not entered."""
    shielded = {node: Dummy("k", real=True) for node in expr.atoms(Int, E)}
    return derivative(_shield(expr, shielded), value).xreplace({dummy: node for node, dummy in shielded.items()})


def _shield(expr: Expr, shielded: dict[Expr, Dummy]) -> Expr:
    """Replace the outermost integrals and expectations by dummies."""
    if expr in shielded:
        return shielded[expr]
    if not expr.args or isinstance(expr, Value):
        return expr
    return expr.func(*(_shield(arg, shielded) if isinstance(arg, Expr) else arg for arg in expr.args))


def _instantaneous(system: System, noise: Process, driven: list[Process], now: Time) -> dict[Process, Expr]:
    weights: dict[Process, Expr] = {noise: S.One}
    pending = [process for process in driven if not system[process.name].is_differential]
    weights |= {process: S.Zero for process in driven if process not in pending}
    for _ in range(len(pending) + 1):
        for process in pending:
            right = system[process.name].rhs
            weights[process] = sum(
                (partial(right, head(now)) * weight for head, weight in list(weights.items()) if head != process), S.Zero
            )
    return weights


def _local(right: Expr, noise: Process, driven: list[Process], weights: dict[Process, Expr], now: Time) -> Expr:
    """Return Σ_y ∂F/∂y(t) a_y(t), what an impulse of the noise adds at once."""
    return sum((partial(right, head(now)) * weights[head] for head in (noise, *driven)), S.Zero)


def linearise(expr: Expr, noise: Process, driven: list[Process], weights: dict[Process, Expr], now: Time, then: Time) -> Expr:
    """Return the regular part of the response of an expression in processes to ``noise(then)``."""
    total = S.Zero
    for head in driven:
        total += partial(expr, head(now)) * Tangent(head, noise)(now, then)
    outer, integrals = expr, [node for node in expr.atoms(Int) if _is_outermost(node, expr)]
    for node in integrals:
        weight = derivative(outer, node)
        if weight == 0 or not _reads_driven(node.integrand, noise, driven):
            continue
        total += weight * _linearise_integral(node, noise, driven, weights, then)
    return total


def _is_outermost(node: Int, expr: Expr) -> bool:
    return not any(node != other and node in other.integrand.atoms(Int) for other in expr.atoms(Int)) and not any(
        node in mean.atoms(Int) for mean in expr.atoms(E)
    )


def _reads_driven(expr: Expr, noise: Process, driven: list[Process]) -> bool:
    return any(value.head == noise or value.head in driven for value in _outside_expectation(expr))


def _linearise_integral(node: Int, noise: Process, driven: list[Process], weights: dict[Process, Expr], then: Time) -> Expr:
    variable = node.variable
    body = linearise(node.integrand, noise, driven, weights, variable, then)
    source = _local(node.integrand, noise, driven, weights, variable).xreplace({variable: then})
    memory = Int(body, (variable, then, node.high)) if body != 0 else S.Zero
    return memory + source
