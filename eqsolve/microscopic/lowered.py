"""A flow with its parameters bound, as array functions: drift, observables, and products with its Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Basic, Expr, S

from eqsolve.compile.lowering import lower
from eqsolve.errors import ModelError
from eqsolve.language.binding import Binding
from eqsolve.language.flow import Flow
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Field, Gradient, Process, Random, State, Time
from eqsolve.microscopic.noise import Noises
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend

__all__ = ["LoweredFlow", "lower_flow", "sides"]

Function = Callable[..., list[Any]]


@dataclass(frozen=True, eq=False)
class Average:
    """An expectation as a mean over coordinates or over samples."""

    node: E
    on_samples: bool
    values: Function


@dataclass(frozen=True, eq=False)
class LoweredFlow:
    """The functions of one flow. ``moving`` are the weights that change in time, ``active`` the gradients in a drift.

    Arguments of coordinate functions: t, states, active gradients, coordinate constants, coordinate noises; of sample
    functions: t, fields, sample constants, sample noises.
    """

    flow: Flow
    binding: Binding
    time: Basic
    states: tuple[State, ...]
    active: tuple[int, ...]
    moving: tuple[int, ...]
    coordinate_randoms: tuple[Random, ...]
    sample_randoms: tuple[Random, ...]
    coordinate_noises: tuple[Process, ...]
    sample_noises: tuple[Process, ...]
    weights: Function
    losses: Function
    drift: Function
    averages: tuple[Average, ...]
    observables: Function
    variables: Function
    variable_names: tuple[str, ...]
    coordinate_arguments: tuple[Basic, ...]
    sample_arguments: tuple[Basic, ...]
    weight_expressions: tuple[Expr, ...]
    loss_expressions: tuple[Expr, ...]
    drift_expressions: tuple[Expr, ...]

    @property
    def ratio(self) -> float:
        return float(self.binding.values[self.flow.ratio])


def sides(flow: Flow) -> tuple[tuple[Random, ...], tuple[Random, ...]]:
    """Return the random constants of the coordinates and those of the samples.

    A constant that only observables use lives where the rest of its expectation lives.
    """
    starts = [start for start in flow.state.values() if not isinstance(start, Law)]
    samples = _randoms(flow.loss_gradient)
    coordinates = _randoms([*flow.weights, *flow.drift.values(), *starts, *flow.variables.values()]) - samples
    for node in _expectations(flow):
        more = _randoms([node.argument]) - samples - coordinates
        if any(isinstance(item, Field) or item in samples for item in node.argument.free_symbols):
            samples |= more
        else:
            coordinates |= more
    return tuple(sorted(coordinates, key=str)), tuple(sorted(samples, key=str))


def _randoms(expressions: Sequence[Expr]) -> set[Random]:
    return {item for expr in expressions for item in expr.free_symbols if isinstance(item, Random)}


def _expectations(flow: Flow) -> list[E]:
    found: set[E] = set().union(*(expr.atoms(E) for expr in flow.observables.values()))
    return sorted(found, key=str)


def lower_flow(binding: Binding) -> LoweredFlow:
    """Return the array functions of a bound flow."""
    flow = binding.model
    assert isinstance(flow, Flow)
    times = [item for item in flow.time_symbols]
    time = times[0] if times else Time("t")
    coordinate, sample = sides(flow)
    weights = tuple(binding.apply(expr) for expr in flow.weights)
    losses = tuple(binding.apply(expr) for expr in flow.loss_gradient)
    drift = tuple(binding.apply(flow.drift[item]) for item in flow.state)
    used = set().union(*(expr.free_symbols for expr in drift), *(node.free_symbols for node in _expectations(flow)))
    active = tuple(place for place, item in enumerate(flow.gradients) if item in used)
    changing = {*flow.state, time}
    moving = tuple(place for place, expr in enumerate(weights) if expr.free_symbols & changing)
    states = tuple(flow.state)
    gradients = tuple(flow.gradients[place] for place in active)
    by_coordinate, by_sample = flow.reads("drift"), flow.reads("loss_gradient")
    drawn = [tuple(noise(time) for noise in noises) for noises in (by_coordinate, by_sample)]
    on_coordinates = (time, *states, *gradients, *coordinate, *drawn[0])
    on_samples = (time, *flow.fields, *sample, *drawn[1])
    plain = (time, *states, *coordinate, *drawn[0])
    averages = []
    for node in _expectations(flow):
        argument = binding.apply(node.argument)
        sampled = any(isinstance(item, Field) or item in sample for item in argument.free_symbols)
        averages.append(Average(node, sampled, lower([argument], on_samples if sampled else on_coordinates)))
    nodes = [average.node for average in averages]
    outer = [_apply_outside(expr, binding) for expr in flow.observables.values()]
    variables = [binding.apply(expr) for expr in flow.variables.values()]
    names = tuple(
        name
        for name, expr in zip(flow.variables, variables, strict=True)
        if not any(isinstance(item, Field | Gradient) or item in sample for item in expr.free_symbols)
    )
    kept = [expr for name, expr in zip(flow.variables, variables, strict=True) if name in names]
    _refuse_complex([*weights, *losses, *drift], flow)
    return LoweredFlow(
        flow, binding, time, states, active, moving, coordinate, sample, by_coordinate, by_sample,
        lower(weights, plain), lower([losses[place] for place in active], on_samples), lower(drift, on_coordinates),
        tuple(averages), lower(outer, (time, *nodes)), lower(kept, plain), names, on_coordinates, on_samples,
        weights, losses, drift,
    )  # fmt: skip


def _apply_outside(expr: Expr, binding: Binding) -> Expr:
    """Put in the parameters outside expectations; the nodes themselves stay as declared, to be looked up."""
    nodes = {node: Time(f"node{place}") for place, node in enumerate(sorted(expr.atoms(E), key=str))}
    back = {stand_in: node for node, stand_in in nodes.items()}
    return binding.apply(expr.xreplace(nodes)).xreplace(back)


def _refuse_complex(expressions: Sequence[Expr], flow: Flow) -> None:
    for expr in expressions:
        if expr.has(S.ComplexInfinity, S.NaN) or expr.has(S.ImaginaryUnit):
            raise ModelError(f"flow `{flow.name}` ({flow.location}): `{expr}` is not a real number for these parameters")


class Sample:
    """One draw of a flow: features, constants and start, and the functions of the state on them.

    Features, constants, fields and gradients live on the backend; states come and go in the machine's memory, which costs
    little beside the two products with the features.
    """

    def __init__(
        self, lowered: LoweredFlow, features: Any, constants: dict[Random, Array], start: Array, backend: Backend = CPU,
        noise: Any = 0,
    ) -> None:  # fmt: skip
        self.lowered, self.backend = lowered, backend
        self.features = backend.put(features)
        self.n, self.d = features.shape
        self.start = start
        self.scale = 1.0 / lowered.ratio
        self.coordinate_constants = [backend.put(constants[item]) for item in lowered.coordinate_randoms]
        self.sample_constants = [backend.put(constants[item]) for item in lowered.sample_randoms]
        sizes = dict.fromkeys(lowered.coordinate_noises, self.d) | dict.fromkeys(lowered.sample_noises, self.n)
        self.noises = Noises(lowered.binding, sizes, noise) if sizes else None
        self.coordinate_constants += [0.0] * len(lowered.coordinate_noises)
        self.sample_constants += [0.0] * len(lowered.sample_noises)
        self.begin()
        weights = self.weights(0.0, backend.put(start))
        self.still = [None if place in lowered.moving else self.features @ weight for place, weight in enumerate(weights)]
        self.evaluations = 0

    def begin(self) -> None:
        """Begin the noises again, and set them to what they are on average."""
        if self.noises is not None:
            self._set(self.noises.begin())

    def shake(self, time: float, length: float, *, fresh: bool = True) -> None:
        """Draw the noises at a time, for a step of some length."""
        if self.noises is not None:
            self._set(self.noises.draw(time, length, fresh=fresh))

    def _set(self, values: Mapping[Process, Array]) -> None:
        for constants, noises in (
            (self.coordinate_constants, self.lowered.coordinate_noises),
            (self.sample_constants, self.lowered.sample_noises),
        ):
            for place, item in enumerate(reversed(noises)):
                constants[len(constants) - 1 - place] = self.backend.put(values[item])

    def weights(self, time: float, state: Any) -> list[Any]:
        """Return w, one array of length d per weight."""
        made = self.lowered.weights(time, *state, *self.coordinate_constants)
        return [self.backend.full(weight, (self.d,)) for weight in made]

    def losses(self, time: float, fields: list[Any]) -> list[Any]:
        """Return ℓ for the gradients that a drift uses, each of length n."""
        made = self.lowered.losses(time, *fields, *self.sample_constants)
        return [self.backend.full(loss, (self.n,)) for loss in made]

    def fields(self, time: float, state: Any) -> list[Any]:
        """Return f = X w, one array of length n per weight."""
        weights = self.weights(time, state)
        return [self.features @ weights[place] if still is None else still for place, still in enumerate(self.still)]

    def gradients(self, time: float, fields: list[Any]) -> list[Any]:
        """Return g = Xᵀℓ/δ for the gradients that a drift uses."""
        return [(loss * self.scale) @ self.features for loss in self.losses(time, fields)]

    def state(self, flat: Array) -> Any:
        """Return a flat state of the machine's memory on the backend, one row per state."""
        return self.backend.put(flat.reshape(-1, self.d))

    def drift(self, time: float, flat: Array) -> Array:
        """Return θ' for a flat state."""
        self.evaluations += 1
        state = self.state(flat)
        gradients = self.gradients(time, self.fields(time, state))
        made = self.lowered.drift(time, *state, *gradients, *self.coordinate_constants)
        return self.backend.get(self.backend.stack(made, (self.d,))).ravel()

    def observe(self, time: float, flat: Array) -> list[float]:
        """Return the observables, in the order declared."""
        state = self.state(flat)
        fields = self.fields(time, state)
        gradients = self.gradients(time, fields)
        on_coordinates = (time, *state, *gradients, *self.coordinate_constants)
        on_samples = (time, *fields, *self.sample_constants)
        means = [
            float(np.mean(average.values(*(on_samples if average.on_samples else on_coordinates))[0]))
            for average in self.lowered.averages
        ]
        return [float(value) for value in self.lowered.observables(time, *means)]

    def snapshot(self, time: float, flat: Array) -> dict[str, Array]:
        """Return what lives on the coordinates: states, variables and constants by name."""
        get, state = self.backend.get, self.state(flat)
        made = {item.name: values.copy() for item, values in zip(self.lowered.states, flat.reshape(-1, self.d), strict=True)}
        values = self.backend.stack(self.lowered.variables(time, *state, *self.coordinate_constants), (self.d,))
        made |= dict(zip(self.lowered.variable_names, get(values), strict=True))
        constants = zip(self.lowered.coordinate_randoms, self.coordinate_constants, strict=False)  # noises come after
        return made | {item.name: get(array) for item, array in constants}
