"""Constants as functions of a Gaussian coordinate have the moments of their laws."""

from __future__ import annotations

import numpy as np
import pytest

from eqsolve.numerics.laws import (
    LaplaceLaw,
    MixtureLaw,
    NormalLaw,
    NumericLaw,
    StudentTLaw,
    UniformLaw,
    bernoulli,
    gauss_bernoulli,
    parts_of,
    place_on,
)

LAWS = [
    (NormalLaw(0.3, 2.0), 0.3, 2.09),
    (UniformLaw(-1.0, 2.0), 0.5, 1.0),
    (LaplaceLaw(0.5), 0.0, 0.5),
    (gauss_bernoulli(0.2, 1.5), 0.0, 0.3),
    (MixtureLaw((0.4, 0.6), (bernoulli(0.5), UniformLaw(0.0, 1.0))), 0.5, 0.4),
]


@pytest.mark.parametrize(("law", "first", "second"), LAWS, ids=str)
def test_moments(law: NumericLaw, first: float, second: float) -> None:
    x = np.linspace(-9, 9, 2001)
    weights = np.exp(-(x**2) / 2)
    weights /= weights.sum()
    found = [0.0, 0.0]
    for number, part in enumerate(parts_of(law)):
        values, slopes = place_on(parts_of(law), np.full(len(x), float(number)), x)
        found = [before + part.probability * float(weights @ values**k) for before, k in zip(found, (1, 2), strict=True)]
        np.testing.assert_allclose(np.gradient(values, x)[1:-1], slopes[1:-1], rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(found, [first, second], rtol=1e-4, atol=1e-12)  # the kink of Laplace's law costs h²


def test_laws_without_a_coordinate() -> None:
    assert parts_of(bernoulli(0.1)) == ()  # atoms are summed
    assert parts_of(StudentTLaw(3.0)) == ()  # grows like exp(x²/6): no rule for a Gaussian does
