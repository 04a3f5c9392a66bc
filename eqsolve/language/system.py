"""The kinds of model. `System`: causal equations in time, with or without stochastic processes.

`Flow`, `FixedPoint`, `Minimiser`, `Singularity` and `Cases` follow below.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sympy import Basic, Derivative, Expr, S, Tuple
from sympy.core.symbol import Str

from eqsolve.errors import ModelError, UsageError, quoted
from eqsolve.language.indices import Family
from eqsolve.language.laws import Law, exact_start, read_noise_law, shown_key
from eqsolve.language.model import Equation, Model, Table, is_second_order, leaves, symbols_in
from eqsolve.language.nodes import GP, Int, White
from eqsolve.language.source import Location, user_location
from eqsolve.language.symbols import (
    Acceleration,
    Field,
    Function,
    Gradient,
    Head,
    Parameter,
    Plain,
    Process,
    Random,
    State,
    Time,
    TwoTime,
    Unknown,
    Value,
    as_expression,
    default_latex,
    fresh_name,
    part,
)
from eqsolve.verbs import lazy_import

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from eqsolve.microscopic.simulate import Simulation


def members(key: Any) -> tuple[Any, ...]:
    """Return what a key of ``laws=`` gives a law to: one process or constant, or those that are drawn together."""
    return tuple(key) if isinstance(key, Tuple) else (key,)


def start_constant(head: Any, value: Any) -> Any:
    """Return what an unknown starts from; what is drawn from a law is a random constant."""
    return Random(f"{head.base}_start", None, (value,), (head.axes, head.indices)) if isinstance(value, Law) else value


class System(Model):
    """A causal system: processes, one-time functions, two-time functions, and what relates them.

    Parameters
    ----------
    name
        The model's name; in a file, the file's stem.
    eqs
        Equations; the left-hand side names the unknown each defines.
    laws
        Law of each driving process, ``{z: GP(delta*C_f(t, tp))}`` or ``{xi: White(2*T)}``; for processes with a joint GP, a
        tuple of them. ``Telegraph(b, tau)`` and ``Resampled(law)`` have a meaning in discrete time only.
    init
        Values at the start (``w: 0``, ``x: Normal(0, 1)``, ``C(0, 0): rho2``) or on the diagonal (``R(t, t): 1``).
    defaults
        Default values of parameters.
    observables
        Named functions of one time to report.
    constraints
        Conditions that fix one-time unknowns without an equation of their own, ``{mu: Eq(C(t, t), 1)}``.
    substitute
        Exact changes of variable, ``{w: alpha**2*sinh(theta(t))}``; proved before use.
    exact
        Closed forms known for unknowns or observables, compared with the solver by tests.
    tables
        Numbers of the tables: arrays, or a function of parameters, ``{(Omega, V): hard_spheres}``; with its derivatives,
        ``{V: (vertices, {eta: vertices_by_eta})}``.
    conditions
        Inequalities the parameters must satisfy.
    start
        The first time; 0 unless given.
    step
        Length of the step of a system in discrete time (gradient descent); none for one in continuous time.
    flow
        Name of the microscopic model this system describes.
    cite
        Citation key.
    """

    def __init__(
        self, name: str, eqs: Iterable[Equation], *,
        laws: Mapping[Any, Any] | None = None, init: Mapping[Any, Any] | None = None,
        defaults: Mapping[Any, Any] | None = None, observables: Mapping[str, Any] | None = None,
        constraints: Mapping[Any, Any] | None = None, substitute: Mapping[Any, Any] | None = None,
        exact: Mapping[Any, Any] | None = None, tables: Mapping[Any, Any] | None = None,
        conditions: Iterable[Any] = (), start: Any = 0, step: Any = None, flow: str | None = None,
        cite: str | None = None,
    ) -> None:  # fmt: skip
        eqs, init, observables = _first_order(eqs, init, observables)
        self._declare(name, eqs, locals())

    def _normalise(self, field: str, value: Any) -> Any:
        where = user_location()
        match field:
            case "laws":
                return _laws(value, where)
            case "init":
                return _initial(value, where, self.start)
            case "constraints":
                return _constraints(value, where)
            case "substitute":
                return _substitutions(value, where)
            case "start" | "step":
                return exact_start(value)
        return super()._normalise(field, value)

    @property
    def noises(self) -> tuple[Process, ...]:
        """Driving processes, those with a law, in the order declared."""
        return tuple(item for key in self.laws if not isinstance(key, Random) for item in members(key))

    def law_label(self, key: Any) -> str:
        """Return how messages name the law of a process, or of several."""
        return f"the law of {quoted(members(key))} ({self.place('laws', members(key)[0].name)})"

    @property
    def whites(self) -> tuple[Process, ...]:
        """Driving processes that are white noise, in the order declared."""
        return tuple(key for key, law in self.laws.items() if isinstance(law, White))

    @property
    def unknowns(self) -> tuple[Head, ...]:
        """The functions the equations and laws define, in the order declared."""
        defined = (equation.head for equation in self.equations if equation.head is not None)
        return tuple(dict.fromkeys((*defined, *self.constraints, *self.noises)))

    @property
    def processes(self) -> tuple[Process, ...]:
        return tuple(head for head in self.unknowns if isinstance(head, Process))

    @property
    def kernels(self) -> tuple[Head, ...]:
        return tuple(head for head in self.unknowns if isinstance(head, TwoTime))

    def rescale_time(self, factor: Any, name: str | None = None) -> System:
        """Return the system in the time ``factor`` × t."""
        return lazy_import("rescale_time")(self, factor, name)

    def shift_time(self, by: Any, name: str | None = None) -> System:
        """Return the system in the time t − ``by``."""
        return lazy_import("shift_time")(self, by, name)

    def rescale_unknown(self, factors: Mapping[Any, Any], name: str | None = None) -> System:
        """Return the system for x/factor in place of each unknown x named."""
        return lazy_import("rescale_unknown")(self, factors, name)

    def leading_order(self, parameter: Any, to: Any, name: str | None = None) -> System:
        """Return the equations in the limit ``parameter`` → ``to``, all unknowns of order one."""
        return lazy_import("leading_order")(self, parameter, to, name)

    def long_time(self, name: str | None = None, *, integrated: bool = False) -> Any:
        """Return the `FixedPoint` that the system comes to rest in, with its ``stability``.

        Of many such states, as without weight decay, ``integrated`` gives the one told by the
        integral θ of the force, declared by ``substitute={w: f(θ)}``.
        """
        return lazy_import("derive_long_time")(self, name, integrated)


def _first_order(eqs: Any, init: Any, observables: Any) -> tuple[Any, Any, Any]:
    """Return the parts of a system with velocities in place of first derivatives, where equations are of second order."""
    eqs = tuple(eqs) if isinstance(eqs, Iterable) else eqs
    second = [item for item in eqs if is_second_order(item)] if isinstance(eqs, tuple) else []
    if not second:
        return eqs, init, observables
    velocities: dict[str, Head] = {}
    for item in second:
        head = item.head
        if head is None or head.arity != 1:
            raise ModelError(f"{item.label}: second derivatives are taken of functions of one time; got `{item.lhs}`")
        taken = {other.name for one in eqs for other in symbols_in(one.rhs)} | {one.key for one in eqs}
        name = fresh_name(f"{head.base}_velocity", taken)
        velocities[head.base] = type(head)(
            name, rf"\dot{{{head.own_latex or default_latex(head.base)}}}", (head.axes, head.indices)
        )

    def velocity(value: Value) -> Value:
        return velocities[value.head.base].member(value.head.indices)(*value.moments)

    def put(expr: Any) -> Any:
        if isinstance(expr, Derivative) and isinstance(expr.expr, Value) and expr.expr.head.base in velocities:
            return velocity(expr.expr)
        if isinstance(expr, Int) or not isinstance(expr, Basic) or not expr.args:
            return expr  # under an integral derivatives stay: solvers of memory read them
        return expr.func(*map(put, expr.args))

    first: list[Any] = []
    for item in eqs:
        if item in second:
            speed = velocity(item.target)
            for place, force in ((item.target, speed), (speed, put(item.rhs))):
                first.append(Equation(Derivative(place, item.time, evaluate=False), force, item.location))
        else:
            first.append(replace(item, rhs=put(item.rhs)) if isinstance(item, Equation) else item)
    given = init if isinstance(init, Mapping) else {}
    starts = {(put(key).head if isinstance(key, Derivative) else key): value for key, value in given.items()}
    for item in second:
        needed = velocities[item.defined.head.base].base
        if needed not in {getattr(key, "base", "") for key in starts}:
            raise ModelError(
                f"{item.label} is of second order and needs the velocity at the start: "
                f"init={{{item.target}.diff({item.time}): 0}}"
            )
    seen = {key: put(value) for key, value in observables.items()} if isinstance(observables, Mapping) else observables
    return tuple(first), starts, seen


def _laws(values: Mapping[Any, Any] | None, where: Location | None) -> Table:
    table: dict[Basic, Basic] = {}
    taken: dict[Basic, Basic] = {}
    for key, law in (values or {}).items():
        name = Tuple(*key) if isinstance(key, tuple) else key
        for member in members(name):
            if isinstance(member, Random):
                if not (law is None or isinstance(law, Law)):
                    raise ModelError(f"{where}: the law of `{member}` must be a law such as Normal(0, 1), got {law!r}")
            else:
                read_noise_law(member, law, where)
            if not isinstance(law, GP | Law | None) and isinstance(name, Tuple):
                kind = type(law).__name__
                raise ModelError(f"{where}: {kind}(...) is the law of one process; give `{member}` its own, independent one")
            if member in taken:
                raise ModelError(f"{where}: `{member}` is given two laws; keep one of them")
            taken[member] = name
        table[name] = law
    return Table(table)


def _initial(values: Mapping[Any, Any] | None, where: Location | None, start: Expr) -> Table:
    table: dict[Basic, Any] = {}
    for key, value in (values or {}).items():
        target = key
        if isinstance(key, Head):
            if key.arity != 1:
                raise ModelError(
                    f"{where}: init of the two-time function `{key.name}` needs its times: "
                    f"`{key.name}(t, t)` for the diagonal or `{key.name}(0, 0)` for the start"
                )
        elif isinstance(key, Value):
            target = key.head if key.head.arity == 1 else key
            if target != key and key.moments[0] != start and not isinstance(key.moments[0], Time):
                raise ModelError(f"{where}: init= gives values at the start, `{target.name}({start})`; got `{key}`")
        elif isinstance(key, Family):
            text = f"init= gives values to members, got `{key.name}` without its indices; write init={{{key.usage}: ...}}"
            raise ModelError(f"{where}: {text}")
        else:
            raise ModelError(f"{where}: init= maps functions to values, got the key {shown_key(key)}")
        if isinstance(value, list | tuple):
            base = getattr(target, "base", target)
            raise ModelError(
                f"{where}: init= of `{target}` is a number or an expression, got {value!r}; give members one by one, "
                f"init={{{base}[0]: ...}}, or by a table, tables={{start: [...]}} and init={{{base}[k]: start[k]}}"
            )
        if target in table:
            raise ModelError(f"{where}: init= gives `{target}` two values, `{table[target]}` and `{value}`; keep one of them")
        if isinstance(value, Law) and not isinstance(target, Process):
            raise ModelError(f"{where}: `{target}` is deterministic and cannot start from a random law; got {value}")
        table[target] = exact_start(value)
    return Table(table)


def _constraints(values: Mapping[Any, Any] | None, where: Location | None) -> Table:
    table: dict[Head, Equation | None] = {}
    for key, value in (values or {}).items():
        head = key.head if isinstance(key, Value) else key
        if not isinstance(head, Function):
            raise ModelError(f"{where}: constraints= maps functions of one time to equations, got the key {shown_key(key)}")
        if not (value is None or isinstance(value, Equation)):
            raise ModelError(
                f"{where}: the constraint on `{head.name}` must be made by eqsolve's Eq(lhs, rhs), as in "
                f"`{head.name}: Eq(C(t, t), 1)`; got {value!r}"
            )
        table[head] = value
    return Table(table)


def _substitutions(values: Mapping[Any, Any] | None, where: Location | None) -> Table:
    table: dict[Head, Expr] = {}
    for key, value in (values or {}).items():
        if not isinstance(key, Process):
            raise ModelError(f"{where}: substitute= maps processes to expressions, got the key {shown_key(key)}")
        table[key] = None if value is None else as_expression(value, "substitute=")
    return Table(table)


# --- `Flow`: the microscopic model whose high-dimensional limit a `System` describes.


class Flow(Model):
    """The general flow θ' = p_t(g, θ), g = Xᵀ ℓ_t(f; ξ)/δ, f = X w_t(θ), applied row by row.

    Parameters
    ----------
    state
        Components of θ with their initial values or laws.
    weights, fields
        The weights w_t(θ) and the fields f = X w they give, one for one; a teacher is one of them.
    loss_gradient, gradients
        ℓ_t(f; ξ) and the gradients g = Xᵀℓ/δ it gives, one for one with the fields.
    drift
        p_t(g, θ), one expression per component of the state.
    laws
        Laws of noises, processes at the running time such as ``s(t)``: ``White(2*T)``, ``GP(...)``, ``Telegraph(b, tau)``,
        ``Resampled(law)``. One that a loss gradient reads is drawn for every sample, one that a drift reads for every
        coordinate.
    ratio
        The parameter n/d; ``delta`` unless given.
    variables
        Named functions of the state, such as the weight w.
    substitute
        Exact changes of variable, u: φ(y, t), each with a new state y of its own. They are proved, carried to the
        mean-field system, and used by runs of the flow at finite size; gradient descent and momentum leave them out.
    """

    weights: tuple[Expr, ...]
    fields: tuple[Field, ...]
    loss_gradient: tuple[Expr, ...]
    gradients: tuple[Gradient, ...]
    ratio: Parameter

    def __init__(
        self, name: str, *, state: Mapping[Any, Any], weights: Sequence[Any], fields: Sequence[Any],
        loss_gradient: Sequence[Any], gradients: Sequence[Any], drift: Mapping[Any, Any],
        laws: Mapping[Any, Any] | None = None, ratio: Any = None,
        defaults: Mapping[Any, Any] | None = None, observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None, conditions: Iterable[Any] = (),
        substitute: Mapping[Any, Any] | None = None, tables: Mapping[Any, Any] | None = None,
        cite: str | None = None,
    ) -> None:  # fmt: skip
        if isinstance(drift, Mapping):
            for item in [item for item in drift if isinstance(item, Acceleration)]:
                place, speed = item.extra
                if speed not in state:
                    raise ModelError(
                        f"{user_location()}: flow `{name}`: the drift of `{place}` is of second order and needs the velocity "
                        f"at the start: state={{{place}.diff(t): 0}}"
                    )
                drift = {key: force for key, force in drift.items() if key != item} | {place: speed, speed: drift[item]}
        self._declare(name, (), locals())
        paired = ("weights", "fields", "loss_gradient", "gradients")
        if len({len(getattr(self, part)) for part in paired}) != 1:
            counts = ", ".join(f"{len(getattr(self, part))} {part}" for part in paired)
            raise ModelError(
                f"{self.location}: flow `{name}` needs one field, loss gradient and gradient per weight; got {counts}"
            )
        odd = sorted(item.name for item in set(self.state) ^ set(self.drift))
        if odd:
            raise ModelError(
                f"{self.location}: flow `{name}`: state and drift must name the same components; `{odd[0]}` is in one only"
            )

    @property
    def time_symbols(self) -> tuple[Time, ...]:
        """The times that expressions are at; covariances of noises have a second one."""
        parts = tuple(getattr(self, part) for part in self.content if part != "laws")
        times = {item for leaf in leaves(parts) for item in leaf.atoms(Time)}
        return tuple(sorted(times, key=str))

    @property
    def running_time(self) -> Time:
        """The time that expressions are at, t where none is written."""
        return next(iter(self.time_symbols), Time("t"))

    @property
    def student_fields(self) -> tuple[Field, ...]:
        """The fields of weights that depend on the state; those of the others are teachers'."""
        return tuple(f for f, w in zip(self.fields, self.weights, strict=True) if w.free_symbols & set(self.state))

    def reads(self, part: str) -> tuple[Process, ...]:
        """Return the noises that ``"loss_gradient"`` (per sample) or ``"drift"`` (per coordinate) reads."""
        value = getattr(self, part)
        expressions = value.values() if isinstance(value, Table) else value
        heads = {item.head for expr in expressions for item in expr.atoms(Value)}
        return tuple(key for key in self.laws if key in heads)

    # --- what follows from a flow
    def _derived(self, verb: str, *given: Any) -> Any:
        """Return what a verb makes of the flow, its families with their members written out."""
        return lazy_import(verb)(lazy_import("written_out")(self, {})[0] if self.is_indexed else self, *given)

    def dmft(self, *, eliminate: bool | None = None) -> System:
        """Return the mean-field equations of the flow for n, d → ∞ with n/d → δ (eq. dmft_general).

        Rows and columns of the kernels that vanish are left out. Where a single loss gradient is linear in the fields,
        the fields are eliminated; ``eliminate=False`` keeps them, ``True`` insists.
        """
        if not isinstance(eliminate, bool | None):
            raise UsageError(f"eliminate= takes True or False, got {eliminate!r}")
        return self._derived("derive_dmft", eliminate)

    def infinite_data(self) -> System:
        """Return the limit δ → ∞ of the mean-field equations: differential equations without memory or noise."""
        return self._derived("derive_infinite_data")

    def long_time(self, name: str | None = None, *, integrated: bool = False) -> Any:
        """Return the `FixedPoint` that the mean-field equations tend to if they come to rest."""
        return lazy_import("derive_long_time")(self, name, integrated)

    def gradient_descent(self, eta: Any) -> System:
        """Return the mean-field equations of gradient descent with step ``eta``, exact at this step."""
        return self._derived("derive_descent", eta)

    def momentum(self, friction: Any) -> Flow:
        """Return the flow with inertia θ'' = −friction θ' + p(g, θ), as a flow of twice as many states."""
        return self._derived("add_momentum", friction)

    def sgd(self, batch: Any) -> Flow:
        """Return stochastic gradient descent: at every step each sample is in the batch with probability ``batch``.

        The loss gradient of a sample in the batch is divided by ``batch``, that of the others is zero. A number or a symbol;
        to be run, and solved, with ``step=``.
        """
        return self._derived("add_batches", batch)

    def langevin(self, temperature: Any) -> Flow:
        """Return Langevin dynamics: white noise White(2 T) of its own is added to every drift that a gradient acts in."""
        return self._derived("add_temperature", temperature)

    def label_noise(self, variance: Any) -> Flow:
        """Return training with fresh label noise: at every step a normal of this variance is added to each teacher's field.

        The loss gradients see f* + ζ in place of f*, the observables do not; to be run, and solved, with ``step=``.
        """
        return self._derived("add_label_noise", variance)

    def simulate(
        self, d: int | None = None, delta: Any = None, seed: int | None = None, *,
        t_max: float | None = None, at: float | Iterable[float] | None = None, seeds: int = 1,
        data: Any = "gaussian", constants: str = "sampled", step: float | None = None,
        rtol: float = 1e-6, keep: bool = False, device: str = "cpu", workers: int | None = None,
        executor: Executor | None = None, progress: Any = None,
        params: Mapping[str, Any] | None = None, **parameters: Any,
    ) -> Simulation:  # fmt: skip
        """Run the flow at finite size.

        Parameters
        ----------
        d
            Number of coordinates; that of the matrix when ``data`` is one. The number of samples is n = δ d.
        delta
            The ratio δ = n/d, whatever the flow calls it.
        seed, seeds
            Seed of everything random, and how many independent draws to run. Draw i is the same whatever ``seeds`` is.
            Without a seed every setting of the parameters has draws of its own, the same in every session; with one,
            all settings share its draws.
        t_max, at
            Last time, and the times to report; 25 times up to ``t_max`` unless given.
        data
            ``"gaussian"``, ``"binary"`` (±1/√d), ``"student_t"`` (5 degrees of freedom), a law of the entries
            (standardised), an n × d array, or a file that holds one.
        constants
            ``"sampled"``: random constants and starts are drawn; ``"exact"``: placed so that their empirical law is the
            declared one; ``"balanced"``: also the first fields and gradients (Gaussian features only), which leaves much less
            scatter between draws.
        step
            Gradient descent with this step instead of the flow; times go to the nearest step.
        rtol
            Tolerance of the adaptive integrator per step.
        keep
            Keep the coordinates at every reported time, for ``runs.coordinates(name, t)``.
        device
            ``"gpu"``: on the graphics card, for the same draws; ``"auto"``: where there is one and the work is worth it.
        workers, executor
            Draws run at once (one per core by default), or the ``concurrent.futures`` executor to run them on.
        progress
            As in ``solve``: a function of (done, total, text), False for silence, a bar by default.
        params, **parameters
            Values of parameters and laws of random constants, by name.

        Returns
        -------
        Simulation
            Observables over draws and times, as xarray, table or picture.
        """
        if delta is not None:
            parameters[self.ratio.name] = delta
        return lazy_import("simulate")(
            self, d=d, seed=seed, t_max=t_max, at=at, seeds=seeds, data=data, constants=constants, step=step, rtol=rtol,
            keep=keep, device=device, workers=workers, executor=executor, progress=progress, params=params, **parameters,
        )  # fmt: skip

    def _normalise(self, field: str, value: Any) -> Any:
        where = user_location()
        match field:
            case "state":
                return Table({_member(k, State, where, field): exact_start(v) for k, v in value.items()})
            case "drift":
                return Table({_member(k, State, where, field): as_expression(v, "drift=") for k, v in value.items()})
            case "weights" | "loss_gradient":
                return tuple(as_expression(entry, f"{field}=") for entry in value)
            case "fields":
                return tuple(_member(entry, Field, where, field) for entry in value)
            case "gradients":
                return tuple(_member(entry, Gradient, where, field) for entry in value)
            case "laws":
                return Table({key: read_noise_law(key, law, where) for key, law in (value or {}).items()})
            case "ratio":
                return Parameter("delta", positive=True) if value is None else value
            case "substitute":
                pairs = [(_member(k, State, where, field), v) for k, v in (value or {}).items()]
                return Table((k, None if v is None else as_expression(v, "substitute=")) for k, v in pairs)
        return super()._normalise(field, value)


def _member(item: Any, kind: type[Any], where: Location | None, field: str) -> Any:
    if not isinstance(item, kind):
        raise ModelError(f"{where}: {field}= takes symbols made by {kind.__name__.lower()}(), got `{item}`")
    return item


# --- `FixedPoint`: scalar unknowns, expectations, implicit functions. `Singularity`: an implicit
# transform equation.
#
# `Cases`: one name for several models, chosen by conditions on the parameters.

MEASURES = ("error", "prediction error", "residual", "zeros")


class Minimiser(Basic):
    """The regression estimator that a fixed point describes, at finite size.

    ``argmin (1/2δ)|y − Xw|² + strength Σ J(w)`` over n = δd observations y = Xw* + ξ, where X has independent entries of
    variance 1/d; with strength 0, the limit of a vanishing one: the interpolator of least Σ J(w) for δ < 1, least squares
    for δ > 1.

    Parameters
    ----------
    variable
        A ``symbol()`` that stands for one weight.
    penalty
        J as an expression in the variable.
    inverse_slope
        Instead of J: the weight as a function of J'(w), written in the same variable.
    strength, ratio, noise
        λ, δ and the variance of ξ, expressions in the parameters.
    target
        The random constant w*.
    measures
        What the values of the fixed point are at finite size, by name: ``"error"`` is ``|w − w*|²/d``, ``"prediction error"``
        adds the noise, ``"residual"`` is ``|y − Xw|²/n``, ``"zeros"`` the fraction of zero weights.
    """

    variable: Plain = part(0)
    target: Random = part(1)
    ratio: Expr = part(2)
    noise: Expr = part(3)
    strength: Expr = part(4)

    def __new__(
        cls, variable: Any, *, target: Any, ratio: Any, noise: Any = 0, strength: Any = 0,
        penalty: Any = None, inverse_slope: Any = None, measures: Mapping[str, str] | None = None,
    ) -> Minimiser:  # fmt: skip
        where = user_location()
        if (penalty is None) == (inverse_slope is None):
            raise ModelError(f"{where}: Minimiser takes one of penalty= and inverse_slope=")
        if not isinstance(variable, Plain):
            raise ModelError(f"{where}: Minimiser needs a symbol() for one weight, got `{variable}`")
        if not isinstance(target, Random):
            raise ModelError(f"{where}: target= takes the random constant that is estimated, got `{target}`")
        for name, kind in (measures or {}).items():
            if kind not in MEASURES:
                raise ModelError(f"{where}: measures= maps `{name}` to {kind!r}; expected one of {', '.join(MEASURES)}")
        parts = [as_expression(part, "Minimiser") for part in (ratio, noise, strength)]
        parts += [S.NaN if part is None else as_expression(part, "Minimiser") for part in (penalty, inverse_slope)]
        table = Tuple(*(Tuple(Str(name), Str(kind)) for name, kind in (measures or {}).items()))
        return Basic.__new__(cls, variable, target, *parts, table)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (self.func, self.args)

    @property
    def func(self) -> Any:
        return functools.partial(Basic.__new__, Minimiser)

    @property
    def penalty(self) -> Expr | None:
        return None if self.args[5] is S.NaN else self.args[5]

    @property
    def inverse_slope(self) -> Expr | None:
        return None if self.args[6] is S.NaN else self.args[6]

    @property
    def measures(self) -> dict[str, str]:
        return {str(name): str(kind) for name, kind in self.args[7]}


class FixedPoint(Model):
    """A self-consistent system of scalar equations.

    Parameters
    ----------
    name, eqs, defaults, observables, conditions, cite
        As in ``System``; an equation may be any balance of two sides.
    variables
        Random quantities of interest, by name, whose law ``res.law(name)`` reports.
    exact
        Closed forms known for unknowns.
    tables
        Numbers of the tables, as in ``System``.
    minimises
        A ``Minimiser``: the estimator at finite size whose limit this is, so that it can be validated.
    """

    minimises: Minimiser | None

    def __init__(
        self, name: str, eqs: Iterable[Equation], *,
        defaults: Mapping[Any, Any] | None = None, observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None, exact: Mapping[Any, Any] | None = None,
        tables: Mapping[Any, Any] | None = None, conditions: Iterable[Any] = (),
        flow: str | None = None, minimises: Minimiser | None = None, cite: str | None = None,
    ) -> None:  # fmt: skip
        self._declare(name, eqs, locals())

    def _normalise(self, field: str, value: Any) -> Any:
        if field == "minimises" and value is not None and not isinstance(value, Minimiser):
            raise ModelError(f"{user_location()}: minimises= takes a Minimiser(...), got {value!r}")
        return super()._normalise(field, value)

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The scalar unknowns in order of their names."""
        return self.of_kind(Unknown)


class Cases(Model):
    """One name for several models: the first whose condition on the parameters holds is solved.

    Parameters
    ----------
    cases
        Pairs (condition, model's name); conditions are inequalities between parameters, joined by ``&`` or ``|``.
    defaults
        Values of parameters, passed to the model that is chosen.
    """

    cases: tuple[tuple[Any, str], ...]
    observables = Table()  # those of the model that is chosen

    def __init__(
        self, name: str, *, cases: Any, defaults: Mapping[Any, Any] | None = None,
        conditions: Iterable[Any] = (), cite: str | None = None,
    ) -> None:  # fmt: skip
        self._declare(name, (), locals())


class Singularity(Model):
    """An implicit transform equation h(R, p) = 0 whose rightmost singularity gives a convergence rate.

    Parameters
    ----------
    transform
        The equation that defines the transform R(p).
    variable, unknown
        The transform variable p and the transform R.
    law_of
        Where the law of the random variables comes from: a model's name, or pairs (condition, name).
    variables
        Named random quantities, as in ``FixedPoint``.
    """

    variable: Unknown
    unknown: Unknown
    law_of: tuple[tuple[Any, str], ...]

    def __init__(
        self, name: str, *, transform: Equation, variable: Any, unknown: Any, law_of: Any = (),
        defaults: Mapping[Any, Any] | None = None, observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None, conditions: Iterable[Any] = (),
        cite: str | None = None,
    ) -> None:  # fmt: skip
        roles = {"variable": variable, "unknown": unknown}
        for role, item in roles.items():
            if not isinstance(item, Unknown):
                raise ModelError(f"{user_location()}: {role}= takes a symbol made by unknown(), got `{item}`")
        self._declare(name, [transform], locals())
        for role, item in roles.items():
            if item not in (transform.lhs - transform.rhs).free_symbols:
                raise ModelError(f"{transform.label}: the {role} `{item}` does not appear in the transform equation")
