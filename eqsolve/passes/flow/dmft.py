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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Add, Basic, Dummy, Expr, KroneckerDelta, Max, Mul, Poly, S, sqrt
from sympy.core.function import Derivative, Subs

from eqsolve.errors import ModelError, quoted
from eqsolve.language.laws import Bernoulli, Law, Normal, Resampled, exact_value
from eqsolve.language.model import Equation, Model, Table, mapper
from eqsolve.language.nodes import GP, E, Int, Resp, White
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import (
    Correlation,
    Field,
    Function,
    Process,
    Random,
    Response,
    State,
    Time,
    Value,
    as_scalar,
    fresh_name,
)
from eqsolve.language.system import Flow, System
from eqsolve.passes.check.check import check
from eqsolve.passes.forms.expressions import slope
from eqsolve.passes.forms.kinks import SMOOTH, jumps, with_steps
from eqsolve.passes.rewrite.steps import STEP, put_in_steps
from eqsolve.passes.rewrite.substitution import new_states


def _free_name(flow: Flow, wanted: str) -> str:
    return fresh_name(wanted, {*flow.names, *flow.observables, *flow.variables})


# --- Inertia: a flow whose drift is a force. Each component of the state gets its velocity.
def add_momentum(flow: Flow, friction: Any) -> Flow:
    """Return θ' = v, v' = −friction v + p_t(g, θ), starting at rest."""
    rate = as_scalar(friction, "friction")
    velocities = {item: State(_free_name(flow, f"{item.name}_velocity"), rf"\dot{{{item.latex_name}}}") for item in flow.state}
    drift: dict[Any, Any] = velocities | {speed: -rate * speed + flow.drift[item] for item, speed in velocities.items()}
    plain = flow._with(substitute=Table())  # a change of variables holds for the first-order flow only
    return plain.replace(f"{flow.name}_momentum", state={speed: 0 for speed in velocities.values()}, drift=drift)


# --- Training with noise: batches, temperature and label noise as flows, combined in any order.
def add_batches(flow: Flow, batch: Any) -> Flow:
    """Return ℓ → s ℓ/b, with s = 1 for the samples in the batch, drawn afresh at every step with probability b."""
    takes = "the share of the samples in a batch, 0 < batch <= 1;"
    share = _amount(flow, batch, "sgd", takes, lambda share: 0 < share <= 1)
    t, noise = flow.running_time, Process(_free_name(flow, "s"))
    losses = tuple(noise(t) / share * loss for loss in flow.loss_gradient)
    return _named(flow, "sgd", {noise: Resampled(Bernoulli(share))}, loss_gradient=losses)


def add_temperature(flow: Flow, temperature: Any) -> Flow:
    """Return θ' = p + ξ with ⟨ξ ξ'⟩ = 2T δ(t − t'), of its own for every state in whose drift a gradient acts."""
    heat = _amount(flow, temperature, "langevin", "a temperature that is not negative,", lambda heat: heat >= 0)
    t = flow.running_time
    moved: list[State] = [item for item in flow.state if flow.drift[item].free_symbols & set(flow.gradients)]
    drift, laws = dict(flow.drift), {}
    for item in moved:
        noise = Process(_free_name(flow, "eta" if len(moved) == 1 else f"eta_{item.name}"))
        drift[item], laws[noise] = drift[item] + noise(t), White(2 * heat)
    plain = flow._with(substitute=Table())  # white noise does not obey the ordinary chain rule
    return _named(plain, "langevin", laws, drift=Table(drift))


def add_label_noise(flow: Flow, variance: Any) -> Flow:
    """Return ℓ(f, f*) → ℓ(f, f* + ζ), with ζ normal of the given variance, drawn afresh at every step."""
    power = _amount(flow, variance, "label_noise", "a variance that is not negative,", lambda power: power >= 0)
    teachers = [field for field in flow.fields if field not in flow.student_fields]
    if not teachers:
        raise ModelError(
            f"{flow.label}: label_noise adds to the fields of weights that do not move, teachers', "
            "and all weights of this flow move"
        )
    t = flow.running_time
    names = {item: _free_name(flow, "zeta" if len(teachers) == 1 else f"zeta_{item.name}") for item in teachers}
    noisy = flow._mapped(mapper({item: item + Process(name)(t) for item, name in names.items()}), "loss_gradient")
    return _named(noisy, "label_noise", {Process(name): Resampled(Normal(0, power)) for name in names.values()})


def settle_noises(flow: Flow) -> Flow:
    """Return a flow without the noises that are certain: batches of all samples, a variance or temperature of zero."""
    t = flow.running_time
    certain: dict[Process, Expr] = {}
    for noise, law in flow.laws.items():
        moments = law.law.moments() if isinstance(law, Resampled) else None
        if moments is not None and (moments[1] - moments[0] ** 2).expand() == 0:
            certain[noise] = moments[0]
        elif isinstance(law, White) and law.strength == 0:
            certain[noise] = S.Zero
    if not certain:
        return flow
    values: dict[Any, Any] = {noise(t): value for noise, value in certain.items()}
    laws = Table((noise, law) for noise, law in flow.laws.items() if noise not in certain)
    return flow._mapped(mapper(values), "loss_gradient", "drift")._with(laws=laws)


def _amount(flow: Flow, value: Any, how: str, takes: str, fits: Callable[[Expr], Any]) -> Expr:
    """Return the strength of a change to a flow, a number or an expression in parameters."""
    amount = as_scalar(exact_value(value) if isinstance(value, float) else value, how)
    if amount.is_number and not fits(amount):
        raise ModelError(f"flow `{flow.name}`: {how} takes {takes} got {value}")
    return amount


def _named(flow: Flow, how: str, laws: dict[Process, Any], **parts: Any) -> Flow:
    return flow._with(name=f"{flow.name}_{how}", laws=Table({**flow.laws, **laws}), **parts)


# --- Moments of random constants in closed form, so that a derived equation reads σ² and not E[ξ²].
def mean_of(expr: Expr, model: Model) -> Expr:
    """Return E[expr] over random constants, in closed form for polynomials of degree two in laws that have one."""
    variables = sorted((item for item in expr.free_symbols if isinstance(item, Random)), key=str)
    if not variables or not expr.is_polynomial(*variables):
        return E(expr) if variables else expr
    laws = map(model.given, variables)
    moments = [(S.One, *((law.moments() if isinstance(law, Law) else None) or ())) for law in laws]
    terms = [(scale, [*zip(moments, powers, strict=True)]) for powers, scale in Poly(expr, *variables).terms()]
    if any(power >= len(known) for _, factors in terms for known, power in factors):
        return E(expr)
    return Add(*(scale * Mul(*(known[power] for known, power in factors)) for scale, factors in terms))


# --- A flow taken apart for its limits.
class FlowParts:
    """Which weights move, which gradients act, and everything as processes in time."""

    def __init__(self, flow: Flow) -> None:
        check(flow)
        self.flow, self.t = flow, flow.running_time
        # a second time, and the time integrated over
        names = {*(item.name for item in flow.time_symbols), *flow.names}
        self.other, self.past = (
            Time(next(word for word in words if word not in names)) for words in (("t'", "t1"), ("s", "s1"))
        )
        moving = (*flow.state, *new_states(flow), *flow.fields, *flow.gradients)
        self.processes: dict[Basic, Basic] = {item: Process(item.name, item.latex_name)(self.t) for item in moving}
        drifts: set[Basic] = set().union(*(expr.free_symbols for expr in flow.drift.values()))
        seen: set[Basic] = set().union(*(expr.free_symbols for expr in flow.observables.values()))
        # by their places: gradients that act on the state or are observed, fields that an active
        # loss gradient or an observable reads, and weights that depend on the state, which alone
        # respond
        pairs = enumerate(zip(flow.gradients, flow.loss_gradient, strict=True))
        self.active = tuple(place for place, (item, loss) in pairs if item in drifts | seen and loss != 0)
        read = seen.union(*(flow.loss_gradient[place].free_symbols for place in self.active))
        self.needed = tuple(place for place, item in enumerate(flow.fields) if item in read)
        self.responsive = tuple(place for place, expr in enumerate(flow.weights) if expr.free_symbols & set(flow.state))
        self.sample_randoms = frozenset(item for loss in flow.loss_gradient for item in loss.atoms(Random))
        # each weight as an expression in processes at the running time; a composite one has a
        # process and a definition
        self.weights: list[Expr] = []
        self.weight_names: list[str] = []
        self.definitions: list[Equation] = []
        for place, expr in enumerate(flow.weights):
            name = f"w_{flow.fields[place].name}"
            if isinstance(expr, Random) or expr in flow.state:
                name = expr.name
            elif place in self.responsive:
                name = next((key for key, value in flow.variables.items() if value == expr), name)
                self.definitions.append(self.equation(Process(name)(self.t), self.process(expr)))
                expr = Process(name)(self.t)
            self.weights.append(self.process(expr))
            self.weight_names.append(name)

    def at(self, expr: Expr, time: Basic) -> Expr:
        """Return an expression of the running time at another time."""
        return expr.xreplace({self.t: time})

    def over_past(self, kernel: Any, expr: Expr) -> Expr:
        """Return ∫ kernel(t, s) expr(s) ds."""
        return Int(kernel(self.t, self.past) * self.at(expr, self.past), (self.past, 0, self.t))

    def process(self, expr: Any) -> Any:
        """Return an expression of states, fields and gradients in terms of processes at the running time."""
        return expr.xreplace(self.processes)

    def averaged(self, expr: Expr, known: Mapping[Basic, Expr] = {}) -> Expr:
        """Return an observable with its expectations in terms of processes, or as known."""
        return expr.xreplace({node: E(self.process(node.argument)) for node in expr.atoms(E)} | dict(known))

    def name(self, wanted: str) -> str:
        """Return a name that the flow does not use itself."""
        return fresh_name(wanted, {*self.flow.names, *self.flow.observables, *self.weight_names})

    def head(self, kind: type[Any], wanted: str) -> Any:
        return kind(self.name(wanted))

    def normal(self, wanted: str) -> Random:
        """Return a standard normal constant."""
        return Random(self.name(wanted), None, (Normal(0, 1),))

    def gamma(self, a: int, i: int) -> Function:
        """Return the function Γ_ai, the mean slope of a loss gradient in a field."""
        field, gradient = self.flow.fields[i].name, self.flow.gradients[a].name
        return self.head(Function, f"Gamma_{field}" if len(self.active) == 1 else f"Gamma_{gradient}_{field}")

    def is_sloped(self, a: int, i: int) -> bool:
        """Whether the slope of a loss gradient in a field is an ordinary function: kinks have one by regions, jumps not."""
        loss, field = self.flow.loss_gradient[a], self.flow.fields[i]
        return jumps(loss, [field]) is None and not slope(loss, field).atoms(Derivative, Subs)

    def slopes(self, fields: Iterable[int]) -> dict[tuple[int, int], Expr]:
        """Return the slopes of the active loss gradients in fields by regions, by their places."""
        flow, slopes = self.flow, {}
        for a, i in itertools.product(self.active, fields):
            loss, field = flow.loss_gradient[a], flow.fields[i]
            if not self.is_sloped(a, i):
                raise ModelError(
                    f"{flow.label}: the loss gradient of `{flow.gradients[a]}`, `{loss}`, has no derivative in `{field}` that "
                    f"is a function (it is `{loss.diff(field)}`), but the mean-field equations need one; {SMOOTH}"
                )
            slopes[a, i] = slope(loss, field)
        return slopes

    def overlap_of(self, i: int, j: int) -> Expr:
        """Return E[w_i w_j] of weights that do not move."""
        return mean_of((self.weights[i] * self.weights[j]).expand(), self.flow)

    def rough_teachers(self) -> tuple[int, ...]:
        """Return the fields of constant weights in which a loss gradient has no derivative; their weights are uncorrelated."""
        flow = self.flow
        still = [i for i in self.needed if i not in self.responsive and self.t not in flow.weights[i].free_symbols]
        rough = tuple(i for i in still if not all(self.is_sloped(a, i) for a in self.active))
        for first, second in itertools.combinations(rough, 2):
            common = self.overlap_of(first, second)
            if common != 0:
                raise ModelError(
                    f"{flow.label}: the loss gradients jump in `{flow.fields[first]}` and in "
                    f"`{flow.fields[second]}`, whose weights `{flow.weights[first]}` and "
                    f"`{flow.weights[second]}` are correlated (E = {common}); expected "
                    "uncorrelated ones: combine independent weights of mean 0 into other fields"
                )
        return rough

    def on_samples(self, node: E) -> bool:
        """Whether an expectation is over the samples, not the coordinates."""
        return any(isinstance(item, Field) or item in self.sample_randoms for item in node.argument.free_symbols)

    def equation(self, left: Expr, right: Expr) -> Equation:
        return Equation(left, right, self.flow.location)

    def system(self, eqs: list[Equation], laws: dict[Any, Any], observables: dict[str, Expr], stepped: bool) -> System:
        """Return the system of these equations and of the flow's own: definitions, θ' = p_t(g, θ), starts."""
        flow = self.flow
        drifts = ((self.process(item), self.process(drift)) for item, drift in flow.drift.items())
        own = [self.equation(Derivative(left, self.t), right) for left, right in drifts]
        return System(
            flow.name, [*eqs, *self.definitions, *own], laws=laws, defaults=flow.defaults, observables=observables,
            init={self.process(item).head: value for item, value in flow.state.items()}, conditions=flow.conditions,
            substitute={self.process(item).head: self.process(expr) for item, expr in flow.substitute.items()},
            cite=flow.cite, step=STEP if stepped else None,
        )  # fmt: skip


def derive_dmft(flow: Flow, eliminate: bool | None = None) -> System:
    """Return the mean-field system of a flow; fields are eliminated where the loss gradient is linear in them."""
    flow = settle_noises(flow)
    parts = FlowParts(flow)
    if not parts.active:
        raise ModelError(f"{flow.label}: no gradient acts on the state, so there is nothing to learn")
    reason = why_not(parts)
    if eliminate and reason is not None:
        raise ModelError(f"{flow.label}: the fields cannot be eliminated: {reason}")
    if reason is None and eliminate is not False:
        return eliminate_fields(parts)
    return general_limit(parts, parts.rough_teachers())


@kept_by_model
def without_jumps(flow: Flow) -> Flow:
    """Return a flow whose loss gradients rise over ``JUMP_WIDTH`` where they jump in a field that moves; itself without any.

    For vanishing widths its solution is Filippov's: a field that is drawn to the jump from both sides stays there.
    """
    smooth = tuple(with_steps(loss, flow.student_fields) for loss in flow.loss_gradient)
    return flow if smooth == tuple(flow.loss_gradient) else flow._with(loss_gradient=smooth)


def derive_descent(flow: Flow, eta: Any) -> System:
    """Return the mean-field system of gradient descent: the same equations in discrete time, noises included."""
    step = _amount(flow, eta, "gradient_descent", "a positive step,", lambda step: step.is_positive)
    plain = flow._with(substitute=Table())  # a change of variables would change what a step does
    system = put_in_steps(derive_dmft(plain))
    if system.knows(STEP.name):
        system = system.subs({STEP: step})
    return system.replace(f"{flow.name}_descent", step=step)


def general_limit(parts: FlowParts, teachers: tuple[int, ...]) -> System:
    """Return the general mean-field system of a flow; ``teachers`` are the places of the fields that it is conditioned on."""
    flow, t, tp, w, active = parts.flow, parts.t, parts.other, parts.weights, parts.active
    ratio = flow.ratio
    fields, names = [item.name for item in flow.fields], parts.weight_names
    others = [i for i in parts.needed if i not in teachers]
    students = [i for i in others if i in parts.responsive]
    losses = {a: parts.process(flow.loss_gradient[a]) for a in active}
    slopes = parts.slopes(others)

    # --- the unknowns, by the places of gradients a and of fields i
    plural = {a: f"_{flow.gradients[a].name}" if len(active) > 1 else "" for a in active}
    noise_g = {a: parts.head(Process, f"z_{flow.gradients[a].name}") for a in active}
    noise_f: dict[int, Any] = {}
    for i in others:  # the field of a weight that does not respond is its noise
        is_noise = i not in parts.responsive and not teachers
        noise_f[i] = parts.process(flow.fields[i]).head if is_noise else parts.head(Process, f"z_{fields[i]}")
    read = {i for (_, i), value in slopes.items() if value != 0}
    with_memory = [a for a in active if any(slopes[a, i] != 0 for i in students)]
    response_w = {(i, a): parts.head(Response, f"R_{names[i]}{plural[a]}") for i in students for a in active}
    response_l = {
        (a, i): parts.head(Response, f"R{plural[a] or '_l'}_{fields[i]}") for a in with_memory for i in others if i in read
    }
    random = {*flow.fields, *parts.sample_randoms}
    gammas = {
        (a, i): parts.gamma(a, i)
        for a, i in itertools.product(active, parts.needed)
        if i in teachers or slopes[a, i].free_symbols & random or slopes[a, i].atoms(Value)
    }
    correlation_l = {a: parts.head(Correlation, f"C_l{plural[a]}") for a in active}
    correlation_w = {i: parts.head(Correlation, f"C_{names[i]}") for i in students}
    overlaps = {
        (i, j): parts.head(Function, f"m_{names[i]}" + (f"_{names[j]}" if len(teachers) > 1 else ""))
        for i, j in itertools.product(students, teachers)
    }

    # --- their equations
    def instant(a: int, i: int) -> Expr:
        return gammas[a, i](t) if (a, i) in gammas else slopes[a, i]

    def with_teacher(i: int, j: int) -> Expr:
        """Return m_ij = E[w_i w*_j]."""
        return overlaps[i, j](t) if (i, j) in overlaps else parts.overlap_of(i, j)

    def by_parts(a: int, j: int) -> Expr:
        """Return what multiplies w*_j in g_a, by Gaussian integration by parts."""
        total = E(losses[a] * parts.process(flow.fields[j]))
        for i in others:
            overlap = with_teacher(i, j)
            if overlap != S.Zero:
                total -= instant(a, i) * overlap
                if (a, i) in response_l:
                    total -= parts.over_past(response_l[a, i], overlap)
        return total / parts.overlap_of(j, j)

    def gradient(a: int) -> Expr:
        """Return g_a = u_a/δ + Σ_i Γ_ai w_i + Σ_i ∫ R_ai w_i."""
        total = noise_g[a](t) / ratio
        for i in parts.needed:
            total += instant(a, i) * w[i]
            if (a, i) in response_l:
                total += parts.over_past(response_l[a, i], w[i])
        return total

    def field(i: int) -> Expr:
        """Return f_i = u_i + Σ_a ∫ R_ia ℓ_a, with what the teacher's field says of it."""
        if i in teachers:  # a constant: where labels jump in it, rules have nodes on both sides
            return sqrt(parts.overlap_of(i, i)) * parts.normal(f"level_{fields[i]}")
        total = noise_f[i](t)
        for j in teachers:
            total += with_teacher(i, j) / parts.overlap_of(j, j) * parts.process(flow.fields[j])
        for a in active:
            if (i, a) in response_w:
                total += parts.over_past(response_w[i, a], losses[a])
        return total

    def loss_covariance(first: int, second: int) -> Expr:
        return ratio * (correlation_l[first](t, tp) if first == second else E(losses[first] * parts.at(losses[second], tp)))

    def weight_covariance(first: int, second: int) -> Expr:
        known = first == second and first in correlation_w
        total = correlation_w[first](t, tp) if known else E(w[first] * parts.at(w[second], tp))
        for j in teachers:
            total -= with_teacher(first, j) * parts.at(with_teacher(second, j), tp) / parts.overlap_of(j, j)
        return total

    rights: list[tuple[Any, Expr]] = []
    rights += [(head(t, tp), E(w[i] * parts.at(w[i], tp))) for i, head in correlation_w.items()]
    rights += [(head(t, tp), E(Resp(w[i], noise_g[a](tp)))) for (i, a), head in response_w.items()]
    rights += [(head(t, tp), E(losses[a] * parts.at(losses[a], tp))) for a, head in correlation_l.items()]
    rights += [(head(t, tp), E(Resp(losses[a], noise_f[i](tp)))) for (a, i), head in response_l.items()]
    rights += [(head(t), E(w[i] * w[j])) for (i, j), head in overlaps.items()]
    rights += [
        (head(t), by_parts(a, i) if i in teachers else E(parts.process(slopes[a, i]))) for (a, i), head in gammas.items()
    ]
    rights += [(parts.process(flow.gradients[a]), gradient(a)) for a in active]
    defined = [i for i in parts.needed if i in teachers or noise_f[i].name != fields[i]]
    rights += [(parts.process(flow.fields[i]), field(i)) for i in defined]
    laws = {**_law(noise_g, loss_covariance), **_law(noise_f, weight_covariance), **flow.laws}
    observables = {name: parts.averaged(expr) for name, expr in flow.observables.items()}
    return parts.system([parts.equation(*pair) for pair in rights], laws, observables, bool(flow.stepped))


def _law(noises: dict[int, Any], covariance: Callable[[int, int], Expr]) -> dict[Any, GP]:
    """Return the law of noises by their places, of several a joint one."""
    if len(noises) == 1:
        ((place, noise),) = noises.items()
        return {noise: GP(covariance(place, place))}
    return {tuple(noises.values()): GP([[covariance(first, second) for second in noises] for first in noises])}


# --- A loss gradient linear in the fields: the fields are eliminated and the simplified mean-field system is left.
#
# With ℓ = Σ_i A_i f_i + b and the error e = Σ_i A_i w_i, the sample process obeys ℓ = (A u_f + b) +
# ∫ R_e ℓ, where R_e is the response of e. So ℓ = (I − R_e)⁻¹ (A u_f + b), and with R_w = −R_e, I −
# R_f = (I + R_w)⁻¹ the correlation of ℓ is C_f = (I − R_f)(C_w + E[b bᵀ])(I − R_f)ᵀ and the drive
# of the gradient e − ∫ R_f e.
#
# Noise that is drawn afresh at every step needs no sampling here. Let l be the mean of ℓ over it,
# and ℓ = m l + n with the means 1 and 0 of m and n. Then ε = (m − 1) l + n is uncorrelated in time
# and with everything else, with the variance D = E(m − 1)² E l² + E n². Coordinates feel a sum over
# many samples, so that only the covariance counts: C_f = (I − R_f)(C_w + E[b bᵀ] + D)(I − R_f)ᵀ.
# The mean response is that without noise, and l = ℓ − ε gives E l² = C_l(t, t) + Σ_s R_f(t, s)²
# D(s), with the C_l that there is without ε.
@dataclass(frozen=True)
class AveragedGradient:
    """A loss gradient ℓ = m l + n, l = Σ A_i f_i + b being its mean over fresh noise."""

    slopes: list[Expr]  # A
    offset: Expr  # b
    spread: Expr  # the variance of m
    rest: Expr  # the mean square of n
    steady: tuple[Value, ...]  # the other noises of the samples, which add to l

    @property
    def fresh(self) -> bool:
        return self.spread != 0 or self.rest != 0


def why_not(parts: FlowParts) -> str | None:
    """Return why the fields cannot be eliminated, or None when they can."""
    if len(parts.active) != 1:
        return f"{len(parts.active)} gradients act on the state; expected one"
    flow = parts.flow
    loss = flow.loss_gradient[parts.active[0]]
    for item in flow.fields:
        coefficient = loss.diff(item)
        if coefficient.free_symbols & set(flow.fields) or coefficient.atoms(Random):
            return f"the loss gradient `{loss}` is not linear in `{item}` with a deterministic coefficient"
    try:
        average = _average(parts)
    except ModelError as error:
        return str(error)
    for name, expr in flow.observables.items():
        for node in expr.atoms(E):
            if parts.on_samples(node) and in_losses(parts, average, node.argument) is None:
                return f"observable `{name}` is no quadratic function of the loss gradient"
    return None


def _average(parts: FlowParts) -> AveragedGradient:
    """Return a loss gradient that is linear in the fields as m l + n; raise when it has another form."""
    flow = parts.flow
    loss = flow.loss_gradient[parts.active[0]]
    noises = {item: flow.laws[item.head] for item in loss.atoms(Value)}

    def averaged(mean: Expr, *others: Any) -> AveragedGradient:
        offset = mean.xreplace(dict.fromkeys(flow.fields, S.Zero))
        return AveragedGradient([mean.diff(item) for item in flow.fields], offset, *others)

    if not noises:
        return averaged(loss, S.Zero, S.Zero, ())
    # one draw of each noise that is fresh at every step, as a random constant
    fresh = {
        item: Random(f"{item.head.name}_draw", None, (law.law,)) for item, law in noises.items() if isinstance(law, Resampled)
    }
    steady = tuple(sorted((item for item in noises if item not in fresh), key=str))
    drawn = loss.xreplace(fresh).expand()
    mean = _mean(drawn, parts, fresh).expand()
    slopes = [(drawn.diff(item), mean.diff(item)) for item in flow.fields]
    factors = {(value / base).cancel() for value, base in slopes if base != 0}
    if len(factors) != 1 or any(base == 0 and value != 0 for value, base in slopes):
        raise ModelError(f"the noise in `{loss}` does not multiply all fields alike")
    (factor,) = factors
    for item in steady:
        if mean.diff(item).free_symbols & {*flow.fields} or mean.diff(item).has(item) or drawn.diff(item).atoms(Random):
            raise ModelError(f"the noise `{item}` is not added to the fields in `{loss}`")
        if not isinstance(noises[item], GP) or noises[item].mean != 0:
            raise ModelError(f"the noise `{item}` is no centred Gaussian process")
    rest = (drawn - factor * mean).expand()
    if rest.free_symbols & {*flow.fields, *steady} or _mean(((factor - 1) * rest).expand(), parts, fresh) != 0:
        raise ModelError(f"the noise in `{loss}` acts on the fields and beside them together")
    spread = _mean(((factor - 1) ** 2).expand(), parts, fresh)
    square = mean_of((rest**2).expand(), flow)
    if any(item.has(E) for item in (mean, spread, square)):
        raise ModelError(f"moments of the noise in `{loss}` have no closed form here")
    return averaged(mean, spread, square, steady)


def _mean(expr: Expr, parts: FlowParts, fresh: dict[Value, Random]) -> Expr:
    """Return the mean over fresh noise alone."""
    others = {item: Dummy(item.name, real=True) for item in expr.atoms(Random) if item not in fresh.values()}
    back = {placeholder: item for item, placeholder in others.items()}
    return mean_of(expr.xreplace(others), parts.flow).xreplace(back)


def in_losses(parts: FlowParts, average: AveragedGradient, argument: Expr) -> tuple[Expr, Expr] | None:
    """Return (a, c) with E[argument] = a E[l²] + c, or None when the argument is no such function."""
    slopes, rest = average.slopes, average.offset
    place = next(place for place, value in enumerate(slopes) if value != 0)
    loss, fields = Dummy("l"), parts.flow.fields
    others = sum((slopes[i] * fields[i] for i in range(len(fields)) if i != place), S.Zero)
    written = argument.xreplace({fields[place]: (loss - rest - others) / slopes[place]}).expand()
    if written.free_symbols & (set(fields) | parts.sample_randoms) or not written.is_polynomial(loss) or written.atoms(Value):
        return None
    terms = dict(Poly(written, loss).terms())
    if any(powers[0] > 2 for powers in terms) or ((1,) in terms and mean_of(rest, parts.flow) != 0):
        return None
    return terms.get((2,), S.Zero), terms.get((0,), S.Zero)


def eliminate_fields(parts: FlowParts) -> System:
    """Return the simplified system: responses and correlations of the error, and its drive."""
    flow, t, tp, s = parts.flow, parts.t, parts.other, parts.past
    average = _average(parts)
    slopes, start = average.slopes, S.Zero
    C_w, C_f = (parts.head(Correlation, name) for name in ("C_w", "C_f"))
    R_w, R_f = (parts.head(Response, name) for name in ("R_w", "R_f"))
    z = parts.head(Process, "z")
    error = sum((a * w for a, w in zip(slopes, parts.weights, strict=True)), S.Zero)
    moving = sum((slopes[place] * parts.weights[place] for place in parts.responsive), S.Zero)
    noise = _covariance(parts, average.offset, average.steady)
    gradient = parts.process(flow.gradients[parts.active[0]])

    def correlation(head: Any, fresh: Expr) -> Equation:
        """Return the equation of (I − R_f)(C_w + E[b bᵀ] + fresh)(I − R_f)ᵀ."""

        def total(first: Expr, second: Expr) -> Expr:
            return C_w(first, second) + (noise + fresh).xreplace({t: first, tp: second})

        turned = Int(R_f(tp, s) * total(t, s), (s, start, tp))
        return parts.equation(head(t, tp), total(t, tp) - turned - Int(R_w(t, s) * head(tp, s), (s, start, t)))

    eqs = [
        parts.equation(C_w(t, tp), E(error * parts.at(error, tp))),
        parts.equation(R_w(t, tp), -E(Resp(moving, z(tp)))),
    ]
    square: Expr = C_f(t, t)
    if average.fresh:
        C_l, D = parts.head(Correlation, "C_l"), parts.head(Function, "D")
        square = C_l(t, t) + (spread := STEP * Int(R_f(t, s) ** 2 * D(s), (s, start, t)))
        variance = average.spread * C_l(t, t) + average.spread * spread + average.rest
        eqs += [correlation(C_l, S.Zero), parts.equation(D(t), variance), correlation(C_f, D(t) * KroneckerDelta(t, tp))]
    else:
        eqs.append(correlation(C_f, S.Zero))
    eqs += [
        parts.equation(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        parts.equation(gradient, z(t) / flow.ratio + error - parts.over_past(R_f, error)),
    ]
    observables = {name: observable(parts, average, expr, square) for name, expr in flow.observables.items()}
    laws = {z: GP(flow.ratio * C_f(t, tp)), **{item: flow.laws[item] for item in flow.reads("drift")}}
    stepped = average.fresh or any(isinstance(law, Resampled) for law in laws.values())
    return parts.system(eqs, laws, observables, stepped)


def _covariance(parts: FlowParts, rest: Expr, steady: tuple[Value, ...]) -> Expr:
    """Return E[b(t) b(t')], noises with memory included, which are independent of everything else."""
    flow, t, tp = parts.flow, parts.t, parts.other
    still = rest.xreplace(dict.fromkeys(steady, S.Zero))
    total = mean_of((still * parts.at(still, tp)).expand(), flow)
    for item in steady:
        law, weight = flow.laws[item.head], rest.diff(item)
        times = sorted(law.covariance.atoms(Time), key=lambda time: (time != t, str(time)))
        first, second = times if len(times) == 2 else (t, t)
        total += weight * parts.at(weight, tp) * law.covariance.xreplace({first: t, second: tp})
    return total


def observable(parts: FlowParts, average: AveragedGradient, expr: Expr, square: Expr) -> Expr:
    """Return an observable of a flow whose fields are eliminated; ``square`` is E[l²]."""
    known: dict[Basic, Expr] = {}
    for node in filter(parts.on_samples, expr.atoms(E)):
        coefficients = in_losses(parts, average, node.argument)
        assert coefficients is not None
        known[node] = coefficients[0] * square + mean_of(coefficients[1], parts.flow)
    return parts.averaged(expr, known)


# --- The limit of infinitely many samples: the gradient is its population value, without memory.
#
# For δ → ∞ the noise u_g/δ and the responses vanish, g = Γ(t) w, and the fields at one time are Gaussian with covariance
# Q = E[w wᵀ]. Written with standard normal constants through the Cholesky factor of Q, they turn the system into
# differential equations with random constants.
def derive_infinite_data(flow: Flow) -> System:
    """Return the δ → ∞ system of a flow."""
    if flow.laws:
        raise ModelError(
            f"{flow.label}: the limit of infinitely many samples is derived for flows without "
            f"noise so far, and this one has {quoted(flow.laws)}"
        )
    parts = FlowParts(flow)
    slopes = parts.slopes(parts.needed)
    gaussian = set(flow.fields) | parts.sample_randoms
    constant = not any(value.free_symbols & gaussian for value in slopes.values())
    sampled = [node for expr in flow.observables.values() for node in expr.atoms(E) if parts.on_samples(node)]
    simple = constant and why_not(parts) is None
    eqs: list[Equation] = []
    named: dict[tuple[int, int], Expr] = {}
    if not simple or sampled:
        eqs, named = _overlaps(parts)
    if not simple:
        eqs += _fields(parts, named)
    gammas = dict(slopes)
    for (a, i), value in slopes.items():
        if value.free_symbols & gaussian:
            gammas[a, i] = parts.gamma(a, i)(parts.t)
            eqs.append(parts.equation(gammas[a, i], E(parts.process(value))))
    for a in parts.active:
        total = sum((gammas[a, i] * parts.weights[i] for i in parts.needed), S.Zero)
        eqs.append(parts.equation(parts.process(flow.gradients[a]), total))
    if simple:
        average = _average(parts)
        square = mean_of((average.offset**2).expand(), flow)
        square += sum((average.slopes[i] * average.slopes[j] * value for (i, j), value in named.items()), S.Zero)
        observables = {name: observable(parts, average, expr, square) for name, expr in flow.observables.items()}
    else:
        observables = {name: parts.averaged(expr) for name, expr in flow.observables.items()}
    return parts.system(eqs, {}, observables, False)._with(
        name=f"{flow.name}_infinite_data", substitute=Table(),
        defaults=Table((item, value) for item, value in flow.defaults.items() if item != flow.ratio),
        conditions=tuple(item for item in flow.conditions if flow.ratio not in item.free_symbols),
    )  # fmt: skip


def _overlaps(parts: FlowParts) -> tuple[list[Equation], dict[tuple[int, int], Expr]]:
    """Return Q_ij = E[w_i w_j] as functions of time; numbers where both weights are constants."""
    eqs, named = [], {}
    for second, first in itertools.combinations_with_replacement(parts.needed, 2):
        if not {first, second} & set(parts.responsive):
            named[first, second] = parts.overlap_of(first, second)
            continue
        head = parts.head(Function, f"Q_{parts.flow.fields[second].name}_{parts.flow.fields[first].name}")
        eqs.append(parts.equation(head(parts.t), E(parts.weights[first] * parts.weights[second])))
        named[first, second] = head(parts.t)
    return eqs, {**named, **{(j, i): value for (i, j), value in named.items()}}


def _fields(parts: FlowParts, covariance: dict[tuple[int, int], Expr]) -> Iterator[Equation]:
    """Yield the fields as Gaussian variables of the right covariance; those of constant weights come first."""
    order = sorted(parts.needed, key=lambda place: (place in parts.responsive, place))
    factor: dict[tuple[int, int], Expr] = {}
    for place, i in enumerate(order):
        for j in order[:place]:
            inner = sum((factor[i, k] * factor[j, k] for k in order[: order.index(j)]), S.Zero)
            factor[i, j] = (covariance[i, j] - inner) / factor[j, j]
        rest = covariance[i, i] - sum((factor[i, k] ** 2 for k in order[:place]), S.Zero)
        factor[i, i] = sqrt(rest) if place == 0 else sqrt(Max(rest, 0))
        total = Add(*(factor[i, k] * parts.normal(f"x_{parts.flow.fields[k].name}") for k in order[: place + 1]))
        yield parts.equation(parts.process(parts.flow.fields[i]), total)
