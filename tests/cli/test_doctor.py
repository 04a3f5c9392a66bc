"""`eqsolve doctor`: what it reports, and that a wrong installation is told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main


def test_all_is_well(folder, capsys):
    assert main(["doctor", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["ok"]
    assert {"eqsolve", "Python", "numpy", "BLAS", "threads", "CPUs", "GPU", "cache", "models"} <= set(made["found"])
    assert [trial["ok"] for trial in made["self_test"]] == [True] * 5


def test_text_and_a_failing_trial(folder, capsys, monkeypatch):
    trials = {"good": lambda: (0.0, 1e-9), "bad": lambda: (1.0, 1e-9), "worse": int}
    monkeypatch.setattr("eqsolve.cli.doctor._TRIALS", trials)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "good" in out
    assert "FAILED  off by 1.0e+00" in out
    assert "FAILED  TypeError" in out
    assert "does not compute rightly" in out


@pytest.mark.parametrize(("given", "found"), [({}, "OMP_NUM_THREADS=1"), ({"OMP_NUM_THREADS": "2"}, "OMP_NUM_THREADS=2")])
def test_commands_use_one_thread_unless_told_otherwise(given, found, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    env |= {"PYTHONPATH": str(Path(eqsolve.__file__).resolve().parents[1]), **given}
    code = "import os; from eqsolve.cli import main; main(['--version']); print(sorted(os.environ.items()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    name, value = found.split("=")
    assert f"('{name}', '{value}')" in done.stdout
