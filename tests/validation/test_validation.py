"""Theory held against finite sizes: agreement where there is some, disagreement with a wrong theory."""

import json
from pathlib import Path

import numpy as np
import pytest
from sympy import exp, sqrt

import eqsolve
from eqsolve import Eq, Int, UsageError
from eqsolve.results.distribution import Distribution
from eqsolve.results.words import percent
from eqsolve.validation.validate import compare, distance, distances_at_rest, given_constants

ROOT = Path(__file__).resolve().parents[2]
AT = [0.3, 1.0, 3.0]


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def flipped(name: str = "flipped"):
    """Linear regression with the sign of the noise's correlation in C_w turned round."""
    right = eqsolve.load("linear_regression")
    t, tp, s, lam, m = right.symbols("t t' s lam m")
    C_w, C_f, R_w, R_f = right.symbols("C_w C_f R_w R_f")
    return right.replace(name, flow="linear_flow", eqs=[
        Eq(C_w(t, tp).diff(t), -C_w(t, tp) + lam * (m(tp) - C_w(t, tp))
           - Int(R_w(tp, s) * C_f(t, s), (s, 0, tp)) + Int(R_f(t, s) * C_w(tp, s), (s, 0, t))),
    ])  # fmt: skip


@pytest.mark.slow
def test_a_right_theory_agrees_and_a_wrong_one_does_not() -> None:
    found = eqsolve.validate("linear_regression", d=150, seeds=8, at=AT, delta=0.5)
    assert found.verdict == "agrees"
    assert set(found.observables) == {"E_train", "E_test"}
    assert all(np.abs(item.z).max() < 3 for item in found.observables.values())
    wrong = eqsolve.validate(flipped(), d=150, seeds=8, at=AT, delta=0.5)
    assert wrong.verdict == "disagrees"
    assert wrong.observables["E_test"].verdict == "disagrees"


def test_few_draws_of_a_small_system_do_not_tell() -> None:
    found = eqsolve.validate("linear_regression", d=12, seeds=3, at=AT, delta=0.5)
    assert found.verdict == "not enough data"


def test_settings_reach_both_sides() -> None:
    found = eqsolve.validate("linear_regression", d=150, seeds=6, at=[1.0], delta=2, lam=0.5, sigma2=0.3, params={"rho2": 0.7})
    assert found.verdict == "agrees"
    assert found.n == 300
    with pytest.raises(eqsolve.ParameterError, match="did you mean `delta`"):
        eqsolve.validate("linear_regression", d=30, at=[1.0], delt=2)


@pytest.mark.slow
def test_features_of_other_laws_agree_too(tmp_path: Path) -> None:
    for data in ("binary", "student_t"):
        found = eqsolve.validate("linear_regression", d=400, seeds=8, seed=1, at=AT, data=data)
        assert found.verdict == "agrees"
        assert found.data == data
    matrix = np.random.default_rng(0).choice([-1.0, 1.0], size=(300, 600)) / 600**0.5
    np.save(tmp_path / "x.npy", matrix)
    found = eqsolve.validate("linear_regression", seeds=6, at=AT, data=str(tmp_path / "x.npy"))
    assert (found.n, found.d) == (300, 600)
    assert found.verdict in ("agrees", "not enough data")  # one matrix: its own fluctuation is not averaged out


def test_what_is_reported_is_plain_and_drawn() -> None:
    found = eqsolve.validate("linear_regression", d=60, seeds=2, at=AT)
    made = json.loads(json.dumps(found.json_object()))
    assert made["verdict"] in ("agrees", "disagrees", "not enough data")
    assert made["t"] == AT
    entry = made["observables"]["E_test"]
    names = ("theory", "theory_error", "simulation", "standard_error", "bias", "z", "detectable")
    assert {len(entry[key]) for key in names} == {3}
    assert len(found.plot().axes) == 4  # two observables, and the scores of each
    with pytest.raises(UsageError, match="did you mean `E_test`"):
        found.plot("E_tst")
    assert "largest |z|" in repr(found)


def decaying(wrong: bool = False):
    """A diagonal network whose weight decay falls as λe^{−t}; with ``wrong``, α⁴ in its drift decays by λte^{−t}."""
    base, flow = eqsolve.load("dln"), eqsolve.load("dln_flow")
    t, w, g, lam, alpha = base.symbols("t w g lam alpha")
    decay = {lam: lam * exp(-t)}
    total = lam * exp(-t) * t if wrong else lam * (1 - exp(-t))
    below = flow.replace(
        "decaying_flow", drift={item: expr.xreplace(decay) for item, expr in flow.drift.items()}, observables={"loss": None}
    )
    drift = -sqrt(w(t) ** 2 + alpha**4 * exp(-2 * total)) * g(t) - lam * exp(-t) * w(t)
    return base.replace(
        "decaying", eqs=[Eq(w(t).diff(t), drift)], substitute={w: None}, observables={"loss": None}, flow=below
    )


@pytest.mark.slow
def test_a_drift_that_is_wrong_by_a_few_percent_is_seen_with_few_draws() -> None:
    settings = {"d": 300, "seeds": 6, "at": [1.0, 3.0, 10.0], "lam": 0.3, "rtol": 1e-2}
    right, wrong = eqsolve.validate(decaying(), **settings), eqsolve.validate(decaying(wrong=True), **settings)
    away = wrong.observables["E_train"].theory / right.observables["E_train"].theory - 1
    assert np.all(np.abs(away) < 0.2)  # 1%, 7% and 17%, where the runs themselves scatter by 10% to 20%
    assert right.verdict == "agrees"
    assert wrong.verdict == "disagrees"
    assert wrong.warnings == ()


@pytest.mark.slow
def test_what_could_not_have_been_seen_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Features that are not Gaussian scatter: a few draws of a small system agree with many wrong theories."""
    found = eqsolve.validate("linear_regression", d=300, seeds=6, at=AT, data="binary")
    assert found.low_power
    assert "low power" in repr(found)
    assert "low power: a deviation by a tenth would have been missed in `E_train` at t = 0.3, 1, 3" in caplog.text
    assert found.json_object()["warnings"] == list(found.warnings)
    assert found.power["E_train"] > 0.1
    keen = eqsolve.validate("linear_regression", d=300, seeds=6, at=AT)
    assert keen.warnings == ()
    assert not keen.low_power
    made = json.loads(json.dumps(keen.json_object()))
    for name, item in keen.observables.items():
        assert made["power"][name] == min(made["observables"][name]["detectable"]) == item.detectable.min()
        assert item.detectable.max() < 0.02
    seen = next(iter(keen.observables.values())).detectable
    ends = f"{percent(seen.min())} to {percent(seen.max())}"
    assert f"would detect deviations of {ends}" in keen.plot().axes[0].get_title()


def test_a_deviation_of_the_size_stated_is_seen_nine_times_in_ten() -> None:
    rng = np.random.default_rng(5)
    scatter, draws, trials = 0.01, 6, 400
    stated, seen = [], []
    for _ in range(trials):
        noise = scatter * rng.standard_normal((draws, 1))
        stated.append(compare(np.ones(1), np.zeros(1), 1 + noise, None, count=1).detectable[0])
    # a standard deviation of few draws has mean c σ: c = √(2/5) Γ(3)/Γ(5/2) = 0.9515
    away = np.mean(stated) / 0.9515
    for _ in range(trials):
        noise = scatter * rng.standard_normal((draws, 1))
        seen.append(compare(np.ones(1), np.zeros(1), 1 + away + noise, None, count=1).verdict == "disagrees")
    assert np.mean(seen) == pytest.approx(0.9, abs=0.06)  # 3 standard errors, those of the mean stated included


@pytest.mark.slow
def test_right_theories_are_rarely_said_to_disagree() -> None:
    """Of 10 validations, each with draws of its own, one in a hundred may end so."""
    seen = [
        eqsolve.validate("linear_regression", d=200, seeds=6, seed=place, at=AT, rtol=1e-2, lam=lam).verdict
        for place in range(5)
        for lam in (0, 0.5)
    ]
    assert seen.count("disagrees") <= 1  # two or more of 10 at 1% have a probability of 0.4%
    assert seen.count("agrees") >= 8


@pytest.mark.slow
def test_a_system_with_processes_and_its_law() -> None:
    found = eqsolve.validate("dln", alpha=0.3, delta=0.5, d=800, seeds=8, at=[0.3, 1, 3, 10])
    assert found.verdict == "agrees"
    law = found.wasserstein
    assert law is not None
    assert law["variables"] == ["w", "w_star"]
    assert law["d"] == [400, 800]
    # the distance falls about like d^{-1/2}, down to what the quadrature resolves
    assert np.mean(law["falls_by"]) > 1.1


@pytest.mark.slow
def test_binary_features_follow_the_gaussian_theory() -> None:
    found = eqsolve.validate("dln", alpha=0.3, delta=0.5, d=1000, seeds=8, at=[0.3, 1, 3, 10], data="binary")
    assert found.verdict == "agrees"
    for item in found.observables.values():
        assert np.abs(item.z).max() <= 3


@pytest.mark.slow
def test_the_law_of_a_fixed_point_is_that_of_its_estimator() -> None:
    """The weights given w* are nearly independent draws of the theory's law: so is their distance to it."""
    found = eqsolve.validate("dln_fixed_point_min_norm", alpha=0.3, delta=0.5, sigma2=0.1, d=400, seeds=6)
    law = found.wasserstein
    assert law is not None
    assert found.laws is not None
    assert law["variables"] == ["w", "w_star"]
    assert law["d"] == [200, 400]
    for seen, expected in zip(law["values"], law["independent_draws"], strict=True):
        assert 0.3 * expected[0] < seen[0] < 2.5 * expected[0]  # E_test, on which the law depends, scatters too
    assert 1.1 < law["falls_by"][0] < 2.0  # like d^{-1/2}
    assert json.loads(json.dumps(found.json_object()))["wasserstein"] == law
    assert found.laws[1].mean("w") == pytest.approx(found.laws[0].mean("w"), abs=0.02)
    figure = found.plot()
    assert any("law of $w$" in axes.get_title() for axes in figure.axes)
    wrong = eqsolve.solve("dln_fixed_point_min_norm", alpha=0.3, delta=0.5, sigma2=0.5).law("w")
    assert distances_at_rest(wrong, [found.laws[1]], 6)["values"][0][0] > 3 * law["values"][1][0]


def test_distances_at_rest_of_a_law_with_a_density_of_constants() -> None:
    law = eqsolve.solve("ridge", delta=2, lam=0.1, sigma2=0.1, w_star="Normal(0, 1)").law("w")
    moved = Distribution.of_sample(law.names, law.sample(20_000, seed=3) + np.array([[0.5], [0.0]]))
    found = distances_at_rest(law, [moved], 2)
    assert found["variables"] == ["w"]
    # a shift by 1/2; the spread of 10⁴ draws adds 1e-3 to its square
    assert found["values"][0][0] == pytest.approx(0.5, abs=0.02)
    assert found["independent_draws"][0][0] < 0.05


@pytest.mark.slow
def test_a_fixed_point_is_the_end_of_long_runs() -> None:
    found = eqsolve.validate("dln_fixed_point_min_norm", alpha=1, delta=0.5, d=500, seeds=8, t_max=60)
    assert found.kind == "fixed point"
    assert found.verdict == "agrees"
    assert found.t is None
    assert found.wasserstein is not None
    assert found.wasserstein["values"][1][0] < 2.5 * found.wasserstein["independent_draws"][1][0]


def test_questions_that_make_no_sense_are_answered() -> None:
    with pytest.raises(UsageError, match="names no microscopic model"):
        eqsolve.validate("pspin", d=100)
    with pytest.raises(UsageError, match="at least 2 draws"):
        eqsolve.validate("linear_regression", seeds=1)
    with pytest.raises(UsageError, match="not an observable of both sides"):
        eqsolve.validate("linear_regression", d=20, at=[1.0], observables=["m"])
    with pytest.raises(UsageError, match="which is a System; expected a Flow"):
        eqsolve.validate("linear_regression", d=20, at=[1.0], flow="dln")


# --- the statistics -------------------------------------------------------------------------------------------------
def test_z_scores_are_standard_for_a_right_theory() -> None:
    rng = np.random.default_rng(0)
    seen = [compare(np.ones(1), np.zeros(1), 1 + 0.01 * rng.standard_normal((6, 1)), None, count=1) for _ in range(400)]
    z = np.array([item.z[0] for item in seen])
    # a standard deviation over 400 draws has an error of 1/√800 = 0.035
    assert z.std() == pytest.approx(1.0, abs=0.12)
    assert np.mean([item.verdict == "agrees" for item in seen]) > 0.98  # |z| > 3 has a probability of 0.0027
    assert np.mean(np.abs(z) > 2) < 0.1


def test_a_bias_of_finite_size_is_seen_and_allowed_for() -> None:
    rng = np.random.default_rng(1)
    large = 1 + 0.02 + 1e-3 * rng.standard_normal((8, 1))
    half = 1 + 0.04 + 1e-3 * rng.standard_normal((8, 1))
    item = compare(np.ones(1), np.zeros(1), large, half, count=1)
    assert item.bias[0] == pytest.approx(0.02, abs=0.002)
    assert item.verdict == "agrees"
    assert compare(np.ones(1), np.zeros(1), large, large + 1e-4, count=1).verdict == "disagrees"


def test_errors_that_are_too_large_do_not_count_as_agreement() -> None:
    runs = np.array([[0.2], [1.9], [1.0], [0.7]])
    assert compare(np.ones(1), np.zeros(1), runs, None, count=1).verdict == "not enough data"
    assert compare(np.ones(1), np.full(1, np.nan), runs, None, count=1).verdict == "disagrees"


def test_wasserstein_distance_of_known_laws() -> None:
    rng = np.random.default_rng(0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    sample = 0.5 + 2 * rng.standard_normal(200_000)
    # N(0, 1) against N(1/2, 4): W₂² = 1/4 + 1; interpolated quantiles of 30 nodes and 200000 draws: to 2%
    parts = given_constants(nodes, weights, np.empty((0, 30)))
    assert distance(parts, sample, np.empty((0, 200_000))) == pytest.approx(1.25**0.5, rel=0.02)
    labels = rng.choice([0.0, 1.0], size=200_000)
    both = np.r_[nodes, nodes + 3]
    constants = np.r_[np.zeros(30), np.ones(30)][None]
    moved = rng.standard_normal(200_000) + 3 * labels + 0.3
    parts = given_constants(both, np.r_[weights, weights], constants)
    assert distance(parts, moved, labels[None]) == pytest.approx(0.3, rel=0.05)


@pytest.mark.slow
def test_a_rate_is_the_slowest_decay_of_the_linearised_flow() -> None:
    found = eqsolve.validate("dln_rate", alpha=1, delta=2, d=200, seeds=6)
    assert found.kind == "singularity"
    assert found.verdict == "agrees"
    assert found.observables["gamma"].simulation[0] == pytest.approx(found.observables["gamma"].theory[0], rel=0.1)


def test_a_choice_among_models_is_held_against_the_one_that_holds() -> None:
    found = eqsolve.validate("dln_fixed_point", alpha=0.3, delta=0.5, d=200, seeds=4)
    assert found.model == "dln_fixed_point_min_norm"
    assert found.verdict == "agrees"
