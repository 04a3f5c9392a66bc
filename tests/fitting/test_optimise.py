"""Optima against closed forms and the known best initialization."""

import json

import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, System, function, param, times
from eqsolve.cli import main
from eqsolve.errors import UsageError

t = times("t")
a, b = param("a b")
y = function("y")
BOWL = System(
    "bowl", eqs=[Eq(y(t).diff(t), (a - 0.4) ** 2 + 3 * (b + 0.2) ** 2 + (a - 0.4) * (b + 0.2))], init={y: 1},
    observables={"height": y(t)},
)  # fmt: skip


@pytest.mark.slow
def test_the_best_initialization_of_the_fixed_point():
    found = eqsolve.optimise("dln_fixed_point_min_norm", "E_test", over={"alpha": (1e-3, 10)}, delta=0.5, sigma2=0.05)
    assert found.parameters["alpha"] == pytest.approx(0.345, abs=1e-3)
    assert not found.at_edge
    side = [float(eqsolve.solve("dln_fixed_point_min_norm", alpha=x, delta=0.5, sigma2=0.05)["E_test"]) for x in (0.34, 0.35)]
    assert found.value < min(side)
    assert set(found.json_object()) >= {"parameters", "errors", "value", "at_edge"}


@pytest.mark.slow
def test_two_parameters_of_a_dynamics():
    found = eqsolve.optimise(BOWL, "height", over={"a": (-1, 1), "b": (-1, 1)}, at=2.0, rtol=1e-6)
    assert found.parameters["a"] == pytest.approx(0.4, abs=1e-5)
    assert found.parameters["b"] == pytest.approx(-0.2, abs=1e-5)
    assert found.value == pytest.approx(1.0, abs=1e-9)
    assert repr(found).startswith("<Optimum of 'bowl': height = 1 ± ")
    assert "at a = 0.4 ± " in repr(found)
    axes = found.plot()
    assert axes.get_title() == "bowl\n$t = 2$"  # the settings that stay
    [told] = axes.get_legend().get_texts()
    assert "smallest at $a$ = 0.4 ± " in told.get_text()


def test_a_function_of_the_result():
    """(h − 2)² + 1 with h = 1 + 2a² is smallest where 2a² = 1."""
    model = System("hill", eqs=[Eq(y(t).diff(t), 2 * a**2)], init={y: 1}, observables={"height": y(t)})
    goal = lambda res: (res.at([1.0])["height"].item() - 2) ** 2 + 1  # noqa: E731
    found = eqsolve.optimise(model, goal, over={"a": (0.2, 1.5)}, at=1.0, rtol=1e-6)
    assert found.parameters["a"] == pytest.approx(np.sqrt(0.5), abs=1e-4)
    assert found.observable == "goal"
    with pytest.raises(UsageError, match="is to give one number, got"):
        eqsolve.optimise(model, lambda res: res["height"], over={"a": (0.2, 1.5)}, at=1.0)
    with pytest.raises(UsageError, match="or a function of the result"):
        eqsolve.optimise(model, 3, over={"a": (0.2, 1.5)}, at=1.0)


VALLEY = System(
    "valley", eqs=[Eq(y(t).diff(t), a**2 + b**2)], init={y: 0}, observables={"height": y(t), "slope": (a + b) * t}
)  # fmt: skip


@pytest.mark.slow
def test_constraints():
    """a² + b² with a + b at least 0.3: smallest at 0.15, 0.15, by Lagrange."""
    least = {"slope": (0.3, None)}
    found = eqsolve.optimise(VALLEY, "height", over={"a": (-1, 1), "b": (-1, 1)}, at=1.0, constraints=least, rtol=1e-6)
    assert found.parameters == pytest.approx({"a": 0.15, "b": 0.15}, abs=1e-5)
    assert found.active == ("slope >= 0.3",)
    assert not found.at_edge
    assert max(found.errors.values()) < 1e-3


@pytest.mark.slow
def test_a_constraint_that_is_a_function_and_one_that_cannot_hold(caplog):
    beyond = [lambda res: res["slope"].values[-1] - 0.3]
    found = eqsolve.optimise(VALLEY, "height", over={"a": (-1, 1)}, b=0.1, at=1.0, constraints=beyond, rtol=1e-6)
    assert found.parameters == pytest.approx({"a": 0.2}, abs=1e-5)
    assert found.active == ("constraint 1",)
    assert not found.at_edge
    assert max(found.errors.values()) < 1e-3
    told: list[str] = []
    with pytest.raises(UsageError, match=r"where slope >= 3 holds; the nearest, a=1, misses it by 2: widen the ranges"):
        eqsolve.optimise(
            VALLEY, "height", over={"a": (-1, 1)}, b=0, at=1.0, constraints={"slope": (3, None)},
            progress=lambda done, total, text: told.append(text),
        )  # fmt: skip
    assert caplog.messages == ["no point of the scan keeps slope >= 3; looking for one"]
    assert len(told) <= 14  # the scan, and a few steps to the end of the range that is the nearest
    narrow = {"slope": (0.129, 0.131)}  # between points of the scan
    found = eqsolve.optimise(VALLEY, "height", over={"a": (-1, 1)}, b=0, at=1.0, constraints=narrow, rtol=1e-6)
    assert found.parameters["a"] == pytest.approx(0.129, abs=1e-5)


def test_the_command_line_speaks_its_own_words(capsys):
    words = ["optimise", "dln_infinite_data", "--minimise", "E_test", "--over", "lam=0.1:1"]
    assert main(words) == 2
    assert "--at 20, or --over t=0:100" in capsys.readouterr().err
    assert main([*words, "--at", "3", "--where", "w_mean"]) == 2
    assert "--where takes NAME<=VALUE or NAME>=VALUE" in capsys.readouterr().err
    assert main([*words[:-1], "lam=1:0.1", "--at", "3"]) == 2
    assert "over=" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_line_finds_an_optimum_on_a_bound(capsys):
    words = ["optimise", "dln_infinite_data", "--minimise", "E_test", "--over", "lam=0.1:1"]
    assert main([*words, "--at", "3", "--where", "w_mean<=0.003", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["active"] == ["w_mean <= 0.003"]
    mean = eqsolve.solve("dln_infinite_data", lam=out["parameters"]["lam"], at=[3.0])["w_mean"].values[-1]
    assert mean == pytest.approx(0.003, rel=1e-3)
    assert abs(out["value"] - 0.09409) <= 3 * out["value_error"]  # 0.09409, exactly: the constraint counts in the error


def test_an_edge_is_said():
    found = eqsolve.optimise(BOWL, "height", over={"a": (0.5, 1)}, at=1.0, b=-0.2)
    assert found.at_edge
    assert found.parameters["a"] == 0.5
    assert "no optimum inside" in found.edge


def test_early_stopping():
    """y' = t − 1 is smallest at t = 1."""
    model = System("stopping", eqs=[Eq(y(t).diff(t), t - 1)], init={y: 1}, observables={"height": y(t)})
    found = eqsolve.optimise(model, "height", over={"t": (0.1, 3)})
    assert found.parameters["t"] == pytest.approx(1.0, abs=found.errors["t"])
    assert found.value == pytest.approx(0.5, abs=1e-4)


def test_refusals():
    with pytest.raises(UsageError, match="has no parameter `c`"):
        eqsolve.optimise(BOWL, "height", over={"c": (0, 1)}, at=1)
    with pytest.raises(UsageError, match="say when"):
        eqsolve.optimise(BOWL, "height", over={"a": (0, 1)}, b=0)
    with pytest.raises(UsageError, match="from a smaller to a larger"):
        eqsolve.optimise(BOWL, "height", over={"a": (1, 0)}, at=1, b=0)
    with pytest.raises(UsageError, match="does not depend on"):
        eqsolve.optimise("dln_infinite_data", "w_mean", over={"sigma2": (0, 1)}, at=1)


def test_errors_of_parameters_are_carried():
    """y = v e^{−a t}: the error of a makes t y of it."""
    v = param("v")
    model = System("decay", eqs=[Eq(y(t).diff(t), -a * y(t))], init={y: v})
    result = eqsolve.solve(model, a=eqsolve.uncertain(0.5, 0.01), v=2.0, t_max=2, rtol=1e-8)
    error = result.at([2.0])["y_error"].values[0]
    assert error == pytest.approx(0.01 * 2 * 2 * np.exp(-1), rel=1e-4)
    assert result.params["a"] == 0.5


def test_every_solve_is_told_and_the_budget_ends_the_search():
    told = []
    found = eqsolve.optimise(BOWL, "height", over={"a": (0, 1)}, at=1.0, b=-0.2, progress=lambda *what: told.append(what))
    assert len(told) == found.solves
    assert told[0][2].startswith("a=0, height 1.16, ")
    assert found.status == "ok"
    short = eqsolve.optimise(BOWL, "height", over={"a": (0, 1)}, at=1.0, b=-0.2, budget=1e-3)
    assert short.solves == 1
    assert "budget was spent after 1 solves" in short.status
    assert short.parameters == {"a": 0.0}
    assert short.value == pytest.approx(1.16, abs=1e-2)
