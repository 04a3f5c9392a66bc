"""Special functions in every kind of model, against closed forms and mpmath's quadrature."""

import warnings

import mpmath
import numpy as np
import pytest
from sympy import LambertW, airyai, besseli, besselj, cbrt, digamma, exp, hankel1, log, mathieus, polylog, zeta

import eqsolve
from eqsolve import GP, E, Eq, FixedPoint, Int, Resp, System, function, normal, process, response, times, unknown
from eqsolve.errors import ModelError, SolverError

t, tp, s = times("t t' s")
y, v = function("y v")
x, z = process("x z")
R = response("R")


def _arrival(right, begin, end):
    """Return when a solution of y' = right(y) comes from one value to another."""
    return float(mpmath.quad(lambda value: 1 / right(value), [begin, end]))


@pytest.mark.parametrize(
    ("right", "exact", "begin", "end"),
    [
        (lambda a: -besselj(0, a), lambda a: -mpmath.besselj(0, a), 1.0, 0.25),
        pytest.param(lambda a: -polylog(2, a), lambda a: -mpmath.polylog(2, a), 0.6, 0.4, marks=pytest.mark.slow),
        (lambda a: -zeta(a + 2), lambda a: -mpmath.zeta(a + 2), 1.0, -0.5),
        (lambda a: LambertW(a) - 1, lambda a: mpmath.lambertw(a).real - 1, 1.0, -0.25),
        (lambda a: 1 - airyai(a), lambda a: 1 - mpmath.airyai(a), -1.0, 0.5),
    ],
)
@pytest.mark.parametrize("memory", [False, True])
def test_a_function_that_moves_by_a_special_function(right, exact, begin, end, memory):
    """With ``memory`` an integral that is known is added and taken away again, for the other solver."""
    more = Int(1 + 0 * s, (s, 0, t)) - t if memory else 0
    moves = Int(y(s), (s, 0, t)) if memory else 1
    model = System("m", [Eq(y(t).diff(t), right(y(t)) + more), Eq(v(t).diff(t), moves)], init={y: begin, v: 0})
    moment = _arrival(exact, begin, end)
    found = eqsolve.solve(model, at=[moment], rtol=1e-7)
    assert found.status == "ok"
    value, error = float(found.at([moment])["y"][0]), float(found.error["y"].sel(t=moment, method="nearest"))
    assert abs(value - end) < max(2 * error, 1e-11)
    assert abs(value - end) < 1e-6


def test_a_process_read_by_a_special_function():
    """x Gaussian with variance q: E J₀(x) = exp(−q/4) I₀(q/4); a response of ψ(x² + 2) is E[f'(x)] e^{−(t−t')}."""
    equations = [Eq(x(t).diff(t), -x(t) + z(t)), Eq(R(t, tp), E(Resp(digamma(x(t) ** 2 + 2), z(tp)) * x(t)))]
    observables = {"J": E(besselj(0, x(t))), "q": E(x(t) ** 2)}
    model = System("m", equations, laws={z: GP(exp(-(t + tp)))}, init={x: 0}, observables=observables)
    found = eqsolve.solve(model, at2=[(1.5, 0.5)], at=[1.5], t_max=1.5, rtol=1e-4)
    q = float((mpmath.mpf(1.5) * mpmath.exp(-1.5)) ** 2)
    assert float(found.at([1.5])["q"][0]) == pytest.approx(q, rel=1e-4)
    assert float(found.at([1.5])["J"][0]) == pytest.approx(float(mpmath.exp(-q / 4) * mpmath.besseli(0, q / 4)), rel=1e-4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    slopes = [float(2 * a * a * mpmath.psi(1, a * a + 2)) for a in np.sqrt(q) * nodes]
    exact = weights @ slopes / weights.sum() * np.exp(-1.0)
    assert float(found.at2([(1.5, 0.5)])["R"][0]) == pytest.approx(exact, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [None, pytest.param(30, marks=pytest.mark.slow)])
def test_a_fixed_point_of_special_functions(precision):
    q, m = unknown("q m", positive=True)
    noise = normal("noise", variance=q)
    model = FixedPoint("m", [Eq(q, E(besselj(0, noise))), Eq(m, LambertW(q) + polylog(2.5, m / 3))])
    found = eqsolve.solve(model, precision=precision)
    with mpmath.workdps(30):
        exact = mpmath.findroot(lambda a: a - mpmath.exp(-a / 4) * mpmath.besseli(0, a / 4), 0.8)
        other = mpmath.findroot(lambda a: a - mpmath.lambertw(exact).real - mpmath.polylog(2.5, a / 3), 0.8)
    assert float(found["q"]) == pytest.approx(float(exact), rel=1e-12)
    assert float(found["m"]) == pytest.approx(float(other), rel=1e-12)


@pytest.mark.parametrize(
    ("right", "text"),
    [
        (mathieus(1, 2, y(t)), "uses `mathieus` in `mathieus(1, 2, y(t))`, which has no numerical evaluator"),
        (hankel1(0, y(t)), "uses `hankel1` in `hankel1(0, y(t))`, whose values are complex"),
        (LambertW(y(t), 1), "a branch without real values"),
        (y(t) + log(-2), "contains the imaginary unit `I`"),
        (y(t) * cbrt(-8), "which is not real"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_its_name_and_place(right, text):
    model = System("m", [Eq(y(t).diff(t), right)], init={y: 1})
    with pytest.raises(ModelError) as refused:
        eqsolve.check(model)
    assert text in str(refused.value)
    assert "equation for `y` (test_special_functions.py:" in str(refused.value)


def test_a_real_model_never_warns_about_complex_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = eqsolve.solve(System("m", [Eq(y(t).diff(t), LambertW(y(t)))], init={y: 1}), t_max=2)
    assert _arrival(lambda a: mpmath.lambertw(a).real, 1, float(found["y"][-1])) == pytest.approx(2, rel=1e-8)


@pytest.mark.parametrize("memory", [0, pytest.param(Int(y(s), (s, 0, t)) / 10, marks=pytest.mark.slow)])
def test_a_function_that_stops_being_real_says_where(memory):
    model = System("m", [Eq(y(t).diff(t), LambertW(y(t)) - 1 + memory)], init={y: 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SolverError, match=r"`LambertW\(y\(t\)\)`") as stopped:
            eqsolve.solve(model, t_max=5)
    last = float(stopped.value.partial["y"][-1])
    assert -np.exp(-1) <= last < -np.exp(-1) + 0.01
    if not memory:
        whole = _arrival(lambda a: mpmath.lambertw(a).real - 1, 1, -mpmath.exp(-1))
        assert float(stopped.value.partial["t"][-1]) == pytest.approx(whole, rel=2e-3)


def test_bessel_functions_of_two_unknowns():
    model = System("m", [Eq(y(t).diff(t), 1 + 0 * y(t)), Eq(v(t), besseli(y(t), 1 + y(t)))], init={y: 0})
    found = eqsolve.solve(model, at=[0.7], rtol=1e-8)
    assert float(found.at([0.7])["v"][0]) == pytest.approx(float(mpmath.besseli(0.7, 1.7)), rel=1e-9)
