"""Balanced draws: the same limit as independent ones, with much less scatter."""

import numpy as np
import pytest
from scipy.special import ndtr

import eqsolve
from eqsolve import UsageError
from eqsolve.language.binding import bind
from eqsolve.laws import Bernoulli, GaussBernoulli, Normal, StudentT
from eqsolve.microscopic.data import GaussianMatrix, Placement, read_data
from eqsolve.microscopic.lowered import LoweredFlow
from eqsolve.microscopic.minimisers import finite_size
from eqsolve.microscopic.simulate import FlowEnsemble
from eqsolve.numerics.constants import draw_law
from eqsolve.spectra import MarchenkoPastur


def test_placed_vectors_are_normal_and_uncorrelated(rng: np.random.Generator) -> None:
    size = 211
    placement = Placement(size, rng)
    placement.placed.append(rng.permutation(np.linspace(-1, 2, size)))
    known = np.linalg.qr(rng.standard_normal((size, 3)))[0]
    vectors = np.array([placement.normal(known) for _ in range(6)])
    together = np.vstack([vectors, known.T, placement.placed[:2]])
    gram = together @ together.T / size
    # none has a component along another, along what was known, or along what was placed before
    np.testing.assert_allclose(gram[:6] - np.diag(gram.diagonal())[:6], 0, atol=1e-12)
    np.testing.assert_allclose(gram.diagonal()[:6], 1 - 3 / size, rtol=1e-12)
    for vector in vectors:  # independent draws of this size would be 1.2/√size = 0.08 away on average
        away = np.abs(ndtr(np.sort(vector)) - (np.arange(size) + 0.5) / size).max()
        assert away < 0.05


def test_a_matrix_known_in_part_is_completed_as_a_gaussian_one(rng: np.random.Generator) -> None:
    n, d = 300, 600
    matrix = GaussianMatrix(Placement(n, rng), Placement(d, rng))
    weight, loss = rng.standard_normal(d), rng.standard_normal(n)
    matrix.learn(weight)
    field = matrix.known() @ weight
    matrix.learn(loss, 1)
    gradient = matrix.known().T @ loss
    X = matrix.complete(rng)
    # what was learnt stays: a later step must not change an earlier one
    np.testing.assert_allclose(X @ weight, field, atol=1e-10)
    np.testing.assert_allclose(X.T @ loss, gradient, atol=1e-10)
    nodes, weights = MarchenkoPastur(0.5).quadrature(4)
    for power in (1, 2, 3):  # traces of a Gaussian matrix fluctuate by O(1/d), here below 1%
        moment = np.trace(np.linalg.matrix_power(X.T @ X / 0.5, power)) / d
        assert moment == pytest.approx(weights @ nodes**power, rel=0.02)


@pytest.mark.slow
def test_the_scatter_between_draws_falls_and_the_mean_stays() -> None:
    at = [0.3, 1.0, 3.0]
    flow = eqsolve.load("linear_flow")
    exact = eqsolve.solve("linear_regression", at=at, rtol=1e-6).at(at)  # Marchenko–Pastur
    plain = flow.simulate(200, seeds=12, at=at, constants="exact")
    balanced = flow.simulate(200, seeds=12, at=at, constants="balanced")
    for name in ("E_train", "E_test"):
        assert np.all(balanced.error[name] < 0.2 * plain.error[name])
        # a bias of order 1/d stays: below 1%, where plain runs of this size scatter by 10% each
        np.testing.assert_allclose(balanced.mean[name], exact[name].values, rtol=0.01)


def test_descent_is_balanced_too() -> None:
    flow = eqsolve.load("linear_flow")
    plain = flow.simulate(200, seeds=8, at=[1.0], step=0.1, constants="exact")
    balanced = flow.simulate(200, seeds=8, at=[1.0], step=0.1, constants="balanced")
    theory = eqsolve.solve(flow.gradient_descent(0.1), at=[1.0], rtol=1e-2).at([1.0])["E_train"].item()
    assert balanced.error["E_train"][0] < 0.2 * plain.error["E_train"][0]
    assert balanced.mean["E_train"][0] == pytest.approx(theory, rel=0.02)


def test_shares_and_sizes_that_are_not_whole_are_right_on_average(rng: np.random.Generator) -> None:
    size = 145  # a tenth of it is 14.5
    orders = Placement(size, rng)
    draws = [draw_law(Bernoulli(0.1).numeric(), size, rng, "balanced", orders.order).sum() for _ in range(200)]
    assert set(draws) == {14.0, 15.0}
    assert np.mean(draws) == pytest.approx(14.5, abs=4 * 0.5 / 200**0.5)
    lowered = LoweredFlow(bind(eqsolve.load("linear_flow"), {"delta": 0.5}))
    ensemble = FlowEnsemble(lowered, read_data("gaussian"), 12, 25, 0, "balanced")
    rows = {ensemble.draw_balanced(index, np.empty(0), lambda *_: iter(())).n for index in range(20)}
    assert rows == {12, 13}


def test_placed_constants_have_the_moments_of_their_law(rng: np.random.Generator) -> None:
    for law, variance in ((Normal(1, 2), 2.0), (GaussBernoulli(0.5, 3), 1.5)):
        values = draw_law(law.numeric(), 400, rng, "balanced", Placement(400, rng).order)
        assert values.var() == pytest.approx(variance, rel=1e-3)
    heavy = draw_law(StudentT(2.1).numeric(), 100, rng, "balanced", Placement(100, rng).order)
    assert np.isfinite(heavy).all()


def test_features_that_are_not_gaussian_are_not_balanced() -> None:
    with pytest.raises(UsageError, match="needs Gaussian features, got data 'binary'; take 'exact'"):
        eqsolve.load("linear_flow").simulate(100, at=[1.0], data="binary", constants="balanced")


@pytest.mark.parametrize("d", [2, 17])
def test_small_sizes_are_drawn_without_placing(d: int) -> None:
    run = eqsolve.load("dln_flow").simulate(d, 0.5, at=[0.0, 1.0], seeds=2, constants="balanced")
    assert np.isfinite(run.values["E_train"]).all()
    only_start = eqsolve.load("dln_flow").simulate(40, 0.5, at=[0.0], constants="balanced")
    assert only_start.values["E_test"][0, 0] == pytest.approx(0.1)


def test_estimators_scatter_less_on_balanced_data() -> None:
    binding = bind(eqsolve.load("ridge"), {})
    known = eqsolve.solve("ridge")
    plain, _ = finite_size(binding, d=200, seeds=10)
    balanced, _ = finite_size(binding, d=200, seeds=10, exact=True)
    for name in ("E_train", "E_test"):
        assert balanced[name].std() < 0.2 * plain[name].std()
        assert balanced[name].mean() == pytest.approx(float(known[name]), rel=0.02)  # a bias of order 1/d stays
