"""The models with memory of one time, against closed forms, other solvers and their own limits."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import eqsolve


def test_f12_numbers() -> None:
    """Values to nine digits from a second-order doubling scheme with extrapolation."""
    result = eqsolve.solve("mct_f12", t_max=1e12, rtol=1e-8)
    values = result.at([1.0, 10.0, 100.0, 1e4, 1e12])["phi"].values
    np.testing.assert_allclose(values, [0.649375620, 0.438326993, 0.350935155, 1 / 3, 1 / 3], atol=1e-9)
    assert result.error["phi"].values.max() <= 1e-8
    assert result.stats["panels"] < 150


@pytest.mark.parametrize("v1", [0.5, 3.0])
def test_f1_against_its_laplace_transform(v1: float) -> None:
    """With v2 = 0 the transform solves the quadratic pφ − 1 = −φ − v1 φ (pφ − 1)."""

    def transform(p: mpmath.mpc) -> mpmath.mpc:
        edges = [(1 - mpmath.sqrt(v1)) ** 2, (1 + mpmath.sqrt(v1)) ** 2]  # the cut ends at minus these
        return 2 / (p + 1 - v1 + mpmath.sqrt(p + edges[0]) * mpmath.sqrt(p + edges[1]))

    found = eqsolve.solve("mct_f12", v1=v1, v2=0, t_max=30, rtol=1e-9).at([0.1, 1.0, 5.0, 30.0])
    for moment, value, error in zip(found["t"].values, found["phi"].values, found["phi_error"].values, strict=True):
        with mpmath.workdps(30):
            truth = mpmath.invertlaplace(transform, mpmath.mpf(float(moment)), method="talbot", degree=60)
        assert abs(value - float(truth)) <= 3 * error + 1e-12


@pytest.mark.parametrize(("v1", "v2"), [pytest.param(0, 4.1, marks=pytest.mark.slow), (2, 0)])
def test_f12_stays_at_its_nonergodicity_parameter(v1: float, v2: float) -> None:
    plateau = float(eqsolve.solve("mct_f12_plateau", v1=v1, v2=v2)["f"])
    assert plateau / (1 - plateau) == pytest.approx(v1 * plateau + v2 * plateau**2, rel=1e-12)
    found = eqsolve.solve("mct_f12", v1=v1, v2=v2, t_max=1e12, rtol=1e-6).at([1e12])
    assert abs(found["phi"].values[0] - plateau) <= 3 * found["phi_error"].values[0] + 1e-12
    if v1 == 0:
        assert plateau == pytest.approx(0.578086881, abs=1e-9)


@pytest.mark.slow
def test_f12_relaxes_in_two_steps_below_the_transition() -> None:
    """At v2 = 3.9999 the plateau is 1/2; the error bar holds against a much tighter solve, the last decay included."""
    moments = [1e2, 1e4, 1e6, 1e7, 1e8, 1e9, 1e12]
    rough = eqsolve.solve("mct_f12", v1=0, v2=3.9999, t_max=1e12, rtol=1e-6).at(moments)
    fine = eqsolve.solve("mct_f12", v1=0, v2=3.9999, t_max=1e12, rtol=1e-11, order=11).at(moments)
    wrong = np.abs(rough["phi"].values - fine["phi"].values)
    assert np.all(wrong <= 3 * rough["phi_error"].values + fine["phi_error"].values)
    values = fine["phi"].values
    assert np.all(np.diff(values) < 1e-12)
    assert abs(values[2] - 0.5) < 0.01
    assert abs(values[-1]) < 1e-10


@pytest.mark.slow
def test_the_number_of_panels_grows_like_the_logarithm_of_time() -> None:
    panels = [eqsolve.solve("mct_f12", v1=0, v2=3.9999, t_max=end, rtol=1e-3).stats["panels"] for end in (1e3, 1e6, 1e9)]
    assert panels[2] - panels[1] <= 1.5 * (panels[1] - panels[0]) + 5


@pytest.mark.parametrize(("shape", "rtol"), [(1, 1e-8), (3, 1e-8), (3, 1e-4)])
def test_an_epidemic_with_whole_shape_is_a_chain_of_stages(shape: int, rtol: float) -> None:
    """K of shape k is the age at which the last of k equal exponential stages ends: ordinary differential equations."""
    beta, mean, seed = 2.5, 5.0, 0.001
    rate = shape / mean

    def right(_: float, state: np.ndarray) -> np.ndarray:
        infections = beta * state[0] * rate * state[-1]
        entering = np.concatenate([[infections], rate * state[1:-1]])
        return np.concatenate([[-infections], entering - rate * state[1:]])

    start = np.zeros(shape + 1)
    start[:2] = 1 - seed, seed
    moments = [1.0, 10.0, 30.0, 60.0]
    truth = solve_ivp(right, (0, 60), start, "DOP853", t_eval=moments, rtol=1e-13, atol=1e-15)
    found = eqsolve.solve("sir_memory", shape=shape, t_max=60, rtol=rtol).at(moments)
    assert np.all(np.abs(found["S"].values - truth.y[0]) <= 3 * found["S_error"].values + 1e-12)


def test_the_final_size_of_an_epidemic_does_not_depend_on_the_kernel() -> None:
    last = brentq(lambda S: np.log(S / 0.999) + 2.5 * (1 - S), 1e-6, 0.5, xtol=1e-15)
    found = eqsolve.solve("sir_memory", shape=2.5, t_max=1e3, rtol=1e-6).at([1e3])
    assert abs(found["S"].values[0] - last) <= 3 * found["S_error"].values[0] + 1e-10


def test_two_correlators_without_coupling_are_oscillators() -> None:
    """V = 0: φ'' + ν φ' + Ω² φ = 0."""
    off = dict.fromkeys(("V_111", "V_212"), 0)
    found = eqsolve.solve("mct_two", **off, t_max=10, rtol=1e-8)
    moments = found["t"].values
    rate = np.sqrt(0.75)
    truth = np.exp(-moments / 2) * (np.cos(rate * moments) + np.sin(rate * moments) / (2 * rate))
    assert np.all(np.abs(found["phi_1"].values - truth) <= 3 * found.error["phi_1"].values)


@pytest.mark.slow
def test_two_correlators_against_a_dense_second_order_scheme() -> None:
    """The memory by the trapezoidal rule on a uniform grid, extrapolated: no code and no idea in common."""

    def dense(count: int, end: float) -> np.ndarray:
        h = end / count
        phi, u = np.ones((2, count + 1)), np.zeros((2, count + 1))

        def rates(n: int) -> np.ndarray:
            one, two = phi[:, : n + 1]
            memory = np.array([3.5 * one**2, 8 * one * two])
            weights = np.full(n + 1, h)
            weights[[0, -1]] = h / 2
            force = phi[:, n] + (np.sum(weights * memory[:, ::-1] * u[:, : n + 1], axis=1) if n else 0.0)
            return np.array([-u[0, n] - force[0], -u[1, n] - 4 * force[1]])

        for n in range(count):
            first = rates(n)
            phi[:, n + 1], u[:, n + 1] = phi[:, n] + h * u[:, n], u[:, n] + h * first
            phi[:, n + 1] = phi[:, n] + h * (u[:, n] + u[:, n + 1]) / 2
            for _ in range(6):
                u[:, n + 1] = u[:, n] + h * (first + rates(n + 1)) / 2
                phi[:, n + 1] = phi[:, n] + h * (u[:, n] + u[:, n + 1]) / 2
        return phi[:, -1]

    rough, fine = dense(400, 4.0), dense(800, 4.0)
    truth = fine + (fine - rough) / 3
    found = eqsolve.solve("mct_two", t_max=4, rtol=1e-9).at([4.0])
    assert [found[name].values[0] for name in ("phi_1", "phi_2")] == pytest.approx(truth, abs=2e-8)


@pytest.mark.slow
def test_equilibrium_of_the_p_spin_glass_is_the_late_two_time_correlation() -> None:
    """T = 0.9 above T_d = √(3/8): C(t, t − τ) at t = 60."""
    lags = [0.2, 1.0, 3.0, 8.0]
    aged = eqsolve.solve("pspin", T=0.9, t_max=60, rtol=1e-5, at2=[(60, 60 - lag) for lag in lags])
    still = eqsolve.solve("pspin_equilibrium", T=0.9, t_max=8, rtol=1e-9).at(lags)["phi"].values
    found = [aged.at2([(60, 60 - lag)])["C"].values[0] for lag in lags]
    np.testing.assert_allclose(found, still, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "settings", "end"),
    [
        pytest.param("mct_f12", {"v1": 0, "v2": 3.9}, 1e8, marks=pytest.mark.slow),
        pytest.param("mct_two", {}, 1e3, marks=pytest.mark.slow),
        pytest.param("pspin_equilibrium", {"T": 0.63}, 1e6, marks=pytest.mark.slow),
        pytest.param("sir_memory", {"shape": 2.3}, 200, marks=pytest.mark.slow),
        ("mackey_glass", {}, 150),
    ],
)
def test_error_bars_hold_against_tighter_solves(name: str, settings: dict, end: float) -> None:
    rough = eqsolve.solve(name, **settings, t_max=end, rtol=1e-4)
    assert rough.status == "ok"
    nodes = rough["t"].values
    fine = eqsolve.solve(name, **settings, t_max=end, rtol=1e-8, order=11).at(nodes)
    for unknown in rough.names:
        wrong = np.abs(rough[unknown].values - fine[unknown].values)
        assert np.all(wrong <= 3 * rough.error[unknown].values + fine[f"{unknown}_error"].values)
