"""Multipliers fixed by constraints: derived equations, solutions against closed forms, and clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sympy import exp

import eqsolve
from eqsolve import GP, E, Eq, Int, Resp, System, White, correlation, function, param, process, random, response, times
from eqsolve.errors import ModelError, ParameterError, UsageError
from eqsolve.laws import Normal, Uniform
from eqsolve.passes.rewrite.constraints import reduce_constraints

t, tp, s = times("t t' s")
p = param("p", integer=True, domain=(2, None))
T, v = param("T v", nonnegative=True)
mu, nu, y, z = function("mu nu y z")
C, R = correlation("C"), response("R")


def spherical(**changes: object) -> System:
    """The p-spin glass with its multiplier left to the constraint; white noise 2T R(t', t) instead of T inside μ."""
    parts = {"constraints": {mu: Eq(C(t, t), 1)}, "init": {C(0, 0): 1, R(t, t): 1}, **changes}
    return System(
        "spherical",
        eqs=[
            Eq(R(t, tp).diff(t), -mu(t) * R(t, tp)
               + p * (p - 1) / 2 * Int(C(t, s)**(p - 2) * R(t, s) * R(s, tp), (s, tp, t))),
            Eq(C(t, tp).diff(t), -mu(t) * C(t, tp)
               + p * (p - 1) / 2 * Int(C(t, s)**(p - 2) * R(t, s) * C(s, tp), (s, 0, t))
               + p / 2 * Int(C(t, s)**(p - 1) * R(tp, s), (s, 0, tp)) + 2 * T * R(tp, t)),
        ],
        defaults={p: 3, T: 0.5, v: 1},
        observables={"energy": -p / 2 * Int(C(t, s)**(p - 1) * R(t, s), (s, 0, t))},
        **parts,
    )  # fmt: skip


def test_the_multiplier_of_a_spherical_model_is_found() -> None:
    [equation] = reduce_constraints(spherical()).multipliers
    expected = T + p**2 / 2 * Int(C(t, s) ** (p - 1) * R(t, s), (s, 0, t))
    assert equation.lhs == mu(t)
    assert (equation.rhs - expected).expand() == 0


@pytest.mark.parametrize(("spins", "temperature"), [pytest.param(3, 0.5, marks=pytest.mark.slow), (2, 0)])
def test_constraint_and_explicit_multiplier_give_the_same_numbers(spins: int, temperature: float) -> None:
    pairs = [(4, 0), (4, 2), (4, 3.9), (1, 0.5)]
    settings = {"p": spins, "T": temperature, "t_max": 4, "rtol": 1e-6, "at2": pairs}
    ours, known = eqsolve.solve(spherical(), **settings), eqsolve.solve("pspin", **settings)
    for name in ("C", "R"):
        assert ours.at2(pairs)[name].values == pytest.approx(known.at2(pairs)[name].values, abs=1e-11)
    for name in ("mu", "energy"):
        assert ours[name].values == pytest.approx(known[name].values, abs=1e-11)


def test_without_memory() -> None:
    """y_i' = a_i y_i − μ y_i on the circle is a normalised linear flow: y = e^{At} y(0) / |e^{At} y(0)|."""
    model = System(
        "circle",
        eqs=[Eq(y(t).diff(t), y(t) - mu(t) * y(t)), Eq(z(t).diff(t), 2 * z(t) - mu(t) * z(t))],
        init={y: 0.8, z: 0.6},
        constraints={mu: Eq(y(t) ** 2 + z(t) ** 2, 1)},
    )
    result = eqsolve.solve(model, t_max=5, rtol=1e-8)
    assert result.stats["solver"] == "ode"
    times = result["mu"].t.values
    free = np.stack([0.8 * np.exp(times), 0.6 * np.exp(2 * times)])
    exact = free / np.linalg.norm(free, axis=0)
    assert result["y"].values == pytest.approx(exact[0], abs=1e-8)
    assert result["mu"].values == pytest.approx(exact[0] ** 2 + 2 * exact[1] ** 2, abs=1e-7)


def test_differentiating_under_an_integral_makes_a_hidden_kernel() -> None:
    """μ = 1, R = e^{−(t−t')}, y = e^{−t}; R has memory, and the constraint contains its integral."""
    model = System(
        "hidden",
        eqs=[
            Eq(y(t).diff(t), -mu(t) * y(t)),
            Eq(R(t, tp).diff(t), -mu(t) * R(t, tp) - (t - tp) * exp(tp - t) + Int(R(t, s) * R(s, tp), (s, tp, t))),
        ],
        init={y: 1, R(t, t): 1},
        constraints={mu: Eq(y(t) + Int(R(t, s), (s, 0, t)), 1)},
    )
    result = eqsolve.solve(model, t_max=2, rtol=1e-6, kernels=True)
    assert set(result.names) == {"y", "mu", "R"}
    assert result["mu"].values == pytest.approx(1, abs=1e-6)
    assert np.abs(result["mu"].values - 1).max() <= 3 * result.error["mu"].values.max()
    pairs = np.array([(2, 0), (1.5, 1.2), (1, 0.2)])
    assert result.at2(pairs)["R"].values == pytest.approx(np.exp(pairs[:, 1] - pairs[:, 0]), abs=1e-6)


def test_two_multipliers_are_solved_for_together() -> None:
    """(y, z) held on y + z = 1 and y − z = t − 1 by two multipliers that both act on both."""
    model = System(
        "two",
        eqs=[
            Eq(y(t).diff(t), mu(t) + 2 * nu(t) - Int(z(s), (s, 0, t))),
            Eq(z(t).diff(t), mu(t) - nu(t) + y(t)),
        ],
        init={y: 0, z: 1},
        constraints={mu: Eq(y(t) + z(t), 1), nu: Eq(y(t) - z(t), t - 1)},
    )
    result = eqsolve.solve(model, t_max=2, rtol=1e-8)
    times = result["y"].t.values
    assert result["y"].values == pytest.approx(times / 2, abs=1e-9)
    memory = times - times**2 / 4
    nu_exact = (1 + memory + times / 2) / 3  # y' − z' = 1 = 3ν − ∫z − y
    assert result["nu"].values == pytest.approx(nu_exact, abs=1e-8)


@pytest.mark.parametrize("memory", [0, 1])
def test_a_nonlinear_constraint_is_solved_implicitly(memory: int) -> None:
    """μ³ + μ = y, y' = −μ: 3μ²/2 + log μ falls like −t. With memory, an integral that is known to vanish is added."""
    model = System(
        "implicit",
        eqs=[Eq(y(t).diff(t), -mu(t) + memory * (y(t) - 2 - Int(-mu(s), (s, 0, t))))],
        init={y: 2, mu: 0.5},
        constraints={mu: Eq(mu(t) ** 3 + mu(t), y(t))},
    )
    result = eqsolve.solve(model, t_max=4, rtol=1e-8)
    found, times = result["mu"].values, result["mu"].t.values
    assert reduce_constraints(model).implicit == {"mu"}
    assert 1.5 * found**2 + np.log(found) == pytest.approx(1.5 - times, abs=1e-7)


def test_a_start_off_the_constraint_is_refused() -> None:
    with pytest.raises(ModelError, match=r"constraint on `mu` .*test_constraints.py.*does not hold at the start.*-0.1"):
        eqsolve.solve(spherical(init={C(0, 0): 0.9, R(t, t): 1}), t_max=1)
    with pytest.raises(ParameterError, match=r"does not hold at the start with these parameters.*off by 1"):
        eqsolve.solve(spherical(init={C(0, 0): v, R(t, t): 1}), t_max=1, v=2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"constraints": {mu: Eq(C(t, tp), 1)}}, "depends on the times"),
        ({"constraints": {mu: Eq(p, 3)}}, "depends on the times none"),
        ({"constraints": {mu: Eq(R(t, t), 1)}}, "none of its first 3 derivatives contains a multiplier"),
        ({"constraints": {mu: Eq(C(t, t), 1), nu: Eq(C(t, t), 1)}}, "do not determine `mu`, `nu`"),
        ({"constraints": {mu: Eq(z(t), 1)}}, "uses `z"),
        ({"constraints": {C: Eq(mu(t), 1)}}, "got the key `C`"),
        ({"constraints": {mu: 1}}, "must be made by eqsolve's Eq"),
    ],
)
def test_constraints_that_say_nothing_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        eqsolve.check(spherical(**changes))


def test_a_multiplier_has_one_definition() -> None:
    model = System("twice", [Eq(y(t).diff(t), -mu(t)), Eq(mu(t), y(t))], init={y: 1}, constraints={mu: Eq(y(t), 1)})
    with pytest.raises(ModelError, match=r"constraint on `mu` .* stands beside the equation for `mu`"):
        eqsolve.check(model)


def test_constraints_beside_processes_are_refused() -> None:
    w = process("w")
    model = System(
        "paths", [Eq(w(t).diff(t), -w(t)), Eq(y(t).diff(t), -mu(t))], init={w: 1, y: 1}, constraints={mu: Eq(y(t), 1)}
    )
    with pytest.raises(UsageError, match="beside processes constraints on means"):
        eqsolve.solve(model, t_max=1)


def test_constraints_are_part_of_a_model() -> None:
    model = spherical()
    assert "mu is such that" in model.show().text()
    assert "C(t, t) = 1" in model.show().text()
    assert model.replace("other", constraints={mu: Eq(C(t, t), 2)}) != model
    assert mu in model.unknowns


@pytest.mark.slow
def test_a_mean_that_is_kept_where_its_formula_would_let_errors_grow() -> None:
    """The replicator of random interactions, u = 2: E x = 1 is kept with ν near −1.98, as in the state at rest.

    The state at rest: x = max(0, (η − ν)/u) with η of variance q; E x = 1 and E x² = q give q = 1.302639, ν = −1.980868.
    """
    x, eta, nu, C = process("x"), process("eta"), function("nu"), correlation("C")
    model = System(
        "replicator",
        eqs=[Eq(x(t).diff(t), x(t) * (-2 * x(t) + eta(t) - nu(t))), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={eta: GP(C(t, tp))},
        init={x: Uniform(0.5, 1.5)},
        constraints={nu: Eq(E(x(t)), 1)},
        observables={"mean": E(x(t)), "square": E(x(t) ** 2)},
    )
    found = eqsolve.solve(model, t_max=6, rtol=1e-2)
    assert found.status == "ok"
    assert abs(found["mean"][-1].item() - 1) <= 3 * found.error["mean"][-1].item() < 0.01
    assert found["nu"][-1].item() == pytest.approx(-1.980868, rel=0.01)
    assert found["square"][-1].item() == pytest.approx(1.302639, rel=0.015)


@pytest.mark.slow
def test_spins_on_a_sphere_are_the_closed_glass() -> None:
    """The p-spin model by paths with E x² = 1, in white noise, against the equations for C and R."""
    x, eta, xi, mu = process("x"), process("eta"), process("xi"), function("mu")
    C, R, T = correlation("C"), response("R"), param("T", positive=True)
    memory = 3 * Int(R(t, s) * C(t, s) * x(s), (s, 0, t))
    model = System(
        "spins",
        eqs=[
            Eq(x(t).diff(t), -mu(t) * x(t) + memory + eta(t) + xi(t)),
            Eq(C(t, tp), E(x(t) * x(tp))),
            Eq(R(t, tp), E(Resp(x(t), eta(tp)))),
        ],
        laws={eta: GP(3 * C(t, tp) ** 2 / 2), xi: White(2 * T)},
        init={x: Normal(0, 1)},
        constraints={mu: Eq(E(x(t) ** 2), 1)},
        defaults={T: 0.8},
    )
    pairs = [(1.0, 0.0), (1.0, 0.5)]
    found = eqsolve.solve(model, t_max=1, rtol=1e-3, kernels=True, at2=pairs).at2(pairs)
    truth = eqsolve.solve("pspin", p=3, T=0.8, t_max=1, rtol=1e-6, kernels=True, at2=pairs).at2(pairs)
    assert np.all(np.abs(found["C"].values - truth["C"].values) <= 3 * found["C_error"].values + 1e-6)
    with pytest.raises(eqsolve.ParameterError, match="does not hold at the start"):
        eqsolve.solve(model.replace(init={x: Normal(0, 2)}), t_max=1)


def test_what_a_constraint_on_a_mean_needs() -> None:
    x, y, xi, mu = process("x"), process("y"), process("xi"), function("mu")
    for force, kept, words in (
        (-x(t) * mu(t) ** 2, E(x(t)), "linearly"),
        (-x(t), E(x(t)), "do not determine"),
        (-x(t) * mu(t), E(y(t)), "no differential equation"),
    ):
        eqs = [Eq(x(t).diff(t), force + xi(t)), Eq(y(t), x(t) ** 2)]
        with pytest.raises(ModelError, match=words):
            eqsolve.check(System("kept", eqs=eqs, laws={xi: White(1)}, init={x: 1}, constraints={mu: Eq(kept, 1)}))


def test_a_mean_that_is_kept_from_a_start_without_randomness() -> None:
    """x' = x (k − ν) with E x = 1 from x = 1, k uniform on (−1, 1): x = e^{kt}/E e^{kt}."""
    x, nu, k = process("x"), function("nu"), random("k", Uniform(-1, 1))
    model = System(
        "kept", eqs=[Eq(x(t).diff(t), x(t) * (k - nu(t)))], init={x: 1}, constraints={nu: Eq(E(x(t)), 1)},
        observables={"q": E(x(t) ** 2)},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=1).at([1.0])
    truth = np.sinh(2) / 2 / np.sinh(1) ** 2
    assert abs(found["q"].item() - truth) <= 3 * found["q_error"].item()
    with pytest.raises(ParameterError, match=r"does not hold at the start.*off by 1"):
        eqsolve.solve(model.replace(init={x: 2}), t_max=1)
