"""Estimators at finite size: optimality conditions, agreement with the fixed points that describe them."""

import numpy as np
import pytest
from scipy.stats import sem
from sympy import Abs, symbols

import eqsolve
from eqsolve import FixedPoint, Minimiser, param, random, symbol
from eqsolve.errors import ModelError, UsageError
from eqsolve.language.binding import bind
from eqsolve.laws import Bernoulli
from eqsolve.microscopic.minimisers import _elastic, draw, finite_size, minimise


def test_lasso_satisfies_its_optimality_conditions() -> None:
    binding = bind(eqsolve.load("lasso"), {"sigma2": 0.05})
    X, y, _ = draw(binding, 300, 0)
    w = minimise(binding, X, y, tolerance=1e-13)
    gradient = X.T @ (y - X @ w) / 0.5
    assert gradient[w != 0] == pytest.approx(0.1 * np.sign(w[w != 0]), abs=1e-6)
    assert np.abs(gradient).max() < 0.1 + 1e-6


@pytest.mark.parametrize(
    ("n", "d", "absolute", "square"), [(60, 120, 0.01, 0), (60, 120, 1e-4, 0), (150, 90, 0.02, 0.5), (20, 20, 9, 1)]
)
def test_the_lasso_is_that_of_others(n: int, d: int, absolute: float, square: float) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d)) / d**0.5
    y = X @ (rng.random(d) < 0.2) + 0.1 * rng.standard_normal(n)
    whole = absolute + square
    other = linear_model.ElasticNet(
        alpha=whole, l1_ratio=absolute / whole, fit_intercept=False, tol=1e-14, max_iter=1_000_000
    ).fit(X, y)
    assert _elastic(X, y, absolute, square, 1e-10) == pytest.approx(other.coef_, abs=1e-6)


@pytest.mark.parametrize(("alpha", "depth"), [(1.0, 2), (0.1, 2), (1e-3, 2), (1.0, 3), (0.5, 4)])
def test_interpolator_of_least_potential(alpha: float, depth: int) -> None:
    """Xw = y, and J'(w) lies in the row space of X; for two layers J' = asinh(w/α²)."""
    binding = bind(eqsolve.load("dln_fixed_point_min_norm"), {"alpha": alpha, "L": depth, "sigma2": 0.05})
    X, y, _ = draw(binding, 160, 3)
    w = minimise(binding, X, y)
    assert X @ w == pytest.approx(y, abs=1e-8)
    if depth == 2:
        slope = np.arcsinh(w / alpha**2)
        inside = X.T @ np.linalg.lstsq(X.T, slope, rcond=None)[0]
        assert inside == pytest.approx(slope, abs=1e-6 * np.abs(slope).max())


def test_wide_interpolator_is_the_least_norm_one() -> None:
    binding = bind(eqsolve.load("dln_fixed_point_min_norm"), {"alpha": 100})
    X, y, _ = draw(binding, 120, 0)
    assert minimise(binding, X, y) == pytest.approx(np.linalg.pinv(X) @ y, abs=1e-6)


CASES = [
    ("dln_fixed_point_l1", {"lam": 0.1}, 600),
    ("dln_fixed_point_l1", {"lam": 0.5, "delta": 2, "sigma2": 0.1}, 400),
    ("dln_fixed_point_ridgeless", {"delta": 2, "sigma2": 0.1}, 300),
    ("dln_fixed_point_min_norm", {"alpha": 0.1}, 400),
    pytest.param("dln_fixed_point_min_norm", {"alpha": 1, "L": 3}, 300, marks=pytest.mark.slow),
    ("ridge", {"sigma2": 0.1}, 400),
    ("elastic_net", {"kappa": 1}, 400),
]


@pytest.mark.parametrize(("name", "settings", "d"), CASES)
def test_fixed_points_describe_their_estimators(name: str, settings: dict[str, float], d: int) -> None:
    """Means over 8 draws within 3.5 standard errors of the theory, and the empirical law near the limiting one.

    The fraction of ones in w* fluctuates by √(0.09/8d); moving three times that mass by 1 gives the Wasserstein-2 bound.
    """
    found, law = finite_size(bind(eqsolve.load(name), settings), d=d, seeds=8)
    result = eqsolve.solve(name, params=settings)
    for quantity, values in found.items():
        assert float(result[quantity]) == pytest.approx(values.mean(), abs=3.5 * sem(values)), quantity
    assert result.law("w").wasserstein(law) ** 2 < 3 * np.sqrt(0.09 / (8 * d))


@pytest.mark.slow
def test_validate_uses_the_estimator_a_model_names() -> None:
    found = eqsolve.validate("lasso", lam=0.3, sigma2=0.1, delta=1.5, d=1000, seeds=10)
    assert found.verdict == "agrees"
    assert set(found.observables) == {"C_w", "E_train", "E_test", "P_w_zero"}
    with pytest.raises(UsageError, match="no measure of the estimator"):
        eqsolve.validate("ridge", d=100, seeds=2, observables=["P_w_zero"])


def test_exact_proportions() -> None:
    binding = bind(eqsolve.load("lasso"), {"w_star": "Discrete([-1, 0, 2], [0.2, 0.7, 0.1])"})
    _, _, target = draw(binding, 200, 0, exact=True)
    assert [int((target == value).sum()) for value in (-1, 0, 2)] == [40, 140, 20]


@pytest.mark.slow
def test_optimal_start_is_confirmed_at_finite_size() -> None:
    """With noise the best α is neither small nor large: E_test at α = 0.345 is below both at 0.03 and at 3."""
    values = {}
    for alpha in (0.03, 0.345, 3.0):
        binding = bind(eqsolve.load("dln_fixed_point_min_norm"), {"alpha": alpha, "sigma2": 0.05})
        found, _ = finite_size(binding, d=800, seeds=8)
        theory = float(eqsolve.solve("dln_fixed_point_min_norm", alpha=alpha, sigma2=0.05)["E_test"])
        values[alpha] = found["E_test"]
        assert theory == pytest.approx(values[alpha].mean(), abs=3.5 * sem(values[alpha]))
    for other in (0.03, 3.0):  # the same data for every α
        gap = values[other] - values[0.345]
        assert gap.mean() > 3 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_what_cannot_be_minimised_is_said() -> None:
    binding = bind(eqsolve.load("dln"), {})
    with pytest.raises(UsageError, match="names no estimator"):
        minimise(binding, np.eye(2), np.ones(2))
    lam, delta = param("lam delta", positive=True)
    w_star, y = random("w_star", Bernoulli(0.1)), symbol("y")
    spec = Minimiser(y, penalty=Abs(y - 1) + Abs(y), strength=lam, target=w_star, ratio=delta)
    odd = FixedPoint("odd", [], defaults={lam: 1, delta: 1}, minimises=spec)
    with pytest.raises(UsageError, match="no minimiser for the penalty"):
        minimise(bind(odd, {}), np.eye(2), np.ones(2))


def test_declarations_are_checked() -> None:
    y, w_star = symbol("y"), random("w_star", Bernoulli(0.1))
    with pytest.raises(ModelError, match="one of penalty= and inverse_slope="):
        Minimiser(y, target=w_star, ratio=1)
    with pytest.raises(ModelError, match="expected one of error"):
        Minimiser(y, target=w_star, ratio=1, penalty=y**2, measures={"C": "mistake"})
    with pytest.raises(ModelError, match=r"needs a symbol\(\)"):
        Minimiser(symbols("z"), target=w_star, ratio=1, penalty=y**2)
    with pytest.raises(ModelError, match="target= takes the random constant"):
        Minimiser(y, target=y, ratio=1, penalty=y**2)
    with pytest.raises(ModelError, match="minimises= takes a Minimiser"):
        FixedPoint("m", [], minimises=3)
