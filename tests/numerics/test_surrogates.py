"""Stand-ins for functions of Gaussian coordinates, against the functions themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eqsolve.numerics.gaussian import sample_normals
from eqsolve.numerics.surrogates import even_rule, fit_ridges, interpolate, linear_parts, linear_shares

SLOPES = np.array([[1.0, -0.5, 0.1], [0.2, 0.9, 0.0]])


def test_an_interpolant_has_the_values_given_and_is_exact_for_linear_functions() -> None:
    x, other = sample_normals(64, 3, 1), 0.5 * sample_normals(32, 3, 2)
    linear = interpolate(x, SLOPES @ x + 1, np.ones(3))
    assert linear(other) == pytest.approx(SLOPES @ other + 1, abs=1e-7)
    bent = interpolate(x, np.sinh(SLOPES @ x), np.ones(3))
    assert bent(x) == pytest.approx(np.sinh(SLOPES @ x), abs=1e-4)


def test_an_interpolant_of_more_points_is_closer() -> None:
    other = sample_normals(256, 3, 2)
    errors = []
    for count in (64, 256):
        x = 1.7 * sample_normals(count, 3, 1)
        made = interpolate(x, np.tanh(SLOPES @ x), linear_shares(x, SLOPES @ x))
        errors.append(float(np.sqrt(np.mean((made(other) - np.tanh(SLOPES @ other)) ** 2))))
    assert errors[0] < 0.05
    assert errors[1] < 0.3 * errors[0]


def test_an_interpolant_stays_near_the_values_it_knows() -> None:
    x = sample_normals(64, 3, 1)
    values = np.exp(SLOPES @ x)
    far = interpolate(x, values, np.ones(3))(10 * x)
    assert far.max() <= 1.1 * values.max()
    assert far.min() >= -0.1 * values.max()


def test_constant_values_are_kept_exactly() -> None:
    x = sample_normals(64, 3, 1)
    assert (interpolate(x, np.full((2, 64), 0.7), np.ones(3))(2 * x) == 0.7).all()
    directions = np.eye(3)[:2]
    assert (fit_ridges(directions, x, np.full((1, 2, 64), 0.7), 5)(directions @ x) == 0.7).all()


def test_functions_of_one_direction_are_found() -> None:
    x = 1.7 * sample_normals(256, 3, 1)
    directions = SLOPES / np.linalg.norm(SLOPES, axis=1, keepdims=True)
    y = directions @ x
    ridges = fit_ridges(directions, x, np.array([y**3 - y, 1 + y**2]), 7)
    there = np.linspace(-3, 3, 13) * np.ones((2, 1))
    assert ridges(there) == pytest.approx(np.array([there**3 - there, 1 + there**2]), abs=1e-6)


def test_slopes_are_those_of_the_surface_where_values_vanish() -> None:
    x = sample_normals(512, 3, 1)
    assert linear_parts(x, SLOPES @ x) == pytest.approx(SLOPES, abs=1e-7)
    found = linear_parts(x, np.sinh(2 * SLOPES @ x))
    assert found / np.linalg.norm(found, axis=1, keepdims=True) == pytest.approx(
        SLOPES / np.linalg.norm(SLOPES, axis=1, keepdims=True), abs=0.05
    )


def test_shares_are_those_of_linear_functions() -> None:
    x = sample_normals(512, 3, 1)
    assert linear_shares(x, SLOPES[:1] @ x) == pytest.approx(np.abs(SLOPES[0]) / np.linalg.norm(SLOPES[0]), abs=0.03)


@pytest.mark.parametrize("shift", [0.1, 0.7])
def test_an_even_rule_integrates_kinks_to_the_square_of_its_spacing(shift: float) -> None:
    for count in (128, 512):
        nodes, weights = even_rule(count, shift)
        assert weights @ np.exp(nodes) == pytest.approx(math.exp(0.5), rel=1e-9)
        assert abs(weights @ np.abs(nodes) - math.sqrt(2 / math.pi)) < 0.1 * (16 / count) ** 2
