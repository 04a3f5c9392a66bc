"""Numbers for a plan: what the user sets, read without symbols where numbers are given, and the plan they belong to.

``Binder`` knows once and for all what a model's parameters may be. Plain numbers go through it as they are; text, laws and
whatever is wrong go through ``eqsolve.language.binding``, which reads exactly and words the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.plan import Plan, make_plan
from eqsolve.language.binding import Binding, bind
from eqsolve.language.model import Model
from eqsolve.language.symbols import Parameter
from eqsolve.numerics.laws import Law
from eqsolve.passes.forms.structure import choosing_parameters

__all__ = ["Binder", "Values", "binder_of"]


@dataclass(frozen=True, eq=False)
class Values:
    """Numbers of the parameters and laws of the random constants, by name.

    ``settings`` is what results record; ``exact`` gives the same as exact numbers, for more digits than floats have.
    """

    numbers: Mapping[str, float]
    laws: Mapping[str, Law]
    settings: Mapping[str, float | str]
    exact: Callable[[], Binding]


class Binder:
    """Reads settings of one model and finds the plan for them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.choosing = choosing_parameters(model)
        self._names = {item.name: item for item in model.parameters}
        self._domains = {item.name: _Domain.of(item) for item in model.parameters}
        self._free = frozenset(item.name for item in model.parameters if item not in self.choosing)
        self._conditions = [self._condition(item) for item in model.conditions]
        self._default: Binding | None = None
        self._plans: dict[Any, Plan] = {}

    def _condition(self, relation: Any) -> tuple[type, Lowered]:
        return type(relation), lower([relation.lhs, relation.rhs], [], list(self.model.parameters))

    # --- reading ------------------------------------------------------------------------------------------------------
    def read(self, settings: Mapping[str, Any]) -> Values:
        """Return the numbers for given settings; errors name the parameter, its domain and the nearest name."""
        return self._quickly(settings) or self._exactly(settings)

    def _exactly(self, settings: Mapping[str, Any]) -> Values:
        return self.take(bind(self.model, settings))

    def take(self, binding: Binding) -> Values:
        """Return the numbers of a binding."""
        numbers = {item.name: float(value) for item, value in binding.values.items()}
        laws = {item.name: law.numeric() for item, law in binding.laws.items()}
        return Values(numbers, laws, binding.settings(), lambda: binding)

    def _quickly(self, settings: Mapping[str, Any]) -> Values | None:
        """Return the numbers where all settings are plain ones inside their domains and no law depends on them."""
        if any(name not in self._free or not _is_plain(value) for name, value in settings.items()):
            return None
        if self._default is None:
            try:
                self._default = bind(self.model, {})
            except Exception:  # a parameter without a default: then every solve goes the exact way
                return None
            self._fixed = not any(law.free_symbols for law in _declared_laws(self.model))
            self._start = self._exactly({})
        if not self._fixed:
            return None
        given = {name: float(value) for name, value in settings.items()}
        if not all(self._domains[name].holds(value) for name, value in given.items()):
            return None
        numbers = {**self._start.numbers, **given}
        if any(not _HOLDS[kind.__name__](*function.at(numbers)()) for kind, function in self._conditions):
            return None
        chosen = dict(settings)
        return Values(numbers, self._start.laws, {**self._start.settings, **given}, lambda: bind(self.model, chosen))

    # --- plans --------------------------------------------------------------------------------------------------------
    def plan(self, values: Values) -> Plan:
        """Return the plan for the structure that these values select."""
        put = {
            name: value for name, value in values.numbers.items()
            if name not in self._free or value == 0 or math.isinf(value)
        }  # fmt: skip
        kinds = tuple((name, type(law).__name__) for name, law in values.laws.items())
        key = (tuple(put.items()), kinds)
        if key not in self._plans:
            exact: Mapping[Parameter, Expr] = values.exact().values
            self._plans[key] = make_plan(self.model, {self._names[name]: exact[self._names[name]] for name in put})
        return self._plans[key]


_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "StrictGreaterThan": lambda a, b: a > b,
    "GreaterThan": lambda a, b: a >= b,
    "StrictLessThan": lambda a, b: a < b,
    "LessThan": lambda a, b: a <= b,
    "Equality": lambda a, b: a == b,
    "Unequality": lambda a, b: a != b,
}


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)  # numpy's floats are floats


@dataclass(frozen=True)
class _Domain:
    """The interval a parameter may lie in; open at zero if it has a strict sign."""

    low: float
    high: float
    signed: bool

    @classmethod
    def of(cls, item: Parameter) -> _Domain:
        low, high = (None if end is None else float(end) for end in item.bounds)
        lows = [low, 0.0 if item.is_nonnegative else None]
        highs = [high, 0.0 if item.is_nonpositive else None]
        return cls(
            max((end for end in lows if end is not None), default=-math.inf),
            min((end for end in highs if end is not None), default=math.inf),
            bool(item.is_positive or item.is_negative),
        )

    def holds(self, value: float) -> bool:
        return math.isfinite(value) and self.low <= value <= self.high and not (self.signed and value == 0)


def _declared_laws(model: Model) -> list[Any]:
    laws = [getattr(model, "laws", {}).get(item, model.defaults.get(item, item.law)) for item in model.randoms]
    return [law for law in laws if law is not None]


_BINDERS: dict[int, Binder] = {}
_KEPT = 128


def binder_of(model: Model) -> Binder:
    """Return the binder of a model; the last ones are kept, by identity, since comparing models is symbolic work."""
    known = _BINDERS.get(id(model))
    if known is None or known.model is not model:
        known = _BINDERS[id(model)] = Binder(model)
        while len(_BINDERS) > _KEPT:
            del _BINDERS[next(iter(_BINDERS))]
    return known
