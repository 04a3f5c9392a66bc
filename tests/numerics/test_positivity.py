"""The test of covariances against functions whose definiteness is known."""

import numpy as np
import pytest

from eqsolve.numerics.positivity import find_negative, negative_on

# On [0, 1]: whether it is a covariance, and why.
KERNELS = {
    "Brownian motion": (np.minimum, True),
    "a Gaussian": (lambda t, s: np.exp(-((t - s) ** 2)), True),
    "a triangle, up to twice its width": (lambda t, s: 1 - 0.5 * np.abs(t - s), True),
    "a cosine": (lambda t, s: np.cos(3 * (t - s)), True),
    "rank one": (lambda t, s: (1 + t) * (1 + s), True),
    "a parabola": (lambda t, s: 1 - (t - s) ** 2, False),
    "exp(-|t - s|^3), Bochner": (lambda t, s: np.exp(-(np.abs(t - s) ** 3)), False),
    "a box": (lambda t, s: 1.0 * (np.abs(t - s) < 0.3), False),
    "a negative variance": (lambda t, s: -t * s, False),
}


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_a_covariance_and_what_is_none(name):
    kernel, sound = KERNELS[name]
    found = find_negative(lambda t, s: (kernel(t, s) * np.ones(np.broadcast(t, s).shape))[None, None], 0.0, 1.0)
    assert all(item is None for item in found) == sound


def test_the_sum_that_is_named_has_that_variance():
    times = np.array([0.1, 0.4, 0.5, 0.9])
    matrix = 1 - (times[:, None] - times) ** 2
    found = negative_on(times, matrix[None, None])
    assert found is not None
    moments, factors = (np.array([term[place] for term in found.terms]) for place in (1, 2))
    assert len(moments) == 3, "two times do not show it"
    assert factors @ (1 - (moments[:, None] - moments) ** 2) @ factors == pytest.approx(found.variance)
    assert found.variance < 0


def test_cross_covariances_count():
    """Two standard normal processes whose covariance is 1.2 are none, each alone is one."""
    one = np.ones((3, 3))
    blocks = np.array([[one, 1.2 * one], [1.2 * one, one]])
    found = negative_on(np.arange(3.0), blocks)
    assert found is not None
    assert found.variance == pytest.approx(-0.2)
    assert all(f"{name}(" in found.describe(("y", "z")) for name in "yz")


def test_errors_of_the_entries_are_allowed_for():
    times = np.array([0.0, 1.0])
    matrix = np.array([[1.0, 1.01], [1.01, 1.0]])[None, None]
    assert negative_on(times, matrix) is not None
    assert negative_on(times, matrix, error=0.01) is None
