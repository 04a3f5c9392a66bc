"""list, show and check."""

import json
import re

import pytest

from eqsolve.cli import main
from eqsolve.language.loading import list_models, load
from eqsolve.language.symbols import meanings


def output_of(capsys, *arguments, code=0) -> str:
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def test_list_aligns_names_kinds_and_summaries(folder, capsys):
    lines = output_of(capsys, "list").splitlines()
    column = lines[0].index("KIND")
    assert all(line[column - 2 : column] == "  " for line in lines if line.split()[0] in ("decay", "quadratic"))
    assert any(line.split() == ["decay", "System", "One", "decaying", "function."] for line in lines)
    assert f"3 in {folder / 'models'}" in lines


def test_list_as_json(folder, capsys):
    models = {item["name"]: item for item in json.loads(output_of(capsys, "list", "--json"))["models"]}
    assert models["quadratic"]["kind"] == "FixedPoint"
    assert models["quadratic"]["path"] == str(folder / "models" / "quadratic.py")


def test_show(folder, capsys):
    assert "dy(t)/dt = -k*y(t)" in output_of(capsys, "show", "decay")
    latex = output_of(capsys, "show", "decay", "--latex")
    assert latex.startswith("\\begin{align}")
    assert latex.endswith("\\end{align}\n")
    both = json.loads(output_of(capsys, "show", "decay", "--json"))
    assert both["latex"] + "\n" == latex
    assert both["model"] == "decay"


def test_show_by_path(folder, capsys):
    assert output_of(capsys, "show", "models/decay.py") == output_of(capsys, "show", "decay")


def test_show_with_parameters_put_in(folder, capsys):
    text = output_of(capsys, "show", "decay", "--set", "k=1/3")
    assert "dy(t)/dt = -y(t)/3" in text
    assert "k =" not in text


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("k=-1", "parameter `k` of model `decay` must be positive, got -1"),
        ("K=1", "has no parameter `K`; did you mean `k`?"),
        ("k", "--set takes NAME=VALUE such as alpha=0.3"),
        ("=1", "--set takes NAME=VALUE"),
        ("k=", "cannot read ''"),
        ("k=__import__('os')", "there is no law or function `__import__`"),
    ],
)
def test_bad_settings(setting, said, folder, capsys):
    assert main(["show", "decay", "--set", setting]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err


def test_show_keeps_the_order_of_terms_with_parameters_put_in(folder, capsys):
    file = folder / "models" / "ordered.py"
    file.write_text(
        "from eqsolve import Eq, System, function, param, times\n"
        "t = times('t')\nb, a = param('b a')\ny = function('y')\n"
        "model = System('ordered', eqs=[Eq(y(t).diff(t), y(t) - b + a * t)], init={y: 0})\n"
    )
    assert "dy(t)/dt = y(t) - 2 + a*t" in output_of(capsys, "show", "ordered", "--set", "b=2")


def test_check_states_facts(folder, capsys):
    text = output_of(capsys, "check", "decay")
    assert text.startswith("ok: 1 equation, 1 unknown, 1 parameter, 1 observable, checked in ")
    report = json.loads(output_of(capsys, "check", "decay", "--json"))
    assert report["ok"]
    assert report["problems"] == []


def test_check_lists_every_problem(folder, capsys):
    assert main(["check", "unsound"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "uses `y(t)`, which nothing defines" in err
    assert "unsound.py:7" in err
    assert "initial value" in err
    report = json.loads(output_of(capsys, "check", "unsound", "--json", code=2))
    assert not report["ok"]
    assert len(report["problems"]) >= 2


def test_check_of_several_goes_on_after_a_problem(folder, capsys):
    assert main(["check", "unsound", "decay", "nothing"]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("decay: ok: ")
    assert "error: unsound: " in err
    assert "error: nothing: unknown model" in err


@pytest.mark.slow
def test_check_without_a_name_checks_all(folder, capsys):
    report = json.loads(output_of(capsys, "check", "--json", code=2))
    assert {item["model"] for item in report["models"]} == {item.name for item in list_models()}
    assert [item["model"] for item in report["models"] if not item["ok"]] == ["unsound"]


def test_what_parameters_mean(folder, capsys):
    text = (folder / "models" / "decay.py").read_text().replace('"decay"', '"told"')
    (folder / "told.py").write_text(
        text.replace('param("k", positive=True', 'param("k", positive=True, about="rate of decay"')
    )
    assert "k = 1  (rate of decay)" in output_of(capsys, "show", "told.py")
    assert "number > 0, default 1: rate of decay" in output_of(capsys, "explain", "told.py")
    assert output_of(capsys, "list", "told.py").splitlines()[1].split(maxsplit=2)[::2] == ["k", "number > 0  rate of decay"]
    assert json.loads(output_of(capsys, "list", "told.py", "--json"))["settings"][0]["about"] == "rate of decay"
    assert output_of(capsys, "list", "told.py", "--names") == "k\n"
    assert main(["solve", "told.py", "--set", "k=-1"]) == 2
    assert "must be positive, got -1 (k: rate of decay)" in capsys.readouterr().err


def test_every_shipped_parameter_says_what_it_means():
    for item in list_models():
        model = load(item.name)
        assert all(parameter in meanings(model.file) for parameter in model.parameters), item.name


def test_a_copied_file_is_told_its_name_and_its_other_problems(folder, capsys):
    text = (folder / "models" / "decay.py").read_text().replace("-k * y(t)", "-k * y(t) + function('u')(t)")
    (folder / "mine.py").write_text(text)
    assert main(["check", "mine.py"]) == 2
    first, *others = capsys.readouterr().err.strip().split("error: ")[1:]
    assert re.search(r'in mine.py:\d+, write "mine" for "decay"', first)
    assert any("`u(t)`" in problem for problem in others)
