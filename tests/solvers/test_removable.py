"""Quotients that are 0/0 at one place, where their limit is finite: sin(t)/t, I₁(t)/t, (1 − e^{−at})/a; in every solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import dblquad
from sympy import Abs, besseli, besselj, cos, exp, sin

import eqsolve
from eqsolve import GP, E, Eq, FixedPoint, Int, System, correlation, function, param, process, times, unknown
from eqsolve.compile.safe import safe

t, tp, s = times("t t' s")
y = function("y")
x, z = process("x z")
C = correlation("C")

QUOTIENTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sine": (lambda a: sin(a) / a, mpmath.sinc),
    "Bessel": (lambda a: besseli(1, 4 * a) / (2 * a), lambda a: mpmath.besseli(1, 4 * a) / (2 * a)),
    "square": (lambda a: besselj(2, a) / a**2, lambda a: mpmath.besselj(2, a) / a**2),
    "exponential": (lambda a: (1 - exp(-a)) / a, lambda a: -mpmath.expm1(-a) / a),
    "cosine": (lambda a: (1 - cos(a)) / a**2, lambda a: 2 * (mpmath.sin(a / 2) / a) ** 2),
}


def truth(result: Any, name: str, exact: float, rtol: float = 1e-6) -> None:
    found = result.at([2.0])
    off = abs(float(found[name].values[0]) - exact)
    assert result.status == "ok"
    assert off <= rtol * abs(exact)
    assert off <= 3 * float(found[f"{name}_error"].values[0]) + 1e-14


def second_kind(kernel: Callable[[Any], Any]) -> float:
    """Return y(2) of y = 1 − ∫ kernel(t − s) y(s) ds, a polynomial of degree 29 through Chebyshev nodes."""
    cheb, (nodes, weights) = np.polynomial.chebyshev, np.polynomial.legendre.leggauss(40)
    places = np.cos(np.pi * (np.arange(30) + 0.5) / 30)
    table = cheb.chebvander(places, 29)
    for row, end in zip(table, 1 + places, strict=True):
        inner = end * (nodes + 1) / 2
        row += (weights * end / 2 * [float(kernel(end - item)) for item in inner]) @ cheb.chebvander(inner - 1, 29)
    return float(cheb.chebval(1, np.linalg.solve(table, np.ones(30))))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("cosine", "exponential"))) for name in QUOTIENTS]
)
def test_coefficients_and_kernels(name: str) -> None:
    made, exact = QUOTIENTS[name]
    plain = eqsolve.solve(System("plain", [Eq(y(t).diff(t), made(t) - y(t))], init={y: 0}), t_max=2, rtol=1e-6)
    truth(plain, "y", float(mpmath.quad(lambda a: mpmath.exp(a - 2) * exact(a), [0, 1, 2])))
    for kernel in (made(t - s) * y(s), made(s) * y(t - s)):
        found = eqsolve.solve(System("kernel", [Eq(y(t), 1 - Int(kernel, (s, 0, t)))]), t_max=2, rtol=1e-6)
        truth(found, "y", second_kind(exact))


@pytest.mark.parametrize("name", QUOTIENTS)
def test_the_value_at_the_place_itself_and_beside_it(name: str) -> None:
    made, exact = QUOTIENTS[name]
    a = sympy.Symbol("a", real=True)
    compiled = eqsolve.compile.lowering.lower([safe(made(a))], [a])
    for place in (1e-12, 1e-3, 1.5):
        assert float(compiled(np.array([place]))[0][0]) == pytest.approx(float(exact(mpmath.mpf(place))), rel=1e-14)
    assert float(compiled(np.array([0.0]))[0][0]) == pytest.approx(float(sympy.limit(made(a), a, 0)), rel=1e-15)


def test_what_grows_is_still_met_by_what_decays() -> None:
    """I₁(a) e^{b − a}/a for a = 2,000, where I₁ alone overflows."""
    a, b = sympy.symbols("a b", positive=True)
    compiled = eqsolve.compile.lowering.lower([safe(besseli(1, a) * exp(b - a) / a)], [a, b])
    exact = float(mpmath.besseli(1, 2000) * mpmath.exp(-1999) / 2000)
    assert float(compiled(np.array([2000.0]), np.array([1.0]))[0][0]) == pytest.approx(exact, rel=1e-12)


def test_a_function_of_two_times_is_the_function_of_one_that_it_is() -> None:
    sides = [lambda f, a: -f(t, *a) * sin(t) / t + Int(sin(t - s) / (t - s) * f(s, *a), (s, 0, t))] * 2
    two = System("two", [Eq(C(t, tp).diff(t), sides[0](C, (tp,)))], init={C(0, 0): 1}, observables={"q": C(t, 0)})
    one = eqsolve.solve(System("one", [Eq(y(t).diff(t), sides[1](y, ()))], init={y: 1}), t_max=2, rtol=1e-9)
    truth(eqsolve.solve(two, t_max=2, rtol=1e-6), "q", float(one.at([2.0])["y"].values[0]))


def test_a_covariance_that_is_a_sine_over_its_argument() -> None:
    """dx/dt = −x + z with E z(t) z(t') = sin(t − t')/(t − t')."""
    model = System(
        "sinc",
        [Eq(x(t).diff(t), -x(t) + z(t))],
        laws={z: GP(sin(t - tp) / (t - tp))},
        init={x: 0},
        observables={"q": E(x(t) ** 2)},
    )
    exact = dblquad(lambda a, b: np.exp(a + b - 4) * np.sinc((a - b) / np.pi), 0, 2, 0, 2)[0]
    truth(eqsolve.solve(model, t_max=2, rtol=1e-6), "q", exact)
    driven = System(
        "driven", [Eq(x(t).diff(t), -x(t) * sin(t) / t + z(t))], laws={z: GP(exp(-Abs(t - tp)))}, init={x: 0},
        observables={"q": E(x(t) ** 2)},
    )  # fmt: skip
    si = np.vectorize(lambda a: float(mpmath.si(a)))
    nodes, weights = np.polynomial.legendre.leggauss(30)
    total = 0.0
    for late, share in zip(1 + nodes, weights, strict=True):  # twice the triangle, on which the integrand is smooth
        early = late * (1 + nodes) / 2
        inside = np.exp(si(late) + si(early) - 2 * si(2.0) - (late - early)) @ weights * late / 2
        total += 2 * share * inside
    truth(eqsolve.solve(driven, t_max=2, rtol=1e-6), "q", total)


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.5])
def test_a_fixed_point_at_the_singular_value_of_a_parameter(value: float) -> None:
    """m = 1/2 + (1 − e^{−am})/(2a), which is 1/2 + m/2 at a = 0."""
    m, a = unknown("m"), param("a")
    found = eqsolve.solve(FixedPoint("limit", [Eq(m, (1 - exp(-a * m)) / (2 * a) + 0.5)], defaults={a: 1.0}), a=value)
    exact = 1.0 if not value else float(mpmath.findroot(lambda m: 0.5 - mpmath.expm1(-value * m) / (2 * value) - m, 1))
    assert float(found["m"]) == pytest.approx(exact, rel=1e-8)
