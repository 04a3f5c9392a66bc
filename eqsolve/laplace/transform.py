"""Symbolic Laplace transforms of the language's equations: rules for one time, for time differences, for two times.

With f̄(p) = ∫_0^∞ f(t) e^{−pt} dt and stationary (time-translation-invariant) responses R(t, t') = R(t − t'):

    L[a f + b g] = a f̄ + b ḡ          L[f'] = p f̄ − f(0)             L[∫_0^t f ds] = f̄/p
    L[∫_0^t R(t, s) f(s) ds] = R̄ f̄    L[e^{−at} f] = f̄(p + a)        L[f(t − a)] = e^{−pa} f̄, f = 0 before the start

A function of two times has the double transform C̄(p, q) = ∫∫ C(t, t') e^{−pt − qt'} dt dt', in which an integral over
the first time multiplies by R̄(p), one over the second by R̄(q), and a stationary response is R̄(p)/(p + q).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from sympy import Add, Basic, Dummy, Expr, Function, S, Symbol, expand, laplace_transform
from sympy import exp as sym_exp
from sympy.core.function import Derivative
from sympy.integrals.laplace import LaplaceTransform

from eqsolve.errors import ModelError
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Head, Response, Time, Value
from eqsolve.passes.forms.reads import free_times
from eqsolve.passes.forms.tangents import Tangent


class Transform(Head):
    """The Laplace transform of an unknown function; called with p, or with p and q."""

    kind_name = "transform"
    of: Head

    def __new__(cls, of: Head) -> Transform:
        obj: Transform = Basic.__new__(cls, of)
        obj.of = of
        obj.name = f"{of.name}_bar"
        obj.latex_name = rf"\overline{{{of.latex_name}}}"
        return obj

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.of,)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.of,)

    def __call__(self, *variables: Any) -> Value:
        return Value(self, *variables)


def _terms(expr: Expr) -> list[Expr]:
    return list(Add.make_args(expand(expr, deep=False) if expr.is_Mul or expr.is_Pow or expr.is_Add else expr))


@dataclass(frozen=True)
class Rules(ABC):
    """What the three kinds of transform share: linearity, and a refusal that names the term and its equation."""

    # the time that runs and the transform variable p
    time: Time
    variable: Symbol
    # f(0) by function; a value that is not given stays as f(0)
    initial: dict[Head, Expr] = field(default_factory=dict)
    label: str = "the expression"  # what is being transformed, for error messages
    start: Expr = S.Zero

    def __call__(self, expr: Expr) -> Expr:
        """Return the transform of an expression that is linear in the unknown functions."""
        return Add(*(self._term(term) for term in _terms(expr)))

    def _term(self, term: Expr) -> Expr:
        free, bound = term.as_independent(*self._running(), as_Add=False)
        if bound == 1:
            return free * self._one()
        if isinstance(bound, E):
            return free * E(self(bound.argument))
        return free * self._bound(bound)

    def _running(self) -> tuple[Basic, ...]:
        return (self.time,)

    def _one(self) -> Expr:
        return 1 / self.variable

    @abstractmethod
    def _bound(self, expr: Expr) -> Expr:
        """Return the transform of what depends on the running time."""

    def refuse(self, term: Expr, why: str) -> ModelError:
        return ModelError(f"{self.label}: the Laplace transform of `{term}` is not known: {why}")

    def _start(self, value: Value) -> Expr:
        return self.initial.get(value.head, value.xreplace({self.time: self.start}))


@dataclass(frozen=True)
class OneTime(Rules):
    """The transform of functions of one time t ≥ 0."""

    def _bound(self, expr: Expr) -> Expr:
        if isinstance(expr, Value):
            return self._value(expr)
        if isinstance(expr, Derivative):
            inner = expr.expr
            return self.variable * self._value(inner) - self._start(inner)
        if isinstance(expr, Int):
            return self._integral(expr)
        if expr.is_Mul:
            return self._product(expr)
        if expr.is_Add or (expr.is_Pow and expand(expr) != expr):
            return self(expand(expr))
        return self._explicit(expr, self.time)

    def _value(self, value: Value) -> Expr:
        if value.moments == (self.time,):
            return Transform(value.head)(self.variable)
        delay = self.time - value.moments[0]
        if len(value.moments) == 1 and not free_times(delay) and delay.is_nonnegative:
            return sym_exp(-self.variable * delay) * Transform(value.head)(self.variable)
        raise self.refuse(value, "a function of the running time, or of it minus a positive delay, is expected")

    def _product(self, expr: Expr) -> Expr:
        """Shift by exponential factors; anything else must be a single unknown."""
        shift, rest = S.Zero, S.One
        for factor in expr.args:
            slope = factor.args[0].diff(self.time) if isinstance(factor, sym_exp) else None
            if slope is not None and not free_times(slope) and not factor.args[0].has(Value):
                shift, rest = shift - slope, rest * factor.xreplace({self.time: S.Zero})
            else:
                rest = rest * factor
        if shift != 0:
            return self(rest).xreplace({self.variable: self.variable + shift})
        if not expr.has(Value, Int):
            return self._explicit(expr, self.time)
        opened = expand(expr)
        if opened != expr:
            return self(opened)
        raise self.refuse(expr, "it is not linear in the unknown functions; linearise it first")

    def _integral(self, node: Int) -> Expr:
        if node.low != self.start or node.high != self.time:
            raise self.refuse(node, f"an integral from {self.start} to {self.time} is expected")
        return Add(*(self._convolution(term, node.variable) for term in _terms(node.integrand)))

    def _convolution(self, term: Expr, variable: Time) -> Expr:
        """Return the transform of ∫ term ds, where term is a kernel of (t, s) times a function of s."""
        both, rest = S.One, S.One
        for factor in term.as_ordered_factors():
            if self.time in factor.free_symbols:
                both = both * factor
            else:
                rest = rest * factor
        inner = self._inner(rest, variable)
        if both == 1:
            return inner / self.variable
        return self._kernel(both, variable) * inner

    def _inner(self, rest: Expr, variable: Time) -> Expr:
        return self(rest.xreplace({variable: self.time})) if free_times(rest) or rest != 1 else self._one()

    def _kernel(self, kernel: Expr, variable: Time) -> Expr:
        if isinstance(kernel, Value) and isinstance(kernel.head, Response | Tangent):
            if kernel.moments == (self.time, variable):
                return Transform(kernel.head)(self.variable)
        elif not kernel.has(Value):
            lag = Dummy("lag", positive=True)
            shifted = expand(kernel.xreplace({self.time: variable + lag}))
            if variable not in shifted.free_symbols:
                return self._explicit(shifted, lag)
        raise self.refuse(kernel, "a kernel must be a response R(t, s), or an explicit function of t - s")

    def _explicit(self, expr: Expr, time: Symbol) -> Expr:
        """Return the transform of an explicit function of time, as sympy knows it."""
        if expr.has(Value, Int, Derivative):
            raise self.refuse(expr, "it is not linear in the unknown functions; linearise it first")
        clock = Dummy("t", positive=True)
        made = laplace_transform(expr.xreplace({time: clock}), clock, self.variable, noconds=True)
        if made.has(LaplaceTransform, Function("DiracDelta")) or clock in made.free_symbols:
            raise self.refuse(expr, "sympy has no closed form of it")
        return made


@dataclass(frozen=True)
class Differences(OneTime):
    """The transform of stationary functions of (t, t') in their difference t − t'."""

    then: Time | None = None

    def _value(self, value: Value) -> Expr:
        if value.moments == (self.time, self.then):
            return Transform(value.head)(self.variable)
        raise self.refuse(value, f"a stationary function of ({self.time}, {self.then}) is expected")

    def _bound(self, expr: Expr) -> Expr:
        if isinstance(expr, Resp):
            return self(_response(expr, self))
        return super()._bound(expr)

    def _start(self, value: Value) -> Expr:
        return self.initial.get(value.head, value.xreplace({self.time: self.then}))

    def _integral(self, node: Int) -> Expr:
        if node.low != self.then or node.high != self.time:
            raise self.refuse(node, f"an integral from {self.then} to {self.time} is expected of a stationary function")
        return Add(*(self._convolution(term, node.variable) for term in _terms(node.integrand)))

    def _inner(self, rest: Expr, variable: Time) -> Expr:
        return self(rest.xreplace({variable: self.time}))


def _response(node: Resp, rules: Rules) -> Expr:
    """Return ∂x(t)/∂z(t') of an expression linear in processes, in terms of tangent processes."""
    noise = node.noise
    total = S.Zero
    for value in node.output.atoms(Value):
        weight = node.output.diff(value)
        if weight.has(Value):
            raise rules.refuse(node, "its output is not linear in the processes")
        total += weight * Tangent(value.head, noise.head)(*value.moments, *noise.moments)
    return total


@dataclass(frozen=True)
class TwoTimes(Rules):
    """The double transform of functions of (t, t')."""

    then: Time | None = None
    second: Symbol | None = None

    def _running(self) -> tuple[Basic, ...]:
        return (self.time, self.then)

    def _one(self) -> Expr:
        return 1 / (self.variable * self.second)

    def _single(self, later: bool) -> OneTime:
        time, variable = (self.then, self.second) if later else (self.time, self.variable)
        return OneTime(time, variable, self.initial, self.label, self.start)  # type: ignore[arg-type]

    def _bound(self, expr: Expr) -> Expr:
        running = free_times(expr) & {self.time, self.then}
        if running == {self.time}:
            return self._single(False)(expr) / self.second
        if running == {self.then}:
            return self._single(True)(expr) / self.variable
        if isinstance(expr, Value):
            return self._value(expr)
        if isinstance(expr, Derivative):
            return self._derivative(expr)
        if isinstance(expr, Int):
            return self._integral(expr)
        if expr.is_Mul or expr.is_Pow or expr.is_Add:
            return self._product(expr)
        raise self.refuse(expr, "it is not a product of functions of each time")

    def _product(self, expr: Expr) -> Expr:
        opened = expand(expr)
        if opened.is_Add:
            return self(opened)
        first, second = S.One, S.One
        for factor in opened.as_ordered_factors():
            running = free_times(factor) & {self.time, self.then}
            if len(running) == 2:
                raise self.refuse(expr, "it is a product of functions of both times")
            if running == {self.then}:
                second = second * factor
            else:
                first = first * factor
        return self._single(False)(first) * self._single(True)(second)

    def _value(self, value: Value) -> Expr:
        ordered = value.moments == (self.time, self.then)
        if isinstance(value.head, Correlation) and set(value.moments) == {self.time, self.then}:
            return Transform(value.head)(self.variable, self.second)
        if isinstance(value.head, Response) and set(value.moments) == {self.time, self.then}:
            variable = self.variable if ordered else self.second
            return Transform(value.head)(variable) / (self.variable + self.second)
        raise self.refuse(value, f"a function of ({self.time}, {self.then}) is expected")

    def _derivative(self, expr: Derivative) -> Expr:
        inner, first = expr.expr, expr.variables[0] == self.time
        variable, other = (self.variable, self.second) if first else (self.second, self.variable)
        edge = Value(Transform(inner.head), S.Zero, other)  # the transform of C(0, t') in its only time
        return variable * self(inner) - edge

    def _integral(self, node: Int) -> Expr:
        later = node.high == self.then
        if node.low != self.start or node.high not in (self.time, self.then):
            raise self.refuse(node, f"an integral from {self.start} to {self.time} or {self.then} is expected")
        single, variable = self._single(later), (self.second if later else self.variable)
        total = S.Zero
        for term in _terms(expand(node.integrand)):
            kernel, rest = S.One, S.One
            for factor in term.as_ordered_factors():
                if node.high in factor.free_symbols and node.variable in factor.free_symbols:
                    kernel = kernel * factor
                else:
                    rest = rest * factor
            inner = self(rest.xreplace({node.variable: node.high}))
            total += (S.One / variable if kernel == 1 else single._kernel(kernel, node.variable)) * inner
        return total
