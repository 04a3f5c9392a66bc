"""Families of differential equations, with random constants of their own, integrated on arrays."""

import time

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import eqsolve
from eqsolve import E, Eq, Sum, System, function, index, param, process, random, table, times
from eqsolve.laws import Bernoulli, Normal, Uniform
from eqsolve.passes.rewrite.indices import expand, sized, table_arrays

t = times("t")


def written_out(model: System, **options: object) -> eqsolve.Result:
    model = sized(model, {})
    made = expand(model)
    return eqsolve.solve(made.model, **made.settings(table_arrays(model, {})[0]), **options)


def relaxing(count: int) -> System:
    """x_k' = −w_k x_k + g Σ_l J_kl m_l, m_k = E x_k, from x_k(0) = c."""
    g, c = param("g"), param("c")
    k, l = index("k l", count)  # noqa: E741
    J, w = table("J", k, l), random("w", Uniform(0.5, 1.5), k)
    x, m = process("x", k), function("m", k)
    return System(
        "relaxing",
        eqs=[Eq(x[k](t).diff(t), -w[k] * x[k](t) + g * Sum(J[k, l] * m[l](t), l)), Eq(m[k](t), E(x[k](t)))],
        init={x[k]: c},
        tables={J: np.random.default_rng(1).normal(size=(count, count)) / count},
        defaults={g: 0, c: 1},
        observables={"q": E(x[k](t) ** 2), "both": E(x[k](t) * x[l](t))},
    )


def test_members_with_constants_of_their_own() -> None:
    """Without couplings E x_k = ∫ e^{−wt} dw and E x_k x_l is its square; with them the members' means are coupled ones."""
    found = eqsolve.solve(relaxing(2), t_max=2, rtol=1e-3)
    assert found.stats["solver"] == "ode"
    now = found["t"].values[1:]

    def mean(rate):
        return (np.exp(-0.5 * rate) - np.exp(-1.5 * rate)) / rate

    for name, truth in (("m", mean(now)), ("q", mean(2 * now))):
        room = 3 * found.error[name].values[:, 1:] + 1e-13
        assert np.all(np.abs(found[name].values[:, 1:] - truth) <= room)
    assert found["both"].dims == ("k", "l", "t")
    expected = np.where(np.eye(2)[:, :, None], mean(2 * now), mean(now) ** 2)
    assert np.all(np.abs(found["both"].values[..., 1:] - expected) <= 3 * found.error["both"].values[..., 1:] + 1e-13)


def test_coupled_means_against_many_units() -> None:
    """Sixteen members: each constant on 12 Gauss–Legendre nodes, all 192 units integrated together by another method."""
    found = eqsolve.solve(relaxing(16), t_max=2, rtol=1e-4, g=3, at=[1.0, 2.0], observables=["q"])
    numbers = found["J"].values
    nodes, weights = np.polynomial.legendre.leggauss(12)

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        x = state.reshape(16, 12)
        return (-(1 + nodes / 2) * x + 3 * (numbers @ x @ weights / 2)[:, None]).ravel()

    truth = solve_ivp(slope, (0, 2), np.ones(192), "DOP853", [1.0, 2.0], rtol=1e-11, atol=1e-13).y.reshape(16, 12, 2)
    there = found.at([1.0, 2.0])
    for name, power in (("m", 1), ("q", 2)):
        expected = np.einsum("knt,n->kt", truth**power, weights / 2)
        assert np.all(np.abs(there[name].values - expected) <= 3 * there[f"{name}_error"].values + 1e-10)


def mixed() -> System:
    """Members with a constant of their own and one that all share, a pointwise process and means over several of them."""
    k, l = index("k l", 2)  # noqa: E741
    J, w = table("J", k, l), random("w", Uniform(0.5, 1.5), k)
    b = random("b", Bernoulli(0.3))
    x, y, m = process("x", k), process("y", k), function("m", k)
    return System(
        "mixed",
        eqs=[
            Eq(y[k](t), x[k](t) ** 2 + b),
            Eq(x[k](t).diff(t), -w[k] * x[k](t) + Sum(J[k, l] * m[l](t), l) + 0.1 * (k + 1) * b),
            Eq(m[k](t).diff(t), E(y[k](t) * w[k]) - m[k](t)),
        ],
        init={x[k]: 1 - b, m[k]: 0.1 * k},
        tables={J: [[0.1, 0.4], [0.3, -0.2]]},
        observables={"total": Sum(E(x[k](t) * b), k), "across": E(y[k](t) * x[l](t)), "last": m[1](t)},
    )


def test_members_written_out() -> None:
    found, other = (solve(mixed(), t_max=1, rtol=1e-2) for solve in (eqsolve.solve, written_out))
    assert found.stats["solver"] == other.stats["solver"] == "ode"
    moments = [0.3, 1.0]
    for name in ("m_0", "m_1", "total", "across_0_1", "across_0_0", "last"):
        one, two = found.at(moments), other.at(moments)
        room = one[f"{name}_error"].values + two[f"{name}_error"].values
        assert np.all(np.abs(one[name].values - two[name].values) <= 3 * room + 1e-12), name
    assert found.params["w"] == "Uniform(0.5, 1.5)"


def test_a_law_of_all_members_and_derivatives() -> None:
    """Another law by its base name; derivatives are exact: d E x_k/dc = E x_k for c = 1 without couplings."""
    model = relaxing(2)
    found = eqsolve.solve(model, t_max=1, rtol=1e-4, w=Uniform(1, 2), at=[1.0])
    truth = np.exp(-1.0) - np.exp(-2.0)
    assert np.all(np.abs(found.at([1.0])["m"].values - truth) <= 3 * found.at([1.0])["m_error"].values + 1e-13)
    sloped = eqsolve.solve(model, t_max=1, rtol=1e-4, derivatives=["c"])
    assert np.allclose(sloped.derivative("m", "c").values, sloped["m"].values, rtol=1e-9)


def test_symbolic_work_does_not_grow_with_the_size() -> None:
    from eqsolve.compile.ode import compile_ode

    spent = {}
    for count in (4, 200, 4, 200):
        model = sized(relaxing(count), {})
        begun = time.process_time()
        compile_ode(model, model.parameters)
        spent[count] = time.process_time() - begun
    assert spent[200] < 1.5 * spent[4] + 0.05


@pytest.mark.parametrize("count", [2, 5])
def test_paths_keep_their_constants(count: int) -> None:
    """Every path's x_k(t) is e^{−w_k t} with that path's own constant, which stands beside it."""
    found = eqsolve.solve(relaxing(count), t_max=1, rtol=1e-3, at=[1.0])
    there = found.at([1.0])
    for place in range(count):
        rate = there[f"w_{place}"].values
        assert np.allclose(there[f"x_{place}"].values[:, 0], np.exp(-rate), rtol=1e-5)


def test_laws_of_their_own() -> None:
    """w_k ~ Normal(0, v_k), x_k(0) ~ Uniform(0, 1 + k), x_k' = w_k: E x_k = (1 + k)/2, E x_k² = (1 + k)²/3 + v_k t²."""
    k = index("k", 3)
    v, w, x = table("v", k), random("w", Normal(0, table("v", k)[k]), k), process("x", k)
    model = System(
        "own", [Eq(x[k](t).diff(t), w[k])], init={x[k]: Uniform(0, 1 + k)}, tables={v: [1.0, 0.5, 2.0]},
        observables={"mean": E(x[k](t)), "square": E(x[k](t) ** 2)},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=2, rtol=1e-4, at=[1.0, 2.0])
    assert found.stats["solver"] == "ode"
    there, moments, places = found.at([1.0, 2.0]), np.array([1.0, 2.0]), np.arange(3)[:, None]
    square = (1 + places) ** 2 / 3 + np.array([[1.0], [0.5], [2.0]]) * moments**2
    for name, truth in (("mean", (1 + places) / 2), ("square", square)):
        assert np.all(np.abs(there[name].values - truth) <= 3 * there[f"{name}_error"].values + 1e-12)
    given = eqsolve.solve(model, t_max=1, rtol=1e-3, w=Normal(0, 3), at=[1.0]).at([1.0])  # the table is not read then
    assert np.all(np.abs(given["square"].values[:, 0] - (1 + np.arange(3)) ** 2 / 3 - 3) <= 3e-3 * 6)
