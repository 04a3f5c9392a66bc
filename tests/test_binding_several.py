"""Several values where one belongs point to a sweep, and the sweep they point to works as written."""

import re
import shlex

import numpy as np
import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.errors import ParameterError

DECAY = '''"""One decaying function."""
from eqsolve import Eq, System, function, param, times
t, k, y = times("t"), param("k", positive=True), function("y")
model = System("decay", eqs=[Eq(y(t).diff(t), -k * y(t))], init={y: 1}, defaults={k: 1})
'''


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "decay.py").write_text(DECAY)
    return eqsolve.load("decay")


def refused(given, model):
    """Return what a solve says to several values of one parameter."""
    with pytest.raises(ParameterError, match=r"takes one value, got .*; a sweep solves for several") as caught:
        eqsolve.solve(model, k=given, t_max=1)
    return str(caught.value)


@pytest.mark.parametrize("given", [(1, 2), range(1, 3), {1, 2}, np.array([1, 2]), "[1, 2]", "(1, 2)"])
def test_however_they_are_written_they_are_a_list(given, model):
    assert refused(given, model) == refused([1, 2], model)


@pytest.mark.parametrize("given", [[1, 2], "1:2:2:log"])
def test_several_values_point_to_a_sweep_that_works(given, model, capsys):
    message = refused(given, model)
    python = re.search(r"eqsolve\.sweep\(.*?\}\)", message)[0]
    found = eval(python, {"eqsolve": eqsolve})
    assert [float(value) for value in found["k"].values] == [1, 2]
    assert found["y"].values[:, -1] == pytest.approx(np.exp(-10 * np.array([1, 2])), abs=1e-6)
    command = shlex.split(re.search(r"`eqsolve (.*?)`$", message)[1])
    assert main(command) == 0
    assert eqsolve.open("sweep.nc")["y"].values == pytest.approx(found["y"].values)


@pytest.mark.parametrize("word", ["k=[1,2]", "k=1,2"])
def test_the_command_line_says_the_same(word, model, capsys):
    assert main(["solve", "decay", "--set", word, "--at", "1"]) == 2
    assert "`eqsolve sweep decay --grid k=1,2 --out sweep.nc`" in capsys.readouterr().err


def test_laws_and_models_without_a_file(model):
    with pytest.raises(ParameterError, match=r"eqsolve\.sweep\('dln', \{'w_star': 'Normal\(0, 1\), Point\(1\)'\}\)"):
        eqsolve.solve("dln", w_star="[Normal(0, 1), Point(1)]")
    made = eqsolve.System("mine", eqs=model.equations, init=model.init)
    with pytest.raises(ParameterError, match=r"eqsolve\.sweep\(model, \{'k': \[1, 2\]\}\)$"):
        eqsolve.solve(made, k=[1, 2])


@pytest.mark.parametrize("given", [np.array(2.0), np.float32(2), "2", 2])
def test_one_value_is_one_value(given, model):
    assert float(eqsolve.solve(model, k=given, at=[1.0])["y"][-1]) == pytest.approx(np.exp(-2), rel=1e-3)


@pytest.mark.parametrize("given", [[], {}, b"1", True, 1j, object(), "big", eqsolve.param("q")])
def test_what_is_no_number_is_refused(given, model):
    with pytest.raises(ParameterError):
        eqsolve.solve(model, k=given, t_max=1)
