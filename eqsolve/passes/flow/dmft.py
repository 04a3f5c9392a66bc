"""From a flow to its mean-field equations (eq. dmft_general): Γ, responses, correlations, fields and gradients.

    θ' = p_t(g, θ),    g = u_g/δ + Γ w + ∫ R_ℓ w,    f = u_f + ∫ R_w ℓ(f; ξ),
    R_w = E[∂w/∂u_g],  R_ℓ = E[∂ℓ/∂u_f],  Γ = E[∂ℓ/∂f],  u_g ~ GP(0, δ E[ℓ ℓᵀ]),  u_f ~ GP(0, E[w wᵀ]),

all of them k × k, with the rows and columns that vanish left out: a weight that does not depend on the state has no
response, its field is its own noise; a gradient that acts on nothing has no noise.

A teacher's field f* may enter the loss gradient without a derivative (labels sign(f*)). Then f* is a random constant,
u_f is conditioned on it, and what multiplies w* in g follows from Gaussian integration by parts,

    Γ* E[w*²] = E[ℓ f*] − Σ_i (Γ_i m_i + ∫ R_i m_i),    m_i = E[w_i w*],

the sum over the other fields; it holds Γ and the integrated response together. Several such fields (labels by the largest of
them) are taken alike, each for itself: their weights must be uncorrelated.
"""

import itertools
from collections.abc import Callable
from typing import Any

from sympy import Expr, Max, S, sqrt

from eqsolve.errors import ModelError, quoted
from eqsolve.language.equations import Equation
from eqsolve.language.flow import Flow
from eqsolve.language.laws import Bernoulli, Normal, Point, Resampled, exact_value
from eqsolve.language.model import Table, mapper
from eqsolve.language.nodes import GP, E, Int, Resp, White
from eqsolve.language.symbols import Correlation, Function, Process, Random, Response, State, Value, as_scalar, fresh_name
from eqsolve.language.system import System
from eqsolve.passes.flow.linear import eliminate_fields, observable, why_not
from eqsolve.passes.flow.parts import FlowParts, is_sloped, mean_of, take_apart
from eqsolve.passes.rewrite.starts import STEP, put_in_steps


# --- Inertia: a flow whose drift is a force. Each component of the state gets a velocity of its
# own.
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


# --- Training with noise: batches, temperature and label noise as flows of their own, which combine
# in any order.
def add_batches(flow: Flow, batch: Any) -> Flow:
    """Return ℓ → s ℓ/b, with s = 1 for the samples in the batch, drawn afresh at every step with probability b."""
    takes = "the share of the samples in a batch, 0 < batch <= 1;"
    share = _amount(flow, batch, "sgd", takes, lambda share: 0 < share <= 1)
    t, noise = flow.running_time, _noise(flow, "s")
    losses = tuple(loss if loss == 0 else noise(t) / share * loss for loss in flow.loss_gradient)
    return _named(flow, "sgd", {noise: Resampled(Bernoulli(share))}, loss_gradient=losses)


def add_temperature(flow: Flow, temperature: Any) -> Flow:
    """Return θ' = p + ξ with ⟨ξ ξ'⟩ = 2T δ(t − t'), of its own for every state in whose drift a gradient acts."""
    heat = _amount(flow, temperature, "langevin", "a temperature that is not negative,", lambda heat: heat >= 0)
    t = flow.running_time
    moved: list[State] = [item for item in flow.state if flow.drift[item].free_symbols & set(flow.gradients)]
    drift, laws = dict(flow.drift), {}
    for item in moved:
        noise = _noise(flow, "eta" if len(moved) == 1 else f"eta_{item.name}")
        drift[item], laws[noise] = drift[item] + noise(t), White(2 * heat)
    plain = flow._with(substitute=Table())  # white noise does not obey the ordinary chain rule
    return _named(plain, "langevin", laws, drift=Table(drift))


def add_label_noise(flow: Flow, variance: Any) -> Flow:
    """Return ℓ(f, f*) → ℓ(f, f* + ζ), with ζ normal of the given variance, drawn afresh at every step."""
    power = _amount(flow, variance, "label_noise", "a variance that is not negative,", lambda power: power >= 0)
    pairs = zip(flow.fields, flow.weights, strict=True)
    teachers = [field for field, weight in pairs if not weight.free_symbols & set(flow.state)]
    if not teachers:
        raise ModelError(
            f"{flow.label}: label_noise adds to the fields of weights that do not move, teachers', "
            "and all weights of this flow move"
        )
    t = flow.running_time
    noises = {item: _noise(flow, "zeta" if len(teachers) == 1 else f"zeta_{item.name}") for item in teachers}
    put = {item: item + noise(t) for item, noise in noises.items()}
    laws = {noise: Resampled(Normal(0, power)) for noise in noises.values()}
    return _named(flow._mapped(mapper(put), "loss_gradient"), "label_noise", laws)


def settle_noises(flow: Flow) -> Flow:
    """Return a flow without the noises that are certain: batches of all samples, a variance or temperature of zero."""
    t = flow.running_time
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
    laws = Table((noise, law) for noise, law in flow.laws.items() if noise not in certain)
    return flow._mapped(mapper(put), "loss_gradient", "drift")._with(laws=laws)


def _amount(flow: Flow, value: Any, how: str, takes: str, fits: Callable[[Expr], Any]) -> Expr:
    """Return the strength of a change to a flow, a number or an expression in parameters."""
    amount = as_scalar(exact_value(value) if isinstance(value, float) else value, how)
    if amount.is_number and not fits(amount):
        raise ModelError(f"flow `{flow.name}`: {how} takes {takes} got {value}")
    return amount


def _noise(flow: Flow, wanted: str) -> Process:
    return Process(fresh_name(wanted, {*flow.names, *flow.observables, *flow.variables}))


def _named(flow: Flow, how: str, laws: dict[Process, Any], **parts: Any) -> Flow:
    return flow._with(name=f"{flow.name}_{how}", laws=Table({**flow.laws, **laws}), **parts)


def derive_dmft(flow: Flow, eliminate: bool | None = None) -> System:
    """Return the mean-field system of a flow; fields are eliminated where the loss gradient is linear in them."""
    parts = take_apart(settle_noises(flow))
    if not parts.active:
        raise ModelError(f"{flow.label}: no gradient acts on the state, so there is nothing to learn")
    reason = why_not(parts)
    if eliminate and reason is not None:
        raise ModelError(f"{flow.label}: the fields cannot be eliminated: {reason}")
    if reason is None and eliminate is not False:
        return eliminate_fields(parts)
    return _General(parts, _rough_teachers(parts)).system()


def derive_descent(flow: Flow, eta: Any) -> System:
    """Return the mean-field system of gradient descent: the same equations in discrete time, noises included."""
    step = _amount(flow, eta, "gradient_descent", "a positive step,", lambda step: step.is_positive)
    plain = flow._with(substitute=Table())  # a change of variables would change what a step does
    system = put_in_steps(derive_dmft(plain))
    if system.knows(STEP.name):
        system = system.subs({STEP: step})
    return system.replace(f"{flow.name}_descent", step=step)


def _rough_teachers(parts: FlowParts) -> tuple[int, ...]:
    """Return the fields of constant weights in which a loss gradient has no derivative; their weights are uncorrelated."""
    flow = parts.flow
    rough = tuple(
        i
        for i in parts.needed
        if i not in parts.responsive
        and parts.t not in flow.weights[i].free_symbols
        and not all(is_sloped(flow.loss_gradient[a], flow.fields[i]) for a in parts.active)
    )
    for first, second in itertools.combinations(rough, 2):
        common = mean_of((flow.weights[first] * flow.weights[second]).expand(), flow)
        if common != 0:
            raise ModelError(
                f"{flow.label}: the loss gradients jump in `{flow.fields[first]}` and in "
                f"`{flow.fields[second]}`, whose weights `{flow.weights[first]}` and `{flow.weights[second]}` are correlated "
                f"(E = {common}); expected uncorrelated ones: combine independent weights of mean 0 into other fields"
            )
    return rough


class _General:
    """Names the unknowns of the general system and writes its equations down; ``teachers`` are the fields conditioned on."""

    def __init__(self, parts: FlowParts, teachers: tuple[int, ...]) -> None:
        self.parts, self.flow, self.teachers = parts, parts.flow, teachers
        single = len(parts.active) == 1
        gradients, fields, names = self.flow.gradients, self.flow.fields, parts.weight_names
        self.others = tuple(i for i in parts.needed if i not in teachers)
        self.students = tuple(i for i in self.others if i in parts.responsive)
        self.noise_g = {a: parts.head(Process, f"z_{gradients[a].name}") for a in parts.active}
        self.noise_f: dict[int, Any] = {}
        for i in self.others:  # the field of a weight that does not respond is its noise
            whole = i not in parts.responsive and not teachers
            own = Process(fields[i].name, fields[i].latex_name)
            self.noise_f[i] = own if whole else parts.head(Process, f"z_{fields[i].name}")
        self.losses = {a: parts.process(self.flow.loss_gradient[a]) for a in parts.active}
        self.slopes = parts.slopes(self.others)
        read = {i for (_, i), value in self.slopes.items() if value != 0}
        with_memory = {a for a in parts.active if any(self.slopes[a, i] != 0 for i in self.students)}
        self.response_w = {
            (i, a): parts.head(Response, f"R_{names[i]}" if single else f"R_{names[i]}_{gradients[a].name}")
            for i in self.students
            for a in parts.active
        }
        self.response_l = {
            (a, i): parts.head(Response, f"R_l_{fields[i].name}" if single else f"R_{gradients[a].name}_{fields[i].name}")
            for a in parts.active
            if a in with_memory
            for i in self.others
            if i in read
        }
        random = {*fields, *parts.sample_randoms}
        self.gamma = {
            (a, i): parts.gamma(a, i)
            for a in parts.active
            for i in parts.needed
            if i in teachers or self.slopes[a, i].free_symbols & random or self.slopes[a, i].atoms(Value)
        }
        self.correlation_l = {
            a: parts.head(Correlation, "C_l" if single else f"C_l_{gradients[a].name}") for a in parts.active
        }
        self.correlation_w = {i: parts.head(Correlation, f"C_{names[i]}") for i in self.students}
        alone = len(teachers) == 1
        self.overlap = {
            (i, j): parts.head(Function, f"m_{names[i]}" if alone else f"m_{names[i]}_{names[j]}")
            for i in self.students
            for j in teachers
        }

    def system(self) -> System:
        parts, flow, t, tp = self.parts, self.flow, self.parts.t, self.parts.other
        eqs: list[Equation] = []
        for i, head in self.correlation_w.items():
            eqs.append(parts.equation(head(t, tp), E(parts.weights[i] * parts.at(parts.weights[i], tp))))
        for (i, a), head in self.response_w.items():
            eqs.append(parts.equation(head(t, tp), E(Resp(parts.weights[i], self.noise_g[a](tp)))))
        for a, head in self.correlation_l.items():
            eqs.append(parts.equation(head(t, tp), E(self.losses[a] * parts.at(self.losses[a], tp))))
        for (a, i), head in self.response_l.items():
            eqs.append(parts.equation(head(t, tp), E(Resp(self.losses[a], self.noise_f[i](tp)))))
        for (i, j), head in self.overlap.items():
            eqs.append(parts.equation(head(t), E(parts.weights[i] * parts.weights[j])))
        for (a, i), head in self.gamma.items():
            right = self._by_parts(a, i) if i in self.teachers else E(parts.process(self.slopes[a, i]))
            eqs.append(parts.equation(head(t), right))
        eqs += [parts.equation(parts.process(flow.gradients[a]), self._gradient(a)) for a in parts.active]
        eqs += [
            parts.equation(parts.process(flow.fields[i]), self._field(i))
            for i in parts.needed
            if i in self.teachers or self.noise_f[i].name != flow.fields[i].name
        ]
        eqs += [*parts.definitions, *parts.state_equations()]
        laws: dict[Any, Any] = {}
        laws |= self._law([self.noise_g[a] for a in parts.active], list(parts.active), self._loss_covariance)
        laws |= self._law([self.noise_f[i] for i in self.others], list(self.others), self._weight_covariance)
        laws |= dict(flow.laws)
        observables = {name: parts.averaged(expr) for name, expr in flow.observables.items()}
        return System(
            flow.name, eqs, laws=laws, init=dict(parts.starts()), defaults=flow.defaults, observables=observables,
            conditions=flow.conditions, substitute=parts.changes(), cite=flow.cite,
            step=STEP if flow.stepped else None,
        )  # fmt: skip

    def _instant(self, a: int, i: int) -> Expr:
        return self.gamma[a, i](self.parts.t) if (a, i) in self.gamma else self.slopes[a, i]

    def _gradient(self, a: int) -> Expr:
        """Return g_a = u_a/δ + Σ_i Γ_ai w_i + Σ_i ∫ R_ai w_i."""
        parts, t, s = self.parts, self.parts.t, self.parts.past
        total = self.noise_g[a](t) / self.flow.ratio
        for i in parts.needed:
            total += self._instant(a, i) * parts.weights[i]
            if (a, i) in self.response_l:
                total += Int(self.response_l[a, i](t, s) * parts.at(parts.weights[i], s), (s, 0, t))
        return total

    def _field(self, i: int) -> Expr:
        """Return f_i = u_i + Σ_a ∫ R_ia ℓ_a, with what the teacher's field says of it."""
        t, s = self.parts.t, self.parts.past
        if i in self.teachers:
            return sqrt(self._power(i)) * self._normal(i)
        total = self.noise_f[i](t)
        for j in self.teachers:
            total += self._with_teacher(i, j) / self._power(j) * self.parts.process(self.flow.fields[j])
        for a in self.parts.active:
            if (i, a) in self.response_w:
                total += Int(self.response_w[i, a](t, s) * self.parts.at(self.losses[a], s), (s, 0, t))
        return total

    # --- a teacher's field as a constant
    def _normal(self, j: int) -> Expr:
        """Return a standard normal constant; where labels jump in it, rules have nodes on either side of zero."""
        return Random(self.parts.name(f"level_{self.flow.fields[j].name}"), None, (Normal(0, 1),))

    def _power(self, j: int) -> Expr:
        """Return E[w*²]."""
        return mean_of((self.parts.weights[j] ** 2).expand(), self.flow)

    def _with_teacher(self, i: int, j: int) -> Expr:
        """Return m_ij = E[w_i w*_j] at the running time."""
        if (i, j) in self.overlap:
            return self.overlap[i, j](self.parts.t)
        return mean_of((self.parts.weights[i] * self.parts.weights[j]).expand(), self.flow)

    def _by_parts(self, a: int, j: int) -> Expr:
        """Return what multiplies w*_j in g_a, by Gaussian integration by parts."""
        parts, t, s = self.parts, self.parts.t, self.parts.past
        total = E(self.losses[a] * parts.process(self.flow.fields[j]))
        for i in self.others:
            overlap = self._with_teacher(i, j)
            if overlap != S.Zero:
                total -= self._instant(a, i) * overlap
                if (a, i) in self.response_l:
                    total -= Int(self.response_l[a, i](t, s) * parts.at(overlap, s), (s, 0, t))
        return total / self._power(j)

    # --- covariances
    def _law(self, noises: list[Any], places: list[int], covariance: Any) -> dict[Any, GP]:
        if len(noises) == 1:
            return {noises[0]: GP(covariance(places[0], places[0]))}
        return {tuple(noises): GP([[covariance(first, second) for second in places] for first in places])}

    def _loss_covariance(self, first: int, second: int) -> Expr:
        parts, delta = self.parts, self.flow.ratio
        if first == second:
            return delta * self.correlation_l[first](parts.t, parts.other)
        return delta * E(self.losses[first] * parts.at(self.losses[second], parts.other))

    def _weight_covariance(self, first: int, second: int) -> Expr:
        parts = self.parts
        if first == second and first in self.correlation_w:
            total = self.correlation_w[first](parts.t, parts.other)
        else:
            total = E(parts.weights[first] * parts.at(parts.weights[second], parts.other))
        for j in self.teachers:
            total -= self._with_teacher(first, j) * parts.at(self._with_teacher(second, j), parts.other) / self._power(j)
        return total


# --- The limit of infinitely many samples: the gradient is its population value, without memory.
#
# For δ → ∞ the noise u_g/δ and the responses vanish, g = Γ(t) w, and the fields at one time are
# Gaussian with covariance Q = E[w wᵀ]. They are written with standard normal constants through the
# Cholesky factor of Q, so that what is left is a system of differential equations with random
# constants.
def derive_infinite_data(flow: Flow) -> System:
    """Return the δ → ∞ system of a flow."""
    if flow.laws:
        raise ModelError(
            f"{flow.label}: the limit of infinitely many samples is derived for flows without noise "
            f"so far, and this one has {quoted(flow.laws)}"
        )
    parts = take_apart(flow)
    slopes = parts.slopes(parts.needed)
    gaussian = set(flow.fields) | parts.sample_randoms
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
