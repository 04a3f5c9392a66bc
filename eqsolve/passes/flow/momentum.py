"""Inertia: a flow whose drift is a force. Each component of the state gets a velocity of its own."""

from __future__ import annotations

from typing import Any

from eqsolve.language.flow import Flow
from eqsolve.language.model import Table
from eqsolve.language.symbols import State, as_scalar, fresh_name

__all__ = ["add_momentum"]


def add_momentum(flow: Flow, friction: Any) -> Flow:
    """Return θ' = v, v' = −friction v + p_t(g, θ), starting at rest."""
    rate = as_scalar(friction, "friction")
    taken = set(flow.names) | set(flow.observables) | set(flow.variables)
    velocities = {
        item: State(fresh_name(f"{item.name}_velocity", taken), rf"\dot{{{item.latex_name}}}") for item in flow.state
    }
    drift: dict[Any, Any] = dict(velocities)
    drift |= {speed: -rate * speed + flow.drift[item] for item, speed in velocities.items()}
    plain = flow._with(substitute=Table())  # a change of variables holds for the first-order flow only
    return plain.replace(f"{flow.name}_momentum", state={speed: 0 for speed in velocities.values()}, drift=drift)
