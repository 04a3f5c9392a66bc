"""The limit of infinitely many samples: the gradient is its population value, the noise and the memory are gone.

For δ → ∞ the noise u_g/δ and the responses vanish, g = Γ(t) w, and the fields at one time are Gaussian with covariance
Q = E[w wᵀ]. They are written with standard normal constants through the Cholesky factor of Q, so that what is left is a
system of differential equations with random constants.
"""

from sympy import Expr, Max, S, sqrt

from eqsolve.errors import ModelError, quoted
from eqsolve.language.equations import Equation
from eqsolve.language.flow import Flow
from eqsolve.language.laws import Normal
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Function, Process, Random
from eqsolve.language.system import System
from eqsolve.passes.flow.linear import observable, why_not
from eqsolve.passes.flow.parts import FlowParts, mean_of, slope, take_apart


def derive_infinite_data(flow: Flow) -> System:
    """Return the δ → ∞ system of a flow."""
    if flow.laws:
        raise ModelError(
            f"flow `{flow.name}` ({flow.location}): the limit of infinitely many samples is derived for flows without noise "
            f"so far, and this one has {quoted(flow.laws)}"
        )
    parts = take_apart(flow)
    fields = flow.fields
    slopes = {
        (a, i): slope(flow, flow.loss_gradient[a], fields[i], f"the loss gradient of `{flow.gradients[a]}`")
        for a in parts.active
        for i in parts.needed
    }
    gaussian = set(fields) | parts.sample_randoms
    constant = not any(value.free_symbols & gaussian for value in slopes.values())
    sampled = [node for expr in flow.observables.values() for node in expr.atoms(E) if parts.on_samples(node)]
    simple = constant and why_not(parts) is None
    eqs: list[Equation] = []
    named: dict[tuple[int, int], Expr] = {}
    if not simple or sampled:
        overlaps, named = _overlaps(parts)
        eqs += overlaps
    if not simple:
        eqs += _fields(parts, named)
    for (a, i), value in slopes.items():
        if value.free_symbols & gaussian:
            eqs.append(parts.equation(parts.gamma(a, i)(parts.t), E(parts.process(value))))
    for a in parts.active:
        terms = [
            (parts.gamma(a, i)(parts.t) if slopes[a, i].free_symbols & gaussian else slopes[a, i]) * parts.weights[i]
            for i in parts.needed
        ]
        eqs.append(parts.equation(parts.process(flow.gradients[a]), sum(terms, S.Zero)))
    eqs += [*parts.definitions, *parts.state_equations()]
    if simple:
        square = _square(parts, named)
        observables = {name: observable(parts, expr, square) for name, expr in flow.observables.items()}
    else:
        observables = {name: parts.averaged(expr) for name, expr in flow.observables.items()}
    defaults = {item: value for item, value in flow.defaults.items() if item != flow.ratio}
    return System(
        f"{flow.name}_infinite_data", eqs, init=dict(parts.starts()), defaults=defaults, observables=observables,
        conditions=[item for item in flow.conditions if flow.ratio not in item.free_symbols], cite=flow.cite,
    )  # fmt: skip


def _overlaps(parts: FlowParts) -> tuple[list[Equation], dict[tuple[int, int], Expr]]:
    """Return Q_ij = E[w_i w_j] as functions of time; numbers where both weights are constants."""
    eqs, named = [], {}
    for first in parts.needed:
        for second in parts.needed:
            if second > first:
                continue
            product = parts.weights[first] * parts.weights[second]
            if not {first, second} & set(parts.responsive):
                named[first, second] = mean_of(product.expand(), parts.flow)
                continue
            head = parts.head(Function, f"Q_{parts.flow.fields[second].name}_{parts.flow.fields[first].name}")
            eqs.append(parts.equation(head(parts.t), E(product)))
            named[first, second] = head(parts.t)
    return eqs, {**named, **{(j, i): value for (i, j), value in named.items()}}


def _fields(parts: FlowParts, covariance: dict[tuple[int, int], Expr]) -> list[Equation]:
    """Return the fields as Gaussian variables of the right covariance; those of constant weights come first."""
    order = sorted(parts.needed, key=lambda place: (place in parts.responsive, place))
    factor: dict[tuple[int, int], Expr] = {}
    eqs = []
    for place, i in enumerate(order):
        for j in order[:place]:
            inner = sum((factor[i, k] * factor[j, k] for k in order[: order.index(j)]), S.Zero)
            factor[i, j] = (covariance[i, j] - inner) / factor[j, j]
        rest = covariance[i, i] - sum((factor[i, k] ** 2 for k in order[:place]), S.Zero)
        factor[i, i] = sqrt(rest) if place == 0 else sqrt(Max(rest, 0))
        total = S.Zero
        for k in order[: place + 1]:
            total += factor[i, k] * Random(parts.name(f"x_{parts.flow.fields[k].name}"), None, (Normal(0, 1),))
        field = parts.flow.fields[i]
        eqs.append(parts.equation(Process(field.name, field.latex_name)(parts.t), total))
    return eqs


def _square(parts: FlowParts, named: dict[tuple[int, int], Expr]) -> Expr:
    """Return E[ℓ²] of a loss gradient that is linear in the fields, of covariances ``named``."""
    flow = parts.flow
    loss = flow.loss_gradient[parts.active[0]]
    slopes = {i: loss.diff(flow.fields[i]) for i in parts.needed}
    rest = loss.xreplace({item: S.Zero for item in flow.fields})
    return sum(
        (slopes[i] * slopes[j] * named[i, j] for i in parts.needed for j in parts.needed if named),
        mean_of((rest**2).expand(), flow),
    )
