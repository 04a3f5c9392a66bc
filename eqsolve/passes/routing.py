"""What may be set on a model: its own parameters and laws, and those of the models behind it.

A `Singularity` draws on the fixed point that gives its law, `Cases` on the models it chooses among. Every verb that takes
settings (`solve`, `sweep`, `validate`, `follow`, `rate_curve`) reads them here, so that all of them take the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqsolve.errors import ModelError, ParameterError, UsageError
from eqsolve.language.binding import Binding, bind, bind_some, refuse_unknown
from eqsolve.language.fixed_point import Cases, Singularity
from eqsolve.language.loading import load
from eqsolve.language.model import Model
from eqsolve.language.symbols import Random
from eqsolve.passes.forms.structure import select_case


def models_behind(model: Model) -> tuple[Model, ...]:
    """Return the models that settings of this one may reach."""
    if isinstance(model, Singularity):
        found = [source for _, source in law_models(model)]
    elif isinstance(model, Cases):
        found = [load(name) for _, name in model.cases]
    else:
        return ()
    return tuple(item for source in found for item in (source, *models_behind(source)))


def settable(model: Model) -> set[str]:
    """Return the names of everything that may be set."""
    return {name for part in (model, *models_behind(model)) for name in part.settable}


def check_routed(model: Model, settings: Mapping[str, Any]) -> None:
    """Raise when a setting is known to nobody, or lies outside its domain; other parameters need no values yet."""
    own = model.settable
    others = {name: value for name, value in settings.items() if name not in own}
    behind = models_behind(model) if others else ()
    if behind:
        refuse_unknown(model, others, sorted({*own}.union(*(source.settable for source in behind))))
    bind_some(model, {name: value for name, value in settings.items() if name in own or not behind})
    for name, value in others.items():  # which of the models behind it goes to is not decided yet: one must take it
        problems = []
        for source in (item for item in behind if name in item.settable):
            try:
                bind_some(source, {name: value})
                break
            except ParameterError as error:
                problems.append(error)
        else:
            raise problems[0]


def bind_routed(model: Model, settings: Mapping[str, Any]) -> Binding:
    """Return a model with all its settings bound, those of the models behind it where they belong."""
    if isinstance(model, Cases):
        chosen = select_case(model, settings)
        return bind_routed(chosen.model, chosen.settings)
    if isinstance(model, Singularity):
        return bind_singularity(model, settings)
    return bind(model, settings)


@dataclass(frozen=True)
class SingularityBinding(Binding):
    """A bound singularity, with the bound model its laws come from, if there is one."""

    law: Binding | None = None

    def settings(self) -> dict[str, float | str]:
        own = super().settings()
        if self.law is None:
            return own
        gaussian = {item.name for item in self.law.model.randoms if is_found(self.law.model, item)}
        return {**{k: v for k, v in self.law.settings().items() if k not in gaussian}, **own}


def is_found(model: Model, item: Random) -> bool:
    """Whether the law of a random variable contains an unknown: it is then found, not set."""
    found = item.law.free_symbols if item.law is not None else ()
    return any(symbol in getattr(model, "unknowns", ()) for symbol in found)


def bind_singularity(model: Singularity, settings: Mapping[str, Any]) -> SingularityBinding:
    """Return a singularity with its own settings bound and the others routed to the model that gives its laws."""
    own, sources = model.settable, law_models(model)
    refuse_unknown(model, settings, sorted({*own}.union(*(source.settable for _, source in sources))))
    binding = bind(model, {key: value for key, value in settings.items() if key in own})
    if not sources:
        return SingularityBinding(model, binding.values, binding.laws)
    chosen = next((m for condition, m in sources if condition.subs(binding.values) == True), None)  # noqa: E712
    if chosen is None:
        where = " or ".join(str(condition) for condition, _ in model.law_of)
        names = sorted({str(s) for condition, _ in model.law_of for s in condition.free_symbols})
        got = ", ".join(f"{item.name}={float(v):g}" for item, v in binding.values.items() if item.name in names)
        raise ParameterError(f"model `{model.name}` has a law for {where} only ({model.location}), got {got}")
    shared = {item.name: binding.values[item] for item in model.parameters}
    routed = {key: value for key, value in {**shared, **settings}.items() if key in chosen.settable}
    return SingularityBinding(model, binding.values, binding.laws, bind(chosen, routed))


def law_models(model: Singularity) -> list[tuple[Any, Model]]:
    """Return the models that may give the laws, each with its condition."""
    return [(condition, _load(model, name)) for condition, name in model.law_of]


def _load(model: Singularity, name: str) -> Model:
    beside = Path(model.file).parent / f"{name}.py" if model.file else None
    try:
        return load(str(beside) if beside is not None and beside.is_file() else name)
    except UsageError as error:
        raise ModelError(f"{model.label} takes its law from `{name}`: {error}") from None
