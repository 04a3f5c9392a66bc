"""Laws of solved fixed points, and of samples: atoms, densities, quantiles, sampling, expectations."""

from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr
from sympy import Symbol, sqrt

import eqsolve
from eqsolve.errors import UsageError
from eqsolve.results.distribution import Distribution


@pytest.fixture(scope="module")
def l1() -> eqsolve.Result:
    return eqsolve.solve("dln_fixed_point_l1")


def test_soft_thresholding_has_an_atom_at_zero(l1: eqsolve.Result) -> None:
    law = l1.law("w")
    assert law.names == ("w", "w_star")
    ((place, mass),) = law.atoms()
    assert place == 0
    assert mass == pytest.approx(float(l1["P_w_zero"]), abs=1e-14)
    assert law.atoms("w_star") == [(0.0, pytest.approx(0.9)), (1.0, pytest.approx(0.1))]
    assert law.cdf(0.0) - law.cdf(-1e-13) == pytest.approx(mass, abs=1e-11)
    assert law.weights.sum() == pytest.approx(1, abs=1e-14)


def test_density_and_cumulative_probability_are_the_closed_forms(l1: eqsolve.Result) -> None:
    law = l1.law("w")
    threshold = (1 + float(l1["chi_w"])) * 0.1
    spread = np.sqrt(float(l1["C_w"]) / 0.5)
    x = np.array([-0.2, -0.01, 0.02, 0.5, 0.9, 1.2])
    shift = x + np.sign(x) * threshold
    expected = sum(p * np.exp(-(((shift - a) / spread) ** 2) / 2) for a, p in ((0, 0.9), (1, 0.1)))
    assert law.density(x) == pytest.approx(expected / (spread * np.sqrt(2 * np.pi)), rel=1e-11, abs=1e-14)
    below = sum(p * ndtr((shift - a) / spread) for a, p in ((0, 0.9), (1, 0.1)))
    assert law.cdf(x) == pytest.approx(below, abs=1e-14)


def test_quantiles_invert_the_cumulative_probability(l1: eqsolve.Result) -> None:
    law = l1.law("w")
    levels = np.array([0.001, 0.01, 0.3, 0.8, 0.9, 0.95, 0.999])
    places = law.quantile(levels)
    assert places[2] == places[3] == 0
    outside = places != 0
    assert law.cdf(places[outside]) == pytest.approx(levels[outside], abs=1e-12)
    many = law.quantile(np.linspace(0.9, 0.999, 400))
    assert law.cdf(many) == pytest.approx(np.linspace(0.9, 0.999, 400), abs=2e-4)
    with pytest.raises(UsageError, match="between 0 and 1"):
        law.quantile(1.2)


def test_expectations_moments_and_samples_agree(l1: eqsolve.Result) -> None:
    law = l1.law("w")
    assert law.expect(lambda w, w_star: (w - w_star) ** 2) == pytest.approx(float(l1["C_w"]), rel=1e-13)
    assert law.expect(lambda w_star: w_star) == pytest.approx(0.1, rel=1e-14)
    draws = law.sample(200_000, seed=3)
    for k, name in enumerate(law.names):
        error = np.sqrt(law.var(name) / 200_000)
        assert draws[k].mean() == pytest.approx(law.mean(name), abs=4 * error)
    assert (draws[0] == 0).mean() == pytest.approx(law.atoms()[0][1], abs=4 * np.sqrt(0.13 / 200_000))
    histogram = law.histogram(np.linspace(-2, 3, 51))
    counts = np.histogram(draws[0], bins=histogram.edges)[0] / 200_000
    assert histogram.probabilities.sum() == pytest.approx(1, abs=1e-8)
    assert counts == pytest.approx(histogram.probabilities, abs=5e-3)
    assert law.wasserstein(Distribution.of_sample(("w",), draws[0])) < 0.02


@pytest.mark.parametrize("target", ["Bernoulli(0.1)", "Normal(0,1)", "GaussBernoulli(0.2,1)"])
def test_minimum_norm_has_a_density(target: str) -> None:
    result = eqsolve.solve("dln_fixed_point_min_norm", alpha=0.3, w_star=target)
    law = result.law("w")
    assert law.atoms() == []
    edges = np.linspace(-6, 6, 13)
    nodes, weights = np.polynomial.legendre.leggauss(120)
    places = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in pairwise(edges)])
    mass = np.tile(weights * 0.5, 12) @ law.density(places)
    assert mass == pytest.approx(1, abs=1e-6)
    assert law.expect(lambda w, w_star: (w - w_star) ** 2) == pytest.approx(float(result["C_w"]), rel=1e-12)


def test_least_squares_without_noise_finds_the_target() -> None:
    law = eqsolve.solve("dln_fixed_point_ridgeless", sigma2=0).law("w")
    assert law.atoms() == [(0.0, pytest.approx(0.9)), (1.0, pytest.approx(0.1))]
    assert law.density(0.5) == 0
    assert law.quantile(0.95) == 1


def test_unknown_variables_are_named(l1: eqsolve.Result, tmp_path) -> None:
    with pytest.raises(UsageError, match=r"no random variable `ww`.*did you mean `w`"):
        l1.law("ww")
    l1.save(tmp_path / "x.nc")
    with pytest.raises(UsageError, match="solve again"):
        eqsolve.open(tmp_path / "x.nc").law("w")


def test_a_law_is_drawn(l1: eqsolve.Result) -> None:
    axes = l1.law("w").plot()
    assert axes.get_xlabel() == "$w$"
    assert len(axes.lines) == 1


def test_a_weighted_sample_is_a_distribution() -> None:
    law = Distribution(("a", "b"), np.array([[0.0, 1.0, 3.0], [1.0, 1.0, 2.0]]), np.array([1.0, 1.0, 2.0]))
    assert law.mean() == pytest.approx(1.75)
    assert law.var("b") == pytest.approx(0.25)
    assert law.expect(lambda a, b: a * b) == pytest.approx(0.25 + 3)
    assert law.quantile([0.2, 0.5, 0.9]).tolist() == [0, 1, 3]
    assert law.cdf(1.0) == pytest.approx(0.5)
    assert law.atoms("b") == [(1.0, 0.5), (2.0, 0.5)]
    assert law.sample(5, seed=1).shape == (2, 5)
    assert law.marginal("b").names == ("b",)
    assert law.histogram([0, 2, 4]).probabilities.tolist() == [0.5, 0.5]
    with pytest.raises(UsageError, match="no density"):
        law.density(0.0)
    with pytest.raises(UsageError, match="takes values of shape"):
        Distribution(("a",), np.zeros((2, 3)), np.ones(3))


def test_an_error_around_a_gaussian_target_is_one_gaussian() -> None:
    """Ridgeless regression: w = w* + an error of variance σ²/(δ − 1), so that w is Gaussian with variance 1.1."""
    law = eqsolve.solve("dln_fixed_point_ridgeless", w_star="Normal(0,1)", delta=2, sigma2=0.1).law("w")
    x = np.array([-2.0, -0.3, 0.0, 0.7, 3.0])
    assert law.density(x) == pytest.approx(np.exp(-x * x / 2.2) / np.sqrt(2.2 * np.pi), rel=1e-13)
    assert law.cdf(x) == pytest.approx(ndtr(x / np.sqrt(1.1)), abs=1e-14)
    assert law.density(x, "w_star") == pytest.approx(np.exp(-x * x / 2) / np.sqrt(2 * np.pi), rel=1e-13)
    assert law.quantile(ndtr(1.0)) == pytest.approx(np.sqrt(1.1), rel=1e-13)
    assert law.expect(lambda w: np.cosh(1.5 * w)) == pytest.approx(np.exp(1.5**2 * 1.1 / 2), rel=1e-14)
    assert law.expect(lambda w_star: np.cosh(2 * w_star)) == pytest.approx(np.exp(2), rel=1e-14)
    assert law.expect(lambda w, w_star: np.cosh(w + w_star)) == pytest.approx(np.exp(4.1 / 2), rel=1e-12)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    grid = np.concatenate([10 * nodes - 10, 10 * nodes + 10])  # E√(w² + ε²) by a rule that ends at its narrow place
    narrow = np.tile(10 * weights, 2) @ (np.sqrt(grid**2 + 0.01) * np.exp(-grid * grid / 2.2)) / np.sqrt(2.2 * np.pi)
    assert law.expect(lambda w: np.sqrt(w * w + 0.01)) == pytest.approx(narrow, rel=1e-13)


@pytest.mark.parametrize("target", ["Normal(0,1)", "GaussBernoulli(0.2,1)", "Bernoulli(0.1)"])
def test_means_of_expressions_and_of_functions_agree_and_move_as_they_should(target: str) -> None:
    """d/dσ² of a mean of f(w* + error) is E f''(w)/2 times that of the error's variance, 1 here."""
    w = Symbol("w", real=True)
    result = eqsolve.solve("dln_fixed_point_ridgeless", w_star=target, delta=2, sigma2=0.1)
    law = result.law("w")
    value, error = result.expect(sqrt(w**2 + 0.01))
    assert value == pytest.approx(law.expect(lambda w: np.sqrt(w * w + 0.01)), abs=1e-13)
    assert error < 1e-14
    curvature = law.expect(lambda w: 0.01 / (w * w + 0.01) ** 1.5)
    assert result.derivative(sqrt(w**2 + 0.01), "sigma2") == pytest.approx(curvature / 2, rel=1e-12)


def test_a_derivative_that_needs_a_gaussian_of_no_variance_is_refused() -> None:
    w = Symbol("w", real=True)
    result = eqsolve.solve("dln_fixed_point_ridgeless", delta=2, sigma2=0)
    assert result.derivative("C_w", "sigma2") == 1
    assert result.derivative(w**4, "delta") == 0  # the variance stays zero
    with pytest.raises(UsageError, match="`z` has variance 0 here, and gains variance with `sigma2`"):
        result.derivative(w**4, "sigma2")


def test_many_digits_of_a_law_without_implicit_functions() -> None:
    precise = eqsolve.solve("dln_fixed_point_ridgeless", delta=2, sigma2="1/10", precision=30).source
    with mp.workdps(40):
        exact = mpf(19) / 100  # E(w* + N(0, 1/10))⁴ = 0.9 × 3/100 + 0.1 × (1 + 6/10 + 3/100)
        assert abs(precise.law("w").expect(lambda w: w**4) - exact) < mpf(10) ** -29


def test_a_variable_with_two_directions_says_how_well_a_mean_is_known(caplog: pytest.LogCaptureFixture) -> None:
    law = eqsolve.solve("dln_fixed_point_min_norm", w_star="Normal(0,1)").law("w")
    assert law.expect(lambda w, w_star: (w - w_star) ** 2) == pytest.approx(
        law.solution.values["C_w"],
        rel=1e-13,  # type: ignore[attr-defined]
    )
    assert not caplog.messages
    law.expect(lambda w, w_star: np.abs(w - w_star))
    assert "is known to" in caplog.text
