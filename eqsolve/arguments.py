"""What public functions are given: every argument read once, so that a wrong one is named in an error of ours.

``@checked(d=whole(2), at=times)`` reads the arguments of a function before it runs. ``None`` passes where it is the default.
"""

import functools
import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from eqsolve.errors import UsageError

Reader = Callable[[Any, str], Any]
_P = ParamSpec("_P")
_R = TypeVar("_R")


def checked(**readers: Reader) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that reads the named arguments of a function before it is called."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        may_be_none = {name for name, item in signature.parameters.items() if item.default is None}

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given = signature.bind(*args, **kwargs)
            for name, read in readers.items():
                if name in given.arguments and not (given.arguments[name] is None and name in may_be_none):
                    given.arguments[name] = read(given.arguments[name], name)
            return function(*given.args, **given.kwargs)

        return call

    return decorate


def got(value: Any) -> str:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:40]}..."
    return shown if isinstance(value, str | int | float | None) else f"{shown} ({type(value).__name__})"


def _reader(
    expected: str, holds: Callable[[Any], bool], make: Callable[[Any], Any] = lambda value: value, mark: str = ","
) -> Reader:
    """Return a reader: it makes something of a value for which a condition holds, and refuses others in words."""

    def read(value: Any, what: str) -> Any:
        try:
            if holds(value):
                return make(value)
        except (TypeError, ValueError, OverflowError):
            pass
        raise UsageError(f"{what}= takes {expected}{mark} got {got(value)}")

    return read


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "shape", None) != ()


number = _reader(
    "a finite number", lambda value: not isinstance(value, str | bytes | bool) and math.isfinite(float(value)), float
)
text = _reader("a text", lambda value: isinstance(value, str))
flag = _reader("True or False", lambda value: isinstance(value, bool | int) and value in (0, 1), bool)
list_of = _reader("a list of values", _is_list, list)
path = _reader("the path of a file", lambda value: isinstance(os.fspath(value), str), os.fspath)


def whole(least: int, most: int | None = None) -> Reader:
    """Return a reader of whole numbers in a range."""

    def holds(value: Any) -> bool:
        count = value if isinstance(value, float) and value == int(value) else operator.index(value)
        return not isinstance(value, bool) and least <= count and (most is None or count <= most)

    return _reader(f"a whole number {f'of at least {least}' if most is None else f'from {least} to {most}'}", holds, int)


def one_of(*words: str) -> Reader:
    """Return a reader of one of a few words."""
    return _reader(" or ".join(map(repr, words)), lambda value: isinstance(value, str) and value in words)


def offers(method: str, example: str, *, named: bool = False) -> Reader:
    """Return a reader of objects that have a method; or of names too."""

    def holds(value: Any) -> bool:
        is_object = callable(getattr(value, method, None)) and not isinstance(value, type)
        return is_object or (named and isinstance(value, str))

    return _reader(example, holds)


def _is_callback(value: Any) -> bool:
    if value is False or isinstance(value, type):
        return value is False
    try:
        signature = inspect.signature(value)
    except ValueError:  # a function that does not tell what it takes
        return True
    return bool(signature.bind(0.0, 1.0, ""))


callback = _reader("a function of (done, total, text), or False", _is_callback, mark=";")


def numbers(value: Any, what: str) -> list[float]:
    """Return a list of finite numbers; a single one is a list of one."""
    return [number(entry, what) for entry in (value if _is_list(value) else [value])]


def names(value: Any, what: str) -> list[str]:
    """Return a list of names; a single one is a list of one."""
    return [text(entry, what) for entry in ([value] if isinstance(value, str) else list_of(value, what))]


def pair(value: Any, what: str) -> tuple[float, float]:
    """Return two numbers."""
    if len(entries := list_of(value, what)) != 2:
        raise UsageError(f"{what}= takes two numbers, got {got(value)}")
    return (number(entries[0], what), number(entries[1], what))


def pairs(value: Any, what: str) -> list[tuple[float, float]]:
    """Return a list of pairs of numbers."""
    return [pair(entry, what) for entry in list_of(value, what)]


def table(value: Any, what: str) -> dict[str, Any]:
    """Return values by name."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{what}= takes values by name, such as {{'alpha': 0.3}}, got {got(value)}")
    return {text(name, f"a name in {what}"): entry for name, entry in value.items()}


# --- Values with an error bar, in the habit of the package ``uncertainties``.


@dataclass(frozen=True)
class Uncertain:
    """A number with its standard deviation."""

    nominal_value: float
    std_dev: float

    def __str__(self) -> str:
        return f"{self.nominal_value:g}+/-{self.std_dev:g}"


def uncertain(value: float, deviation: float) -> Uncertain:
    """Return a value with its standard deviation: ``solve(model, alpha=uncertain(0.3, 0.01))`` carries it to every error.

    The numbers of the package ``uncertainties`` (``ufloat(0.3, 0.01)``) are taken as well.

    Examples
    --------
    >>> eqsolve.uncertain(0.3, 0.01)
    Uncertain(nominal_value=0.3, std_dev=0.01)
    """
    result = Uncertain(number(value, "value"), number(deviation, "deviation"))
    if result.std_dev < 0:
        raise UsageError(f"uncertain: a standard deviation is not negative, got {deviation}")
    return result


def is_uncertain(value: Any) -> bool:
    """Whether a value comes with a standard deviation."""
    return hasattr(value, "nominal_value") and hasattr(value, "std_dev")
