"""Means over pairs of values that are no sum of products, E f(x(t), x(t')), against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from sympy import Max, exp, sqrt

import eqsolve
from eqsolve import GP, E, Eq, System, White, correlation, param, process, random, response, times
from eqsolve.errors import ModelError
from eqsolve.laws import Normal

t, tp = times("t t'")
x, z, xi = process("x z xi")
K, C = correlation("K C")
near = exp(-((x(t) - x(tp)) ** 2) / 2)  # its mean is 1/√(1 + V), V the variance of a Gaussian difference
PAIRS = [(0.5, 0.25), (1, 0.25), (1, 1), (2, 1)]


def holds(found: Any, name: str, truth: Any) -> None:
    """Three stated errors at most, and these within the tolerance."""
    values = found.at2(PAIRS)
    for place, (one, other) in enumerate(PAIRS):
        off = abs(float(values[name][place]) - truth(one, other))
        assert off <= 3 * float(values[f"{name}_error"][place]) + 1e-12
    assert found.status == "ok"


def test_of_a_random_start() -> None:
    """x' = −x³, from which x(t) = x₀/√(1 + 2 t x₀²)."""
    model = System("fall", eqs=[Eq(x(t).diff(t), -(x(t) ** 3)), Eq(K(t, tp), E(near))], init={x: Normal(0, 1)})

    def truth(one: float, other: float) -> float:
        at = lambda start, when: start / np.sqrt(1 + 2 * when * start**2)  # noqa: E731
        weight = lambda a: np.exp(-(a**2) / 2 - (at(a, one) - at(a, other)) ** 2 / 2) / np.sqrt(2 * np.pi)  # noqa: E731
        return quad(weight, -9, 9)[0]

    holds(eqsolve.solve(model, t_max=2, rtol=1e-4), "K", truth)


@pytest.mark.parametrize("step", [None, 0.125])
def test_of_white_noise(step: float | None) -> None:
    """An Ornstein–Uhlenbeck process from zero; in steps V follows from the same recursion for the variance."""
    model = System("walk", eqs=[Eq(x(t).diff(t), -x(t) + xi(t)), Eq(K(t, tp), E(near))], laws={xi: White(1)}, init={x: 0})

    def truth(one: float, other: float) -> float:
        late, early = max(one, other), min(one, other)
        variance = lambda when: (1 - np.exp(-2 * when)) / 2  # noqa: E731
        return 1 / np.sqrt(1 + variance(late) + variance(early) - 2 * np.exp(early - late) * variance(early))

    if step is None:
        holds(eqsolve.solve(model, t_max=2, rtol=1e-2), "K", truth)
        return
    noisy = System(
        "steps", eqs=[Eq(x(t).diff(t), -x(t) + z(t)), Eq(K(t, tp), E(near))], laws={z: GP(exp(-abs(t - tp)))}, init={x: 0}
    )
    nodes = np.arange(0, 2 + step / 2, step)
    spread, carry = np.exp(-np.abs(nodes[:, None] - nodes)), np.zeros((len(nodes), len(nodes)))
    for place in range(1, len(nodes)):
        carry[place] = (1 - step) * carry[place - 1]
        carry[place, place - 1] += step
    table = carry @ spread @ carry.T

    def stepped(one: float, other: float) -> float:
        a, b = round(one / step), round(other / step)
        return 1 / np.sqrt(1 + table[a, a] + table[b, b] - 2 * table[a, b])

    for solver in ("stochastic", "steps"):
        holds(eqsolve.solve(noisy, t_max=2, rtol=1e-2, step=step, solver=solver), "K", stepped)


def test_that_act_back() -> None:
    """z ~ GP(K) drives x' = −x + z, x(0) normal: all is Gaussian, and K = 1/√(1 + V) is iterated on a grid of its own."""
    eqs = [Eq(x(t).diff(t), -x(t) + z(t)), Eq(K(t, tp), E(near)), Eq(C(t, tp), E(x(t) * x(tp)))]
    model = System("driven", eqs=eqs, laws={z: GP(K(t, tp))}, init={x: Normal(0, 1)})

    def grid(count: int) -> np.ndarray:
        nodes = np.linspace(0, 2, count + 1)
        rule = np.tril(np.exp(-(nodes[:, None] - nodes))) * (2 / count)
        rule[:, 0] /= 2
        rule[np.diag_indices(count + 1)] /= 2
        rule[0] = 0
        start, made = np.exp(-(nodes[:, None] + nodes)), np.ones((count + 1, count + 1))
        for _ in range(40):
            law = start + rule @ made @ rule.T
            made = 1 / np.sqrt(1 + np.diag(law)[:, None] + np.diag(law) - 2 * law)
        return made[:: count // 8, :: count // 8]

    best = (4 * grid(256) - grid(128)) / 3
    holds(eqsolve.solve(model, t_max=2, rtol=3e-3), "K", lambda one, other: best[round(4 * one), round(4 * other)])


@pytest.mark.slow
def test_with_a_kink_and_derivatives_along_a_parameter() -> None:
    """E max(x(t), −x(t')) of x(t) = w e^{−at}, w normal, is (e^{−at} + e^{−at'})/√(2π); twice that."""
    a, w = param("a", positive=True), random("w", Normal(0, 1))
    eqs = [Eq(x(t).diff(t), -a * x(t)), Eq(K(t, tp), E(Max(x(t), -x(tp)) + Max(x(tp), -x(t))))]
    model = System("kink", eqs=eqs, init={x: w}, defaults={a: 1})
    found = eqsolve.solve(model, t_max=2, rtol=1e-3, derivatives=["a"])
    holds(found, "K", lambda one, other: 2 * (np.exp(-one) + np.exp(-other)) / np.sqrt(2 * np.pi))
    made, nodes = found.derivative("K", "a"), found.dataset["row"].values
    one = nodes * np.exp(-nodes)
    off = np.abs(made.values + 2 * np.add.outer(one, one) / np.sqrt(2 * np.pi))
    assert (off <= 3 * found.dataset["K_d_a_error"].values + 1e-12).all()


def test_a_function_of_both_times_inside_is_refused() -> None:
    R = response("R")
    eqs = [Eq(R(t, tp), exp(tp - t)), Eq(x(t).diff(t), -x(t)), Eq(K(t, tp), E(sqrt(1 + R(t, tp) * x(t) * x(tp))))]
    with pytest.raises(ModelError, match="mixes paths at two times with a function of both"):
        eqsolve.check(System("mixed", eqs=eqs, init={x: Normal(0, 1)}))
