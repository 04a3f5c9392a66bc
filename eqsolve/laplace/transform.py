"""Symbolic Laplace transforms of the language's equations, one time after the other.

With f̄(p) = ∫_0^∞ f(t) e^{−pt} dt and stationary (time-translation-invariant) responses R(t, t') = R(t − t'):

    L[a f + b g] = a f̄ + b ḡ          L[f'] = p f̄ − f(0)             L[∫_0^t f ds] = f̄/p
    L[∫_0^t R(t, s) f(s) ds] = R̄ f̄    L[e^{−at} f] = f̄(p + a)        L[f(t − a)] = e^{−pa} f̄, f = 0 before the start

In the double transform C̄(p, q) = ∫∫ C(t, t') e^{−pt − qt'} dt dt' the first time is transformed
and then the second. So a response gives e^{−pt'} R̄(p) first, and R̄(p)/(p + q) in the end.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy as sp
from sympy import Add, Basic, Dummy, Expr, Function, S, Symbol, expand, laplace_transform
from sympy import exp as sym_exp
from sympy.core.function import Derivative
from sympy.integrals.laplace import LaplaceTransform

from eqsolve.errors import ModelError, did_you_mean
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Head, Random, Response, Time, Unknown, Value
from eqsolve.language.system import Singularity, System
from eqsolve.passes.forms.expressions import free_times, shielded
from eqsolve.passes.forms.tangents import Tangent, derive_tangents


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

    _hashable_content = __getnewargs__

    def __call__(self, *variables: Any) -> Value:
        return Value(self, *variables)


def _terms(expr: Expr) -> list[Expr]:
    return list(Add.make_args(expand(expr, deep=False) if expr.is_Mul or expr.is_Pow or expr.is_Add else expr))


@dataclass(frozen=True)
class Rules:
    """The transform of what is linear in the unknown functions, in one time t ≥ start; other times are constants.

    Where the start is itself a time t', everything is a stationary function of (t, t'), and transformed in t − t'.
    """

    time: Time  # that runs
    variable: Symbol  # p
    initial: dict[Head, Expr] = field(default_factory=dict)  # f(0) by function, as far as given
    label: str = "the expression"  # what is being transformed, for error messages
    start: Expr = S.Zero

    def __call__(self, expr: Expr) -> Expr:
        """Return the transform of an expression that is linear in the unknown functions."""
        parts = (term.as_independent(self.time, as_Add=False) for term in _terms(expr))
        return Add(*(free * (1 / self.variable if bound == 1 else self._bound(bound)) for free, bound in parts))

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
            if self.time not in expr.high.free_symbols | expr.low.free_symbols:  # over another time
                return Int(self(expand(expr.integrand)), (expr.variable, expr.low, expr.high))
            if expr.low != self.start or expr.high != self.time:
                of = " of a stationary function" if self._is_stationary else ""
                raise self.refuse(expr, f"an integral from {self.start} to {self.time} is expected{of}")
            return Add(*(self._convolution(term, expr.variable) for term in _terms(expr.integrand)))
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
        variables = [self.variable if moment in running else moment for moment in moments]
        if isinstance(head, Correlation) and isinstance(variables[0], Time):  # what is still a time goes last
            head, variables = head.turned, variables[::-1]
        bar = head if isinstance(head, Transform) else Transform(head)
        return sym_exp(-self.variable * delay) * bar(*variables)

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
        transform = laplace_transform(expr.xreplace({time: clock}), clock, self.variable, noconds=True)
        if transform.has(LaplaceTransform, Function("DiracDelta")) or clock in transform.free_symbols:
            raise self.refuse(expr, "sympy has no closed form of it")
        return transform


# --- A linearised stationary `System` turned into its transform equations, and those into one
# closed equation.
@dataclass(frozen=True)
class TransformedSystem:
    """The Laplace transforms of a system's equations."""

    system: System
    variable: Symbol
    second: Symbol
    responses: tuple[Equation, ...]  # one equation per response and per tangent process, in p
    functions: tuple[Equation, ...]  # one equation per process and per function of one time, in p
    correlations: tuple[Equation, ...]  # one equation per correlation, in p and q

    @property
    def equations(self) -> tuple[Equation, ...]:
        return (*self.responses, *self.functions, *self.correlations)

    def bar(self, name: str, *variables: Any) -> Value:
        """Return the transform of the function of that name, at p unless variables are given."""
        heads = {equation.head.of.name: equation.head for equation in self.equations if equation.head is not None}
        if name not in heads:
            raise ModelError(f"model `{self.system.name}` has no transform of `{name}`{did_you_mean(name, heads)}")
        return heads[name](*(variables or (self.variable,)))

    def closed(self, name: str) -> Equation:
        """Return the equation of one response after everything else that is linear has been eliminated."""
        target = self.bar(name)
        known = self._eliminated(target)
        equation = next(response for response in self.responses if response.lhs == target)
        return Equation(target, _tidy(equation.rhs.xreplace(known), self.variable), equation.location)

    def solved(self, name: str, given: str | None = None) -> Expr:
        """Return the transform of ``name`` (a response, or a correlation in p and q) in terms of that of ``given``."""
        keep = self.bar(given) if given else None
        if any(item.head is not None and item.head.of.name == name for item in self.correlations):
            return self._correlation(name, keep)
        return _factored(self._eliminated(keep)[self.bar(name)])

    def _correlation(self, name: str, keep: Value | None) -> Expr:
        target = self.bar(name, self.variable, self.second)
        known: dict[Basic, Basic] = {}
        for variable in (self.variable, self.second):
            known |= {
                key.xreplace({self.variable: variable}): value.xreplace({self.variable: variable})
                for key, value in self._eliminated(keep).items()
            }
        equation = next(correlation for correlation in self.correlations if correlation.lhs == target)
        return _factored(_solve_linear({target: equation.rhs.xreplace(known)})[target])

    def rate_model(
        self, model_name: str, unknown: str, *, factor_out: bool = False, law_of: Any = (), **parts: Any
    ) -> Singularity:
        """Return the `Singularity` that gives the rate of a response.

        ``factor_out=True`` takes p times the transform as the unknown, which removes the pole of a
        response that does not decay to zero.
        """
        closed = self.closed(unknown)
        p, bar = Unknown("p"), Unknown(f"{unknown}_bar", closed.lhs.head.latex_name)
        inner = bar / p if factor_out else bar
        mapping = {closed.lhs: inner, self.variable: p}
        right = _tidy(closed.rhs.xreplace({closed.lhs: mapping[closed.lhs]}).xreplace({self.variable: p}), p)
        right = _tidy(p * right, p) if factor_out else right
        defaults = {**self.system.defaults, **parts.pop("defaults", {})}
        observables = {"gamma": -p, **parts.pop("observables", {})}
        return Singularity(
            model_name, transform=Equation(bar, right, closed.location), variable=p, unknown=bar, law_of=law_of,
            defaults=defaults, observables=observables, cite=self.system.cite, **parts,
        )  # fmt: skip

    def _eliminated(self, keep: Value | None) -> dict[Basic, Basic]:
        """Solve for the tangents path by path, then for the responses that enter linearly, all but ``keep``."""
        tangents = {item.lhs: item.rhs for item in self.responses if isinstance(item.lhs.head.of, Tangent)}
        rest = {
            item.lhs: item.rhs
            for item in self.responses
            if item.lhs not in tangents and item.lhs != keep and not item.rhs.has(E)
        }
        tangents_solved, rest_solved = _solve_linear(tangents), _solve_linear(rest)
        return {**{key: value.xreplace(rest_solved) for key, value in tangents_solved.items()}, **rest_solved}


def _solve_linear(equations: Mapping[Expr, Expr]) -> dict[Basic, Basic]:
    """Solve equations, the right side of each unknown, that are linear in the unknowns."""
    if not equations:
        return {}
    quantities = sorted({*equations}.union(*(right.atoms(Value, E) for right in equations.values())), key=str)
    dummies = {quantity: Dummy(f"f{index}") for index, quantity in enumerate(quantities)}
    residuals = [(left - right).xreplace(dummies) for left, right in equations.items()]
    solutions = sp.solve(residuals, [dummies[unknown] for unknown in equations], dict=True)
    if len(solutions) != 1 or len(solutions[0]) != len(equations):
        names = ", ".join(str(unknown) for unknown in equations)
        raise ModelError(f"the transform equations do not determine {names} linearly; is the system linearised?")
    names_back = {dummy: quantity for quantity, dummy in dummies.items()}
    return {unknown: solutions[0][dummies[unknown]].xreplace(names_back) for unknown in equations}


def _factored(expr: Expr) -> Expr:
    """Return an expression in transforms as one factored fraction."""
    bare, back = shielded(expr, Value, E)
    return sp.factor(bare).xreplace(back)


def _tidy(expr: Expr, variable: Symbol) -> Expr:
    """Bring each expectation to one fraction, with factors that are not random in front."""
    return _factored(expr.xreplace({node: _tidy_mean(node, variable) for node in expr.atoms(E)}))


def _tidy_mean(node: E, variable: Symbol) -> Expr:
    whole: dict[Basic, Basic] = {}
    plain: dict[Basic, Basic] = {}

    def shield(part: Expr) -> Expr:
        """Give the random quantities that do not depend on p a name, so that the algebra stays rational."""
        if part.has(Random) and not part.has(variable, Value) and not part.is_Mul and not part.is_Add:
            return whole.setdefault(part, Dummy(f"x{len(whole)}", positive=True))
        if isinstance(part, Value):
            return plain.setdefault(part, Dummy(f"f{len(plain)}"))
        return part.func(*(shield(arg) for arg in part.args)) if part.args else part

    hidden = shield(node.argument)
    top, bottom = (sp.factor(part) for part in sp.fraction(sp.cancel(sp.together(hidden))))
    outer, inner = (top / bottom).as_independent(*whole.values(), as_Add=False)
    back = {name: quantity for quantity, name in (*whole.items(), *plain.items())}
    return outer.xreplace(back) * E(inner.xreplace(back))


def transform_system(system: System, *, variable: Symbol | None = None, second: Symbol | None = None) -> TransformedSystem:
    """Return the Laplace transforms of a linearised system whose responses depend on time differences only.

    Parameters
    ----------
    system
        A system linear in its processes. Anything else is refused with the term and the line it stands in.
    variable, second
        The transform variables; p and q unless given.
    """
    p, q = variable or Symbol("p"), second or Symbol("q")
    initial = {key: value for key, value in system.init.items() if isinstance(key, Head)}
    diagonal = {
        key.head: value
        for key, value in system.init.items()
        if isinstance(key, Value) and len(set(key.moments)) == 1 and isinstance(key.moments[0], Time)
    }
    responses: list[Equation] = []
    functions: list[Equation] = []
    correlations: list[Equation] = []
    tangents = derive_tangents(system)
    starts: dict[Any, Expr] = {tangent.equation.head: tangent.initial for tangent in tangents if tangent.initial is not None}
    for equation in (*system.equations, *(tangent.equation for tangent in tangents)):
        head = equation.head
        assert head is not None
        assert equation.target is not None
        moments: Any = equation.target.moments
        if isinstance(head, Response | Tangent):
            stationary = Rules(moments[0], p, {**diagonal, **starts}, equation.label, moments[1])
            responses.append(_transformed(equation, (stationary,), Transform(head)(p)))
            continue
        pairs = list(zip(moments, (p, q), strict=False))
        rules = [Rules(time, name, initial, equation.label, system.start) for time, name in pairs]
        equations = correlations if isinstance(head, Correlation) else functions
        equations.append(_transformed(equation, rules, Transform(head)(*(name for _, name in pairs))))
    return TransformedSystem(system, p, q, tuple(responses), tuple(functions), tuple(correlations))


def _transformed(equation: Equation, rules: Sequence[Rules], bar: Value) -> Equation:
    left, right = (functools.reduce(lambda made, rule: rule(made), rules, side) for side in (equation.lhs, equation.rhs))
    if isinstance(equation.lhs, Derivative):  # p f̄ − f(0) = F̄, written as f̄ = (f(0) + F̄)/p
        right = (right - left.xreplace({bar: S.Zero})) / rules[0].variable
    return Equation(bar, right, equation.location)
