"""The command that prints what a shell needs to complete eqsolve's commands, options and models."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from eqsolve.cli.options import command, value
from eqsolve.cli.output import write
from eqsolve.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

_SCRIPT = """\
{head}
_eqsolve() {{
    local {begin}verb="" model="" option="" each
    for each in {before}; do
        case "$each" in
            -*) option="$each" ;;
            *) if [[ -z "$verb" ]]; then verb="$each"; elif [[ -z "$model" && -z "$option" ]]; then model="$each"; fi ;;
        esac
    done
    if [[ "{word}" != -* && "{word}" != *=* && -n "$model" ]]; then
        case "$option" in
            --set|--grid) {settings}; return ;;
            --free|--derivatives) {names}; return ;;
        esac
    fi
    case "$verb" in
        "") {verbs} ;;
{cases}
    esac
}}
{tail}
"""
_CASE = """\
        {verb})
            if [[ "{word}" == -* ]]; then {options}
            else {rest}
            fi ;;"""
_BASH = {
    "head": '# eqsolve: completions for bash. To use them: eval "$(eqsolve completion bash)"',
    "begin": 'word="${COMP_WORDS[COMP_CWORD]}" ', "before": '"${COMP_WORDS[@]:1:COMP_CWORD-1}"', "word": "$word",
    "tail": "complete -o default -F _eqsolve eqsolve",
}  # fmt: skip
_ZSH = {
    "head": '#compdef eqsolve\n# eqsolve: completions for zsh. To use them: eval "$(eqsolve completion zsh)"',
    "begin": "", "before": '"${words[@]:1:$((CURRENT-2))}"', "word": "$PREFIX",
    "tail": "(( $+functions[compdef] )) && compdef _eqsolve eqsolve",
}  # fmt: skip


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
    bash, parts = shell == "bash", _BASH if shell == "bash" else _ZSH

    def offer(words: str, more: str = "") -> str:
        return f'COMPREPLY=($(compgen {more}-W "{words}" -- "$word"))' if bash else f"compadd {more}-- {words}"

    names = '$(eqsolve list "$model" --names 2>/dev/null)'
    cases = []
    for verb, parser in parsers.items():
        rest = [offer("$(eqsolve list --names 2>/dev/null)")] * _takes_model(parser) + ([] if bash else ["_files"])
        offered = {"options": offer(" ".join(_options(parser))), "rest": "; ".join(rest) or ":"}
        cases.append(_CASE.format(verb=verb, word=parts["word"], **offered))
    return _SCRIPT.format(
        **parts, verbs=offer(f"{' '.join(parsers)} --help --version"), names=offer(names), cases="\n".join(cases),
        settings="compopt -o nospace 2>/dev/null; " * bash + offer(names, "-S = "),
    )  # fmt: skip


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
