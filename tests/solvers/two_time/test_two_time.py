"""The two-time solver against closed forms: honest errors, promised orders, known values, and clear failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sympy import exp, log, sqrt

import eqsolve
from eqsolve import E, Eq, Int, System, function, random, times
from eqsolve.cli import main
from eqsolve.errors import ModelError, SolverError, UsageError
from eqsolve.laws import Normal
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from tests.solvers.dense import richardson
from tests.solvers.exact import CASES, Case, lazy, random_pairs, renewal

t, s = times("t s")
y = function("y")


def errors(case: Case, rtol: float) -> list[tuple[str, float, float]]:
    """Return (name, largest true error, largest estimate) for every function and kernel with a closed form."""
    result = case.solve(rtol=rtol, kernels=bool(case.kernels))
    assert result.status == "ok"
    found = []
    nodes = result["t"].values if "t" in result.names else result.grid.nodes
    for name, form in case.curves.items():
        found.append((name, np.abs(result[name].values - form(nodes)).max(), result.error[name].values.max()))
    if case.kernels:
        pairs = random_pairs(case.start, case.t_max)
        values = result.at2(pairs)
        for name, form in case.kernels.items():
            true = np.abs(values[name].values - form(pairs[:, 0], pairs[:, 1])).max()
            found.append((name, true, values[f"{name}_error"].values.max()))
    return found


COSTLY = ("lazy-0.9-0", "lazy-0.9-0.1", "lazy-0.5-0", "lazy-2-0.1", "regression-2-0.1")  # beside cases that are much like them


LONGER = ("lazy-0.5-0.1", "lazy-2-0", "two-spin", "regression-0.5-0.3")  # than the others of their kind


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in (*COSTLY, *LONGER) else []) for case in CASES],
)
def test_estimates_are_honest(case: Case) -> None:
    for name, true, estimate in errors(case, 1e-6):
        assert true <= 3 * estimate, name
        assert true <= 1e-11 or estimate <= 100 * true, name


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.tight and case.name not in COSTLY], ids=lambda case: case.name
)
def test_estimates_are_honest_when_tight(case: Case) -> None:
    for name, true, estimate in errors(case, 1e-9):
        assert true <= 3 * estimate, name
        assert true <= 1e-11 or estimate <= 100 * true, name


def largest_error(case: Case, t_max: float, rtol: float) -> float:
    result = eqsolve.solve(case.model(), t_max=t_max, rtol=rtol, kernels=True, params=case.settings)
    pairs = random_pairs(0.0, t_max, 3000)
    values = result.at2(pairs)
    return max(np.abs(values[n].values - f(pairs[:, 0], pairs[:, 1])).max() for n, f in case.kernels.items())


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.5, 2])
def test_lazy_kernels_to_1e_8(delta: float) -> None:
    assert largest_error(lazy(delta, 0.1), 10, 1e-8) <= 1e-8


@pytest.mark.slow
def test_lazy_kernels_over_long_times() -> None:
    assert largest_error(lazy(0.5, 0.1), 40, 1e-6) <= 1e-6


@pytest.mark.parametrize("m", [2, 3, 4])
def test_order_at_panel_ends(m: int) -> None:
    """y' = 1 − 2y − 5∫y on uniform panels: order 2m − 1 at the ends (demanded: 2m − 2)."""
    found = []
    for panels in (16, 32, 64):
        grid = OperatorGrid.from_panels(PanelGrid(np.linspace(0, 4, panels + 1), m))
        J = grid.integration
        solution = np.linalg.solve(np.eye(grid.size) + 2 * J + 5 * J @ J, J @ np.ones(grid.size))
        ends = grid.nodes[::m]
        found.append(np.abs(solution[::m] - np.exp(-ends) * np.sin(2 * ends) / 2).max())
    slopes = np.diff(np.log(found)) / np.log(0.5)
    assert slopes.min() > 2 * m - 1.5


def test_spin_glass_known_values() -> None:
    """p = 3, T = 0.5: values computed independently to eight digits."""
    result = eqsolve.solve("pspin", t_max=10, rtol=1e-6, at2=[(10, 0), (10, 5)])
    values = result.at2([(10, 0), (10, 5)])
    assert values["C"].values == pytest.approx([0.16548556, 0.59684419], abs=2e-8)
    assert (values["C_error"].values < 1e-6).all()


@pytest.mark.slow
def test_spin_glass_against_a_dense_solver() -> None:
    """Trapezoid rule on uniform grids, three extrapolations: 3e-6 with 40 to 320 steps, by its own last extrapolation."""
    first, second = richardson(3, 0.5, 20.0, 40, levels=4)
    moments = np.arange(1, 21.0)
    result = eqsolve.solve("pspin", t_max=20, rtol=1e-3, kernels=True)
    start, half = (result.at2([(t, f * t) for t in moments]) for f in (0, 0.5))
    assert start["C"].values == pytest.approx(first, abs=1e-5)
    assert half["C"].values == pytest.approx(second, abs=1e-5)


SPIN_GLASS = """
import json, pathlib, re, eqsolve
result = eqsolve.solve("pspin", t_max=1000, rtol=1e-3)
found = result.at2([(1000, 0), (1000, 500), (1000, 990), (300, 100)])
largest = int(re.search("VmHWM:\\\\s+(\\\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
print(json.dumps([list(found["C"].values), list(found["C_error"].values), float(result["energy"].values[-1]), largest]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of one process is read there")
def test_spin_glass_over_long_times() -> None:
    """t = 1000 within 1e-4, in less than 4 GB; known from a solution with rtol = 1e-6, estimated error 7e-9."""
    run = subprocess.run([sys.executable, "-c", SPIN_GLASS], check=True, capture_output=True, text=True)
    found, estimates, energy, largest = json.loads(run.stdout)
    errors = np.abs(np.array(found) - [0.01543218, 0.46976715, 0.70057808, 0.39835921])
    assert errors.max() < 1e-4
    assert (errors <= 3 * max(estimates)).all()
    assert energy == pytest.approx(-0.88158839, abs=1e-4)
    assert largest < 4 * 1024**2  # in kB


@pytest.mark.slow
def test_only_observables_need_logarithmically_many_nodes() -> None:
    case = lazy(0.5, 0.1)
    sizes = []
    for t_max in (1e1, 1e2, 1e3):
        result = eqsolve.solve(case.model(), t_max=t_max, rtol=1e-6, kernels=False, params=case.settings)
        sizes.append(result.stats["nodes"])
        for name, form in case.curves.items():
            true = np.abs(result[name].values - form(result.grid.nodes)).max()
            assert true <= 3 * result.error[name].values.max()
            assert true <= 1e-6
    assert sizes[2] - sizes[1] < 1.5 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("lagged", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_mean_in_a_kernel_is_that_of_a_process(lagged: bool) -> None:
    """E e^{−k² (t − s)} = 1/√(1 + 2 (t − s)) of a standard normal k, given as it is to another solver; so is a force."""
    rate = random("k", Normal(0, 1))
    written = E(exp(-(rate**2) * s)) * y(t - s) if lagged else E(exp(-(rate**2) * (t - s))) * y(s)
    memory = Int(exp(s - t) * y(s), (s, 0, t)) + Int(written, (s, 0, t))
    force = 1 / sqrt(1 + 2 * t) if lagged else E(exp(-t * rate**2))
    model = System("m", eqs=[Eq(y(t), force - memory)])
    plain = Int(exp(s - t) * y(s) + y(s) / sqrt(1 + 2 * (t - s)), (s, 0, t))
    truth = eqsolve.solve(System("plain", eqs=[Eq(y(t), 1 / sqrt(1 + 2 * t) - plain)]), t_max=2, rtol=1e-9).at([1, 2])["y"]
    found = eqsolve.solve(model, t_max=2, rtol=1e-6).at([1, 2])
    assert (abs(found["y"].values - truth.values) <= 3 * found["y_error"].values + 1e-9).all()


def test_a_mean_in_another_kernel_is_refused() -> None:
    rate = random("k", Normal(0, 1))
    model = System("m", eqs=[Eq(y(t), 1 + Int(E(1 / (1 + rate**2 * (t - s))) * y(s), (s, 0, t)))])
    with pytest.raises(ModelError, match=r"a sum of exponentials a\*exp\(-b\*\(t - s\)\) from the start on"):
        eqsolve.solve(model, t_max=1)


def test_failures_name_equation_unknown_and_time() -> None:
    model = System("failing", [Eq(y(t).diff(t), log(y(t)) - Int(1 + y(s), (s, 0, t)))], init={y: 1})
    with pytest.raises(SolverError, match="`y`") as caught:
        eqsolve.solve(model, t_max=2)
    assert "not finite at t = 0.813" in str(caught.value)
    assert caught.value.partial.grid.edges[-1] > 0.8


@pytest.mark.parametrize(("options", "where"), [({}, "the equation for `y` ("), ({"kernels": True}, "(t, t') = (")])
def test_a_tolerance_out_of_reach_is_said(options: dict[str, bool], where: str) -> None:
    result = eqsolve.solve("pspin" if options else "volterra_linear", t_max=1, rtol=1e-14, **options)
    assert result.status == "tolerance not met"
    assert "rtol=1e-14" in result.message
    assert where in result.message
    assert " at " in result.message


FAILING = {
    "blows_up": ("y(t)**2 + Int(y(s), (s, 0, t))", "{}", "cannot be continued past t = 0.911"),
    "log_of_negative": ("log(y(t)) - Int(1 + y(s), (s, 0, t))", "{}", "is not finite at t = 0.813"),
    "nan_in_observable": ("-Int(y(s), (s, 0, t))", '{"root": sqrt(y(t))}', "observable `root` is not finite at t = 1.570"),
    "not_smooth": ("floor(300*t) - 240 - Int(y(s), (s, 0, t))", "{}", "times the tolerance rtol=0.001"),
}


@pytest.mark.parametrize("name", [pytest.param(it, marks=[pytest.mark.slow] * (it == "not_smooth")) for it in FAILING])
def test_the_command_line_reports_failures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names equation, line, unknown and time; what was solved is printed; the exit code is 1."""
    right, observables, words = FAILING[name]
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.py").write_text(
        f'''"""A model that fails."""
from sympy import floor, log, sqrt
from eqsolve import Eq, Int, System, function, times
t, s = times("t s")
y = function("y")
model = System("{name}", eqs=[Eq(y(t).diff(t), {right})], init={{y: 1}}, observables={observables})
'''
    )
    assert main(["solve", f"{name}.py", "--t-max", "1.6", "--at", "0.1,0.5", "--json"]) == 1
    out, err = capsys.readouterr()
    shown = json.loads(out)
    assert shown["status"] != "ok"
    for text in (shown["message"], err):
        assert words in text
        assert f"equation for `y` ({name}.py:6)" in text
    assert shown["t"] == [0.1, 0.5]
    assert np.isfinite(shown["values"]["y"]).all()


@pytest.mark.parametrize(
    ("solver", "model", "words"),
    [
        ("ode", "rnn", "it takes no processes with memory: `x`"),
        ("two_time", "rnn", "it takes no random processes: `x`"),
        ("operators", "pspin", "other than linearly"),
        ("ode", "pspin", "it has memory"),
        ("stochastic", "pspin", "neither noise nor memory of paths"),
        ("two_time", "dln_fixed_point_l1", "this is a FixedPoint"),
        ("two_tim", "pspin", "did you mean `two_time`"),
    ],
)
def test_a_solver_that_does_not_fit_is_refused(solver: str, model: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        eqsolve.solve(model, solver=solver, **({} if "fixed" in model else {"t_max": 1}))


def test_exponentials_of_late_times_do_not_overflow() -> None:
    """(t − s) e^{s−t} must not be multiplied out: its parts exceed all numbers at t > 709."""
    case = renewal()
    result = case.solve(t_max=1000, rtol=1e-4)
    true = np.abs(result["u"].values - case.curves["u"](result.grid.nodes)).max()
    assert true <= 3 * result.error["u"].values.max() <= 3e-4
    assert result.stats["columns"] < 500  # the past is merged


@pytest.mark.parametrize(
    "words",
    [
        ["pspin", "--set", "p=3", "T=0.5", "--t-max", "5", "--at2", "2,0;5,0;5,2"],
        ["dln_lazy", "--set", "delta=0.5", "sigma2=0.1", "rho2=0.1", "--t-max", "5", "--at2", "1,0.5;2,2;5,1"],
    ],
    ids=lambda words: words[0],
)
def test_command_line_gives_values_with_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", *words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["two_time"]
    assert len(shown["at"]) == 3
    for name, values in shown["values"].items():
        assert np.isfinite(values).all()
        assert all(0 < error < 1e-3 for error in shown["errors"][name])
    if words[0] == "dln_lazy":
        known = {
            "C_w": 0.0815191189340355,
            "C_f": 0.0244018889233702,
            "R_w": 1.45251016611886,
            "R_f": 0.567519716942884,
        }
        for name, value in known.items():
            assert shown["values"][name][0] == pytest.approx(value, abs=3 * shown["errors"][name][0])


@pytest.mark.parametrize("delta", [0.5, 2])
def test_a_step_gives_gradient_descent_exactly(delta: float) -> None:
    """Every eigenvalue x contracts by 1 − ηx per step: E_test = ρ² E[(1 − ηx)^{2k}], not e^{−2xt}."""
    eta = 0.1
    result = eqsolve.solve("dln_lazy", delta=delta, sigma2=0, rho2=0.1, t_max=4, step=eta)
    nodes, weights = eqsolve.spectra.MarchenkoPastur(delta).quadrature(200)
    steps = np.arange(41)
    exact = 0.1 * weights @ (1 - eta * nodes[:, None]) ** (2 * steps)
    assert np.abs(result["E_test"].values - exact).max() < 1e-13
    flow = 0.1 * weights @ np.exp(-2 * nodes[:, None] * eta * steps)
    assert np.abs(exact - flow).max() > 1e-3
