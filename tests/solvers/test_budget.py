"""A budget: solvers stop refining in time, return the best so far, and its errors still hold."""

import time

import numpy as np
import pytest
from sympy import Heaviside, cos, sqrt

import eqsolve
from eqsolve import GP, E, Eq, Int, System, correlation, function, process, random, response, times
from eqsolve.errors import BudgetSpentError, SolverError, UsageError
from eqsolve.laws import Normal, StudentT
from eqsolve.options import OPTIONS
from eqsolve.solvers.options import Options

t, tp, s = times("t t' s")
y = function("y")
x, z = process("x z")
a = random("a", Normal(0, 1))
R, C = response("R"), correlation("C")
SHORT = 1e-9  # seconds: over before the first look

# A model for each solver that refines, the quantity, and its closed form at t = 1.
MODELS = {
    "ode": (System("w", [Eq(x(t).diff(t), -(a**2) * x(t))], init={x: 1}, observables={"q": E(x(t))}), 1 / np.sqrt(3)),
    "two_time": (
        System("memory", [Eq(y(t).diff(t), -Int(y(s), (s, 0, t)))], init={y: 1}, observables={"q": y(t)}), np.cos(1),
    ),
    "convolution": (
        System("delayed", [Eq(y(t).diff(t), -Int(y(t - s), (s, 0, t)))], init={y: 1}, observables={"q": y(t)}), np.cos(1),
    ),
    "gaussian": (
        System("d", [Eq(x(t).diff(t), -x(t) + z(t)), Eq(C(t, tp), E(x(t) * x(tp)))], laws={z: GP(1 + t * tp)}, init={x: 0},
               observables={"q": C(t, t)}), (1 - np.exp(-1)) ** 2 + np.exp(-2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("solver", MODELS)
def test_the_best_so_far_has_honest_errors(solver):
    model, truth = MODELS[solver]
    plain = eqsolve.solve(model, t_max=1, rtol=1e-4)
    short = eqsolve.solve(model, t_max=1, rtol=1e-13, budget=SHORT)
    assert (plain.stats["solver"], short.stats["solver"]) == (solver, solver)
    assert plain.status == "ok"
    assert short.status in ("ok", "tolerance not met")
    for result in (plain, short):
        assert abs(float(result["q"][-1]) - truth) <= 3 * float(result.error["q"][-1]) + 1e-15


def test_time_runs_from_the_start_of_the_solve():
    options = Options.make(budget="1h")
    assert options.budget == 3600
    assert options.time_left() == np.inf
    begun = options.begun()
    assert 3500 < begun.time_left() <= 3600
    assert not begun.is_short_of_time()
    assert Options.make(budget=SHORT).begun().is_short_of_time()
    assert not Options.make().begun().is_short_of_time()


@pytest.mark.parametrize(("given", "seconds"), [(30, 30), ("30", 30), ("30s", 30), ("1.5 min", 90), ("2h", 7200)])
def test_how_a_budget_is_written(given, seconds):
    assert Options.make(budget=given).budget == seconds


@pytest.mark.parametrize("given", [0, -1, "soon", "3 days", float("nan")])
def test_what_is_no_budget(given):
    with pytest.raises(UsageError, match="budget"):
        Options.make(budget=given)


def test_every_option_of_solve_is_declared_and_documented():
    import inspect

    names = [name for name in inspect.signature(eqsolve.solve).parameters if name not in ("model", "params", "parameters")]
    assert sorted(names) == sorted(OPTIONS)
    for name in names:
        assert f"    {name}\n        {OPTIONS[name].doc[:30]}" in eqsolve.solve.__doc__


@pytest.mark.slow
def test_the_part_of_the_error_that_is_largest_is_named():
    """E sin²(w t) of a Cauchy law is (1 − e^(−2t))/2: few values of w do not tell it at late times."""
    w = random("w", StudentT(1))
    turning = System("turning", [Eq(x(t).diff(t), w * cos(w * t))], init={x: 0}, observables={"q": E(x(t) ** 2)})
    found = eqsolve.solve(turning, t_max=20, budget=SHORT)
    assert found.message.endswith("times the tolerance rtol=0.001; quadrature limits it")
    assert abs(float(found["q"][-1]) - 0.5) <= float(found.error["q"][-1])


def test_an_integration_that_takes_longer_than_the_budget_ends_soon_after_it(monkeypatch):
    """The edge of a step moves with an unknown: the integrand is not smooth in time, and steps are short."""
    b, w = random("b", Normal(0, 1)), function("w")
    turned = -b * (w(t) * b + sqrt(1 - w(t) ** 2) * a)
    model = System("perceptron", [Eq(w(t).diff(t), E(Heaviside(turned)))], init={w: 0.1})
    monkeypatch.setattr("eqsolve.solvers.options._OVERRUN", 0.5)
    begun = time.process_time()
    with pytest.raises(SolverError, match=r"the budget of 0.5 s is spent at t = .* of the first solution"):
        eqsolve.solve(model, t_max=1, rtol=1e-2, budget=0.5)
    assert time.process_time() - begun < 6


def test_paths_are_followed_no_further_once_the_budget_is_spent(monkeypatch):
    """The best so far is what the start found; nothing is known of its errors, which are as large as the values."""

    def spent(options, doing):
        if "stage 'start'" not in doing:
            raise BudgetSpentError(doing)

    bent = System("bent", [Eq(x(t).diff(t), -x(t) - x(t) ** 3 + z(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
                  laws={z: GP(C(t, tp) + 1)}, init={x: 1}, observables={"q": C(t, t)})  # fmt: skip
    truth = eqsolve.solve(bent, t_max=1, rtol=1e-3)
    monkeypatch.setattr(Options, "demand_time", spent)
    found = eqsolve.solve(bent, t_max=1, rtol=1e-3)
    assert found.status == "tolerance not met"
    assert found.message.startswith("the budget was spent after the start")
    assert np.all(np.abs(found.at([0.5, 1])["q"] - truth.at([0.5, 1])["q"]) <= found.at([0.5, 1])["q_error"])


def test_a_march_that_takes_longer_than_the_budget_ends_soon_after_it(monkeypatch):
    monkeypatch.setattr("eqsolve.solvers.options._OVERRUN", 0.0)
    with pytest.raises(SolverError, match=r"the budget of 1e-09 s is spent in the stage 'start', up to t = .*; give more"):
        eqsolve.solve("lotka_volterra", t_max=1, rtol=1e-2, budget=SHORT)
