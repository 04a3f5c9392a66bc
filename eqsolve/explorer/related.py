"""Where a model goes and how fast: the fixed points and the rates that are declared for the same microscopic model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from eqsolve.errors import EqsolveError
from eqsolve.language.binding import read_value
from eqsolve.language.fixed_point import Cases, FixedPoint, Singularity
from eqsolve.language.flow import Flow
from eqsolve.language.loading import list_models, load
from eqsolve.language.model import Model
from eqsolve.passes.routing import models_behind, settable

KINDS = ("FixedPoint", "Cases", "Singularity", "variant")  # as files are listed, without running them


def flow_names(model: Model) -> set[str]:
    """Return the names of the microscopic models that a model, or those it chooses among, say they describe."""
    if isinstance(model, Flow):
        return {model.name}
    named = {getattr(part, "flow", None) for part in (model, *models_behind(model))}
    return {item if isinstance(item, str) else item.name for item in named if item is not None}


def find_related(model: Model) -> list[Model]:
    """Return the fixed points, then the rates, that describe the same microscopic model as a dynamics does.

    A choice among fixed points stands for all of them. Files that cannot be loaded are passed over.
    """
    flows = flow_names(model)
    if not flows or isinstance(model, Singularity):
        return []
    timeless = [other for other in _loaded() if other.name != model.name and flow_names(other) & flows]
    points = [other for other in timeless if isinstance(other, FixedPoint | Cases)]
    choices = [other for other in points if isinstance(other, Cases)]
    rates = [other for other in timeless if isinstance(other, Singularity)]
    if isinstance(model, FixedPoint | Cases):
        return [*rates]
    return [*(choices or points), *rates]


def _loaded() -> Iterator[Model]:
    for file in list_models():
        if file.kind in KINDS:
            try:
                yield load(str(file.path))
            except EqsolveError:
                continue


def unknown_settings(other: Model, settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that another model does not know, unless they are switched off.

    A parameter is switched off at 0 and at infinity: there the term it belongs to is gone.
    """
    known = settable(other)
    return [name for name, value in settings.items() if name not in known and not _is_off(value)]


def _is_off(value: Any) -> bool:
    try:
        number = float(read_value(value))
    except (EqsolveError, TypeError):
        return False
    return number == 0 or math.isinf(number)
