"""A solver that hands over to another: the result is right, and names the one that ran."""

import logging

import numpy as np
import pytest
from scipy.linalg import expm
from sympy import exp

import eqsolve
from eqsolve import GP, E, Eq, Int, System, White, correlation, function, process, random, response, times
from eqsolve.errors import SolverError
from eqsolve.laws import Normal
from tests.solvers.exact import two_spin

t, tp, s = times("t t' s")
x, z = process("x z")
C = correlation("C")
R = response("R")
a, b = random("a b", Normal(1, 0.04))


def _damped(law):
    """A path whose rate has two random parts: linear given these, and too many pairs of them to condition on."""
    eqs = [Eq(x(t).diff(t), -(a + b) * x(t) + z(t)), Eq(C(t, tp), E(x(t) * x(tp)))]
    return System("damped", eqs, laws={z: law}, init={x: 0}, observables={"q": C(t, t)})


def _mean(form):
    """The mean over the sum of both rates, by Gauss's rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    return float(weights @ form(2 + 0.08**0.5 * nodes)) / (2 * np.pi) ** 0.5


def _demand(result, form):
    value, error = float(result["q"][-1]), float(result.error["q"][-1])
    assert abs(value - _mean(form)) <= 3 * error
    assert error <= 0.03 * value


def test_a_gaussian_solve_with_too_many_constants_is_named_after_the_solver_that_ran(caplog):
    caplog.set_level(logging.INFO, "eqsolve")
    result = eqsolve.solve(_damped(GP(1 + 0 * t * tp)), t_max=1, rtol=1e-2, solver="gaussian")
    name = result.stats["solver"]
    assert name != "gaussian"
    assert f"too many combinations of constants to condition on; solver gaussian hands over to {name}" in caplog.text
    _demand(result, lambda rate: ((1 - np.exp(-rate)) / rate) ** 2)


@pytest.mark.slow
def test_the_same_with_white_noise():
    result = eqsolve.solve(_damped(White(1)), t_max=1, rtol=2e-2)
    assert result.stats["solver"] != "gaussian"
    _demand(result, lambda rate: (1 - np.exp(-2 * rate)) / (2 * rate))


def test_an_aging_solve_of_a_short_time_is_named_after_the_solver_that_ran(tmp_path):
    case = two_spin()
    options = {"t_max": 1.0, "rtol": 1e-4, "solver": "aging", "params": case.settings}
    result = eqsolve.solve(case.model(), checkpoint=tmp_path / "run", **options)
    assert (result.status, result.stats["solver"]) == ("ok", "two_time")
    assert not (tmp_path / "run").exists()
    for name, form in case.curves.items():
        later = slice(1, None)  # the closed form is 0/0 at the start
        true = np.abs(result[name].values - form(result.grid.nodes))[later]
        assert (true <= 3 * result.error[name].values[later]).all(), name


def test_a_kernel_that_is_quicker_than_the_solution():
    """y is smooth after the start, but the kernel e^(−1000 t) is not on its panels."""
    y, A = function("y"), np.array([[-1.0, -2e4], [1.0, -1e3]])
    memory = Int(exp(-1000 * (t - s)) * y(s), (s, 0, t))
    result = eqsolve.solve(System("quick", [Eq(y(t).diff(t), -y(t) - 20000 * memory)], init={y: 1}), t_max=2)
    assert (result.status, result.stats["solver"]) == ("ok", "convolution")
    at = np.linspace(0.01, 2, 20)
    values = result.at(at)
    truth = [(expm(A * u) @ [1, 0])[0] for u in at]
    assert (np.abs(values["y"].values - truth) <= 3 * values["y_error"].values + 1e-12).all()


@pytest.mark.slow
def test_what_a_later_solver_could_not_finish_names_it_too():
    """Kernels that blow up: the time is too short for `aging`, and `two_time` says where it ends."""
    equation = Eq(C(t, tp).diff(t), C(t, tp) ** 2 + Int(R(t, s) * C(tp, s), (s, 0, tp)) / 10)
    eqs = [equation, Eq(R(t, tp).diff(t), -R(t, tp))]
    model = System("m", eqs, init={C(0, 0): 1, R(t, t): 1}, observables={"y": C(t, t)})
    with pytest.raises(SolverError) as raised:
        eqsolve.solve(model, t_max=0.6, solver="aging")
    assert raised.value.partial.stats["solver"] == "two_time"
