"""Completions: for every shell, of every command, and they complete."""

import shutil
import subprocess

import pytest

from eqsolve.cli import main
from eqsolve.cli.parser import VERBS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_its_options(shell, folder, capsys):
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in VERBS)
    assert "t-max" in out
    if shutil.which(shell):
        done = subprocess.run([shell, "-n", "/dev/stdin"], input=out, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(folder, capsys):
    assert main(["completion", "bash"]) == 0
    (folder / "script").write_text(capsys.readouterr().out)
    assert main(["list", "--names"]) == main(["list", "decay", "--names"]) == 0
    *names, setting = capsys.readouterr().out.split()
    assert setting == "k"
    for words, found in [
        ("so", "solve"), ("solve qua", "quadratic"), ("solve decay --at", "--at --at2 --atol"), ("solve decay --set k", "k="),
        ("sweep decay --grid k", "k="), ("fit decay --free k", "k"), ("fit decay --data d.csv --bounds k=1:2 --free k", "k"),
    ]:  # fmt: skip
        count = len(words.split())
        code = (
            f'eqsolve() {{ case "$*" in "list --names") echo {" ".join(names)};; "list decay --names") echo k;; esac; }};'
            "source ./script;"
            f"COMP_WORDS=(eqsolve {words}); COMP_CWORD={count}; _eqsolve; echo ${{COMPREPLY[@]}}"
        )
        done = subprocess.run(["bash", "-c", code], cwd=folder, capture_output=True, text=True)
        assert done.stdout.strip() == found


def test_another_shell_is_refused(folder, capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish, not for 'tcsh'" in capsys.readouterr().err


def test_names_alone(folder, capsys):
    assert main(["list", "--names"]) == 0
    assert {"decay", "quadratic"} <= set(capsys.readouterr().out.split())
