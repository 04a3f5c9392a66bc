"""Sampled paths in the place of a sparse grid: what is predicted of both, what is drawn, and stated errors against truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sympy import Abs, exp

import eqsolve
from eqsolve import GP, E, Eq, System, correlation, process, random, times
from eqsolve.laws import Normal
from eqsolve.numerics.gaussian import Level, PointLayout, make_points
from eqsolve.numerics.laws import NormalLaw as Gaussian
from eqsolve.numerics.laws import bernoulli
from eqsolve.solvers.paths.point_refinement import predict

t, tp = times("t t'")
x, eta = process("x eta")
C = correlation("C")


def test_what_an_error_needs() -> None:
    """With an error of c/n² the last two tell the power; at a given rate one is enough; what does not fall is never enough."""
    assert predict([(10, 4.0), (20, 1.0)], 0.25) == pytest.approx(40)
    assert predict([(10, 4.0), (100, 0.5)], 1.0) == 100
    assert predict([(100, 8.0), (200, 9.0)], 1.0) == math.inf


def test_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths and tangents are followed some at a time, whatever the threads, and added up in one order."""
    monkeypatch.setattr("eqsolve.solvers.paths.follow.PATHS_PER_BATCH", 40)
    monkeypatch.setattr("eqsolve.solvers.paths.responses._TOGETHER", 16)
    found = [eqsolve.solve("dln", t_max=2, rtol=1e-2, observables=["E_test"], threads=threads) for threads in (1, 3)]
    for name in ("E_test", "R_w", "C_f"):
        np.testing.assert_array_equal(found[0].dataset[name], found[1].dataset[name])


@pytest.mark.slow
def test_a_loose_tolerance_is_met() -> None:
    """A path is a solution where its last step was as short as is asked for, however little that is."""
    assert eqsolve.solve("relu_student", t_max=0.3, rtol=0.3).status == "ok"


def test_gaussian_constants_are_drawn_with_the_modes() -> None:
    """No product with the modes' points: as many paths as without them, for each value of what has atoms."""
    laws = {"a": Gaussian(1.0, 4.0), "s": bernoulli(0.25)}
    points = make_points(3, PointLayout("sample"), laws, Level(1e-2, 1.4, 9, 512))
    assert points.normals.shape == (3, 2 * 512)
    assert points.weights.sum() == pytest.approx(1)
    assert points.weights @ points.constants["s"] == pytest.approx(0.25)
    assert points.weights @ points.constants["a"] == pytest.approx(1)
    assert points.weights @ (points.constants["a"] - 1) ** 2 == pytest.approx(4)
    assert points.weights @ (points.constants["a"] > 1) == pytest.approx(0.5, abs=1e-2)
    np.testing.assert_allclose((points.normals * (points.constants["a"] - 1)) @ points.weights, 0, atol=0.1)


@pytest.mark.parametrize("seed", [0, 1])
def test_errors_of_paths_that_bend_hold(seed: int) -> None:
    """x' = −x + |a + η| with ⟨ηη'⟩ = e^{−(t−t')²}, a ~ N(0, 1): E x and E x² from E|u| and E|u||v| of Gaussian pairs."""
    a = random("a", Normal(0, 1))
    model = System(
        "bending",
        [Eq(x(t).diff(t), -x(t) + Abs(a + eta(t))), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={eta: GP(exp(-((t - tp) ** 2)))},
        init={x: 0},
        observables={"m": E(x(t)), "q": E(x(t) ** 2)},
    )
    end = 3.0
    found = eqsolve.solve(model, t_max=end, rtol=1e-2, seed=seed, solver="stochastic")
    assert found.status == "ok"
    nodes, weights = np.polynomial.legendre.leggauss(60)
    times_, kernel = end * (nodes + 1) / 2, end * weights / 2
    kernel = kernel * np.exp(times_ - end)
    rho = (1 + np.exp(-(np.subtract.outer(times_, times_) ** 2))) / 2
    pairs = 2 * (2 / np.pi) * (np.sqrt(1 - np.minimum(rho, 1) ** 2) + rho * np.arcsin(np.minimum(rho, 1)))
    truth = {"m": math.sqrt(4 / np.pi) * (1 - math.exp(-end)), "q": kernel @ pairs @ kernel}
    last = found.at([end])
    for name, value in truth.items():
        gap = abs(float(last[name][0]) - value)
        assert gap <= 3 * float(last[f"{name}_error"][0]), name
        assert gap <= 1e-2 * value
