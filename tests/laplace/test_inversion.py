"""Numerical inversion against closed forms, and its refusal where no digits are left."""

import mpmath
import numpy as np
import pytest

from eqsolve import Eq, SolverError, UsageError, unknown
from eqsolve.laplace import implicit_function, invert, rightmost_singularity
from eqsolve.spectra import MarchenkoPastur

p, R = unknown("p R")


def test_elementary_transforms() -> None:
    t = np.array([0.1, 1.0, 3.0])
    for transform, exact in (
        (lambda s: 1 / (s + 1), np.exp(-t)),
        (lambda s: 1 / s**2, t),
        (lambda s: 1 / (s**2 + 1), np.sin(t)),
        (lambda s: s**-0.5, 1 / np.sqrt(np.pi * t)),
    ):
        values, errors = invert(transform, t)
        assert np.abs(values - exact).max() < 1e-9
        assert (np.abs(values - exact) <= 10 * errors + 1e-12).all()


def test_late_times_are_refused_without_the_abscissa_and_solved_with_it() -> None:
    with pytest.raises(SolverError, match=r"no 2 digits left at t = 60; the last good time is 5"):
        invert(lambda s: 1 / (s + 1), [5, 60])
    values, _ = invert(lambda s: 1 / (s + 1), [5, 60], abscissa=-1)
    assert values == pytest.approx(np.exp([-5.0, -60.0]), rel=1e-9)


def test_more_digits_by_mpmath() -> None:
    value, _ = invert(lambda s: 1 / (s + 1), 30, nodes=60, precision=40)
    assert value[0] == pytest.approx(float(mpmath.exp(-30)), rel=1e-9)


def test_an_implicit_transform_gives_the_response_of_linear_regression() -> None:
    delta = 2.0
    equation = Eq(R, (1 + R) / (delta * (p * (1 + R) + 1)))
    transform = implicit_function(equation, variable=p, unknown=R)
    edge = rightmost_singularity(equation, variable=p, unknown=R).p
    t = np.array([0.5, 5.0, 50.0, 200.0])
    values, _ = invert(transform, t, abscissa=edge)
    assert values == pytest.approx(MarchenkoPastur(delta).laplace(t) / delta, rel=1e-7)


def test_the_decay_of_the_inverse_is_that_of_the_singularity() -> None:
    delta = 2.0
    point = rightmost_singularity(Eq(R, (1 + R) / (delta * (p * (1 + R) + 1))), variable=p, unknown=R)
    t = 3000.0
    exact = MarchenkoPastur(delta).laplace(t, scaled=True) / delta  # e^{λ₋ t} times the integral
    assert point.amplitude * t**-1.5 == pytest.approx(exact, rel=1e-2)  # corrections of order 1/(λ₋ t) = 4e-3


def test_times_must_be_positive() -> None:
    with pytest.raises(UsageError, match="positive times"):
        invert(lambda s: 1 / s, 0)
