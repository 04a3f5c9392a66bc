"""Numeric laws against closed forms: moments by rules and by samples, Gaussian parts, numbers to more digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsolve.numerics import laws
from eqsolve.numerics.laws import NumericLaw

TABLE = np.array([[1.0, 10.0], [2.0, 20.0], [2.0, 30.0]])
KNOWN = {  # mean, variance, fourth moment about 0
    "point": (laws.point(3.0), 3.0, 0.0, 81.0),
    "bernoulli": (laws.bernoulli(0.3), 0.3, 0.21, 0.3),
    "rademacher": (laws.rademacher(0.4), 0.0, 0.4, 0.4),
    "signs": (laws.rademacher(1.0), 0.0, 1.0, 1.0),
    "discrete": (laws.discrete(-1.0, 2.0, 0.25, 0.75), 1.25, 1.6875, 12.25),
    "normal": (laws.NormalLaw(0.5, 2.0), 0.5, 2.0, 0.0625 + 6 * 0.25 * 2 + 3 * 4),
    "fixed": (laws.NormalLaw(0.5, 0.0), 0.5, 0.0, 0.0625),
    "gauss_bernoulli": (laws.gauss_bernoulli(0.3, 2.0), 0.0, 0.6, 3.6),
    "uniform": (laws.UniformLaw(-1.0, 3.0), 1.0, 4 / 3, 61 / 5),
    "laplace": (laws.LaplaceLaw(0.5), 0.0, 0.5, 24 * 0.0625),
    "marchenko_pastur": (laws.MarchenkoPasturLaw(2.0), 1.0, 0.5, 1 + 6 / 2 + 6 / 4 + 1 / 8),
    "with_atom": (laws.MarchenkoPasturLaw(0.5), 1.0, 2.0, 1 + 6 * 2 + 6 * 4 + 8),
    "mixture": (laws.mixture(0.5, 0.5, laws.NormalLaw(0.0, 1.0), laws.point(1.0)), 0.5, 0.75, 2.0),
    "empirical": (laws.SampleLaw(TABLE[:, 0]), 5 / 3, 2 / 9, 11.0),
    "component": (laws.Component(TABLE, 1, ("a", "b")), 20.0, 200 / 3, (1e4 + 16e4 + 81e4) / 3),
}


@pytest.mark.parametrize("name", KNOWN)
def test_moments(name: str, rng: np.random.Generator) -> None:
    law, mean, variance, fourth = KNOWN[name]
    nodes, weights = law.rule(8)
    assert weights.sum() == pytest.approx(1, rel=1e-13)
    assert weights @ nodes == pytest.approx(mean, abs=1e-12)
    assert weights @ nodes**4 == pytest.approx(fourth, rel=1e-12)
    assert law.moments() == pytest.approx((mean, variance), rel=1e-9, abs=1e-12)
    draws = law.sample(rng, 40_000)
    error = math.sqrt(variance / len(draws))
    assert abs(draws.mean() - mean) <= 5 * error + 1e-12
    spread = math.sqrt(np.var((draws - mean) ** 2) / len(draws))
    assert abs(draws.var() - variance) <= 5 * spread + 1e-3 * variance + 1e-12


@pytest.mark.parametrize("name", KNOWN)
def test_gaussian_parts_make_the_law(name: str) -> None:
    law, mean, variance, fourth = KNOWN[name]
    parts = law.gaussians(40)
    assert sum(p for p, *_ in parts) == pytest.approx(1, rel=1e-13)
    assert sum(p * m for p, m, _, _ in parts) == pytest.approx(mean, abs=1e-12)
    assert sum(p * (v + m**2) for p, m, v, _ in parts) == pytest.approx(variance + mean**2, rel=1e-12)
    assert sum(p * (3 * v**2 + 6 * v * m**2 + m**4) for p, m, v, _ in parts) == pytest.approx(fourth, rel=1e-11)
    made_of_gaussians = name not in ("uniform", "laplace", "marchenko_pastur", "with_atom")
    assert all(exact for *_, exact in parts) == made_of_gaussians


@pytest.mark.parametrize("name", KNOWN)
def test_atoms_and_density_share_the_mass(name: str) -> None:
    law = KNOWN[name][0]
    atoms = sum(p for _, p in law.atoms_of())
    assert atoms + law.continuous_rule(6)[1].sum() == pytest.approx(1, rel=1e-13)
    assert law.has_density == (atoms < 1 - 1e-12)
    assert law.problem() is None


def test_student() -> None:
    """The rule is in a coordinate that is bounded: moments converge slowly, bounded functions fast."""
    law = laws.StudentTLaw(3.0)
    assert law.moments() == (0.0, 3.0)
    assert law.has_second_moment
    assert not laws.StudentTLaw(2.0).has_second_moment
    assert not laws.mixture(0.5, 0.5, laws.StudentTLaw(1.0), laws.point(0.0)).has_second_moment
    assert laws.StudentTLaw(2.0).moments() == (0.0, math.inf)
    nodes, weights = law.rule(40)
    assert weights @ (1 / (1 + nodes**2 / 3)) == pytest.approx(0.75, rel=1e-13)  # E[1 - u²] in the bounded coordinate u


PROBLEMS: dict[str, tuple[NumericLaw, str]] = {
    "variance": (laws.NormalLaw(0.0, -1.0), "the variance must be >= 0, got -1"),
    "probability": (laws.gauss_bernoulli(1.5, 1.0), r"the probability must lie in \[0, 1\], got 1.5"),
    "ends": (laws.UniformLaw(1.0, 1.0), r"must be increasing, got \[1, 1\]"),
    "scale": (laws.LaplaceLaw(0.0), "the scale must be > 0"),
    "freedom": (laws.StudentTLaw(0.0), "degrees of freedom must be > 0"),
    "delta": (laws.MarchenkoPasturLaw(0.0), "delta must be > 0"),
    "total": (laws.discrete(0.0, 1.0, 0.5, 0.6), "sum to 1.1, not to 1"),
    "share": (laws.bernoulli(2.0), r"must lie in \[0, 1\], got 2"),
    "nothing": (laws.mixture(), "no part"),
    "not a number": (laws.NormalLaw(0.0, math.nan), "variance"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name: str) -> None:
    law, words = PROBLEMS[name]
    with pytest.raises(ValueError, match=words):
        raise ValueError(law.problem())


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_more_digits_of_what_a_float_spells(p: int, q: int) -> None:
    found = laws.NormalLaw(0.0, p / q).numeric(40)
    assert isinstance(found, laws.NormalLaw)
    with mpmath.workdps(40):
        assert abs(found.variance * q / p - 1) < mpmath.mpf(10) ** -38


def test_more_digits_inside_a_mixture() -> None:
    law = laws.mixture(0.1, 0.9, laws.NormalLaw(0.0, 0.3), laws.bernoulli(0.7)).numeric(30)
    with mpmath.workdps(30):
        total = sum(p for p, *_ in law.gaussians(2))
        assert abs(total - 1) < mpmath.mpf(10) ** -16  # 1 - 0.7 was rounded when the law was made
        assert law.gaussians(2)[0][2] == mpmath.mpf(3) / 10


def test_expectation_of_a_product() -> None:
    pair = [laws.NormalLaw(0.0, 2.0), laws.bernoulli(0.25)]
    assert laws.expectation(lambda x, y: x**2 * y + y, pair, 20) == pytest.approx(0.75, rel=1e-13)


def test_a_rule_on_either_side_of_a_jump() -> None:
    """E[sign(x) tanh(x − 0.3)] with x of mean 0.5: Gauss rules on both sides, against mpmath."""
    law = laws.SplitNormalLaw(0.5, 4.0)

    def density(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.tanh(x - mpmath.mpf("0.3")) * mpmath.npdf(x, mpmath.mpf("0.5"), 2)

    truth = float(mpmath.quad(density, [0.5, 4, 8, 20]) - mpmath.quad(density, [-20, -8, -4, 0.5]))
    errors = []
    for order in (8, 16, 32):
        nodes, weights = law.rule(order)
        assert weights.sum() == pytest.approx(1, abs=1e-13)
        assert weights @ (nodes - 0.5) ** 2 == pytest.approx(4, abs=1e-11)
        errors.append(abs(float(weights @ (np.sign(nodes - 0.5) * np.tanh(nodes - 0.3))) - truth))
    assert errors[1] < errors[0] / 5
    assert errors[2] < 1e-5
