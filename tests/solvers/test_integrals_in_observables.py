"""Integrals over time in observables of systems whose equations have none: actions, doses, areas under a curve."""

from __future__ import annotations

import math
from typing import Any

import pytest

import eqsolve
from eqsolve import E, Eq, Int, System, function, process, random, times
from eqsolve.laws import Normal

t, s = times("t s")
x, y = process("x"), function("y")
c = random("c", Normal(0, 1))
LEFT = 1 - math.exp(-1)  # x(1) = 1 − LEFT + c LEFT


@pytest.mark.parametrize("rtol", [1e-3, 1e-6])
@pytest.mark.parametrize(
    ("area", "truth"),
    [
        (Int(E(x(s) ** 2), (s, 0, t)), 1 - 2 * LEFT + (1 - math.exp(-2))),
        (Int(E(x(s)), (s, 0, t)), LEFT),
        (E(Int(x(s), (s, 0, t))), LEFT),
        (E(Int(x(s), (s, 0, t)) ** 2), LEFT**2 + (1 - LEFT) ** 2),
    ],
)
def test_of_paths_with_random_constants(area: Any, truth: float, rtol: float) -> None:
    model = System("relaxing", [Eq(x(t).diff(t), -x(t) + c)], init={x: 1}, observables={"area": area})
    found = eqsolve.solve(model, t_max=1, rtol=rtol)
    assert found.status == "ok"
    assert abs(float(found["area"][-1]) - truth) <= 3 * float(found.error["area"][-1]) + 1e-13


def test_of_an_ordinary_equation() -> None:
    model = System("decay", [Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"area": Int(y(s), (s, 0, t))})
    found = eqsolve.solve(model, t_max=1)
    assert found.status == "ok"
    assert abs(float(found["area"][-1]) - LEFT) <= 3 * float(found.error["area"][-1]) + 1e-14
