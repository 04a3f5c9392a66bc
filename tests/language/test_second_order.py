"""Second derivatives written directly: closed forms of oscillators, alone, with noise, with memory and with an index."""

import pickle

import numpy as np
import pytest
from scipy.linalg import expm
from sympy import cos

import eqsolve
from eqsolve import (
    E,
    Eq,
    Flow,
    Int,
    ModelError,
    System,
    White,
    correlation,
    field,
    function,
    gradient,
    index,
    param,
    process,
    random,
    state,
    times,
)
from eqsolve.laws import Normal

t, tp, s = times("t t' s")
x, y = process("x"), function("y")


def test_a_damped_oscillator() -> None:
    """y'' = −0.4 y' − 4 y + cos t, with the energy as an observable that reads y'."""
    model = System(
        "oscillator",
        eqs=[Eq(y(t).diff(t, 2), -0.4 * y(t).diff(t) - 4 * y(t) + cos(t))],
        init={y: 1, y(t).diff(t): 0.5},
        observables={"energy": y(t).diff(t) ** 2 / 2 + 2 * y(t) ** 2},
    )
    found = eqsolve.solve(model, t_max=5, rtol=1e-9)
    rate = np.sqrt(4 - 0.04)
    a, b = np.linalg.solve([[3, 0.4], [-0.4, 3]], [1, 0])  # the forced part a cos t + b sin t
    u = 1 - a
    v = (0.5 - b + 0.2 * u) / rate
    decay, turn = np.exp(-1.0), rate * 5.0
    value = decay * (u * np.cos(turn) + v * np.sin(turn)) + a * np.cos(5) + b * np.sin(5)
    speed = decay * (-0.2 * (u * np.cos(turn) + v * np.sin(turn)) + rate * (v * np.cos(turn) - u * np.sin(turn)))
    speed += b * np.cos(5) - a * np.sin(5)
    assert found["y"][-1].item() == pytest.approx(value, rel=1e-8)
    assert found["energy"][-1].item() == pytest.approx(speed**2 / 2 + 2 * value**2, rel=1e-8)


def test_an_oscillator_in_white_noise() -> None:
    """x'' = −x' − x + ξ of strength 2T: the covariance of (x, x') solves Lyapunov's equation in time."""
    T = param("T", positive=True)
    xi, C = process("xi"), correlation("C")
    model = System(
        "langevin",
        eqs=[Eq(x(t).diff(t, 2), -x(t).diff(t) - x(t) + xi(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={xi: White(2 * T)},
        init={x: 0, x(t).diff(t): 0},
        defaults={T: 0.7},
        observables={"spread": E(x(t) ** 2), "kinetic": E(x(t).diff(t) ** 2)},
    )
    found = eqsolve.solve(model, t_max=2, rtol=1e-3)
    matrix = np.array([[0.0, 1.0], [-1.0, -1.0]])
    moves = (expm(2 * matrix) @ (-0.7 * np.eye(2)) @ expm(2 * matrix).T) + 0.7 * np.eye(2)  # 0.7 at late times
    for place, name in enumerate(("spread", "kinetic")):
        assert abs(found[name][-1].item() - moves[place, place]) <= 3 * found.error[name][-1].item()


def test_memory_and_an_index() -> None:
    """φ'' = −φ' − k² (φ + ∫ φ'(s) ds) = −φ' − k² (2φ − 1): an oscillator around 1/2 for each k."""
    k = index("k", 3)
    phi = function("phi", k)
    model = System(
        "glassy",
        eqs=[
            Eq(
                phi[k](t).diff(t, 2),
                -phi[k](t).diff(t) - (k + 1) ** 2 * (phi[k](t) + Int(phi[k](s).diff(s), (s, 0, t))),
            )
        ],
        init={phi[k]: 1, phi[k](t).diff(t): 0},
    )
    found = eqsolve.solve(model, t_max=4, rtol=1e-8)
    for place in range(3):
        rate = np.sqrt(2 * (place + 1) ** 2 - 0.25)
        truth = 0.5 + 0.5 * np.exp(-2.0) * (np.cos(4 * rate) + np.sin(4 * rate) / (2 * rate))
        assert found["phi"][place, -1].item() == pytest.approx(truth, rel=1e-7)


def test_what_is_said() -> None:
    with pytest.raises(ModelError, match="needs the velocity at the start"):
        System("late", eqs=[Eq(y(t).diff(t, 2), -y(t))], init={y: 1})
    with pytest.raises(ModelError, match="further functions for higher derivatives"):
        Eq(y(t).diff(t, 3), -y(t))
    C = correlation("C")
    with pytest.raises(ModelError, match="functions of one time"):
        System("kernel", eqs=[Eq(C(t, tp).diff(t, 2), -C(t, tp))])


def test_a_flow() -> None:
    """w'' = −w' − g: with infinite data an oscillator around the teacher's weight, else the flow with momentum."""
    w, w_star = state("w"), random("w_star", Normal(0, 1))
    (f, f_star), (g, g_star) = field("f f_star"), gradient("g g_star")
    parts = {"weights": [w, w_star], "fields": [f, f_star], "gradients": [g, g_star], "loss_gradient": [f - f_star, 0]}
    parts |= {"observables": {"risk": E((w - w_star) ** 2)}}
    flow = Flow("inert", state={w: 0, w.diff(t): 0}, drift={w.diff(t, 2): -g - w.diff(t)}, **parts)
    rate = np.sqrt(3) / 2
    truth = (np.exp(-1.5) * (np.cos(3 * rate) + np.sin(3 * rate) / (2 * rate))) ** 2
    assert eqsolve.solve(flow.infinite_data(), t_max=3, rtol=1e-8)["risk"][-1].item() == pytest.approx(truth, rel=1e-7)
    heavy = Flow("inert", state={w: 0}, drift={w: -g}, **parts).momentum(1)
    found = [eqsolve.solve(model, t_max=3, delta=2, rtol=1e-5)["risk"][-1].item() for model in (flow, heavy)]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert pickle.loads(pickle.dumps(flow)) == flow
    with pytest.raises(ModelError, match=r"`w` is of second order and needs .* start: state=\{w.diff\(t\): 0\}"):
        Flow("late", state={w: 0}, drift={w.diff(t, 2): -g}, **parts)
    with pytest.raises(ModelError, match="first and second derivatives"):
        w.diff(t, 3)
