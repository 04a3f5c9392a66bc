"""Stochastic systems on a card: the same plan, the same points, the same values up to rounding."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eqsolve
from eqsolve.numerics.backend import choose_backend
from tests.strict_arrays import strict_card


@pytest.fixture(params=["strict", pytest.param("card", marks=pytest.mark.gpu)])
def card(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stand-in for a card, and a card where there is one."""
    if request.param == "card":
        choose_backend("gpu")
        yield
    else:
        with strict_card():
            yield


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("dln", {"t_max": 2, "rtol": 1e-2}),
        pytest.param("rnn", {"t_max": 3, "rtol": 1e-2, "solver": "stochastic"}, marks=pytest.mark.slow),
        pytest.param("soft_spin", {"t_max": 0.1, "rtol": 0.1, "kappa": 1}, marks=pytest.mark.slow),
        pytest.param("noisy_rnn", {"t_max": 0.5, "rtol": 0.05, "solver": "stochastic"}, marks=pytest.mark.slow),
    ],
)
def test_both_devices_agree(model: str, options: dict[str, Any]) -> None:
    one, other = eqsolve.solve(model, **options), eqsolve.solve(model, device="gpu", **options)
    assert one.status == other.status
    assert one.stats["nodes"] == other.stats["nodes"]
    assert one.stats["paths"] == other.stats["paths"]
    white = model in ("soft_spin", "noisy_rnn")
    for name in one.names:
        mine, yours = one.dataset[name].values, other.dataset[name].values
        # nearly equal modes of white noise turn by rounding: other points, as good as these; paths kept are the same
        slack = 0.05 * one.dataset[f"{name}_error"].values.max() if white and f"{name}_error" in one.dataset else 0.0
        near = 1e-5 if white else 1e-7
        assert np.allclose(mine, yours, rtol=1e-6, atol=slack + near * np.abs(mine).max()), name


@pytest.mark.usefixtures("card")
@pytest.mark.slow
def test_a_linear_langevin_equation_has_its_closed_form() -> None:
    """x' = −x + ξ from 0: E x² = T (1 − exp(−2t)), without error by samples since the companion is the path itself."""
    asked = {"solver": "stochastic", "device": "gpu", "at": [0.5, 1], "rtol": 1e-2}
    found = eqsolve.solve("soft_spin", u=0, J=0, T=0.5, x0="Normal(0, 0.04)", **asked)
    values = found.at([0.5, 1.0])
    times = np.array([0.5, 1.0])
    truth = 0.5 * (1 - np.exp(-2 * times)) + 0.04 * np.exp(-2 * times)
    assert np.all(np.abs(values["q"].values - truth) <= values["q_error"].values)
