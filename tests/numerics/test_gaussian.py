"""Modes and points of Gaussian expectations: identities of factors, exactness of rules."""

import math

import numpy as np
import pytest

from eqsolve.numerics.gaussian import (
    Level,
    PointLayout,
    align,
    factor_covariance,
    lay_out,
    make_level,
    make_points,
    refine_level,
    rotate,
    spread_lines,
    star,
)
from eqsolve.numerics.laws import NormalLaw, bernoulli
from tests.strict_arrays import STRICT, strict_card

LEVEL = Level(accuracy=1e-6, decay=1.4, constants=6, most=100_000)
LEVEL_OF_A_SAMPLE = Level(1e-3, 1.4, 6, 1000, seed=3)


@pytest.fixture
def covariance() -> np.ndarray:
    t = np.linspace(0, 2, 12)
    return np.exp(-np.abs(t[:, None] - t) / 2)


def test_a_factor_gives_its_covariance_by_decreasing_modes(covariance: np.ndarray) -> None:
    factor = factor_covariance(covariance)
    np.testing.assert_allclose(factor @ factor.T, covariance, atol=1e-12)
    sizes = (factor**2).sum(axis=0)
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_allclose(factor.T @ factor, np.diag(sizes), atol=1e-12)


def test_modes_without_variance_are_left_out() -> None:
    one = np.outer([1.0, 2.0], [1.0, 2.0])
    assert factor_covariance(one).shape == (2, 1)
    assert factor_covariance(np.zeros((2, 2))).shape == (2, 1)
    assert not factor_covariance(one - 1e-15 * np.eye(2))[:, 1:].any()


def test_alignment_keeps_the_covariance_and_is_continuous(covariance: np.ndarray, rng: np.random.Generator) -> None:
    factor = factor_covariance(covariance)
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    aligned = align(factor @ turn, factor)
    np.testing.assert_allclose(aligned, factor, atol=1e-10)
    noise = rng.standard_normal((12, 12))
    for small in (1e-3, 1e-5):
        moved = align(factor_covariance(covariance + small * noise @ noise.T / 12), factor)
        np.testing.assert_allclose(moved @ moved.T, covariance + small * noise @ noise.T / 12, atol=1e-12)
        assert np.abs(moved - factor).max() < 30 * small
        few = align(factor_covariance(covariance + small * noise @ noise.T / 12), factor[:, :5])
        assert np.abs(few - factor[:, :5]).max() < 30 * small  # also where the noise goes on beyond them


def test_a_rotation_keeps_the_covariance_and_makes_the_form_diagonal(covariance: np.ndarray, rng: np.random.Generator) -> None:
    factor, root = factor_covariance(covariance), rng.standard_normal((12, 12))
    rotated, strengths = rotate(factor, root @ root.T)
    np.testing.assert_allclose(rotated @ rotated.T, covariance, atol=1e-12)
    turn = np.linalg.lstsq(factor, rotated, rcond=None)[0]
    np.testing.assert_allclose(turn.T @ root @ root.T @ turn, np.diag(strengths**2), atol=1e-9)
    assert (np.diff(strengths) <= 0).all()


@pytest.mark.parametrize(
    "layout", [lay_out([1.0, 0.3, 0.1], LEVEL), PointLayout("sample"), PointLayout("cubic"), PointLayout("sparse")]
)
def test_weights_sum_to_one_and_modes_are_standard(layout: PointLayout) -> None:
    points = make_points(3, layout, {}, Level(1e-6, 1.4, 6, 4096))
    assert points.weights.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(points.normals @ points.weights, 0, atol=1e-10)
    variances = (points.normals**2) @ points.weights
    assert all(value == pytest.approx(1, rel=1e-10) or value == 0 for value in variances)


def test_a_cubic_design_is_exact_to_degree_three(rng: np.random.Generator) -> None:
    points = make_points(5, PointLayout("cubic"), {}, LEVEL)
    x = points.normals
    np.testing.assert_allclose((x * points.weights) @ x.T, np.eye(5), atol=1e-14)
    third = np.einsum("p,ip,jp,kp->ijk", points.weights, x, x, x)
    np.testing.assert_allclose(third, 0, atol=1e-14)


def test_a_sparse_grid_integrates_what_its_strengths_say() -> None:
    """E exp(Σ aᵢ zᵢ) = exp(Σ aᵢ²/2), and even moments along the first mode, whose points end somewhere."""
    strengths = [0.8, 0.3, 0.1, 0.03]
    layout = lay_out(strengths, LEVEL)
    assert layout.kind == "sparse"
    points = make_points(4, layout, {}, LEVEL)
    found = points.weights @ np.exp(np.array(strengths) @ points.normals)
    assert found == pytest.approx(math.exp(sum(a**2 for a in strengths) / 2), rel=1e-5)
    for power, exact in ((2, 1), (4, 3), (6, 15)):
        assert points.weights @ points.normals[0] ** power == pytest.approx(exact, rel=1e-5)


def test_stronger_modes_get_more_points_and_too_many_are_sampled() -> None:
    counts = [len(make_points(3, lay_out([a, a / 2, a / 4], LEVEL), {}, LEVEL).weights) for a in (0.1, 0.4, 1.0)]
    assert counts == sorted(counts)
    assert lay_out([1.0] * 12, Level(1e-6, 1.4, 6, 500)).kind == "sample"
    assert lay_out([0.5, 1e-5], LEVEL).modes(2) == 1


def test_constants_multiply_the_points() -> None:
    points = make_points(2, lay_out([0.5, 0.5], LEVEL), {"b": bernoulli(0.25), "x": NormalLaw(1.0, 4.0)}, LEVEL)
    b, x, z = points.constants["b"], points.constants["x"], points.normals[0]
    assert points.weights @ (b * x**2 * z**2) == pytest.approx(0.25 * 5, rel=1e-9)


def test_a_star_is_exact_to_degree_three() -> None:
    x, weights = star(5)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose((x * weights) @ x.T, np.eye(5), atol=1e-14)
    assert (x[0] ** 2 * x[1]) @ weights == pytest.approx(0)


@pytest.mark.parametrize("accuracy", [1e-3, 1e-5, 1e-7])
def test_lines_average_what_is_smooth_in_the_other_modes(accuracy: float) -> None:
    """E √(1 + (a·x)²) along lines that stand in x: what three points along each mode change tells which are needed."""
    a = np.array([0.3, 0.02, 0.15, 1e-3])
    spread = spread_lines(a**2 / 2, accuracy)
    assert spread is not None
    x, weights = spread
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    truth = np.sqrt(1 + (np.linalg.norm(a) * nodes) ** 2) @ mass / mass.sum()
    assert np.sqrt(1 + (a @ x) ** 2) @ weights == pytest.approx(truth, rel=3 * accuracy)


def test_too_many_lines_are_none() -> None:
    assert spread_lines(np.full(30, 0.4), 1e-6) is None


def test_a_sample_depends_on_its_seed_only() -> None:
    one, same, other = (make_points(8, PointLayout("sample"), {}, Level(1e-3, 1.4, 6, 1000, seed)) for seed in (3, 3, 4))
    assert (one.normals == same.normals).all()
    assert not (one.normals == other.normals).all()
    assert np.cos(one.normals[0]).mean() == pytest.approx(math.exp(-0.5), abs=1e-2)


@pytest.mark.parametrize("kind", ["sample", "single"])
def test_a_sample_made_on_a_card_is_that_of_the_machine(kind: str) -> None:
    laws = {"b": bernoulli(0.25), "x": NormalLaw(1.0, 4.0)}
    here = make_points(70, PointLayout(kind), laws, LEVEL_OF_A_SAMPLE)
    with strict_card():
        there = make_points(70, PointLayout(kind), laws, LEVEL_OF_A_SAMPLE, None, STRICT)
    assert STRICT.get(there.normals) == pytest.approx(here.normals, rel=1e-14)
    assert STRICT.get(there.weights) == pytest.approx(here.weights, rel=1e-14)
    for name, values in here.constants.items():
        assert STRICT.get(there.constants[name]) == pytest.approx(values, rel=1e-14)


@pytest.mark.parametrize("way", ["first mode", "modes", "constants", "sample"])
def test_a_refined_level_is_finer_in_its_way(way: str) -> None:
    level = make_level(1e-4, 0)
    finer = refine_level(level, way)
    assert finer.decay <= level.decay
    assert finer.accuracy <= level.accuracy
    assert finer.constants >= level.constants
    assert finer.most >= level.most
    assert finer != level


def test_levels_grow_with_the_accuracy() -> None:
    rough, fine = make_level(1e-2, 0), make_level(1e-5, 0)
    assert fine.accuracy < rough.accuracy
    assert fine.constants > rough.constants
    assert fine.most > rough.most


def test_rounding_of_vanished_variances_hides_no_mode() -> None:
    """Noise that falls below rounding: entries there are of any sign and size, and the rest is known all the same."""
    times = np.linspace(0, 100, 60)
    exact = np.exp(-times[:, None] - times[None, :]) * (1 + np.minimum(times[:, None], times[None, :]))
    rounding = 1e-17 * np.random.default_rng(1).standard_normal(exact.shape)
    factor = factor_covariance(exact + (rounding + rounding.T) / 2)
    early = times < 12
    assert np.allclose((factor @ factor.T)[early][:, early], exact[early][:, early], rtol=2e-3, atol=1e-15)
