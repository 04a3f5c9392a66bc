"""A flow in the variables it declares: θ = φ(y, t), y' = (p − ∂φ/∂t)/(∂φ/∂y), derived as for a `System`.

The run at finite size is then exactly the same flow, in variables that an integrator follows with longer steps.
"""

from typing import Any

from sympy import Basic
from sympy.core.function import Derivative

from eqsolve.language.equations import Equation
from eqsolve.language.flow import Flow
from eqsolve.language.model import Table, mapper
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Process, State
from eqsolve.language.system import System
from eqsolve.passes.rewrite.substitution import derive_substitutions


def new_states(flow: Flow) -> tuple[State, ...]:
    """Return the states that only changes of variable use."""
    found = {item for expr in flow.substitute.values() for item in expr.free_symbols if isinstance(item, State)}
    return tuple(sorted(found - set(flow.state), key=str))


def change_states(flow: Flow) -> Flow:
    """Return the flow in its new variables; the old ones become named variables."""
    if not flow.substitute:
        return flow
    t = flow.running_time
    items = (*flow.state, *new_states(flow), *flow.gradients)
    ahead: dict[Basic, Any] = {item: Process(item.name, item.latex_name)(t) for item in items}
    back = {value: item for item, value in ahead.items()}
    system = System(
        flow.name,
        [Equation(Derivative(ahead[item], t), flow.drift[item].xreplace(ahead), flow.location) for item in flow.state],
        init={ahead[item].head: value for item, value in flow.state.items()},
        substitute={ahead[item].head: expr.xreplace(ahead) for item, expr in flow.substitute.items()},
    )
    maps: dict[Basic, Basic] = {}
    state, drift = dict(flow.state), dict(flow.drift)
    for change in derive_substitutions(system):
        old, new = back[change.old(t)], back[change.new(t)]
        maps[old] = change.map.xreplace(back)
        del state[old], drift[old]
        state[new], drift[new] = change.initial, change.equation.rhs.xreplace(back)
    put = mapper(maps)
    averages = {node: E(put(node.argument)) for expr in flow.observables.values() for node in expr.atoms(E)}
    made = flow._with(state=Table(state), drift=Table(drift), substitute=Table())
    made = made._mapped(put, "drift", "weights", "variables")._mapped(mapper(averages), "observables")
    return made._with(variables=Table({**made.variables, **{str(item): expr for item, expr in maps.items()}}))
