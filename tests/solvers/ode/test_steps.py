"""Discrete time without memory: the map y ← y + step · y', against closed forms and many digits."""

import mpmath
import numpy as np
import pytest
import sympy

import eqsolve
from eqsolve import E, Eq, System, function, process, random, times
from eqsolve.errors import SolverError
from eqsolve.laws import Uniform

t = times("t")
y, x = function("y"), process("x")


@pytest.mark.parametrize("step", [0.5, 1.5])
def test_gradient_descent_over_a_spectrum(step):
    """x ← (1 − step·k) x with k uniform on (0, 1): the mean square is an integral of a power."""
    k = random("k", Uniform(0, 1))
    model = System("m", eqs=[Eq(x(t).diff(t), -k * x(t))], init={x: 1}, observables={"q": E(x(t) ** 2)})
    res = eqsolve.solve(model, t_max=15, step=step, rtol=1e-6)
    odd = 2 * np.arange(round(15 / step) + 1) + 1
    truth = (1 - (1 - step) ** odd) / (step * odd)
    assert res.status == "ok"
    np.testing.assert_allclose(res["t"].values, step * np.arange(len(odd)))
    assert (np.abs(res["q"].values - truth) <= 3 * res.error["q"].values).all()
    assert res.error["q"].values.max() < 1e-6


def test_rounding_errors_of_a_chaotic_map_are_stated():
    """The logistic map doubles them in every step."""
    model = System("m", eqs=[Eq(y(t).diff(t), 3 * y(t) - 4 * y(t) ** 2)], init={y: sympy.Rational(3, 10)})
    res = eqsolve.solve(model, t_max=45, step=1, rtol=1e-3)
    with mpmath.workdps(60):
        exact = [mpmath.mpf(3) / 10]
        for _ in range(45):
            exact.append(4 * exact[-1] * (1 - exact[-1]))
    assert res.status == "tolerance not met"
    assert (np.abs(res["y"].values - np.array(exact, float)) <= 3 * res.error["y"].values).all()


def test_a_map_that_diverges_says_where():
    model = System("m", eqs=[Eq(y(t).diff(t), y(t) ** 3)], init={y: 2})
    with pytest.raises(SolverError, match=r"equation for `y` \(test_steps.py:\d+\) gives inf at t = 6") as raised:
        eqsolve.solve(model, t_max=30, step=1)
    assert float(raised.value.partial.at([2.0])["y"][0]) == 2 * 5 * 101
