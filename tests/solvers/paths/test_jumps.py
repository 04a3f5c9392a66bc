"""Forces that jump on paths with noise: paths that cross a jump, and paths that are held on it."""

import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.sparse.linalg import expm_multiply
from sympy import Abs, Heaviside, Piecewise, S, exp, sign

import eqsolve
from eqsolve import GP, E, Eq, Int, ModelError, Resp, System, White, process, response, times

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
    """Dry friction with thermal noise, whose stationary law is Laplace's: E|x| = 1/2."""
    system = System("dry", [Eq(x(t).diff(t), -sign(x(t)) + xi(t))], laws={xi: White(1)}, init={x: 0}, observables=OBSERVABLES)
    result = eqsolve.solve(system, t_max=3, rtol=3e-2)
    assert result.status == "ok"
    for name in OBSERVABLES:
        holds(result, name, 3.0, lattice(3.0)[name])
    assert abs(float(result["size"].sel(t=3)) - 0.5) < 0.02


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
    result = eqsolve.solve(system, t_max=2, rtol=2e-2)
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
