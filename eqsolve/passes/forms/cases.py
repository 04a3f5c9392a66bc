"""Which of several models a choice stands for, at given parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eqsolve.errors import ParameterError, did_you_mean
from eqsolve.language.binding import read_value, refuse_several
from eqsolve.language.fixed_point import Cases
from eqsolve.language.model import Model
from eqsolve.language.symbols import Parameter

__all__ = ["Chosen", "select_case"]


@dataclass(frozen=True)
class Chosen:
    """The model chosen, the settings that concern it, and the reason in words."""

    model: Model
    settings: dict[str, Any]
    reason: str


def select_case(model: Cases, settings: Mapping[str, Any]) -> Chosen:
    """Return the first model whose condition holds; a setting that no case knows is an error."""
    from eqsolve.language.loading import load

    models = {name: load(name) for _, name in model.cases}
    known = {item.name for item in model.parameters}
    for other in models.values():
        known |= {item.name for item in (*other.parameters, *other.randoms)}
    for name in settings:
        if name not in known:
            has = ", ".join(sorted(known))
            raise ParameterError(f"model `{model.name}` has no parameter `{name}`{did_you_mean(name, known)} (it has: {has})")
    values = {item: _value(model, item, settings) for item in model.parameters}
    for condition, name in model.cases:
        if condition.subs({item: value for item, value in values.items() if value is not None}) == True:  # noqa: E712
            chosen = models[name]
            own = {item.name for item in (*chosen.parameters, *chosen.randoms)}
            given = {item.name: value for item, value in values.items() if value is not None}
            kept = {key: value for key, value in {**given, **settings}.items() if key in own}
            return Chosen(chosen, kept, f"{_said(condition)}: solved as {name}")
    tried = "; ".join(f"{name} needs {_said(condition)}" for condition, name in model.cases)
    got = ", ".join(f"{item.name}={float(value):.12g}" for item, value in values.items() if value is not None)
    raise ParameterError(f"model `{model.name}` ({model.location}) has no case for {got}: {tried}")


def _value(model: Cases, item: Parameter, settings: Mapping[str, Any]) -> Any:
    given = settings.get(item.name, model.defaults.get(item, item.default))
    refuse_several(model, item.name, given)
    return None if given is None else read_value(given, what=f"parameter `{item.name}`")


def _said(condition: Any) -> str:
    return "otherwise" if condition == True else str(condition).replace("&", "and").replace("|", "or")  # noqa: E712
