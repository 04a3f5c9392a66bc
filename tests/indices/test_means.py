"""Fixed points of families with expectations: compiled once for all members, against members written out and known means."""

import numpy as np
import pytest
import sympy
from scipy.optimize import fsolve
from scipy.special import ndtr
from sympy import Heaviside, Max, exp, sqrt, tanh
from sympy.core.cache import clear_cache

import eqsolve
from eqsolve import E, Eq, FixedPoint, Inverse, Sum, index, normal, param, random, symbol, table, unknown
from eqsolve.compile import fixed_point, lowering
from eqsolve.compile.forms import FAMILIES
from eqsolve.compile.plan import make_task
from eqsolve.laws import Bernoulli, Normal, Uniform
from eqsolve.passes.rewrite.indices import why_written_out, written_out
from tests.sympy_calls import calls_into_sympy

SIZE = 4
k, p = index("k p", SIZE)
J, s = table("J", k, p), table("s", k)
m, q, c = unknown("m", k, positive=True), unknown("q", k, positive=True), unknown("c", positive=True)
w, v, b = random("w", Normal(0, 1)), random("v", Uniform(-1, 1)), random("b", Bernoulli(0.3))
y, beta = symbol("y"), param("beta", positive=True)
COUPLINGS = np.random.default_rng(0).random((SIZE, SIZE)) / SIZE + np.eye(SIZE) / 2
SPREADS = np.linspace(0.4, 1.2, SIZE)
field = Sum(J[k, p] * m[p], p)


def fixed_point_of(*eqs: Eq, **more: object) -> FixedPoint:
    return FixedPoint("means", eqs=eqs, tables={J: COUPLINGS, s: SPREADS}, **more)


@pytest.mark.parametrize(
    "right",
    [
        0.3 * E(Max(0, field + s[k] * w)),
        0.6 * E(Heaviside(field - 1 + s[k] * w)),
        pytest.param(0.6 * E(tanh(field * b + s[k] * w) ** 2), marks=pytest.mark.slow),
        pytest.param(0.6 * E(tanh(field * v + s[k]) ** 2), marks=pytest.mark.slow),
        pytest.param(0.3 * E(Inverse(y + field * tanh(y), y)(s[k] * w + 1) ** 2), marks=pytest.mark.slow),
        pytest.param(0.1 * E((field * w + s[k]) ** 2), marks=pytest.mark.slow),
        Sum(J[k, p] * E(tanh(m[p] * s[p] * w) ** 2), p) / 4,
        0.1 * E(tanh(sympy.Piecewise((field, sympy.Eq(k, 0)), (s[k] * k, True)) * w) ** 2),
    ],
    ids=["kink", "jump", "points", "density", "inverse", "polynomial", "sum of means", "cases"],
)
def test_members_written_out(right) -> None:
    """The same numbers, to the errors of both."""
    model = fixed_point_of(
        Eq(m[k], sympy.Rational(1, 5) + right), observables={"o": m[k] * E(tanh(m[k] * s[k] * w) ** 2) + field}
    )
    assert not why_written_out(model)
    found, other = eqsolve.solve(model), eqsolve.solve(written_out(model, {})[0])
    assert set(found.names) == set(other.names)
    assert found["m"].dims == found["o"].dims == ("k",)
    for name in other.names:
        assert abs(float(found[name] - other[name])) <= float(found.error[name] + other.error[name]), name
        assert float(found.error[name]) < 1e-13


def test_unknowns_beside_families_and_implicit_equations() -> None:
    eqs = [Eq(m[k] + m[k] ** 3, 0.2 + E(tanh(c * field * w) ** 2)), Eq(c, 0.5 + Sum(m[p], p) * E(tanh(c * w) ** 2) / SIZE)]
    model = FixedPoint("mixed", eqs=eqs, tables={J: COUPLINGS})
    found, other = eqsolve.solve(model), eqsolve.solve(written_out(model, {})[0])
    for name in other.names:
        assert abs(float(found[name] - other[name])) <= float(found.error[name] + other.error[name]), name


def test_a_random_variable_for_each_member() -> None:
    """Independent members with variances of their own: P(field − 1 + z > 0) is a normal distribution function."""
    z = normal("z", k, variance=s[k] ** 2 + q[k], mean=-1)
    eqs = [Eq(m[k], 0.2 + 0.6 * E(Heaviside(field + z[k]))), Eq(q[k], E((z[k] + 1) ** 2) / 2)]
    found = eqsolve.solve(fixed_point_of(*eqs))
    np.testing.assert_allclose(found["q"], SPREADS**2, rtol=1e-14)
    spread = np.sqrt(2) * SPREADS
    exact = fsolve(lambda x: 0.2 + 0.6 * ndtr((COUPLINGS @ x - 1) / spread) - x, np.full(SIZE, 0.5), xtol=1e-14)
    assert np.all(np.abs(found["m"] - exact) <= found.error["m"] + 1e-15)


def test_laws_of_families_that_are_not_normal() -> None:
    """E e^{a u} of a uniform variable is known; another law can be set for all members."""
    u = random("u", Uniform(0, 1), k)
    model = fixed_point_of(Eq(m[k], E(exp(field * u[k])) / 4 + 0 * s[k]))
    found = eqsolve.solve(model.replace(tables={s: None}), start={f"m_{place}": 0.4 for place in range(SIZE)})
    values = COUPLINGS @ found["m"].values
    np.testing.assert_allclose(found["m"], (np.exp(values) - 1) / values / 4, rtol=1e-13)
    other = eqsolve.solve(model.replace(tables={s: None}), u=Normal(0, 0.5))
    np.testing.assert_allclose(other["m"], np.exp((COUPLINGS @ other["m"].values) ** 2 / 4) / 4, rtol=1e-13)


def test_uniform_variables_of_other_widths() -> None:
    """u_k ~ Uniform(0, s_k): E e^{a u_k} = (e^{a s_k} − 1)/(a s_k)."""
    u = random("u", Uniform(0, s[k]), k)
    found = eqsolve.solve(
        fixed_point_of(Eq(m[k], E(exp(field * u[k])) / 4)), start={f"m_{place}": 0.4 for place in range(SIZE)}
    )
    values = COUPLINGS @ found["m"].values * SPREADS
    np.testing.assert_allclose(found["m"], (np.exp(values) - 1) / values / 4, rtol=1e-13)


def test_what_is_taken_over_several_members_is_written_out() -> None:
    z = random("z", Normal(0, 1), k)
    for right in (E(tanh(Sum(J[k, p] * z[p], p) * m[k]) ** 2), E(tanh(z[0] * m[k]) ** 2)):
        assert "several members" in why_written_out(fixed_point_of(Eq(m[k], 0.2 + right)))


@pytest.mark.parametrize("most", [64, pytest.param(200, marks=pytest.mark.slow)])
def test_symbolic_work_does_not_grow_with_the_size(most, monkeypatch) -> None:
    """Of 4 and more members: the same functions are made, with about as many calls into sympy."""
    calls: list[int] = []
    for module in (lowering, fixed_point):
        original = module.as_function
        monkeypatch.setattr(module, "as_function", lambda *a, own=original, **o: calls.append(1) or own(*a, **o))
    spent: dict[int, tuple[int, int]] = {}
    for turn, count in enumerate((4, most)):
        a, d = index("a d", count)
        g, x, z = table("g", a, d), unknown("x", a, positive=True), random("z", Normal(0, 1), a)
        inside = beta * Sum(g[a, d] * x[d], d)
        model = FixedPoint(f"turn_{turn}", eqs=[Eq(x[a], E(tanh(inside + sqrt(x[a]) * z[a]) ** 2))], tables={g: np.eye(count)})
        clear_cache()
        calls.clear()
        with calls_into_sympy() as entered:
            eqsolve.check(model)
            program = make_task(model, {"beta": 1.5}).plan.program(FAMILIES)
        assert len(program.means) == 1
        spent[count] = (entered.total(), len(calls))
    assert spent[4][1] == spent[most][1] > 0
    assert spent[most][0] < 1.5 * spent[4][0], spent


@pytest.mark.slow
def test_what_else_can_be_asked() -> None:
    """Starts, more digits and derivatives, as without an index; further means where members are written out."""
    inside = beta * (field + s[k] * w)
    model = fixed_point_of(Eq(m[k], E(tanh(inside) ** 2)), defaults={beta: 1.5})
    found = eqsolve.solve(model, derivatives=["beta"])
    again = eqsolve.solve(model, start=found)
    near = eqsolve.solve(model, start={name: 0.4 for name in found.names})
    precise = eqsolve.solve(model, precision=25)
    plain = eqsolve.solve(written_out(model, {})[0])
    slopes = found.derivative("m", "beta")
    for place in range(SIZE):
        name = f"m_{place}"
        for other in (again, near, precise):
            assert float(other[name]) == pytest.approx(float(found[name]), rel=1e-14)
        assert abs(slopes[place] - plain.derivative(name, "beta")) <= slopes["error"][place]
        assert precise.derivative(name, "beta") == pytest.approx(plain.derivative(name, "beta"), rel=1e-12)
    assert float(precise.expect(w**2)[0]) == pytest.approx(1)
    with pytest.raises(eqsolve.UsageError, match="what has indices with precision=16"):
        again.law("w")
    with pytest.raises(eqsolve.UsageError, match="no unknown `n_0`"):
        eqsolve.solve(model, start={"n_0": 1})


def test_sympy_may_look_at_signs() -> None:
    """It takes sums over indices apart, and differentiates by a member: nothing for users to see."""
    assert Heaviside(field - 1 + s[k] * w).has(Sum)
    assert tanh(field + sqrt(m[k]) * w).has(Sum)
    assert (m[k] - 1).is_zero is None
    with pytest.raises(eqsolve.ModelError, match="the derivative by"):
        (m[k] ** 2).diff(m[k])
