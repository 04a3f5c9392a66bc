"""Forces that jump on paths with noise: paths that cross a jump, and paths that are held on it."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.sparse.linalg import expm_multiply
from sympy import Abs, Heaviside, Piecewise, S, exp, sign

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    Flow,
    Int,
    ModelError,
    Resp,
    System,
    White,
    field,
    function,
    gradient,
    param,
    process,
    random,
    response,
    state,
    times,
)  # fmt: skip
from eqsolve.laws import Normal
from eqsolve.results.derivatives import width_limit

t, tp, s = times("t t' s")
x, z, xi = process("x z xi")
R = response("R")
SMOOTH = 2 * exp(-((t - tp) ** 2) / 2)
OBSERVABLES = {"size": E(Abs(x(t))), "square": E(x(t) ** 2)}


def lattice(time: float, push: float = 0.0) -> dict[str, float]:
    """Means of x' = push − sign(x) + ξ from zero: jumps between the points of a fine lattice, in detailed balance."""
    count, end = 1600, 7.0
    step = 2 * end / count
    places = (np.arange(count) + 0.5) * step - end
    slopes = np.diff(np.abs(places) - push * places)
    up, down = np.exp(-slopes) / step**2 / 2, np.exp(slopes) / step**2 / 2
    rates = sparse.diags([-np.append(up, 0) - np.append(0, down), up, down], [0, -1, 1]).tocsc()
    begin = np.zeros(count)
    begin[count // 2 - 1 : count // 2 + 1] = 0.5
    density = expm_multiply(rates * time, begin)
    return {"mean": density @ places, "size": density @ np.abs(places), "square": density @ places**2}


def holds(result: eqsolve.Result, name: str, time: float, truth: float, chance: float = 0.0) -> None:
    error = float(result.error[name].sel(t=time))
    assert abs(float(result[name].sel(t=time)) - truth) < error + 3 * chance, name


@pytest.mark.slow
def test_a_jump_under_white_noise() -> None:
    """Dry friction with thermal noise, against the master equation of a walk on a lattice."""
    system = System("dry", [Eq(x(t).diff(t), -sign(x(t)) + xi(t))], laws={xi: White(1)}, init={x: 0}, observables=OBSERVABLES)
    result = eqsolve.solve(system, t_max=1, rtol=5e-2)
    assert result.status == "ok"
    for name in OBSERVABLES:
        holds(result, name, 1.0, lattice(1.0)[name])


@pytest.mark.slow
def test_the_response_of_a_path_that_crosses_a_jump() -> None:
    """∫ R(t, s) ds is how the mean follows a constant push; most of it is the density of paths at the jump."""
    equations = [Eq(x(t).diff(t), -sign(x(t)) + xi(t) + z(t)), Eq(R(t, tp), E(Resp(x(t), z(tp))))]
    laws = {xi: White(1), z: GP(S.One / 10**6)}
    total = {"follows": Int(R(t, s), (s, 0, t))}
    result = eqsolve.solve(System("pushed", equations, laws=laws, init={x: 0}, observables=total), t_max=1, rtol=2e-2)
    truth = (lattice(1.0, 0.01)["mean"] - lattice(1.0, -0.01)["mean"]) / 0.02
    assert result.status == "ok"
    assert truth < 0.53  # without the jump it is 1
    holds(result, "follows", 1.0, truth)


def noise_at(nodes: np.ndarray, paths: int) -> np.ndarray:
    """Draws of the process with the covariance 2 exp(−(t − t')²/2)."""
    values, modes = np.linalg.eigh(2 * np.exp(-((nodes[:, None] - nodes) ** 2) / 2))
    factor = (modes * np.sqrt(np.maximum(values, 0)))[:, values > 1e-9]
    return factor @ np.random.default_rng(3).standard_normal((factor.shape[1], paths))


def test_memory_of_a_jump_holds_paths() -> None:
    """x = z − ∫ e^{s − t} sign(x(s)) ds; an implicit step of a simulation is explicit."""
    memory = Int(exp(s - t) * sign(x(s)), (s, 0, t))
    system = System("memory", [Eq(x(t), z(t) - memory)], laws={z: GP(SMOOTH)}, observables={"square": E(x(t) ** 2)})
    result = eqsolve.solve(system, t_max=2, rtol=2e-2)
    assert result.status == "ok"
    nodes, paths = np.linspace(0, 2, 401), 20_000
    noise, past = noise_at(nodes, paths), np.zeros(paths)
    for now in range(1, len(nodes)):
        pulled = noise[now] - past * np.exp(-nodes[1])
        place = np.sign(pulled) * np.maximum(np.abs(pulled) - nodes[1], 0)
        past = noise[now] - place
    holds(result, "square", 2.0, (place**2).mean(), (place**2).std() / np.sqrt(paths))


@pytest.mark.slow
@pytest.mark.parametrize("force", [-sign(x(t)), 1 - 2 * Heaviside(x(t))])
def test_paths_are_held_on_a_jump(force) -> None:
    """x' = z − sign(x) rests where |z| < 1; an implicit step of a simulation, x₊ + h sign(x₊) = y, is explicit."""
    system = System("held", [Eq(x(t).diff(t), force + z(t))], laws={z: GP(SMOOTH)}, init={x: 0}, observables=OBSERVABLES)
    result = eqsolve.solve(system, t_max=2, rtol=4e-2)
    assert result.status == "ok"
    count, paths = 400, 50_000
    nodes = np.linspace(0, 2, count + 1)
    noise = noise_at(nodes, paths)
    place, length = np.zeros(paths), nodes[1]
    for now in range(1, count + 1):
        pulled = place + length * noise[now]
        place = np.sign(pulled) * np.maximum(np.abs(pulled) - length, 0)
    for name, values in (("size", np.abs(place)), ("square", place**2)):
        holds(result, name, 2.0, values.mean(), values.std() / np.sqrt(paths) + length * values.mean() / 3)


def test_a_jump_by_cases_is_refused() -> None:
    force = Piecewise((-1, x(t) > 0), (1, True))
    system = System("cases", [Eq(x(t).diff(t), force + xi(t))], laws={xi: White(1)}, init={x: 0}, observables=OBSERVABLES)
    with pytest.raises(ModelError, match=r"equation for `x` \(test_jumps\.py:\d+\) jumps where `x\(t\)` = 0"):
        eqsolve.solve(system, t_max=1)


# --- loss gradients that jump in the student's own field
def test_a_limit_of_widths_is_between_two_orders() -> None:
    """Errors w and w² of a width w: the limit is within three stated errors."""
    for order in (1, 2):
        made = []
        for width in (0.4, 0.2, 0.1):
            y = function("y")
            model = System("line", eqs=[Eq(y(t).diff(t), 1 + width**order)], init={y: 0}, observables={"h": y(t) ** 2})
            made.append(eqsolve.solve(model, t_max=1, rtol=1e-8))
        limit = width_limit(made)
        off = abs(float(limit.at([1])["h"].values[0]) - 1)
        assert off <= 3 * float(limit.at([1])["h_error"].values[0])


def perceptron(start: Any) -> Flow:
    w, (f, f_star), (g, g_star) = state("w"), field("f f_star"), gradient("g g_star")
    w_star, delta = random("w_star", Normal(0, 1)), param("delta", positive=True)
    return Flow(
        "perceptron_rule", state={w: start}, weights=[w, w_star], fields=[f, f_star], gradients=[g, g_star], drift={w: -g},
        loss_gradient=[sign(f) - sign(f_star), 0], defaults={delta: 2}, observables={"m": E(w * w_star), "q": E(w**2)},
    )  # fmt: skip


def test_a_loss_gradient_that_jumps_is_taken_by_solve_alone() -> None:
    flow = perceptron(Normal(0, 1))
    eqsolve.check(flow)
    with pytest.raises(ModelError, match="no derivative in `f` that is a function"):
        flow.dmft()


@pytest.mark.slow
def test_the_perceptrons_rule() -> None:
    """Against Euler's steps of 2 d samples of d coordinates: weights of unit length on average, at t = 1/2 and 1."""
    size, runs, steps = 400, 8, 400
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        data, teacher, w = rng.standard_normal((2 * size, size)) / np.sqrt(size), *rng.standard_normal((2, size))
        teacher, w = (item * np.sqrt(size) / np.linalg.norm(item) for item in (teacher, w))
        w -= teacher * (w @ teacher) / size  # as they are for large sizes
        w *= np.sqrt(size) / np.linalg.norm(w)
        labels, kept = np.sign(data @ teacher), []
        for step in range(steps):
            w = w - data.T @ (np.sign(data @ w) - labels) / (2 * steps)
            if step + 1 in (steps // 2, steps):
                kept.append((w @ teacher / size, w @ w / size))
        found.append(kept)
    truth, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(runs)
    result = eqsolve.solve(perceptron(Normal(0, 1)), t_max=1, rtol=2e-2)
    assert result.status == "ok"
    assert "jump_width" not in result.params
    assert "Gamma_f" not in result.dataset  # it has no limit
    values = result.at([0.5, 1])
    for place, name in enumerate(("m", "q")):
        off = np.abs(values[name].values - truth[:, place])
        assert (off <= 3 * np.hypot(values[f"{name}_error"].values, spread[:, place] + 1 / size)).all(), (name, off)


@pytest.mark.slow
def test_an_oscillator_with_dry_restoring_force() -> None:
    """x'' = −sign(x) + z against the midpoint rule along drawn paths."""
    model = System(
        "dry", eqs=[Eq(x(t).diff(t, 2), -sign(x(t)) + z(t))], laws={z: GP(SMOOTH)}, init={x: 1, x(t).diff(t): 0},
        observables={"mean": E(x(t)), "square": E(x(t) ** 2)},
    )  # fmt: skip
    count, paths, nodes = 1200, 20_000, np.linspace(0, 3, 61)
    factor = np.linalg.cholesky(2 * np.exp(-((nodes[:, None] - nodes) ** 2) / 2) + 1e-10 * np.eye(61))
    drawn = factor @ np.random.default_rng(0).standard_normal((61, paths))
    place, speed, step = np.ones(paths), np.zeros(paths), 3 / count

    def force(where: np.ndarray, when: float) -> np.ndarray:
        left = min(int(when * 20), 59)
        share = when * 20 - left
        return -np.sign(where) + (1 - share) * drawn[left] + share * drawn[left + 1]

    for number in range(count):
        half, middle = place + step / 2 * speed, speed + step / 2 * force(place, number * step)
        place, speed = place + step * middle, speed + step * force(half, (number + 0.5) * step)
    found = eqsolve.solve(model, t_max=3, rtol=1e-2).at([3])
    for name, values in (("mean", place), ("square", place**2)):
        error = np.hypot(values.std() / np.sqrt(paths), float(found[f"{name}_error"].values[0]))
        assert abs(values.mean() - float(found[name].values[0])) <= 3 * error
