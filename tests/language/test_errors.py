"""Mistakes that are caught where they are written: each gives its own message, with the line it stands in."""

import pickle

import numpy as np
import pytest
import sympy
from sympy import Symbol

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    FixedPoint,
    Flow,
    Int,
    Inverse,
    Resp,
    Singularity,
    System,
    correlation,
    field,
    function,
    gradient,
    param,
    process,
    random,
    response,
    state,
    symbol,
    times,
    unknown,
)
from eqsolve.errors import EqsolveError, ModelError, ParameterError, did_you_mean
from eqsolve.laws import Bernoulli, Discrete, Empirical, Laplace, Mixture, Normal, Point, Product, Uniform

t, tp, s = times("t t' s")
alpha = param("alpha", positive=True)
w, z = process("w z")
mu = function("mu")
C, R = correlation("C"), response("R")
p, q = unknown("p q")
y = symbol("y")
a = state("a")
f, g = field("f"), gradient("g")


def system(**parts):
    """A sound system of one equation, with parts exchanged."""
    return System(**{"name": "m", "eqs": [Eq(w(t).diff(t), -w(t))], "init": {w: 0}, **parts})


def flow(**parts):
    """A sound flow of one component, with parts exchanged."""
    sound = {"state": {a: 1}, "weights": [a], "fields": [f], "loss_gradient": [f], "gradients": [g]}
    return Flow("m", **{**sound, "drift": {a: -g}, **parts})


# fmt: off
SYMBOLS = {
    "one time instead of two": (lambda: C(t),
        "`C` is a correlation and takes 2 times, got 1; write `C(t, t')`"),
    "two times instead of one": (lambda: w(t, tp), "`w` is a process and takes 1 time, got 2; write `w(t)`"),
    "function without times": (lambda: w * 2, "the process `w` stands without its times; write `w(t)`"),
    "derivative without times": (lambda: w.diff(t), "the process `w` stands without its times"),
    "empty name": (lambda: times(""), "a time needs a name, got an empty string"),
    "name that is none": (lambda: param("sigma^2"),
        "`sigma^2` is not a name for a parameter; expected letters"),
    "name that is no text": (lambda: process(3),
        "a process is declared by its name, a text such as 'x'; got 3"),
    "latex of two names": (lambda: param("a b", latex="c"), "latex= goes with one name, got 2: 'a b'"),
    "misspelt assumption": (lambda: param("a", positiv=True),
        "no assumption `positiv`; did you mean `positive`?"),
    "contradiction": (lambda: param("a", positive=True, negative=True), "contradict each other"),
    "domain that is no interval": (lambda: param("a", domain=3),
        "domain= of `a` takes (lowest, highest), got 3"),
    "number as law": (lambda: random("x", 3), "the law of `x` must be a law", "a fixed number is Point(3)"),
    "law without parameters": (lambda: random("x", Bernoulli), "got type Bernoulli; give its parameters"),
    "joint law of the wrong size": (lambda: random("a b c", Product(Point(0), Point(1))),
        "has 2 components, got 3 names: 'a b c'"),
}
NODES = {
    "integral without range": (lambda: Int(w(s), s),
        "Int takes an integrand and its range as one tuple, Int(f, (s, 0, t))"),
    "integral over a parameter": (lambda: Int(w(t), (alpha, 0, t)), "Int integrates over a time variable"),
    "response to a time": (lambda: Resp(w(t), tp), "Resp takes the noise as its second argument", "got `t'`"),
    "inverse without variable": (lambda: Inverse(alpha + 1, y), "f = `alpha + 1` does not depend on `y`"),
    "inverse on an empty domain": (lambda: Inverse(y, y, domain=(1, 0)), "Inverse: empty domain (1, 0)"),
    "inverse with half a domain": (lambda: Inverse(y, y, domain=1), "domain= takes (lowest, highest), got 1"),
    "equation of text": (lambda: Eq("w", 1), "Eq takes two expressions, got 'w'"),
    "equation of an uncalled function": (lambda: Eq(w, 1), "got `w`; call it with its times"),
    "equation of a truth value": (lambda: Eq(w(t), t > 1), "Eq takes two expressions, got `t > 1`"),
    "third derivative": (lambda: Eq(w(t).diff(t, 3), 1),
        "no first or second derivative in a time; introduce further functions"),
    "sympy's own symbols": (lambda: Eq(sympy.Function("y")(Symbol("r")).diff(Symbol("r")), 1),
        'derivative of sympy\'s own symbols; declare them by eqsolve: r = times("r"), y = function("y")'),
}
MODELS = {
    "name with a blank": (lambda: system(name="my model"), "must be a Python identifier, got 'my model'"),
    "two equations for one unknown": (lambda: system(eqs=[Eq(w(t), 1), Eq(w(t), 2)]),
        "two equations for `w`: test_errors.py:", "and test_errors.py:"),
    "sympy's own Eq": (lambda: system(eqs=[sympy.Eq(w(t), 1)]), "holds sympy's own Eq `Eq(w(t), 1)`"),
    "something else among the equations": (lambda: system(eqs=[w(t)]),
        "eqs= takes equations made by Eq(lhs, rhs)"),
    "== instead of Eq": (lambda: system(eqs=[w(t) == 1]), "got False; == compares two expressions, Eq makes"),
    "one equation instead of a list": (lambda: system(eqs=Eq(w(t), 1)), "eqs= takes a list of equations"),
    "one name for two things": (lambda: system(eqs=[Eq(w(t), param("w"))]),
        "`w` is both a process and a parameter in model `m`"),
    "one parameter declared in two ways": (lambda: system(eqs=[Eq(w(t), alpha + param("alpha"))]),
        "`alpha` is declared twice in different ways"),
    "law of a parameter": (lambda: system(laws={alpha: GP(1)}),
        "laws= maps processes to GP(...) or White(...)", "got the key `alpha`"),
    "law by text": (lambda: system(laws={"z": GP(1)}), "got the key 'z', a text; use what is declared, z, without quotes"),
    "number as law of a process": (lambda: system(laws={z: 1}),
        "the law of the process `z` must be GP(covariance)"),
    "two laws for one process": (lambda: system(laws={z: GP(1), (z,): GP(1)}), "`z` is given two laws"),
    "initial value by text": (lambda: system(init={"w": 0}),
        "init= maps functions to values, got the key 'w', a text; use what is declared, w, without quotes"),
    "a range that is no tuple": (lambda: Int(w(s), s, 0, t),
        "its range as one tuple, Int(f, (s, 0, t)); got for the range 3 arguments, s, 0, t"),
    "initial value of a kernel without times": (lambda: system(init={C: 1}),
        "needs its times: `C(t, t)` for the diagonal or `C(0, 0)` for the start"),
    "initial value at another time": (lambda: system(init={w(5): 0}),
        "init= gives values at the start, `w(0)`; got `w(5)`"),
    "random start of a number": (lambda: system(init={mu: Normal(0, 1)}),
        "`mu` is deterministic and cannot start from a random law"),
    "default by text": (lambda: system(defaults={"alpha": 1}),
        "defaults= maps parameters to values, got the key"),
    "observable with a blank": (lambda: system(observables={"a b": w(t)}),
        "observables are named by identifiers"),
    "observable of text": (lambda: system(observables={"loss": "w(t)"}),
        "observables `loss` must be an expression"),
    "condition of text": (lambda: system(conditions=["alpha > 1"]), "conditions= takes inequalities such as"),
    "substitution of a number": (lambda: system(substitute={mu: w(t)}),
        "substitute= maps processes to expressions"),
    "unknown part in replace": (lambda: system().replace("n", observable={}),
        "no part `observable`; did you mean"),
    "unknown symbol of a model": (lambda: system().symbols("u"), "model `m` has no symbol `u`"),
    "transform without its unknown": (
        lambda: Singularity("r", transform=Eq(p, alpha), variable=p, unknown=q),
        "the unknown `q` does not appear"),
    "transform of a parameter": (
        lambda: Singularity("r", transform=Eq(p, q), variable=alpha, unknown=q),
        "variable= takes a symbol made by"),
    "law_of that is no name": (
        lambda: Singularity("r", transform=Eq(p, q), variable=p, unknown=q, law_of=[3]),
        "law_of= takes a model's name"),
    "state that is none": (lambda: flow(state={w: 1}), "state= takes symbols made by state(), got `w`"),
    "fewer fields than weights": (lambda: flow(fields=[]),
        "one field, loss gradient and gradient per weight; got 1 w"),
    "drift of another state": (lambda: flow(drift={}), "state and drift must name the same components; `a`"),
    "condition that is none": (lambda: FixedPoint("r", [Eq(p, 1)], conditions=[1]),
        "conditions= takes inequalities"),
}
LAWS = {
    "probability above one": (lambda: Bernoulli(2),
        "law Bernoulli(2): the probability must lie in [0, 1], got 2"),
    "negative variance": (lambda: Normal(0, -1),
        "the variance must be >= 0, got -1", "usage: Normal(mean, variance)"),
    "infinite variance": (lambda: Normal(0, np.inf), "a parameter must be a finite real number, got oo"),
    "probabilities that do not add up": (lambda: Discrete([0, 1], [0.5, 0.6]), "sum to 1.1, not to 1"),
    "values without probabilities": (lambda: Discrete([0, 1], [1]), "2 values but 1 probabilities"),
    "ends exchanged": (lambda: Uniform(1, 0), "the ends must be increasing, got [1, 0]"),
    "scale zero": (lambda: Laplace(0), "the scale must be > 0, got 0"),
    "complex parameter": (lambda: Point(sympy.I), "a parameter must be a finite real number, got I"),
    "text as parameter": (lambda: Bernoulli("0.1"), "expected a number or an expression, got '0.1'"),
    "part of a mixture": (lambda: Mixture(Normal(0, 1)), "law Mixture: got Normal(0, 1) as a part"),
    "missing file": (lambda: Empirical("nowhere.csv"), "there is no file 'nowhere.csv'"),
    "empty sample": (lambda: Empirical([]), "the sample is empty"),
}
# fmt: on
ALL = {
    f"{part}: {name}": row
    for part, table in (("symbols", SYMBOLS), ("nodes", NODES), ("models", MODELS), ("laws", LAWS))
    for name, row in table.items()
}


@pytest.mark.parametrize("name", ALL)
def test_the_message_and_the_line(name):
    build, *says = ALL[name]
    with pytest.raises(EqsolveError) as caught:
        build()
    message = str(caught.value)
    assert isinstance(caught.value, ParameterError if name.startswith("laws") else ModelError)
    for words in says:
        assert words in message
    if name != "models: unknown symbol of a model":
        assert "test_errors.py:" in message


@pytest.mark.parametrize("text", ["__import__('os').getpid()", "1 + 1"])
def test_text_is_never_evaluated(text):
    for build in (Bernoulli, lambda value: Eq(w(t), value), lambda value: system(observables={"x": value})):
        with pytest.raises(EqsolveError):
            build(text)


def test_numbers_of_numpy_are_exact():
    assert Bernoulli(np.float64(0.1)) == Bernoulli(0.1) == Bernoulli(sympy.Rational(1, 10))


def test_none_leaves_an_entry_out():
    assert system(init={w: 0, mu: None}, observables={"loss": None}) == system()


def test_a_joint_mean_is_a_column():
    law = GP([[1, 0], [0, 1]], mean=[mu(t), 0])
    assert (law.mean.shape, hash(law)) == ((2, 1), hash(GP([[1, 0], [0, 1]], mean=[mu(t), 0])))


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [
        ("R_x", ["R_w", "C_f"], "; did you mean `R_w`?"),
        ("alfa", ["alpha"], "; did you mean `alpha`?"),
        ("x", ["y"], ""),
        ("dln_inf", ["dln_rich", "dln_infinite_data"], "; did you mean `dln_infinite_data`?"),
    ],
)
def test_nearest_name(name, known, answer):
    assert did_you_mean(name, known) == answer


def test_errors_survive_a_process_pool():
    error = ModelError("two problems", ("first", "second"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.problems) == ("two problems", ("first", "second"))
    assert ModelError("one").problems == ("one",)
    assert (ModelError.exit_code, eqsolve.SolverError.exit_code) == (2, 1)


def test_nothing_hides_behind_a_plain_symbol():
    with pytest.raises(ModelError, match="uses `x`, a plain sympy symbol"):
        eqsolve.check(system(eqs=[Eq(w(t).diff(t), E(Symbol("x")))]))


def test_a_notebook_shows_the_message_without_the_inside() -> None:
    try:
        eqsolve.solve("linear_regression", lam="x")
    except EqsolveError as error:
        shown = error._render_traceback_()
    assert shown[-1].startswith("ParameterError: ")
    assert not any("solving.py" in line for line in shown)
    assert any("test_errors.py" in line for line in shown)
