"""Search variables of unknowns: the maps, their inverses and their slopes."""

from __future__ import annotations

import numpy as np
import pytest

from eqsolve.numerics.domains import Domain

DOMAINS = [
    (Domain("x"), -3.7),
    (Domain("x", 1), 2.5),
    (Domain("x", -1, None, (0.0,)), -2.5),
    (Domain("x", 1, (0.0, 1.0), (0.0, 1.0)), 0.3),
    (Domain("x", 0, (-2.0, 5.0), (-2.0, 5.0)), 4.9),
]


@pytest.mark.parametrize(("domain", "value"), DOMAINS)
def test_an_unknown_comes_back_from_its_search_variable(domain: Domain, value: float) -> None:
    point = domain.point(value)
    assert domain.value(np.array(point)) == pytest.approx(value, rel=1e-14)
    step = 1e-6
    slope = (domain.value(np.array(point + step)) - domain.value(np.array(point - step))) / (2 * step)
    assert domain.scale(value) == pytest.approx(float(slope), rel=1e-8)


@pytest.mark.parametrize(("domain", "value"), DOMAINS)
def test_search_variables_reach_the_domain_and_nothing_else(domain: Domain, value: float) -> None:
    reached = domain.value(np.linspace(-30, 30, 101))
    assert all(domain.holds(float(entry)) for entry in reached)
    assert domain.holds(value)
    assert domain.holds(domain.middle)
    assert all(domain.holds(end) for end in domain.ends)
    assert not domain.holds(np.inf)


def test_outside_is_outside_but_for_rounding() -> None:
    assert not Domain("x", 1).holds(-1e-300)
    unit = Domain("x", 1, (0.0, 1.0))
    assert unit.holds(1 + 1e-13)
    assert not unit.holds(1 + 1e-11)
