"""Laws that are no covariances are refused: at check where they can be, before the solve, or by what was solved."""

import math

import pytest
from sympy import cos, exp

import eqsolve
from eqsolve import GP, E, Eq, System, correlation, param, process, times
from eqsolve.errors import ModelError, SolverError

t, tp = times("t t'")
x, z, y = process("x z y")
C, K = correlation("C K")
a = param("a", positive=True)


def _driven(law, **more):
    eqs = [Eq(x(t).diff(t), -more.pop("force", x(t)) + z(t)), *more.pop("eqs", ())]
    return System("driven", eqs, laws={z: law}, init={x: 0}, observables={"q": E(x(t) ** 2)}, **more)


def test_check_refuses_what_is_none_on_any_length_of_time():
    with pytest.raises(
        ModelError, match=r"has `.*`, which is no covariance: .* at the times 0\.\d+, .*would have the variance -"
    ):
        eqsolve.check(_driven(GP(1 - (t - tp) ** 2)))


def test_check_accepts_what_is_one_for_some_time():
    """1 - |t - t'| is a covariance on [0, 2]."""
    eqsolve.check(_driven(GP(1 - abs(t - tp))))


def test_the_parameters_of_a_solve_decide():
    model = _driven(GP(1 + (1 - a) * (t - tp) ** 2), defaults={a: 1})
    eqsolve.check(model)
    with pytest.raises(ModelError, match="is no covariance"):
        eqsolve.solve(model, a=2, t_max=1)


def test_the_interval_that_is_solved_decides():
    """1 - 10 |t - t'| is a covariance on [0, 0.2] only."""
    model = _driven(GP(1 - 10 * abs(t - tp)))
    assert eqsolve.solve(model, t_max=0.1, rtol=1e-2).status == "ok"
    with pytest.raises(ModelError, match="is no covariance"):
        eqsolve.solve(model, t_max=1)


def test_two_processes():
    eqs = [Eq(x(t).diff(t), -x(t) + z(t) + y(t))]
    laws = {(z, y): GP([[exp(-abs(t - tp)), 2 * cos(t - tp)], [2 * cos(t - tp), exp(-abs(t - tp))]])}
    with pytest.raises(ModelError, match="is no covariance"):
        eqsolve.check(System("two", eqs, laws=laws, init={x: 0}, observables={"q": E(x(t) ** 2)}))


def test_negative_constants_are_refused():
    """A variance is not negative: nowhere is the noise dropped instead."""
    for law in (GP(-1), GP(-a), GP(a - 2)):
        with pytest.raises(ModelError, match=r"which is no covariance: .* at the time 0\.\d+: .* the variance -1$"):
            eqsolve.check(_driven(law, defaults={a: 1}))
    b = param("b")
    linear, cubic = _driven(GP(b), defaults={b: 1}), _driven(GP(b), defaults={b: 1}, force=x(t) ** 3)
    for model, ask in ((linear, eqsolve.solve), (cubic, eqsolve.solve), (linear, eqsolve.stationary)):
        with pytest.raises(ModelError, match=r"the covariance `b` of `z` .* is no covariance"):
            ask(model, b=-0.5, **({"t_max": 1} if ask is eqsolve.solve else {}))
    found = eqsolve.solve(linear, b=2, t_max=1)
    assert float(found.at([1.0])["q"].values[0]) == pytest.approx(2 * (1 - math.exp(-1)) ** 2, rel=1e-5)
    assert float(eqsolve.solve(linear, b=0, t_max=1).at([1.0])["q"].values[0]) == 0


def test_constants_of_two_processes():
    """(1, 2; 2, 1) has the eigenvalue -1, (1, 0.2; 0.3, 1) is not symmetric."""
    eqs = [Eq(x(t).diff(t), -x(t) + z(t) + y(t))]
    for matrix, said in (([[1, 2], [2, 1]], "is no covariance"), ([[1, 0.2], [0.3, 1]], "is not symmetric")):
        with pytest.raises(ModelError, match=said):
            eqsolve.check(System("two", eqs, laws={(z, y): GP(matrix)}, init={x: 0}, observables={"q": E(x(t) ** 2)}))


@pytest.mark.slow
def test_unknown_ones_are_tested_by_the_solution():
    """A kernel with an equation of its own that makes the variance negative."""
    model = _driven(GP(C(t, tp)), eqs=[Eq(C(t, tp), exp(-((t - tp) ** 2)) - a * t * tp)], defaults={a: 2})
    with pytest.raises(SolverError, match=r"the covariance `C\(t, t'\)` of `z` .* at the time 2: `z\(2\)`") as raised:
        eqsolve.solve(model, t_max=2, rtol=1e-2)
    assert raised.value.partial.status == "no covariance"
