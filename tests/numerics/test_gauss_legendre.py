"""Gauss–Legendre rules in many digits: weights, degree of exactness, and the double ones."""

import mpmath
import numpy as np
import pytest

from eqsolve.numerics.quadrature import precise_legendre


@pytest.mark.parametrize("order", [1, 2, 7, 20])
def test_the_rule_is_exact_to_its_degree_in_all_digits(order: int) -> None:
    rule = precise_legendre(order, 50)
    with mpmath.workdps(50):
        for power in range(2 * order):
            exact = mpmath.mpf(2) / (power + 1) if power % 2 == 0 else 0
            assert abs(sum(weight * x**power for x, weight in rule) - exact) < mpmath.mpf(10) ** -42
        missed = sum(weight * x ** (2 * order) for x, weight in rule) - mpmath.mpf(2) / (2 * order + 1)
        assert abs(missed) > mpmath.mpf(10) ** -20
    nodes, weights = np.polynomial.legendre.leggauss(order)
    np.testing.assert_allclose([[float(value) for value in pair] for pair in rule], np.c_[nodes, weights], atol=1e-14)
