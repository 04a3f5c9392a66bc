"""Storage capacities against the published digits and independent computations."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erf, log_ndtr

import eqsolve
from eqsolve.figures.make import find_analysis, load_module

ROOT = Path(__file__).resolve().parents[3] / "analyses" / "papers"


@pytest.fixture(scope="module")
def script():
    return load_module(find_analysis(str(ROOT / "storage_capacity.py")))


def test_hopfield_network(script) -> None:
    found = script.hopfield_capacity()[1]
    assert abs(found - 0.138) < 5e-4  # Amit, Gutfreund and Sompolinsky 1985
    y = np.linspace(1, 2, 200001)  # y = m/√(2αr): y (√(2α) + 2/√π e^{−y²}) = erf y
    loads = (erf(y) / y - 2 / np.sqrt(np.pi) * np.exp(-(y**2))) ** 2 / 2
    assert abs(found - loads.max()) < 1e-9


def test_spherical_perceptron() -> None:
    assert abs(float(eqsolve.solve("gardner", kappa=0)["capacity"]) - 2) < 1e-12  # Gardner 1988
    far, near = (float(eqsolve.solve("gardner", kappa=0, alpha=load)["q"]) for load in (1.96, 1.98))
    assert abs(2 * near - far - 1) < 1e-3  # the overlap of solutions tends to 1 there


def test_binary_perceptron(script) -> None:
    found = script.binary_capacity()
    assert abs(found - 0.833) < 5e-4  # Krauth and Mézard 1989
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()

    def entropy(load):
        q = 0.5
        for _ in range(300):
            x = (q / (1 - q)) ** 0.5 * nodes
            pull = np.exp(-(x**2) / 2 - log_ndtr(-x)) / (2 * np.pi) ** 0.5
            q_hat = load / (1 - q) * (weights @ pull**2)
            q = weights @ np.tanh(q_hat**0.5 * nodes) ** 2
        x = (q / (1 - q)) ** 0.5 * nodes
        return -q_hat * (1 - q) / 2 + weights @ np.log(2 * np.cosh(q_hat**0.5 * nodes)) + load * (weights @ log_ndtr(-x))

    assert abs(found - brentq(entropy, 0.7, 0.95)) < 1e-6
