"""The phase transition of ℓ1 reconstruction and the risk of the lasso, against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

import eqsolve


def transition(delta: float) -> float:
    """The supremum over thresholds in closed form (Donoho, Maleki and Montanari)."""
    z = np.linspace(1e-3, 6, 400001)
    left = (1 + z**2) * norm.cdf(-z) - z * norm.pdf(z)
    return float(np.max((1 - 2 / delta * left) / (1 + z**2 - 2 * left)))


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.9])
def test_transition(delta: float) -> None:
    assert abs(float(eqsolve.solve("l1_transition", delta=delta)["rho"]) - transition(delta)) < 1e-9


@pytest.mark.slow
def test_the_lasso_fails_beyond_it() -> None:
    rho = float(eqsolve.solve("l1_transition", delta=0.5)["rho"])
    for ratio, lost in ((0.9, False), (1.1, True)):
        share = rho * ratio * 0.5
        law = f"Discrete([-1, 0, 1], [{share / 2}, {1 - share}, {share / 2}])"
        errors = eqsolve.follow("lasso", "lam", np.geomspace(1, 1e-5, 12), delta=0.5, sigma2=0, w_star=law)["C_w"].values
        assert (errors[-1] > 1e-2) == lost
        assert lost or errors[-1] < 1e-6
