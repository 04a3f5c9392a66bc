"""One-time unknowns fixed by a constraint: their equations, found by differentiating the constraint along the flow.

A multiplier μ(t) that keeps g(t) = 0, say C(t, t) − 1 = 0, need not stand in g. Along the solution all derivatives of g
vanish too, and in them every derivative of an unknown is the right-hand side of its equation: g is differentiated until the
multipliers appear outside integrals (index reduction of differential-algebraic equations; Hairer & Wanner, Solving Ordinary
Differential Equations II, section VII.1). What is linear in them is solved for; the rest is left to Newton's method, as
μ = μ − g/(∂g/∂μ), which a solver iterates with everything else on a panel.

The derivative of an integral over a kernel is an integral over the kernel's own right-hand side. If that has memory, it
becomes an auxiliary kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sympy import Dummy, Expr, Float, ImmutableMatrix, S, expand, powsimp

from eqsolve.errors import ModelError, ParameterError, UsageError, quoted
from eqsolve.language.binding import Binding
from eqsolve.language.model import Equation, Table
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Head, Process, Response, Time, Value, fresh_name
from eqsolve.language.system import System, start_constant
from eqsolve.passes.forms.convolution_form import has_shifts
from eqsolve.passes.forms.expressions import chain, free_times, outermost, partial


def without_future(expr: Expr, moments: tuple[Expr, ...]) -> Expr:
    """Return an expression for the first of two times later than the second: responses of the second to the first vanish."""
    late = [v for v in expr.atoms(Value) if isinstance(v.head, Response) and v.moments == moments[::-1]]
    return expr.xreplace(dict.fromkeys(late, S.Zero))


class AuxiliaryResponse(Response):
    """A causal kernel made by a derivation: solved for, but not reported."""


@dataclass(frozen=True)
class Reduction:
    """A system without constraints, with an equation for every multiplier."""

    system: System  # the system to solve
    multipliers: tuple[Equation, ...] = ()  # the derived equations
    implicit: frozenset[str] = frozenset()  # those that Newton's method solves
    # what must vanish at the start: constraints, and their derivatives free of multipliers
    invariants: tuple[tuple[str, Expr], ...] = ()


def constraint_label(head: Head, constraint: Equation) -> str:
    """Return how messages name a constraint."""
    where = f" ({constraint.location})" if constraint.location else ""
    return f"the constraint on `{head.name}`{where}"


def reduce_constraints(system: System) -> Reduction:
    """Return the system with explicit equations in place of its constraints; raise when there are none.

    With functions at shifted times constraints stay: they are collocated with the equations.
    """
    if not system.constraints or has_shifts(system):
        return Reduction(system)
    if keeps_means(system):
        return _keep_means(system)
    flow = _Flow(system)
    now, residuals, invariants = _differentiate(system, flow)
    heads = tuple(system.constraints)
    values = [head(now) for head in heads]
    placeholders = dict(zip(values, (Dummy(head.name, real=True) for head in heads), strict=True))
    back = {dummy: value for value, dummy in placeholders.items()}
    bare = ImmutableMatrix([residual.xreplace(placeholders) for residual in residuals])
    slopes = bare.jacobian(list(back))
    determinant = _determinant(slopes, system)
    implicit = slopes.has(*back)
    base = bare if implicit else bare.xreplace(dict.fromkeys(back, S.Zero))
    steps = -(slopes.adjugate() * base) / determinant
    known = _known_diagonals(system)
    equations = []
    for head, dummy, step in zip(heads, back, steps, strict=True):
        right = (dummy + step if implicit else step).xreplace(back)
        right = right.xreplace({key.head(now, now): value.xreplace({key.moments[0]: now}) for key, value in known.items()})
        equations.append(Equation(head(now), _folded(right, now), system.constraints[head].location))
    newton = frozenset(head.name for head in heads) if implicit else frozenset()
    # kernels held on the diagonal start from there: other starts may contradict the constraint
    held = {key.head: key for key in known}
    given = {key: value for key, value in system.init.items() if implicit or key not in heads}
    init = {key: value for key, value in given.items() if not (isinstance(key, Value) and key.head in held)}
    init |= {key: known[key] for key in held.values()}
    every = (*equations, *flow.auxiliary.values(), *system.equations)
    return Reduction(
        system._with(equations=every, init=Table(init), constraints=Table()), tuple(equations), newton, tuple(invariants)
    )


def _determinant(slopes: ImmutableMatrix, system: System) -> Expr:
    determinant = slopes.det(method="berkowitz")
    if determinant == 0:
        (first, constraint), *_ = system.constraints.items()
        raise ModelError(
            f"{constraint_label(first, constraint)}: the constraints do not determine "
            f"{quoted(system.constraints)}; each needs a constraint that it acts upon"
        )
    return determinant


def without_constraints(binding: Binding) -> Binding:
    """Return a bound model whose constraints are equations; raise when one does not hold at the start."""
    system = binding.model
    assert isinstance(system, System)
    if system.processes and not keeps_means(system):
        raise UsageError(
            f"model `{system.name}`: beside processes constraints on means are taken, Eq(E(x(t)), "
            "1), and no others yet; write the multiplier's own equation"
        )
    reduction = reduce_constraints(system)
    for label, residual in reduction.invariants:
        off = binding.number(residual)
        if abs(off) > 1e-9:
            raise ParameterError(
                f"{label} does not hold at the start with these parameters: it is off by {off:.6g}; change init= or them"
            )
    return replace(binding, model=reduction.system)


# --- Constraints on means over paths, E g(x(t)) = 1: differentiated once, with Itô's term, and damped, G' = −G. Any
# positive rate of decay stabilises (Baumgarte 1972, doi:10.1016/0045-7825(72)90018-7); 1 per unit of time is taken.
_FINITE = Float("1e-200")  # keeps multipliers finite in a first guess in which all means vanish


def keeps_means(system: System) -> bool:
    """Whether every constraint is one on means of processes."""
    sides = [item.lhs - item.rhs for item in system.constraints.values()]
    return bool(system.processes) and all(side.has(E) and not outermost(side, Value, Int, but=E) for side in sides)


def _keep_means(system: System) -> Reduction:
    """Return the system with multipliers that make every constraint G decay: G' = −G, from a start at which it vanishes."""
    heads = tuple(system.constraints)
    residuals, rates, invariants = [], [], []
    now = next(eq.time for eq in system.equations if isinstance(eq.head, Process) and eq.is_differential)
    for head, constraint in system.constraints.items():
        label = constraint_label(head, constraint)
        residual = constraint.lhs - constraint.rhs
        residual = residual.xreplace({item: now for item in free_times(residual)})
        residuals.append(residual)
        rates.append(chain(residual, (E,), lambda mean: E(_drift(system, mean.argument, now, label)), now))  # noqa: B023
        starts = {v: start_constant(v.head, system.init[v.head]) for v in residual.atoms(Value) if v.head in system.init}
        invariants.append((label, residual.xreplace({**starts, now: system.start})))
    values = [head(now) for head in heads]

    def slope(rate: Expr, value: Expr) -> Expr:
        return chain(rate, (E,), lambda mean: S.Zero if (inner := partial(mean.argument, value)) == 0 else E(inner))

    slopes = ImmutableMatrix([[slope(rate, value) for value in values] for rate in rates])
    if slopes.has(*values):
        raise ModelError(
            f"{constraint_label(heads[0], system.constraints[heads[0]])}: {quoted(heads)} must enter the equations linearly, "
            "and act on what is constrained; write the multiplier's own equation"
        )
    scale = _determinant(slopes, system)
    free = [rate.xreplace(dict.fromkeys(values, S.Zero)) for rate in rates]
    base = ImmutableMatrix([-rate - residual for rate, residual in zip(free, residuals, strict=True)])
    rights = slopes.adjugate() * base * scale / (scale**2 + _FINITE)
    equations = [Equation(v, right, system.constraints[h].location) for v, h, right in zip(values, heads, rights, strict=True)]
    reduced = system._with(equations=(*system.equations, *equations), constraints=Table())
    return Reduction(reduced, tuple(equations), frozenset(), tuple(invariants))


def _drift(system: System, expr: Expr, now: Time, label: str) -> Expr:
    """Return what an expression of processes gains on average per time, white noise in Itô's sense."""
    equations = {eq.head: eq for eq in system.equations}
    whites = {item(now): system.laws[item].strength for item in system.whites}
    values = sorted((v for v in expr.atoms(Value) if isinstance(v.head, Process)), key=str)
    total, rights = expr.diff(now) if now in expr.free_symbols and not values else S.Zero, {}
    for value in values:
        equation = equations.get(value.head)
        if equation is None or not equation.is_differential or value.moments != (now,):
            raise ModelError(
                f"{label} averages `{value}`, which has no differential equation; write the multiplier's own equation"
            )
        rights[value] = equation.rhs.xreplace({equation.time: now})
        total += partial(expr, value) * rights[value].xreplace(dict.fromkeys(whites, S.Zero))
    for noise, strength in whites.items():
        for first in values:
            for second in values:
                both = partial(rights[first], noise) * partial(rights[second], noise)
                total += strength * both * partial(partial(expr, first), second) / 2
    return expand(total)


def _differentiate(system: System, flow: _Flow) -> tuple[Time, list[Expr], list[tuple[str, Expr]]]:
    """Return the running time, for each constraint its first derivative that contains a multiplier, and the ones before."""
    heads, residuals, invariants = set(system.constraints), [], []
    # each derivative reaches at least one more differential equation, or none is reached at all
    most = 1 + sum(equation.is_differential for equation in system.equations)
    running: Any = None
    for head, constraint in system.constraints.items():
        label = constraint_label(head, constraint)
        residual = constraint.lhs - constraint.rhs
        times = free_times(residual)
        if len(times) != 1:
            raise ModelError(f"{label} depends on the times {quoted(times) or 'none'}; expected one, as in Eq(C(t, t), 1)")
        (own,) = times
        running = running or own
        residual = residual.xreplace({own: running})
        for _ in range(most + 1):
            if any(value.head in heads and value.moments == (running,) for value in outermost(residual, Value, but=Int)):
                break
            invariants.append((label, _at_start(system, residual, running)))
            residual = flow.derivative(residual, running)
        else:
            raise ModelError(
                f"{label}: none of its first {most} derivatives contains a multiplier "
                f"({quoted(heads)}); let it act on what is constrained"
            )
        residuals.append(residual)
    return running, residuals, [(label, value) for label, value in invariants if value is not None]


def _known_diagonals(system: System) -> dict[Value, Expr]:
    """Return the values on the diagonal that are given, or prescribed by constraints of the form C(t, t) = given."""
    known: dict[Value, Expr] = {
        key: value
        for key, value in system.init.items()
        if isinstance(key, Value) and isinstance(key.moments[0], Time) and not value.has(Value)
    }
    for constraint in system.constraints.values():
        for side, other in ((constraint.lhs, constraint.rhs), (constraint.rhs, constraint.lhs)):
            held = isinstance(side, Value) and isinstance(side.head, Correlation) and side.moments[0] == side.moments[1]
            if held and isinstance(side.moments[0], Time) and not other.has(Value, Int):
                known[side] = other
    turned = {key.head.turned(*key.moments): value for key, value in known.items() if isinstance(key.head, Correlation)}
    return {**turned, **known}


def _folded(expr: Expr, now: Time) -> Expr:
    """Return an expression with symmetric values C(s, now) written as C(now, s), so that like integrals are joined."""
    later = [v for v in expr.atoms(Value) if isinstance(v.head, Correlation) and v.moments[1] == now]
    turned = expr.xreplace({value: value.head.turned(now, value.moments[0]) for value in later})
    return turned.xreplace(
        {node: Int(powsimp(node.integrand), (node.variable, node.low, node.high)) for node in turned.atoms(Int)}
    )


def _at_start(system: System, expr: Expr, now: Time, depth: int = 0) -> Expr | None:
    """Return an expression of one time at the start, in parameters; None when it cannot be told."""
    begin = expr.xreplace({now: system.start})
    begin = begin.xreplace({node: S.Zero for node in begin.atoms(Int)})
    given = {getattr(key, "head", key): (key, entry) for key, entry in system.init.items() if isinstance(entry, Expr)}
    starts: dict[Value, Expr] = {}
    for value in begin.atoms(Value):
        equation, start = system.get(value.head.name), None
        if equation is not None and not equation.is_differential and depth < len(system):
            start = _at_start(system, equation.at(now, now), now, depth + 1)
        elif value.head in given:
            key, entry = given[value.head]
            start = entry.xreplace(dict.fromkeys(getattr(key, "moments", ()), system.start))
        if start is None:
            return None
        starts[value] = start
    return begin.xreplace(starts)


class _Flow:
    """Derivatives in time along the solutions of a system."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.equations = {equation.head: equation for equation in system.equations}
        self.auxiliary: dict[Head, Equation] = {}  # derivatives that have a name

    def derivative(self, expr: Expr, now: Time) -> Expr:
        """Return d/dnow of an expression, other times held fixed and taken to be earlier."""
        if expr.has(E, Resp):
            raise ModelError(
                f"the constraint `{expr}` = 0: beside processes constraints on means are taken, "
                "Eq(E(x(t)), 1), and no others; write the multiplier's own equation"
            )

        def rate(node: Expr) -> Expr:
            if now not in node.free_symbols:
                return S.Zero
            return self._integral(node, now) if isinstance(node, Int) else self._value(node, now)

        return chain(expr, (Value, Int), rate, now)

    def _value(self, value: Any, now: Time) -> Expr:
        head, moments = value.head, value.moments
        if moments == (now, now):
            return self._diagonal(head, now)
        if moments[0] != now:
            if isinstance(head, Response):
                return S.Zero
            head, moments = head.turned, moments[::-1]
        return self._right(head, moments, now)

    def _right(self, head: Head, moments: tuple[Expr, ...], now: Time) -> Expr:
        """Return the derivative of an unknown in its first time; responses of a later to an earlier time vanish."""
        if head in self.auxiliary:
            return self.auxiliary[head].lhs.head(*moments)
        equation = self._equation(head)
        right = without_future(self._moved(equation, moments), moments)
        return right if equation.is_differential else self.derivative(right, now)

    def _diagonal(self, head: Head, now: Time) -> Expr:
        """Return the derivative of K(now, now)."""
        equation = self._equation(head)
        if not equation.is_differential:
            return self.derivative(self._moved(equation, (now, now)), now)
        for key, value in self.system.init.items() if isinstance(head, Response) else ():
            if isinstance(key, Value) and key.head == head:
                return self.derivative(value.xreplace({key.moments[0]: now}), now)
        total: Expr = S.Zero
        earlier = Time("earlier")
        for side, order in ((head, (now, earlier)), (head.turned, (earlier, now))):  # ∂_t C on both sides of the diagonal
            right = self._moved(self._equation(side), (now, earlier))
            total += without_future(right, order).xreplace({earlier: now})
        return total.xreplace({node: S.Zero for node in total.atoms(Int) if node.low == node.high})

    def _integral(self, node: Int, now: Time) -> Expr:
        """Return the derivative of an integral that ends (or begins) at the running time."""
        variable, integrand = node.variable, node.integrand
        total = ((node.high == now) - (node.low == now)) * integrand.xreplace({variable: now})
        for value in integrand.atoms(Value):  # a kernel with memory gets a derivative with a name
            if isinstance(value.head, Correlation | Response) and value.moments in ((now, variable), (variable, now)):
                turned = isinstance(value.head, Correlation) and value.moments[1] == now
                self._name_derivative(value.head.turned if turned else value.head)
        inner = self.derivative(integrand, now)
        return total if inner == 0 else total + Int(inner, (variable, node.low, node.high))

    def _name_derivative(self, head: Head) -> None:
        """Make the derivative of a kernel, in t > t', an auxiliary kernel if it contains integrals."""
        equation = self._equation(head)
        if not equation.is_differential or not equation.rhs.has(Int) or head in self.auxiliary:
            return
        name = fresh_name(f"{head.name}_rate", self.system.names)
        moments = equation.defined.moments
        right = without_future(equation.rhs, moments)
        self.auxiliary[head] = Equation(AuxiliaryResponse(name)(*moments), right, equation.location)

    def _equation(self, head: Head) -> Equation:
        equation = self.equations.get(head)
        if equation is None:
            kind = "another multiplier" if isinstance(head, Function) and head in self.system.constraints else "not defined"
            raise ModelError(f"`{head.name}` is {kind} and cannot be differentiated along the flow")
        return equation

    def _moved(self, equation: Equation, moments: tuple[Expr, ...]) -> Expr:
        """Return a right-hand side at other times, integration variables renamed where they would collide."""
        right = equation.rhs
        taken = {str(item) for item in (*moments, *right.atoms(Time))}
        for node in right.atoms(Int):
            if node.variable in moments:
                taken.add(spare := next(name for name in "suvrqabc" if name not in taken))
                right = right.xreplace({node: node.xreplace({node.variable: Time(spare)})})
        return right.xreplace(dict(zip(equation.defined.moments, moments, strict=True)))
