"""What the command line writes: results to stdout, everything else to stderr."""

import contextlib
import json
import math
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsolve.errors import UsageError
from eqsolve.results.words import jsonable


class OutputClosed(Exception):  # (not an error of the user's: `eqsolve list | head` is fine)
    """Whoever read our output has gone away."""


def write(text: str) -> None:
    """Write one or more lines of the result to stdout."""
    if sys.stdout is None:  # the program was started with stdout closed
        raise OutputClosed
    _safe(sys.stdout)
    with _writing():
        sys.stdout.write(f"{text}\n")


def write_json(value: Mapping[str, Any]) -> None:
    """Write one JSON object to stdout; numbers that JSON cannot hold become null."""
    write(json.dumps(jsonable(value), allow_nan=False))


def say(text: str) -> None:
    """Write a message to stderr."""
    with contextlib.suppress(OSError, ValueError):  # a closed stderr is no reason to fail
        _safe(sys.stderr)
        print(text, file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Write an error to stderr; on a terminal that shows colours, its first word is red."""
    say(f"{paint('error:', 'bold red', sys.stderr)} {text}")


def exit_code(status: str, message: str) -> int:
    """Return 0 for what was solved as asked; else complain, and return 1."""
    if status != "ok":
        complain(f"{status}; {message}")
    return int(status != "ok")


_CODES = {"bold": "1", "faint": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def shows_colours(stream: Any) -> bool:
    """Whether a stream is a terminal that shows colours, whose user has not said NO_COLOR."""
    terminal = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    return terminal and not os.environ.get("NO_COLOR")


def paint(text: str, style: str, stream: Any = None) -> str:
    """Return text in a style such as "bold cyan", plain where it would not show on the stream, stdout by default."""
    if not text.strip() or not style or not shows_colours(sys.stdout if stream is None else stream):
        return text
    return f"\033[{';'.join(_CODES[word] for word in style.split())}m{text}\033[0m"


def deliver(
    options: Namespace, result: Any, text: Callable[[], str], data: Path | None, picture: Path | None,
    *, save: Mapping[str, Any] = {}, json_object: Mapping[str, Any] = {},
) -> None:  # fmt: skip
    """Write the files that were asked for and give the numbers; a file that cannot be written costs no numbers.

    ``save`` and ``json_object`` are arguments of the methods of these names.
    """
    try:
        if data is not None:
            result.save(data, **save)
        if picture is not None:
            from eqsolve.cli.options import read_drawing
            from eqsolve.plotting.style import figure_of, save_figure

            save_figure(figure_of(result.plot(**read_drawing(options))), picture)
    finally:
        if options.json:
            write_json(result.json_object(**json_object))
        elif shown := text():
            write(shown)
    say_wrote(options, data, picture)


def say_wrote(options: Namespace, *paths: Path | None) -> None:
    """Say which files there are, where that is not the result itself."""
    for path in paths:
        if path is not None and not options.quiet and not options.json:
            say(f"wrote {path}")


def room() -> int | None:
    """Return how many letters a line of the terminal holds; None where output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def flush() -> None:
    """Hand everything written so far to the reader."""
    with _writing():
        if sys.stdout is not None:
            sys.stdout.flush()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:
        raise UsageError(f"cannot write to stdout: {error.strerror or error}") from None


def close_output() -> None:
    """Drop the rest of stdout's buffer, of which Python would complain at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _safe(stream: Any) -> None:
    """Show characters that a terminal cannot, such as ∂ in an ASCII locale, as escapes."""
    if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def lay_out(
    rows: Iterable[Sequence[str]], *, right: bool = False, indent: str = "", styles: Sequence[str] = (), cut: int | None = None
) -> str:
    """Return rows of text as aligned columns; the last column is never padded.

    ``styles`` are those of the columns on a terminal; with ``cut`` the last column ends there, in a dot-dot-dot.
    """
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    looks = [*styles, *[""] * (len(widths) - len(styles))]
    if cut is not None:
        widths[-1] = max(12, cut - len(indent) - sum(width + 2 for width in widths[:-1]))
    lines = []
    for row in table:
        if cut is not None and len(row[-1]) > widths[-1]:
            row[-1] = row[-1][: widths[-1] - 1].rstrip() + "…"
        cells = [cell.rjust(width) if right else cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if not right:
            cells[-1] = cells[-1].rstrip()
        lines.append((indent + "  ".join(paint(cell, look) for cell, look in zip(cells, looks, strict=True))).rstrip())
    return "\n".join(lines)


def number_with_error(value: float, error: float) -> str:
    """Return ``0.09831 ± 1.2e-06``: the value to two digits of its error."""
    if not math.isfinite(value):
        return str(value)
    if not math.isfinite(error):
        return f"{value:.6g} ± ?"
    if error <= 0 or value == 0:
        return f"{value:.10g} ± {error:.2g}"
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 2
    return f"{value:.{min(max(digits, 1), 12)}g} ± {error:.2g}"
