"""Systems whose members are alike: compiled for one that stands for all, against members written out and known solutions."""

import time

import numpy as np
import pytest
from scipy.linalg import expm
from sympy import Abs, exp, tanh
from sympy.core.cache import clear_cache

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    Int,
    Resp,
    Sum,
    System,
    correlation,
    function,
    index,
    param,
    process,
    random,
    response,
    solving,
    table,
    times,
)
from eqsolve.compile import lowering
from eqsolve.compile.forms import COVARIANCES, GAUSSIAN, TWO_TIME
from eqsolve.compile.plan import make_task
from eqsolve.laws import Normal
from eqsolve.numerics import compiled
from eqsolve.passes.rewrite.indices import expand, generic, sized, table_arrays
from eqsolve.solvers.paths import follow
from tests.sympy_calls import calls_into_sympy

t, tp, s = times("t t' s")
T = param("T", nonnegative=True)
K = eqsolve.load("rnn_populations").symbols("populations")


def species(count: int, couplings: object = None) -> System:
    """Spherical spins of several species, coupled three by three: with couplings that add up to one, those of `pspin`."""
    a, b = index("a b", count)
    g = table("g", a, b)
    mu, C, R = function("mu", a), correlation("C", a), response("R", a)

    def force(x: object, y: object) -> object:
        return 3 * Sum(g[a, b] * C[b](x, y) ** 2, b) / 2

    def memory(x: object, y: object) -> object:
        return 3 * Sum(g[a, b] * C[b](x, y) * R[b](x, y), b)

    return System(
        "species",
        eqs=[
            Eq(mu[a](t), T + Int(memory(t, s) * C[a](t, s) + force(t, s) * R[a](t, s), (s, 0, t))),
            Eq(R[a](t, tp).diff(t), -mu[a](t) * R[a](t, tp) + Int(memory(t, s) * R[a](s, tp), (s, tp, t))),
            Eq(
                C[a](t, tp).diff(t),
                -mu[a](t) * C[a](t, tp)
                + Int(memory(t, s) * C[a](s, tp), (s, 0, t))
                + Int(force(t, s) * R[a](tp, s), (s, 0, tp)),
            ),
        ],
        init={C[a](t, t): 1, R[a](t, t): 1},
        tables={g: np.full((count, count), 1 / count) if couplings is None else couplings},
        defaults={T: 0.5},
        observables={"energy": -Int(force(t, s) * R[a](t, s), (s, 0, t)), "total": Sum(C[a](t, t), a)},
    )


def written_out(model: System, **options: object) -> eqsolve.Result:
    model = sized(model, {})
    made = expand(model)
    return eqsolve.solve(made.model, **made.settings(table_arrays(model, {})[0]), **options)


@pytest.mark.slow
def test_alike_species_are_one() -> None:
    found = eqsolve.solve(species(3), t_max=1, rtol=1e-5)
    truth = eqsolve.solve("pspin", t_max=1, rtol=1e-5)
    assert found.stats["solver"] == "two_time"
    assert found["energy"].dims == ("a", "t")
    moments = [0.1, 0.7, 1.0]
    for place in range(3):
        assert np.allclose(found.at(moments)["energy"][place], truth.at(moments)["energy"], rtol=1e-10, atol=1e-12)
    assert np.allclose(found["total"], 3.0, rtol=1e-12)


@pytest.mark.slow
def test_species_written_out() -> None:
    model = species(3, np.random.default_rng(0).random((3, 3)))
    assert generic(model) is not None
    found, other = (solve(model, t_max=0.5, rtol=1e-2) for solve in (eqsolve.solve, written_out))
    assert set(found.names) == set(other.names)
    for name in other.names:
        np.testing.assert_allclose(found.dataset[name], other.dataset[name], rtol=1e-10, atol=1e-12)
    chosen = eqsolve.solve(model, t_max=0.5, rtol=1e-2, observables=["energy"])
    assert "total" not in chosen
    with pytest.raises(eqsolve.UsageError, match=r"it has: energy\[a\], total"):
        eqsolve.solve(model, t_max=1, observables=["energies"])
    np.testing.assert_allclose(chosen["energy"], found["energy"], rtol=1e-10)


def test_populations_written_out() -> None:
    model = eqsolve.load("rnn_populations").replace(defaults={K: 3})
    found, other = (solve(model, t_max=1, rtol=1e-2, kernels=True) for solve in (eqsolve.solve, written_out))
    assert found.stats["solver"] == "gaussian"
    assert {name: found.params[name] for name in ("gain", "x0")} == {"gain": 1.0, "x0": "Normal(0, 1)"}
    for name in ("q_0", "q_2", "r_1", "C_0", "F_2"):
        np.testing.assert_allclose(found.dataset[name], other.dataset[name], rtol=1e-10, atol=1e-12)


def test_a_coupling_of_zero_and_another_gain() -> None:
    """Without couplings x_a = x0_a e^{−t} + h_a (1 − e^{−t}); a second solve compiles nothing."""
    zero = np.zeros((2, 2))
    moments = np.array([0.5, 1.5])
    for gain in (1.0, 2.0):
        found = eqsolve.solve("rnn_populations", populations=2, g=zero, J=zero, h=[0.4, -1.0], gain=gain, t_max=2, rtol=1e-6)
        for place, h in enumerate((0.4, -1.0)):
            exact = np.exp(-2 * moments) + (h * (1 - np.exp(-moments))) ** 2
            np.testing.assert_allclose(found.at(moments)["q"][place], exact, rtol=1e-6)


def pulled(count: int) -> System:
    """Units that feel the means of all."""
    a, b = index("a b", count)
    g, x, z, m = table("g", a, b), process("x", a), process("z", a), function("m", a)
    eqs = [Eq(m[a](t), E(tanh(x[a](t)))), Eq(x[a](t).diff(t), -x[a](t) + Sum(g[a, b] * m[b](t), b) + z[a](t))]
    return System("pulled", eqs=eqs, laws={z[a]: GP(exp(-((t - tp) ** 2)))}, init={x[a]: 0}, tables={g: np.eye(count)})


@pytest.mark.parametrize("most", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("make", "forms"),
    [(species, (TWO_TIME,)), (None, (GAUSSIAN, COVARIANCES)), (pulled, (GAUSSIAN, COVARIANCES))],
    ids=["two", "gaussian", "sums"],
)
def test_symbolic_work_does_not_grow_with_the_size(make, forms, most, monkeypatch) -> None:
    """Of 4 and more members: the same functions are made, with about as many calls into sympy."""
    calls: list[int] = []
    original = lowering.as_function
    monkeypatch.setattr(lowering, "as_function", lambda *given, **more: calls.append(1) or original(*given, **more))
    spent: dict[int, int] = {}
    made: dict[int, int] = {}
    for turn, count in enumerate((4, most)):
        model = make(count) if make else sized(eqsolve.load("rnn_populations"), {"populations": count})
        model = model.replace(f"turn_{turn}")  # nothing is known of it
        clear_cache()
        calls.clear()
        with calls_into_sympy() as entered:
            eqsolve.check(model)
            task = make_task(generic(model), {})
            programs = [task.plan.program(form) for form in forms]
        spent[count], made[count] = entered.total(), len(calls)
        assert programs
    assert made[most] == made[4] > 0
    assert spent[most] < 1.5 * spent[4], spent


def driven(drift: object, covariance: object) -> System:
    """Linear units of three kinds in Gaussian noise that depends on all."""
    eqs = [Eq(C[a](t, tp), E(x[a](t) * x[a](tp))), Eq(m[a](t), E(x[a](t))), Eq(x[a](t).diff(t), drift)]
    tables = {g: 0.3 * np.random.default_rng(1).random((3, 3))}
    return System("driven", eqs=eqs, laws={z[a]: GP(covariance, 0.5)}, init={x[a]: w[a]}, tables=tables, defaults={T: 0.7})


a, b, c = index("a b c", 3)
g, x, z, C, m = table("g", a, b), process("x", a), process("z", a), correlation("C", a), function("m", a)
w = random("w", Normal(0, 1), a)
LINEAR = -x[a](t) + z[a](t)
PLAIN = Sum(g[a, b] * C[b](t, tp), b)


@pytest.mark.parametrize(
    "covariance",
    [
        Sum(g[a, b] * exp(-T * (t + tp)) * C[b](t, tp), b),
        Sum(g[a, b] * E(x[b](t) * x[b](tp)), b),
        T * Sum(g[a, b] ** 2 * m[b](t) * m[b](tp) * Sum(g[b, c] * C[c](0, 0), c), b) + C[a](t, tp) / 9,
        Sum(g[b, c] * C[0](t, tp), b, c) * exp(-(t + tp)) + Sum(g[a, b] * C[a](t, tp) * C[b](t, t) * C[b](tp, tp), b) / 9,
    ],
    ids=["times", "means", "inner", "fixed"],
)
def test_sums_written_out(covariance) -> None:
    model = driven(LINEAR, covariance)
    assert generic(model) is not None
    found, other = (solve(model, t_max=1, rtol=1e-2, kernels=True) for solve in (eqsolve.solve, written_out))
    for name in ("C_0", "C_2", "m_1"):
        np.testing.assert_allclose(found.dataset[name], other.dataset[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("drift", "covariance"),
    [
        (LINEAR + m[0](t), PLAIN),
        (LINEAR - a * x[a](t), PLAIN),
        (LINEAR + Sum(g[a, b] * x[b](t), b), PLAIN),
        (LINEAR, Sum(g[a, b] * exp(-Abs(t - tp)) * C[b](t, tp), b)),
        (LINEAR, g[a, 0] * C[a](t, tp)),
    ],
    ids=["a neighbour by its number", "the number of the index", "a sum of paths", "a kink in a sum", "a fixed number"],
)
def test_what_is_not_alike(drift, covariance) -> None:
    assert generic(driven(drift, covariance)) is None


@pytest.mark.parametrize("step", [pytest.param(None, marks=pytest.mark.slow), 0.1])
@pytest.mark.parametrize(
    "more",
    [pytest.param(0, id="plain"), pytest.param(Sum(g[a, b] * m[b](t), b) * x[a](t), id="a sum", marks=pytest.mark.slow)],
)
def test_paths_written_out(step, more) -> None:
    """Units that are not linear: their paths are followed, from the same points."""
    model = driven(LINEAR - tanh(x[a](t)) + more, PLAIN)
    assert generic(model) is not None
    found, other = (solve(model, t_max=0.5, rtol=1e-2, step=step) for solve in (eqsolve.solve, written_out))
    assert found.stats["solver"] == "stochastic"
    np.testing.assert_allclose(found["m"], [other.dataset[f"m_{place}"] for place in range(3)], rtol=1e-10, atol=1e-12)


def test_paths_of_members_are_followed_in_one_array(monkeypatch) -> None:
    """Blocks of all members by one call to Newton's method, to the same bits as one by one, but for the last samples."""
    counts, newton = [], compiled.newton_block
    monkeypatch.setattr(compiled, "newton_block", lambda *given: counts.append(len(given[1])) or newton(*given))
    model = driven(LINEAR - tanh(x[a](t)), PLAIN)
    found, calls = {}, {}
    for alike in (4, 0):
        monkeypatch.setattr(follow, "MERGED_FACTOR", alike)
        counts.clear()
        found[alike], calls[alike] = eqsolve.solve(model, t_max=0.5, rtol=1e-2), sorted(counts)
    assert set(calls[0]) == {1}
    assert calls[4].count(3) > 3 * calls[4].count(1)
    assert sum(calls[4]) == sum(calls[0])
    np.testing.assert_array_equal(found[4]["m"], found[0]["m"])
    np.testing.assert_array_equal(found[4]["C"], found[0]["C"])


def test_a_sum_of_responses_beside_processes() -> None:
    """Alike units that remember themselves through the responses of all are one unit that does through its own."""

    def units(count: int) -> System:
        a, b = index("a b", count)
        g, x, z, w = table("g", a, b), process("x", a), process("z", a), random("w", Normal(0, 1), a)
        C, R, F = correlation("C", a), response("R", a), response("F", a)
        eqs = [
            Eq(C[a](t, tp), E(x[a](t) * x[a](tp))),
            Eq(R[a](t, tp), E(Resp(x[a](t), z[a](tp)))),
            Eq(F[a](t, tp), Sum(g[a, b] * R[b](t, tp), b)),
            Eq(x[a](t).diff(t), -x[a](t) - x[a](t) ** 3 / 10 + z[a](t) + Int(F[a](t, s) * x[a](s), (s, 0, t))),
        ]
        laws, tables = {z[a]: GP(Sum(g[a, b] * C[b](t, tp), b))}, {g: np.full((count, count), 0.3 / count)}
        return System("units", eqs=eqs, laws=laws, init={x[a]: w[a]}, tables=tables, observables={"q": C[a](t, t)})

    alone, three = (eqsolve.solve(units(count), t_max=0.5, rtol=3e-2) for count in (1, 3))
    assert alone.stats["solver"] == three.stats["solver"] == "stochastic"
    for place in range(3):
        np.testing.assert_allclose(three["q"][place], np.squeeze(alone["q"]), rtol=1e-10)


@pytest.mark.parametrize("driving", [m, x], ids=["means", "paths"])
def test_sums_in_paths(driving) -> None:
    """m' = −m + ½ + g m, of which the exponential of a matrix is the truth; a sum of paths is written out."""
    model = driven(LINEAR + Sum(g[a, b] * driving[b](t), b), PLAIN)
    assert (generic(model) is None) == (driving is x)
    (source,) = model.tables.values()
    rates = source.source[0] - np.eye(3)
    exact = np.linalg.solve(rates, (expm(rates * 0.5) - np.eye(3)) @ np.full(3, 0.5))
    found = eqsolve.solve(model, t_max=0.5, rtol=1e-6)
    np.testing.assert_allclose(found["m"][:, -1], exact, rtol=1e-6)
    assert not any("sum" in name for name in found.shown)


def test_large_tables() -> None:
    """What writes tables out says so, or is as quick as that."""
    with pytest.raises(eqsolve.ModelError, match="`V` has 1000000 members; here these are written out one by one"):
        eqsolve.stationary("mct_hard_spheres")
    begun = time.process_time()
    with pytest.raises(eqsolve.UsageError, match="it has no paths"):
        eqsolve.stationary("mct_hard_spheres", wave_numbers=8)
    assert time.process_time() - begun < 10


def test_a_run_is_known_by_its_tables(monkeypatch) -> None:
    """A checkpoint of other numbers is not gone on from; what is recorded is the model as it was given."""
    known = []
    original = solving._run_kept
    monkeypatch.setattr(
        solving, "_run_kept", lambda run, identity, *rest: known.append(identity) or original(run, identity, *rest)
    )
    for scale in (1.0, 1.0, 2.0):
        found = eqsolve.solve(species(2, np.full((2, 2), scale)), t_max=0.1, rtol=1e-2)
        assert "C[a]" in found.provenance["source"]
    assert known[0] == known[1] != known[2]


@pytest.mark.parametrize("observables", [None, ["total"]])
def test_correlations_of_two_members_are_results(observables: list[str] | None, tmp_path) -> None:
    """x_k' = Σ B_kl w_l − r_k x_k: E x_0(t) x_1(t') = (B Bᵀ)_01 f_0(t) f_1(t') with f_k = (1 − exp(−r_k t))/r_k."""
    k, m = index("k m", 2)
    r, B, w = table("r", k), table("B", k, m), random("w", Normal(0, 1), k)
    x, C = process("x", k), correlation("C", k, m)
    rates, mixing = np.array([0.5, 2.0]), np.array([[1.0, 0.5], [0.3, -1.0]])
    model = System(
        "pair",
        eqs=[
            Eq(x[k](t).diff(t), Sum(B[k, m] * w[m], m) - r[k] * x[k](t)),
            Eq(C[k, m](t, tp), E(x[k](t) * x[m](tp))),
        ],
        init={x[k]: 0},
        tables={r: rates, B: mixing},
        observables={"total": Sum(C[k, m](t, t), k, m)},
    )
    result = eqsolve.solve(model, t_max=3, rtol=1e-5, observables=observables)
    if observables:  # what is not asked for is left out
        assert "C" not in result.families
        return
    result.save(tmp_path / "pair.nc")
    for found in (result, eqsolve.open(tmp_path / "pair.nc")):
        values, errors = found["C"], found.error["C"].values
        assert values.dims == ("k", "m", "t", "t'")
        curves = (1 - np.exp(-rates * values["t"].values[:, None])) / rates
        truth = np.einsum("km,tk,sm->kmts", mixing @ mixing.T, curves, curves)
        assert np.all(np.abs(values.values - truth) <= 3 * errors + 1e-13)
        pairs = found.at2([(1, 2.5), (2.5, 1)])["C_0_1"].values
        f, g = ((1 - np.exp(-rates * time)) / rates for time in (1, 2.5))
        expected = (mixing @ mixing.T)[0, 1] * np.array([f[0] * g[1], g[0] * f[1]])
        np.testing.assert_allclose(pairs, expected, rtol=1e-5)
