"""A singularity compiled: its transform, its observables with their slopes, and how they move with parameters and laws."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
from sympy import Basic, Dummy, Expr, Float, Mul, Poly, PolynomialError, Pow, Rational, fraction, log, together
from sympy import exp as sym_exp

from eqsolve.compile.bundles import Bundle
from eqsolve.compile.lowering import Lowered, as_function
from eqsolve.compile.plan import Values
from eqsolve.errors import UsageError
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Random
from eqsolve.language.system import Singularity
from eqsolve.numerics.laws import NumericLaw


# --- An implicit transform h(R, p) = 0: h and its derivatives, random denominators, h solved for R.
@dataclass(frozen=True)
class Denominator:
    """What must not vanish under an expectation."""

    text: str
    randoms: tuple[str, ...]  # its random variables
    # in powers of p, highest first, of (R, parameters, static random parts); None of no polynomial
    coefficients: Lowered | None


@dataclass(frozen=True)
class ExplicitForm:
    """R(p) = −b(p)/a(p) of an equation that is linear in R, its logarithms and roots by their arguments."""

    means: Bundle | None
    inner: tuple[Lowered, ...]  # arguments of logarithms, of (p, parameters, means, those before)
    outer: Lowered  # (a, b), a function of all of them


@dataclass(frozen=True)
class PolynomialForm:
    """P(p, R) = Σ c R^i p^j with the same solutions R(p) as h."""

    powers: tuple[tuple[int, int], ...]  # (i, j)
    coefficients: Lowered  # c, a function of the parameters
    exact: tuple[Fraction, ...] | None  # the same where they are rational numbers

    def rows(self, parameters: Sequence[float]) -> list[list[Fraction]] | None:
        """Return the coefficients in powers of p of each power of R; None where one of them is not finite."""
        values = self.exact if self.exact is not None else self.coefficients(*parameters)
        if not all(math.isfinite(value) for value in values):
            return None
        high, wide = (max(power[k] for power in self.powers) for k in (0, 1))
        rows = [[Fraction(0)] * (wide + 1) for _ in range(high + 1)]
        for (i, j), value in zip(self.powers, values, strict=True):
            rows[i][j] = Fraction(value)
        return rows


class ImplicitTransform:
    """h(R, p), whose zero defines the transform R of ``unknown`` in ``variable``, compiled once.

    Expectations are written with ``E``; a law, and numbers of the ``parameters``, are put in later.
    """

    def __init__(self, expression: Expr, unknown: Basic, variable: Basic, parameters: Sequence[Basic] = ()) -> None:
        self.expression, self.symbols = expression, (unknown, variable)
        self._parameters = tuple(parameters)
        R, p = unknown, variable
        first = [expression.diff(R), expression.diff(p)]
        second = [first[0].diff(R), first[0].diff(p), first[1].diff(p)]
        self.is_linear = bool(second[0] == 0)
        allowed = {R, p, *self._parameters}
        odd = sorted(
            (item for item in expression.free_symbols if item not in allowed and not isinstance(item, Random)), key=str
        )
        if odd:
            raise UsageError(f"the transform contains `{odd[0]}`, which has no value; substitute a number for it")
        self.unknown, self.variable = str(R), str(p)
        self.parameters = tuple(item.name for item in self._parameters)
        randoms = sorted((item for item in expression.free_symbols if isinstance(item, Random)), key=str)
        self.randoms = tuple(item.name for item in randoms)
        self.bundle = Bundle([expression, *first, *second], (R, p), self._parameters)
        denominators = _denominators(expression, {R, p})
        self.distances = Bundle([E(d) for d in denominators], (R, p), self._parameters) if denominators else None
        self._bottoms = [(str(d), tuple(item.name for item in randoms if item in d.free_symbols)) for d in denominators]

    @functools.cached_property
    def denominators(self) -> tuple[Denominator, ...]:
        """The random denominators."""
        if self.distances is None:
            return ()
        arguments, bodies = self.distances.inner
        p = self.symbols[1]
        rest = [item for item in arguments if item != p]
        return tuple(
            Denominator(text, names, as_function(rest, Poly(b, p).all_coeffs(), real=False) if b.is_polynomial(p) else None)
            for (text, names), b in zip(self._bottoms, bodies, strict=True)
        )

    @functools.cached_property
    def polynomial(self) -> PolynomialForm | None:
        """The transform as a polynomial equation, where it is one: without expectations, roots, exponentials of R or p."""
        R, p = self.symbols
        exact = self.expression.xreplace({item: Rational(float(item)) for item in self.expression.atoms(Float)})
        if exact.has(E):
            return None
        top, bottom = fraction(together(exact))
        try:  # factors without R do not decide what it is
            above, below = (
                Poly(Mul(*(item for item in Mul.make_args(part) if R in item.free_symbols)), R, p) for part in (top, bottom)
            )
            whole = above.quo(above.gcd(below)).sqf_part()
        except PolynomialError:
            return None
        if whole.free_symbols_in_domain - set(self._parameters):
            return None
        powers, coefficients = zip(*whole.terms(), strict=True)
        known = tuple(Fraction(int(c.p), int(c.q)) for c in coefficients if c.is_Rational)
        function = as_function(list(self._parameters), list(coefficients), real=False)
        return PolynomialForm(powers, function, known if len(known) == len(coefficients) else None)

    @functools.cached_property
    def explicit(self) -> ExplicitForm:
        """The transform solved for R, where h is linear in it."""
        R, p = self.symbols
        first, rest = self.expression.diff(R), self.expression.subs(R, 0)
        nodes = sorted(first.atoms(E) | rest.atoms(E), key=str)
        means = Bundle(nodes, (R, p), self._parameters) if nodes else None
        names = [Dummy(f"m{index}") for index in range(len(nodes))]
        logs: dict[Expr, Dummy] = {}
        swaps: dict[Basic, Basic] = dict(zip(nodes, names, strict=True))
        bodies = [_continuous(part.xreplace(swaps), p, logs) for part in (first, rest)]
        arguments, given = [p, *self._parameters, *names], list(logs.values())
        inner = tuple(as_function([*arguments, *given[:place]], [inside], real=False) for place, inside in enumerate(logs))
        return ExplicitForm(means, inner, as_function([*arguments, *given], bodies, real=False))


def _continuous(expr: Expr, p: Basic, logs: dict[Expr, Dummy]) -> Expr:
    """Give the logarithm of everything under a root or a logarithm a name, the innermost first."""
    if not expr.args or p not in expr.free_symbols:
        return expr
    args = [_continuous(arg, p, logs) for arg in expr.args]
    if isinstance(expr, Pow) and not expr.exp.is_Integer and p in expr.base.free_symbols:
        return sym_exp(args[1] * _log(args[0], logs))
    return _log(args[0], logs) if isinstance(expr, log) else expr.func(*args)


def _log(inside: Expr, logs: dict[Expr, Dummy]) -> Dummy:
    return logs.setdefault(inside, Dummy(f"l{len(logs)}"))


def _denominators(expression: Expr, points: set[Basic]) -> tuple[Expr, ...]:
    """Return what must not vanish under an expectation: random denominators that depend on R or p."""
    denominators: dict[Expr, None] = {}
    for node in expression.atoms(E):
        for power in node.argument.atoms(Pow):
            base = power.base
            negative = power.exp.is_number and (power.exp < 0 or not power.exp.is_integer)
            random = any(isinstance(item, Random) for item in base.free_symbols)
            if negative and random and base.free_symbols & points:
                fixed, moving = base.as_independent(*points, as_Add=True)
                whole = Dummy("x", real=True)  # what does not depend on R and p stays as it is
                denominators[fraction(together(whole + moving))[0].xreplace({whole: fixed})] = None
    return tuple(denominators)


@dataclass(frozen=True)
class StatedLaw:
    """The law of a random variable in floats, as it is written, and in many digits where asked for."""

    name: str
    law: NumericLaw
    text: str
    values: Values

    def numeric(self, digits: int | None = None) -> NumericLaw:
        return self.law if digits is None else self.values.precise_law(self.name, digits)

    def __str__(self) -> str:
        return self.text


class RatePlan:
    """A transform and its observables, compiled once for all values of the parameters that are not whole numbers.

    ``observables`` gives their values, then their slopes along (R, p), one after the other.
    """

    def __init__(self, model: Singularity, whole: Mapping[Parameter, Any]) -> None:
        (equation,) = model.equations
        self.names = tuple(model.observables)
        parameters = tuple(item for item in model.parameters if item not in whole)
        self._parameters = parameters
        self.transform = ImplicitTransform(
            (equation.lhs - equation.rhs).subs(whole), model.unknown, model.variable, parameters
        )
        bodies = tuple(value.subs(whole) for value in model.observables.values())
        points = self.transform.symbols
        self.observables = Bundle([*bodies, *(value.diff(item) for value in bodies for item in points)], points, parameters)
        h = self.transform.expression
        named = {f"observable {name}": value for name, value in zip(self.names, bodies, strict=True)}
        self._pieces = {"h": h, "h_R": h.diff(points[0]), **named}
        self._variables = {name: value.subs(whole) for name, value in model.variables.items()}

    @functools.lru_cache(maxsize=64)  # noqa: B019  (plans are kept with their models)
    def partial(self, piece: str, parameter: str) -> Bundle:
        """Return the derivative of h, of h_R or of "observable NAME" along a parameter, R, p and the law held."""
        return Bundle([self._pieces[piece].diff(self._symbol(parameter))], self.transform.symbols, self._parameters)

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def through(self, piece: str, parameter: str) -> tuple[Bundle, tuple[Any, ...]]:
        """Return the derivatives along a parameter outside expectations, then along each expectation; and these."""
        expr = self._pieces[piece]
        means = sorted(expr.atoms(E), key=str)
        placeholders = [Dummy(f"m{index}") for index in range(len(means))]
        outer = expr.xreplace(dict(zip(means, placeholders, strict=True)))
        back: dict[Basic, Basic] = dict(zip(placeholders, means, strict=True))
        changes = [outer.diff(item).xreplace(back) for item in (self._symbol(parameter), *placeholders)]
        return Bundle(changes, self.transform.symbols, self._parameters), tuple(means)

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def pole(self, name: str, random: str) -> Bundle:
        """Return a variable and its slopes along (R, p), with the random variable in it as the last parameter."""
        size = Dummy("size", positive=True)  # positive, so that |size| continues to complex sizes
        symbols = {item.name: item for item in self._variables[name].free_symbols}
        expr = self._variables[name].subs(symbols[random], size)
        points = self.transform.symbols
        return Bundle([expr, *(expr.diff(item) for item in points)], points, (*self._parameters, size))

    def _symbol(self, name: str) -> Parameter:
        return next((item for item in self._parameters if item.name == name), Parameter(name))


class SingularityProgram:
    """The plans of a singularity, one for each choice of its whole numbers."""

    def __init__(self, model: Singularity) -> None:
        self.name, self.label = model.name, model.equations[0].label
        self.model = model
        self.unknown, self.variable = model.unknown.name, model.variable.name
        laws = [item.law for item in model.randoms if item.law is not None]
        self.in_laws = frozenset(item.name for law in laws for item in law.free_symbols)
        self._whole = tuple(item.name for item in model.parameters if item.is_integer)
        self._plans: dict[Any, RatePlan] = {}

    def plan(self, values: Values) -> RatePlan:
        """Return the plan for the whole numbers among the values."""
        key = tuple(values.numbers[name] for name in self._whole)
        if key not in self._plans:
            exact = values.exact().values
            self._plans[key] = RatePlan(self.model, {item: value for item, value in exact.items() if item.is_integer})
        return self._plans[key]

    def laws(self, values: Values, names: Sequence[str]) -> dict[str, StatedLaw]:
        """Return those of the laws that are the model's own."""
        own = ((name, law) for name, law in values.laws.items() if name in names)
        return {name: StatedLaw(name, law, str(values.settings[name]), values) for name, law in own}

    def precise(self, plan: RatePlan, values: Values) -> list[Any]:
        """Return the parameters of a plan in mpmath's working precision."""
        exact = {item.name: value for item, value in values.exact().values.items()}
        return [mpmath.mpf(str(exact[name].evalf(mpmath.mp.dps + 5))) for name in plan.transform.parameters]
