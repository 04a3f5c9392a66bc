"""Options that several commands share, and how their texts are read; nothing the user types is evaluated."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsolve.errors import ParameterError, UsageError, did_you_mean, quote

if TYPE_CHECKING:
    from eqsolve.language.model import Model

__all__ = [
    "FIGURES",
    "add_json",
    "add_model",
    "add_set",
    "apply_settings",
    "check_destination",
    "read_number",
    "read_pairs",
    "read_settings",
    "read_times",
    "read_whole",
]

FIGURES = (".png", ".svg", ".pdf")


def add_model(parser: ArgumentParser, **more: Any) -> None:
    """Add the argument that names a model."""
    parser.add_argument("model", metavar="M", **{"help": "a model's name, or the path of its file", **more})


def add_json(parser: ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on stdout and nothing else"
    )


def add_set(parser: ArgumentParser, what: str) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="settings",
        help=f"{what}: numbers (0.3, 1/3, sqrt(2)), or laws for what is random (\"Bernoulli(0.1)\")",
    )  # fmt: skip


def read_settings(words: Iterable[str]) -> dict[str, str]:
    """Return the texts given for each name; they are read where the model is known."""
    settings: dict[str, str] = {}
    for word in words:
        name, sign, text = word.partition("=")
        name = name.strip()
        if not sign or not name:
            hint = f"; did you mean {word}=...?" if word.isidentifier() else ""
            raise UsageError(
                f"--set takes NAME=VALUE such as alpha=0.3, got {quote(word)}{hint} (the model comes before --set)"
            )
        if name in settings:
            raise UsageError(f"--set gives `{name}` twice: {quote(settings[name])} and {quote(text)}")
        settings[name] = text
    return settings


def apply_settings(model: Model, settings: dict[str, str]) -> Model:
    """Return the model with the named parameters and laws put in."""
    from eqsolve.binding import bind_some

    return model.subs(bind_some(model, settings)) if settings else model


def read_number(text: str, option: str, example: str) -> float:
    """Return a finite number from text such as ``1/3``."""
    from eqsolve.binding import read_value

    try:
        value = read_value(text)
        number = float(value)
    except (ParameterError, TypeError):
        raise UsageError(f"{option}: cannot read {quote(text.strip())} as a number; expected {example}") from None
    if number - number != 0:
        raise UsageError(f"{option}: expected a finite number, got {quote(text.strip())}")
    return number


def read_whole(text: str | None, option: str) -> int | None:
    """Return a whole number, or None where none was given."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option}: expected a whole number, got {quote(text)}") from None


def read_times(text: str | None) -> list[float] | None:
    """Return the times of ``--at``, in the order given."""
    if text is None:
        return None
    return [
        read_number(entry, "--at", "times separated by commas, such as 0.1,1/3,10")
        for entry in text.split(",")
    ]


def read_pairs(text: str | None) -> list[tuple[float, float]] | None:
    """Return the pairs of times of ``--at2``, in the order given."""
    if text is None:
        return None
    example = 'pairs t,t\' separated by semicolons, such as "1,0.5;2,2"'
    pairs = []
    for entry in text.split(";"):
        moments = entry.split(",")
        if len(moments) != 2:
            raise UsageError(f"--at2: cannot read {quote(entry.strip())} as a pair of times; expected {example}")
        first, second = (read_number(moment, "--at2", example) for moment in moments)
        pairs.append((first, second))
    return pairs


def check_destination(path: str | None, option: str, suffixes: tuple[str, ...]) -> Path | None:
    """Return where a file is to be written, having made sure, before any work, that it can be."""
    if path is None:
        return None
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        names = " or ".join(f"*{suffix}" for suffix in suffixes)
        got = f"{target.suffix!r}{did_you_mean(target.suffix, suffixes)}" if target.suffix else "no suffix"
        raise UsageError(f"{option}: expected a file name {names}, got {path!r} with {got}")
    if target.is_dir():
        raise UsageError(f"{option}: {path!r} is a folder, not a file")
    if not target.parent.is_dir():
        raise UsageError(
            f"{option}: cannot write {path!r}, because there is no folder {str(target.parent)!r}"
        )
    if not os.access(target.parent, os.W_OK):
        raise UsageError(
            f"{option}: cannot write {path!r}: the folder {str(target.parent)!r} is not writable"
        )
    return target
