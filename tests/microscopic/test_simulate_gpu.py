"""Finite-size runs on a card: the same draws, the same values up to rounding."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eqsolve
from eqsolve.microscopic.data import read_data
from eqsolve.numerics import arrays
from eqsolve.numerics.backend import CPU, Backend
from tests.strict_arrays import STRICT, strict_card


@pytest.fixture(params=["strict", pytest.param("card", marks=pytest.mark.gpu)])
def card(request: pytest.FixtureRequest) -> Iterator[float]:
    """Numbers apart, relative: none on a stand-in for a card, and rounding on a card where there is one."""
    if request.param == "card":
        yield 1e-9
    else:
        with strict_card():
            yield 0.0


@pytest.mark.parametrize(
    ("model", "constants"),
    [("dln_flow", "sampled"), ("dln_flow", "exact"), ("dln_flow", "balanced"), ("huber_regression", "sampled")],
)
@pytest.mark.parametrize("options", [{"t_max": 2}, {"t_max": 2, "step": 0.1}])
def test_both_devices_agree(card: float, model: str, options: dict[str, Any], constants: str) -> None:
    """Where a kink decides on steps in time, up to the integrator's tolerance.

    Balanced draws on a card are others of their law: two of 120 coordinates differ by up to a few per cent.
    """
    flow = eqsolve.load(model)
    kinked = model == "huber_regression" and "step" not in options
    apart = card * (1e4 if kinked else 5e7 if constants == "balanced" else 1)
    asked = {"d": 120, "seeds": 2, "constants": constants, "keep": True, **options}
    one, other = flow.simulate(**asked), flow.simulate(device="gpu", **asked)
    for name, values in one.values.items():
        assert np.allclose(values, other.values[name], rtol=apart, atol=apart / 10), name
    if apart > 0.01:
        return
    for name, values in one.snapshots.items():
        assert np.allclose(values, other.snapshots[name], rtol=0, atol=10 * apart), name


def test_the_features_do_not_depend_on_threads_or_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 512)
    for name in ("gaussian", "binary", "student_t"):
        made = [
            backend.get(read_data(name).draw(np.random.default_rng(3), 50, 40, backend, threads))
            for backend, threads in ((CPU, 1), (CPU, 3), (STRICT, 2))
        ]
        assert np.array_equal(made[0], made[1])
        assert np.array_equal(made[0], made[2])
        assert len(np.unique(made[0][:, 0])) > 40 or name == "binary"
        assert abs(made[0].var() * 40 - 1) < 0.5


def test_a_card_that_is_too_small_leaves_the_runs_to_the_cpu() -> None:
    class Small(Backend):
        def memory(self) -> float:
            return 1e4

    with strict_card(Small("gpu", "a small card", STRICT.arrays)):
        made = eqsolve.load("dln_flow").simulate(d=100, t_max=1, device="gpu")
    assert "more than is free on a small card" in made.notes[0]
    assert made.stats["device"] == "the CPU"
