"""Differential equations of correlations with two indices, C_kl(t, t') = C_lk(t', t), against known solutions."""

import functools

import numpy as np
import pytest
from scipy.linalg import expm, solve_sylvester
from sympy import KroneckerDelta, sin

import eqsolve
from eqsolve import (
    Eq,
    Int,
    ModelError,
    ParameterError,
    Sum,
    System,
    UsageError,
    correlation,
    function,
    index,
    param,
    process,
    response,
    table,
    times,
)

t, tp, s = times("t t' s")
T = param("T", nonnegative=True)

# --- Linear: the Ornstein-Uhlenbeck process of three variables, x' = -A x + ξ, which rotates.
k, l, m = index("k l m", 3)  # noqa: E741
A, S = table("A", k, l), table("S", k, l)
C, R = correlation("C", k, l), response("R", k, l)
DRIFT = np.array([[1.0, 0.7, 0.0], [-0.4, 0.8, 0.5], [0.3, 0.0, 1.3]])
START = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]])
LINEAR = System(
    "rotating",
    eqs=[
        Eq(C[k, l](t, tp).diff(t), -Sum(A[k, m] * C[m, l](t, tp), m) + 2 * T * R[l, k](tp, t)),
        Eq(R[k, l](t, tp).diff(t), -Sum(A[k, m] * R[m, l](t, tp), m)),
    ],
    init={R[k, l](t, t): KroneckerDelta(k, l), C[k, l](0, 0): S[k, l]},
    tables={A: DRIFT, S: START},
    defaults={T: 0.5},
    observables={"now": C[k, l](t, t), "later": C[k, l](t, 0), "earlier": C[k, l](0, t)},
)


def exact(x: float, y: float, start: np.ndarray = START, temperature: float = 0.5) -> np.ndarray:
    """Return C(x, y) of the linear system as a matrix."""
    still = solve_sylvester(DRIFT, DRIFT.T, 2 * temperature * np.eye(3))
    first = expm(-min(x, y) * DRIFT)
    own = first @ (start - still) @ first.T + still
    return expm(-(x - y) * DRIFT) @ own if x >= y else own @ expm(-(y - x) * DRIFT.T)


def on_pairs(value, pairs) -> np.ndarray:
    """Return a matrix function of two times on some pairs, members first."""
    return np.array([value(*pair) for pair in pairs]).transpose(1, 2, 0)


@pytest.mark.parametrize("rtol", [1e-3, pytest.param(1e-8, marks=pytest.mark.slow)])
def test_a_linear_system_is_a_matrix_exponential(rtol: float) -> None:
    found = eqsolve.solve(LINEAR, t_max=3, rtol=rtol, kernels=True)
    assert (found.status, found.stats["solver"]) == ("ok", "two_time")
    assert found["C"].dims == ("k", "l", "t", "t'")
    part = (..., slice(None, None, 13), slice(None, None, 13))
    values, errors, moments = found["C"].values[part], found.error["C"].values[part], found["C"]["t"].values[part[-1]]
    truth = on_pairs(exact, [(x, y) for x in moments for y in moments]).reshape(values.shape)
    assert np.all(np.abs(values - truth) <= 3 * errors + 1e-13)
    assert np.abs(truth[0, 1] - truth[1, 0]).max() > 0.1
    pairs = [(2.7, 0.1), (0.1, 2.7), (1.0, 0.9), (0.9, 1.0), (1.5, 1.5)]
    there = found.at2(pairs)
    assert np.all(np.abs(there["C"].values - on_pairs(exact, pairs)) <= 3 * there["C_error"].values + 1e-13)
    for name, pair in {"now": lambda x: (x, x), "later": lambda x: (x, 0), "earlier": lambda x: (0, x)}.items():
        truth = on_pairs(exact, map(pair, found[name]["t"].values))
        assert np.all(np.abs(found[name].values - truth) <= 3 * found.error[name].values + 1e-13)


@pytest.mark.slow
def test_derivatives_of_a_linear_system() -> None:
    """C is linear in T: its derivative is that of unit temperature from zero."""
    found = eqsolve.solve(LINEAR, t_max=1, rtol=1e-6, kernels=True, derivatives=["T"])
    change, moments = found.derivative("C", "T").values[..., ::20, ::20], found["C"]["t"].values[::20]
    unit = functools.partial(exact, start=np.zeros((3, 3)), temperature=1.0)
    truth = on_pairs(unit, [(x, y) for x in moments for y in moments])
    np.testing.assert_allclose(change, truth.reshape(change.shape), atol=1e-8)


def test_a_constraint_reads_members_in_either_order() -> None:
    """Its derivative holds those of C_01(s, t) in t, which are the equation of C_10."""
    y, nu = function("y nu")
    area = Int(C[0, 1](s, t) ** 2 * R[0, 2](t, s), (s, 0, t))
    model = LINEAR.replace(
        eqs=[Eq(y(t).diff(t), nu(t))], init={y: 0}, constraints={nu: Eq(y(t) + area, sin(t))}, observables={"area": area}
    )
    found = eqsolve.solve(model, t_max=2, rtol=1e-6)
    truth = np.sin(found["t"].values) - found["area"].values
    assert np.all(np.abs(found["y"].values - truth) <= 3 * (found.error["y"].values + found.error["area"].values) + 1e-14)


# --- With memory: spherical spins of two species, whose couplings are not reciprocal.
a, b, c = index("a b c", 2)
G, J, Q = table("G", a, b), table("J", a, b), table("Q", a, b)
mu, X, Y = function("mu", a), correlation("X", a, b), response("Y", a, b)
COUPLINGS = np.array([[0.8, 0.5], [0.5, 1.2]])
ONE_WAY = np.array([[0.1, 3.0], [-1.0, 0.2]])
OVERLAPS = np.array([[1.0, 0.4], [0.4, 1.0]])


def species(held: bool, couplings=COUPLINGS, one_way=ONE_WAY, overlaps=OVERLAPS) -> System:
    """Return the model; its multipliers from constraints, or by their formula."""

    def force(x, y):
        return 3 * G[a, c] * X[a, c](x, y) ** 2 / 2

    def memory(x, y):
        return 3 * G[a, c] * X[a, c](x, y) * Y[a, c](x, y) + J[a, c] * X[c, a](x, y) * Y[c, c](x, y)

    past = Sum(Int(memory(t, s) * X[c, b](s, tp), (s, 0, t)) + Int(force(t, s) * Y[b, c](tp, s), (s, 0, tp)), c)
    eqs = [
        Eq(X[a, b](t, tp).diff(t), -mu[a](t) * X[a, b](t, tp) + past + 2 * T * Y[b, a](tp, t)),
        Eq(Y[a, b](t, tp).diff(t), -mu[a](t) * Y[a, b](t, tp) + Sum(Int(memory(t, s) * Y[c, b](s, tp), (s, tp, t)), c)),
    ]
    init = {X[a, b](0, 0): Q[a, b], Y[a, b](t, t): KroneckerDelta(a, b)}
    more = {"constraints": {mu[a]: Eq(X[a, a](t, t), 1)}}
    if not held:
        own = Int(memory(t, s) * X[a, c](t, s), (s, 0, t)) + Int(force(t, s) * Y[a, c](t, s), (s, 0, t))
        eqs.append(Eq(mu[a](t), T + Sum(own, c)))
        init[X[a, a](t, t)], more = 1, {}
    return System(
        "species",
        eqs=eqs,
        init=init,
        tables={G: couplings, J: one_way, Q: overlaps},
        defaults={T: 0.6},
        observables={"now": X[a, b](t, t), "later": X[a, b](t, 0)},
        **more,
    )


def stepped(count: int, end: float) -> np.ndarray:
    """Return X on all pairs of steps by the trapezoidal rule, of second order, with its implicit equations iterated."""
    h = end / count
    x, y = np.zeros((2, count + 1, count + 1, 2, 2))
    x[0, 0], y[range(count + 1), range(count + 1)] = OVERLAPS, np.eye(2)

    def slopes(i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of X and Y in the row's time, in the columns up to the diagonal."""
        weights = np.full(i + 1, h)
        weights[[0, -1]] = h / 2 if i else 0.0
        before = x[i, : i + 1]
        kernel = 3 * COUPLINGS * before * y[i, : i + 1]
        kernel += ONE_WAY * before.transpose(0, 2, 1) * np.einsum("scc->sc", y[i, : i + 1])[:, None, :]
        kernel *= weights[:, None, None]
        noise = 1.5 * COUPLINGS * before**2
        multiplier = 0.6 + (kernel * before).sum((0, 2)) + (weights[:, None, None] * noise * y[i, : i + 1]).sum((0, 2))
        by_x = np.einsum("sac,sjcb->jab", kernel, x[: i + 1, : i + 1]) - multiplier[:, None] * before
        by_y = np.einsum("sac,sjcb->jab", kernel, y[: i + 1, : i + 1]) - multiplier[:, None] * y[i, : i + 1]
        for j in range(i + 1):
            until = np.full(j + 1, h)
            until[[0, -1]] = h / 2 if j else 0.0
            by_x[j] += np.einsum("s,sac,sbc->ab", until, noise[: j + 1], y[j, : j + 1])
            by_y[j] -= kernel[j] / 2 @ y[j, j] if 0 < j < i else 0.0  # the lower end counts half
            if j == i:
                by_y[j] = -multiplier[:, None] * np.eye(2)
        return by_x, by_y

    for i in range(count):
        old = slopes(i)
        new = old
        for sweep in range(12):
            for values, before, after in zip((x, y), old, new, strict=True):
                values[i + 1, : i + 1] = values[i, : i + 1] + h * (before + after[: i + 1]) / 2
            own = x[i, i] + h * (old[0][i] + old[0][i].T + new[0][-1] + new[0][-1].T) / 2
            x[i + 1, i + 1] = own - np.diag(np.diag(own)) + np.eye(2)
            x[: i + 1, i + 1] = x[i + 1, : i + 1].transpose(0, 2, 1)
            new = slopes(i + 1) if sweep < 11 else new
    return x.transpose(2, 3, 0, 1)


def test_memory_against_the_trapezoidal_rule() -> None:
    found = eqsolve.solve(species(False), t_max=1, rtol=1e-5, kernels=True)
    rough, fine, finest = (stepped(20 * part, 1.0)[:, :, ::part, ::part] for part in (1, 2, 4))
    first, second = (4 * fine - rough) / 3, (4 * finest - fine) / 3
    truth = (16 * second - first) / 15
    left = np.abs(truth - second).max()
    assert left < 1e-7
    assert np.abs(truth[0, 1] - truth[1, 0]).max() > 0.01
    steps = np.linspace(0, 1, 21)
    there = found.at2([(x, y) for x in steps for y in steps])
    off = np.abs(there["X"].values - truth.reshape(2, 2, -1))
    assert np.all(off <= 3 * there["X_error"].values + left)


def test_multipliers_from_constraints() -> None:
    moments = [0.3, 1.0]
    ours, theirs = (eqsolve.solve(species(held), t_max=1, rtol=1e-5).at(moments) for held in (True, False))
    for name in ("mu", "now", "later"):
        room = ours[f"{name}_error"].values + theirs[f"{name}_error"].values
        assert np.all(np.abs(ours[name].values - theirs[name].values) <= 3 * room + 1e-13)


def test_species_apart_are_one() -> None:
    """Each is the model of one species."""
    found = eqsolve.solve(species(False, np.eye(2), np.zeros((2, 2)), np.eye(2)), t_max=1, rtol=1e-8, kernels=True)
    alone = eqsolve.solve("pspin", T=0.6, t_max=1, rtol=1e-8, kernels=True)
    pairs = [(1.0, 0.1), (0.1, 1.0), (0.9, 0.8)]
    ours, theirs = (result.at2(pairs) for result in (found, alone))
    for place in range(2):
        np.testing.assert_allclose(ours["X"].values[place, place], theirs["C"].values, rtol=0, atol=1e-10)
    assert not np.any(ours["X"].values[0, 1])


# --- What is said.
x = process("x", k)
i, j = index("i", 2), index("j", 3)
uneven = correlation("uneven", i, j)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LINEAR.replace(eqs=[Eq(x[k](t).diff(t), -x[k](t))], init={x[k]: 1}), "define it by its mean, E(x[k](t)*"),
        (lambda: System("bad", [Eq(uneven[i, j](t, tp).diff(t), 0)], init={uneven[i, j](0, 0): 1}), "have different sizes"),
        (lambda: System("bad", [Eq(C[0, 1](t, tp).diff(t), 0)], init={C[0, 1](0, 0): 1}), "write one for all members"),
        (lambda: System("bad", [Eq(C[k, l](t, tp).diff(t), 0)]), "has no initial value"),
    ],
)
def test_what_check_says(make, words: str) -> None:
    with pytest.raises(ModelError) as error:
        eqsolve.check(make())
    assert words in str(error.value)
    assert "test_pairs.py:" in str(error.value)


def test_what_solvers_say() -> None:
    with pytest.raises(ParameterError, match=r"`C_1_0` starts from 0 and from 0.3; C\[k, l\]\(t, t\) and"):
        eqsolve.solve(LINEAR, t_max=1, S=np.triu(START))
    with pytest.raises(UsageError, match="it has the correlation `C_0_1` of two members"):
        eqsolve.solve(LINEAR, t_max=1, solver="operators")
    with pytest.raises(UsageError, match="it has no paths"):
        eqsolve.stationary(LINEAR)
