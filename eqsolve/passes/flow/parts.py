"""A flow taken apart for its limit: which weights move, which gradients act, and everything as processes in time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Basic, Expr, Poly, S
from sympy.core.function import Derivative, Subs

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.flow import Flow
from eqsolve.language.laws import Law
from eqsolve.language.model import Model, Table
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Field, Function, Process, Random, Time, fresh_name
from eqsolve.passes.flow.substitution import new_states
from eqsolve.passes.forms.expressions import slope as regional
from eqsolve.passes.forms.kinks import SMOOTH, jumps


# --- Moments of random constants in closed form, so that a derived equation reads σ² and not E[ξ²].
def mean_of(expr: Expr, model: Model) -> Expr:
    """Return E[expr] over random constants, in closed form for polynomials of degree two in laws that have one."""
    variables = sorted((item for item in expr.free_symbols if isinstance(item, Random)), key=str)
    if not variables:
        return expr
    if not expr.is_polynomial(*variables):
        return E(expr)
    total = S.Zero
    for powers, coefficient in Poly(expr, *variables).terms():
        factor: Any = coefficient
        for item, power in zip(variables, powers, strict=True):
            law = model.defaults.get(item, item.law)
            moments = (S.One, *((law.moments() if isinstance(law, Law) else None) or ()))
            if power >= len(moments):
                return E(expr)
            factor *= moments[power]
        total += factor
    return total


# --- A flow taken apart for its limit: which weights move, which gradients act, and everything as
# processes in time.
@dataclass(frozen=True)
class FlowParts:
    """What the derivations share."""

    flow: Flow
    # the running time, a second time, and the time integrated over
    t: Time
    other: Time
    past: Time
    active: tuple[int, ...]  # gradients that act on the state, by their places
    # fields that an active loss gradient or an observable reads, by their places
    needed: tuple[int, ...]
    responsive: tuple[int, ...]  # weights that depend on the state; only they respond
    # each weight as an expression in processes at time t; a composite one has a process and a
    # definition
    weights: tuple[Expr, ...]
    weight_names: tuple[str, ...]
    definitions: tuple[Equation, ...]  # equations that define composite weights
    processes: Mapping[Basic, Basic]
    sample_randoms: frozenset[Random]

    def at(self, expr: Expr, time: Basic) -> Expr:
        """Return an expression of the running time at another time."""
        return expr.xreplace({self.t: time})

    def process(self, expr: Expr) -> Expr:
        """Return an expression of states, fields and gradients in terms of processes at the running time."""
        return expr.xreplace(dict(self.processes))

    def averaged(self, expr: Expr) -> Expr:
        """Return an observable with its expectations in terms of processes."""
        return expr.xreplace({node: E(self.process(node.argument)) for node in expr.atoms(E)})

    def name(self, wanted: str) -> str:
        """Return a name that the flow does not use itself."""
        return fresh_name(wanted, {*self.flow.names, *self.flow.observables, *self.weight_names})

    def head(self, kind: type[Any], wanted: str) -> Any:
        return kind(self.name(wanted))

    def gamma(self, a: int, i: int) -> Function:
        """Return the function Γ_ai, the mean slope of a loss gradient in a field."""
        field, gradient = self.flow.fields[i].name, self.flow.gradients[a].name
        return self.head(Function, f"Gamma_{field}" if len(self.active) == 1 else f"Gamma_{gradient}_{field}")

    def slopes(self, fields: Iterable[int]) -> dict[tuple[int, int], Expr]:
        """Return the slopes of the active loss gradients in fields, by their places."""
        losses, names = self.flow.loss_gradient, self.flow.gradients
        words = {a: f"the loss gradient of `{names[a]}`" for a in self.active}
        return {(a, i): slope(self.flow, losses[a], self.flow.fields[i], words[a]) for a in self.active for i in fields}

    def on_samples(self, node: E) -> bool:
        """Whether an expectation is over the samples, not the coordinates."""
        return any(isinstance(item, Field) or item in self.sample_randoms for item in node.argument.free_symbols)

    def equation(self, left: Expr, right: Expr) -> Equation:
        return Equation(left, right, self.flow.location)

    def state_equations(self) -> list[Equation]:
        """Return θ' = p_t(g, θ), one per component."""
        return [
            self.equation(Derivative(self.process(item), self.t), self.process(self.flow.drift[item]))
            for item in self.flow.state
        ]

    def changes(self) -> dict[Any, Expr]:
        """Return the declared changes of variable, in processes."""
        return {self.process(item).head: self.process(expr) for item, expr in self.flow.substitute.items()}

    def starts(self) -> Table:
        return Table((self.process(item).head, value) for item, value in self.flow.state.items())


def take_apart(flow: Flow) -> FlowParts:
    """Return the parts of a flow that its limits are built from."""
    from eqsolve.passes.check.check import check

    check(flow)
    t = flow.running_time
    names = {*(item.name for item in flow.time_symbols), *flow.names}
    other, past = (Time(next(word for word in words if word not in names)) for words in (("t'", "t1"), ("s", "s1")))
    processes: dict[Basic, Basic] = {}
    for item in (*flow.state, *new_states(flow), *flow.fields, *flow.gradients):
        processes[item] = Process(item.name, item.latex_name)(t)
    drifts: set[Basic] = set().union(*(expr.free_symbols for expr in flow.drift.values()))
    seen: set[Basic] = set().union(*(expr.free_symbols for expr in flow.observables.values()))
    active = tuple(
        place
        for place, item in enumerate(flow.gradients)
        if (item in drifts or item in seen) and flow.loss_gradient[place] != 0
    )
    read = seen.union(*(flow.loss_gradient[place].free_symbols for place in active))
    needed = tuple(place for place, item in enumerate(flow.fields) if item in read)
    responsive = tuple(place for place, expr in enumerate(flow.weights) if expr.free_symbols & set(flow.state))
    weights, weight_names, definitions = _weights(flow, t, processes, responsive)
    sample = {item for expr in flow.loss_gradient for item in expr.free_symbols if isinstance(item, Random)}
    return FlowParts(
        flow, t, other, past, active, needed, responsive, weights, weight_names, definitions, processes, frozenset(sample)
    )


def _weights(
    flow: Flow, t: Time, processes: Mapping[Basic, Basic], responsive: tuple[int, ...]
) -> tuple[tuple[Expr, ...], tuple[str, ...], tuple[Equation, ...]]:
    made, names, definitions = [], [], []
    for place, expr in enumerate(flow.weights):
        if place not in responsive:
            made.append(expr)
            names.append(expr.name if isinstance(expr, Random) else f"w_{flow.fields[place].name}")
        elif expr in flow.state:
            made.append(processes[expr])
            names.append(expr.name)
        else:
            name = next((key for key, value in flow.variables.items() if value == expr), f"w_{flow.fields[place].name}")
            head = Process(name)
            made.append(head(t))
            names.append(name)
            definitions.append(Equation(head(t), expr.xreplace(dict(processes)), flow.location))
    return tuple(made), tuple(names), tuple(definitions)


def is_sloped(expr: Expr, variable: Basic) -> bool:
    """Whether a derivative is an ordinary function: kinks have one by regions, jumps do not."""
    return jumps(expr, [variable]) is None and not regional(expr, variable).atoms(Derivative, Subs)


def slope(flow: Flow, expr: Expr, variable: Basic, what: str) -> Expr:
    """Return ∂expr/∂variable by regions; raise when it is no ordinary function."""
    if not is_sloped(expr, variable):
        raise ModelError(
            f"{flow.label}: {what}, `{expr}`, has no derivative in `{variable}` that is a function "
            f"(it is `{expr.diff(variable)}`), but the mean-field equations need one; {SMOOTH}"
        )
    return regional(expr, variable)
