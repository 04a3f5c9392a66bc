"""Which observables of a model are wanted."""

from collections.abc import Iterable
from typing import TypeVar

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.model import Model, Table

AnyModel = TypeVar("AnyModel", bound=Model)


def select_observables(model: AnyModel, names: Iterable[str] | str | None) -> AnyModel:
    """Return a model with the named observables only, in its own order; all of them without names."""
    if names is None:
        return model
    wanted = [names] if isinstance(names, str) else list(names)
    declared = model.observables
    for name in wanted:
        if name not in declared:
            has = f"it has: {', '.join(declared)}" if declared else "it declares none"
            known = "; unknowns are always computed" if name in model.names else ""
            raise UsageError(f"model `{model.name}` has no observable `{name}`{did_you_mean(name, declared)} ({has}{known})")
    if not wanted:
        raise UsageError(f"observables: name at least one of {', '.join(declared) or 'none'}, or leave it out")
    return model._with(observables=Table((name, value) for name, value in declared.items() if name in wanted))
