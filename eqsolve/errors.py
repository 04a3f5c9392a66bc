"""Everything eqsolve raises on purpose: one tree, messages that say what, where, got / expected, and the fix."""

from __future__ import annotations

import difflib
import logging
import os
import traceback
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eqsolve.results.result import Result

logger = logging.getLogger("eqsolve")  # of the whole package


class EqsolveError(Exception):
    """Base of every error eqsolve raises on purpose; the command line shows only its message."""

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the caller's own lines, and the message."""
        frames, here = traceback.extract_tb(self.__traceback__), os.path.dirname(__file__)
        own = [frame for frame in frames if not frame.filename.startswith(here) and "site-packages" not in frame.filename]
        return [*traceback.format_list(own), f"{type(self).__name__}: {self}"]


class ModelError(EqsolveError):
    """A model is declared wrongly. ``problems`` lists every message when several were found at once."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)


class MisnamedError(ModelError):
    """A model whose name is not that of its file, as of a copied one; ``model`` can be looked at all the same."""

    def __init__(self, message: str, model: Any = None) -> None:
        super().__init__(message)
        self.model = model


class ParameterError(EqsolveError):
    """A parameter or a law is missing, unknown, outside its domain, or cannot be read."""


class UsageError(EqsolveError):
    """A call or a command line that cannot be understood: unknown model, bad option, unreadable file."""


class MissingExtraError(UsageError):
    """Something that needs an extra which is not installed; the message names it."""


class SolverError(EqsolveError):
    """The solver could not reach what was asked; the message names the equation, the unknown and the time.

    ``partial`` is the result up to the time where it stopped, None where there is nothing.
    """

    exit_code = 1

    def __init__(self, *args: object, partial: Result | None = None) -> None:
        super().__init__(*args)
        self.partial = partial


class BudgetSpentError(SolverError):
    """The budget was spent before there was a first solution, or a better one."""


class MemoryLimitError(SolverError, MemoryError):
    """More memory would be needed than the machine has; known before any was asked for."""


def quote(text: object) -> str:
    """Return what somebody typed in quotes, clipped where it is long, to be shown in a message."""
    return clip(repr(text))


def clip(text: str, longest: int = 80) -> str:
    """Return a text, its middle left out where it is long."""
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 4 :]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean `x`?"`` for the nearest known name, or the empty string."""
    name = str(name)
    candidates = [candidate for candidate in known if candidate != name]
    longer = [candidate for candidate in candidates if len(name) > 2 and candidate.lower().startswith(name.lower())]
    if longer:
        return f"; did you mean `{min(longer, key=len)}`?"
    lowered = {candidate.lower(): candidate for candidate in reversed(candidates)}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    return f"; did you mean `{lowered[close[0]]}`?" if close else ""


def demand_known(
    names: Iterable[str], known: Collection[str], says: str, has: str = "it has", error: type[Exception] = UsageError
) -> None:
    """Raise for the first name that is not known; {} in ``says`` stands for it."""
    for name in names:
        if name not in known:
            raise error(f"{says.format(name)}{did_you_mean(name, known)} ({has}: {', '.join(known) or 'none'})")


def quoted(items: Iterable[object]) -> str:
    """Return names for a message, each in backticks."""
    return ", ".join(f"`{item}`" for item in items)
