"""Random small systems with known solutions are solved within their error bars.

Error budget: the solver promises |value − exact| ≤ error; to that comes the rounding of the exact side, 1e-12 of the
largest entry met (a matrix exponential of norm up to 10).
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from sympy import Rational, cos, sqrt

import eqsolve
from eqsolve import GP, E, Eq, FixedPoint, Int, System, correlation, function, normal, process, random, times, unknown
from eqsolve.laws import Discrete

t, s, tp = times("t s t'")
ROUNDING = 1e-12
few = settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
many = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
entry = st.integers(-20, 20).map(lambda n: n / 10)
positive = st.integers(1, 20).map(lambda n: n / 10)
tolerance = st.sampled_from([1e-2, 1e-3, 1e-5, 1e-8])
MOMENTS = np.array([0.1, 0.5, 1.0])


def agree(res: eqsolve.Result, name: str, exact: np.ndarray, scale: float) -> None:
    found = res.at(MOMENTS)
    gap = np.abs(found[name].values - exact)
    assert res.status == "ok", res.message
    assert (gap <= found[f"{name}_error"].values + ROUNDING * scale).all(), (gap, found[f"{name}_error"].values)


def linear_system(matrix: list[list[float]], start: list[float], rtol: float) -> None:
    """y' = A y, solved by the matrix exponential."""
    size = len(start)
    y = [function(f"y{index}") for index in range(size)]
    eqs = [Eq(y[i](t).diff(t), sum(matrix[i][j] * y[j](t) for j in range(size))) for i in range(size)]
    model = System("linear", eqs=eqs, init={y[i]: start[i] for i in range(size)})
    res = eqsolve.solve(model, at=MOMENTS, rtol=rtol)
    exact = np.array([expm(np.array(matrix) * moment) @ start for moment in MOMENTS])
    for index in range(size):
        agree(res, f"y{index}", exact[:, index], 1 + np.abs(exact).max())


def memory(a: float, b: float, y0: float, rtol: float) -> None:
    """y' = a y + b ∫y: with Y = ∫y a linear system of two equations."""
    y = function("y")
    model = System("memory", eqs=[Eq(y(t).diff(t), a * y(t) + b * Int(y(s), (s, 0, t)))], init={y: y0})
    res = eqsolve.solve(model, at=MOMENTS, rtol=rtol)
    matrix = np.array([[a, b], [1.0, 0.0]])
    exact = np.array([(expm(matrix * moment) @ [y0, 0.0])[0] for moment in MOMENTS])
    agree(res, "y", exact, 1 + np.abs(exact).max())


def averages(rates: list[float], rtol: float) -> None:
    """E w with w' = k w and k one of a few values: a sum of exponentials."""
    values = sorted(set(rates))
    total = sum(range(1, len(values) + 1))
    parts = [Rational(place, total) for place in range(1, len(values) + 1)]
    weights = np.array(parts, dtype=float)
    k = random("k", Discrete(values, parts))
    w = process("w")
    model = System("average", eqs=[Eq(w(t).diff(t), k * w(t))], init={w: 1}, observables={"m": E(w(t))})
    exact = np.exp(np.outer(MOMENTS, values)) @ weights
    agree(eqsolve.solve(model, at=MOMENTS, rtol=rtol), "m", exact, np.abs(exact).max())


def noise(a: float, b: float, rate: float, rtol: float) -> None:
    """x' = −a x + z with E z(t) z(t') = b² cos ω(t − t'): z is a random mixture of a cosine and a sine, so x is too."""
    x, z, C = process("x"), process("z"), correlation("C")
    model = System(
        "noise",
        eqs=[Eq(x(t).diff(t), -a * x(t) + z(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        init={x: 1},
        laws={z: GP(b**2 * cos(rate * (t - tp)))},
        observables={"m": C(t, t)},
    )
    matrix = np.array([[-a, 1.0, 0.0], [0.0, 0.0, -rate], [0.0, rate, 0.0]])
    parts = [[expm(matrix * moment)[0] @ start for start in np.eye(3)] for moment in MOMENTS]
    exact = np.array([one**2 + b**2 * (two**2 + three**2) for one, two, three in parts])
    agree(eqsolve.solve(model, at=MOMENTS, rtol=rtol), "m", exact, np.abs(exact).max())


def variance(a: float, b: float, rtol: float) -> None:
    """v = E[(a + b z √v)²] is a²/(1 − b²)."""
    v, z = unknown("v", positive=True), normal("z")
    found = eqsolve.solve(FixedPoint("variance", eqs=[Eq(v, E((a + b * z * sqrt(v)) ** 2))]), rtol=rtol)
    exact = a**2 / (1 - b**2)
    assert found.status == "ok"
    assert abs(found["v"].item() - exact) <= found.error["v"].item() + ROUNDING * exact / (1 - b**2)


squares = st.integers(1, 3).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(entry, min_size=n, max_size=n), min_size=n, max_size=n), st.lists(entry, min_size=n, max_size=n)
    )
)


@few
@given(squares, tolerance)
def test_linear_systems(system: tuple, rtol: float) -> None:
    linear_system(*system, rtol)


@few
@given(entry, entry, entry, tolerance)
def test_memory(a: float, b: float, y0: float, rtol: float) -> None:
    memory(a, b, y0, rtol)


@few
@given(st.lists(entry, min_size=1, max_size=4), tolerance)
def test_averages(rates: list[float], rtol: float) -> None:
    averages(rates, rtol)


@few
@given(positive, positive, entry, st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_noise(a: float, b: float, rate: float, rtol: float) -> None:
    noise(a, b, rate, rtol)


@few
@given(positive, st.integers(-9, 9).map(lambda n: n / 10), tolerance)
def test_fixed_points(a: float, b: float, rtol: float) -> None:
    variance(a, b, rtol)


@pytest.mark.slow
@many
@given(positive, positive, entry, st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_much_noise(a: float, b: float, rate: float, rtol: float) -> None:
    noise(a, b, rate, rtol)


@pytest.mark.slow
@many
@given(squares, tolerance)
def test_many_linear_systems(system: tuple, rtol: float) -> None:
    linear_system(*system, rtol)


@pytest.mark.slow
@many
@given(entry, entry, entry, tolerance)
def test_much_memory(a: float, b: float, y0: float, rtol: float) -> None:
    memory(a, b, y0, rtol)


@pytest.mark.slow
@many
@given(st.lists(entry, min_size=1, max_size=4), tolerance)
def test_many_averages(rates: list[float], rtol: float) -> None:
    averages(rates, rtol)
