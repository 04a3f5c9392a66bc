"""`eqsolve doctor`: what it reports, and that a wrong installation is told."""

import json

from eqsolve.cli import main


def test_all_is_well(folder, capsys):
    assert main(["doctor", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["ok"]
    assert {"eqsolve", "Python", "numpy", "BLAS", "threads", "CPUs", "GPU", "cache", "models"} <= set(made["found"])
    assert [trial["ok"] for trial in made["self_test"]] == [True] * 4


def test_text_and_a_failing_trial(folder, capsys, monkeypatch):
    monkeypatch.setattr("eqsolve.doctor._TRIALS", {"good": lambda: (0.0, 1e-9), "bad": lambda: (1.0, 1e-9), "worse": int})
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "good" in out
    assert "FAILED  off by 1.0e+00" in out
    assert "FAILED  TypeError" in out
    assert "does not compute rightly" in out
