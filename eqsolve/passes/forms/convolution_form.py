"""Systems of one-time functions with memory, as the solver of convolutions takes them.

Every right-hand side is a pointwise expression in the time, in values ``x(t)`` and ``x(t − τ)``, and in integrals
∫_0^t H ds. An integrand is written with the two times it joins, s and u = t − s: H is an expression in s, u, values at s, at u
and at t, and derivatives at s and u. Factors of s
alone, or of u alone, that contain no unknown are gauges, which panels resolve too. Times are counted from the start.
"""

from dataclasses import dataclass
from typing import Any

from sympy import Abs, Basic, Derivative, Dummy, Expr, Mul, Pow, S, expand, log

from eqsolve.errors import ModelError, quoted
from eqsolve.language.indices import Slot, at_indices, free_indices
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E, Int
from eqsolve.language.symbols import Function, Head, Parameter, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import free_times, rebuilt


# --- One-time functions at shifted times: φ(t − s) under an integral over s, and y(t − τ) at a
# constant delay.
def has_shifts(system: System) -> bool:
    """Whether a function stands at a shifted time, or its derivative on a right-hand side, or an integral has a kernel that is
    infinite, or has no derivatives, where its times meet: only convolutions know these."""
    sides, plain = _sides(system), not system.processes and not system.kernels
    return any(side.has(Derivative) or (plain and _is_weak(side)) for side in sides) or bool(shifted_values(system))


def is_sharp(node: Pow | log) -> bool:
    """Whether a power or logarithm is not smooth where its base vanishes."""
    return isinstance(node, log) or node.exp.could_extract_minus_sign() or not node.exp.is_integer


def _is_weak(side: Expr) -> bool:
    """Whether an integral has a negative or fractional power, or a logarithm, of a difference of times, as 1/√(t − s)."""
    sharp = [node.args[0] for item in side.atoms(Int) for node in item.integrand.atoms(Pow, log) if is_sharp(node)]
    bases = [base.args[0] if isinstance(base, Abs) else base for base in sharp]
    return any(len(free_times(base)) == 2 and base.is_Add and not base.has(Value) for base in bases)


def _sides(system: System) -> list[Expr]:
    constraints = [side for item in system.constraints.values() for side in (item.lhs, item.rhs)]
    return [*(equation.rhs for equation in system.equations), *constraints, *system.observables.values()]


def shifted_values(system: System) -> tuple[Value, ...]:
    """Return the values at shifted times, in order."""
    values = {value for side in _sides(system) for value in side.atoms(Value)}
    return tuple(sorted((v for v in values if any(not moment.is_Atom for moment in v.moments)), key=str))


def is_lag(moment: Expr, late: Expr, early: Expr) -> bool:
    """Whether a moment is the time between two."""
    return expand(moment - (late - early)) == 0


def delay_of(moment: Expr, now: Expr) -> Expr | None:
    """Return τ of a moment ``now − τ`` with τ made of parameters; None where it is something else."""
    delay = expand(now - moment)
    plain = all(isinstance(item, Parameter) for item in delay.free_symbols) and not delay.has(Value)
    return delay if plain else None


def delayed_heads(system: System) -> frozenset[Function]:
    """Return the functions that are read at a delay, so that their past before the start counts."""
    heads: set[Function] = set()
    for value in shifted_values(system):
        moment = value.moments[0]
        times = moment.atoms(Time)
        if isinstance(value.head, Function) and len(times) == 1 and delay_of(moment, next(iter(times))) is not None:
            heads.add(value.head)
    return frozenset(heads)


NOW, EARLY, LAG = Dummy("t", real=True), Dummy("s", nonnegative=True), Dummy("u", nonnegative=True)


@dataclass(frozen=True)
class Reading:
    """A value that is read: the number of the unknown, itself or its derivative, and where.

    ``where`` is "now", "early" (s), "lag" (t − s), or "delay" with the number of the delay.
    """

    unknown: int
    rate: bool
    where: str
    delay: int = 0


class ConvolutionForm:
    """A system of one-time functions in the form the solver takes; a ModelError says why there is none."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.order = {item.base: place for place, item in enumerate(system.unknowns)}
        for item in system.unknowns:
            if any(not entry.is_Symbol for entry in item.indices) or len(self.order) < len(system.unknowns):
                raise ModelError(f"`{item}` has an equation of its own, apart from its family `{item.base}`")
        self.places: dict[tuple[Reading, tuple[Expr, ...]], Slot] = {}  # values outside integrals, at their indices
        # what stands for ∫_0^t H ds in right-hand sides, H, and what stands for the values in H
        self.integrals: dict[Int, tuple[Slot, Expr, dict[tuple[Reading, tuple[Expr, ...]], Slot]]] = {}
        self.delays: dict[Expr, int] = {}
        self.gauges: dict[Expr, None] = {}  # in ``NOW``
        # of each unknown its head, its equation, how messages name that, its past in ``NOW``, and a
        # body: its derivative ("differential"), its value ("defined"), or what must vanish
        # ("constraint")
        self.equations: list[tuple[Head, Equation, str, Expr | None, str, Expr]] = []
        for equation in system.equations:
            body = self.rewrite(equation.rhs, equation.time, equation.label)
            kind, head = "differential" if equation.is_differential else "defined", equation.defined.head
            self.equations.append((head, equation, equation.label, self.start(head), kind, body))
        for head, constraint in system.constraints.items():
            label = f"constraint on `{head.name}` ({constraint.location})"
            body = self.rewrite(constraint.lhs - constraint.rhs, None, f"the {label}")
            self.equations.append((head, constraint, label, self.start(head), "constraint", body))
        self.observables = {
            name: self.rewrite(expr, None, f"observable `{name}`") for name, expr in system.observables.items()
        }

    def start(self, head: Head) -> Expr | None:
        """Return the past of an unknown as an expression in ``NOW``."""
        keys = [key for key in self.system.init if getattr(key, "base", "") == head.base]
        if not keys:
            return None
        if len(keys) > 1 or any(not entry.is_Symbol for entry in keys[0].indices):
            raise ModelError(f"members of `{keys[0].base}` start from values of their own")
        given = at_indices(self.system.init[keys[0]], dict(zip(keys[0].indices, head.indices, strict=True)))
        return given.xreplace({item: NOW + self.system.start for item in given.atoms(Time)})

    def rewrite(self, expr: Expr, now: Time | None, label: str) -> Expr:
        """Return a right-hand side in ``NOW``, dummies for values and for integrals; without ``now`` its one time is."""
        if now is None:
            times = free_times(expr)
            if len(times) > 1:
                raise ModelError(f"{label} depends on the times {quoted(times)}; expected one")
            now = times[0] if times else Time("t")
        if isinstance(expr, Int):
            return self._integral(expr, now, label)
        if isinstance(expr, E):
            raise ModelError(f"{label} has the expectation `{expr}` of a function of time; there are no paths to average over")
        if isinstance(expr, Value):
            return self._read(expr, now, label)
        if isinstance(expr, Derivative):
            raise ModelError(f"{label} has the derivative `{expr}` outside an integral")
        if expr == now:
            return NOW + self.system.start
        return rebuilt(expr, lambda arg: self.rewrite(arg, now, label))

    def _read(self, value: Value, now: Time, label: str) -> Expr:
        moment, head = value.moments[0], value.head
        if moment == self.system.start and (start := self.start(head)) is not None:
            return start.xreplace({NOW: S.Zero})
        if (delay := delay_of(moment, now)) is None:
            raise ModelError(f"{label} reads `{value}`; expected `{head.name}({now})` or a constant delay")
        at = ("now",) if delay == 0 else ("delay", self.delays.setdefault(delay, len(self.delays)))
        place = Reading(self.order[head.base], False, *at)
        return self.places.setdefault((place, head.indices), Slot.of(head.base, head.indices, head.axes))

    def _integral(self, node: Int, now: Time, label: str) -> Slot:
        if node.integrand.has(Int):
            raise ModelError(
                f"{label} has an integral inside an integral, `{node}`; give the inner one a name by a further equation"
            )
        if node.low != self.system.start or node.high != now:
            raise ModelError(f"{label} integrates from `{node.low}` to `{node.high}`; expected {self.system.start} to {now}")
        key = node.xreplace({now: NOW})
        if key in self.integrals:
            return self.integrals[key][0]
        variable, places = node.variable, dict[tuple[Reading, tuple[Expr, ...]], Slot]()

        def walk(expr: Expr) -> Expr:
            if isinstance(expr, Value | Derivative):
                sign, place, head = self._inside(expr, now, variable, label)
                return sign * places.setdefault((place, head.indices), Slot.of(head.base, head.indices, head.axes))
            return rebuilt(expr, walk)

        integrand = walk(node.integrand).xreplace({now: EARLY + LAG + self.system.start, variable: EARLY + self.system.start})
        self.gauges.update(dict.fromkeys(_gauges(integrand, frozenset(places.values()))))
        over = tuple(sorted(free_indices(integrand), key=str))
        self.integrals[key] = (Slot.of("integral", over, over), integrand, places)
        return self.integrals[key][0]

    def _inside(self, expr: Expr, now: Time, variable: Time, label: str) -> tuple[int, Reading, Head]:
        """Return where a value in an integrand stands, and the sign that a derivative gets."""
        rate = isinstance(expr, Derivative)
        value: Any = expr.expr if rate else expr
        moment = value.moments[0]
        where = "now" if moment == now else "early" if moment == variable else ""
        if not where and is_lag(moment, now, variable) and self.system.start == 0:
            where = "lag"
        if not where or (rate and where == "now"):
            raise ModelError(f"{label} reads `{expr}` under an integral over `{variable}`; expected a value at `{variable}`")
        sign = -1 if rate and where == "lag" and expr.variables[0] == variable else 1
        return sign, Reading(self.order[value.head.base], rate, where), value.head


def _gauges(expr: Expr, values: frozenset[Slot]) -> list[Expr]:
    """Return the factors of one of the two times that contain no unknown, as expressions in ``NOW``."""
    if not expr.args:
        return []
    symbols = expr.free_symbols
    if not symbols & values and len(symbols & {EARLY, LAG}) == 1:
        gauge = expr.xreplace({EARLY: NOW, LAG: NOW})
        return [] if gauge.is_polynomial(NOW) and expand(gauge).as_poly(NOW).degree() < 2 else [gauge]
    args, poles = expr.args, [arg for arg in expr.args if isinstance(arg, Pow) and arg.exp.is_Integer and arg.exp.is_negative]
    for time in {EARLY, LAG} if expr.is_Mul and poles else ():  # a pole is to be looked at with what vanishes there
        alone = [arg for arg in args if arg.free_symbols & {EARLY, LAG, *values} == {time}]
        args = (Mul(*alone), *(arg for arg in args if arg not in alone))
    return [gauge for arg in args for gauge in _gauges(arg, values)]


def why_not_convolution(system: System) -> str:
    """Return why a system is none of one-time functions with memory; nothing when it is."""
    heads: list[Basic] = [head for head in system.unknowns if head.arity == 2]
    if heads:
        return f"it has the function of two times `{heads[0]}`"
    if not any(equation.rhs.has(Int) for equation in system.equations) and not (has_shifts(system) or system.is_indexed):
        return "it has no memory"
    try:
        ConvolutionForm(system)
    except ModelError as error:
        return str(error)
    return ""
