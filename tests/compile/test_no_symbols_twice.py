"""A second solve with other numbers does no symbolic work: calls into files of sympy are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import eqsolve
from eqsolve.compile.plan import binder_of, case_of
from eqsolve.language.model import Model
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver
from eqsolve.solvers.fixed_point.solve import FixedPointSolver
from eqsolve.solvers.options import Options
from eqsolve.solvers.singularity.solve import SingularitySolver
from tests.sympy_calls import calls_into_sympy

OPTIONS = Options.make(t_max=None, rtol=1e-3, atol=None)


def solve(model: Model, settings: Mapping[str, Any], solver: Solver) -> Result:
    target, given = case_of(model, settings)
    binder = binder_of(target)
    values = binder.read(given)
    return solver.solve(binder.plan(values), values, OPTIONS)


CASES: list[tuple[str, Solver, dict[str, Any], dict[str, Any], str]] = [
    ("dln_fixed_point_min_norm", FixedPointSolver(), {"delta": 0.5}, {"delta": 0.6, "alpha": 0.7}, "C_w"),
    ("dln_rate", SingularitySolver(), {"delta": 1.5}, {"delta": 1.6, "sigma2": 0.2}, "gamma"),
]


@pytest.mark.parametrize(("name", "solver", "first", "second", "what"), CASES)
def test_a_second_solve_makes_no_call_into_sympy(
    name: str, solver: Solver, first: dict[str, Any], second: dict[str, Any], what: str
) -> None:
    model = eqsolve.load(name)
    solve(model, first, solver)
    with calls_into_sympy() as calls:
        result = solve(model, second, solver)
    assert calls == {}
    expected = eqsolve.solve(model, params={key: str(value) for key, value in second.items()})
    assert float(result[what]) == pytest.approx(float(expected[what]), rel=1e-12)
    assert {key: value for key, value in expected.params.items() if key in result.params} == result.params


def test_calls_are_seen() -> None:
    """The count is not blind: the same through exact text."""
    model = eqsolve.load("lasso")
    solve(model, {"delta": 0.7}, FixedPointSolver())
    with calls_into_sympy() as calls:
        solve(model, {"delta": "7/10"}, FixedPointSolver())
    assert calls.total() > 100


@pytest.mark.parametrize(
    ("name", "first", "second", "how"),
    [
        ("dln", {"alpha": 0.3}, {"alpha": 0.4, "delta": 0.6}, {"t_max": 1, "rtol": 1e-2, "observables": ["E_test"]}),
        ("dln_infinite_data", {"alpha": 0.3}, {"alpha": 0.4}, {"t_max": 1}),
        pytest.param("pspin", {"T": 0.6}, {"T": 0.7}, {"t_max": 1}, marks=pytest.mark.slow),
        pytest.param("dln_lazy", {"delta": 0.4}, {"delta": 0.6}, {"t_max": 1, "kernels": False}, marks=pytest.mark.slow),
        ("lasso", {"delta": 0.7}, {"delta": 0.8}, {}),
        ("dln_rate", {"alpha": 0.5}, {"alpha": 0.6}, {}),
        ("linear_flow", {"delta": 1.5}, {"delta": 1.6}, {"t_max": 1, "rtol": 1e-2}),
    ],
)
def test_a_whole_solve_does_no_symbolic_work_the_second_time(
    name: str, first: dict[str, Any], second: dict[str, Any], how: dict[str, Any]
) -> None:
    """From the settings to the result: reading, choosing, solving, packaging, provenance."""
    model = eqsolve.load(name)
    eqsolve.solve(model, **first, **how)
    with calls_into_sympy() as calls:
        result = eqsolve.solve(model, **second, **how)
    assert calls == {}
    assert {key: result.params[key] for key in second} == second
