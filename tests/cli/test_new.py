"""new: a variant file that passes the check as it stands."""

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.language.loading import load


def test_writes_a_variant_that_can_be_changed(folder, capsys):
    assert main(["new", "growth", "--from", "decay"]) == 0
    assert "models/growth.py" in capsys.readouterr().out.replace("\\", "/")
    file = folder / "models" / "growth.py"
    assert main(["check", "growth"]) == 0
    made = load("growth")
    assert made.equations == load("decay").equations
    assert made.name == "growth"
    file.write_text(file.read_text().replace("-k * y(t)", "k * y(t)"))
    k, y, t = (made.names[name] for name in ("k", "y", "t"))
    assert load("growth")["y"].rhs == k * y(t)


def test_makes_the_folder_where_there_is_none(folder, capsys, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("EQSOLVE_PATH", str(folder / "models"))
    assert main(["new", "growth", "--from", "decay"]) == 0
    assert "Variant of decay" in (elsewhere / "models" / "growth.py").read_text()
    assert eqsolve.load("growth").name == "growth"


def test_a_source_given_by_path_is_loaded_by_path(folder, capsys, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["new", "growth", "--from", "../models/decay.py"]) == 0
    assert main(["check", "growth"]) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("decay", "exists already"),
        ("3x", "cannot name a model"),
        ("class", "cannot name a model"),
        ("_hidden", "cannot name a model"),
        ("../escape", "cannot name a model"),
        ("a.b", "cannot name a model"),
        ("", "cannot name a model"),
    ],
)
def test_bad_names_are_refused(name, said, folder, capsys, contents):
    before = {path: (folder / path).read_bytes() for path in contents() if path.endswith(".py")}
    listed = contents()
    assert main(["new", name, "--from", "decay"]) == 2
    assert said in capsys.readouterr().err
    assert contents() == listed
    assert all((folder / path).read_bytes() == content for path, content in before.items())


def test_a_name_taken_elsewhere_is_refused(folder, capsys, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("EQSOLVE_PATH", str(folder / "models"))
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert main(["new", "quadratic", "--from", "decay"]) == 2
    assert "there is a model `quadratic` already" in capsys.readouterr().err


def test_a_bad_source_leaves_no_folder_behind(folder, capsys, monkeypatch, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.chdir(empty)
    assert main(["new", "growth", "--from", "nothing"]) == 2
    assert list(empty.iterdir()) == []


def test_the_tests_of_a_new_model_pass(folder, capsys):
    assert main(["new", "growth", "--from", "decay"]) == 0
    assert "tests/test_growth.py" in capsys.readouterr().out.replace("\\", "/")
    text = (folder / "tests" / "test_growth.py").read_text()
    code = compile(text, str(folder / "tests" / "test_growth.py"), "exec")
    names = {"__file__": str(folder / "tests" / "test_growth.py")}
    exec(code, names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def test_tests_are_not_overwritten(folder, capsys, contents):
    (folder / "tests").mkdir()
    (folder / "tests" / "test_growth.py").write_text("mine")
    before = contents()
    assert main(["new", "growth", "--from", "decay"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert contents() == before
