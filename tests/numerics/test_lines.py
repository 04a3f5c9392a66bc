"""Averages of functions with a kink over lines of points, against closed forms."""

import math

import numpy as np
import pytest

from eqsolve.numerics.laws import bernoulli
from eqsolve.numerics.lines import make_lines


def average(function, modes, others, seed, laws=None, along=21):
    """The mean of |u| with u a smooth function of the modes, interpolated along the first of them."""
    lines = make_lines(modes, laws or {}, 1, along, others, seed)
    points = lines.points
    inside = function(points.normals, points.constants)
    return float(np.abs(lines.refine(inside)) @ lines.weights)


def test_weights_and_smooth_functions():
    lines = make_lines(3, {"w": bernoulli(0.25)}, 1, 21, 8, 0)
    assert lines.weights.sum() == pytest.approx(1)
    assert lines.points.weights.sum() == pytest.approx(1)
    first = lines.refine(lines.points.normals[0])
    assert lines.weights @ first**2 == pytest.approx(1, abs=2e-5)  # what lies beyond five standard deviations is left out
    assert lines.weights @ lines.refine(lines.points.constants["w"]) == pytest.approx(0.25)
    assert lines.refine(np.ones((4, 1))).shape == (4, 1)


def test_an_absolute_value_of_a_gaussian():
    """E|a + bx + cy| of a Gaussian with mean a and variance b² + c²."""
    a, b, c = 0.3, 1.0, 0.2
    width = math.hypot(b, c)
    exact = width * math.sqrt(2 / math.pi) * math.exp(-((a / width) ** 2) / 2) + a * math.erf(a / width / math.sqrt(2))
    found = [average(lambda x, _: a + b * x[0] + c * x[1], 2, 16, seed) for seed in range(4)]
    assert np.mean(found) == pytest.approx(exact, abs=5e-4)
    assert abs(np.mean(found) - exact) <= 3 * 2 * np.std(found, ddof=1) / 2 + 1e-4


def test_lines_beat_points_drawn_in_all_modes():
    """The same number of paths: a kink is resolved along the line, and smooth in the rest."""
    rng = np.random.default_rng(0)

    def inside(x, _):
        return np.sinh(x[0] + 0.2 * x[1] + 0.1 * x[2]) + 0.1

    fine = average(inside, 3, 4096, 99, along=41)
    lines = [average(inside, 3, 16, seed) - fine for seed in range(8)]
    drawn = [np.abs(inside(rng.standard_normal((3, 21 * 16)), None)).mean() - fine for _ in range(8)]
    assert np.std(lines) < 0.2 * np.std(drawn)
