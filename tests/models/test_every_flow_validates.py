"""`validate` runs on every model that names a flow or is one: adding a file to models/ adds it to this test."""

import json
from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve import UsageError

ROOT = Path(__file__).resolve().parents[2]
FEW = {  # of every kind, and one that names no flow; the others are slow
    *("linear_flow", "linear_regression", "lasso", "dln_fixed_point", "dln_fixed_point_l1_paths", "linear_regression_rate"),
    *("logistic_fixed_point", "pspin"),
}
ELSEWHERE = {  # held against larger sizes by tests of their own
    *("dln", "dln_flow", "dln_flow_random_start", "phase_retrieval", "perceptron_hinge", "relu_student"),
    "committee",
}
STEPS = {"softmax_regression"}  # of several units: two steps of gradient descent, which take less than the flow
SETTINGS = {"dln_path_rates": {"alpha": 1, "delta": 2}}  # at its own the flow takes too long to come to rest
NAMES = sorted(path.stem for path in (ROOT / "models").glob("*.py") if path.stem not in ELSEWHERE)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in FEW)) for name in NAMES],
)
def test_validates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    model = eqsolve.load(name)
    times = {} if model.kind in ("FixedPoint", "Singularity", "Cases") else {"at": [0.5, 1.0]}
    if getattr(model, "stepped", ()) or name in STEPS:
        times["step"] = 0.25
    if name in STEPS:
        times["at"] = [0.25, 0.5]
    try:
        found = eqsolve.validate(model, d=48, seeds=3, rtol=3e-2, **times, params=SETTINGS.get(name))
    except UsageError as error:
        assert "names no microscopic model to compare it with" in str(error)  # noqa: PT017
        assert model.kind != "Flow"
        assert getattr(model, "flow", None) is None
        return
    assert found.verdict != "disagrees"
    assert all(np.isfinite(item.z).all() for item in found.observables.values())
    assert all(np.isfinite(item.detectable).all() for item in found.observables.values())
    if found.wasserstein is not None:
        assert np.isfinite(found.wasserstein["values"]).all()
    made = found.json_object()
    json.dumps([made[key] for key in ("observables", "power", "wasserstein", "warnings") if key in made], allow_nan=False)
