"""Several normal variables in one fixed point: what is independent is integrated apart, and the stated error holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.special import ndtr
from sympy import Max

import eqsolve
from eqsolve import E, Eq, FixedPoint, Result, normal, unknown
from eqsolve.numerics.quadrature import normal_density

u, v = unknown("u v", positive=True)
za, zb = normal("za", variance=v), normal("zb", variance=u)
CASES = np.random.default_rng(5).normal(size=(3, 2)).tolist()


def ramp(mean: float, variance: float) -> float:
    """E max(0, mean + √variance z)."""
    s = math.sqrt(variance)
    return float(mean * ndtr(mean / s) + s * normal_density(np.array(mean / s)))


def within(found: Result, truth: np.ndarray) -> bool:
    return all(abs(float(found[k]) - x) <= 3 * float(found.error[k]) + 1e-12 for k, x in zip("uv", truth, strict=True))


@pytest.mark.parametrize(("a", "b"), CASES)
def test_expectations_of_one_normal_each(a: float, b: float) -> None:
    first, other = Max(0, a + u / 9 + zb), Max(0, b - v / 9 + za)
    found = eqsolve.solve(FixedPoint("apart", eqs=[Eq(v, 0.1 + E(first) / 2), Eq(u, 0.1 + E(other) / 2)]))
    truth = fsolve(
        lambda x: [x[1] - 0.1 - ramp(a + x[0] / 9, x[0]) / 2, x[0] - 0.1 - ramp(b - x[1] / 9, x[1]) / 2],
        [float(found["u"]), float(found["v"])],
    )  # fmt: skip
    assert within(found, truth)
    assert max(float(found.error[k]) for k in "uv") < 1e-13


@pytest.mark.parametrize(("a", "b"), CASES)
def test_sums_and_products_of_what_is_independent(a: float, b: float) -> None:
    both = Max(0, a + u / 9 + zb) * Max(0, b - v / 9 + za)
    found = eqsolve.solve(FixedPoint("taken_apart", eqs=[Eq(v, 0.1 + E(both + za**2 / 3) / 2), Eq(u, 0.3 + E(both) / 2)]))
    mean = lambda x: ramp(a + x[0] / 9, x[0]) * ramp(b - x[1] / 9, x[1]) / 2  # noqa: E731
    truth = fsolve(lambda x: [x[1] - 0.1 - mean(x) - x[1] / 6, x[0] - 0.3 - mean(x)], [float(found[k]) for k in "uv"])
    assert within(found, truth)
    assert max(float(found.error[k]) for k in "uv") < 1e-13


def test_kinks_in_two_directions() -> None:
    """E max(0, x) max(0, y) for a correlation r: (√(1 − r²) + r (π/2 + arcsin r)) / 2π."""
    x, y = normal("x", variance=1), normal("y", variance=1)
    for r in (-0.7, 0.2, 0.9):
        side = math.sqrt(1 - r * r)
        found = eqsolve.solve(FixedPoint("pair", eqs=[Eq(u, E(Max(0, x) * Max(0, r * x + side * y)))]), rtol=1e-2)
        truth = (side + r * (math.pi / 2 + math.asin(r))) / (2 * math.pi)
        assert found.status == "ok"
        assert abs(float(found["u"]) - truth) <= 3 * float(found.error["u"])
