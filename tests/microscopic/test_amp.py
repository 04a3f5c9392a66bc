"""Approximate message passing against its state evolution, the boxes and the minimiser it converges to."""

import numpy as np
import pytest
from sympy import asinh, sqrt

import eqsolve
from eqsolve import E, Eq, FixedPoint, Minimiser, normal, param, proximal, random, symbol, unknown
from eqsolve.errors import UsageError
from eqsolve.language.binding import bind
from eqsolve.laws import Bernoulli
from eqsolve.microscopic.minimisers import draw, minimise, pass_messages

START = {"b_star": 1.0, "sigma2_star": 0.1 / 0.5, "t_star": 0.2}  # w = 0, and t_1 = λ(1 + b_0) with b_0 = 1


def test_state_evolution_converges_to_its_fixed_point() -> None:
    path = eqsolve.iterate("state_evolution", 80, start=START)
    solved = eqsolve.solve("state_evolution")
    for name in ("b_star", "sigma2_star", "t_star", "C_w", "E_train", "P_w_zero"):
        assert float(path[name][-1]) == pytest.approx(float(solved[name]), rel=1e-10)
    # the first steps by hand: soft thresholding of Bernoulli(0.1) plus Gaussian noise of variance 0.2 at 0.2
    draws = np.random.default_rng(0)
    target = (draws.random(1_000_000) < 0.1) * 1.0
    seen = target + np.sqrt(0.2) * draws.standard_normal(1_000_000)
    weights = np.sign(seen) * np.maximum(np.abs(seen) - 0.2, 0)
    assert float(path["b_star"][1]) == pytest.approx(np.mean(weights != 0) / 0.5, abs=5e-3)
    assert float(path["sigma2_star"][1]) == pytest.approx(np.mean((weights - target) ** 2) / 0.5, abs=2e-3)
    assert float(path["t_star"][1]) == pytest.approx(0.1 + float(path["b_star"][1]) * 0.2, rel=1e-14)


@pytest.mark.parametrize("settings", [{}, {"delta": 2, "lam": 0.5, "sigma2": 0.1}, {"w_star": "Normal(0,1)", "lam": 0.3}])
def test_mapping_to_case_i(settings: dict[str, object]) -> None:
    evolution, box = (eqsolve.solve(name, params=settings) for name in ("state_evolution", "dln_fixed_point_l1"))
    chi, lam, delta = float(box["chi_w"]), float(box.params["lam"]), float(box.params["delta"])
    assert float(evolution["b_star"]) == pytest.approx(chi / (1 + chi), rel=1e-10)
    assert float(evolution["t_star"]) == pytest.approx((1 + chi) * lam, rel=1e-10)
    assert float(evolution["sigma2_star"]) == pytest.approx((1 + chi) ** 2 * float(box["C_f"]) / delta, rel=1e-10)
    for name in ("chi_w", "C_w", "C_f", "E_train", "E_test", "P_w_zero"):
        assert float(evolution[name]) == pytest.approx(float(box[name]), rel=1e-10)


def test_mapping_to_case_ii() -> None:
    """Without a penalty η is the identity: b = 1/δ, σ² = σ²/(δ − 1)."""
    box = eqsolve.solve("dln_fixed_point_ridgeless", delta=2.5, sigma2=0.3)
    evolution = eqsolve.solve("ridge", delta=2.5, sigma2=0.3, lam=1e-13)
    assert float(evolution["b"]) == pytest.approx(1 / 2.5, rel=1e-10)
    assert float(evolution["tau2"]) == pytest.approx(0.3 / 1.5, rel=1e-10)
    assert float(evolution["C_w"]) == pytest.approx(float(box["C_w"]), rel=1e-10)
    assert float(evolution["E_train"]) == pytest.approx(float(box["E_train"]), rel=1e-10)


def test_mapping_to_case_iii() -> None:
    """J = w asinh(w/α²) − √(w² + α⁴) and λ → 0: b → 1, t → R_w, σ² → (C_w + σ²)/δ; η is derived from J alone."""
    delta, alpha = param("delta alpha", positive=True)
    sigma2 = param("sigma2", nonnegative=True)
    t, s2 = unknown("t s2", positive=True)
    w_star = random("w_star", Bernoulli(0.1))
    G, y = normal("G"), symbol("y")
    w, slope = proximal(y * asinh(y / alpha**2) - sqrt(y**2 + alpha**4), y, w_star + sqrt(s2) * G, t)
    limit = FixedPoint(
        "limit",
        eqs=[Eq(delta, E(slope)), Eq(s2, (sigma2 + E((w - w_star) ** 2)) / delta)],
        defaults={delta: 0.5, alpha: 0.3, sigma2: 0.05},
    )
    evolution = eqsolve.solve(limit)
    box = eqsolve.solve("dln_fixed_point_min_norm", alpha=0.3, sigma2=0.05)
    assert float(evolution["t"]) == pytest.approx(float(box["R_w"]), rel=1e-10)
    assert float(evolution["s2"]) == pytest.approx((float(box["C_w"]) + 0.05) / 0.5, rel=1e-10)


def test_ridge_is_the_marchenko_pastur_integral() -> None:
    """C_w = ∫ (λ²ρ² + σ²x/δ)/(x + λ)² dμ(x)."""
    for delta, lam, sigma2 in ((0.5, 0.1, 0.0), (0.5, 0.1, 0.2), (2.0, 0.3, 0.1)):
        x, weights = eqsolve.spectra.MarchenkoPastur(delta).quadrature(200)
        exact = weights @ ((lam**2 * 0.1 + sigma2 * x / delta) / (x + lam) ** 2)
        assert float(eqsolve.solve("ridge", delta=delta, lam=lam, sigma2=sigma2)["C_w"]) == pytest.approx(exact, rel=1e-12)


@pytest.mark.slow
def test_elastic_net_tends_to_the_lasso() -> None:
    gaps = [
        float(eqsolve.solve("elastic_net", kappa=kappa)["C_w"]) / float(eqsolve.solve("lasso")["C_w"]) - 1
        for kappa in (1e-4, 1e-5)
    ]
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.01)
    assert abs(gaps[1]) < 1e-4


def errors_over_seeds(d: int, seeds: int, steps: int) -> np.ndarray:
    binding = bind(eqsolve.load("state_evolution"), {})
    runs = []
    for seed in range(seeds):
        X, y, target = draw(binding, d, seed)
        runs.append(pass_messages(binding, X, y, steps=steps, target=target).error)
    return np.array(runs)


def test_iteration_follows_state_evolution() -> None:
    """At d = 2000, δ = 0.5, λ = 0.1 the error of every iterate agrees within 3 standard errors for 20 steps."""
    errors = errors_over_seeds(2000, 6, 20)
    theory = eqsolve.iterate("state_evolution", 20, start=START)["C_w"].values[1:]
    deviation = (errors.mean(axis=0) - theory) / (errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))
    assert np.abs(deviation).max() < 3


def test_limit_is_the_minimiser() -> None:
    binding = bind(eqsolve.load("state_evolution"), {})
    X, y, _ = draw(binding, 1000, 1)
    run = pass_messages(binding, X, y, steps=500, tolerance=1e-12)
    assert run.status == "converged"
    assert np.abs(run.weights - minimise(binding, X, y, tolerance=1e-13)).max() < 1e-6


def test_divergence_is_said() -> None:
    """A matrix with a large mean is far from the theory's: the iteration blows up and says so."""
    binding = bind(eqsolve.load("state_evolution"), {})
    X, y, _ = draw(binding, 400, 0)
    run = pass_messages(binding, X + 0.2, y + 1.0, steps=400)
    assert run.status == "diverged"
    assert "the residual has grown" in run.message
    assert len(run.b) < 400


def test_message_passing_needs_a_penalty() -> None:
    binding = bind(eqsolve.load("dln_fixed_point_min_norm"), {})
    X, y, _ = draw(binding, 50, 0)
    with pytest.raises(UsageError, match="needs a penalty with a positive strength"):
        pass_messages(binding, X, y, steps=3)


def test_iterate_says_what_is_wrong() -> None:
    with pytest.raises(UsageError, match="no value for `b_star`"):
        eqsolve.iterate("state_evolution", 3, start={"t_star": 1})
    with pytest.raises(UsageError, match="its left side is no unknown"):
        eqsolve.iterate("dln_fixed_point_min_norm", 3, start={})


def test_a_smooth_penalty_of_no_closed_form() -> None:
    """J = √(1 + w²): η is an implicit function; the limit agrees with the minimiser at finite size."""
    delta, lam = param("delta lam", positive=True)
    C, b = unknown("C", positive=True), unknown("b", domain=(0, 1))
    w_star = random("w_star", Bernoulli(0.3))
    G, y = normal("G"), symbol("y")
    J = sqrt(1 + y**2)
    w, slope = proximal(J, y, w_star + sqrt(C / delta) * G, lam / (1 - b))
    model = FixedPoint(
        "smooth",
        eqs=[Eq(C, E((w - w_star) ** 2)), Eq(b, E(slope) / delta)],
        defaults={delta: 0.7, lam: 0.5},
        variables={"w": w},
        minimises=Minimiser(y, penalty=J, strength=lam, target=w_star, ratio=delta, measures={"C": "error"}),
    )
    from eqsolve.microscopic.minimisers import finite_size

    found, _ = finite_size(bind(model, {}), d=400, seeds=6)
    mean, error = found["C"].mean(), found["C"].std(ddof=1) / np.sqrt(len(found["C"]))
    assert float(eqsolve.solve(model)["C"]) == pytest.approx(mean, abs=3 * error)


def test_it_goes_on_where_the_first_threshold_leaves_nothing() -> None:
    from eqsolve import message_passing

    run = message_passing("state_evolution", d=200, steps=100, lam=0.5, delta=2, sigma2=0.1, w_star="Normal(0, 0.1)")
    assert run.b[0] == 0
    assert run.b[-1] > 0
