"""What may be set on a model: its own parameters and laws, and those of the models behind it.

A `Singularity` draws on the fixed point that gives its law, `Cases` on the models it chooses among. Every verb that takes
settings (`solve`, `sweep`, `validate`, `follow`, `rate_curve`) reads them here, so that all of them take the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqsolve.errors import ParameterError, did_you_mean
from eqsolve.language.binding import Binding, bind, bind_some
from eqsolve.language.fixed_point import Cases, Singularity
from eqsolve.language.model import Model

__all__ = ["bind_routed", "check_routed", "models_behind", "settable"]


def models_behind(model: Model) -> tuple[Model, ...]:
    """Return the models that settings of this one may reach."""
    if isinstance(model, Singularity):
        from eqsolve.solvers.singularity.law import law_models

        found = [source for _, source in law_models(model)]
    elif isinstance(model, Cases):
        from eqsolve.language.loading import load

        found = [load(name) for _, name in model.cases]
    else:
        return ()
    return tuple(item for source in found for item in (source, *models_behind(source)))


def settable(model: Model) -> set[str]:
    """Return the names of everything that may be set."""
    return {item.name for part in (model, *models_behind(model)) for item in (*part.parameters, *part.randoms)}


def check_routed(model: Model, settings: Mapping[str, Any]) -> None:
    """Raise when a setting is known to nobody, or lies outside its domain; other parameters need no values yet."""
    own = {item.name for item in (*model.parameters, *model.randoms)}
    others = {name: value for name, value in settings.items() if name not in own}
    behind = models_behind(model) if others else ()
    if not behind:
        bind_some(model, settings)
        return
    known = own.union(*({item.name for item in (*source.parameters, *source.randoms)} for source in behind))
    for name in others:
        if name not in known:
            has = ", ".join(sorted(known))
            raise ParameterError(f"model `{model.name}` has no parameter `{name}`{did_you_mean(name, known)} (it has: {has})")
    bind_some(model, {name: value for name, value in settings.items() if name in own})
    for name, value in others.items():
        _check_behind(behind, name, value)


def _check_behind(behind: tuple[Model, ...], name: str, value: Any) -> None:
    """Raise when no model behind takes a value; which of them it goes to is not decided yet."""
    problem: ParameterError | None = None
    for source in behind:
        if any(item.name == name for item in (*source.parameters, *source.randoms)):
            try:
                bind_some(source, {name: value})
                return
            except ParameterError as error:
                problem = problem or error
    assert problem is not None
    raise problem


def bind_routed(model: Model, settings: Mapping[str, Any]) -> Binding:
    """Return a model with all its settings bound, those of the models behind it where they belong."""
    if isinstance(model, Cases):
        from eqsolve.passes.forms.cases import select_case

        chosen = select_case(model, settings)
        return bind_routed(chosen.model, chosen.settings)
    if isinstance(model, Singularity):
        from eqsolve.solvers.singularity.law import bind_singularity

        return bind_singularity(model, settings)
    return bind(model, settings)
