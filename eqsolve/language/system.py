"""`System`: causal equations in time, with or without stochastic processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sympy import Basic, Derivative, Expr, Tuple

from eqsolve.errors import ModelError, quoted
from eqsolve.language.laws import IN_STEPS, Law, exact_start, exact_value, read_noise_law, shown_key
from eqsolve.language.model import Equation, Model, Table, is_second_order, symbols_in
from eqsolve.language.nodes import GP, Int, White
from eqsolve.language.source import Location, user_location
from eqsolve.language.symbols import (
    Correlation,
    Function,
    Head,
    Process,
    Random,
    Response,
    Time,
    Value,
    as_expression,
    default_latex,
    fresh_name,
)
from eqsolve.verbs import later


def members(key: Any) -> tuple[Any, ...]:
    """Return what a key of ``laws=`` gives a law to: one process or constant, or those that are drawn together."""
    return tuple(key) if isinstance(key, Tuple) else (key,)


def start_constant(head: Any, value: Any) -> Expr:
    """Return what an unknown starts from; what is drawn from a law is a random constant."""
    return Random(f"{head.name}_start", None, (value,)) if isinstance(value, Law) else value


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
        Closed forms known for unknowns or observables, held against the solver by tests.
    tables
        Numbers of the tables: arrays, or a function of parameters, ``{(Omega, V): hard_spheres}``.
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

    laws: Table
    init: Table
    constraints: Table
    substitute: Table
    exact: Table
    tables: Table
    start: Expr
    step: Expr | None
    flow: str | None

    def __init__(
        self,
        name: str,
        eqs: Iterable[Equation],
        *,
        laws: Mapping[Any, Any] | None = None,
        init: Mapping[Any, Any] | None = None,
        defaults: Mapping[Any, Any] | None = None,
        observables: Mapping[str, Any] | None = None,
        constraints: Mapping[Any, Any] | None = None,
        substitute: Mapping[Any, Any] | None = None,
        exact: Mapping[Any, Any] | None = None,
        tables: Mapping[Any, Any] | None = None,
        conditions: Iterable[Any] = (),
        start: Any = 0,
        step: Any = None,
        flow: str | None = None,
        cite: str | None = None,
    ) -> None:
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
            case "start":
                return exact_value(value)
            case "step":
                return None if value is None else exact_value(value)
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
    def stepped(self) -> tuple[Process, ...]:
        """Driving processes that are followed in discrete time only, in the order declared."""
        return tuple(key for key, law in self.laws.items() if isinstance(law, IN_STEPS))

    @property
    def unknowns(self) -> tuple[Head, ...]:
        """The functions the equations and laws define, in the order declared."""
        defined = [equation.head for equation in self.equations if equation.head is not None]
        defined += [head for head in self.constraints if head not in defined]
        return (*defined, *(noise for noise in self.noises if noise not in defined))

    @property
    def processes(self) -> tuple[Process, ...]:
        return tuple(head for head in self.unknowns if isinstance(head, Process))

    @property
    def kernels(self) -> tuple[Head, ...]:
        return tuple(head for head in self.unknowns if isinstance(head, Correlation | Response))

    def rescale_time(self, factor: Any, name: str | None = None) -> System:
        """Return the system in the time ``factor`` × t."""
        return later("rescale_time")(self, factor, name)

    def shift_time(self, by: Any, name: str | None = None) -> System:
        """Return the system in the time t − ``by``."""
        return later("shift_time")(self, by, name)

    def rescale_unknown(self, factors: Mapping[Any, Any], name: str | None = None) -> System:
        """Return the system for x/factor in place of each unknown x named."""
        return later("rescale_unknown")(self, factors, name)

    def leading_order(self, parameter: Any, to: Any, name: str | None = None) -> System:
        """Return the equations in the limit ``parameter`` → ``to``, all unknowns of order one."""
        return later("leading_order")(self, parameter, to, name)

    def long_time(self, name: str | None = None, *, integrated: bool = False) -> Any:
        """Return the `FixedPoint` that the system comes to rest in, with its ``stability``.

        Of many such states, as without weight decay, ``integrated`` gives the one told by the
        integral θ of the force, declared by ``substitute={w: f(θ)}``.
        """
        return later("long_time")(self, name, integrated)


def _first_order(eqs: Any, init: Any, observables: Any) -> tuple[Any, Any, Any]:
    """Return the parts of a system with velocities in place of first derivatives, where equations are of second order."""
    eqs = tuple(eqs) if isinstance(eqs, Iterable) else eqs
    second = [item for item in eqs if is_second_order(item)] if isinstance(eqs, tuple) else []
    if not second:
        return eqs, init, observables
    given = dict(init or {}) if isinstance(init, Mapping | None) else {}
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
        found = velocities[value.head.base]
        return (found.member(value.head.indices) if value.head.indices else found)(*value.moments)

    def put(expr: Any) -> Any:
        if isinstance(expr, Derivative) and isinstance(expr.expr, Value) and expr.expr.head.base in velocities:
            return velocity(expr.expr)
        # (under an integral derivatives stay: solvers of memory read them)
        return (
            expr if not isinstance(expr, Basic) or isinstance(expr, Int) or not expr.args else expr.func(*map(put, expr.args))
        )

    made: list[Any] = []
    for item in eqs:
        if item in second:
            target = item.target
            made.append(Equation(Derivative(target, item.time, evaluate=False), velocity(target), item.location))
            item = Equation(Derivative(velocity(target), item.time, evaluate=False), put(item.rhs), item.location)
        elif isinstance(item, Equation):
            item = Equation(item.lhs, put(item.rhs), item.location, item.order)
        made.append(item)
    starts = {(put(key).head if isinstance(key, Derivative) else key): value for key, value in given.items()}
    for item in second:
        head = item.head
        assert head is not None
        if not any(getattr(key, "base", "") == velocities[head.base].base for key in starts):
            raise ModelError(
                f"{item.label} is of second order and needs the velocity at the start: "
                f"init={{{item.target}.diff({item.time}): 0}}"
            )
    seen = {key: put(value) for key, value in observables.items()} if isinstance(observables, Mapping) else observables
    return tuple(made), starts, seen


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
        elif isinstance(key, Value) and key.head.arity == 1:
            target = key.head
            if key.moments[0] != start and not isinstance(key.moments[0], Time):
                raise ModelError(f"{where}: init= gives values at the start, `{target.name}({start})`; got `{key}`")
        elif isinstance(key, Value):
            target = key
        else:
            raise ModelError(f"{where}: init= maps functions to values, got the key {shown_key(key)}")
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
