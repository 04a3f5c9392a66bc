"""Delays against closed forms and an independent method of steps."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sympy import cos, pi

import eqsolve
from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
y, z = function("y z")
tau = param("tau", positive=True)


def test_the_method_of_steps_on_a_polynomial() -> None:
    """y' = −y(t − 1) from y = 1: a polynomial of degree k + 1 on [k, k + 1]."""
    model = System("steps", eqs=[Eq(y(t).diff(t), -y(t - tau))], init={y: 1}, defaults={tau: 1})
    result = eqsolve.solve(model, t_max=6, rtol=1e-9)
    for moment in (0.3, 1.0, 1.7, 2.5, 4.2, 6.0):
        truth = sum((-1) ** k * (moment - k + 1) ** k / math.factorial(k) for k in range(int(moment) + 2))
        found = result.at([moment])
        assert abs(found["y"].values[0] - truth) <= 3 * found["y_error"].values[0]
    grid = result["t"].values
    assert all(np.abs(grid - edge).min() < 1e-12 for edge in (1, 2, 3, 4, 5))


@pytest.mark.parametrize("rtol", [1e-3, 1e-7, 1e-11])
def test_a_past_in_time(rtol: float) -> None:
    """y' = −y(t − π/2) from y = cos t is cos t."""
    model = System("wave", eqs=[Eq(y(t).diff(t), -y(t - pi / 2))], init={y: cos(t)})
    result = eqsolve.solve(model, t_max=40, rtol=rtol)
    wrong = np.abs(result["y"].values - np.cos(result["t"].values))
    assert np.all(wrong <= 3 * result.error["y"].values)
    assert result.error["y"].values.max() <= rtol * 1.001


def test_a_definition_jumps_at_its_delays() -> None:
    """z = 1 + z(t − 1)/2 from z = 0 is a staircase."""
    model = System("stairs", eqs=[Eq(z(t), 1 + z(t - 1) / 2)], init={z: 0})
    result = eqsolve.solve(model, t_max=3.5, rtol=1e-9)
    assert result.status == "ok"
    found = result.at([0.5, 0.999, 1.001, 1.5, 2.5, 3.2])["z"].values
    np.testing.assert_allclose(found, [1, 1, 1.5, 1.5, 1.75, 1.875], rtol=1e-12)


def test_two_delays_and_a_memory() -> None:
    """y' = −y(t − 1) − y(t − √2) + ∫ y: its derivative is a delay equation, solved step by step by DOP853."""
    model = System("two", eqs=[Eq(y(t).diff(t), -y(t - 1) / 2 - y(t - 0.7) - Int(y(t - s), (s, 0, t)))], init={y: 1})
    result = eqsolve.solve(model, t_max=4, rtol=1e-9)
    truth = _by_steps(lambda moment, state, past: [-past(moment - 1)[0] / 2 - past(moment - 0.7)[0] - state[1], state[0]],
                      lambda moment: np.array([1.0, 0.0]), [1.0, 0.0], [0.7, 1.0], 4.0)  # fmt: skip
    found = result.at([0.5, 1.2, 2.6, 4.0])
    wrong = np.abs(found["y"].values - [truth(moment)[0] for moment in (0.5, 1.2, 2.6, 4.0)])
    assert np.all(wrong <= 3 * found["y_error"].values + 1e-11)


def _by_steps(right, past, start, delays, end):
    """Integrate from break point to break point with dense output; an independent method of steps."""
    edges = sorted({round(a * delays[0] + b * delays[-1], 12) for a in range(60) for b in range(60)})
    edges = [edge for edge in edges if edge < end] + [end]
    pieces = []

    def known(moment):
        if moment <= 0:
            return past(moment)
        for low, high, piece in pieces:
            if low <= moment <= high:
                return piece(moment)
        return pieces[-1][2](moment)

    state, now = np.array(start), 0.0
    for edge in edges[1:]:
        count = max(1, math.ceil((edge - now) / (0.999 * min(delays))))
        for place in np.linspace(now, edge, count + 1)[1:]:
            made = solve_ivp(
                lambda moment, values: right(moment, values, known), (now, place), state, "DOP853", rtol=3e-14, atol=1e-14,
                dense_output=True,
            )  # fmt: skip
            pieces.append((now, place, made.sol))
            state, now = made.y[:, -1], place
    return known


@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_mackey_glass_against_the_method_of_steps(rtol: float) -> None:
    truth = _by_steps(
        lambda moment, state, past: [0.2 * past(moment - 17)[0] / (1 + past(moment - 17)[0] ** 10) - 0.1 * state[0]],
        lambda moment: np.array([1.2]), [1.2], [17.0], 100.0,
    )  # fmt: skip
    moments = np.array([5.0, 17.0, 30.0, 51.0, 77.0, 100.0])
    found = eqsolve.solve("mackey_glass", t_max=100, rtol=rtol).at(moments)
    wrong = np.abs(found["y"].values - [truth(moment)[0] for moment in moments])
    assert np.all(wrong <= 3 * found["y_error"].values + 1e-12)
    assert np.all(found["y_error"].values <= 1.4 * rtol)


def test_a_delay_of_zero_is_none() -> None:
    lag = param("lag", nonnegative=True)
    model = System("maybe", eqs=[Eq(y(t).diff(t), -y(t - lag))], init={y: 1}, defaults={lag: 0})
    assert eqsolve.solve(model, t_max=1, rtol=1e-8).at([1.0])["y"].values[0] == pytest.approx(math.exp(-1), abs=1e-8)
