"""Kernels that are infinite, or not smooth, where their times meet, against Mittag-Leffler functions and Abel's inversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from sympy import Abs, Rational, exp, gamma, pi, sqrt

import eqsolve
from eqsolve import GP, E, Eq, Int, ModelError, SolverError, System, function, process, times

t, tp, s = times("t t' s")
y = function("y")
x, z = process("x z")
AT = np.array([1e-6, 1e-3, 0.03, 0.3, 0.9, 1.7, 2.0])
number = mpmath.mpf


def mittag_leffler(a: Any, z: Any) -> Any:
    return mpmath.nsum(lambda k: z**k / mpmath.gamma(a * k + 1), [0, mpmath.inf])


def honest(model: System, exact: Callable[[Any], Any], rtol: float) -> None:
    result = eqsolve.solve(model, t_max=2, rtol=rtol)
    with mpmath.workdps(30):
        truth = np.array([float(exact(number(float(moment)))) for moment in AT])
    found = result.at(AT)
    off = np.abs(found["y"].values - truth)
    assert result.status == "ok", result.message
    assert result.stats["solver"] == "convolution"
    assert off.max() <= rtol * np.abs(truth).max()
    assert (off <= 3 * found["y_error"].values).all()


@pytest.mark.parametrize(("written", "rtol"), [("lag", 1e-4), ("times", 1e-8)])
def test_an_equation_of_the_second_kind(written: str, rtol: float) -> None:
    """y = 1 − ∫ y(s)/√(π(t − s)) ds is eᵗ erfc √t."""
    integrand = y(t - s) / sqrt(s) if written == "lag" else y(s) / sqrt(t - s)
    model = System("second", [Eq(y(t), 1 - Int(integrand, (s, 0, t)) / sqrt(pi))])
    honest(model, lambda u: mpmath.exp(u) * mpmath.erfc(mpmath.sqrt(u)), rtol)


@pytest.mark.parametrize("tenths", [pytest.param(3, marks=pytest.mark.slow), 6, pytest.param(8, marks=pytest.mark.slow)])
def test_fractional_relaxation(tenths: int) -> None:
    """The integral of order a of y' = −y in Caputo's sense: y = E_a(−tᵃ)."""
    a = Rational(tenths, 10)
    model = System("relaxing", [Eq(y(t), 1 - Int((t - s) ** (a - 1) * y(s), (s, 0, t)) / gamma(a))])
    honest(model, lambda u: mittag_leffler(number(tenths) / 10, -(u ** (number(tenths) / 10))), 1e-8)


@pytest.mark.parametrize("lag", [t - s, Abs(t - s)])
def test_a_kernel_that_vanishes_like_a_broken_power(lag: Any) -> None:
    """Between relaxation and a wave: y = 1 − ∫ √(t − s) y(s) ds/Γ(3/2) is E_{3/2}(−t^{3/2})."""
    model = System("wave", [Eq(y(t), 1 - Int(sqrt(lag) * y(s), (s, 0, t)) / gamma(Rational(3, 2)))])
    honest(model, lambda u: mittag_leffler(number(1.5), -(u ** number(1.5))), 1e-8)


@pytest.mark.parametrize("step", [None, 0.1])
def test_beside_processes_it_is_named(step: float | None) -> None:
    memory = Eq(x(t).diff(t), z(t) - Int(sqrt(t - s) * x(s), (s, 0, t)))
    model = System("driven", [memory], laws={z: GP(exp(-((t - tp) ** 2)))}, init={x: 1}, observables={"m": E(x(t))})
    with pytest.raises(SolverError, match=r"`sqrt\(-s \+ t\)`: such a kernel is taken where all unknowns"):
        eqsolve.solve(model, t_max=1, step=step)


def test_a_derivative_with_such_a_memory() -> None:
    model = System("driven", [Eq(y(t).diff(t), -Int(y(s) / sqrt(t - s), (s, 0, t)))], init={y: 1})
    honest(model, lambda u: mittag_leffler(number(1.5), -mpmath.sqrt(mpmath.pi) * u ** number(1.5)), 1e-8)


def test_a_kernel_that_decays_too() -> None:
    """y = 1 − ∫ e^{−(t−s)}/√(π(t − s)) y(s) ds has the transform 1/(p (1 + 1/√(1 + p)))."""
    model = System("decaying", [Eq(y(t), 1 - Int(exp(s - t) * y(s) / sqrt(t - s), (s, 0, t)) / sqrt(pi))])
    result = eqsolve.solve(model, t_max=2, rtol=1e-8).at([0.3, 2.0])["y"].values
    with mpmath.workdps(30):
        truth = [float(mpmath.invertlaplace(lambda p: 1 / (p * (1 + 1 / mpmath.sqrt(1 + p))), u)) for u in (0.3, 2.0)]
    np.testing.assert_allclose(result, truth, atol=1e-8)


@pytest.mark.parametrize(
    ("power", "given", "exact"),
    [
        pytest.param(Rational(1, 2), t, lambda u: 2 * mpmath.sqrt(u) / mpmath.pi, marks=pytest.mark.slow),
        (Rational(1, 2), sqrt(t), lambda u: number(1) / 2),
        (
            Rational(3, 10),
            t**2,
            lambda u: 2 * u ** number("1.3") / (mpmath.gamma(number("0.7")) * mpmath.gamma(number("2.3"))),
        ),
    ],
)
def test_abels_equation_of_the_first_kind(power: Any, given: Any, exact: Callable[[Any], Any]) -> None:
    model = System("abel", [], constraints={y: Eq(Int(y(s) / (t - s) ** power, (s, 0, t)), given)})
    honest(model, exact, 1e-8)


def test_where_the_first_kind_belongs_is_said() -> None:
    model = System("abel", [Eq(Int(y(s) / sqrt(t - s), (s, 0, t)), t)])
    with pytest.raises(ModelError, match=r"constraints=\{y: Eq\(\.\.\.\)\}"):
        eqsolve.check(model)
