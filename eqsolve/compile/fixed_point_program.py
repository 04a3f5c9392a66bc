"""All plans of one fixed point: one per set of branches its numbers select, unknowns held, and expressions asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sympy import Basic, Expr, sympify

from eqsolve.compile.branches import Branches
from eqsolve.compile.fixed_point import FixedPointPlan
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.laws import Normal
from eqsolve.language.nodes import E, InverseValue
from eqsolve.language.symbols import Parameter
from eqsolve.numerics.laws import Law
from eqsolve.passes.forms.reduction import conditions_of, hold, reduce_fixed_point

if TYPE_CHECKING:
    from eqsolve.compile.values import Values

__all__ = ["FixedPointProgram"]

_KEPT = 64


class FixedPointProgram:
    """The plans of a model, each made when its branches are first met; the last ones are kept."""

    def __init__(self, model: FixedPoint) -> None:
        self.model = model
        self._branches = Branches(model, conditions_of(model))
        self._gaussian = tuple(item.name for item in model.randoms if isinstance(item.law, Normal))
        self._plans: dict[Any, FixedPointPlan] = {}

    def plan(
        self, values: Values, *, eliminate: bool = True, held: tuple[str, ...] = (), dropped: tuple[int, ...] = ()
    ) -> FixedPointPlan:
        """Return the plan for the branches that values select.

        Without ``eliminate`` every unknown stays one. Unknowns that are ``held`` are parameters, given last, and as many of
        the reduced equations are ``dropped``.
        """
        return self._made(values, (), (), eliminate, held, dropped)

    def _made(
        self,
        values: Values,
        extra: tuple[Expr, ...],
        symbols: tuple[Parameter, ...],
        eliminate: bool,
        held: tuple[str, ...],
        dropped: tuple[int, ...],
    ) -> FixedPointPlan:
        declared = frozenset(name for name in self._gaussian if name not in values.given)
        taken = self._branches.key(values.numbers, lambda: values.exact().values)
        key = (taken, declared, extra, symbols, eliminate, held, dropped)
        if key not in self._plans:
            while len(self._plans) >= _KEPT:
                self._plans.pop(next(iter(self._plans)))
            reduced = reduce_fixed_point(self.model, values.exact().values, declared, eliminate=eliminate)
            kept = tuple(next(item for item in reduced.unknowns if item.name == name) for name in held)
            self._plans[key] = FixedPointPlan(self.model, hold(reduced, kept, dropped), extra, (*symbols, *kept))
        return self._plans[key]

    def with_mean(
        self,
        plan: FixedPointPlan,
        values: Values,
        what: Any,
        given: tuple[str, ...],
        held: tuple[str, ...],
        dropped: tuple[int, ...],
    ) -> FixedPointPlan:
        """Return a plan with one more expectation, of an expression in the model's symbols and variables.

        Further names that stand in it are ``given``: they come between the parameters and the unknowns held.
        """
        expr = sympify(what, strict=True)
        if isinstance(expr, E):
            expr = expr.argument
        reduced = plan.reduced
        extra: dict[str, Parameter] = {}
        mapping: dict[Basic, Basic] = {}
        bound = {node.variable for node in expr.atoms(InverseValue)}
        for item in expr.free_symbols - bound:
            name = item.name
            if name in given:
                mapping[item] = extra.setdefault(name, Parameter(f"{name}_given"))
            elif name in reduced.variables:
                mapping[item] = reduced.variables[name]
            elif name in self.model.names:
                mapping[item] = reduced.mapping.get(self.model.names[name], self.model.names[name])
            else:
                names = [*reduced.variables, *self.model.names]
                raise UsageError(f"`{expr}` uses `{name}`, which the model does not define{did_you_mean(name, names)}")
        whole = {item: value for item, value in values.exact().values.items() if item.is_integer}
        made = expr.subs(mapping, simultaneous=True).subs(dict(reduced.eliminated)).subs(whole)
        symbols = tuple(extra[name] if name in extra else Parameter(f"{name}_given") for name in given)
        return self._made(values, (made,), symbols, True, held, dropped)

    def precise(self, values: Values, held: Sequence[tuple[str, float]], digits: int) -> tuple[list[Any], list[Any]]:
        """Return the parameters, and the unknowns held at ends of their domains, as numbers of mpmath."""
        from mpmath import mpf

        exact = values.exact().values
        ends = {(item.name, float(end)): end for item in self.model.unknowns for end in item.bounds if end is not None}
        numbers = [mpf(str(exact[item].evalf(digits))) for item in self.model.parameters]
        return numbers, [mpf(str(ends[pair].evalf(digits))) if pair in ends else mpf(pair[1]) for pair in held]

    def precise_laws(self, values: Values, names: Sequence[str], digits: int) -> Mapping[str, Law]:
        """Return the laws of random constants in numbers of mpmath."""
        laws = {item.name: law for item, law in values.exact().laws.items()}
        return {name: laws[name].numeric(digits) for name in names}
