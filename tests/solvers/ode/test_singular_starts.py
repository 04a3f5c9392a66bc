"""Coefficients that are singular at the start, against closed forms (mpmath): values and error estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from sympy import Rational, cos, log, sqrt

import eqsolve
from eqsolve import E, Eq, System, function, process, random, times
from eqsolve.errors import SolverError
from eqsolve.laws import Uniform

t = times("t")
x, y, m = function("x y m")
w = process("w")
a = random("a", Uniform(1, 3))
velocity = x(t).diff(t)
third = Rational(1, 3)
AT = np.array([1e-9, 1e-6, 1e-3, 0.03, 0.3, 0.9, 1.7, 3.1, 5.0])

KNOWN: dict[str, tuple[list[Any], dict[Any, Any], Callable[[Any], Any]]] = {
    "nesterov": ([Eq(x(t).diff(t, 2), -3 / t * velocity - x(t))], {x: 1, velocity: 0}, lambda s: 2 * mpmath.besselj(1, s) / s),
    "bessel": ([Eq(x(t).diff(t, 2), -velocity / t - x(t))], {x: 1, velocity: 0}, lambda s: mpmath.besselj(0, s)),
    "bessel of order one": (
        [Eq(x(t).diff(t, 2), -velocity / t - (1 - 1 / t**2) * x(t))],
        {x: 0, velocity: Rational(1, 2)},
        lambda s: mpmath.besselj(1, s),
    ),
    "growing": (
        [Eq(x(t).diff(t, 2), -3 / t * velocity + 5 * x(t))],
        {x: 1, velocity: 0},
        lambda s: 2 * mpmath.besseli(1, mpmath.sqrt(5) * s) / (mpmath.sqrt(5) * s),
    ),
    "square root": ([Eq(x(t).diff(t), -x(t) / sqrt(t))], {x: 1}, lambda s: mpmath.exp(-2 * mpmath.sqrt(s))),
    "reaction": ([Eq(x(t).diff(t), -(1 + 1 / sqrt(t)) * x(t) ** 2)], {x: 1}, lambda s: 1 / (1 + s + 2 * mpmath.sqrt(s))),
    "cube root": ([Eq(x(t).diff(t), -x(t) / t ** (2 * third))], {x: 1}, lambda s: mpmath.exp(-3 * mpmath.cbrt(s))),
    "logarithm": ([Eq(x(t).diff(t), log(t) * x(t))], {x: 1}, lambda s: mpmath.exp(s * mpmath.log(s) - s)),
    "driven": ([Eq(x(t).diff(t), -x(t) / t + cos(t))], {x: 0}, lambda s: mpmath.sin(s) + (mpmath.cos(s) - 1) / s),
    "power": ([Eq(x(t).diff(t), -x(t) / (2 * t) + sqrt(t))], {x: 0}, lambda s: s ** mpmath.mpf(1.5) / 2),
    "mean of paths": ([Eq(w(t).diff(t), -a * w(t) / t + 1), Eq(x(t), E(w(t)))], {w: 0}, lambda s: s * mpmath.log(2) / 2),
}


FEW = ("nesterov", "bessel of order one", "cube root", "logarithm", "driven")


@pytest.mark.parametrize(
    ("name", "rtol"), [*((name, 1e-4) for name in FEW), *(pytest.param(name, 1e-8, marks=pytest.mark.slow) for name in KNOWN)]
)
def test_the_finite_solution_is_found(name: str, rtol: float) -> None:
    equations, start, exact = KNOWN[name]
    result = eqsolve.solve(System("singular", equations, init=start), t_max=5, rtol=rtol)
    with mpmath.workdps(40):
        truth = np.array([float(exact(mpmath.mpf(float(moment)))) for moment in AT])
    found = result.at(AT)
    off = np.abs(found["x"].values - truth)
    assert result.status == "ok"
    assert (off <= rtol * np.abs(truth).max()).all()
    assert (off <= 3 * found["x_error"].values).all()


def test_a_later_start() -> None:
    """Nesterov's equation from t = 2 on; what is not smooth there is refused, since differences from 2 lose digits."""
    model = System("later", [Eq(x(t).diff(t, 2), -3 / (t - 2) * velocity - x(t))], init={x: 1, velocity: 0}, start=2)
    found = eqsolve.solve(model, t_max=3, rtol=1e-8).at([3.0])
    assert abs(found["x"].item() - 2 * float(mpmath.besselj(1, 1))) < min(1e-8, 3 * found["x_error"].item())
    rough = System("later", [Eq(x(t).diff(t), -x(t) / sqrt(t - 2))], init={x: 1}, start=2)
    with pytest.raises(SolverError, match="count the time from the start"):
        eqsolve.solve(rough, t_max=3)


@pytest.mark.parametrize(
    ("right", "start", "why"),
    [
        (-x(t) / t, 1, "no finite solution starts from the values given"),
        (1 / t, 1, "no finite solution starts from the values given"),
        (x(t) / t, 0, "no solution, or more than one"),
        (x(t) / (3 * t), 0, "no solution, or more than one"),
        (-x(t) / t**2, 1, "no finite solution starts from the values given"),
    ],
)
def test_what_has_no_such_solution_is_refused_and_the_term_named(right: Any, start: int, why: str) -> None:
    with pytest.raises(SolverError, match=rf"{why}.*which is singular at the start"):
        eqsolve.solve(System("none", [Eq(x(t).diff(t), right)], init={x: start}), t_max=1)
