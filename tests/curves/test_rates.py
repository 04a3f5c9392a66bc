"""Rates measured from curves, and the law of rates that weight decay leaves."""

import numpy as np
import pytest

import eqsolve
from eqsolve import SolverError, UsageError, fit_rate
from eqsolve.language.binding import bind
from eqsolve.microscopic.minimisers import draw, minimise
from eqsolve.microscopic.simulate import Simulation, decay_rates

T = np.linspace(100, 400, 200)


def test_the_form_is_recovered_exactly() -> None:
    y = 3 * T**-1.5 * (1 + 7 / T) * np.exp(-0.0466 * T)
    found = fit_rate((T, y), window=(100, 400))
    assert found.rate == pytest.approx(0.0466, rel=1e-10)
    assert found.amplitude == pytest.approx(3, rel=1e-7)
    assert found.corrections[0] == pytest.approx(7, rel=1e-5)
    assert found.exponent == -1.5


def test_a_straight_line_overestimates_and_its_error_says_so() -> None:
    y = T**-1.5 * np.exp(-0.05 * T)
    plain = fit_rate((T, y), window=(100, 400), exponent=0, terms=0)
    assert plain.rate > 0.05 * 1.05
    assert abs(plain.rate - 0.05) < 2.5 * plain.error
    assert fit_rate((T, y), window=(100, 400)).rate == pytest.approx(0.05, rel=1e-10)


def test_further_corrections_are_within_the_error() -> None:
    y = T**-1.5 * (1 + 30 / T - 900 / T**2) * np.exp(-0.03 * T)
    found = fit_rate((T, y), window=(100, 400))
    assert 0 < abs(found.rate - 0.03) < 2 * found.error


def test_noise_is_in_the_error(rng) -> None:
    size = 0.01
    y = T**-1.5 * np.exp(-0.03 * T) * (1 + size * rng.standard_normal(len(T)))
    found = fit_rate((T, y, size * np.abs(y)), window=(100, 400))
    assert abs(found.rate - 0.03) < 3 * found.error
    assert found.error < 0.1 * 0.03


def test_runs_are_fitted_one_by_one() -> None:
    rates = np.array([0.03, 0.031, 0.032])
    values = T**-1.5 * np.exp(-np.outer(rates, T))
    runs = Simulation("flow", T, {"E": values}, n=10, d=20, params={}, data="Gaussian", step=None, seed=0)
    found = fit_rate(runs, "E", window=(100, 400))
    assert found.runs == pytest.approx(rates, rel=1e-8)
    assert found.rate == pytest.approx(0.031, rel=1e-8)
    assert found.error == pytest.approx(0.001 / 3**0.5, rel=1e-4)
    with pytest.raises(UsageError, match="the runs have no `F`"):
        fit_rate(runs, "F")


def test_the_exponent_comes_from_a_singularity() -> None:
    rate = eqsolve.solve("linear_regression_rate", delta=2)
    t = np.linspace(200, 2000, 300)
    law = eqsolve.spectra.MarchenkoPastur(2)
    found = fit_rate((t, law.laplace(t)), exponent=rate, window=(200, 2000))
    assert found.rate == pytest.approx(float(rate["gamma"]), rel=1e-4)
    assert abs(found.rate - float(rate["gamma"])) < 3 * found.error


def test_a_solved_curve() -> None:
    res = eqsolve.solve("dln_lazy", delta=2, sigma2=0, t_max=60, rtol=1e-5, kernels=False)
    exact = 2 * float(eqsolve.solve("linear_regression_rate", delta=2)["gamma"])  # a squared residual decays twice as fast
    found = fit_rate(res, "E_train", window=(15, 60))
    assert abs(found.rate - exact) < 3 * found.error
    assert found.error < 0.01 * exact


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fit_rate((T, T**-1.0), window=(100, 101)), "times lie in the window"),
        (lambda: fit_rate((T, np.cos(T))), "changes sign or vanishes"),
        (lambda: fit_rate((T, np.exp(-T / 50), 10 * np.exp(-T / 50))), "as large as the curve itself"),
        (lambda: fit_rate((T, np.exp(-T)), window=(5, 2)), "two increasing positive times"),
        (lambda: fit_rate((T, np.exp(-T)), exponent="x"), "exponent= takes a number"),
        (lambda: fit_rate(3), "name of an observable"),
    ],
)
def test_what_cannot_be_fitted_is_said(call, words) -> None:
    with pytest.raises((UsageError, SolverError), match=words):
        call()


@pytest.mark.slow
def test_the_law_of_path_rates_with_weight_decay() -> None:
    """Against a principal-value integral over the density of w by scipy, and the slope at small |w|."""
    from scipy.integrate import quad

    found = eqsolve.path_rates("dln_path_rates", delta=0.5, lam=0.1, points=8)
    law = found.moving

    def density(v):
        return float(law.density(v) + law.density(-v))

    for place in (2, 5):
        a = found.sizes[place]
        near = quad(lambda v: v * density(v), 1e-12, 2 * a, weight="cauchy", wvar=a, limit=400, epsabs=1e-12)[0]
        cuts = [cut for cut in (0.5, 0.86, 1.0, 1.5) if cut > 2 * a]
        far = quad(lambda v, a=a: v / (v - a) * density(v), 2 * a, 6, limit=400, points=cuts)[0]
        exact = a * (1 - (near + far) / 0.5)
        assert found.rates[place] == pytest.approx(exact, rel=1e-5)
    chi_w = 0.4036724163364444  # of the same fixed point
    assert found.rates[0] / found.sizes[0] == pytest.approx(1 / (1 + chi_w), rel=0.03)
    assert 0 < found.slower(1e-3) < found.slower(1e-2) < found.slower(0.1) < 1
    late = found.decay([1e2, 1e3, 1e4])
    assert late[0] / late[1] == pytest.approx(10, rel=0.05)  # like 1/t, slower than any exponential
    assert late[1] / late[2] == pytest.approx(10, rel=0.05)


def test_the_error_counts_the_rounding_of_a_law_next_to_its_edge() -> None:
    """Against E[x²/(u + x)²] = δ with the mixture of w by mpmath at 30 digits; u + α² is 5e-10 there."""
    found = eqsolve.solve("dln_rate", alpha=0.001, delta=1.05, sigma2=0.1, w_star="Rademacher(0.5)")
    miss = abs(float(found["gamma"]) - 4.7541126911704274253e-8)
    assert miss <= float(found.error["gamma"])
    assert float(found.error["gamma"]) < 1e-12 * 4.75e-8
    assert abs(float(found["u"]) + 9.995004472122408758e-7) <= float(found.error["u"])


def test_with_weight_decay_the_singularity_is_an_edge_at_zero() -> None:
    found = eqsolve.solve("dln_path_rates")
    assert found.stats["singularity"] == "edge"
    assert abs(float(found["gamma"])) < 1e-10


def test_finite_size_rate_is_the_smallest_eigenvalue_of_the_linearised_flow(rng) -> None:
    """Linear regression: the eigenvalues of XᵀX/δ fill the Marchenko–Pastur law, down to its edge."""
    d, delta = 800, 2
    X = rng.standard_normal((delta * d, d)) / d**0.5
    smallest = np.linalg.eigvalsh(X.T @ X / delta)[0]
    exact = float(eqsolve.solve("linear_regression_rate", delta=delta)["gamma"])
    root = (delta * d) ** 0.5 - d**0.5
    scale = root * (d**-0.5 - (delta * d) ** -0.5) ** (1 / 3) / (delta * d)
    # Tracy and Widom: the smallest eigenvalue lies 1.2065 scales above the edge, with a standard deviation of 1.27
    assert abs(smallest - exact - 1.2065 * scale) < 4 * 1.27 * scale


def smallest_eigenvalues(alpha: float, d: int, seeds: int) -> np.ndarray:
    """Of √x XᵀX/δ √x with x = √(w² + α⁴) at the interpolator w where the flow ends, without its zeros; δ = 1/2."""
    binding = bind(eqsolve.load("dln_fixed_point_min_norm"), {"alpha": alpha, "delta": 0.5})
    found = []
    for seed in range(seeds):
        X, y, _ = draw(binding, d, seed)
        x = np.sqrt(minimise(binding, X, y) ** 2 + alpha**4)
        found.append(np.linalg.eigvalsh((X * x) @ X.T / 0.5)[0])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_slowest_direction_at_finite_size_tends_to_the_rate(alpha: float) -> None:
    """Above it by a distance of order d^{−2/3}, as at the edge of a spectrum; taken out with two sizes."""
    gamma = float(eqsolve.solve("dln_rate", alpha=alpha, delta=0.5, sigma2=0)["gamma"])
    runs = [smallest_eigenvalues(alpha, d, 16) / gamma for d in (150, 300, 600)]
    means, errors = [run.mean() for run in runs], [run.std(ddof=1) / 4 for run in runs]
    assert means[0] > means[1] > means[2] > 1
    ratio = 2 ** (2 / 3)
    limit, error = (ratio * means[2] - means[1]) / (ratio - 1), np.hypot(ratio * errors[2], errors[1]) / (ratio - 1)
    assert error < 0.05
    assert abs(limit - 1) < 3 * error


@pytest.mark.slow
def test_the_linearised_flow_has_that_direction() -> None:
    """The flow is run to rest in (u, v), and its Jacobian there has the same smallest nonzero eigenvalue, up to scatter."""
    found = decay_rates(eqsolve.load("dln_flow"), 150, 8, 0, {"alpha": 1, "delta": 0.5, "sigma2": 0})
    expected = smallest_eigenvalues(1.0, 150, 24)
    error = np.hypot(found.std(ddof=1) / 8**0.5, expected.std(ddof=1) / 24**0.5)
    assert error < 0.06 * expected.mean()
    assert abs(found.mean() - expected.mean()) < 3 * error


@pytest.mark.slow
def test_finite_size_runs_decay_at_these_rates() -> None:
    """E_train at 2γ; E_test, less its value where the run ends, at γ. At t = 400 the gap is 2e-3 of that at t = 100."""
    gamma = float(eqsolve.solve("dln_rate", alpha=0.3, delta=0.5, sigma2=0)["gamma"])
    times = [*np.linspace(30, 150, 49), 400.0]
    runs = eqsolve.load("dln_flow").simulate(d=600, seeds=12, at=times, alpha=0.3, delta=0.5, sigma2=0)
    train = fit_rate(runs, "E_train", window=(30, 150))
    assert abs(train.rate - 2 * gamma) < 2 * train.error
    for curves, window, truth in (
        (runs.values["E_train"], (30, 150), 2 * gamma),
        (runs.values["E_test"] - runs.values["E_test"][:, -1:], (30, 100), gamma),
    ):
        rates = np.array([fit_rate((runs.t, curve), window=window).rate for curve in curves])
        error = rates.std(ddof=1) / 12**0.5
        assert error < 0.05 * truth
        assert abs(rates.mean() - truth) < 2 * error
    assert abs(rates.mean() - 2 * gamma) > 10 * error
