"""The linearised processes behind every `Resp`, derived from the declared right-hand sides.

For a noise z and a process x the response ∂x(t)/∂z(t') is an instantaneous part a_x(t) δ(t − t') and a regular part
D_x(t, t'), zero for t < t'. With x defined by x(t) = F or x'(t) = F, where F reads processes y now and under integrals,

    a_x(t) = ∂F/∂z(t) + Σ_y ∂F/∂y(t) a_y(t)                                     (x defined pointwise; a_x = 0 otherwise)
    [F]    = Σ_y ∂F/∂y(t) D_y(t, t') + Σ_y ∫_{t'}^t ∂F/∂y(s) D_y(s, t') ds + Σ_y K_y(t, t') a_y(t')
    D_x(t, t') = [F],   or   dD_x(t, t')/dt = [F]  with  D_x(t', t') = Σ_y ∂F/∂y(t') a_y(t'),

K_y being the kernel with which F integrates y. Nothing here depends on a model, a grid or a number of paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sympy import Basic, Expr, S
from sympy.core.function import Derivative

from eqsolve.graphs import make_graph, reached
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Process, Time, TwoTime, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import chain, outside_means


class Tangent(TwoTime, kind="tangent process"):
    """The regular response ∂x(t)/∂z(t') of a process to a noise, path by path."""

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

    _hashable_content = __getnewargs__

    def __call__(self, *moments: Any) -> TangentValue:
        return TangentValue(self, *moments)


class TangentValue(Value):
    """A tangent at two times, printed as ∂x(t)/∂z(t')."""

    bracketed = True

    def _sympystr(self, printer: Any) -> str:
        first, second = (printer._print(moment) for moment in self.moments)
        return f"∂{self.head.process.name}({first})/∂{self.head.noise.name}({second})"

    def _body(self, printer: Any) -> str:
        first, second = (printer._print(moment) for moment in self.moments)
        return rf"\frac{{\partial {self.head.process.latex_name}({first})}}{{\partial {self.head.noise.latex_name}({second})}}"


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
    sides = [*(equation.rhs for equation in system.equations), *system.observables.values()]
    noises = {node.noise for side in sides for node in side.atoms(Resp)}
    paths = [equation for equation in system.equations if isinstance(equation.head, Process)]
    now: Any = paths[0].time if paths else None
    result: list[TangentEquation] = []
    moments = sorted({value.moments[0] for value in noises} - {now}, key=str)
    for noise in sorted({value.head for value in noises}, key=lambda head: head.name):
        then = next((item for item in moments if isinstance(item, Time)), Time(f"{now.name}'"))
        result += linearise(paths, noise, now, then)
    return tuple(result)


def linearise(paths: list[Equation], noise: Process, now: Time, then: Time) -> Iterator[TangentEquation]:
    """Yield the linearised equation of every process that responds to a noise, in their order.

    ``now`` is the time in which the equations run, and ``then`` that of the noise.
    """
    read = ((value.head, equation.head) for equation in paths for value in outside_means(equation.rhs))
    driven = reached(make_graph((), read), [noise])
    weights: dict[Any, Expr] = {noise: S.One}
    nodes = (Value, Int, E)

    def at_once(expr: Expr, time: Time) -> Expr:
        """Return Σ_y ∂F/∂y(t) a_y(t), what an impulse of the noise adds at once."""

        def rate(node: Expr) -> Expr:
            direct = isinstance(node, Value) and node.moments == (time,)
            return weights.get(node.head, S.Zero).xreplace({now: time}) if direct else S.Zero

        return chain(expr, nodes, rate)

    def regular(expr: Expr, time: Time) -> Expr:
        """Return [F], the regular part of the response of an expression."""

        def rate(node: Expr) -> Expr:
            if isinstance(node, Int):
                body = regular(node.integrand, node.variable)
                sign = -1 if body.could_extract_minus_sign() else 1
                memory = sign * Int(sign * body, (node.variable, then, node.high)) if body != 0 else S.Zero
                return memory + at_once(node.integrand, node.variable).xreplace({node.variable: then})
            direct = isinstance(node, Value) and node.moments == (time,) and node.head in driven
            return Tangent(node.head, noise)(time, then) if direct else S.Zero

        return chain(expr, nodes, rate)

    defined = [equation for equation in paths if equation.head in driven and not equation.is_differential]
    for _ in range(len(defined) + 1):  # definitions in terms of each other
        weights |= {equation.head: at_once(equation.rhs, now) for equation in defined}
    for equation in (item for item in paths if item.head in driven):
        assert isinstance(equation.head, Process)
        tangent = Tangent(equation.head, noise)(now, then)
        left = Derivative(tangent, now, evaluate=False) if equation.is_differential else tangent
        linearised = Equation(left, regular(equation.rhs, now), equation.location)
        initial = at_once(equation.rhs, now).xreplace({now: then}) if equation.is_differential else None
        yield TangentEquation(equation.head, noise, linearised, weights.get(equation.head, S.Zero), initial)
