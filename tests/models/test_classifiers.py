"""Classifiers: where training ends, and how often a fresh label is missed, against finite sizes and closed forms."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import eqsolve

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def logistic_margin(h: np.ndarray, V: float) -> np.ndarray:
    """Return argmin (p − h)²/2V + log(1 + e^{−p}) by bisection."""
    low, high = h.copy(), h + V
    for _ in range(80):
        middle = (low + high) / 2
        below = middle - V * expit(-middle) < h
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


@pytest.mark.parametrize(
    ("delta", "lam", "flip"),
    [(0.7, 0.02, 0), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, 0.1, 0.1), (3, 1, 0.7)))],
)
def test_the_fixed_point_obeys_the_equations_over_two_gaussians(delta: float, lam: float, flip: float) -> None:
    """λm = E[ζ|Z| s], σ² = δV² E[s²], 1 − λδV = δ(1 − E p'), s = 1/(1 + e^p), over ζ, the teacher's field Z, and G."""
    res = eqsolve.solve("logistic_fixed_point", delta=delta, lam=lam, flip=flip)
    m, sigma2, V = (float(res[name]) for name in ("m", "sigma2", "V"))
    x, weights = np.polynomial.legendre.leggauss(160)
    G, mass = 9 * x, 9 * weights * np.exp(-((9 * x) ** 2) / 2) / np.sqrt(2 * np.pi)
    Z, half = (9 + 9 * x) / 2, 9 * weights * np.exp(-(((9 + 9 * x) / 2) ** 2) / 2) / np.sqrt(2 * np.pi)
    found = np.zeros(5)
    for zeta, share in ((1, 1 - flip), (-1, flip)):
        p = logistic_margin(zeta * m * Z[:, None] + np.sqrt(sigma2) * G, V)
        pull = expit(-p)
        terms = [zeta * Z[:, None] * pull, pull**2, 1 / (1 + V * pull * (1 - pull)), np.logaddexp(0, -p), np.ones_like(p)]
        found += share * np.array([half @ term @ mass for term in terms])
    assert found[4] == pytest.approx(1, abs=1e-12)
    assert lam * m == pytest.approx(found[0], abs=1e-10)
    assert sigma2 == pytest.approx(delta * V**2 * found[1], rel=1e-10)
    assert 1 - lam * delta * V == pytest.approx(delta * (1 - found[2]), abs=1e-10)
    assert float(res["train_loss"]) == pytest.approx(found[3], rel=1e-10)


@pytest.mark.slow
def test_the_minimiser_of_finite_size_misses_as_many_fresh_labels() -> None:
    """d = 300, 24 draws: within four standard errors, and a bias of order 1/d; labels are missed by counting."""
    delta, lam, flip, d, draws, fresh = 2.0, 0.1, 0.1, 300, 24, 4000
    theory = eqsolve.solve("logistic_fixed_point", delta=delta, lam=lam, flip=flip)
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(draws):
        n, teacher = round(delta * d), rng.standard_normal(d)
        X = rng.standard_normal((n, d)) / np.sqrt(d)
        y = np.sign(X @ teacher) * np.where(rng.random(n) < flip, -1, 1)

        def risk(w: np.ndarray, X: np.ndarray = X, y: np.ndarray = y) -> tuple[float, np.ndarray]:
            p = y * (X @ w)
            value = np.logaddexp(0, -p).sum() / delta + lam * w @ w / 2
            return value, -X.T @ (y * expit(-p)) / delta + lam * w

        w = minimize(risk, np.zeros(d), jac=True, method="L-BFGS-B", options={"gtol": 1e-7}).x
        inputs = rng.standard_normal((fresh, d))
        wrong = np.mean((inputs @ w) * (inputs @ teacher) < 0)
        loss = np.logaddexp(0, -y * (X @ w)).mean()
        rows.append([w @ teacher / d, w @ w / d, loss, wrong, flip + (1 - 2 * flip) * wrong])
    mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(draws)
    for place, name in enumerate(("m", "q", "train_loss", "E_gen", "E_test")):
        assert abs(mean[place] - float(theory[name])) < 4 * spread[place] + 1 / d


@pytest.mark.slow
def test_gradient_flow_ends_at_the_fixed_point() -> None:
    """With λ = 1 every mode decays at least as e^{−t}: 3e-4 is left at t = 8, of values below 1."""
    found = eqsolve.solve("logistic_regression", at=[0, 8.0], lam=1, rtol=1e-3)
    rest, end = eqsolve.solve("logistic_fixed_point", lam=1), found.at([8.0])
    for name in ("m", "q", "train_loss", "E_gen", "E_test"):
        assert abs(float(end[name][0]) - float(rest[name])) < 1e-3 * max(float(rest[name]), 0.3)
    # w sets out along Xᵀy/2δ: cos of the angle is (1 − 2 flip)√(2/π)/√(1/δ + (1 − 2 flip)² 2/π)
    along = 0.8 * np.sqrt(2 / np.pi)
    start = np.arccos(along / np.sqrt(0.5 + along**2)) / np.pi
    assert abs(float(found.at([0.0])["E_gen"][0]) - start) < 1e-3 * start


@pytest.mark.slow
def test_the_squared_hinge_ends_at_its_fixed_point() -> None:
    end = eqsolve.solve("perceptron_hinge", at=[7.0], lam=1, rtol=2e-3).at([7.0])
    rest = eqsolve.solve("hinge_fixed_point", lam=1)
    for name in ("m", "q", "train_loss", "E_gen"):
        assert abs(float(end[name][0]) - float(rest[name])) < 1e-3 * max(float(rest[name]), 0.3)


@pytest.mark.slow
def test_fixed_points_agree_with_long_runs() -> None:
    for name in ("logistic_fixed_point", "hinge_fixed_point"):
        found = eqsolve.validate(name, d=200, seeds=6, t_max=40, lam=0.3, workers=1)
        assert found.verdict == "agrees"
        assert not found.low_power


@pytest.mark.slow
def test_a_start_without_a_value_is_not_compared() -> None:
    """Weights that start from 0 have no angle at finite size."""
    found = eqsolve.validate("logistic_regression", d=60, seeds=3, at=[0, 0.5], rtol=3e-2, workers=1)
    assert found.verdict != "disagrees"
    assert found.t.tolist() == [0.5]
    assert any("t = 0 is left out: `E_gen`" in note for note in found.notes)
