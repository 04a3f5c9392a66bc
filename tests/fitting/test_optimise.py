"""Optima against closed forms and the known best initialization."""

import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, System, function, param, times
from eqsolve.errors import UsageError

t = times("t")
a, b = param("a b")
y = function("y")
BOWL = System(
    "bowl", eqs=[Eq(y(t).diff(t), (a - 0.4) ** 2 + 3 * (b + 0.2) ** 2 + (a - 0.4) * (b + 0.2))], init={y: 1},
    observables={"height": y(t)},
)  # fmt: skip


def test_the_best_initialization_of_the_fixed_point():
    found = eqsolve.optimise("dln_fixed_point_min_norm", "E_test", over={"alpha": (1e-3, 10)}, delta=0.5, sigma2=0.05)
    assert found.parameters["alpha"] == pytest.approx(0.345, abs=1e-3)
    assert not found.at_edge
    side = [float(eqsolve.solve("dln_fixed_point_min_norm", alpha=x, delta=0.5, sigma2=0.05)["E_test"]) for x in (0.34, 0.35)]
    assert found.value < min(side)
    assert set(found.json_object()) >= {"parameters", "errors", "value", "at_edge"}


def test_two_parameters_of_a_dynamics():
    found = eqsolve.optimise(BOWL, "height", over={"a": (-1, 1), "b": (-1, 1)}, at=2.0, rtol=1e-6)
    assert found.parameters["a"] == pytest.approx(0.4, abs=1e-5)
    assert found.parameters["b"] == pytest.approx(-0.2, abs=1e-5)
    assert found.value == pytest.approx(1.0, abs=1e-9)
    found.plot()


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
