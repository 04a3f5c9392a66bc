"""Symbolic Laplace transforms of the language's equations, one time after the other.

With f̄(p) = ∫_0^∞ f(t) e^{−pt} dt and stationary (time-translation-invariant) responses R(t, t') = R(t − t'):

    L[a f + b g] = a f̄ + b ḡ          L[f'] = p f̄ − f(0)             L[∫_0^t f ds] = f̄/p
    L[∫_0^t R(t, s) f(s) ds] = R̄ f̄    L[e^{−at} f] = f̄(p + a)        L[f(t − a)] = e^{−pa} f̄, f = 0 before the start

In the double transform C̄(p, q) = ∫∫ C(t, t') e^{−pt − qt'} dt dt' the first time is transformed and then the second. So a
response gives e^{−pt'} R̄(p) first, and R̄(p)/(p + q) in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sympy import Add, Basic, Dummy, Expr, Function, S, Symbol, expand, laplace_transform
from sympy import exp as sym_exp
from sympy.core.function import Derivative
from sympy.integrals.laplace import LaplaceTransform

from eqsolve.errors import ModelError
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Head, Response, Time, Value
from eqsolve.passes.forms.expressions import free_times
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
class Rules:
    """The transform of what is linear in the unknown functions, in one time t ≥ start; other times are constants.

    Where the start is itself a time t', everything is a stationary function of (t, t'), and transformed in t − t'.
    """

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
        free, bound = term.as_independent(self.time, as_Add=False)
        return free * (1 / self.variable if bound == 1 else self._bound(bound))

    def _bound(self, expr: Expr) -> Expr:
        """Return the transform of what depends on the running time."""
        if isinstance(expr, E):
            return E(self(expr.argument))
        if isinstance(expr, Resp):
            return self(self._response(expr))
        if isinstance(expr, Value):
            return self._value(expr)
        if isinstance(expr, Derivative):
            inner = expr.expr
            if expr.variables != (self.time,):  # along another time, which is transformed later
                return Derivative(self._value(inner), *expr.variables)
            known = self.initial if self._is_stationary or len(inner.moments) == 1 else {}
            start = known.get(inner.head, inner.xreplace({self.time: self.start}))
            return self.variable * self._value(inner) - start
        if isinstance(expr, Int):
            return self._integral(expr)
        if expr.is_Mul:
            return self._product(expr)
        if expr.is_Add or (expr.is_Pow and expand(expr) != expr):
            return self(expand(expr))
        return self._explicit(expr, self.time)

    @property
    def _is_stationary(self) -> bool:
        return isinstance(self.start, Time)

    def refuse(self, term: Expr, why: str) -> ModelError:
        return ModelError(f"{self.label}: the Laplace transform of `{term}` is not known: {why}")

    def _value(self, value: Value) -> Expr:
        head, moments = value.head, value.moments
        if self._is_stationary:
            if moments == (self.time, self.start):
                return Transform(head)(self.variable)
            raise self.refuse(value, f"a stationary function of ({self.time}, {self.start}) is expected")
        running = [moment for moment in moments if self.time in moment.free_symbols]
        delay = self.time - running[0]
        if len(running) > 1 or free_times(delay) or not delay.is_nonnegative:
            raise self.refuse(value, "a function of the running time, or of it minus a positive delay, is expected")
        if isinstance(head, Response | Tangent):
            first, second = moments
            if running == [first]:
                return sym_exp(-self.variable * (second + delay)) * Transform(head)(self.variable)
            past = Time("s")  # of R(t', t), t < t', a convolution with e^{−pt} is left
            return Int(head(first, past + delay) * sym_exp(-self.variable * past), (past, self.start, first))
        made = [self.variable if moment in running else moment for moment in moments]
        if isinstance(head, Correlation):  # it is symmetric: what is still a time goes last
            made.sort(key=lambda moment: isinstance(moment, Time))
        bar = head if isinstance(head, Transform) else Transform(head)
        return sym_exp(-self.variable * delay) * bar(*made)

    def _response(self, node: Resp) -> Expr:
        """Return ∂x(t)/∂z(t') of an expression linear in processes, in terms of tangent processes."""
        noise = node.noise
        total = S.Zero
        for value in node.output.atoms(Value):
            weight = node.output.diff(value)
            if weight.has(Value):
                raise self.refuse(node, "its output is not linear in the processes")
            total += weight * Tangent(value.head, noise.head)(*value.moments, *noise.moments)
        return total

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
        if self.time not in node.high.free_symbols | node.low.free_symbols:  # over another time
            return Int(self(expand(node.integrand)), (node.variable, node.low, node.high))
        if node.low != self.start or node.high != self.time:
            of = " of a stationary function" if self._is_stationary else ""
            raise self.refuse(node, f"an integral from {self.start} to {self.time} is expected{of}")
        return Add(*(self._convolution(term, node.variable) for term in _terms(node.integrand)))

    def _convolution(self, term: Expr, variable: Time) -> Expr:
        """Return the transform of ∫ term ds, where term is a kernel of (t, s) times a function of s."""
        rest, kernel = term.as_independent(self.time, as_Add=False)
        inner = self(rest.xreplace({variable: self.time}))
        return inner / self.variable if kernel == 1 else self._kernel(kernel, variable) * inner

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
