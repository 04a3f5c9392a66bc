"""Noises whose covariance has a cusp at equal times, as coloured noise: against closed forms, between nodes too."""

from __future__ import annotations

import numpy as np
import pytest
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
