"""Responses close to the diagonal: values inside panels, against closed forms."""

import numpy as np
import pytest
from sympy import sin

from eqsolve import GP, E, Eq, Resp, System, correlation, process, response, solve, times
from eqsolve.numerics.grids import lagrange, radau
from eqsolve.numerics.operators import OperatorGrid, PanelGrid, recovered_degree, recovery

t, tp = times("t t'")
x, z = process("x z")
C = correlation("C")
R = response("R")

well = System(  # a particle in a harmonic well of stiffness a(t): R(t, t') = exp(−∫_{t'}^t a)
    "well",
    eqs=[
        Eq(x(t).diff(t), -(1 + sin(2 * t) / 2) * x(t) + z(t)),
        Eq(C(t, tp), E(x(t) * x(tp))),
        Eq(R(t, tp), E(Resp(x(t), z(tp)))),
    ],
    laws={z: GP(1 + t * tp)},
    init={x: 1},
    observables={"v": C(t, t), "first": R(t, 0), "last": R(t, t)},
)


def exact(late, early):
    return np.exp(-(late - np.cos(2 * late) / 4) + (early - np.cos(2 * early) / 4))


@pytest.mark.parametrize(("order", "start_known"), [(3, True), (4, False), (5, True), (7, True), (8, True), (8, False)])
def test_polynomial_kernels_are_found_to_rounding(order, start_known):
    """∫₀^{cᵢ} k(cᵢ, s) z(s) ds of a kernel of the recovered degree, for every z of the panel's space."""
    c, degree = radau(order).nodes, recovered_degree(order)
    gauss, weights = np.polynomial.legendre.leggauss(2 * order)
    rng = np.random.default_rng(0)
    powers = [(p, q, rng.normal()) for p in range(degree + 1) for q in range(degree + 1 - p)]

    def kernel(late, early):
        return sum(factor * late**p * early**q for p, q, factor in powers)

    block = np.array(
        [lagrange(c, end * (gauss + 1) / 2).T @ (end / 2 * weights * kernel(end, end * (gauss + 1) / 2)) for end in c]
    )
    known = np.append(block.ravel(), kernel(c, 0.0)) if start_known else block.ravel()
    found = (recovery(order, start_known) @ known).reshape(order, order)
    inside = c[:, None] >= c
    assert np.abs(np.where(inside, found - kernel(c[:, None], c), 0.0)).max() < 1e-11  # rounding, times weights up to 1e6


@pytest.mark.parametrize(("order", "bound"), [(5, 2e-5), (8, 5e-7)])
def test_the_operator_of_a_relaxation_gives_its_kernel_in_every_panel(order, bound):
    """(1 + J)⁻¹ J has the kernel e^{−(t−t')}; panels of length 0.3 hold it to the fourth power or the seventh."""
    grid = OperatorGrid.from_panels(PanelGrid(np.linspace(0, 3, 11), order))
    operator = np.linalg.solve(np.eye(grid.size) + grid.integration, grid.integration)
    values = grid.values(operator)
    assert np.abs(values - np.tril(np.exp(-(grid.nodes[:, None] - grid.nodes)))).max() < bound


@pytest.mark.parametrize("rtol", [1e-2, pytest.param(1e-3, marks=pytest.mark.slow), 1e-5])
def test_responses_near_the_diagonal_meet_their_errors(rtol):
    res = solve(well, t_max=6, rtol=rtol)
    late = np.linspace(0.03, 6, 60)
    pairs = np.array([(u, u - gap) for u in late for gap in (0, 0.01, 0.05, 0.1, 0.3, 1) if u >= gap])
    found = res.at2(pairs)
    miss = np.abs(found["R"].values - exact(*pairs.T)).max()
    assert miss <= 3 * found["R_error"].values.max()
    assert found["R_error"].values.max() <= 10 * miss
    assert miss <= 2 * rtol  # of R = 1 on the diagonal; panels follow the observables R(t, t) and R(t, 0)
