"""Coefficients that jump or have a kink at known times: panels end there, in every solver that has panels."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from sympy import Abs, Heaviside, Max, Piecewise, exp, floor, sin

import eqsolve
from eqsolve import GP, E, Eq, Int, Result, System, White, correlation, function, param, process, response, times
from eqsolve.compile.breaks import break_times
from eqsolve.compile.forms import BREAKS
from eqsolve.compile.plan import make_task
from eqsolve.laws import Normal
from eqsolve.numerics.grids import PanelGrid

t, tp, s = times("t t' s")
y, m = function("y m")
x, z = process("x z")
C = correlation("C")
R = response("R")
T0 = param("T0", positive=True)
AT = np.linspace(0.05, 3.0, 60)


def within_three_errors(found: Result, name: str, at: np.ndarray, truth: np.ndarray) -> bool:
    values = found.at(at)
    return bool((np.abs(values[name].values - truth) <= 3 * values[f"{name}_error"].values + 1e-10).all())


def integrated(rate: Any, jump: float, state: Any) -> np.ndarray:
    """Solve v' = rate(t, v, after the jump or not), with a restart there."""
    first = solve_ivp(lambda u, v: rate(u, v, 0.0), (0, jump), state, rtol=1e-11, atol=1e-13, t_eval=[*AT[jump > AT], jump])
    last = solve_ivp(lambda u, v: rate(u, v, 1.0), (jump, 3), first.y[:, -1], rtol=1e-11, atol=1e-13, t_eval=AT[jump <= AT])
    return np.hstack([first.y[:, :-1], last.y])


@pytest.mark.parametrize(
    ("coefficient", "expected"),
    [
        (Heaviside(t - T0), [1.25]),
        (Max(0, t - T0, 2 * t - 4), [1.25, 2.0, 2.75]),
        (Piecewise((1, (t > T0) & (t < T0 + 0.5)), (0, True)), [1.25, 1.75]),
        (Abs(sin(3 * t)), [math.pi / 3, 2 * math.pi / 3]),
        (floor(t), [1.0, 2.0]),
        (sin(t), []),
        (Int(Abs(t - s) * y(s), (s, 0, t)), []),
    ],
)
def test_where_coefficients_break(coefficient: Any, expected: list[float]) -> None:
    model = System("breaking", eqs=[Eq(y(t).diff(t), -y(t) + coefficient)], init={y: 1}, defaults={T0: 1.25})
    task = make_task(model, {}, None)
    found = break_times(task.plan.program(BREAKS), task.values.numbers, 3.0)
    assert found == pytest.approx(expected, abs=1e-12)
    assert all(moment <= truth for moment, truth in zip(found, expected, strict=True))


def test_panels_keep_their_breaks() -> None:
    panels = PanelGrid.geometric(0.0, 10.0, 0.1, 1.5, 5, (1.0, 1.01, 4.0))
    for item in (panels, panels.denser(np.full(panels.panels, 1.4)), panels.of_another_order(8, 1.2)):
        assert {1.0, 1.01, 4.0} <= {*item.edges}
        assert (np.diff(item.edges) > 0).all()
        assert item.edges[0] == 0
        assert item.edges[-1] == 10


@pytest.mark.parametrize("rtol", [1e-3, 1e-5])
def test_memory_with_a_jump_in_the_force(rtol: float) -> None:
    model = System(
        "volterra", eqs=[Eq(y(t).diff(t), -y(t) - 2 * Int(exp(-(t - s)) * y(s), (s, 0, t)) + Heaviside(t - T0))], init={y: 1},
        defaults={T0: 1},
    )  # fmt: skip
    truth = integrated(lambda u, v, on: [-v[0] - 2 * v[1] + on, v[0] - v[1]], 1.0, [1, 0])[0]
    found = eqsolve.solve(model, t_max=3, rtol=rtol)
    assert found.status == "ok"
    assert within_three_errors(found, "y", AT, truth)


def responding(jump: float) -> System:
    """y' = θ(t − jump) − ∫ R y with R = e^(−(t − t')): closed linear compositions of kernels."""
    return System(
        "responding",
        eqs=[Eq(y(t).diff(t), Heaviside(t - T0) - Int(R(t, s) * y(s), (s, 0, t))), Eq(R(t, tp).diff(t), -R(t, tp))],
        init={y: 1, R(t, t): 1}, defaults={T0: jump},
    )  # fmt: skip


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-5])
def test_operators_with_a_jump_in_the_force(rtol: float) -> None:
    truth = integrated(lambda u, v, on: [on - v[1], v[0] - v[1]], 1.0, [1, 0])[0]
    found = eqsolve.solve(responding(1), t_max=3, rtol=rtol, solver="operators")
    assert found.status == "ok"
    assert within_three_errors(found, "y", AT, truth)


@pytest.mark.parametrize(("jump", "solver"), [(0.5, "aging"), (300.0, "two_time")])
def test_long_times_end_panels_at_an_early_jump_and_leave_late_ones_to_even_panels(jump: float, solver: str) -> None:
    """With u = ∫ R y: (y, u)' = A (y, u) + (θ, 0), which rests at (1, 1) after the jump."""
    moments = np.array([0.3, 0.6, 1, 3, 10, 100, 299, 301, 303, 400, 1000])
    flow = lambda since: expm(np.array([[0, -1], [1, -1]]) * since)  # noqa: E731
    late = flow(jump) @ [1, 0] - 1
    truth = np.array([(flow(u) @ [1, 0])[0] if u < jump else 1 + (flow(u - jump) @ late)[0] for u in moments])
    found = eqsolve.solve(responding(jump), t_max=1000, rtol=1e-3, solver="aging")
    assert (found.status, found.stats["solver"]) == ("ok", solver)
    assert within_three_errors(found, "y", moments, truth)


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-5])
def test_memory_with_many_jumps(rtol: float) -> None:
    """(y, u)' = A (y, u) + (⌊7t⌋ − 3, 0) with u = ∫ e^(−(t − s)) y: a step's effect is S(t) from each jump on."""
    A = np.array([[-1, -2], [1, -1]])
    rest = np.linalg.solve(-A, [1, 0])
    effect = lambda u: (rest - expm(A * u) @ rest)[0] if u > 0 else 0.0  # noqa: E731
    truth = np.array([(expm(A * u) @ [1, 0])[0] - 3 * effect(u) + sum(effect(u - k / 7) for k in range(1, 21)) for u in AT])
    force = floor(7 * t) - 3 - 2 * Int(exp(-(t - s)) * y(s), (s, 0, t))
    found = eqsolve.solve(System("stairs", eqs=[Eq(y(t).diff(t), -y(t) + force)], init={y: 1}), t_max=3, rtol=rtol)
    assert found.status == "ok"
    assert within_three_errors(found, "y", AT, truth)


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-5])
def test_an_ordinary_equation_with_a_jump(rtol: float) -> None:
    model = System("switched", eqs=[Eq(y(t).diff(t), -y(t) + Heaviside(t - 1))], init={y: 1})
    found = eqsolve.solve(model, t_max=3, rtol=rtol)
    assert found.stats["solver"] == "ode"
    assert within_three_errors(found, "y", AT, np.exp(-AT) + np.where(AT > 1, 1 - np.exp(1 - AT), 0.0))


@pytest.mark.parametrize("rtol", [1e-2, 1e-3])
def test_a_gaussian_process_with_a_jump_in_the_force(rtol: float) -> None:
    model = System(
        "pushed", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + Heaviside(t - 1) + z(t))],
        laws={z: GP(exp(-abs(t - tp)))}, init={x: Normal(0, 1)}, observables={"q": C(t, t), "m": E(x(t))},
    )  # fmt: skip
    truth = integrated(lambda u, v, on: [-v[0] + on, -2 * v[1] + 2 * v[2], -2 * v[2] + 1], 1.0, [0, 1, 0])
    found = eqsolve.solve(model, t_max=3, rtol=rtol)
    assert found.status == "ok"
    assert within_three_errors(found, "m", AT[AT > 1], truth[0, AT > 1])
    assert within_three_errors(found, "q", AT, truth[1] + truth[0] ** 2)


@pytest.mark.parametrize("rtol", [1e-2, 1e-3])
def test_sampled_paths_with_a_jump_in_the_force(rtol: float) -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights /= weights.sum()
    start, push = (item.ravel() / 2 for item in np.meshgrid(nodes, nodes))
    truth = np.outer(weights, weights).ravel() @ integrated(lambda u, v, on: -(v**3) + push + on, 1.0, start)
    model = System(
        "cubic", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) ** 3 + Heaviside(t - 1) + z(t))],
        laws={z: GP(0.25 + 0 * t * tp)}, init={x: Normal(0, 0.25)}, observables={"m": E(x(t))},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=3, rtol=rtol)
    assert found.status == "ok"
    assert within_three_errors(found, "m", AT[AT > 1], truth[AT > 1])


@pytest.mark.parametrize("solver", [None, "stochastic"])
@pytest.mark.parametrize("rtol", [1e-2, 3e-3])
def test_white_noise_with_a_jump_in_the_force(rtol: float, solver: str | None) -> None:
    model = System(
        "driven", eqs=[Eq(x(t).diff(t), -x(t) + 2 * Heaviside(t - 1) + z(t))], laws={z: White(0.5)},
        init={x: Normal(0.5, 0.3)}, observables={"q": E(x(t) ** 2)},
    )  # fmt: skip
    truth = integrated(lambda u, v, on: [-v[0] + 2 * on, -2 * v[1] + 0.5], 1.0, [0.5, 0.3])
    found = eqsolve.solve(model, t_max=3, rtol=rtol, solver=solver)
    assert found.status == "ok"
    assert within_three_errors(found, "q", AT, truth[1] + truth[0] ** 2)


def test_a_quench_of_the_temperature_of_a_two_time_system() -> None:
    """C' = −(1 + T(t)) C + T(t) e^(−(t − t')): a linear equation, whose coefficient jumps."""
    T = 2 - 1.5 * Heaviside(t - 1)
    model = System("quenched", eqs=[Eq(C(t, tp).diff(t), -(1 + T) * C(t, tp))], init={C(t, t): 1})
    found = eqsolve.solve(model, t_max=3, rtol=1e-5, kernels=True)
    assert found.status == "ok"
    grown = np.where(AT < 1, 3 * AT, 3 + 1.5 * (AT - 1))
    pairs = [(float(b), float(a)) for a, b in zip(AT[:-1:7], AT[1::7], strict=False)]
    values = found.at2(pairs)
    truth = np.exp(-np.interp([b for b, _ in pairs], AT, grown) + np.interp([a for _, a in pairs], AT, grown))
    assert np.abs(values["C"].values - truth).max() <= max(3 * float(values["C_error"].values.max()), 1e-12)


@pytest.mark.parametrize("width", [0.05, 0.002])
@pytest.mark.parametrize("memory", [0, 1])
def test_no_step_passes_over_a_short_pulse(width: float, memory: int) -> None:
    """y' = −y + a pulse of area √π; e^(−(t − c)²/w²) multiplied out would be a product of factors that overflow."""
    pulse = exp(-(((t - 1.37) / width) ** 2)) / width
    force = pulse - memory * Int(exp(-(t - s)) * y(s), (s, 0, t))
    model = System("pulsed", eqs=[Eq(y(t).diff(t), -y(t) + force)], init={y: 0})
    found = eqsolve.solve(model, t_max=3, rtol=1e-3)
    assert found.status == "ok"
    rate = 1 + memory * 1j  # the response to an impulse is the real part of e^(−rate t)
    truth = math.sqrt(math.pi) * np.exp(-rate * (3 - 1.37) + (rate * width / 2) ** 2).real
    values = found.at([3.0])
    assert abs(float(values.y[0]) - truth) <= 3 * float(values.y_error[0]) + 1e-10


def test_paths_follow_a_short_pulse() -> None:
    """Parts of the pulse's exponent, multiplied out, overflow."""
    pulse = exp(-(((t - 1.37) / 0.05) ** 2)) / 0.05
    model = System(
        "pulsed_paths", eqs=[Eq(x(t).diff(t), -x(t) + pulse + z(t))], laws={z: GP(exp(-((t - tp) ** 2)))}, init={x: 0},
        observables={"m": E(x(t))},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=3, rtol=1e-3, solver="stochastic")
    assert found.status == "ok"
    values = found.at([3.0])
    truth = math.sqrt(math.pi) * math.exp(-(3 - 1.37) + 0.05**2 / 4)
    assert abs(float(values.m[0]) - truth) <= 3 * float(values.m_error[0])


TIMES = np.sort([*AT + 0.003, 0.35 + 1e-6, 1 + 1e-6, 1.01])[:-1]
JUMPING = 1 + 2 * Heaviside(t - 1)
RELAXING = [Eq(x(t).diff(t), -x(t) + z(t))]
LAWS = {"laws": {z: GP(0.5 + 0 * t * tp)}, "init": {x: 1}, "observables": {"q": JUMPING * E(x(t) ** 2)}}


@pytest.mark.parametrize("rtol", [1e-2, 1e-4])
@pytest.mark.parametrize(
    ("solver", "model", "smooth"),
    [
        ("ode", System("a", [Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"q": JUMPING * y(t)}), lambda u: np.exp(-u)),
        (
            "convolution",
            System("b", [Eq(y(t).diff(t), -Int(y(t - s), (s, 0, t)))], init={y: 1}, observables={"q": JUMPING * y(t)}), np.cos,
        ),
        (
            "two_time",
            System("c", [Eq(y(t).diff(t), -Int(y(s), (s, 0, t)))], init={y: 1}, observables={"q": JUMPING * y(t)}), np.cos,
        ),
        ("gaussian", System("d", RELAXING, **LAWS), lambda u: np.exp(-2 * u) + (1 - np.exp(-u)) ** 2 / 2),
        ("stochastic", System("e", RELAXING, **LAWS), lambda u: np.exp(-2 * u) + (1 - np.exp(-u)) ** 2 / 2),
    ],
)  # fmt: skip
def test_observables_that_jump(solver: str, model: System, smooth: Any, rtol: float, tmp_path: Path) -> None:
    found = eqsolve.solve(model, t_max=3, rtol=rtol, solver=solver)
    assert (found.status, found.stats["solver"]) == ("ok", solver)
    found.save(tmp_path / "found.nc")
    for result in (found, eqsolve.open(tmp_path / "found.nc")):
        assert within_three_errors(result, "q", TIMES, np.where(TIMES > 1, 3, 1) * smooth(TIMES))


@pytest.mark.parametrize("solver", ["two_time", "convolution"])
@pytest.mark.parametrize("jump", [1.0, 0.35])
def test_a_definition_that_jumps(jump: float, solver: str) -> None:
    """(y, u)' = A (y, u) + (T, 0) with w = T(t) − u, u = ∫ y and T from 1 to 2 at the jump."""
    w = function("w")
    force = Piecewise((1, t < jump), (2, True)) - Int(y(s), (s, 0, t))
    model = System("defined", eqs=[Eq(w(t), force), Eq(y(t).diff(t), w(t) - y(t))], init={y: 0})
    flow = lambda u: expm(np.array([[-1, -1], [1, 0]]) * u) if u > 0 else np.eye(2)  # noqa: E731
    truth = [
        1 + (u > jump) - ([0, 1] + flow(u) @ [0, -1] + (u > jump) * ([0, 1] + flow(u - jump) @ [0, -1]))[1] for u in TIMES
    ]
    for rtol in (1e-2, 1e-5):
        found = eqsolve.solve(model, t_max=3, rtol=rtol, solver=solver)
        assert found.status == "ok"
        assert within_three_errors(found, "w", TIMES, np.array(truth))
