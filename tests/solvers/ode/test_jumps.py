"""Forces that jump where paths cross: Filippov's solutions against closed forms, paths that cross and paths that slide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import sympy
from sympy import Heaviside, Rational, sign, sin

import eqsolve
from eqsolve import E, Eq, System, function, process, random, times
from eqsolve.laws import Uniform

t = times("t")
y, v = function("y v")
x = process("x")
AT = np.array([0.3, 0.5, 0.7, 1.0, 2.5, 3.0])
STICKS = float(np.arcsin(0.5))

# y' = right from a start: the solution
FORCES: dict[str, tuple[sympy.Expr, float, Callable[[np.ndarray], np.ndarray]]] = {
    "slides": (-sign(y(t) - Rational(1, 2)), 1.0, lambda t: np.maximum(1 - t, 0.5)),
    "slides from the other side": (1 - 3 * Heaviside(y(t)), -1.0, lambda t: np.minimum(t - 1, 0)),
    "crosses": (1 + sign(y(t)) / 2, -1.0, lambda t: np.where(t < 2, t / 2 - 1, 1.5 * (t - 2))),
    "sticks, then slips": (
        2 * sin(t) - sign(y(t)), 0.0,
        lambda t: np.where(t < STICKS, 0, 2 * (np.cos(STICKS) - np.cos(t)) - (t - STICKS)),
    ),
}  # fmt: skip


def holds(result: eqsolve.Result, name: str, exact: np.ndarray, at: np.ndarray, rtol: float) -> None:
    found = result.at(at)
    off = np.abs(found[name].values - exact)
    assert result.status == "ok"
    assert off.max() <= rtol * np.abs(exact).max()
    assert (off <= 3 * found[f"{name}_error"].values).all()


@pytest.mark.parametrize(
    ("kind", "rtol"),
    [
        *(pytest.param(kind, 1e-6, marks=pytest.mark.slow) for kind in FORCES),
        ("crosses", 1e-3),
        pytest.param("sticks, then slips", 1e-3, marks=pytest.mark.slow),
    ],
)
def test_one_path(kind: str, rtol: float) -> None:
    right, start, exact = FORCES[kind]
    at = AT[AT < 1.5] if kind.startswith("sticks") else AT
    result = eqsolve.solve(System("jumps", [Eq(y(t).diff(t), right)], init={y: start}), t_max=at[-1], rtol=rtol)
    holds(result, "y", exact(at), at, rtol)


@pytest.mark.slow
def test_dry_friction_of_an_oscillator() -> None:
    """y'' = −y − ½ sign(y'): half waves around ±½, and rest once |y| < ½ at a turn: from 2.2 by way of −1.2 to 0.2."""
    force = -y(t) - sign(y(t).diff(t)) / 2
    model = System("dry", [Eq(y(t).diff(t, 2), force)], init={y: 2.2, y(t).diff(t): 0})
    at = np.array([1.0, 2.5, 4.0, 6.0, 6.9, 8.0])
    exact = np.where(at < np.pi, 0.5 + 1.7 * np.cos(at), np.where(at < 2 * np.pi, -0.5 + 0.7 * np.cos(at), 0.2))
    holds(eqsolve.solve(model, t_max=8, rtol=1e-4), "y", exact, at, 1e-4)


@pytest.mark.slow
def test_paths_of_which_some_slide() -> None:
    """x' = u − sign(x) from 0 rests where |u| < 1: E x² = t² E (|u| − 1)²₊."""
    u = random("u", Uniform(-2, 2))
    model = System("units", [Eq(x(t).diff(t), u - sign(x(t)))], init={x: 0}, observables={"q": E(x(t) ** 2)})
    at = np.array([0.5, 1.0, 2.0])
    holds(eqsolve.solve(model, t_max=2, rtol=1e-2), "q", at**2 / 6, at, 1e-2)


def test_a_mean_that_slides() -> None:
    """m' = −sign(E x − ½) drives all x alike, from Uniform(0, 2): the mean slides at ½."""
    a, m = random("a", Uniform(0, 2)), function("m")
    eqs = [Eq(v(t).diff(t), -sign(m(t) - Rational(1, 2))), Eq(x(t), a + v(t)), Eq(m(t), E(x(t)))]
    result = eqsolve.solve(System("driven", eqs, init={v: 0}), t_max=3, rtol=1e-3)
    holds(result, "m", np.maximum(1 - AT, 0.5), AT, 1e-3)


def test_steps_of_a_map_jump_as_they_are() -> None:
    """y ← y − ½ sign(y) from 0.7: 0.2, −0.3, 0.2, …"""
    result = eqsolve.solve(System("map", [Eq(y(t).diff(t), -sign(y(t)) / 2)], init={y: 0.7}), t_max=3, step=1)
    assert result["y"].values == pytest.approx([0.7, 0.2, -0.3, 0.2], abs=1e-12)
