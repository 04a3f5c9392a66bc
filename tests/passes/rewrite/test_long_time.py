"""Fixed points derived from systems: cavity equations, declared fixed points, late times, and where stability is lost."""

import json
import math

import numpy as np
import pytest

import eqsolve
from eqsolve import ModelError
from eqsolve.cli import main


@pytest.fixture(scope="module")
def species():
    return eqsolve.load("lotka_volterra").long_time()


@pytest.mark.parametrize("gamma", [-0.5, 0.0, 0.5])
def test_species_lose_stability_where_the_cavity_method_says(species, gamma):
    """Bunin 2017: σ = √2/(1 + γ), whatever μ; half of the species are there."""
    res = eqsolve.solve(species, gamma=gamma, sigma=math.sqrt(2) / (1 + gamma))
    assert abs(float(res["stability"])) < 1e-8
    assert float(res["m"]) == pytest.approx(1 / 4, rel=1e-8)  # 1 = μ m, μ = 4
    assert float(eqsolve.solve(species, gamma=gamma, sigma=1.3 / (1 + gamma))["stability"]) > 0.01


def test_cavity_equations(species):
    """Abundances are a truncated normal; its moments by hand (Bunin 2017)."""
    gamma, sigma, mu = 0.3, 0.6, 4.0
    res = eqsolve.solve(species, gamma=gamma, sigma=sigma)
    m, q, chi = (float(res[name]) for name in ("m", "C", "chi"))
    points = np.linspace(-12, 12, 200_001)
    weights = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi) * (points[1] - points[0])
    abundance = np.maximum(0.0, 1 - mu * m + sigma * math.sqrt(q) * points) / (1 - gamma * sigma**2 * chi)
    alive = weights @ (abundance > 0)
    assert [weights @ abundance, weights @ abundance**2] == pytest.approx([m, q], rel=1e-8)
    assert alive / (1 - gamma * sigma**2 * chi) == pytest.approx(chi, rel=1e-4)
    assert float(res["stability"]) == pytest.approx(1 - sigma**2 * alive / (1 - gamma * sigma**2 * chi) ** 2, rel=1e-3)


@pytest.mark.slow
def test_species_end_there(species):
    late = eqsolve.solve("lotka_volterra", sigma=0.5, t_max=60, rtol=1e-3)
    rest = eqsolve.solve(species, sigma=0.5)
    assert late["m"][-1].item() == pytest.approx(float(rest["m"]), rel=5e-3)
    assert late["q"][-1].item() == pytest.approx(float(rest["q"]), rel=1e-2)


@pytest.fixture(scope="module")
def network():
    return eqsolve.load("dln").long_time()


@pytest.mark.parametrize(("lam", "delta", "sigma2"), [(0.02, 0.8, 0.1), (0.5, 2, 0.3), (0.05, 0.3, 0)])
def test_weight_decay_gives_the_soft_threshold(network, lam, delta, sigma2):
    derived = eqsolve.solve(network, lam=lam, delta=delta, sigma2=sigma2)
    declared = eqsolve.solve("dln_fixed_point", lam=lam, delta=delta, sigma2=sigma2)
    for name in ("C_w", "chi_w", "C_f", "E_train", "E_test"):
        assert float(derived[name]) == pytest.approx(float(declared[name]), rel=1e-12)
    assert float(derived["stability"]) == pytest.approx(1 - (1 - float(declared["P_w_zero"])) / delta, rel=1e-12)


def test_closed_two_time_equations():
    """Ridge regression, by its own closed form at a late time."""
    derived = eqsolve.solve(eqsolve.load("linear_regression").long_time())
    late = eqsolve.solve("linear_regression", t_max=40, rtol=1e-4)
    for name in ("E_train", "E_test"):
        error = float(late.error[name][-1]) + 1e-4 * abs(float(derived[name]))
        assert abs(late[name][-1].item() - float(derived[name])) <= error


def test_a_chaotic_network_is_told_by_its_stability():
    """The state at rest with C > 0: 1 − g² E[φ'²] < 0."""
    res = eqsolve.solve(eqsolve.load("rnn").long_time(), gain=2)
    points = np.arange(-1500, 1501) * 0.01
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    slope = np.cosh(math.sqrt(float(res["C"])) * points) ** -2
    assert float(res["stability"]) == pytest.approx(1 - 4 * weights @ slope**2, rel=1e-8)


@pytest.mark.parametrize(
    ("model", "said"),
    [("noisy_rnn", "stands still"), ("pspin", "equal times"), ("mackey_glass", "another time"), ("dln_flow", "together"),
     ("volterra_linear", "does not fade")],
)  # fmt: skip
def test_what_does_not_come_to_rest_is_refused(model, said):
    with pytest.raises(ModelError, match=said):
        eqsolve.load(model).long_time()


def test_command(capsys):
    assert main(["longtime", "lotka_volterra", "--set", "sigma=0.8", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["values"]["stability"] == pytest.approx(0.491805395421, rel=1e-9)
    assert main(["longtime", "lotka_volterra", "--show"]) == 0
    assert "stability" in capsys.readouterr().out
    assert main(["longtime", "dln"]) == 2  # without decay
    assert "lam > 0 only (dln.py:" in capsys.readouterr().err
    assert main(["longtime", "ridge"]) == 2
