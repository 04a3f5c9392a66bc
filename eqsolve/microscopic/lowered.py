"""A flow with its parameters bound, as array functions: drift, observables, and products with its Jacobian."""

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sympy import Basic, Expr, S

from eqsolve.compile.lowering import lower
from eqsolve.errors import ModelError, SolverError, UsageError
from eqsolve.language.binding import Binding
from eqsolve.language.laws import Law, Resampled, Telegraph
from eqsolve.language.nodes import GP, E, White
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Field, Gradient, Process, Random, Time
from eqsolve.language.system import Flow
from eqsolve.numerics.arrays import Array, integrator
from eqsolve.numerics.backend import CPU, Backend, demand_memory
from eqsolve.numerics.gaussian import Factor

# --- The noises of a flow at finite size: one value for every sample or coordinate.
#
# White noise of strength S is held during a step h with the variance S/h; what is resampled is
# drawn at every step; telegraph signals and Gaussian processes have their exact laws at the times
# of the steps. A run can be begun again, with the same noise.


def refuse_continuous(flow: Flow) -> None:
    """Raise for a noise that has no meaning in continuous time."""
    for noise, law in flow.laws.items():
        if isinstance(law, Resampled):
            raise UsageError(
                f"flow `{flow.name}`: the noise `{noise.name}` ~ {law} is drawn afresh at every step; say how long a step is: "
                "step=0.1, on the command line --step 0.1"
            )


@dataclass(eq=False)
class _Past:
    """A Gaussian process so far: its times, its coordinates, and the factor of its covariance."""

    times: list[float] = field(default_factory=list)
    coordinates: list[Array] = field(default_factory=list)
    factor: Factor = field(default_factory=lambda: Factor(np.zeros((64, 64))))  # doubled when full


class Noises:
    """Draws the noises of one run; ``sizes`` says how many values each has."""

    def __init__(self, binding: Binding, sizes: Mapping[Process, int], seed: Any) -> None:
        flow = binding.model
        assert isinstance(flow, Flow)
        self.sizes, self.seed = sizes, seed
        self.laws: dict[Process, Any] = {item: flow.laws[item] for item in sizes}
        self.lowered: dict[Process, Any] = {}
        for item, law in self.laws.items():
            match law:
                case Resampled():
                    self.lowered[item] = binding.apply(law.law).numeric()
                case Telegraph():
                    self.lowered[item] = tuple(float(binding.apply(part)) for part in law.args)
                case White():
                    clocks = [entry for entry in law.strength.free_symbols if isinstance(entry, Time)]
                    self.lowered[item] = lower([binding.apply(law.strength)], clocks or [Time("t")])
                case GP():
                    times = sorted(law.covariance.atoms(Time), key=str) or [Time("t"), Time("t'")]
                    centre = sorted(law.mean.atoms(Time), key=str) or [Time("t")]
                    kernel = lower([binding.apply(law.covariance)], times)
                    self.lowered[item] = (kernel, lower([binding.apply(law.mean)], centre))
        self.begin()

    def begin(self) -> dict[Process, Array]:
        """Begin the run again; return what the noises are on average."""
        self.rng = np.random.default_rng(self.seed)
        self.now: dict[Process, Array] = {}
        self.time: dict[Process, float] = {}
        self.past = {item: _Past() for item, law in self.laws.items() if isinstance(law, GP)}
        return {item: np.full(size, self._mean(item)) for item, size in self.sizes.items()}

    def _mean(self, item: Process) -> float:
        law, lowered = self.laws[item], self.lowered[item]
        if isinstance(law, Resampled):
            values, weights = lowered.rule(64)
            return float(weights @ values)
        if isinstance(law, Telegraph):
            return float(lowered[0])
        return float(lowered[1](0.0)[0]) if isinstance(law, GP) else 0.0

    def draw(self, time: float, length: float, *, fresh: bool = True) -> dict[Process, Array]:
        """Return the noises at a time, for a step of some length; those without memory stay as they are unless ``fresh``."""
        for item, size in self.sizes.items():
            law, lowered = self.laws[item], self.lowered[item]
            match law:
                case Resampled() if fresh:
                    self.now[item] = np.asarray(lowered.sample(self.rng, size), dtype=float)
                case White() if fresh:
                    strength = float(lowered(time)[0])
                    self.now[item] = math.sqrt(max(strength, 0.0) / length) * self.rng.standard_normal(size)
                case Telegraph():
                    self._switch(item, size, time, *lowered)
                case GP():
                    self._continue(item, size, time)
        return self.now

    def _switch(self, item: Process, size: int, time: float, share: float, memory: float) -> None:
        if item not in self.now:
            self.now[item] = (self.rng.random(size) < share).astype(float)
        elif time > self.time[item]:
            again = self.rng.random(size) >= math.exp(-(time - self.time[item]) / memory)
            self.now[item] = np.where(again, self.rng.random(size) < share, self.now[item])
        self.time[item] = time

    def _continue(self, item: Process, size: int, time: float) -> None:
        """Draw a Gaussian process at one more time, given all before."""
        past, (covariance, mean) = self.past[item], self.lowered[item]
        if past.times and time <= past.times[-1]:
            return
        past.times.append(time)
        known = past.factor.known
        if known == len(past.factor.rows):
            demand_memory(32.0 * known**2, f"the Gaussian process `{item.name}` at {2 * known} times")
            wider = np.zeros((2 * known, 2 * known))
            wider[:known, :known] = past.factor.rows
            past.factor.rows = wider
        times = np.array(past.times)
        row = past.factor.row(np.broadcast_to(np.asarray(covariance(time, times)[0], float), times.shape))
        past.factor.keep(row)
        past.coordinates.append(self.rng.standard_normal(size))
        self.now[item] = float(mean(time)[0]) + row @ np.array(past.coordinates)


def sides(flow: Flow) -> tuple[tuple[Random, ...], tuple[Random, ...]]:
    """Return the random constants of the coordinates and those of the samples.

    A constant that only observables use lives where the rest of its expectation lives.
    """
    starts = [start for start in flow.state.values() if not isinstance(start, Law)]
    samples = _randoms(flow.loss_gradient)
    coordinates = _randoms([*flow.weights, *flow.drift.values(), *starts, *flow.variables.values()]) - samples
    for mean in _expectations(flow):
        side = samples if _of_samples(mean.argument, samples) else coordinates
        side.update(_randoms([mean.argument]) - samples - coordinates)
    return tuple(sorted(coordinates, key=str)), tuple(sorted(samples, key=str))


def _randoms(expressions: Sequence[Expr]) -> set[Random]:
    return {item for expr in expressions for item in expr.free_symbols if isinstance(item, Random)}


def _of_samples(expr: Expr, constants: Container[Any]) -> bool:
    """Whether an expression has a value for every sample: it reads a field or a sample's constant."""
    return any(isinstance(item, Field) or item in constants for item in expr.free_symbols)


@kept_by_model
def _expectations(flow: Flow) -> list[E]:
    return sorted(set[E]().union(*(expr.atoms(E) for expr in flow.observables.values())), key=str)


class LoweredFlow:
    """The array functions of a flow with its parameters bound.

    Arguments of coordinate functions: t, states, the gradients in a drift, coordinate constants,
    coordinate noises; of sample functions: t, fields, sample constants, sample noises. ``moving``
    are the weights that change in time; ``averages`` tell of each expectation in observables
    whether it is a mean over the samples, and the function that it is the mean of.
    """

    def __init__(self, binding: Binding) -> None:
        flow = binding.model
        assert isinstance(flow, Flow)
        self.flow, self.binding, self.ratio = flow, binding, float(binding.values[flow.ratio])
        self.coordinate_randoms, self.sample_randoms = sides(flow)
        self.coordinate_noises, self.sample_noises = flow.reads("drift"), flow.reads("loss_gradient")
        weights, losses = ([binding.apply(expr) for expr in part] for part in (flow.weights, flow.loss_gradient))
        drift = [binding.apply(flow.drift[item]) for item in flow.state]
        for expr in (*weights, *losses, *drift):
            if expr.has(S.ComplexInfinity, S.NaN, S.ImaginaryUnit):
                raise ModelError(f"flow `{flow.name}` ({flow.location}): `{expr}` is not a real number for these parameters")
        time = flow.running_time
        read = set[Basic]().union(*(expr.free_symbols for expr in (*drift, *_expectations(flow))))
        active = [place for place, item in enumerate(flow.gradients) if item in read]
        changing = {*flow.state, time}
        self.moving = [place for place, expr in enumerate(weights) if expr.free_symbols & changing]
        constants = *self.coordinate_randoms, *(noise(time) for noise in self.coordinate_noises)
        at_rest = time, *flow.state, *constants
        on_coordinates = time, *flow.state, *(flow.gradients[place] for place in active), *constants
        on_samples = time, *flow.fields, *self.sample_randoms, *(noise(time) for noise in self.sample_noises)
        self.weights, self.drift = lower(weights, at_rest), lower(drift, on_coordinates)
        self.losses = lower([losses[place] for place in active], on_samples)
        observables = [binding.apply(expr) for expr in flow.observables.values()]
        means = sorted(set[E]().union(*(expr.atoms(E) for expr in observables)), key=str)
        self.averages: list[tuple[bool, Callable[..., list[Any]]]] = []
        for mean in means:
            sampled = _of_samples(mean.argument, self.sample_randoms)
            self.averages.append((sampled, lower([mean.argument], on_samples if sampled else on_coordinates)))
        self.observables = lower(observables, (time, *means))
        variables = {name: binding.apply(expr) for name, expr in flow.variables.items()}
        shown = {name: expr for name, expr in variables.items()
                 if not expr.atoms(Gradient) and not _of_samples(expr, self.sample_randoms)}  # fmt: skip
        self.variable_names, self.variables = tuple(shown), lower([*shown.values()], at_rest)

    def __reduce__(self) -> Any:
        return (LoweredFlow, (self.binding,))  # the functions are made again


class FlowSample:
    """One draw of a flow: features, constants and start, and the functions of the state on them.

    Features, constants, fields and gradients live on the backend; states come and go in the machine's memory, which costs
    little compared with the two products with the features.
    """

    def __init__(
        self, lowered: LoweredFlow, features: Any, constants: Mapping[Random, Array], start: Array, backend: Backend = CPU,
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
        self.begin()
        weights = self.weights(0.0, backend.put(start))
        # X w of weights that stay as they are costs a product with X once
        constant = [place for place in range(len(weights)) if place not in lowered.moving]
        self.constant_fields = {place: self.features @ weights[place] for place in constant}
        self.evaluations = 0

    def begin(self) -> None:
        """Begin the noises again, and set them to what they are on average."""
        self._set({} if self.noises is None else self.noises.begin())

    def draw_noises(self, time: float, length: float, *, fresh: bool = True) -> None:
        """Draw the noises at a time, for a step of some length."""
        if self.noises is not None:
            self._set(self.noises.draw(time, length, fresh=fresh))

    def _set(self, noises: Mapping[Process, Array]) -> None:
        put, lowered = self.backend.put, self.lowered
        coordinate_noises = (put(noises[item]) for item in lowered.coordinate_noises)
        self.on_coordinates = [*self.coordinate_constants, *coordinate_noises]
        self.on_samples = [*self.sample_constants, *(put(noises[item]) for item in lowered.sample_noises)]

    def weights(self, time: float, state: Any) -> list[Any]:
        """Return w, one array of length d per weight."""
        weights = self.lowered.weights(time, *state, *self.on_coordinates)
        return [self.backend.full(weight, (self.d,)) for weight in weights]

    def losses(self, time: float, fields: list[Any]) -> list[Any]:
        """Return ℓ for the gradients that a drift uses, each of length n."""
        losses = self.lowered.losses(time, *fields, *self.on_samples)
        return [self.backend.full(loss, (self.n,)) for loss in losses]

    def fields(self, time: float, state: Any) -> list[Any]:
        """Return f = X w, one array of length n per weight."""
        known, weights = self.constant_fields, self.weights(time, state)
        return [known[k] if k in known else self.features @ weight for k, weight in enumerate(weights)]

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
        velocities = self.lowered.drift(time, *state, *gradients, *self.on_coordinates)
        return self.backend.get(self.backend.stack(velocities, (self.d,))).ravel()

    def observe(self, time: float, flat: Array) -> list[float]:
        """Return the observables, in the order declared."""
        state = self.state(flat)
        fields = self.fields(time, state)
        gradients = self.gradients(time, fields)
        arguments = (time, *state, *gradients, *self.on_coordinates), (time, *fields, *self.on_samples)
        means = [float(np.mean(values(*arguments[sampled])[0])) for sampled, values in self.lowered.averages]
        return [float(value) for value in self.lowered.observables(time, *means)]

    def snapshot(self, time: float, flat: Array) -> dict[str, Array]:
        """Return what lives on the coordinates: states, variables and constants by name."""
        get, state = self.backend.get, self.state(flat)
        variables = self.backend.stack(self.lowered.variables(time, *state, *self.on_coordinates), (self.d,))
        return {
            **{item.name: row.copy() for item, row in zip(self.lowered.flow.state, flat.reshape(-1, self.d), strict=True)},
            **dict(zip(self.lowered.variable_names, get(variables), strict=True)),
            **{
                item.name: get(row)
                for item, row in zip(self.lowered.coordinate_randoms, self.coordinate_constants, strict=True)
            },
        }


# --- Running one sample through time: an adaptive Runge–Kutta pair, short steps where there is
# noise, or gradient descent.
Report = Callable[[float], None]
# One step of a flow with noise, as a share of its shortest time of relaxation: the error of Heun's
# method, of order share², is then a few thousandths, below the scatter between draws.
_SHARE = 0.05


def flow_through(sample: FlowSample, times: Array, rtol: float, report: Report) -> Iterator[Array]:
    """Yield the flat state at increasing times, by Dormand–Prince 5(4) and its own interpolant."""
    flat = sample.start.ravel().copy()
    scale = max(float(np.sqrt(np.mean(flat**2))), 1e-3)
    with np.errstate(all="ignore"):
        stepper = integrator("RK45")(sample.drift, 0.0, flat, float(times[-1]), rtol=rtol, atol=rtol * scale)
        for wanted in times:
            while stepper.t < wanted:
                message = stepper.step()
                if stepper.status == "failed" or not np.isfinite(stepper.y).all():
                    raise SolverError(
                        f"the flow could not be followed past t = {stepper.t:.6g}"
                        f"{': ' + message if message else ''}; it may blow up there"
                    )
                report(stepper.t)
            yield stepper.dense_output()(wanted) if wanted > 0.0 else flat


def follow_noisy(sample: FlowSample, times: Array, speed: float, report: Report) -> Iterator[Array]:
    """Yield the flat state of a flow with noise at increasing times, by Heun's steps, which follow its largest rate.

    For additive white noise they are of second order in the weak sense (Kloeden & Platen 1992, section 15.1).
    """
    flat, now = sample.start.ravel().copy(), 0.0
    sample.begin()
    longest = min(_SHARE / max(speed, 1e-300), max(float(times[-1]) / 200, 1e-12))  # 200 steps at least
    with np.errstate(all="ignore"):
        for wanted in times:
            count = max(1, math.ceil((wanted - now) / longest - 1e-9)) if wanted > now else 0
            length = (wanted - now) / max(count, 1)
            for _ in range(count):
                sample.draw_noises(now, length)
                first = sample.drift(now, flat)
                # white noise is one increment for the whole step, noises with memory move on
                sample.draw_noises(now + length, length, fresh=False)
                second = sample.drift(now + length, flat + length * first)
                flat, now = flat + length / 2 * (first + second), now + length
            now = float(wanted)
            report(now)
            if not np.isfinite(flat).all():
                raise SolverError(f"the flow could not be followed past t = {now:.6g}; it may blow up there")
            yield flat


def descend(sample: FlowSample, steps: Array, size: float, report: Report) -> Iterator[Array]:
    """Yield the flat state after given numbers of steps θ ← θ + η p(g, θ); it may stop being finite."""
    flat = sample.start.ravel().copy()
    done = 0
    sample.begin()
    with np.errstate(all="ignore"):
        for wanted in steps:
            while done < wanted:
                sample.draw_noises(done * size, size)
                flat = flat + size * sample.drift(done * size, flat)
                done += 1
                if done % 16 == 0:
                    report(done * size)
                    if not np.isfinite(flat).all():  # and never will be
                        done = int(steps[-1])
            yield flat
