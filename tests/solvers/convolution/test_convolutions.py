"""Convolutions against closed forms by Laplace transform, mpmath, and independent solvers."""

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from sympy import exp, sin

import eqsolve
from eqsolve import Eq, Int, Sum, System, function, index, table, times
from eqsolve.compile.forms import CONVOLUTION
from eqsolve.compile.lowering import at
from eqsolve.solvers.convolution.march import MemoryPanel, PanelFunctions

t, s = times("t s")
x, y, z, mu = function("x y z mu")
LINEAR = System("linear", eqs=[Eq(y(t).diff(t), -Int(exp(-s) * y(t - s), (s, 0, t)))], init={y: 1})


def _linear(moments: np.ndarray) -> np.ndarray:
    """y = L⁻¹[(p + 1)/(p² + p + 1)]."""
    rate = np.sqrt(3) / 2
    return np.exp(-moments / 2) * (np.cos(rate * moments) + np.sin(rate * moments) / (2 * rate))


def _honest(result: eqsolve.Result, name: str, truth: Callable[[np.ndarray], np.ndarray], rtol: float) -> None:
    """The true error lies below three times the stated one, at nodes and between; the stated one within the tolerance."""
    assert result.status == "ok"
    nodes = result["t"].values
    between = (nodes[1:] + nodes[:-1]) / 2
    for moments in (nodes, between):
        found = result.at(moments)
        wrong = np.abs(found[name].values - truth(moments))
        assert np.all(wrong <= 3 * found[f"{name}_error"].values)
        assert np.all(found[f"{name}_error"].values <= rtol * np.abs(found[name].values).max() * 1.0001)


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_linear_convolution(rtol: float) -> None:
    _honest(eqsolve.solve(LINEAR, t_max=30, rtol=rtol), "y", _linear, rtol)


@pytest.mark.parametrize("m", [3, 4, 6])
def test_the_order_is_that_of_the_nodes(m: int) -> None:
    """On equal panels errors fall like h^(m + 1) at all nodes, and like h^(2m − 1) at the ends of panels."""
    program = at(eqsolve.compile(LINEAR).program(CONVOLUTION), {})

    def errors(count: int) -> tuple[float, float]:
        functions, width = PanelFunctions(1, m), 6.0 / count
        for place in range(count):
            guess = np.full((1, m + 1), functions.tables[-1, 0, -1] if place else 1.0)
            table, _ = MemoryPanel(program, functions, width, [], []).solve(guess, 1e-14, np.ones(1))
            functions.add((place + 1) * width, table)
        nodes = functions.edges[:-1, None] + width * functions.rule.with_start
        wrong = np.abs(functions.tables[:, 0] - _linear(nodes))
        return wrong.max(), wrong[:, -1].max()

    rough, fine = (errors(12), errors(24)) if m < 6 else (errors(3), errors(6))
    assert np.log2(rough[0] / fine[0]) >= m + 0.7
    assert np.log2(rough[1] / fine[1]) >= 2 * m - 1.5


def test_a_weakly_singular_kernel_is_a_mittag_leffler_function() -> None:
    model = System("fractional", eqs=[Eq(y(t).diff(t), -Int(s**-0.5 * y(t - s), (s, 0, t)))], init={y: 1})
    found = eqsolve.solve(model, t_max=5, rtol=1e-6).at([0.1, 1.0, 5.0])
    for moment, value, error in zip(found["t"].values, found["y"].values, found["y_error"].values, strict=True):
        argument = -mpmath.sqrt(mpmath.pi) * mpmath.mpf(float(moment)) ** 1.5
        truth = mpmath.nsum(lambda k: argument**k / mpmath.gamma(1.5 * k + 1), [0, mpmath.inf])  # noqa: B023
        assert abs(value - float(truth)) <= 3 * error
        assert error <= 1e-6


def test_a_definition_without_derivative() -> None:
    """z = 1 − ∫ z(t − s) ds is e^{−t}; z = t + ∫ (t − s) z(s) ds is sinh t."""
    result = eqsolve.solve(System("volterra", eqs=[Eq(z(t), 1 - Int(z(t - s), (s, 0, t)))]), t_max=20, rtol=1e-8)
    _honest(result, "z", lambda moments: np.exp(-moments), 1e-8)
    lag = System("lag", eqs=[Eq(z(t), t + Int((t - s) * z(s), (s, 0, t)))])
    _honest(eqsolve.solve(lag, t_max=5, rtol=1e-8, solver="convolution"), "z", np.sinh, 1e-8)


def test_derivatives_at_both_times() -> None:
    """∫ y'(s) y(t − s) ds and ∫ y(s) y'(t − s) ds are equal, and d/ds y(t − s) = −y'(t − s)."""
    bodies = [
        Int(y(s).diff(s) * y(t - s), (s, 0, t)),
        Int(y(s) * y(t - s).diff(t), (s, 0, t)),
        -Int(y(s) * y(t - s).diff(s), (s, 0, t)),
    ]
    models = [System("both", eqs=[Eq(y(t).diff(t), -y(t) - body)], init={y: 1}) for body in bodies]
    found = [eqsolve.solve(model, t_max=4, rtol=1e-9).at([1.0, 4.0])["y"].values for model in models]
    np.testing.assert_allclose(found[1], found[0], atol=1e-10)
    np.testing.assert_allclose(found[2], found[0], atol=1e-10)


def test_the_memory_of_a_defined_function_is_that_of_what_defines_it() -> None:
    m = function("m")
    named = System(
        "named",
        eqs=[Eq(m(t), y(t) ** 2), Eq(y(t).diff(t), -y(t) - 2 * Int(m(t - s) * y(s).diff(s), (s, 0, t)))],
        init={y: 1},
    )
    direct = System("direct", eqs=[Eq(y(t).diff(t), -y(t) - 2 * Int(y(t - s) ** 2 * y(s).diff(s), (s, 0, t)))], init={y: 1})
    at_times = [0.5, 5.0, 500.0]
    values = [eqsolve.solve(model, t_max=500, rtol=1e-9).at(at_times)["y"].values for model in (named, direct)]
    np.testing.assert_allclose(values[0], values[1], atol=2e-9)


def test_observables_may_contain_integrals() -> None:
    model = LINEAR.replace("observed", observables={"force": Int(exp(-s) * y(t - s), (s, 0, t)), "double": 2 * y(t)})
    found = eqsolve.solve(model, t_max=5, rtol=1e-9).at([2.0])
    step = 1e-5
    slope = (_linear(np.array([2 + step])) - _linear(np.array([2 - step]))) / (2 * step)
    assert found["force"].values[0] == pytest.approx(-slope[0], abs=1e-8)
    assert found["double"].values[0] == pytest.approx(2 * _linear(np.array([2.0]))[0], abs=1e-9)


def test_a_later_start_is_a_shift_of_time() -> None:
    plain = System("plain", eqs=[Eq(y(t).diff(t), 1 - 2 * y(t) - 5 * Int(y(s), (s, 3, t)))], init={y: 0}, start=3)
    found = eqsolve.solve(plain, t_max=6, rtol=1e-9, solver="convolution").at([4.0, 6.0])
    truth = np.exp(-np.array([1.0, 3.0])) * np.sin([2.0, 6.0]) / 2
    np.testing.assert_allclose(found["y"].values, truth, atol=1e-9)


def test_a_linear_constraint_is_met() -> None:
    """A multiplier that keeps x + y = 1, beside the same system with the multiplier's own equation."""
    memory = Int(x(t - s) * y(s), (s, 0, t))
    eqs = [Eq(x(t).diff(t), -x(t) - memory + mu(t)), Eq(y(t).diff(t), -2 * y(t) + mu(t))]
    start = {x: 0.5, y: 0.5}
    bound = System("bound", eqs=eqs, init=start, constraints={mu: Eq(x(t) + y(t), 1)})
    result = eqsolve.solve(bound, t_max=5, rtol=1e-8)
    assert np.abs(result["x"] + result["y"] - 1).max() < 1e-14
    free = System("free", eqs=[*eqs, Eq(mu(t), (x(t) + 2 * y(t) + memory) / 2)], init=start)
    truth = eqsolve.solve(free, t_max=5, rtol=1e-11).at(result["t"].values)
    for name in ("x", "y", "mu"):
        assert np.all(np.abs(result[name].values - truth[name].values) <= 3 * result.error[name].values)
    with pytest.raises(eqsolve.ParameterError, match="does not hold at the start"):
        eqsolve.solve(bound.replace("off", init={x: 0.5, y: 0.6}), t_max=5)


def test_a_blow_up_says_where() -> None:
    model = System("pole", eqs=[Eq(y(t).diff(t), y(t) ** 2 + Int(y(t - s), (s, 0, t)))], init={y: 1})
    with pytest.raises(eqsolve.SolverError, match="cannot be continued past t = 0") as caught:
        eqsolve.solve(model, t_max=5, rtol=1e-3)
    partial = caught.value.partial
    assert partial.status.startswith("stopped at t = 0")
    assert partial["y"].values[-1] > 100


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path) -> None:
    whole = eqsolve.solve(LINEAR, t_max=30, rtol=1e-8)
    calls = []

    def stop(done: float, total: float, text: str) -> None:
        calls.append(done)
        if len(calls) == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        eqsolve.solve(LINEAR, t_max=30, rtol=1e-8, progress=stop, checkpoint=tmp_path / "kept")
    again = eqsolve.solve(LINEAR, t_max=30, rtol=1e-8, checkpoint=tmp_path / "kept", resume=True)
    assert np.array_equal(again["y"].values, whole["y"].values)


@pytest.mark.parametrize("power", [6, 12])
def test_a_start_like_a_high_power_of_the_time(power: int) -> None:
    """y ~ t^(n+1): relative to itself no first panel is smooth enough. Truth: the memory is a second unknown of an ODE."""
    model = System("late", eqs=[Eq(y(t).diff(t), t**power + Int(exp(-s) * y(t - s), (s, 0, t)))], init={y: 0})
    result = eqsolve.solve(model, t_max=2)
    assert result.status == "ok"
    found = result.at([0.5, 2.0])
    for place, moment in enumerate((0.5, 2.0)):
        truth = solve_ivp(lambda a, b: [a**power + b[1], b[0] - b[1]], (0, moment), [0, 0], rtol=1e-12, atol=1e-18).y[0, -1]
        assert abs(found["y"][place].item() - truth) <= 3 * found["y_error"][place].item() + 1e-10 * truth
    assert result.stats["panels"] < 40


def test_coagulation_in_which_large_clusters_come_late() -> None:
    """Smoluchowski's equation with a constant kernel: n_k = (t/2)^(k-1)/(1 + t/2)^(k+1), which starts like t^(k-1)."""
    k, i, j = index("k i j", 12)
    n, pairs, start = function("n", k), table("pairs", k, i, j), table("start", k)
    sizes = np.arange(1, 13)
    joined = (sizes[None, :, None] + sizes[None, None, :] == sizes[:, None, None]) * 1.0
    gain = Sum(pairs[k, i, j] * n[i](t) * n[j](t), i, j) / 2
    model = System(
        "coagulation",
        eqs=[Eq(n[k](t).diff(t), gain - n[k](t) * y(t)), Eq(y(t).diff(t), -(y(t) ** 2) / 2)],
        init={n[k]: start[k], y: 1},
        tables={pairs: joined, start: (sizes == 1) * 1.0},
    )
    found = eqsolve.solve(model, t_max=4).at([4.0])
    truth = 2.0 ** (sizes - 1) / 3.0 ** (sizes + 1)
    assert np.all(np.abs(found["n"].values[:, 0] - truth) <= 3 * found["n_error"].values[:, 0])


@pytest.mark.slow
def test_a_thousand_members_that_are_not_coupled() -> None:
    """x' = a x (1 − x) for each: GMRES needs a column or two, and no memory for those that it might have taken."""
    k = index("k", 1000)
    x, rate, rates = function("x", k), table("rate", k), np.linspace(0.5, 2, 1000)
    model = System("m", eqs=[Eq(x[k](t).diff(t), rate[k] * x[k](t) * (1 - x[k](t)))], init={x[k]: 0.1}, tables={rate: rates})
    found = eqsolve.solve(model, t_max=4, rtol=1e-4)
    assert found.stats["solver"] == "convolution"
    assert np.all(np.abs(found["x"][:, -1] - 1 / (1 + 9 * np.exp(-4 * rates))) <= 3 * found.error["x"][:, -1] + 1e-13)


@pytest.mark.parametrize(("matrix", "apart"), [("dense", False), ("ring", True)])
def test_forty_members_that_are_coupled(matrix, apart, rng) -> None:
    """x' = −A x − ∫ e^{s − t} x(s) ds, with A x as unknowns of their own or not: a matrix exponential of twice the size."""
    count, (k, p) = 40, index("k p", 40)
    x, y, A = function("x", k), function("y", k), table("A", k, p)
    ring = 2 * np.eye(count) - np.roll(np.eye(count), 1, 0) - np.roll(np.eye(count), -1, 0)
    couplings = ring if matrix == "ring" else np.eye(count) + rng.standard_normal((count, count)) / np.sqrt(count)
    product = Sum(A[k, p] * x[p](t), p)
    eqs = [Eq(x[k](t).diff(t), -(y[k](t) if apart else product) - Int(exp(s - t) * x[k](s), (s, 0, t)))]
    eqs += [Eq(y[k](t), product)] if apart else []
    found = eqsolve.solve(System("m", eqs=eqs, init={x[k]: 1 + sin(k)}, tables={A: couplings}), t_max=5, rtol=1e-6)
    whole = np.block([[-couplings, -np.eye(count)], [np.eye(count), -np.eye(count)]])
    truth = expm(5 * whole)[:count, :count] @ (1 + np.sin(np.arange(count)))
    assert np.all(np.abs(found["x"][:, -1] - truth) <= 3 * found.error["x"][:, -1] + 1e-13)
    np.testing.assert_allclose(found["x"][:, -1], truth, atol=1e-9)


@pytest.mark.slow
def test_a_ring_of_a_thousand() -> None:
    """The matrix of a panel would have 11,000 columns, a gigabyte. Truth: one equation of two for each wave of the ring."""
    count, (k, p) = 1000, index("k p", 1000)
    x, A, places = function("x", k), table("A", k, p), np.arange(1000)
    couplings = np.zeros((count, count))
    for shift in (-2, -1, 1, 2):
        couplings[places, (places + shift) % count] = 0.2
    eqs = [Eq(x[k](t).diff(t), -x[k](t) + Sum(A[k, p] * x[p](t), p) - Int(exp(s - t) * x[k](s), (s, 0, t)))]
    found = eqsolve.solve(System("ring", eqs=eqs, init={x[k]: sin(k)}, tables={A: couplings}), t_max=2, rtol=1e-5)
    rates = np.fft.fft(couplings[0]).real - 1
    waves = np.array([expm(2 * np.array([[rate, -1.0], [1.0, -1.0]]))[0, 0] for rate in rates])
    truth = np.fft.ifft(waves * np.fft.fft(np.sin(places))).real
    assert np.all(np.abs(found["x"][:, -1] - truth) <= 3 * found.error["x"][:, -1] + 1e-13)
