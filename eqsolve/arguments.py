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


def number(value: Any, what: str) -> float:
    """Return a finite number."""
    try:
        made = math.nan if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        made = math.nan
    if not math.isfinite(made):
        raise UsageError(f"{what}= takes a finite number, got {got(value)}")
    return made


def whole(least: int, most: int | None = None) -> Reader:
    """Return a reader of whole numbers in a range."""

    def read(value: Any, what: str) -> int:
        try:
            made = value if isinstance(value, float) and value == int(value) else operator.index(value)
            if isinstance(value, bool) or not least <= made <= (made if most is None else most):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            reach = f"from {least} to {most}" if most is not None else f"of at least {least}"
            raise UsageError(f"{what}= takes a whole number {reach}, got {got(value)}") from None
        return int(made)

    return read


def text(value: Any, what: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise UsageError(f"{what}= takes a text, got {got(value)}")
    return value


def one_of(*words: str) -> Reader:
    """Return a reader of one of a few words."""

    def read(value: Any, what: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise UsageError(f"{what}= takes {' or '.join(map(repr, words))}, got {got(value)}")
        return value

    return read


def flag(value: Any, what: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | int) or value not in (0, 1):
        raise UsageError(f"{what}= takes True or False, got {got(value)}")
    return bool(value)


def list_of(value: Any, what: str) -> list[Any]:
    """Return a list of whatever is given one after the other."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable) or getattr(value, "shape", None) == ():
        raise UsageError(f"{what}= takes a list of values, got {got(value)}")
    return list(value)


def numbers(value: Any, what: str) -> list[float]:
    """Return a list of finite numbers; a single one is a list of one."""
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "shape", None) != ()
    return [number(entry, what) for entry in (value if several else [value])]


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
    for name in value:
        text(name, f"a name in {what}")
    return dict(value)


def path(value: Any, what: str) -> str:
    """Return the path of a file."""
    if not isinstance(value, str | os.PathLike) or not isinstance(made := os.fspath(value), str):
        raise UsageError(f"{what}= takes the path of a file, got {got(value)}")
    return made


def callback(value: Any, what: str) -> Callable[..., Any] | bool:
    """Return a function of three arguments, or False for silence."""
    if value is False:
        return False
    try:
        if isinstance(value, type):
            raise TypeError
        inspect.signature(value).bind(0.0, 1.0, "")
    except ValueError:  # one that does not tell what it takes
        pass
    except TypeError:
        raise UsageError(f"{what}= takes a function of (done, total, text), or False; got {got(value)}") from None
    return value


def offers(method: str, example: str, *, named: bool = False) -> Reader:
    """Return a reader of objects that have a method; or of names too."""

    def read(value: Any, what: str) -> Any:
        if named and isinstance(value, str):
            return value
        if not callable(getattr(value, method, None)) or isinstance(value, type):
            raise UsageError(f"{what}= takes {example}, got {got(value)}")
        return value

    return read


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
    made = Uncertain(number(value, "value"), number(deviation, "deviation"))
    if made.std_dev < 0:
        raise UsageError(f"uncertain: a standard deviation is not negative, got {deviation}")
    return made


def is_uncertain(value: Any) -> bool:
    """Whether a value comes with a standard deviation."""
    return hasattr(value, "nominal_value") and hasattr(value, "std_dev")
