"""The command that prints what a shell needs to complete eqsolve's commands, options and models."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from eqsolve.cli.options import command, value
from eqsolve.cli.output import write
from eqsolve.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

_LOOP = """\
        case "$each" in
            -*) option="$each" ;;
            *) if [[ -z "$verb" ]]; then verb="$each"; elif [[ -z "$model" && -z "$option" ]]; then model="$each"; fi ;;
        esac
    done
"""
_BASH = """\
# eqsolve: completions for bash. To use them: eval "$(eqsolve completion bash)"
_eqsolve() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" verb="" model="" option="" each
    for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{loop}    if [[ "$word" != -* && "$word" != *=* && -n "$model" ]]; then
        case "$option" in
            --set|--grid)
                compopt -o nospace 2>/dev/null
                COMPREPLY=($(compgen -S = -W "$(eqsolve list "$model" --names 2>/dev/null)" -- "$word")); return ;;
            --free|--derivatives)
                COMPREPLY=($(compgen -W "$(eqsolve list "$model" --names 2>/dev/null)" -- "$word")); return ;;
        esac
    fi
    case "$verb" in
        "") COMPREPLY=($(compgen -W "{verbs} --help --version" -- "$word")) ;;
{cases}
    esac
}}
complete -o default -F _eqsolve eqsolve
"""
_BASH_CASE = """\
        {verb})
            if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "{options}" -- "$word"))
            elif [[ {takes_model} -eq 1 ]]; then COMPREPLY=($(compgen -W "$(eqsolve list --names 2>/dev/null)" -- "$word"))
            fi ;;"""
_ZSH = """\
#compdef eqsolve
# eqsolve: completions for zsh. To use them: eval "$(eqsolve completion zsh)"
_eqsolve() {{
    local verb="" model="" option="" each
    for each in "${{words[@]:1:$((CURRENT-2))}}"; do
{loop}    if [[ "$PREFIX" != -* && "$PREFIX" != *=* && -n "$model" ]]; then
        case "$option" in
            --set|--grid) compadd -S = -- $(eqsolve list "$model" --names 2>/dev/null); return ;;
            --free|--derivatives) compadd -- $(eqsolve list "$model" --names 2>/dev/null); return ;;
        esac
    fi
    case "$verb" in
        "") compadd -- {verbs} --help --version ;;
{cases}
    esac
}}
(( $+functions[compdef] )) && compdef _eqsolve eqsolve
"""
_ZSH_CASE = """\
        {verb})
            if [[ "$PREFIX" == -* ]]; then compadd -- {options}
            else
                (( {takes_model} )) && compadd -- $(eqsolve list --names 2>/dev/null)
                _files
            fi ;;"""


@command(
    "print completions for a shell",
    "completion bash",
    "completion fish | source  # in a fish shell",
    model=False,
    json=False,
    own={"shell": value("SHELL", "bash, zsh or fish")},
)
def run_completion(options: Namespace) -> int:
    """Print what a shell needs to complete commands, options, the names of models and of their parameters.
    For bash put this line into ~/.bashrc: eval "$(eqsolve completion bash)"
    """
    if options.shell not in SHELLS:
        raise UsageError(f"there are completions for {', '.join(SHELLS)}, not for {options.shell!r}")
    write((_fish if options.shell == "fish" else _sourced)(options.shell, options.commands).rstrip())
    return 0


def _sourced(shell: str, parsers: dict[str, ArgumentParser]) -> str:
    whole, case = (_BASH, _BASH_CASE) if shell == "bash" else (_ZSH, _ZSH_CASE)
    cases = [
        case.format(verb=verb, options=" ".join(_options(parser)), takes_model=int(_takes_model(parser)))
        for verb, parser in parsers.items()
    ]
    return whole.format(verbs=" ".join(parsers), cases="\n".join(cases), loop=_LOOP)


def _fish(shell: str, parsers: dict[str, ArgumentParser]) -> str:
    lines = ["# eqsolve: completions for fish. To use them: eqsolve completion fish | source"]
    alone = f"not __fish_seen_subcommand_from {' '.join(parsers)}"
    for verb, parser in parsers.items():
        summary = (parser.description or "").split("\n")[0].replace("'", "\\'")
        lines.append(f"complete -c eqsolve -n '{alone}' -f -a {verb} -d '{summary}'")
        here = f"__fish_seen_subcommand_from {verb}"
        if _takes_model(parser):
            lines.append(f"complete -c eqsolve -n '{here}' -a '(eqsolve list --names 2>/dev/null)'")
        names = "(eqsolve list (commandline -opc)[3] --names 2>/dev/null)"
        for option in _options(parser):
            end = {"--set": "=", "--grid": "=", "--free": "", "--derivatives": ""}.get(option)
            more = "" if end is None else f" -x -a '{names}{end}'"
            lines.append(f"complete -c eqsolve -n '{here}' -l {option[2:]}{more}")
    return "\n".join(lines)


def _options(parser: ArgumentParser) -> Iterable[str]:
    return sorted({text for action in parser._actions for text in action.option_strings if text.startswith("--")})


def _takes_model(parser: ArgumentParser) -> bool:
    return any(action.dest in ("model", "source") and action.help != argparse.SUPPRESS for action in parser._actions)
