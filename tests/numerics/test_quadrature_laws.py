"""The joint law of several constants as Gaussians and points."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from eqsolve.errors import ParameterError
from eqsolve.numerics.laws import (
    Component,
    NormalLaw,
    NumericLaw,
    StudentTLaw,
    UniformLaw,
    bernoulli,
    gauss_bernoulli,
    mixture,
    point,
)
from eqsolve.numerics.quadrature import branches, demand_second_moment

TABLE = np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])
LAWS: dict[str, NumericLaw] = {
    "u": Component(TABLE, 0, ("u", "v")),
    "g": gauss_bernoulli(0.25, 2.0),
    "v": Component(TABLE, 1, ("u", "v")),
    "b": bernoulli(0.5),
}


def test_branches_are_the_product_law() -> None:
    parts = branches(tuple(LAWS), LAWS, 4)
    assert len(parts) == 3 * 2 * 2
    assert sum(part.probability for part in parts) == pytest.approx(1, rel=1e-14)
    assert all(part.exact for part in parts)
    pairs = {(part.means[0], part.means[2]) for part in parts}
    assert pairs == {tuple(row) for row in TABLE.tolist()}  # one joint sample stays together
    second = sum(part.probability * (part.variances[1] + part.means[1] ** 2) * part.means[3] for part in parts)
    assert second == pytest.approx(0.25 * 2.0 * 0.5, rel=1e-14)
    probability, means, deviations = parts[-1].numbers
    assert (probability, means.shape, deviations.shape) == (pytest.approx(0.25 * 0.5 / 3), (4,), (4,))


def test_other_densities_become_their_rules() -> None:
    parts = branches(("x",), {"x": UniformLaw(0.0, 1.0)}, 4)
    assert not any(part.exact for part in parts)
    assert sum(part.probability * part.means[0] ** 6 for part in parts) == pytest.approx(1 / 7, rel=1e-14)


def test_more_digits_and_no_constants() -> None:
    joint = {name: law for name, law in LAWS.items() if name in ("u", "v")}
    assert {part.probability for part in branches(tuple(joint), joint, 4)} == {Fraction(1, 3)}
    with mpmath.workdps(30):
        parts = branches(("x", "u"), {"x": NormalLaw(0.1, 1.0).numeric(30), "u": LAWS["u"]}, 4)
        assert parts[0].means[0] == mpmath.mpf(1) / 10
    assert [part.probability for part in branches((), {}, 4)] == [1]


def test_a_law_without_variance_is_refused() -> None:
    demand_second_moment("w", mixture(0.5, 0.5, StudentTLaw(2.5), point(0.0)))
    with pytest.raises(ParameterError, match=r"`w` has the law .*no second moment"):
        demand_second_moment("w", mixture(0.5, 0.5, StudentTLaw(2.0), point(0.0)))
