"""Systems in time are compiled once: a second solve with other numbers makes no call into sympy."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from sympy import Abs, Symbol, exp

from eqsolve import E, Eq, Int, System, function, param, process, random, times
from eqsolve.compile.lowering import at
from eqsolve.compile.ode import compile_ode, term_sizes
from eqsolve.compile.plan import binder_of
from eqsolve.language.loading import load
from eqsolve.language.model import Model
from eqsolve.laws import Bernoulli, Normal, Uniform
from eqsolve.numerics.constants import make_paths
from eqsolve.solvers.contract import Solver
from eqsolve.solvers.ode.march import bind_system
from eqsolve.solvers.ode.solve import OdeSolver
from eqsolve.solvers.operators.solve import OperatorsSolver
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.solve import StochasticSolver
from eqsolve.solvers.two_time.solve import TwoTimeSolver
from tests.sympy_calls import calls_into_sympy

MODELS = Path(__file__).resolve().parents[2] / "models"

t, s = times("t s")
x = process("x")
y, m, v = function("y m v")
a = random("a", Bernoulli(0.25))
k, c = param("k c", positive=True, default=1)

decay = System(
    "decay",
    eqs=[Eq(x(t).diff(t), -k * x(t) + a), Eq(m(t), E(x(t) ** 2)), Eq(y(t).diff(t), c * m(t))],
    init={x: Normal(0, k), y: c},
    observables={"half": y(t) / 2},
)
volterra = System("volterra", eqs=[Eq(v(t), 1 - k * Int(exp(s - t) * v(s), (s, 0, t)))])


def options(t_max: float, rtol: float = 1e-2, kernels: bool | None = None) -> Options:
    return Options.make(t_max=t_max, rtol=rtol, kernels=kernels)


@pytest.mark.parametrize(
    ("solver", "model", "first", "second"),
    [
        (OdeSolver(), decay, {"k": 1.5}, {"k": 0.5, "c": 2.0}),
        (TwoTimeSolver(), volterra, {"k": 1.0}, {"k": 3.0}),
        (OperatorsSolver(), load(str(MODELS / "linear_regression.py")), {"delta": 0.5}, {"delta": 0.8}),
        (StochasticSolver(), load(str(MODELS / "dln.py")), {"alpha": 0.5}, {"alpha": 0.6}),
    ],
    ids=["ode", "two_time", "operators", "stochastic"],
)
def test_a_second_solve_makes_no_call_into_sympy(
    solver: Solver, model: Model, first: dict[str, float], second: dict[str, float]
) -> None:
    binder = binder_of(model)
    values = binder.read(first)
    plan = binder.plan(values)
    assert not solver.why_not(plan)
    solver.solve(plan, values, options(1.0))
    again = binder.read(second)
    assert binder.plan(again) is plan
    with calls_into_sympy() as calls:
        result = solver.solve(plan, again, options(1.0))
    assert calls == {}
    assert result.is_finished


def test_reading_numbers_and_finding_their_plan_makes_no_call_into_sympy() -> None:
    binder = binder_of(decay)
    binder.plan(binder.read({"k": 1.5}))
    with calls_into_sympy() as calls:
        binder.plan(binder.read({"k": 0.5, "c": 2}))
    assert calls == {}


def test_numbers_are_arguments() -> None:
    """x' = −k x + a from a Gaussian of variance k: E x² is known, and y its integral."""
    for k_value, c_value in ((1.5, 1.0), (0.5, 2.0)):
        binder = binder_of(decay)
        values = binder.read({"k": k_value, "c": c_value})
        result = OdeSolver().solve(binder.plan(values), values, options(2.0, 1e-8))
        moments = result["t"].values
        shrunk = np.exp(-k_value * moments)
        exact = k_value * shrunk**2 + 0.25 * ((1 - shrunk) / k_value) ** 2
        np.testing.assert_allclose(result["m"].values, exact, rtol=1e-7)
        assert result["half"].values[0] == c_value / 2


def test_a_program_pickles() -> None:
    program = pickle.loads(pickle.dumps(compile_ode(decay, (k, c))))
    system = bind_system(program, {"k": 2.0, "c": 3.0}, {"a": Bernoulli(0.25).numeric()})
    paths = make_paths(system.laws, [{"x_start": 4}], system.parts.constants)
    start = system.initial(paths)
    assert start[-1] == 3.0
    weights = paths.weights
    assert math.isclose(float(weights @ start[: paths.count] ** 2), 2.0)
    slope = system.slope(0.0, start, paths)
    np.testing.assert_allclose(slope[: paths.count], -2.0 * start[: paths.count] + paths.values["a"])
    np.testing.assert_allclose(slope[paths.count :], 3.0 * 2.0)
    assert at(program, {"k": 2.0, "c": 3.0}).begin() == [0]


def test_a_constant_times_a_mean_meets_the_process() -> None:
    """x' = a E z, z' = −z: the paths of x combine a with its start, z's do not; E x² = 1 + E a² (1 − e^{−t})²/4."""
    z, b = process("z"), random("b", Uniform(0, 1))
    model = System(
        "pair",
        eqs=[Eq(x(t).diff(t), a * E(z(t))), Eq(z(t).diff(t), -z(t))],
        init={x: Normal(0, 1), z: b},
        observables={"second": E(x(t) ** 2)},
    )
    binder = binder_of(model)
    values = binder.read({})
    result = OdeSolver().solve(binder.plan(values), values, options(2.0, 1e-8))
    assert result.status == "ok"
    exact = 1 + 0.25 * (1 - np.exp(-result["t"].values)) ** 2 / 4
    np.testing.assert_allclose(result["second"].values, exact, rtol=1e-7)


def test_sizes_of_terms_have_no_cancellation() -> None:
    p, q = function("p q")
    mean = E(x(t))
    known = {p(t): Symbol("P", positive=True)}
    assert term_sizes(p(t) - q(t), known.get) == known[p(t)] + Abs(q(t))
    assert term_sizes(-2 * p(t) ** 3 * mean, known.get) == 2 * known[p(t)] ** 3 * E(Abs(x(t)))
