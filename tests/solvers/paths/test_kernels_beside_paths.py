"""Functions and kernels with equations of their own beside paths, and means that stand in forces and under integrals."""

import numpy as np
import pytest
from sympy import exp

import eqsolve
from eqsolve import GP, E, Eq, Int, ModelError, Resp, System, White, correlation, function, process, response, times

t, tp, s = times("t t' s")
x, v, z, xi = process("x v z xi")
C, R, m = correlation("C"), response("R"), function("m")
# Below z is one normal number, so that x = z (1 − e^{−t}) where x' = z − x.
GROWN = 1 - 2 * (1 - np.exp(-1)) + (1 - np.exp(-2)) / 2  # ∫₀¹ E x²
ROOTS = (np.array([-1, 1]) * np.sqrt(5) - 1) / 2  # of m'' = m − m' from m = 1, m' = 0
OSCILLATOR = (ROOTS[::-1] * np.array([-1, 1]) @ np.exp(ROOTS)) / (ROOTS[0] - ROOTS[1])


def value(system: System, name: str, rtol: float = 1e-5) -> float:
    result = eqsolve.solve(system, t_max=1, rtol=rtol)
    assert result.status == "ok"
    return float(result[name].sel(t=1))


@pytest.mark.parametrize(
    ("more", "observed", "truth"),
    [
        ([], Int(E(x(s) ** 2), (s, 0, t)), GROWN),
        ([], Int(E(x(t) * x(s)), (s, 0, t)), np.exp(-1) * (1 - np.exp(-1))),
        ([], Int(E(Resp(x(t), z(s))), (s, 0, t)), 1 - np.exp(-1)),
        ([Eq(m(t), 1 + Int(E(x(s) ** 2) * m(s), (s, 0, t)))], m(t), np.exp(GROWN)),
        ([Eq(m(t).diff(t), Int(exp(s - t) * m(s), (s, 0, t)))], m(t), OSCILLATOR),
        ([Eq(R(t, tp).diff(t), -R(t, tp))], Int(R(t, s), (s, 0, t)), 1 - np.exp(-1)),
        ([Eq(C(t, tp).diff(t), -C(t, tp) + E(z(t) * x(tp)))], C(t, t), (1 - np.exp(-1)) ** 2),
    ],
)
def test_means_and_kernels_in_closed_form(more: list, observed: object, truth: float) -> None:
    starts = {m: 1, R(t, t): 1, C(0, 0): 0}
    heads = {equation.head for equation in more if equation.is_differential}
    init = {x: 0} | {key: start for key, start in starts.items() if getattr(key, "head", key) in heads}
    equations = [Eq(x(t).diff(t), z(t) - x(t)), *more]
    assert value(System("one", equations, laws={z: GP(1)}, init=init, observables={"it": observed}), "it") == pytest.approx(
        truth, rel=1e-5
    )


def test_a_kernel_acts_back_as_the_process_that_it_stands_for() -> None:
    """∫R x with R' = −E(x²) R is a process v' = x − E(x²) v."""
    given = {"laws": {z: GP(exp(-((t - tp) ** 2)))}, "observables": {"square": E(x(t) ** 2)}}
    memory = Eq(x(t).diff(t), -x(t) + z(t) + Int(R(t, s) * x(s), (s, 0, t)))
    kernel = System("kernel", [memory, Eq(R(t, tp).diff(t), -E(x(t) ** 2) * R(t, tp))], init={x: 0, R(t, t): 1}, **given)
    states = [Eq(x(t).diff(t), -x(t) + z(t) + v(t)), Eq(v(t).diff(t), x(t) - E(x(t) ** 2) * v(t))]
    assert value(kernel, "square") == pytest.approx(
        value(System("state", states, init={x: 0, v: 0}, **given), "square"), rel=1e-5
    )


def test_a_correlation_has_the_equation_of_its_path() -> None:
    """∂C/∂t = E(x'(t) x(t')) of a cubic force, on sampled paths; C(t, t) is E x²."""
    equations = [Eq(x(t).diff(t), z(t) - x(t) ** 3), Eq(C(t, tp).diff(t), E((z(t) - x(t) ** 3) * x(tp)))]
    observed = {"kernel": C(t, t), "square": E(x(t) ** 2)}
    system = System("cubic", equations, laws={z: GP(exp(-((t - tp) ** 2)))}, init={x: 0, C(0, 0): 0}, observables=observed)
    result = eqsolve.solve(system, t_max=1, rtol=1e-3)
    assert np.abs(result["kernel"] - result["square"]).max() < 1e-3


@pytest.mark.slow
def test_a_kernel_beside_white_noise() -> None:
    equations = [Eq(x(t).diff(t), xi(t) - x(t)), Eq(R(t, tp).diff(t), -2 * E(x(t) ** 2) * R(t, tp))]
    observed = {"follows": Int(R(t, s), (s, 0, t))}
    system = System("white", equations, laws={xi: White(1)}, init={x: 0, R(t, t): 1}, observables=observed)
    moments = np.linspace(0, 1, 20001)
    fallen = np.exp(-(moments - (1 - np.exp(-2 * moments)) / 2))  # exp(−2 ∫ E x²), with E x² = (1 − e^{−2t})/2
    truth = np.trapezoid(fallen[-1] / fallen, moments)
    assert value(system, "follows", 1e-4) == pytest.approx(truth, rel=1e-4)


def test_what_cannot_be_solved_for_is_named() -> None:
    given = {"laws": {z: GP(1)}, "init": {x: 0, R(t, t): 1}, "observables": {"square": E(x(t) ** 2)}}
    square = [Eq(x(t).diff(t), z(t) - x(t)), Eq(R(t, tp).diff(t), -E(x(t) ** 2) * R(t, tp) ** 2)]
    with pytest.raises(
        ModelError,
        match=r"`R` \(test_kernels_beside_paths\.py:\d+\).*enters its own equation in `-E\[x\(t\)\*\*2\]\*R\(t, t'\)\*\*2`",
    ):
        eqsolve.solve(System("square", square, **given), t_max=1)
    mixed = {"mixed": Int(E(x(t) * z(s)), (s, 0, t))}
    with pytest.raises(ModelError, match=r"observable `mixed` has the mean `E\[x\(t\)\*z\(s\)\]` under an integral"):
        eqsolve.solve(System("mixed", square[:1], laws={z: GP(1)}, init={x: 0}, observables=mixed), t_max=1)
