"""A singularity compiled: its transform, its observables with their slopes, and how they move with parameters and laws."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sympy import Basic, Dummy, Expr, sympify

from eqsolve.compile.bundles import Bundle
from eqsolve.compile.transforms import ImplicitTransform
from eqsolve.language.fixed_point import Singularity
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter
from eqsolve.numerics.laws import Law

if TYPE_CHECKING:
    from eqsolve.compile.values import Values


@dataclass(frozen=True)
class StatedLaw:
    """The law of a random variable in floats, as it is written, and in many digits where asked for."""

    name: str
    law: Law
    text: str
    values: Values

    def numeric(self, digits: int | None = None) -> Law:
        if digits is None:
            return self.law
        return next(law for item, law in self.values.exact().laws.items() if item.name == self.name).numeric(digits)

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
        made = tuple(value.subs(whole) for value in model.observables.values())
        points = self.transform.symbols
        self.observables = Bundle([*made, *(value.diff(item) for value in made for item in points)], points, parameters)
        h = self.transform.expression
        named = {f"observable {name}": value for name, value in zip(self.names, made, strict=True)}
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
        found = {item.name: item for item in self._variables[name].free_symbols}
        expr = self._variables[name].subs(found[random], size)
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
        return {
            name: StatedLaw(name, law, str(values.settings[name]), values)
            for name, law in values.laws.items()
            if name in names
        }

    def precise(self, plan: RatePlan, values: Values) -> list[Any]:
        """Return the parameters of a plan in mpmath's working precision."""
        exact = {item.name: value for item, value in values.exact().values.items()}
        return [_precise(exact[name]) for name in plan.transform.parameters]


def _precise(value: Any) -> Any:
    """Return a number in mpmath's precision: exact for rationals and integers."""
    import mpmath

    expr: Expr = sympify(value)
    if expr.is_Rational:
        return mpmath.mpf(int(expr.p)) / int(expr.q)
    return mpmath.mpf(str(expr.evalf(mpmath.mp.dps + 5)))
