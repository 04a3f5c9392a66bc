"""Richardson's estimate and extrapolation, on functions whose error is known."""

import math

import numpy as np
import pytest

from eqsolve.numerics.arrays import SAFETY, error_share, richardson


@pytest.mark.parametrize("order", [1, 2, 5, 9])
def test_the_share_is_the_error_of_a_power(order: int) -> None:
    exact, ratio, h = 0.7, 1.4, 0.3
    fine, coarse = exact + 2 * h**order, exact + 2 * (ratio * h) ** order
    assert error_share(ratio, order) * abs(fine - coarse) == pytest.approx(SAFETY * abs(fine - exact))


def test_the_share_takes_arrays() -> None:
    np.testing.assert_allclose(error_share(np.array([2.0, 3.0]), 2), [SAFETY / 3, SAFETY / 8])


def test_polynomials_are_extrapolated_exactly() -> None:
    values = [1 + 2 * h - 3 * h**2 + h**3 for h in (1, 0.5, 0.25, 0.125)]
    limit, _ = richardson(values)
    assert limit == pytest.approx(1, abs=1e-14)
    limit, change = richardson([*values, 1 + 2 / 16 - 3 / 256 + 1 / 4096])
    assert change < 1e-14


@pytest.mark.parametrize("turn", [1, 1j])
def test_the_last_change_bounds_the_error(turn: complex) -> None:
    values = [np.exp(turn * 0.5 / 2**k) for k in range(9)]
    for orders in (1, 2, 3):
        limit, change = richardson(values, orders)
        assert abs(limit - 1) <= change
    assert math.isclose(abs(richardson(values)[0]), 1.0, abs_tol=1e-14)


def test_one_value_is_its_own_limit() -> None:
    assert richardson([3.0]) == (3.0, 0.0)
