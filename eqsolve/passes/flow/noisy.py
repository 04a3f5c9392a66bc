"""Training with noise: batches, temperature and label noise as flows of their own, which combine in any order."""

from __future__ import annotations

from typing import Any

from sympy import Expr, S

from eqsolve.errors import ModelError
from eqsolve.language.flow import Flow
from eqsolve.language.laws import Bernoulli, Normal, Point, exact_value
from eqsolve.language.model import Table
from eqsolve.language.nodes import White
from eqsolve.language.noises import Resampled
from eqsolve.language.symbols import Process, State, Time, as_scalar, fresh_name


# --- Inertia: a flow whose drift is a force. Each component of the state gets a velocity of its own.
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


# --- Training with noise: batches, temperature and label noise as flows of their own, which combine in any order.
def add_batches(flow: Flow, batch: Any) -> Flow:
    """Return ℓ → s ℓ/b, with s = 1 for the samples in the batch, drawn afresh at every step with probability b."""
    share = as_scalar(_exact(batch), "batch")
    if share.is_number and not 0 < share <= 1:
        raise ModelError(f"flow `{flow.name}`: sgd takes the share of the samples in a batch, 0 < batch <= 1; got {batch}")
    t, noise = _running(flow), _noise(flow, "s")
    losses = tuple(loss if loss == 0 else noise(t) / share * loss for loss in flow.loss_gradient)
    return _named(flow, "sgd", {noise: Resampled(Bernoulli(share))}, loss_gradient=losses)


def add_temperature(flow: Flow, temperature: Any) -> Flow:
    """Return θ' = p + ξ with ⟨ξ ξ'⟩ = 2T δ(t − t'), of its own for every state in whose drift a gradient acts."""
    heat = as_scalar(_exact(temperature), "langevin")
    if heat.is_number and not heat >= 0:
        raise ModelError(f"flow `{flow.name}`: langevin takes a temperature that is not negative, got {temperature}")
    t = _running(flow)
    moved: list[State] = [item for item in flow.state if flow.drift[item].free_symbols & set(flow.gradients)]
    drift, laws = dict(flow.drift), {}
    for item in moved:
        noise = _noise(flow, "eta" if len(moved) == 1 else f"eta_{item.name}")
        drift[item], laws[noise] = drift[item] + noise(t), White(2 * heat)
    plain = flow._with(substitute=Table())  # white noise does not obey the ordinary chain rule
    return _named(plain, "langevin", laws, drift=Table(drift))


def add_label_noise(flow: Flow, variance: Any) -> Flow:
    """Return ℓ(f, f*) → ℓ(f, f* + ζ), with ζ normal of the given variance, drawn afresh at every step."""
    power = as_scalar(_exact(variance), "label_noise")
    if power.is_number and not power >= 0:
        raise ModelError(f"flow `{flow.name}`: label_noise takes a variance that is not negative, got {variance}")
    pairs = zip(flow.fields, flow.weights, strict=True)
    teachers = [field for field, weight in pairs if not weight.free_symbols & set(flow.state)]
    if not teachers:
        raise ModelError(
            f"flow `{flow.name}` ({flow.location}): label_noise adds to the fields of weights that do not move, teachers', "
            "and all weights of this flow move"
        )
    t = _running(flow)
    noises = {item: _noise(flow, "zeta" if len(teachers) == 1 else f"zeta_{item.name}") for item in teachers}
    put = {item: item + noise(t) for item, noise in noises.items()}
    losses = tuple(loss.xreplace(put) for loss in flow.loss_gradient)
    return _named(flow, "label_noise", {noise: Resampled(Normal(0, power)) for noise in noises.values()}, loss_gradient=losses)


def settle_noises(flow: Flow) -> Flow:
    """Return a flow without the noises that are certain: batches of all samples, a variance or temperature of zero."""
    t = _running(flow)
    certain: dict[Process, Expr] = {}
    for noise, law in flow.laws.items():
        match law:
            case Resampled(law=Bernoulli(args=(share,))) if share in (S.Zero, S.One):
                certain[noise] = share
            case Resampled(law=Normal(args=(mean, variance))) if variance == 0:
                certain[noise] = mean
            case Resampled(law=Point(args=(value,))):
                certain[noise] = value
            case White() if law.strength == 0:
                certain[noise] = S.Zero
    if not certain:
        return flow
    put: dict[Any, Any] = {noise(t): value for noise, value in certain.items()}
    return flow._with(
        loss_gradient=tuple(loss.xreplace(put) for loss in flow.loss_gradient),
        drift=Table((item, expr.xreplace(put)) for item, expr in flow.drift.items()),
        laws=Table((noise, law) for noise, law in flow.laws.items() if noise not in certain),
    )


def _exact(value: Any) -> Any:
    return exact_value(value) if isinstance(value, float) else value


def _running(flow: Flow) -> Time:
    times = flow.time_symbols
    return times[0] if times else Time("t")


def _noise(flow: Flow, wanted: str) -> Process:
    return Process(fresh_name(wanted, {*flow.names, *flow.observables, *flow.variables}))


def _named(flow: Flow, how: str, laws: dict[Process, Any], **parts: Any) -> Flow:
    return flow._with(name=f"{flow.name}_{how}", laws=Table({**flow.laws, **laws}), **parts)
