"""Random constants of many laws among the modes: against limits that know the variance alone, and against atoms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import roots_legendre

import eqsolve
from eqsolve.laws import Discrete
from eqsolve.numerics.gaussian import Points
from eqsolve.solvers.paths.responses import heaviest
from eqsolve.spectra import MarchenkoPastur


@pytest.mark.parametrize(
    ("law", "square"),
    [
        ("GaussBernoulli(0.2, 1)", 0.2),
        pytest.param("Laplace(0.5)", 0.5, marks=pytest.mark.slow),
        pytest.param("Uniform(-1, 1)", 1 / 3, marks=pytest.mark.slow),
    ],
)
def test_lazy_limit_knows_the_variance_alone(law: str, square: float) -> None:
    tau = np.geomspace(0.1, 5, 7)
    result = eqsolve.solve("dln", alpha=100, delta=0.5, w_star=law, t_max=5e-4, rtol=1e-3, observables=["E_test", "E_train"])
    found = result.at(tau / 100**2)
    assert result.status == "ok"
    for power, name in enumerate(["E_test", "E_train"]):
        off = np.abs(found[name].values - square * MarchenkoPastur(0.5).laplace(2 * tau, power))
        assert off.max() <= 1e-3 * square
        assert np.all(off <= 3 * found[f"{name}_error"].values + 1e-7)  # w²/α⁴ is what the limit leaves


@pytest.mark.slow
def test_uniform_constants_are_many_atoms() -> None:
    nodes, weights = roots_legendre(16)
    atoms = Discrete(nodes.tolist(), (weights / 2).tolist())
    settings = {"alpha": 0.1, "delta": 2, "t_max": 4, "observables": ["E_test"]}
    one = eqsolve.solve("dln", w_star="Uniform(-1, 1)", rtol=1e-3, **settings).at([1, 2, 4])
    other = eqsolve.solve("dln", w_star=atoms, rtol=1e-3, **settings).at([1, 2, 4])
    off = np.abs(one["E_test"].values - other["E_test"].values)
    assert np.all(off <= 3 * (one["E_test_error"].values + other["E_test_error"].values))


def test_rare_values_are_looked_at() -> None:
    """Modes are chosen by some paths of every value, with the value's whole mass: the heaviest are all of the likely one."""
    weights = np.multiply.outer([0.99, 0.01], np.full(500, 1 / 500)).ravel()
    some, mass = heaviest(Points(np.zeros((1, 1000)), {}, weights, values=2))
    assert len(some) == 100
    assert mass[some >= 500].sum() == pytest.approx(0.01)


@pytest.mark.slow
def test_a_constant_with_a_rare_continuous_part_keeps_its_variance() -> None:
    """Four fifths of the weights are 0; the others were taken for linear in their coordinate, with the slope of all."""
    settings = {"alpha": 0.0027, "delta": 1.9, "lam": 0.0349, "sigma2": 0.0129, "w_star": "GaussBernoulli(0.2, 1)"}
    result = eqsolve.solve("dln", t_max=8.41, rtol=3e-4, seed=17, order=6, observables=["E_test"], **settings)
    found = result.at([0.0])
    assert abs(float(found["E_test"][0]) - 0.2129) <= 3 * float(found["E_test_error"][0])
