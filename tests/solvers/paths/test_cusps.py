"""Noises whose covariance has a cusp at equal times, as coloured noise: against closed forms, between nodes too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import BarycentricInterpolator
from scipy.linalg import expm
from sympy import exp

import eqsolve
from eqsolve import GP, E, Eq, System, correlation, process, random, times
from eqsolve.laws import Normal
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid, average_cusps

t, tp = times("t t'")
x, eta = process("x eta")
D = correlation("D")
AT = np.linspace(0.05, 12.0, 40)


@pytest.mark.parametrize("order", [3, 5, 8])
def test_double_integrals_over_a_cusp(order: int) -> None:
    grid = OperatorGrid.from_panels(PanelGrid(np.linspace(0, 4, 9), order))
    later, sooner = np.maximum.outer(grid.nodes, grid.nodes), np.minimum.outer(grid.nodes, grid.nodes)
    truth = 2 * sooner - 1 + np.exp(-later) + np.exp(-sooner) - np.exp(sooner - later)
    made = average_cusps(grid, np.exp(sooner - later))
    J = grid.integration
    assert pytest.approx(truth, abs={3: 2e-4, 5: 1e-7, 8: 1e-12}[order]) == J @ made @ J.T


def test_two_processes_that_lead_and_follow() -> None:
    """Covariances of a pair are not symmetric in time: e^(−(t − t')) for t > t', a constant before."""
    grid = OperatorGrid.from_panels(PanelGrid(np.linspace(0, 2, 5), 6))
    later, sooner, n = grid.nodes[:, None], grid.nodes[None, :], grid.size
    cross = np.where(later >= sooner, np.exp(sooner - later), 1.0)
    table = np.block([[np.eye(n), cross], [cross.T, np.eye(n)]])
    J = grid.integration
    first = sooner**2 / 2 + sooner - np.exp(sooner - later) + np.exp(-later)
    other = later * sooner - later**2 / 2 + later - 1 + np.exp(-later)
    found = J @ average_cusps(grid, table)[:n, n:] @ J.T
    assert found == pytest.approx(np.where(later >= sooner, first, other), abs=1e-7)


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("named", [False, True])
def test_coloured_noise(rtol: float, named: bool) -> None:
    x0 = random("x0", Normal(0, 1))
    kernel = exp(-abs(t - tp))
    equations = [Eq(x(t).diff(t), -x(t) + eta(t)), *([Eq(D(t, tp), kernel)] if named else [])]
    model = System(
        "coloured", eqs=equations, laws={eta: GP(D(t, tp) if named else kernel)}, init={x: x0}, observables={"q": E(x(t) ** 2)}
    )
    found = eqsolve.solve(model, t_max=12, rtol=rtol, solver="stochastic")
    assert found.status == "ok"
    truth = 0.5 - AT * np.exp(-2 * AT) + np.exp(-2 * AT) / 2
    values = found.at(AT)
    assert (np.abs(values.q.values - truth) <= 3 * values.q_error.values).all()


@pytest.mark.parametrize("rtol", [1e-2, 1e-3])
def test_coloured_noise_that_multiplies(rtol: float) -> None:
    model = System(
        "multiplied", eqs=[Eq(x(t).diff(t), -2 * x(t) + x(t) * eta(t))], laws={eta: GP(exp(-abs(t - tp)) / 4)}, init={x: 1},
        observables={"m": E(x(t))},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=4, rtol=rtol)
    at = AT[AT < 4]
    truth = np.exp(-2 * at + (at - 1 + np.exp(-at)) / 4)
    values = found.at(at)
    assert found.status == "ok"
    assert (np.abs(values.m.values - truth) <= 3 * values.m_error.values).all()


def mean_square(force: Callable[[np.ndarray], np.ndarray], variance: float, begin: float, times: np.ndarray) -> np.ndarray:
    """E x² of x' = f(x) + η, η' = −η + noise, by the backward equation: Chebyshev points in x, Hermite polynomials in η."""
    n, m, length = 56, 20, 5.0
    k = np.arange(n + 1)
    points, ends = np.cos(np.pi * k / n), np.where((k == 0) | (k == n), 2.0, 1.0) * (-1.0) ** k
    D = np.outer(ends, 1 / ends) / (points[:, None] - points + np.eye(n + 1))
    D = (D - np.diag(D.sum(axis=1))) / length
    points = length * points
    up = np.diag(np.full(m - 1, variance**0.5), -1)
    both = up + np.diag(variance**0.5 * np.arange(1, m), 1)
    generator = np.kron(np.eye(m), force(points)[:, None] * D) + np.kron(both, D)
    step = expm((generator - np.kron(np.diag(np.arange(m)), np.eye(n + 1))) * times[0])
    state, made = np.concatenate([points**2, np.zeros((m - 1) * (n + 1))]), []
    for _ in times:
        state = step @ state
        made.append(float(BarycentricInterpolator(points, state[: n + 1], wi=1 / ends)(begin)))
    return np.array(made)


@pytest.mark.parametrize("rtol", [1e-2, pytest.param(1e-3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("force", "variance", "begin"), [(lambda v: -(v**3), 1.0, 0.7), (lambda v: -v - v**3 / 5, 2.0, 0.0)])
def test_coloured_noise_in_a_force_that_is_not_linear(force: Any, variance: float, begin: float, rtol: float) -> None:
    """Interpolation leaves out a variance of h³: errors of panels fall so, and a few paths do not tell them from chance."""
    model = System(
        "bent", eqs=[Eq(x(t).diff(t), force(x(t)) + eta(t))], laws={eta: GP(variance * exp(-abs(t - tp)))}, init={x: begin},
        observables={"q": E(x(t) ** 2)},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=6, rtol=rtol)
    at = np.linspace(0.6, 6.0, 10)
    values = found.at(at)
    assert found.status == "ok"
    assert (np.abs(values.q.values - mean_square(force, variance, begin, at)) <= 3 * values.q_error.values).all()
