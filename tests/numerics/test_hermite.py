"""Means of functions of two Gaussian variables against closed forms: Hermite's series, and planes where a function bends."""

import numpy as np
import pytest
from scipy.special import erf, ndtr

from eqsolve.numerics.quadrature import LineRule, expand_line, mehler, plane_means, product_rule

RHO = np.array([-1.0, -0.7, 0.0, 0.3, 0.9, 0.99, 0.9999, 1.0])
RULES = [LineRule(), LineRule().other()]


def series(function, count, rule, breaks=None):
    made = expand_line(function, 1, breaks, count, rule)
    return made, mehler(made.coefficients, np.repeat(made.coefficients, len(RHO), axis=0), RHO[None, :])[0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
def test_arcsine_of_two_error_functions(size: float, rule: LineRule) -> None:
    made, found = series(lambda x: erf(size * x), 512, rule)
    truth = 2 / np.pi * np.arcsin(2 * size**2 * RHO / (1 + 2 * size**2))
    np.testing.assert_allclose(found, truth, atol=1e-13)
    assert made.rest[0] <= 1e-14


@pytest.mark.parametrize("count", [8, 64, 512, 2048])
def test_the_other_rule_tells_of_a_bell_between_the_points(count: int) -> None:
    """E e^{−(1000 x)²/2} is 10⁻³: rules that share points would agree on another number."""
    one, other = (
        expand_line(lambda x: np.exp(-((1e3 * x) ** 2) / 2), 1, None, count, rule).coefficients[0, 0] for rule in RULES
    )
    assert abs(one - 1e-3) <= 3 * abs(one - other)


@pytest.mark.parametrize("count", [8, 16, 32, 64])
def test_what_a_short_series_leaves_is_below_its_bound(count: int) -> None:
    made, found = series(lambda x: erf(2 * x), count, LineRule())
    truth = 2 / np.pi * np.arcsin(8 * RHO / 9)
    assert (np.abs(found - truth) <= np.abs(RHO) ** count * made.rest[0] + 1e-14).all()
    assert np.abs(found - truth).max() >= 0.5 * made.rest[0]  # and the bound is no more than that


@pytest.mark.parametrize("size", [0.5, 2.0, 4.0])
def test_functions_that_grow_fast(size: float) -> None:
    """E e^{s x} e^{s y} = e^{s² (1 + ρ)}: the line reaches as far as the integrand does."""
    made, found = series(lambda x: np.exp(size * x), 256, LineRule())
    np.testing.assert_allclose(found, np.exp(size**2 * (1 + RHO)), rtol=1e-9, atol=1e-10 * np.exp(2 * size**2))
    assert made.power[0] == pytest.approx(np.exp(2 * size**2), rel=1e-11)


@pytest.mark.parametrize("rule", RULES)
def test_functions_with_a_kink_over_the_plane(rule: LineRule) -> None:
    """The arc-cosine kernel of a rectified variable, and the arcsine of a sign."""
    cases = [
        (lambda x: np.maximum(x, 0), (np.sqrt(1 - RHO**2) + (np.pi - np.arccos(RHO)) * RHO) / (2 * np.pi)),
        (np.sign, 2 / np.pi * np.arcsin(RHO)),
    ]
    bends = np.zeros((len(RHO), 1))
    for function, truth in cases:
        found = plane_means(lambda _, x, f=function: f(x), lambda _, x, f=function: f(x), (bends, bends), RHO, rule)
        np.testing.assert_allclose(found, truth, atol=1e-10)


def test_kinks_at_different_places(rng: np.random.Generator) -> None:
    """P(x > a, y > b) by the integral over the correlation (Plackett): other quadrature, other variables."""
    a, b, rho = rng.normal(size=20), rng.normal(size=20), np.tanh(2 * rng.normal(size=20))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angle = np.arcsin(rho)[:, None] * (nodes + 1) / 2
    inside = np.exp(-(a**2 + b**2)[:, None] / 2 / np.cos(angle) ** 2 + (a * b)[:, None] * np.sin(angle) / np.cos(angle) ** 2)
    truth = ndtr(-a) * ndtr(-b) + np.arcsin(rho) / 2 * (inside @ weights) / (2 * np.pi)
    found = plane_means(
        lambda pairs, x: (x > a[pairs, None]).astype(float), lambda pairs, y: (y > b[pairs, None]).astype(float),
        (a[:, None], b[:, None]), rho, LineRule(),
    )  # fmt: skip
    np.testing.assert_allclose(found, truth, atol=1e-9)


def test_coefficients_between_kinks() -> None:
    """Those of a step at c: P(x > c), then the density times Hermite's polynomials."""
    where = np.array([[-0.7], [0.0], [1.3]])
    made = expand_line(lambda x: (x > where).astype(float), 3, where, 4, LineRule())
    c = where[:, 0]
    density = np.exp(-(c**2) / 2) / np.sqrt(2 * np.pi)
    truth = np.stack([ndtr(-c), density, density * c / np.sqrt(2), density * (c**2 - 1) / np.sqrt(6)], axis=1)
    np.testing.assert_allclose(made.coefficients, truth, atol=1e-13)
    np.testing.assert_allclose(made.power, ndtr(-c), atol=1e-13)


def test_a_product_rule_knows_moments() -> None:
    points, weights = product_rule(3, 3)
    assert (points[:, 0] ** 4) @ weights == pytest.approx(3)
    assert (points[:, 0] ** 2 * points[:, 1] ** 2 * points[:, 2] ** 2) @ weights == pytest.approx(1)
