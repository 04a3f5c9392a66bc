"""Families, sums and tables as they are declared: what is taken, and what is said of what is not."""

import pickle

import numpy as np
import pytest
import sympy
from scipy.linalg import expm

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    FixedPoint,
    Int,
    ModelError,
    ParameterError,
    Sum,
    System,
    White,
    correlation,
    function,
    index,
    param,
    process,
    random,
    table,
    times,
    unknown,
)
from eqsolve.laws import Normal

t, s = times("t s")
k, p, q = index("k p q", 3)
x, y = function("x y", k)
pairs, u = function("pairs", k, p), unknown("u", k)
A = table("A", k, p)
NUMBERS = np.arange(9.0).reshape(3, 3) / 10


def system(*equations, **parts):
    used = any("A[" in str(equation) for equation in equations)
    return System("mine", eqs=list(equations), init={x[k]: 1}, tables={A: NUMBERS} if used else {}, **parts)


def decay(right):
    return system(Eq(x[k](t).diff(t), right))


def drawn(equation):
    w = process("w", k)
    return System("drawn", eqs=[Eq(w[k](t).diff(t), -w[k](t)), equation], init={w[k]: 1})


def driven(law):
    w, z = process("w z", k)
    eqs = [Eq(w[k](t).diff(t), z[k](t) - w[k](t))]
    return System("driven", eqs=eqs, laws={z[k]: law}, init={w[k]: 0}, tables={A: NUMBERS})


def test_members_are_values() -> None:
    """Members are equal by content, pickle, and print with their indices."""
    again = pickle.loads(pickle.dumps(x[k - 1]))
    assert again == x[k - 1]
    assert again != x[k]
    assert str(x[k](t)) == "x[k](t)"
    assert sympy.latex(x[k](t)) == "x_{k}(t)"
    assert sympy.latex(Sum(A[k, p] * x[p](t), p)) == r"\sum_{p} A_{k,p} x_{p}(t)"
    with pytest.raises(TypeError):
        list(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: x(t), "stands without its indices; write `x[k]`"),
        (lambda: x[k, p], "carries 1 index, got 2"),
        (lambda: x[3], "runs over 0 … 2"),
        (lambda: x[2.5], "takes an index, a number"),
        (lambda: x[index("l", 4)], "runs over 4 values"),
        (lambda: Sum(x[p](t), q), "does not occur"),
        (lambda: Sum(x[p](t), t), "takes an expression and indices"),
        (lambda: function("z", 3), "carries indices made by index"),
        (lambda: function("z", k, k), "carries an index twice; declare it with two"),
        (lambda: index("l", 0), "whole number above zero"),
        (lambda: Sum(x[p](t), p).diff(x[k](t)), "is not worked out"),
        (lambda: A * x[k](t), "the table `A` stands without its indices; write `A["),
        (lambda: decay(-x[k](t)).replace(init={x: 1}), "got `x` without its indices; write init={x[k]: ...}"),
        (
            lambda: decay(-x[k](t)).replace(init={x[k]: [1, 2, 3]}),
            "init= of `x[k]` is a number or an expression",
        ),
        (lambda: decay(-A[k, 0] * x[k](t)).replace(tables={A[k, p]: NUMBERS}), "write the table alone, `A`"),
    ],
)
def test_what_is_wrong_where_it_is_written(make, words) -> None:
    with pytest.raises(ModelError) as error:
        make()
    assert words in str(error.value)
    assert "test_language.py:" in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: decay(-x[p](t)), "sum over it, Sum(..., p)"),
        (lambda: decay(-sympy.Sum(k, (k, 0, 2)) * x[k](t)), "sympy's own Sum"),
        (lambda: decay(-sympy.Sum(A[k, p] * x[p](t), (p, 0, 2))), "sympy's own Sum; write eqsolve's"),
        (lambda: system(Eq(pairs[k, k](t).diff(t), -x[k](t))), "carries an index twice; write two indices"),
        (lambda: decay(-Sum(A[k, k] * x[k](t), k)), "has a meaning outside the sum"),
        (lambda: decay(-x[k - 1](t)), "Piecewise((value, Eq(k, 0)), (x[k - 1](t), True))"),
        (lambda: decay(-x[k + 1](t)), "`x[k + 1](t)` lies outside its range 0 … 2 at one end; say what stands"),
        (lambda: decay(-x[k + 2](t)), "Piecewise((value, k > 0), (x[k + 2](t), True))"),
        (lambda: decay(-A[k, k - 1] * x[k](t)), "Piecewise((value, Eq(k, 0)), (A[k, k - 1], True))"),
        (lambda: decay(-A[k, 0] * x[k](t)).replace(tables={A: NUMBERS[:2]}), "takes the shape (3, 3), got (2, 3)"),
        (lambda: decay(-A[k, 0] * x[k](t)).replace(tables={A: lambda: NUMBERS[0]}), "takes the shape (3, 3), got (3,)"),
        (lambda: decay(-A[k, 0] * x[k](t)).replace(tables={A: lambda: NUMBERS[9]}), "fails at the defaults, IndexError"),
        (lambda: system(Eq(x[k](t).diff(t), -x[k](t)), Eq(x[0](t).diff(t), -x[0](t))), "two equations for"),
        (lambda: system(Eq(x[k](t).diff(t), -y[k](t))), "uses `y[k](t)`, which nothing defines"),
        (lambda: drawn(Eq(y[k](t), process("w", k)[k](t))), 'declare it by y = process("y", k), else write E(...) around it'),
        (lambda: decay(-x[k](t)).replace(init={x[k]: A[0, p]}, tables={A: NUMBERS}), "`p` stands in its value alone"),
        (lambda: decay(-x[k](t)).replace(init={x[k]: sympy.Sum(k * p, (p, 0, 2))}), "is sympy's own Sum"),
        (lambda: driven(GP(sympy.Sum(A[k, p], (p, 0, 2)) * sympy.exp(-t - s))), "is sympy's own Sum"),
        (lambda: driven(White(A[k, p])), "joint white noise is a sum of independent ones"),
        (lambda: FixedPoint("point", eqs=[Eq(u[k], 1), Eq(unknown("v"), u[k])]), "`k` stands on the right and not"),
    ],
)
def test_what_check_says(make, words) -> None:
    with pytest.raises(ModelError) as error:
        eqsolve.check(make())
    assert words in str(error.value)


def test_a_sum_whose_terms_vanish_for_some_members() -> None:
    """x_k' = Σ_p (p < k) x_p − x_k and x_k' = Σ_p k x_p − x_k: nothing is added to the first member."""
    lower = sympy.Piecewise((x[p](t), p < k), (0, True))
    for term, matrix in ((lower, np.tri(3, k=-1)), (k * x[p](t), np.outer(range(3), np.ones(3)))):
        found = eqsolve.solve(decay(Sum(term, p) - x[k](t)), t_max=1, rtol=1e-6, at=[1.0]).at([1.0])
        truth = expm(matrix - np.eye(3)) @ np.ones(3)
        assert np.all(np.abs(found["x"].values[:, 0] - truth) <= 3 * found["x_error"].values[:, 0] + 1e-12)


def test_tables_are_held_against_their_indices() -> None:
    model = decay(-Sum(A[k, p] * x[p](t), p))
    for given, words in (
        (np.ones((3, 2)), "takes the shape (3, 3), got (3, 2)"),
        (np.full((3, 3), np.nan), "is not finite at [0, 0]"),
        ("@nowhere.npy", "takes an array, [1, 2] or @file.npy"),
    ):
        with pytest.raises(ParameterError) as error:
            eqsolve.solve(model, t_max=1, A=given)
        assert words in str(error.value)
    with pytest.raises(ParameterError, match="has no values"):
        eqsolve.solve(model.replace(tables={A: None}), t_max=1)
    huge = table("huge", *index("a b c", 20000))
    many = System("many", eqs=[Eq(x[k](t).diff(t), -huge[0, 0, 0] * x[k](t))], init={x[k]: 1}, tables={huge: lambda: 1 / 0})
    with pytest.raises(ParameterError, match="20000 × 20000 × 20000 numbers, 59605 GB; that does not fit"):
        eqsolve.solve(many, t_max=1)


def test_a_table_is_part_of_the_signature() -> None:
    from eqsolve.passes.forms.structure import signature_of

    model = decay(-Sum(A[k, p] * x[p](t), p))
    assert signature_of(model) != signature_of(model.replace(tables={A: 2 * NUMBERS}))


def test_a_size_may_be_a_parameter(caplog) -> None:
    """x_k' = −k x_k with N members; the last is e^{−(N−1)}."""
    N = param("N", integer=True, positive=True)
    i = index("i", N)
    z = function("z", i)
    model = System("sized", eqs=[Eq(z[i](t).diff(t), -i * z[i](t))], init={z[i]: 1}, defaults={N: 2})
    for count in (0, 2.5):
        with pytest.raises(ParameterError, match=f"must be a whole number > 0, got {count}"):
            eqsolve.solve(model, N=count, t_max=1)
    for count in (2, 5):
        result = eqsolve.solve(model, N=count, t_max=1, rtol=1e-8)
        assert result["z"].dims == ("i", "t")
        assert result["z"].sizes["i"] == count == result.params["N"]
        np.testing.assert_allclose(result["z"][:, -1], np.exp(-np.arange(count)), rtol=1e-8)
    assert "nothing uses" not in caplog.text


def test_boundaries_by_cases() -> None:
    """Discrete diffusion with a fixed left end against the matrix exponential."""
    from scipy.linalg import expm

    n = 5
    i = index("i", n)
    u = function("u", i)
    left = sympy.Piecewise((1, sympy.Eq(i, 0)), (u[i - 1](t), True))
    model = System("chain", eqs=[Eq(u[i](t).diff(t), left - u[i](t))], init={u[i]: 0})
    found = eqsolve.solve(model, t_max=2, rtol=1e-9)
    matrix = -np.eye(n) + np.diag(np.ones(n - 1), -1)
    truth = np.linalg.solve(-matrix, (np.eye(n) - expm(2 * matrix)) @ np.eye(n)[0])
    np.testing.assert_allclose(found["u"][:, -1], truth, rtol=1e-8)


def test_deltas() -> None:
    """Kronecker's symbol in sums, alone, in starts, in memory, in fixed points and in covariances, against closed forms."""
    delta, rates = sympy.KroneckerDelta, NUMBERS + np.eye(3)
    others = NUMBERS * (1 - np.eye(3))
    apart = decay(-x[k](t) - Sum((1 - delta(k, p)) * A[k, p] * x[p](t), p))
    np.testing.assert_allclose(eqsolve.solve(apart, at=[1.0])["x"][:, -1], expm(-np.eye(3) - others).sum(axis=1), rtol=1e-9)
    own = Sum(delta(k, p) * (A[k, p] + 1) * x[p](t), p)
    driven = system(Eq(x[k](t).diff(t), delta(k, 1) - own)).replace(init={x[k]: delta(k, 0)})
    truth = [np.exp(-rates[0, 0]), (1 - np.exp(-rates[1, 1])) / rates[1, 1], 0]
    np.testing.assert_allclose(eqsolve.solve(driven, at=[1.0])["x"][:, -1], truth, rtol=1e-9, atol=1e-12)
    past = Sum(delta(k, p) * (A[k, p] + 1) * sympy.exp(s - t) * x[p](s), p)
    found = eqsolve.solve(decay(-Int(past, (s, 0, t))), at=[1.0])["x"][:, -1]
    np.testing.assert_allclose(found, [expm(np.array([[0, -1], [a, -1]]))[0, 0] for a in rates.diagonal()], rtol=1e-9)
    point = FixedPoint("point", eqs=[Eq(u[k], 1 + Sum((1 - delta(k, p)) * A[k, p] * u[p], p))], tables={A: NUMBERS})
    np.testing.assert_allclose(eqsolve.solve(point)["u"], np.linalg.solve(np.eye(3) - others, np.ones(3)), rtol=1e-12)
    w, z, C = process("w", k), process("z", k), correlation("C", k)
    eqs = [Eq(w[k](t).diff(t), z[k](t) - w[k](t)), Eq(C[k](t, s), E(w[k](t) * w[k](s)))]
    laws = {z[k]: GP(delta(k, p) * sympy.exp(-t - s))}
    noisy = System("noisy", eqs=eqs, laws=laws, init={w[k]: 0}, observables={"q": C[k](t, t)})
    np.testing.assert_allclose(eqsolve.solve(noisy, at=[1.0], rtol=1e-6)["q"][:, -1], np.exp(-2), rtol=1e-6)  # w = z t e^{−t}


def test_white_noise_that_is_joint() -> None:
    """x' = −x + R ξ with independent white ξ: E x x^T = R R^T (1 − e^{−2t})/2."""
    w, z = process("w z", k)
    model = System("joint", eqs=[Eq(w[k](t).diff(t), -w[k](t) + Sum(A[k, p] * z[p](t), p))], laws={z[k]: White(1)},
                   init={w[k]: 0}, tables={A: NUMBERS}, observables={"square": E(w[k](t) * w[p](t))})  # fmt: skip
    found = eqsolve.solve(model, at=[1.0], rtol=1e-6)["square"]
    np.testing.assert_allclose(found[:, :, -1], NUMBERS @ NUMBERS.T * (1 - np.exp(-2)) / 2, rtol=1e-6)


def test_random_members_are_independent() -> None:
    """E (w_0 + w_1)² = 2 for independent standard members; the mean of a product of two vanishes."""
    w = random("w", Normal(0, 1), k)
    f, g = unknown("f", positive=True), unknown("g")
    model = FixedPoint("moments", eqs=[Eq(f, E((w[0] + w[1]) ** 2)), Eq(g, E(w[0] * w[2]))])
    found = eqsolve.solve(model)
    assert abs(float(found["f"]) - 2) < 1e-12
    assert abs(float(found["g"])) < 1e-12


def test_results_carry_the_index(tmp_path) -> None:
    """A dimension named after the index, in memory, in files, in JSON, at other times."""
    model = decay(-(k + 1) * x[k](t)).replace(observables={"total": Sum(x[p](t), p), "square": x[k](t) ** 2})
    found = eqsolve.solve(model, t_max=1, rtol=1e-9)
    truth = np.exp(-np.arange(1, 4))
    np.testing.assert_allclose(found["x"][:, -1], truth, rtol=1e-8)
    np.testing.assert_allclose(found["square"].sel(k=2)[-1], truth[2] ** 2, rtol=1e-8)
    np.testing.assert_allclose(found.at([0.5])["x"][:, 0], np.exp(-np.arange(1, 4) / 2), rtol=1e-8)
    assert np.all(found.error["x"] >= 0)
    assert found.error["x"].dims == ("k", "t")
    assert np.shape(found.json_object(at=[0.5, 1.0])["values"]["x"]) == (3, 2)
    found.save(tmp_path / "x.nc")
    assert eqsolve.open(tmp_path / "x.nc")["x"].equals(found["x"])
    assert len(found.plot("x").lines) == 3


def test_tables_stand_in_the_result(tmp_path) -> None:
    """Those that a function makes and those that are given; in files; one over an index is drawn over it."""
    a, rate, square = param("a", positive=True), table("rate", k), table("square", k, k)
    tables = {rate: squares, square: NUMBERS}
    model = decay(-rate[k] * square[k, 1] * x[k](t)).replace(tables=tables, defaults={a: 2})
    for given in ({}, {"rate": [3, 1, 2]}):
        eqsolve.solve(model, t_max=1, **given).save(tmp_path / "x.nc")
        found = eqsolve.open(tmp_path / "x.nc")
        truth = given.get("rate", [4, 8, 12])
        np.testing.assert_array_equal(found["rate"], truth)
        np.testing.assert_array_equal(found["square"], NUMBERS)
        assert found["square"].dims == ("k", "k'")
        np.testing.assert_array_equal(found.plot("rate").lines[0].get_ydata(), truth)
        assert "rate" not in found.names
        assert list(found.to_dataframe()) == [f"x_{place}{end}" for place in range(3) for end in ("", "_error")]
    with pytest.raises(eqsolve.UsageError, match="`square` carries the indices k, k'; a drawing is over one index"):
        found.plot("square")
    u = unknown("u", k)
    still = eqsolve.solve(FixedPoint("still", eqs=[Eq(u[k], rate[k])], tables={rate: [3, 1, 2]}))
    assert len(still.plot("u", "rate").lines) == 2


def test_memory_with_a_family() -> None:
    """y_k' = −∫ a_k e^{−(t−s)} y_k ds has the closed form of a damped oscillator."""
    a = table("a", k)
    model = System(
        "damped",
        eqs=[Eq(x[k](t).diff(t), -Int(a[k] * sympy.exp(s - t) * x[k](s), (s, 0, t)))],
        init={x[k]: 1},
        tables={a: [0.1, 1.0, 4.0]},
    )
    found = eqsolve.solve(model, t_max=5, rtol=1e-8)
    for place, strength in enumerate((0.1, 1.0, 4.0)):
        roots = np.roots([1.0, 1.0, strength])  # y'' + y' + a y = 0 with y = 1, y' = 0
        weights = np.linalg.solve([[1, 1], roots], [1, 0])
        truth = (weights @ np.exp(np.outer(roots, found["x"]["t"].values))).real
        error = found.error["x"][place].values
        assert np.all(np.abs(found["x"][place].values - truth) <= 3 * error + 1e-13)


def test_sums_under_integrals_read_all_times() -> None:
    """y_k' = −∫ Σ_p A_kp y_p(t) y_p(s) y_k(t − s) ds on arrays and with members written out."""
    from eqsolve.passes.rewrite.indices import expand

    inside = Sum((1 + A[k, p]) * x[p](t) * x[p](s), p) * x[k](t - s)
    model = decay(-Int(inside, (s, 0, t)))
    written = expand(model)
    plain = eqsolve.solve(written.model, t_max=3, rtol=1e-7, **written.settings({"A": NUMBERS}))
    found = eqsolve.solve(model, t_max=3, rtol=1e-7)
    for place in range(3):
        room = plain.error[f"x_{place}"][-1].item() + found.error["x"][place, -1].item()
        assert abs(plain[f"x_{place}"][-1].item() - found["x"][place, -1].item()) <= 3 * room + 1e-12


def test_derivatives_pass_through_tables() -> None:
    """x_k = e^{−a (k + 1) t}, the rates by a function of a: dx_k/da = −(k + 1) t x_k; and a fixed point."""
    a = param("a", positive=True)
    rate = table("rate", k)
    made = {rate: lambda a: a * np.arange(1, 4)}
    model = System("rates", eqs=[Eq(x[k](t).diff(t), -rate[k] * x[k](t))], init={x[k]: 1}, tables=made, defaults={a: 0.7})
    found = eqsolve.solve(model, t_max=2, rtol=1e-6, derivatives=["a"])
    moments = found["t"].values
    for place in range(3):
        slope = found.derivative(f"x_{place}", "a")
        truth = -(place + 1) * moments * np.exp(-0.7 * (place + 1) * moments)
        assert np.all(np.abs(slope.values - truth) <= 3 * slope["error"].values + 1e-9)
    f = unknown("f", k, domain=(0, 10))
    still = FixedPoint("still", eqs=[Eq(f[k] ** 2, rate[k] ** 2)], tables=made, defaults={a: 0.7})
    slopes = eqsolve.solve(still, derivatives=["a"])
    for place in range(3):
        assert abs(float(slopes.derivative(f"f_{place}", "a")) - (place + 1)) < 1e-9


def squares(a):
    return np.round(a**2 * np.arange(1, 4), 9)  # (no function to take differences of)


def slopes_of_squares(a):
    return 2 * a * np.arange(1, 4)


def test_a_table_gives_its_own_derivative() -> None:
    """x_k = e^{−c a² (k + 1) t}, on arrays and with members written out; noise of variance a² (k + 1); a fixed point."""
    a, c, rate = param("a", positive=True), param("c", positive=True), table("rate", k)
    given = {"tables": {rate: (squares, {a: slopes_of_squares})}, "defaults": {a: 0.7, c: 1}}
    number = np.arange(1, 4)[:, None]
    on_arrays = Sum(sympy.KroneckerDelta(k, p) * rate[p] * x[p](t), p)
    for right in (rate[k] * x[k](t), on_arrays):
        model = System("rates", eqs=[Eq(x[k](t).diff(t), -c * right)], init={x[k]: 1}, **given)
        found = eqsolve.solve(pickle.loads(pickle.dumps(model)), t_max=2, rtol=1e-6, derivatives=["a", "c"])
        slope, other, moments = found.derivative("x", "a"), found.derivative("x", "c"), found["t"].values
        whole = np.exp(-0.49 * number * moments)
        assert np.all(np.abs(slope + 1.4 * number * moments * whole) <= 3 * slope["error"] + 1e-12)
        assert np.all(np.abs(other + 0.49 * number * moments * whole) <= 3 * other["error"] + 1e-12)
        assert slope["error"].max() < 1e-6
    w, z = process("w z", k)
    noisy = System("noisy", eqs=[Eq(w[k](t).diff(t), z[k](t))], laws={z[k]: White(rate[k])}, init={w[k]: 0},
                   observables={"v": E(w[k](t) ** 2)}, tables=given["tables"], defaults={a: 0.7})  # fmt: skip
    slope = eqsolve.solve(noisy, t_max=1, rtol=1e-6, derivatives=["a"]).derivative("v", "a")
    np.testing.assert_allclose(slope[:, -1], 1.4 * np.arange(1, 4), rtol=1e-9)
    still = FixedPoint("still", eqs=[Eq(u[k], 1 + a * rate[k] * u[k] / 4)], tables=given["tables"], defaults={a: 0.7})
    slopes = eqsolve.solve(still, derivatives=["a"]).derivative("u", "a")
    by = np.arange(1, 4) / 4
    np.testing.assert_allclose(slopes, 3 * 0.49 * by / (1 - 0.343 * by) ** 2, rtol=1e-7)


def test_what_is_no_derivative_of_a_table() -> None:
    a, c, rate = param("a", positive=True), param("c", positive=True), table("rate", k)
    for along, slope, words in (
        (c, slopes_of_squares, "are functions of parameters that the tables are made of, a"),
        (a, np.ones(3), "are functions of parameters that the tables are made of, a"),
        (a, lambda a: np.ones(2), "the derivative along `a` of the table `rate[k]` takes the shape (3,), got (2,)"),
    ):
        with pytest.raises(ModelError) as error:
            eqsolve.check(decay(-rate[k] * x[k](t)).replace(tables={rate: (squares, {along: slope})}, defaults={a: 0.7}))
        assert words in str(error.value)


def test_sympy_may_look_at_signs() -> None:
    """It takes sums over indices apart, and differentiates by a member: nothing for users to see."""
    k, p = index("k p", 4)
    J, m, w = table("J", k, p), unknown("m", k, positive=True), random("w", Normal(0, 1))
    field = Sum(J[k, p] * m[p], p)
    assert sympy.Heaviside(field - 1 + w).has(Sum)
    assert sympy.tanh(field + sympy.sqrt(m[k]) * w).has(Sum)
    with pytest.raises(ModelError, match="the derivative by"):
        (m[k] ** 2).diff(m[k])


def test_starts_and_digits_of_families() -> None:
    """Of u² = u²/4 + 3 the start chooses the signs; u = u/4 + 1 has a third of many digits."""
    k, p = index("k p", 3)
    A, u = table("A", k, p), unknown("u", k)
    model = FixedPoint("signs", eqs=[Eq(u[k] ** 2, Sum(A[k, p] * u[p] ** 2, p) + 3)], tables={A: np.eye(3) / 4})
    signs = np.array([1, -1, -1])
    found = eqsolve.solve(model, start={f"u_{place}": 1.5 * sign for place, sign in enumerate(signs)})
    np.testing.assert_allclose(found["u"], 2 * signs, rtol=1e-14)
    np.testing.assert_allclose(eqsolve.solve(model, start=found)["u"], 2 * signs, rtol=1e-14)
    with pytest.raises(eqsolve.UsageError, match="no unknown `v_0`"):
        eqsolve.solve(model, start={"v_0": 1})
    linear = FixedPoint("linear", eqs=[Eq(u[k], Sum(A[k, p] * u[p], p) + 1)], tables={A: np.eye(3) / 4})
    digits = eqsolve.solve(linear, precision=30).stats["digits"]
    assert digits["u_2"].startswith("1.33333333333333333333333333")
