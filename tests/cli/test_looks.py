"""How the command line looks: aligned columns everywhere, colours on terminals only, examples at the end of every help."""

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main, output
from eqsolve.cli.output import lay_out, paint
from eqsolve.cli.parser import VERBS
from eqsolve.language.loading import list_models

ANSI = re.compile(r"\033\[[0-9;]*m")


class Screen:
    """A terminal of 60 columns."""

    def isatty(self) -> bool:
        return True


def test_columns_are_aligned_and_cut() -> None:
    rows = [("a", "bb", "one two three"), ("ccc", "d", "x")]
    assert lay_out(rows).splitlines() == ["a    bb  one two three", "ccc  d   x"]
    assert lay_out(rows, indent="  ", cut=23).splitlines() == ["  a    bb  one two thr…", "  ccc  d   x"]


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("x", "bold red", Screen()) == "\033[1;31mx\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "bold red", Screen()) == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert paint("x", "bold red", Screen()) == "x"
    monkeypatch.setattr(output, "shows_colours", lambda stream: True)
    plain, coloured = lay_out([("a", "b"), ("cc", "d")]), lay_out([("a", "b"), ("cc", "d")], styles=("cyan", ""))
    assert coloured != plain
    assert ANSI.sub("", coloured) == plain


@pytest.mark.parametrize("command", [["list"], ["--help"], ["solve", "--help"], ["figure"]])
def test_a_pipe_gets_plain_text(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    assert "\033" not in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_ends_in_examples_that_are_commands(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    _, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    lines = examples.splitlines()
    assert lines[0].startswith(f"  eqsolve {verb}")
    assert all(line.split()[1] in VERBS for line in lines)
    marks = {line.index("  # ") for line in lines if "  # " in line}
    assert len(marks) <= 1  # comments stand in one column


HEAVY = ("sweep", "validate", "optimise", "fit", "plot")
OWN = ("stationary", "diagram")  # all examples name a file of the user's own and its parameters
UNTRIED = (*OWN, "list", "explore", "figure", "doctor", "completion")  # a server, or tested elsewhere as they stand


@pytest.mark.parametrize("verb", [
    pytest.param(verb, marks=[pytest.mark.slow] if verb in HEAVY else []) for verb in VERBS if verb not in UNTRIED
])  # fmt: skip
def test_examples_of_the_help_run(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == 0
    lines = capsys.readouterr().out.partition("\nexamples:\n")[2].splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in lines]
    models = {item.name: item.path for item in list_models()}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path" / "to").mkdir(parents=True)
    own = models["dln_infinite_data"].read_text(encoding="utf-8").replace('"dln_infinite_data"', '"my_model"')
    (tmp_path / "path" / "to" / "my_model.py").write_text(own, encoding="utf-8")
    if verb == "plot":
        one = eqsolve.solve("dln_infinite_data", t_max=2)
        for name in ("result.nc", "one.nc", "other.nc"):
            one.save(name)
        eqsolve.sweep("dln_infinite_data", alpha=[0.1, 0.3], t_max=2).save("sweep.nc")
    if verb == "fit":
        model = commands[0][1]
        eqsolve.solve(model, t_max=5).save("runs.csv", at=[0.5, 1, 2, 5])
    if verb == "check":
        commands.remove(["check"])  # all models: test_inspect.py checks them
    for command in commands:
        if command[0] == verb:
            assert main([*command, "--quiet"]) == 0, (command, capsys.readouterr().err)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_sees_colours_and_whole_lines() -> None:
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"TERM": "xterm", "COLUMNS": "72"}
    with subprocess.Popen([sys.executable, "-m", "eqsolve", "list"], stdout=theirs, stderr=theirs, env=environment) as run:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the end, on Linux
                break
            if not part:
                break
            text += part
        assert run.wait() == 0
    os.close(ours)
    lines = text.decode().replace("\r\n", "\n").splitlines()
    assert "\033[1;36mdln" in "\n".join(lines)
    shown = [ANSI.sub("", line) for line in lines[: len(list_models()) + 1]]
    assert max(map(len, shown)) <= 72
    assert any(line.endswith("…") for line in shown)


def test_doctor_groups_what_it_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("eqsolve.cli.doctor._TRIALS", {"one": lambda: (0.0, 1e-9), "another": lambda: (0.0, 1e-9)})
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert heads[:4] == ["installation", "packages", "machine", "self-test against closed forms"]
    assert "all is well" in heads[-1]
    places = {re.match(r"  \w[\w ]*?  +", line).end() for line in text.split("packages\n")[1].split("\n\n")[0].splitlines()}
    assert len(places) == 1
