"""Shifted times that cannot be read, each with its reason, and those that can."""

import pytest
from sympy import cos

import eqsolve
from eqsolve import Eq, Int, System, correlation, function, param, process, times
from eqsolve.errors import ModelError

t, s, r = times("t s r")
y, z = function("y z")
x = process("x")
C = correlation("C")
tau = param("tau", positive=True)
free = param("free")


def _system(body, init=None, **more):
    return System("m", eqs=[Eq(y(t).diff(t), body), *more.pop("eqs", [])], init={y: 1} if init is None else init, **more)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (-y(t - y(t)), "delay depends on the solution"),
        (-y(t - tau * y(t)), "expected a constant delay"),
        (-y(t / 2), "changes with time"),
        (-y(t + tau), "reads the future"),
        (-y(t - free), "may be negative; declare its parameters positive"),
        (-Int(y(t - s - tau), (s, 0, t)), "under an integral over `s`"),
        (-Int(y(t - tau) * y(s), (s, 0, t)), "at a delay under an integral; give it a name"),
        (-Int(Int(y(r), (r, 0, s)) * y(t - s), (s, 0, t)), "integral inside an integral"),
        (-y(t).diff(t), "outside its left-hand side"),
        (-Int(y(t).diff(t) * y(t - s), (s, 0, t)), "expected one of `y\\(s\\)`"),
        (-Int(z(t - s).diff(s), (s, 0, t)), "`z\\(.*\\)`, which nothing defines"),
    ],
)
def test_what_is_refused(body, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        eqsolve.check(_system(body))
    assert "test_shifted.py:" in str(caught.value)


def test_shifts_beside_two_times_or_paths_are_refused() -> None:
    tp = eqsolve.times("t'")
    two = _system(-y(t - tau), eqs=[Eq(C(t, tp), y(t) * y(tp))])
    with pytest.raises(ModelError, match="beside `C`"):
        eqsolve.check(two)
    with pytest.raises(ModelError, match="beside `x`"):
        eqsolve.check(_system(-y(t - tau), init={y: 1, x: 0}, eqs=[Eq(x(t).diff(t), -x(t))]))


def test_a_convolution_starts_at_zero() -> None:
    with pytest.raises(ModelError, match="a convolution starts at 0"):
        eqsolve.check(_system(-Int(y(t - s), (s, 1, t)), start=1))


def test_a_past_is_an_expression_in_time() -> None:
    eqsolve.check(_system(-y(t - tau), init={y: cos(t)}))
    with pytest.raises(ModelError, match="uses the time"):
        eqsolve.check(_system(-y(t), init={y: cos(t)}))
    with pytest.raises(ModelError, match="depends on the times"):
        eqsolve.check(_system(-y(t - tau), init={y: cos(t) + s}))
    with pytest.raises(ModelError, match="its past is not known; give it by init="):
        eqsolve.check(System("m", eqs=[Eq(z(t), 1 + z(t - tau) / 2)]))


def test_explain_tells_delays_and_memory_integrals() -> None:
    text = eqsolve.explain(_system(-y(t - tau) - Int(y(t - s) * y(s), (s, 0, t)), defaults={tau: 1})).text()
    assert "y at the delays tau" in text
    assert "memory integrals" in text
    assert "convolution: functions at shifted times" in text
    assert "it reads functions at shifted times" in text


def test_a_shifted_system_is_shown_as_written_and_rescaled() -> None:
    model = eqsolve.load("mct_f12")
    assert "phi(t - s)**2" in model.show().text()
    slow = model.rescale_time(2)
    found = eqsolve.solve(slow, t_max=10, rtol=1e-8).at([10.0])["phi"].values[0]
    assert found == pytest.approx(eqsolve.solve(model, t_max=5, rtol=1e-8).at([5.0])["phi"].values[0], abs=2e-8)
    with pytest.raises(ModelError, match="convolution starts at 0"):
        model.shift_time(1)
