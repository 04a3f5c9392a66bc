"""Numbers for a plan: what the user sets, read without symbols where numbers are given, and the plan they belong to.

``Binder`` knows once and for all what a model's parameters may be. Plain numbers go through it as they are; text, laws and
whatever is wrong go through ``eqsolve.language.binding``, which reads exactly and words the errors.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Basic, Expr
from sympy.core.relational import Relational

from eqsolve.compile.laws import compile_law
from eqsolve.compile.lowering import lower
from eqsolve.compile.plan import Plan, make_plan
from eqsolve.errors import EqsolveError
from eqsolve.language.binding import Binding, ParameterDomain, bind, read_value
from eqsolve.language.fixed_point import Cases, Singularity
from eqsolve.language.loading import load
from eqsolve.language.model import Model
from eqsolve.language.nodes import E
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Parameter
from eqsolve.language.system import System
from eqsolve.numerics.laws import NumericLaw
from eqsolve.passes.forms.structure import Chosen, choosing_parameters, select_case
from eqsolve.passes.routing import SingularityBinding, bind_routed, is_found

# --- Which branches numbers of the parameters select: compared as floats, and exactly where these
# are too close to tell.


def is_plain(value: Any) -> bool:
    """Whether a value is a finite number as it is; numpy's floats are."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Branches:
    """On which side of every condition on parameters some numbers lie, and the whole numbers among them."""

    def __init__(self, model: Model, conditions: Sequence[Basic]) -> None:
        relations = sorted({item for condition in conditions for item in condition.atoms(Relational)}, key=str)
        self._whole = tuple(item.name for item in model.parameters if item.is_integer)
        self._relations = relations
        self._sides = lower([side for item in relations for side in (item.lhs, item.rhs)], [], model.parameters)

    def key(self, numbers: Mapping[str, float], exact: Callable[[], Mapping[Parameter, Expr]]) -> tuple[Any, ...]:
        """Return what selects a plan; the numbers are asked for exactly where two sides are close."""
        found = self._sides.at(numbers)() if self._relations else []
        signs = []
        for place, (left, right) in enumerate(zip(found[::2], found[1::2], strict=True)):
            sign = (left > right) - (left < right)
            # sides of a condition that are nearer than this are compared exactly
            if sign and abs(left - right) <= 1e-12 * (abs(left) + abs(right)) and not math.isinf(left):
                relation = self._relations[place]
                gap = (relation.lhs - relation.rhs).subs(exact())
                sign = int(gap > 0) - int(gap < 0)
            signs.append(int(sign))
        return (tuple(numbers[name] for name in self._whole), tuple(signs))


@dataclass(frozen=True, eq=False)
class Values:
    """Numbers of the parameters and laws of the random constants, by name.

    ``settings`` is what results record; ``exact`` gives the same as exact numbers, for more digits than floats have.
    ``given`` names the constants whose declared law was replaced, ``behind`` is the fixed point that gives a singularity its
    laws.
    """

    numbers: Mapping[str, float]
    laws: Mapping[str, NumericLaw]
    settings: Mapping[str, float | str]
    exact: Callable[[], Binding]
    given: frozenset[str] = frozenset()
    behind: tuple[Plan, Values] | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)


class Binder:
    """Reads settings of one model and finds the plan for them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.choosing = choosing_parameters(model) if isinstance(model, System) else frozenset()
        self._names = {item.name: item for item in model.parameters}
        self._domains = {item.name: ParameterDomain.of(item) for item in model.parameters}
        self._free = frozenset(item.name for item in model.parameters if item not in self.choosing)
        self._conditions = [(item.rel_op, lower([item.lhs, item.rhs], [], model.parameters)) for item in model.conditions]
        self._base: Values | None = None
        self._plans: dict[Any, Plan] = {}
        known = {item.name: model.given(item) for item in model.parameters}
        self._needed = frozenset(name for name, value in known.items() if value is None)
        self._defaults = {name: float(read_value(value)) for name, value in known.items() if value is not None}
        choices = model.law_of if isinstance(model, Singularity) else model.cases if isinstance(model, Cases) else ()
        self._choices = Branches(model, [condition for condition, _ in choices if isinstance(condition, Basic)])
        self._chosen: dict[Any, Chosen] = {}

    # --- reading
    def read(self, settings: Mapping[str, Any]) -> Values:
        """Return the numbers for given settings; errors name the parameter, its domain and the nearest name."""
        quickly = self._quickly_routed if getattr(self.model, "law_of", ()) else self._quickly
        return quickly(settings) or self.take(bind_routed(self.model, settings))

    def take(self, binding: Binding) -> Values:
        """Return the numbers of a binding."""
        numbers = {item.name: float(value) for item, value in binding.values.items()}
        laws = {item.name: law.numeric() for item, law in binding.laws.items() if not law.free_symbols}
        known = {item: item.law and item.law.xreplace(dict(binding.values)) for item in binding.laws}
        given = frozenset(item.name for item, law in binding.laws.items() if law not in (item.law, known[item]))
        behind = None
        if isinstance(binding, SingularityBinding) and binding.law is not None:
            binder = binder_of(binding.law.model)
            there = binder.take(binding.law)
            behind = (binder.plan(there), there)
        return Values(numbers, laws, binding.settings(), functools.partial(_itself, binding), given, behind)

    def _quickly(self, settings: Mapping[str, Any]) -> Values | None:
        """Return the numbers where all settings are plain ones inside their domains, and laws depend on them plainly."""
        if any(name not in self._free or not is_plain(value) for name, value in settings.items()):
            return None
        if self._base is None:
            self._prepare(settings)
        if self._base is None or not self._fixed or not self._needed <= settings.keys():
            return None
        given = {name: float(value) for name, value in settings.items()}
        if any(self._domains[name].problem(value) for name, value in given.items()):
            return None
        numbers = {name: given.get(name, self._defaults.get(name, math.nan)) for name in self._names}
        if any(not _HOLDS[kind](*sides.at(numbers)()) for kind, sides in self._conditions):
            return None
        chosen = dict(settings)
        laws, shown = dict(self._base.laws), {**numbers, **self._texts}
        for name, (kind, law) in self._moving.items():
            laws[name] = law.at(numbers)
            shown[name] = f"{kind}({', '.join(f'{float(item):.15g}' for item in law.numbers.at(numbers)())})"
        return Values(numbers, laws, shown, functools.partial(bind, self.model, chosen), self._base.given)

    def _quickly_routed(self, settings: Mapping[str, Any]) -> Values | None:
        """Return the numbers of a singularity and of the fixed point behind it, where those of both are plain."""
        own = self._quickly({name: value for name, value in settings.items() if name in self._names})
        if own is None:
            return None
        key = self._choices.key(own.numbers, lambda: own.exact().values)
        if key not in self._chosen:
            behind = bind_routed(self.model, settings).law  # type: ignore[attr-defined]
            self._chosen[key] = Chosen(behind.model, {}, "")
        binder = binder_of(self._chosen[key].model)
        routed = {name: value for name, value in {**own.numbers, **settings}.items() if name in binder._names}
        if not settings.keys() <= self._names.keys() | routed.keys():
            return None
        there = binder._quickly(routed)
        if there is None:
            return None
        chosen = dict(settings)
        return replace(
            own,
            settings={**there.settings, **own.settings},
            exact=functools.partial(bind_routed, self.model, chosen),
            behind=(binder.plan(there), there),
        )

    def _prepare(self, settings: Mapping[str, Any]) -> None:
        """Keep what does not change with plain numbers: the laws."""
        try:
            self._base = self.take(bind(self.model, settings))
        except EqsolveError:  # whoever reads exactly says why
            return
        laws = [(item, law) for item in self.model.randoms if (law := self.model.given(item)) is not None]
        found = {item.name for item, _ in laws if is_found(self.model, item)}
        moving = {item.name: law for item, law in laws if item.name not in found and law.free_symbols}
        self._fixed = not any(law.parts or law.has(E) for law in moving.values())
        known = self.model.parameters
        plain = moving if self._fixed else {}
        self._moving = {name: (type(law).__name__, compile_law(law, known)) for name, law in plain.items()}
        self._texts = {item.name: self._base.settings[item.name] for item, _ in laws if item.name not in found}

    def choose(self, settings: Mapping[str, Any]) -> Chosen:
        """Return which of several cases settings choose; told from plain numbers without symbols."""
        assert isinstance(self.model, Cases)
        plain = {name: float(value) for name, value in settings.items() if is_plain(value)}
        numbers = {**self._defaults, **{name: value for name, value in plain.items() if name in self._names}}
        if len(plain) == len(settings) and numbers.keys() == self._names.keys():
            exact = lambda: {self._names[name]: read_value(value) for name, value in numbers.items()}  # noqa: E731
            key = self._choices.key(numbers, exact)
            if key not in self._chosen:
                self._chosen[key] = select_case(self.model, settings)
            chosen = self._chosen[key]
            own = binder_of(chosen.model)._names
            if load(chosen.model.name) is chosen.model and plain.keys() <= own.keys() | self._names.keys():
                kept = {name: value for name, value in {**numbers, **plain}.items() if name in own}
                return Chosen(chosen.model, kept, chosen.reason)
        return select_case(self.model, settings)

    # --- plans
    def plan(self, values: Values) -> Plan:
        """Return the plan for the structure that these values select; models without time choose in their programs."""
        put: dict[str, float] = {}
        kinds: tuple[tuple[str, str], ...] = ()
        if isinstance(self.model, System):
            put = {
                name: value
                for name, value in values.numbers.items()
                if name not in self._free or value == 0 or math.isinf(value)
            }
            kinds = tuple((name, type(law).__name__) for name, law in values.laws.items())
        key = (tuple(put.items()), kinds)
        if key not in self._plans:
            exact: Mapping[Parameter, Expr] = values.exact().values
            self._plans[key] = make_plan(self.model, {self._names[name]: exact[self._names[name]] for name in put})
        return self._plans[key]


_HOLDS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}


def _itself(binding: Binding) -> Binding:
    return binding


binder_of = kept_by_model(Binder)
"""Return the binder of a model, kept."""


def case_of(model: Model, settings: Mapping[str, Any]) -> tuple[Model, Mapping[str, Any]]:
    """Return the model that is solved, chosen where there are cases, and those of the settings that concern it."""
    while isinstance(model, Cases):
        chosen = binder_of(model).choose(settings)
        model, settings = chosen.model, chosen.settings
    return model, settings
