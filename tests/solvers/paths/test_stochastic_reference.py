"""The diagonal network against tables made by code that shares nothing with the engine (``reference_dln.json``).

Errors are relative to the reference, at 80 times spaced evenly in log t; the reference's own error is added to what is
allowed. The estimate is compared with the true error as the maxima over the output times, as a user reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsolve

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "reference_dln.json").read_text())
CASES = TABLE["cases"]


def compare(case: int, t_max: int, rtol: float) -> dict[str, tuple[float, float]]:
    """Return, per observable, the largest relative error, and the largest error over the largest estimate."""
    params, table = CASES[case]["params"], CASES[case][f"t_max={t_max}"]
    result = eqsolve.solve("dln", t_max=t_max, rtol=rtol, observables=["E_train", "E_test"], **params)
    assert result.status == "ok"
    found = result.at(table["t"])
    out = {}
    for name in ("E_test", "E_train"):
        truth, own = np.array(table[name]), np.array(table[f"{name}_error"])
        gap = np.maximum(np.abs(found[name].values - truth) - own, 0.0)
        out[name] = float((gap / truth).max()), float(gap.max() / found[f"{name}_error"].values.max())
    return out


@pytest.mark.parametrize("case", [0, *(pytest.param(case, marks=pytest.mark.slow) for case in (1, 2, 3, 4))])
def test_a_thousandth(case: int) -> None:
    errors = compare(case, 20, 1e-3)
    assert errors["E_test"][0] <= 1e-3
    assert errors["E_test"][1] <= 3
    assert errors["E_train"][1] <= 3


@pytest.mark.slow
@pytest.mark.parametrize("case", [0, 3])  # the second with thousands of points
def test_a_hundred_thousandth(case: int) -> None:
    errors = compare(case, 20, 1e-5)
    assert errors["E_test"][0] <= 1e-5
    assert errors["E_train"][0] <= 1e-3
    assert errors["E_test"][1] <= 3
    assert errors["E_train"][1] <= 3
