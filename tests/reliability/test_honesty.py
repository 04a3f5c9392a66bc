"""The error stated with a value bounds the true one, for every kind of model: solves against stored references.

The references and the way they are compared are those of ``benchmarks/honesty.py``; none of them comes from the engine at the
tolerance that is tried.
"""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsolve

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "honesty.py"
TOOLS = runpy.run_path(str(BENCHMARK))
CASES = json.loads(BENCHMARK.with_suffix(".json").read_text(encoding="utf-8"))["cases"]

QUICK = {  # of each model, the cases by their numbers
    "dln_infinite_data": [3],
    "volterra_linear": [1],
    "integro_nonlinear": [1],
    "dln_lazy": [1],
    "linear_regression": [0, 3],
    "pspin": [0],
    "lasso": [1],
    "ridge": [0],
    "dln_fixed_point": [2],
    "dln_rate": [1],
    "linear_regression_rate": [0],
}
LONG = {
    "dln_infinite_data": [1],
    "pspin": [1, 3],
    "linear_flow": [0, 1],
    "dln": [0, 1],
    "dln_rich": [1],
    "lotka_volterra": [1, 3],
    "rnn": [0, 1],
}


def chosen(table: dict[str, list[int]]) -> list[Any]:
    made = []
    for model, numbers in table.items():
        of_model = [case for case in CASES if case["model"] == model]
        made += [pytest.param(of_model[number], id=f"{model}-{number}") for number in numbers]
    return made


def assert_honest(case: dict[str, Any], rtol: float) -> None:
    made = TOOLS["solve_case"](case, rtol)
    rows = TOOLS["measure"](case, made["found"])
    dishonest = [row for row in rows if row[-1] is not None and row[-1] > TOOLS["LARGEST"]]
    assert not dishonest, [f"{name} at {place}: {ratio:.3g} times the stated error" for name, _, place, *_, ratio in dishonest]
    assert any(row[-1] is not None for row in rows), "no reference is good enough to say anything"


@pytest.mark.parametrize("case", chosen(QUICK))
def test_stated_errors_bound_true_errors(case: dict[str, Any]) -> None:
    assert_honest(case, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", chosen(LONG))
def test_stated_errors_of_longer_solves_bound_true_errors(case: dict[str, Any]) -> None:
    assert_honest(case, 1e-2)


def test_a_ratio_counts_only_where_the_reference_is_good_enough() -> None:
    case = {
        "model": "volterra_linear", "at": [0.0, 1.0, 2.0, 3.0], "pairs": [], "kernels": {}, "kernel_errors": {},
        "values": {"y": [0.0, 1.0, 1.0, 1.0]}, "errors": {"y": [0.0, 0.05, 0.4, 0.0]},
    }  # fmt: skip
    found = [("y", 0.0, 0.0, 0.0), ("y", 1.0, 1.6, 0.3), ("y", 2.0, 2.0, 0.3), ("y", 3.0, 1.1, 0.0)]
    ratios = [row[-1] for row in TOOLS["measure"](case, found)]
    assert ratios[0] is None  # exact, and said to be
    assert ratios[1] == pytest.approx(2.0)
    assert ratios[2] is None
    assert np.isinf(ratios[3])  # said to be exact, and is not


def test_every_kind_of_value_has_references() -> None:
    kinds = set()
    for case in CASES:
        if case["model"] in ("dln_lazy", "linear_regression", "pspin"):
            model = eqsolve.load(case["model"])
            kinds |= {TOOLS["kind_of"](model, name) for name in (*case["values"], *case["kernels"])}
    assert kinds == set(TOOLS["KINDS"])
    assert len({case["model"] for case in CASES}) >= 12
    assert 2 * len(CASES) >= 100
