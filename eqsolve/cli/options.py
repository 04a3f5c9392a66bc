"""What a command consists of, and the options that several share; their texts are read, never evaluated."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqsolve.errors import ParameterError, UsageError, did_you_mean, quote
from eqsolve.options import OPTIONS, Option, Takes, cli_flag

Run = Callable[[Namespace], int]


@dataclass(frozen=True)
class Verb:
    """One command: its arguments, its help, and the function that returns its exit code."""

    summary: str
    # after `eqsolve`, in the order in which one would try them; {model} is an existing model,
    # {parameter} a real parameter of it, {finite} a model that can be validated, {finite_parameter} one
    # of its parameters; a comment follows #
    examples: tuple[str, ...]
    known: Callable[[Namespace], int | None]  # the exit code where all is done already
    run: Run
    own: Mapping[str, Mapping[str, Any]]  # its own arguments, as argparse takes them
    shared: Mapping[str, Any]  # those of ``add_shared``


VERBS: dict[str, Verb] = {}


def command(
    summary: str, *examples: str, known: Callable[[Namespace], int | None] = lambda _: None,
    own: Mapping[str, Mapping[str, Any]] = {}, **shared: Any,
) -> Callable[[Run], Run]:  # fmt: skip
    """Declare that a function ``run_NAME`` carries out the command NAME, which its docstring describes."""

    def declare(run: Run) -> Run:
        VERBS[run.__name__.removeprefix("run_")] = Verb(summary, examples, known, run, own, shared)
        return run

    return declare


def value(metavar: str, text: str, **more: Any) -> dict[str, Any]:
    """Return an argument of one word."""
    return {"metavar": metavar, "help": text, **more}


def several(metavar: str, text: str) -> dict[str, Any]:
    """Return an option that takes several words, and may be given several times."""
    return {"nargs": "+", "action": "extend", "default": [], "metavar": metavar, "help": text}


def switch(text: str) -> dict[str, Any]:
    """Return an option without a value."""
    return {"action": "store_true", "help": text}


FIGURES = (".png", ".svg", ".pdf")
DATA = (".nc", ".csv", ".parquet", ".json")
SCALES = {
    f"--log{axis}": dict(action=BooleanOptionalAction, default=None, help=f"logarithmic or linear {axis} axis of the plot")
    for axis in "xy"
}
SWEEP_DRAWING = {
    "--map": switch("of a sweep over two parameters: always draw a heat map"),
    "--x": value("NAME", "of a sweep: the parameter on the x axis of the plot"),
}


def add_shared(
    parser: ArgumentParser, options: Mapping[str, str] = {}, *, model: bool = True, settings: str = "", out: str = "",
    plot: str = "", json: bool = True,
) -> None:  # fmt: skip
    """Add what several commands share: the model, ``--set``, options of the table below, files, and ``--json``.

    An option comes with what it means to the command; with no text, with what it means to a solve.
    """
    given: dict[str, dict[str, Any]] = {}
    if model:
        given["model"] = value("M", "a model's name, or the path of its file")
    if settings:
        example = 'numbers (0.3, 1/3, sqrt(2)), or laws for what is random ("Bernoulli(0.1)")'
        given["--set"] = several("NAME=VALUE", f"{settings}: {example}") | {"dest": "settings"}
    given |= {cli_flag(name): value(_TABLE[name].metavar, text or _TABLE[name].about) for name, text in options.items()}
    if out:
        given["--out"] = value("F.nc", f"{out}: netCDF, or a table *.csv, *.parquet or *.json")
    if plot:
        given |= {"--plot": value("F.png", f"{plot} (*.png, *.svg or *.pdf)"), **SCALES}
    if json:
        given["--json"] = switch("print one JSON object on stdout and nothing else")
    for name, how in given.items():
        parser.add_argument(name, **how)
    parser.set_defaults(table=tuple(options))


def read_drawing(options: Namespace) -> dict[str, Any]:
    """Return what was asked for of a picture, as arguments of ``plot``."""
    given = {name: getattr(options, name, None) for name in ("logx", "logy", "x")}
    given["kind"] = "map" if getattr(options, "map", False) else None
    return {name: value for name, value in given.items() if value is not None}


def read_options(options: Namespace) -> dict[str, Any]:
    """Return the values of those options of a command that were given."""
    given = {name: getattr(options, name) for name in options.table}
    if given.get("observables") == "all":  # as without it; what is shown is decided where it is
        given["observables"] = None
    return {name: _READERS[_TABLE[name].takes](text, cli_flag(name)) for name, text in given.items() if text is not None}


def by_name(words: Iterable[str], option: str, takes: str) -> dict[str, str]:
    """Return the texts of NAME=TEXT by name, each given once."""
    texts: dict[str, str] = {}
    for word in words:
        name, sign, text = (part.strip() for part in word.partition("="))
        if not sign or not name:
            raise UsageError(f"{option} takes {takes}, got {quote(word)}")
        if name in texts:
            raise UsageError(f"{option} gives `{name}` twice: {quote(texts[name])} and {quote(text)}")
        texts[name] = text
    return texts


def read_settings(words: Iterable[str]) -> dict[str, str]:
    """Return the texts given for each name; they are read where the model is known."""
    for word in (words := list(words)):
        name, sign, text = word.partition("=")
        if not sign or not name.strip():
            hint = f"; did you mean {word}=...?" if word.isidentifier() else ""
            raise UsageError(
                f"--set takes NAME=VALUE such as alpha=0.3, without blanks around the =, got {quote(word)}{hint} "
                "(the model comes before --set)"
            )
        if further := re.search(r",\s*(?=[A-Za-z_]\w*=)", text):
            apart = f"{name}={text[: further.start()]} {text[further.end() :]}"
            raise UsageError(f"--set takes settings separated by blanks, `--set {apart}`; got {quote(word)}")
    return by_name(words, "--set", "NAME=VALUE such as alpha=0.3")


def read_number(text: str, option: str, example: str = "a number such as 20, 1/3 or 1e-4") -> float:
    """Return a finite number from text such as ``1/3``."""
    try:
        number = float(text)  # what is written in digits needs no algebra
    except ValueError:
        from eqsolve.language.binding import read_value

        try:
            number = float(read_value(text))
        except (ParameterError, TypeError):
            raise UsageError(f"{option}: cannot read {quote(text.strip())} as a number; expected {example}") from None
    if number - number != 0:
        raise UsageError(f"{option}: expected a finite number, got {quote(text.strip())}")
    return number


def _read_whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option}: expected a whole number, got {quote(text)}") from None


def _read_times(text: str, option: str) -> list[float]:
    """Return times in the order given; an entry with colons is a range."""
    times: list[float] = []
    example = "times separated by commas, such as 0.1,1/3, or a range 0:10:21"
    for entry in text.split(","):
        words: list[float | str] = [entry]
        if ":" in entry:
            from eqsolve.sweeping.run import read_text

            words = read_text(option, entry)  # a colon in brackets makes no range
        times += [word if isinstance(word, float) else read_number(word, option, example) for word in words]
    return times


def _read_pairs(text: str, option: str) -> list[tuple[float, float]]:
    example = 'pairs t,t\' separated by semicolons, such as "1,0.5;2,2"'
    return [_read_two(entry, option, example, " as a pair of times") for entry in text.split(";")]


def _read_two(text: str, option: str, example: str, what: str = "") -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(f"{option}: cannot read {quote(text.strip())}{what}; expected {example}")
    return read_number(parts[0], option, example), read_number(parts[1], option, example)


def _read_seconds(text: str, option: str) -> float:
    from eqsolve.solvers.options import read_seconds

    return read_seconds(text, option)


def _read_values(text: str, option: str) -> dict[str, float]:
    words = by_name(text.split(","), option, "NAME=VALUE,... such as m=0.9,q=0.8")
    return {name: read_number(word, f"{option} {name}") for name, word in words.items()}


def _read_region(text: str, option: str) -> tuple[float, float] | None:
    """Return the lowest real part and the largest imaginary part of a search."""
    from eqsolve.solvers.options import read_region

    example = "LOW,HEIGHT such as -3,20: the part Re p >= LOW, |Im p| <= HEIGHT of the plane"
    return read_region(_read_two(text, option, example), option)


_READERS: dict[str, Callable[[str, str], Any]] = {
    "number": read_number,
    "whole": _read_whole,
    "times": _read_times,
    "pairs": _read_pairs,
    "names": lambda text, _: [name.strip() for name in text.split(",")],
    "values": _read_values,
    "region": _read_region,
    "seconds": _read_seconds,
    "text": lambda text, _: text,
}
_MORE: tuple[tuple[str, Takes, str], ...] = (
    ("seeds", "whole", "N"), ("d", "whole", "D"), ("workers", "whole", "N"), ("data", "text", "WHAT"),
    ("observable", "text", "NAME"), ("tolerance", "number", "R"), ("constants", "text", "HOW"), ("flow", "text", "F"),
)  # fmt: skip
_TABLE = {name: option for name, option in OPTIONS.items() if option.takes}
_TABLE |= {name: Option("", takes, metavar) for name, takes, metavar in _MORE}
"""Options by the names of their keyword arguments: those of a solve, and of other commands."""


def read_shared(options: Namespace) -> tuple[Path | None, Path | None, dict[str, str], dict[str, Any]]:
    """Return where numbers and picture go, the settings, and the options that were given."""
    return *destinations(options), read_settings(options.settings), read_options(options)


def destinations(options: Namespace, data: tuple[str, ...] = DATA) -> tuple[Path | None, Path | None]:
    """Return where the numbers and the picture go, having made sure that they can."""
    numbers = check_destination(getattr(options, "out", None), "--out", data)
    if options.plot is None and (idle := list(read_drawing(options))):
        what = "map" if idle[0] == "kind" else idle[0]
        raise UsageError(f"--{what} is about the picture; name its file: --plot F.png")
    return numbers, check_destination(options.plot, "--plot", FIGURES)


def check_destination(path: str | None, option: str, suffixes: tuple[str, ...]) -> Path | None:
    """Return where a file is to be written, having made sure, before any work, that it can be."""
    if path is None:
        return None
    target = Path(path)
    if target.suffix.lower() not in suffixes:
        names = " or ".join(f"*{suffix}" for suffix in suffixes)
        got = f"{target.suffix!r}{did_you_mean(target.suffix, suffixes)}" if target.suffix else "no suffix"
        raise UsageError(f"{option}: expected a file name {names}, got {path!r} with {got}")
    if target.suffix.lower() == ".parquet":
        from eqsolve.results.archive import check_name

        check_name(path)
    if target.is_dir():
        raise UsageError(f"{option}: {path!r} is a folder, not a file")
    if not target.parent.is_dir():
        raise UsageError(f"{option}: cannot write {path!r}, because there is no folder {str(target.parent)!r}")
    if not os.access(target.parent, os.W_OK):
        raise UsageError(f"{option}: cannot write {path!r}: the folder {str(target.parent)!r} is not writable")
    return target
