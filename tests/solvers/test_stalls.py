"""Progress that stalls: every solver ends, says where and why, and gives the solution up to there."""

import mpmath
import pytest
from sympy import exp, sign

import eqsolve
from eqsolve import GP, E, Eq, Int, System, correlation, function, process, response, times
from eqsolve.errors import SolverError
from eqsolve.solvers.marching import Pace

t, tp, s = times("t t' s")
y, u, v = function("y u v")
x, z = process("x z")
C = correlation("C")
R = response("R")


def _stopped(model, **options):
    with pytest.raises(SolverError) as raised:
        eqsolve.solve(model, **options)
    partial = raised.value.partial
    assert partial.status.startswith("stopped at t = ")
    assert partial.message == str(raised.value)
    return str(raised.value), partial


def _holds_up_to_there(partial, exact):
    for moment in (0.3, 0.6, 0.9):
        at = moment * float(partial["t"][-1])
        value, error = float(partial.at([at])["y"][0]), float(partial.error["y"].interp(t=at))
        assert abs(value - exact(at)) <= 2 * error + 1e-9 * abs(exact(at))


# y' = right: when it ends, and the solution
ENDS = {
    "a jump that attracts": (-sign(y(t)), 1.0, lambda at: 1 - at),
    "a blow-up": (y(t) ** 2, 1.0, lambda at: 1 / (1 - at)),
    "a pole of the slope": (-1 / y(t), 0.5, lambda at: (1 - 2 * at) ** 0.5),
}


@pytest.mark.parametrize(
    ("kind", "solver"),
    [
        *((kind, "ode") for kind in ENDS if kind != "a jump that attracts"),  # along which it slides: `test_jumps`
        *(pytest.param(kind, "two_time", marks=pytest.mark.slow) for kind in ENDS),
    ],
)
def test_a_march_that_gets_nowhere_ends(kind, solver):
    right, end, exact = ENDS[kind]
    if solver == "two_time":  # the same, with an integral that is known
        right = right + Int(1 + 0 * s, (s, 0, t)) - t
    text, partial = _stopped(System("m", [Eq(y(t).diff(t), right)], init={y: 1}), t_max=2)
    assert partial.stats["solver"] == solver
    assert "equation for `y` (test_stalls.py:" in text
    assert float(partial["t"][-1]) == pytest.approx(end, rel=2e-3)
    _holds_up_to_there(partial, exact)


@pytest.mark.slow
def test_kernels_that_blow_up_end():
    equation = Eq(C(t, tp).diff(t), C(t, tp) ** 2 + Int(R(t, s) * C(tp, s), (s, 0, tp)) / 10)
    model = System("m", [equation, Eq(R(t, tp).diff(t), -R(t, tp))], init={C(0, 0): 1, R(t, t): 1}, observables={"y": C(t, t)})
    text, partial = _stopped(model, t_max=3)
    assert "cannot be continued past t = 0." in text
    assert 0.4 < float(partial["t"][-1]) < 1


def test_operators_that_blow_up_end():
    """y' = u², u' = y² from y = u = 1: y = 1/(1 − t)."""
    equations = [Eq(y(t).diff(t), u(t) ** 2), Eq(u(t).diff(t), y(t) ** 2), Eq(R(t, tp).diff(t), -R(t, tp))]
    memory = Eq(v(t).diff(t), Int(R(t, s) * y(s), (s, 0, t)))
    model = System("m", [*equations, memory], init={y: 1, u: 1, v: 0, R(t, t): 1})
    text, partial = _stopped(model, t_max=3, kernels=False)
    assert partial.stats["solver"] == "operators"
    assert "found up to t = 0." in text
    assert 0.5 < float(partial["t"][-1]) < 1
    _holds_up_to_there(partial, lambda at: 1 / (1 - at))


def test_paths_that_blow_up_end():
    drive = {z: GP(exp(-(t + tp)) / 10000)}
    model = System("m", [Eq(x(t).diff(t), x(t) ** 3 + z(t))], laws=drive, init={x: 1}, observables={"y": E(x(t))})
    text, partial = _stopped(model, t_max=3, rtol=1e-2)
    assert "but not up to t = 0." in text
    assert "it may blow up there" in text
    last = float(partial["t"][-1])
    assert 0.2 < last < 0.52
    value, error = float(partial.at([0.5 * last])["y"][0]), float(partial.error["y"].interp(t=0.5 * last))
    assert abs(value - (1 - last) ** -0.5) < 2 * error + 1e-3  # 1/√(1 − 2t), the noise a small change


def test_a_pace_that_was_always_slow_is_no_stall():
    even, late = Pace(0.0, 1.0, 10), Pace(0.0, 1.0, 10)
    assert not any(even.stalled(1e-5 * work, work) for work in range(1, 2000))
    assert not any(late.stalled(0.01 * work, work) for work in range(1, 51))
    assert late.stalled(0.5 + 1e-6, 60) == "advanced t by only 1e-06"


def test_a_fast_oscillation_after_rest_is_no_stall():
    """What is slower than before, but can be done, is done: y = sin(ω(t − 1)) after 1, at rest before."""
    turn = 2000 * (1 + sign(t - 1))
    model = System("m", [Eq(y(t).diff(t), turn * u(t)), Eq(u(t).diff(t), -turn * y(t))], init={y: 0, u: 1})
    found = eqsolve.solve(model, t_max=1.05, at=[1.05], rtol=1e-4, atol=1e-4)
    assert float(found.at([1.05])["y"][0]) == pytest.approx(float(mpmath.sin(4000 * 0.05)), abs=1e-3)
