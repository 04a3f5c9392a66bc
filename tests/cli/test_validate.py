"""``eqsolve validate``."""

import json
import runpy
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.results.words import percent

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQSOLVE_PATH", str(ROOT / "models"))
    return tmp_path


def test_says_agrees_and_draws(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["linear_regression", "--set", "delta=0.5", "--d", "60", "--seeds", "4", "--at", "0.3,1"]
    assert main(["validate", *words, "--json", "--plot", "v.png", "--out", "v.nc"]) == 0
    out = capsys.readouterr().out
    made = json.loads(out)
    assert made["verdict"] == "agrees"
    assert made["observables"]["E_test"]["verdict"] == "agrees"
    assert (models / "v.png").is_file()
    assert eqsolve.open("v.nc").t.tolist() == [0.3, 1]
    assert main(["validate", *words]) == 0
    text = capsys.readouterr().out
    assert text.startswith("linear_regression: agrees; n = 30, d = 60, 4 draws, ")
    assert "verdict: agrees" in text
    assert "finite size" in text
    for column in ("theory, finite size:", "bias:", "z:", "could see:"):
        assert column in text  # what it means
    seen = made["observables"]["E_test"]["detectable"]
    best, worst = seen.index(min(seen)), seen.index(max(seen))
    ends = " to ".join(f"{percent(seen[k])} (t = {[0.3, 1][k]:g})" for k in (best, worst))
    assert f"E_test: a deviation of {ends} would have been detected" in text


def test_a_wrong_theory_disagrees(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "models" / "linear_regression.py").read_text()
    wrong = text.replace("+ Int(R_w(tp, s) * C_f(t, s)", "- Int(R_w(tp, s) * C_f(t, s)")
    assert wrong != text
    (models / "wrong.py").write_text(wrong.replace('"linear_regression",', '"wrong",'))
    assert main(["validate", "wrong.py", "--d", "100", "--seeds", "6", "--at", "1,3", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "disagrees"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pspin"], "names no microscopic model"),
        (["linear_regression", "--d", "many"], "--d: expected a whole number"),
        (["linear_regression", "--data", "nothing.csv", "--at", "1"], "there is no file 'nothing.csv'"),
        (["linear_regression", "--at", "1", "--plot", "v.txt"], "--plot: expected a file name"),
        (["dln_fixed_point_min_norm", "--at", "1"], "is a FixedPoint and has no time"),
        (["linear_regression", "--at", "1", "--d", "20", "--set", "delt=1"], "did you mean `delta`"),
    ],
)
def test_bad_input_exits_with_2(models: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["validate", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert not (models / "v.txt").exists()


@pytest.mark.slow
def test_the_demonstration_would_detect_deviations(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a newcomer sees first says that it agrees, and that it could have told otherwise."""
    demo = runpy.run_path(str(ROOT / "dev.py"))["DEMO"]
    with caplog.at_level("WARNING", "eqsolve"):
        assert main(["validate", *demo]) == 0
    assert caplog.text == ""
