"""Solvers of one's own are chosen, explained, named and handed over to like those of the package."""

import ast
import itertools
from pathlib import Path

import numpy as np
import pytest
from sympy import Heaviside

import eqsolve
import eqsolve.explaining
from eqsolve import Eq, System, function, param, solver_kit, times
from eqsolve.errors import SolverError, UsageError
from eqsolve.solver_kit import ODE, HandOver, Solver, bind_system, dynamics_result, make_paths, refine
from eqsolve.solvers import registry
from eqsolve.solvers.options import Options

t = times("t")
y = function("y")
a = param("a", positive=True)
MODEL = System("decay", [Eq(y(t).diff(t), -a * y(t))], init={y: 1}, defaults={a: 1})


class Midpoint(Solver):
    """The midpoint rule of order 2."""

    name = "midpoint"

    def __init__(self, fits=0.0, hands_over=""):
        self.fits, self.hands_over = fits, hands_over

    def fit(self, facts, wanted):
        return self.fits

    def why_not(self, plan):
        return "" if plan.facts.kind == "System" and not plan.facts.memory else "it has memory"

    def why(self, plan):
        return "a test of the contract"

    def solve(self, plan, values, options):
        if self.hands_over:
            return HandOver("as a test", self.hands_over)
        system, paths = bind_system(plan.program(ODE), values.numbers, values.laws), make_paths({}, [{}])

        def march(moments):
            states = [system.initial(paths)]
            for now, later in itertools.pairwise(moments):
                half = states[-1] + (later - now) / 2 * system.slope(now, states[-1], paths)
                states.append(states[-1] + (later - now) * system.slope((now + later) / 2, half, paths))
            return {name: curve[-1] for name, curve in system.curves(moments, np.array(states).T, paths)[0].items()}

        made = refine(march, system.begin, options, most=4096)
        return dynamics_result(
            model=plan.name, params=values.settings, grid=made.grid, curves=made.curves, errors=made.errors, stats={},
            failure=made.failure,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(registry, "REGISTERED", {})


def test_a_registered_solver_is_found_by_name_and_explained():
    eqsolve.register(Midpoint)
    result = eqsolve.solve(MODEL, a=2, t_max=1, rtol=1e-5, solver="midpoint")
    assert (result.status, result.stats["solver"]) == ("ok", "midpoint")
    error = abs(float(result["y"][-1]) - np.exp(-2))
    assert error <= float(result.error["y"][-1]) <= 1e-5
    assert dict(eqsolve.explain(MODEL).solver.others)["midpoint"].startswith("also applicable")
    between = eqsolve.solve(MODEL, a=2, t_max=1, rtol=1e-5, solver="midpoint", at=[0.3])
    moments = np.linspace(0, 1, 51)
    off, stated = np.abs(between.at(moments)["y"] - np.exp(-2 * moments)), between.at(moments)["y_error"]
    assert (off <= 1.5 * stated + 1e-15).all()  # the error of the finer steps is a third of what is stated
    assert stated.max() <= 1e-5
    assert 0.3 in between["t"]
    switched = System("switched", [Eq(y(t).diff(t), -y(t) + Heaviside(t - 0.3))], init={y: 1})
    stepped = eqsolve.solve(switched, t_max=1, rtol=1e-5, solver="midpoint").at(moments)
    off = np.abs(stepped["y"] - np.exp(-moments) - np.where(moments > 0.3, 1 - np.exp(0.3 - moments), 0))
    assert (off <= 1.5 * stepped["y_error"] + 1e-15).all()
    with pytest.raises(UsageError, match=r"solver `midpoint` cannot solve model .*: it has memory"):
        eqsolve.solve("volterra_linear", t_max=1, solver="midpoint")


def test_the_one_that_fits_best_is_chosen_and_says_why():
    eqsolve.register(Midpoint(fits=31))
    assert eqsolve.solve(MODEL, t_max=1).stats["solver"] == "midpoint"
    chosen = eqsolve.explain(MODEL).solver
    assert (chosen.name, chosen.reason) == ("midpoint", "a test of the contract")
    eqsolve.register(Midpoint(fits=29))
    assert eqsolve.solve(MODEL, t_max=1).stats["solver"] == "ode"


def test_handing_over_to_the_next_and_to_a_name():
    eqsolve.register(Midpoint(fits=31, hands_over="two_time"))
    assert eqsolve.solve(MODEL, t_max=1).stats["solver"] == "two_time"
    one = Midpoint()
    one.solve = lambda *_: HandOver("as a test")
    assert eqsolve.solve(MODEL, t_max=1, solver=one).stats["solver"] == "ode"


def test_a_tolerance_out_of_reach_gives_the_best_so_far():
    result = eqsolve.solve(MODEL, t_max=1, rtol=1e-12, solver=Midpoint())
    assert result.status == "tolerance not met"
    assert abs(float(result["y"][-1]) - np.exp(-1)) <= float(result.error["y"][-1])


def test_what_cannot_be_registered():
    with pytest.raises(UsageError, match="register takes an"):
        eqsolve.register(3)
    other = Midpoint()
    other.name = "ode"
    with pytest.raises(UsageError, match="there is a solver `ode` already"):
        eqsolve.register(other)
    other.name = "no name"
    with pytest.raises(UsageError, match="is an identifier"):
        eqsolve.register(other)


def test_entry_points_are_found(monkeypatch, tmp_path):
    """A class, or a module that tells how well it fits without importing the method; `aging` comes by this route."""
    about = tmp_path / "plugin-1.0.dist-info"
    about.mkdir()
    text = "[console_scripts]\nplugin = plugin:main\n\n[eqsolve.solvers]\nmidpoint = tests.solvers.test_registry:Midpoint\n"
    (about / "entry_points.txt").write_text(f"{text}aging = eqsolve.solvers.aging\node = somewhere.else\n\n[other]\na = b\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.cache_clear()
    try:
        assert {"midpoint", "aging"} <= set(registry.solver_names())
        assert not {"a", "plugin"} & set(registry.solver_names())
        assert registry.find_solver("aging").name == "aging"
        assert eqsolve.solve(MODEL, t_max=1, solver="midpoint").stats["solver"] == "midpoint"
        assert eqsolve.solve(MODEL, t_max=1).stats["solver"] == "ode"
    finally:
        registry._installed.cache_clear()


def test_the_choice_names_no_solver():
    """Names stand in the list of folders alone; how well each fits is said in its folder."""
    names = set(registry.solver_names())
    for module in (registry, eqsolve.explaining):
        tree = ast.parse(Path(module.__file__).read_text())
        inside = [node for item in tree.body if isinstance(item, ast.FunctionDef) for node in ast.walk(item)]
        assert not names & {node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_everything_in_the_kit_is_there():
    assert all(hasattr(solver_kit, name) for name in solver_kit.__all__)


def test_refine_says_where_a_solution_is_not_finite():
    """y = 1/(1 - t) has no values beyond t = 1: no number of steps gives them."""
    solved = []

    def solve(nodes):
        solved.append(len(nodes))
        return {"y": np.where(nodes < 1, 1 / (1 - nodes + (nodes == 1)), np.nan)}

    with pytest.raises(SolverError, match=r"`y` is not finite at t = 1"):
        refine(solve, 0.0, Options.make(t_max=2))
    assert len(solved) <= 5
