"""What can be asked of a model with indices: each question is answered, or refused with the reason."""

import time

import numpy as np
import pandas as pd
import pytest
from sympy import exp, sqrt, tanh

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    FixedPoint,
    Int,
    Sum,
    System,
    correlation,
    function,
    index,
    param,
    process,
    random,
    response,
    table,
    times,
    unknown,
)
from eqsolve.cli import main
from eqsolve.compile import lowering
from eqsolve.laws import Normal

t, tp, s = times("t t' s")
rate = param("rate", positive=True)
k, p = index("k p", 3)

RELAXING = '''"""Units that relax to what a table says."""

import numpy as np

from eqsolve import Eq, System, function, index, param, table, times

t = times("t")
k = index("k", 2)
r, c = param("r", positive=True), param("c", positive=True)
y, W = function("y", k), table("W", k)


def levels(r):
    return r * np.array([1.0, 2.0])


eqs = [Eq(y[k](t).diff(t), W[k] - c * y[k](t))]
model = System("relaxing", eqs, init={y[k]: 0}, defaults={r: 2, c: 1}, tables={W: levels})
'''


@pytest.fixture
def relaxing(tmp_path):
    (path := tmp_path / "relaxing.py").write_text(RELAXING)
    return str(path)


def decays() -> System:
    y = function("y", k)
    eqs = [Eq(y[k](t).diff(t), -rate * (k + 1) * y[k](t))]
    return System("decays", eqs=eqs, init={y[k]: 1}, defaults={rate: 1}, observables={"square": y[k](t) ** 2})


def test_the_derivative_of_a_family() -> None:
    found = eqsolve.solve(decays(), t_max=1, rtol=1e-6, derivatives=["rate"])
    slopes = found.derivative("y", "rate")
    assert slopes.dims == ("k", "t")
    steps = (np.arange(3) + 1)[:, None] * slopes["t"].values
    assert np.all(np.abs(slopes.values + steps * np.exp(-steps)) <= 3 * slopes["error"].values + 1e-12)
    np.testing.assert_allclose(found.derivative("square", "rate")[1], found.derivative("square_1", "rate"))
    with pytest.raises(eqsolve.UsageError, match="no derivative along `time`"):
        found.derivative("y", "time")


def test_members_in_an_expression() -> None:
    found, y = eqsolve.solve(decays(), t_max=1, rtol=1e-6), function("y", k)
    seen = found.observe(y[1](t) + y[2](1))
    assert np.all(np.abs(seen.values - np.exp(-2 * seen["t"].values) - np.exp(-3)) <= 3 * seen["error"].values + 1e-12)
    with pytest.raises(eqsolve.UsageError, match=r"many values: write the member, such as `y\[0\]`, or take result\['y'\]"):
        found.observe(y[k](t))


def test_members_are_fitted() -> None:
    moments = np.array([0.2, 0.5, 1.0])
    data = pd.DataFrame({"t": moments, "y_0": np.exp(-1.3 * moments), "square_2": np.exp(-2 * 3 * 1.3 * moments)})
    found = eqsolve.fit(decays(), data, free=["rate"], rtol=1e-6)
    assert found.parameters["rate"] == pytest.approx(1.3, rel=1e-5)
    with pytest.raises(eqsolve.EqsolveError, match="has no `y_7`"):
        eqsolve.fit(decays(), data.rename(columns={"y_0": "y_7"}), free=["rate"])


def linear(count: int) -> System:
    """Linear units in the noise of all."""
    a, b = index("a b", count)
    x, z, C, w = process("x", a), process("z", a), correlation("C", a), random("w", Normal(0, 1), a)
    W, T = table("W", a, b), param("T", positive=True)
    eqs = [Eq(x[a](t).diff(t), -x[a](t) + z[a](t)), Eq(C[a](t, tp), E(x[a](t) * x[a](tp)))]
    laws, tables = {z[a]: GP(Sum(W[a, b] * T * C[b](t, tp), b))}, {W: np.full((count, count), 1 / count)}
    return System("linear", eqs, laws=laws, init={x[a]: w[a]}, defaults={T: 0.2}, tables=tables, observables={"q": C[a](t, t)})


def test_a_parameter_inside_a_sum() -> None:
    """Alike units are one."""
    one, three = (eqsolve.solve(linear(count), t_max=1, rtol=1e-5) for count in (1, 3))
    for place in range(3):
        np.testing.assert_allclose(three.at([0.3, 1.0])["q"][place], np.squeeze(one.at([0.3, 1.0])["q"]), rtol=1e-10)


def test_a_liquid_has_no_plateau() -> None:
    """Picard iterates approach zero without end; zero is the solution."""
    found = eqsolve.solve("mct_hard_spheres_plateau", eta=0.5, wave_numbers=30)
    assert found.status == "ok"
    assert np.all(found["f"] == 0)
    assert found.stats["stability"] == 1


def test_long_times_of_tables(relaxing, capsys) -> None:
    """y = W/c; members are written out with the tables of the settings, and what makes these is no parameter any more."""
    limit = eqsolve.load(relaxing).long_time()
    assert float(eqsolve.solve(limit, c=2)["y_1"]) == pytest.approx(2)
    with pytest.raises(eqsolve.ParameterError, match="no parameter `r`"):
        eqsolve.solve(limit, r=3)
    assert main(["longtime", relaxing, "--set", "r=3", "--json"]) == 0
    assert '"y_1": 6' in capsys.readouterr().out
    found = eqsolve.phase_diagram(relaxing, c=[1.0, 2.0], r=3)
    np.testing.assert_allclose(found["y_1"], [6, 3])
    with pytest.raises(eqsolve.UsageError, match="`r` makes tables"):
        eqsolve.phase_diagram(relaxing, r=[1.0, 2.0])


def test_fixed_points_with_means() -> None:
    q, g, w, W = unknown("q", k, positive=True), param("g", positive=True), random("w", Normal(0, 1)), table("W", k, p)
    right = exp(-2) + E(tanh(g * sqrt(Sum(W[k, p] * q[p], p)) * w) ** 2)
    model = FixedPoint("means", eqs=[Eq(q[k], right)], defaults={g: 1.5}, tables={W: np.full((3, 3), 1 / 3)})
    found = eqsolve.phase_diagram(model, g=[1.2, 1.5])
    assert found["class"].values.tolist() == ["fixed point", "fixed point"]
    one = unknown("q", positive=True)
    alone = FixedPoint("alone", eqs=[Eq(one, exp(-2) + E(tanh(g * sqrt(one) * w) ** 2))], defaults={g: 1.5})
    np.testing.assert_allclose(found["q_2"][1], eqsolve.solve(alone)["q"], rtol=1e-6)


def test_no_stationary_state_without_time() -> None:
    begun = time.process_time()
    with pytest.raises(eqsolve.UsageError, match="is a FixedPoint and has no time"):
        eqsolve.stationary("mct_hard_spheres_plateau")
    assert time.process_time() - begun < 5


def tasks(levels: list[float]) -> System:
    """Regressions that differ in their label noise."""
    k = index("k", len(levels))
    S, delta = table("S", k), param("delta", positive=True)
    C_w, C_f = correlation("C_w C_f", k)
    R_w, R_f = response("R_w R_f", k)
    learnt = Int(R_w[k](tp, s) * C_f[k](t, s), (s, 0, tp)) + Int(R_f[k](t, s) * C_w[k](tp, s), (s, 0, t))
    seen = Int(R_f[k](tp, s) * (C_w[k](t, s) + S[k]), (s, 0, tp)) + Int(R_w[k](t, s) * C_f[k](tp, s), (s, 0, t))
    eqs = [
        Eq(C_w[k](t, tp).diff(t), learnt - C_w[k](t, tp)),
        Eq(C_f[k](t, tp), C_w[k](t, tp) + S[k] - seen),
        Eq(R_w[k](t, tp).diff(t), Int(R_f[k](t, s) * R_w[k](s, tp), (s, tp, t)) - R_w[k](t, tp)),
        Eq(R_f[k](t, tp), R_w[k](t, tp) - Int(R_w[k](t, s) * R_f[k](s, tp), (s, tp, t))),
    ]
    start, shown = {C_w[k](0, 0): 0.1, R_w[k](t, t): 1 / delta}, {"E_test": C_w[k](t, t) + S[k]}
    return System("tasks", eqs=eqs, init=start, defaults={delta: 0.5}, tables={S: levels}, observables=shown)


@pytest.mark.parametrize("how", [{"kernels": False}, {"step": 0.1}], ids=["flow", "descent"])
def test_responses_as_operators(how) -> None:
    """Three regressions: those of `dln_lazy`, one by one."""
    levels = [0.0, 0.1, 0.3]
    found = eqsolve.solve(tasks(levels), at=[0.5, 3.0], **how)
    assert found.stats["solver"] == "operators"
    for place, level in enumerate(levels):
        alone = eqsolve.solve("dln_lazy", sigma2=level, at=[0.5, 3.0], **how)
        np.testing.assert_allclose(found["E_test"][place], alone["E_test"], rtol=1e-9)


def test_operators_are_compiled_once(monkeypatch) -> None:
    calls: list[int] = []
    original = lowering.as_function
    monkeypatch.setattr(lowering, "as_function", lambda *given, **more: calls.append(1) or original(*given, **more))
    made = []
    for count in (3, 40):
        calls.clear()
        eqsolve.solve(tasks([0.1] * count), at=[0.1], rtol=0.1, kernels=False)
        made.append(len(calls))
    assert made[0] == made[1] > 0


def test_what_is_said_of_families() -> None:
    """Members in sums are read as the family that they belong to."""
    reads = {item.unknown: item for item in eqsolve.explain("mct_hard_spheres").reads}
    assert reads["m[k]"].now == ("phi[k]",)
    assert reads["phi[k]"].derivative == ("phi[k]", "m[k]")
    plateau = eqsolve.explain("mct_hard_spheres_plateau")
    assert plateau.unknowns == (("number", ("f[k]",)),)
    assert ("solved for", ("f[k]",)) in plateau.statements
