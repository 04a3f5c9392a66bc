"""What holds for every command: exit codes, where messages go, what is imported, how failures are told."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.cli.parser import VERBS
from eqsolve.language.loading import list_models

ROOT = Path(eqsolve.__file__).resolve().parents[1]
ENV = os.environ | {"PYTHONPATH": str(ROOT)}


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "eqsolve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENV, timeout=120, **options)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"eqsolve {eqsolve.__version__}\n"


def test_help_names_every_command_and_a_model_that_exists(folder, capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"    {verb}" in out for verb in VERBS)
    assert re.search(r"eqsolve solve (\w+)", out)[1] in {item.name for item in list_models()}


@pytest.mark.parametrize("verb", VERBS)
def test_each_command_has_help(verb, folder, capsys):
    assert main([verb, "--help"]) == 0
    assert f"usage: eqsolve {verb}" in capsys.readouterr().out


def test_no_arguments_prints_the_help(folder, capsys):
    assert main([]) == 2
    assert "usage: eqsolve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["slove", "decay"], "there is no command `slove`; did you mean `solve`?"),
        (["-v"], "name a command"),
        (["solve", "decay", "--tmax", "3"], "takes no option `--tmax`; did you mean `--t-max`?"),
        (["solve", "decay", "--gain", "3"], "; parameters are set by `--set NAME=VALUE` (it has: k)"),
        (["show", "decay", "quadratic"], "takes no further argument `quadratic`"),
        (["solve", "decay", "--k", "2"], "takes no option `--k`; a parameter of the model is set by `--set k=2`"),
        (["solve", "decay", "--k=2"], "set by `--set k=2`"),
        (["solve", "decay", "--k"], "set by `--set k=...`"),
        (["solve", "decay", "k=2", "--at", "1"], "no further argument `k=2`; a parameter of the model is set by `--set k=2`"),
        (["solve", "decay", "k", "2"], "set by `--set k=2`"),
        (["solve", "decay", "--kk", "2"], "set by `--set kk=2` (it has: k)"),
        (["solve", "decay", "K=2"], "set by `--set k=2`"),
        (["solve", "decay", "law=Normal(0, 1)"], "set by `--set 'law=Normal(0, 1)'` (it has: k)"),
        (["explain", "decay", "k=2"], "set in solve, sweep, show and validate, by `--set k=2`"),
        (["sweep", "decay", "--k", "1,2"], "an axis of a sweep is given by `--grid k=1,2`"),
        (["sweep", "decay", "--grid", "k=1,2", "--k", "3"], "set by `--set k=3`"),
        (["solve", "decay", "--hlep"], "takes no option `--hlep`; did you mean `--help`?"),
        (["solve", "decay", "--at", "1", "2"], "separated by commas, without blanks, such as --at 0.1,1,10"),
        (["solve", "decay", "--set", "k=1,b=2"], "settings separated by blanks, `--set k=1 b=2`"),
        (["solve", "decay", "--set", "k", "=", "2"], "without blanks around the ="),
        (["solve", "decay", "--set", "rtol=1e-3"], "it is an option: rtol=..., on the command line --rtol ..."),
        (["solve", "decay", "--set", "y=1"], "there `y` is a one-time function, which is not set (it has: k)"),
        (["solve", "dln", "--set", "w_star=Bernoulli"], "the law Bernoulli needs its parameters; usage: Bernoulli(p)"),
        (
            ["solve", "dln", "--set", "w_star=Gaussian(0, 1)"],
            "there is no law or function `Gaussian`; it is called `Normal` here",
        ),
        (["solve", "dln", "--set", "w_star=Zipf(2)"], "there is no law or function `Zipf` (there are: "),
        (["solve", "decay", "-x"], "takes no option `-x` (see"),
        (["solve", "--set", "k=1", "decay"], "which model? It is named before --set"),
        (["plot", "a.nc", "--linx"], "takes no option `--linx`; did you mean `--no-logx`?"),
        (["solve", "decay", "--logy"], "--logy is about the picture; name its file: --plot F.png"),
        (["sweep", "decay", "--grid", "k=1,2", "--map", "--out", "s.nc"], "--map is about the picture"),
        (["sweep", "decay", "--grid", "q=1,2"], "`q`"),  # before the file that is missing
        (["sweep", "decay", "--grid", "k=1,2"], "name a file for the result"),
        (["solve", "decay", "--out", "x.foo"], "--out: expected a file name *.nc or *.csv or *.parquet or *.json"),
        (["show", "decya"], "unknown model `decya`; did you mean `decay`?"),
        (["show", "models/nothing.py"], "there is no model file 'models/nothing.py'"),
    ],
)
def test_bad_command_lines_are_explained(arguments, said, folder, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err


def test_options_for_messages_stand_before_or_after_the_verb(folder, capsys):
    assert main(["-v", "show", "decay"]) == 0
    assert main(["show", "decay", "-vv", "-q"]) == 0


def test_an_error_keeps_its_traceback_for_debug(folder, capsys, monkeypatch):
    assert main(["show", "nothing", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("EQSOLVE_DEBUG", "1")
    assert main(["show", "nothing"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_unexpected_exception_asks_to_be_reported(folder, capsys, monkeypatch):
    def fail(name):
        raise RuntimeError("a bug")

    monkeypatch.setattr("eqsolve.cli.inspect.load", fail)
    assert main(["show", "decay"]) == 70
    err = capsys.readouterr().err
    assert "unexpected RuntimeError: a bug" in err
    assert "report" in err
    assert "Traceback" not in err


def test_interrupted(folder, capsys, monkeypatch):
    def interrupt(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("eqsolve.cli.inspect.load", interrupt)
    assert main(["show", "decay"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_that_goes_away_is_no_error(folder):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "eqsolve", "list"], stdout=writing, stderr=subprocess.PIPE, text=True, env=ENV
    )
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="needs a shell with pipes")
def test_output_can_be_cut_by_head(folder):
    done = subprocess.run(
        f"{sys.executable} -m eqsolve --help | head -n 1", shell=True, capture_output=True, text=True, env=ENV
    )
    assert done.stdout.startswith("usage: eqsolve")
    assert done.stderr == ""


def test_an_ascii_terminal_gets_escapes(folder, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert main(["solve", "decay", "--at", "1"]) == 0
    assert b"\\xb1" in written.getvalue()


def test_list_imports_nothing_heavy(folder):
    code = (
        "import sys; from eqsolve.cli import main; code = main(['list']);"
        "heavy = ('sympy', 'numpy', 'scipy', 'xarray', 'matplotlib');"
        "print(code, [name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_in_a_process_of_its_own(folder):
    done = run("list", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    names = [item["name"] for item in json.loads(done.stdout)["models"]]
    assert {"decay", "quadratic", "unsound"} <= set(names)
    assert run("show", "nothing").returncode == 2


@pytest.mark.parametrize("verb", VERBS)
def test_each_command_shows_an_example(verb, folder, capsys):
    assert main([verb, "--help"]) == 0
    assert f"examples:\n  eqsolve {verb}" in capsys.readouterr().out


def test_colours_only_on_a_terminal_that_wants_them(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["show", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("\033[1;31merror:\033[0m unknown model")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["show", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown model")
