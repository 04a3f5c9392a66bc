"""Wrong fixed points, transform equations and flows, each with the one message it must give."""

import pytest
from sympy import Symbol, asinh, sqrt

import eqsolve
from eqsolve import (
    E,
    Eq,
    FixedPoint,
    Flow,
    Inverse,
    Singularity,
    field,
    gradient,
    normal,
    param,
    process,
    random,
    state,
    symbol,
    times,
    unknown,
)
from eqsolve.errors import ModelError
from eqsolve.laws import Bernoulli, Normal

t, s = times("t s")
alpha, delta = param("alpha delta", positive=True)
w_star = random("w_star", Bernoulli(0.1))
xi = random("xi", Normal(0, alpha))
v = random("v")
C, R, m, p = unknown("C R m p", positive=True)
z = normal("z", variance=delta * C)
y = symbol("y")
x = process("x")
a, b = state("a b")
f, f_star, f_more = field("f f_star f_more")
g, g_star, g_more = gradient("g g_star g_more")
root = Inverse(y + R * asinh(y / alpha), y)(w_star - R * z)


def fixed_point(*, eqs=None, **parts):
    """A sound fixed point, with parts exchanged."""
    balance = [Eq(C, E((root - w_star) ** 2)), Eq(delta, E(1 / (1 + R / sqrt(root**2 + alpha))))]
    return FixedPoint("fixed", eqs if eqs is not None else balance, **{"variables": {"w": root}, **parts})


def transform(equation=None, **parts):
    """A sound transform equation, with parts exchanged."""
    sound = equation or Eq(R, (p + R) / delta * E(v**2 / (p + R + v**2)))
    given = {"variable": p, "unknown": R, "law_of": [(delta < 1, "first"), (delta > 1, "second")], **parts}
    return Singularity("rate", transform=sound, **given)


def flow(**parts):
    """A sound flow, with parts exchanged."""
    sound = {
        "state": {a: alpha, b: Normal(0, 1)},
        "weights": [a**2 - b**2, w_star],
        "fields": [f, f_star],
        "loss_gradient": [f - f_star - xi, 0],
        "gradients": [g, g_star],
        "drift": {a: -a * g, b: b * g},
        "observables": {"train": E((f - f_star) ** 2), "test": E((a**2 - b**2 - w_star) ** 2) + alpha},
    }
    return Flow("descent", **{**sound, **parts})


@pytest.mark.parametrize("build", [fixed_point, transform, flow])
def test_the_sound_models_pass(build):
    assert eqsolve.check(build()) is None


# fmt: off
FIXED_POINTS = {
    "fewer equations than unknowns": (lambda: fixed_point(eqs=[Eq(C, E(root**2))]),
        "has 1 equation (test_check_kinds.py:", "for 2 unknowns (`C`, `R`); expected as many equations"),
    "more equations than unknowns": (lambda: fixed_point(eqs=[Eq(C, alpha), Eq(2 * C, alpha)], variables={}),
        "has 2 equations", "for 1 unknown (`C`)"),
    "undefined symbol": (lambda: fixed_point(eqs=[Eq(C, Symbol("delt")), Eq(R, C)]),
        "equation for `C` (test_check_kinds.py:", "uses `delt`", "did you mean `delta`?"),
    "random variable outside E": (lambda: fixed_point(eqs=[Eq(C, w_star), Eq(R, C)]),
        "equation for `C`", "uses the random variable `w_star` outside an expectation"),
    "root of a random variable outside E": (lambda: fixed_point(observables={"w": 2 * w_star}, variables={}),
        "observable `w` (test_check_kinds.py:", "uses the random variable `w_star` outside"),
    "expectation inside an expectation": (lambda: fixed_point(eqs=[Eq(C, E(w_star * E(w_star))), Eq(R, C)]),
        "has an expectation inside an expectation"),
    "random variable without law": (lambda: fixed_point(eqs=[Eq(C, E(v)), Eq(R, C)]),
        "random variable `v` of model `fixed`", "has no law"),
    "a time": (lambda: fixed_point(eqs=[Eq(C, t), Eq(R, C)]),
        "uses the time `t`, which has no place here"),
    "a process": (lambda: fixed_point(eqs=[Eq(C, E(x(0))), Eq(R, C)]),
        "uses `x(0)`; only a System has functions of time"),
    "bound variable leaks": (lambda: fixed_point(eqs=[Eq(C, y), Eq(R, C)]),
        "uses the bound variable `y` outside the inverse function"),
    "closed form of no unknown": (lambda: fixed_point(exact={"D": alpha}),
        "the closed form of `D`", "belongs to no unknown or observable"),
    "observable named like an unknown": (lambda: fixed_point(observables={"C": 2 * C}),
        "has observable `C`, named like the unknown `C`"),
    "observable named like a variable": (lambda: fixed_point(observables={"w": C}),
        "has an observable and a variable named `w`"),
    "condition on an unknown": (lambda: fixed_point(conditions=[R > 1]),
        "the condition `R > 1`", "uses `R`; expected parameters only"),
}
SINGULARITIES = {
    "random variable outside E": (lambda: transform(Eq(R, p * v / delta + E(v))),
        "equation for `R` (test_check_kinds.py:", "uses the random variable `v` outside an expectation"),
    "no law": (lambda: transform(law_of=()),
        "random variable `v` of model `rate`", "has no law"),
    "a further unknown": (lambda: transform(Eq(R, p * m * E(v))),
        "uses the unknown `m`, which is neither its variable `p` nor its transform `R`"),
    "one symbol for both": (lambda: transform(Eq(R, E(v) / (1 + R)), variable=R),
        "has `R` as its variable and as its unknown"),
    "model given by a path": (lambda: transform(law_of="models/first.py"),
        "law_of= names the model 'models/first.py'; expected a model's name"),
    "condition on the transform": (lambda: transform(law_of=[(R < 1, "first")]),
        "the condition `R < 1` in law_of= uses `R`; expected parameters only"),
    "a law nothing needs": (lambda: transform(Eq(R, p / delta)),
        "law_of= gives a law, but no random variable appears"),
    "undefined symbol": (lambda: transform(observables={"gamma": -Symbol("P")}),
        "observable `gamma`", "uses `P`, a plain sympy symbol", "did you mean `p`?"),
}
FLOWS = {
    "weight of a gradient": (lambda: flow(weights=[a * g, w_star]),
        "the weight of `f` (test_check_kinds.py:", "depends on the gradient `g`"),
    "weight of a field": (lambda: flow(weights=[a * f_star, w_star]),
        "the weight of `f`", "depends on the field `f_star`"),
    "loss of a state": (lambda: flow(loss_gradient=[f - f_star - a, 0]),
        "the loss gradient of `g`", "depends on the state `a`", "sample by sample"),
    "loss of a gradient": (lambda: flow(loss_gradient=[f - f_star - g, 0]),
        "the loss gradient of `g`", "depends on the gradient `g`"),
    "drift of a field": (lambda: flow(drift={a: -f, b: b * g}),
        "the drift of `a`", "depends on the field `f`"),
    "unused field": (lambda: flow(weights=[a, w_star, b], fields=[f, f_star, f_more],
                                  loss_gradient=[f - f_star, 0, 0], gradients=[g, g_star, g_more]),
        "has the field `f_more`, which no loss gradient and no observable uses"),
    "gradient of nothing": (lambda: flow(drift={a: -a * g_star, b: b * g}),
        "has the gradient `g_star` in a drift, but its loss gradient is 0"),
    "undefined symbol": (lambda: flow(drift={a: -a * g * Symbol("lam"), b: b * g}),
        "the drift of `a`", "uses `lam`, a plain sympy symbol"),
    "random variable without law": (lambda: flow(drift={a: -a * g * v, b: b * g}),
        "random variable `v` of flow `descent`", "has no law"),
    "state outside E": (lambda: flow(observables={"train": E(f_star), "size": a**2}),
        "observable `size`", "uses the state `a` outside an expectation"),
    "coordinates and samples in one E": (lambda: flow(observables={"train": E((f - a) ** 2) + E(f_star)}),
        "observable `train`", "mixes `a`, which lives on the d coordinates, and `f`, which lives on the n"),
    "teacher and field in one E": (lambda: flow(observables={"train": E((f - w_star) ** 2)}),
        "mixes `w_star`, which lives on the d coordinates, and `f`"),
    "teacher in the loss": (lambda: flow(loss_gradient=[f - f_star - w_star, 0]),
        "uses `w_star` per coordinate (weights, drift or start) and per sample (loss gradient)"),
    "unlisted gradient": (lambda: flow(drift={a: -a * gradient("g_sta"), b: b * g}),
        "uses the gradient `g_sta`, which gradients= does not list; did you mean `g_star`?"),
    "field listed twice": (lambda: flow(fields=[f, f], loss_gradient=[f - xi, 0], observables={"l": E(f**2)}),
        "lists `f` twice in fields="),
    "two times": (lambda: flow(drift={a: -a * g * t, b: b * g * s}),
        "uses 2 times, `s`, `t`; expected one"),
    "expectation in a drift": (lambda: flow(drift={a: -a * g * E(a), b: b * g}),
        "the drift of `a`", "contains the expectation `E[a]`"),
    "ratio that is a number": (lambda: flow(ratio=2), "ratio= takes a parameter, got `2`"),
    "initial value of another state": (lambda: flow(state={a: b, b: 1}),
        "the initial value of `a`", "depends on the state `b`"),
}
# fmt: on
ALL = {
    f"{kind}: {name}": row
    for kind, table in (("fixed point", FIXED_POINTS), ("singularity", SINGULARITIES), ("flow", FLOWS))
    for name, row in table.items()
}


@pytest.mark.parametrize("name", ALL)
def test_one_mistake_gives_one_message(name):
    build, *says = ALL[name]
    with pytest.raises(ModelError) as caught:
        eqsolve.check(build())
    (problem,) = caught.value.problems
    for words in says:
        assert words in problem


def test_an_unknown_in_no_equation_is_named():
    model = fixed_point(observables={"twice": 2 * m})
    with pytest.raises(ModelError) as caught:
        eqsolve.check(model)
    (problem,) = caught.value.problems  # and not a second one, that there are fewer equations than unknowns
    assert "has the unknown `m`, which appears in no equation" in problem
