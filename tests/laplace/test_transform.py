"""The symbolic transform layer: rules one by one, and the transform equations of whole systems."""

import pytest
from sympy import S, Symbol, exp, factor, simplify, sqrt

import eqsolve
from eqsolve import E, Eq, Int, ModelError, System, correlation, function, param, process, response, times
from eqsolve.language.symbols import Value
from eqsolve.laplace import Transform, transform_system
from eqsolve.laplace.transform import Rules

t, tp, s = times("t t' s")
p, q = Symbol("p"), Symbol("q")
a = param("a", positive=True)
f, g = function("f g")
C = correlation("C")
R = response("R")
F, G, K = (Transform(head)(p) for head in (f, g, R))
one = Rules(t, p)


def double(expr):
    return Rules(tp, q)(one(expr))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (a * f(t) + 2 * g(t), a * F + 2 * G),
        (f(t).diff(t), p * F - f(0)),
        (Int(f(s), (s, 0, t)), F / p),
        (Int(R(t, s) * f(s), (s, 0, t)), K * F),
        (Int(exp(-a * (t - s)) * f(s), (s, 0, t)), F / (p + a)),
        (Int(R(t, s) * (f(s) - a), (s, 0, t)), K * F - a * K / p),
        (exp(-a * t) * f(t), Transform(f)(p + a)),
        (f(t - a), exp(-a * p) * F),
        (a, a / p),
        (t, 1 / p**2),
        (exp(-t), 1 / (p + 1)),
    ],
)
def test_rules_of_one_time(expr, expected) -> None:
    assert factor(one(expr) - expected) == 0


def test_rules_of_time_differences() -> None:
    rules = Rules(t, p, start=tp)
    assert rules(R(t, tp)) == K
    assert rules(Int(R(t, s) * R(s, tp), (s, tp, t))) == K**2
    assert rules(R(t, tp).diff(t)) == p * K - R(tp, tp)
    with pytest.raises(ModelError, match="stationary"):
        rules(Int(R(t, s) * R(s, tp), (s, 0, t)))


def test_rules_of_two_times() -> None:
    both = Transform(C)(p, q)
    assert double(C(t, tp)) == both == double(C(tp, t))
    assert double(R(t, tp)) == K / (p + q)
    assert double(R(tp, t)) == Transform(R)(q) / (p + q)
    assert double(R(t, tp) * g(tp)) == K * Transform(g)(p + q)
    assert double(C(t, tp).diff(t)) == p * both - Transform(C)(S.Zero, q)
    assert double(C(t, tp).diff(tp)) == q * both - Transform(C)(p, S.Zero)
    assert double(f(t) * g(tp)) == F * Transform(g)(q)
    assert double(a) == a / (p * q)
    assert double(f(t)) == F / q
    assert double(Int(R(t, s) * C(s, tp), (s, 0, t))) == K * both
    assert double(Int(R(tp, s) * C(t, s), (s, 0, tp))) == Transform(R)(q) * both
    assert double(E((f(t) - a) * g(tp))) == E(double((f(t) - a) * g(tp)))


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        (f(t) ** 2, "linear"),
        (f(t) * g(t), "linear"),
        (Int(f(s), (s, 0, 2 * t)), "integral from 0 to t"),
        (Int(C(t, s) * f(s), (s, 0, t)), "response"),
    ],
)
def test_what_has_no_rule_is_refused(expr, words) -> None:
    with pytest.raises(ModelError, match=words):
        one(expr)


def plain(made, *expressions):
    """Replace transforms by symbols, which sympy's algebra takes."""
    names = {}
    for item in sorted(set().union(*(expr.atoms(Value) for expr in expressions)), key=str):
        names[item] = Symbol(str(item))
    return [expr.xreplace(names) for expr in expressions]


def test_the_linearised_network_gives_the_transform_equations_of_the_paper() -> None:
    made = transform_system(eqsolve.load("dln_linearized"))
    bar = made.bar("R_w")
    alpha, delta, w = made.system.symbols("alpha delta w")
    x = sqrt(w**2 + alpha**4)
    variable = made.variable
    closed = made.closed("R_w")
    assert closed.lhs == bar
    (mean,) = closed.rhs.atoms(E)
    front, inside, expected = plain(made, closed.rhs / mean - (1 + bar) / delta, mean.argument, x / (variable * (1 + bar) + x))
    assert factor(front) == 0
    assert simplify(inside - expected) == 0
    assert made.solved("R_f", "R_w") == bar / (1 + bar)
    both = made.bar("C_w", variable, made.second)
    expected = both / ((1 + bar) * (1 + bar.xreplace({variable: made.second})))
    (gap,) = plain(made, made.solved("C_f", "R_w") - expected)
    assert factor(gap) == 0


def test_noise_enters_the_double_transform() -> None:
    made = transform_system(eqsolve.load("linear_regression"))
    bar, sigma2 = made.bar("R_w"), made.system.symbols("sigma2")
    p_, q_ = made.variable, made.second
    both = made.bar("C_w", p_, q_)
    expected = (both + sigma2 / (p_ * q_)) / ((1 + bar) * (1 + bar.xreplace({p_: q_})))
    (gap,) = plain(made, made.solved("C_f", "R_w") - expected)
    assert factor(gap) == 0


def test_a_system_that_is_not_linear_is_refused_with_its_line() -> None:
    x = process("x")
    cubic = System("cubic", eqs=[Eq(x(t).diff(t), -(x(t) ** 3))], init={x: 1})
    with pytest.raises(ModelError, match=r"equation for `x` \(test_transform.py:\d+\).*linear"):
        transform_system(cubic)


def test_the_rate_model_of_a_system_is_the_declared_one() -> None:
    made = transform_system(eqsolve.load("dln_linearized"))
    derived = made.rate_model("derived", "R_w", factor_out=True)
    declared = eqsolve.load("dln_rate")
    settings = {"alpha": 0.5, "delta": 2}
    one, two = eqsolve.solve(derived, **settings), eqsolve.solve(declared, sigma2=0, **settings)
    assert float(one["gamma"]) == pytest.approx(float(two["gamma"]), rel=1e-13)
