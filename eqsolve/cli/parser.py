"""The grammar of the command line: verbs, the options they share, misspelt words."""

import argparse
import contextlib
import importlib
import inspect
import re
import shlex
import shutil
from collections.abc import Iterable
from typing import NoReturn

from eqsolve._version import __version__
from eqsolve.cli import options as declared
from eqsolve.cli.output import paint
from eqsolve.errors import EqsolveError, UsageError, demand_known, did_you_mean
from eqsolve.language.loading import ModelFile, list_models, load

VERBS = {  # and the modules that hold them
    "list": "inspect", "show": "inspect", "check": "inspect", "explain": "inspect", "solve": "solve", "longtime": "longtime",
    "stationary": "longtime", "diagram": "sweep", "validate": "validate", "sweep": "sweep", "optimise": "fit", "fit": "fit",
    "plot": "plot", "explore": "explore", "figure": "figure", "new": "doctor", "cite": "inspect", "doctor": "doctor",
    "completion": "completion",
}  # fmt: skip


def _layout(prog: str) -> argparse.HelpFormatter:
    """Lay a help text out: explanations in one column, lines as wide as the terminal, within limits."""
    width = max(60, min(shutil.get_terminal_size().columns - 2, 110))
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=width)


class _Parser(argparse.ArgumentParser):
    """argparse, with our own error type and examples made of the models that are really there."""

    examples: tuple[str, ...] = ()

    def error(self, message: str) -> NoReturn:
        if message.endswith("required: M"):
            message = "which model? `eqsolve list` shows what there is"
            if "--set" in self._option_string_actions:
                message = "which model? It is named before --set, which takes all the words after it"
        raise UsageError(f"{message} (see `{self.prog} --help`)")

    def format_help(self) -> str:
        self.epilog = _examples(self.examples)
        return _painted(super().format_help())


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options of one command; its function is ``run``."""
    if not arguments:
        _build(VERBS)[0].print_help()
        raise SystemExit(2)
    verb = next((word for word in arguments if not word.startswith("-")), None)
    if verb is not None:
        demand_known([verb], VERBS, "there is no command `{}`", "there are")
    parser, verbs = _build(VERBS if verb in (None, "completion") else (verb,))
    # argparse takes the second word of ``--region -3,20`` for an option: they are joined into one
    joined = re.sub(r"(^|\0)(--[a-z][a-z0-9-]*)\0(?=-\.?\d)", r"\1\2=", "\0".join(arguments))
    options, rest = parser.parse_known_args(joined.split("\0"))
    if options.verb is None:
        raise UsageError(f"name a command: {', '.join(VERBS)} (see `eqsolve --help`)")
    if rest:
        raise UsageError(f"{_superfluous(rest, options, verbs[options.verb])} (see `eqsolve {options.verb} --help`)")
    return options


def _superfluous(rest: list[str], options: argparse.Namespace, parser: argparse.ArgumentParser) -> str:
    """Say what is wrong with words that belong to no option, and how they were probably meant."""
    wrong = next((word for word in rest if word.startswith("-")), rest[0])
    is_option = wrong.startswith("-")
    bare, equals, value = wrong.lstrip("-").partition("=")
    what = f"option `{wrong.partition('=')[0]}`" if is_option else f"further argument `{wrong}`"
    problem = f"`eqsolve {options.verb}` takes no {what}"
    flags = sorted({text[2:] for action in parser._actions for text in action.option_strings if text.startswith("--")})
    known = _settings_of(getattr(options, "model", None))
    name = next((item for item in known if item.lower() == bare.replace("-", "_").lower()), None)
    if name is None and (linear := re.sub("^lin(ear)?-?", "no-log", bare)) != bare and linear in flags:
        return f"{problem}; did you mean `--{linear}`?"
    if name is None and is_option and (near := did_you_mean(bare, flags)):
        more = f"; parameters are set by `--set NAME=VALUE` (it has: {', '.join(known)})" if known else ""
        return f"{problem}{near.replace('`', '`--', 1)}{more}"
    if not is_option and re.fullmatch(r"[-+.,;0-9e]+", wrong):
        return f"{problem}; several values are separated by commas, without blanks, such as --at 0.1,1,10"
    if name is None and not equals and not (is_option and known and len(bare) > 1):
        return problem
    name = name or bare.replace("-", "_")
    after = rest[rest.index(wrong) + 1 :]
    if not equals and after and re.match(r"[^-]|-?[.0-9]", after[0]):
        value = after[0]
    given = {name: value}
    if not is_option:  # the words that follow are meant alike
        given |= {key: text for key, sign, text in (word.partition("=") for word in after) if sign and key.isidentifier()}
    words = " ".join(shlex.quote(f"{key}={text}") if text else f"{key}=..." for key, text in given.items())
    has = f" (it has: {', '.join(known)})" if known and not set(given) <= set(known) else ""
    if "grid" in flags and any(mark in re.sub(r"\(.*\)", "", text) for text in given.values() for mark in ",:"):
        return f"{problem}; an axis of a sweep is given by `--grid {words}`{has}"
    if "set" in flags:
        return f"{problem}; a parameter of the model is set by `--set {words}`{has}"
    return f"{problem}; a parameter of a model is set in solve, sweep, show and validate, by `--set {words}`{has}"


def _settings_of(model: str | None) -> list[str]:
    with contextlib.suppress(EqsolveError):
        return list(load(model).settable) if isinstance(model, str) else []
    return []


def _build(names: Iterable[str]) -> tuple[_Parser, dict[str, _Parser]]:
    for name in names:  # only the modules of those asked for are imported
        importlib.import_module(f"eqsolve.cli.{VERBS[name]}")
    verbs = {name: declared.VERBS[name] for name in names}
    parser = _Parser(
        prog="eqsolve",
        description="Solve self-consistent equations declared as in a paper, with error estimates.",
        formatter_class=_layout,
        allow_abbrev=False,
    )
    parser.examples = tuple(verb.examples[0] for verb in verbs.values())
    parser.add_argument("--version", action="version", version=f"eqsolve {__version__}")
    _add_common(parser, default=None)
    subparsers = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands", parser_class=_Parser)
    children: dict[str, _Parser] = {}
    for name, verb in verbs.items():
        about = inspect.getdoc(verb.run)
        child = subparsers.add_parser(name, help=verb.summary, description=about, formatter_class=_layout, allow_abbrev=False)
        child.examples = verb.examples
        for argument, how in verb.own.items():
            child.add_argument(argument, **how)
        declared.add_shared(child, **verb.shared)
        _add_common(child, default=argparse.SUPPRESS)  # so that `-v` counts before the verb and after it
        child.set_defaults(run=verb.run, known=verb.known, commands=children)
        children[name] = child
    return parser, children


def _add_common(parser: argparse.ArgumentParser, default: str | None) -> None:
    group = parser.add_argument_group("messages")
    zero, no = (default, default) if default else (0, False)
    group.add_argument("-v", "--verbose", action="count", default=zero, help="say more on stderr; -vv says all")
    group.add_argument("-q", "--quiet", action="store_true", default=no, help="say only errors on stderr")
    group.add_argument("--debug", action="store_true", default=no, help="show a traceback with an error")


def _examples(lines: tuple[str, ...]) -> str | None:
    models = _chosen_models()
    if not lines or not models:
        return None
    rows = [line.format(**models).partition("  # ")[::2] for line in lines]
    width = max((len(command) for command, comment in rows if comment), default=0)
    return "\n  eqsolve ".join(["examples:", *(f"{one:{width}}  # {why}" if why else one for one, why in rows)])


def _chosen_models() -> dict[str, str]:
    """Return what the placeholders of examples stand for; model files are read, not run.

    ``model`` is a system with a real parameter, preferably with the observable `E_test` and without
    integrals, which is solved in seconds; ``finite`` preferably one with a finite model.
    """
    texts = {}
    for item in list_models():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            texts[item] = item.path.read_text(encoding="utf-8")
    if not texts:
        return {}
    real = re.compile(r'\bparam\(\s*"(\w+)"(?![^)]*\binteger=True)')

    def best(*marks: str) -> tuple[str, str]:
        def score(item: ModelFile) -> tuple[int, bool]:
            text = texts[item]
            return (item.kind == "System") + bool(real.search(text)) + sum(mark in text for mark in marks), "Int(" not in text

        item = max(texts, key=score)
        return item.name, parameter[1] if (parameter := real.search(texts[item])) else "NAME"

    names = ("model", "parameter", "finite", "finite_parameter")
    return dict(zip(names, (*best('"E_test"'), *best("flow=", "exact=")), strict=True))


def _painted(text: str) -> str:
    """Return a help text with headings, commands, options and comments in colours, where stdout shows them."""
    lines, examples = [], False
    for line in text.splitlines():
        if re.fullmatch(r"[a-z][a-z ]*:", line):
            examples = line == "examples:"
            line = paint(line, "bold")
        elif line.startswith("usage: "):
            line = paint("usage:", "bold") + line.removeprefix("usage:")
        elif examples:
            command, mark, comment = line.partition("  # ")
            line = paint(command, "cyan") + (paint(f"{mark}{comment}", "faint") if mark else "")
        elif entry := re.match(r"( {2,6})(\S.*?)(?=  |$)(.*)", line):
            line = f"{entry[1]}{paint(entry[2], 'cyan')}{entry[3]}"
        lines.append(line)
    return "\n".join(lines) + "\n"
