"""Which model a choice stands for, told from plain numbers without symbols; everything else is read exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy import Basic

from eqsolve.compile.branches import Branches, is_plain
from eqsolve.language.binding import read_value
from eqsolve.language.fixed_point import Cases
from eqsolve.language.keeping import kept_by_model
from eqsolve.language.loading import load
from eqsolve.language.model import Model
from eqsolve.passes.forms.cases import Chosen, select_case

__all__ = ["case_of", "choose_case"]


class _Reader:
    def __init__(self, model: Cases) -> None:
        self.model = model
        conditions = [condition for condition, _ in model.cases if isinstance(condition, Basic)]
        self._branches = Branches(model, conditions)
        self._needed = {item.name for condition in conditions for item in condition.free_symbols}
        self._names = {item.name: item for item in model.parameters}
        defaults = {item.name: model.defaults.get(item, item.default) for item in model.parameters}
        self._defaults = {name: float(read_value(value)) for name, value in defaults.items() if value is not None}
        self._chosen: dict[Any, tuple[Model, frozenset[str], str]] = {}

    def choose(self, settings: Mapping[str, Any]) -> Chosen:
        """Return the model whose condition holds first, with the settings that concern it."""
        plain = {name: float(value) for name, value in settings.items() if is_plain(value)}
        numbers = {**self._defaults, **{name: value for name, value in plain.items() if name in self._names}}
        if len(plain) < len(settings) or not self._needed | self._names.keys() <= numbers.keys():
            return select_case(self.model, settings)
        key = self._branches.key(numbers, lambda: {self._names[name]: read_value(value) for name, value in numbers.items()})
        if key not in self._chosen:
            found = select_case(self.model, settings)
            own = frozenset(item.name for item in (*found.model.parameters, *found.model.randoms))
            self._chosen[key] = (found.model, own, found.reason)
        model, own, reason = self._chosen[key]
        if load(model.name) is not model or not plain.keys() <= own | self._names.keys():  # a changed file, or another's name
            return select_case(self.model, settings)
        return Chosen(model, {name: value for name, value in {**numbers, **plain}.items() if name in own}, reason)


_reader_of = kept_by_model(_Reader)


def choose_case(model: Cases, settings: Mapping[str, Any]) -> Chosen:
    """Return the model that settings choose; a setting that no case knows is an error."""
    return _reader_of(model).choose(settings)


def case_of(model: Model, settings: Mapping[str, Any]) -> tuple[Model, Mapping[str, Any]]:
    """Return the model that is solved, chosen where there are cases, and those of the settings that concern it."""
    while isinstance(model, Cases):
        chosen = choose_case(model, settings)
        model, settings = chosen.model, chosen.settings
    return model, settings
