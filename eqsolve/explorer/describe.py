"""What the page shows of a model before anything is solved."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from eqsolve._version import __version__
from eqsolve.explorer.controls import law_examples, list_controls
from eqsolve.explorer.mathml import equations, labels
from eqsolve.explorer.related import flow_names
from eqsolve.language.binding import spoken_name
from eqsolve.language.fixed_point import Cases
from eqsolve.language.model import Model
from eqsolve.passes.routing import models_behind

TIMED = ("System", "Flow")


def describe(model: Model) -> dict[str, Any]:
    """Return a model in plain texts and numbers: its equations, what can be set."""
    title, _, rest = (model.doc or "").strip().partition("\n")
    return {
        "stamp": stamp(model),
        "version": __version__,
        "name": model.name,
        "spoken": spoken_name(model),
        "kind": model.kind,
        "title": title,
        "doc": rest.strip(),
        "timed": model.kind in TIMED,
        "equations": equations(model),
        "labels": labels(model),
        "controls": [asdict(control) for control in list_controls(model)],
        "laws": law_examples(),
        "observables": observable_names(model),
        "finite": bool(flow_names(model)) or getattr(model, "minimises", None) is not None,
    }


def observable_names(model: Model) -> list[str]:
    """Return the observables of a model, or of those it chooses among."""
    parts = models_behind(model) if isinstance(model, Cases) else (model,)
    return list(dict.fromkeys(name for part in parts for name in part.observables))


def stamp(model: Model) -> str:
    """Return what changes when the model's file is written anew."""
    try:
        return "" if model.file is None else str(os.stat(model.file).st_mtime_ns)
    except OSError:
        return "gone"
