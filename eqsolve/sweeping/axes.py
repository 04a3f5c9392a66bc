"""The axes of a sweep: lists of numbers or laws, or ranges such as ``0.01:10:40:log``; read, never evaluated."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, quote
from eqsolve.language.binding import read_value
from eqsolve.language.laws import Law
from eqsolve.language.model import Model
from eqsolve.passes.routing import check_routed

_MOST_POINTS = 100_000
_CHECKED = 1000  # values of an axis checked one by one; of more, the ends
_EXAMPLE = "values such as 0.3,0.5,2 or a range FIRST:LAST:COUNT, with :log for a logarithmic one"


@dataclass(frozen=True)
class Axis:
    """One parameter and its values: as they are set, and as they label the result."""

    name: str
    settings: tuple[float | str, ...]
    labels: tuple[float | str, ...]

    def __len__(self) -> int:
        return len(self.settings)


def is_axis(value: Any) -> bool:
    """Return whether a value is several: a list, an array, or a range such as ``0.1:1:5``."""
    if isinstance(value, str):
        return len(_split(value, ":")) > 1
    return isinstance(value, Iterable) and not isinstance(value, Law)


def read_axes(model: Model, axes: Mapping[str, Any]) -> tuple[Axis, ...]:
    """Return the axes of a sweep of a model; values are checked against the parameter's domain."""
    if not axes:
        raise UsageError(f"a sweep needs at least one axis: {_EXAMPLE}")
    given = {str(name): _read(str(name), values) for name, values in axes.items()}
    if (points := math.prod(map(len, given.values()))) > _MOST_POINTS:
        raise UsageError(f"the grid has {points} points, more than {_MOST_POINTS}")
    return tuple(_axis(model, name, values) for name, values in given.items())


def _read(name: str, values: Any) -> list[float | str]:
    given = read_text(f"axis `{name}`", values) if isinstance(values, str) else _read_values(name, values)
    if not given:
        raise UsageError(f"axis `{name}` has no values; expected {_EXAMPLE}")
    return given


def _axis(model: Model, name: str, given: list[float | str]) -> Axis:
    labels: list[float | str] = []
    for value in given:
        read = read_value(value, what=f"axis `{name}`")
        labels.append(str(value) if isinstance(read, Law) else float(read))
    for value in given if len(given) <= _CHECKED else (given[0], given[-1]):
        check_routed(model, {name: value})
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise UsageError(f"axis `{name}` has the value {quote(str(twice))} twice")
    if len({type(label) for label in labels}) > 1:
        labels = [str(label) for label in labels]
    return Axis(name, tuple(given), tuple(labels))


def _read_values(name: str, values: Any) -> list[float | str]:
    made: list[float | str] = []
    for entry in values if is_axis(values) else [values]:
        read = entry if isinstance(entry, str) else read_value(entry, what=f"axis `{name}`")
        made.append(str(read) if isinstance(read, str | Law) else float(read))
    return made


def read_text(what: str, text: str) -> list[float | str]:
    """Return the values of a list or a range; ``what`` it is for is named in messages."""
    parts = _split(text, ":")
    if len(parts) == 1:
        entries = [entry.strip() for entry in _split(text, ",")]
        if not all(entries):
            raise UsageError(f"{what}: cannot read {quote(text)}; expected {_EXAMPLE}")
        return list(entries)
    if len(parts) not in (3, 4):
        raise UsageError(f"{what}: cannot read {quote(text)}; expected {_EXAMPLE}")
    try:
        first, last = (float(read_value(part, what=what)) for part in parts[:2])
    except TypeError:  # a law
        raise UsageError(f"{what}: a range goes from a number to a number, got {quote(text)}") from None
    if not (math.isfinite(first) and math.isfinite(last)):
        raise UsageError(f"{what}: a range needs finite ends, got {quote(text)}")
    return [float(value) for value in _range(what, text, first, last, parts[2:])]


def _range(what: str, text: str, first: float, last: float, rest: list[str]) -> Any:
    try:
        count = int(rest[0])
    except ValueError:
        count = 0
    if not 1 <= count <= _MOST_POINTS:
        raise UsageError(f"{what}: the COUNT in {quote(text)} must be a whole number from 1 to {_MOST_POINTS}")
    scale = rest[1].strip() if len(rest) == 2 else "lin"
    if scale not in ("log", "lin"):
        raise UsageError(f"{what}: a range ends in :log or :lin, got {quote(text)}")
    if count == 1 and first != last:
        raise UsageError(f"{what}: one value cannot reach from {first:g} to {last:g}; raise the COUNT")
    if scale == "lin":
        return np.linspace(first, last, count)
    if first * last <= 0:
        raise UsageError(f"{what}: a logarithmic range needs ends of one sign and not 0, got {quote(text)}")
    return np.geomspace(first, last, count)


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark outside brackets, so that laws keep their commas."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == mark and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def check_settings(model: Model, axes: tuple[Axis, ...], fixed: Mapping[str, Any]) -> None:
    """Check what is the same at all points."""
    both = [axis.name for axis in axes if axis.name in fixed]
    if both:
        raise UsageError(f"`{both[0]}` is both an axis and set to {fixed[both[0]]}; leave one of them out")
    check_routed(model, fixed)
