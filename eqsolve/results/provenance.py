"""Where numbers come from: versions, the model's signature and text, seed, machine and time."""

import contextlib
import hashlib
import importlib
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eqsolve._version import __version__
from eqsolve.language.model import Model
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import meanings
from eqsolve.language.system import Flow
from eqsolve.passes.forms.structure import signature_of


def describe(model: Model, seed: int) -> dict[str, Any]:
    """Return what is needed to know, and to repeat, how a result came about."""
    source = source_text(model)
    return {
        "version": __version__, "signature": signature_of(model), "seed": seed, "file": model.file,
        "source_sha256": hashlib.sha256(source.encode()).hexdigest(), "source": source, "meanings": meanings_of(model),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"), "python": platform.python_version(),
        **{name: importlib.import_module(name).__version__ for name in ("numpy", "scipy", "sympy")},
        "machine": platform.machine(), "platform": platform.platform(), "cpus": os.cpu_count(),
    }  # fmt: skip


def derived_names(model: Model, names: Iterable[str]) -> dict[str, list[str]]:
    """Return which values the derivation of a flow added to the observables that it declares."""
    declared = model.observables if isinstance(model, Flow) else {}
    added = [name for name in names if declared and name not in declared]
    return {"derived": added} if added else {}


@kept_by_model
def meanings_of(model: Model) -> dict[str, str]:
    """Return what a model says of its parameters and random constants, by name."""
    known = meanings(model.file)
    return {item.name: meaning for item in (*model.parameters, *model.randoms) if (meaning := known.get(item))}


def source_text(model: Model) -> str:
    """Return the text of the model's file; of a model without one, its equations."""
    if model.file:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return Path(model.file).read_text(encoding="utf-8")
    return _shown(model)


@kept_by_model
def _shown(model: Model) -> str:
    return str(model.show().text())
