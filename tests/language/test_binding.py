"""What the user sets: values read exactly, domains and conditions held, hostile text refused without harm."""

import numpy as np
import pytest
import sympy
from sympy import Rational

import eqsolve
from eqsolve import Eq, System, param, process, random, times
from eqsolve.errors import ParameterError
from eqsolve.language.binding import bind, read_value
from eqsolve.laws import Bernoulli, Mixture, Normal, Point

t = times("t")
n = param("n", integer=True, positive=True)
share = param("share", domain=(0, 1))
rate = param("rate", nonnegative=True)
x = random("x", Normal(0, rate))
w = process("w")
MODEL = System(
    "decay",
    [Eq(w(t).diff(t), -(n + share) * w(t) + x)],
    init={w: 0},
    defaults={share: 0.5, rate: 1},
    conditions=[n > 2],
)

# fmt: off
WRONG = {
    "missing": ({}, "parameter `n` of model `decay` has no value and no default; give it one: n=... (--set n=...)"),
    "unknown": ({"n": 3, "gamma": 1}, "`decay` has no parameter `gamma`", "(it has: n, rate, share, x)"),
    "misspelt": ({"n": 3, "shares": 1}, "has no parameter `shares`; did you mean `share`?"),
    "not an integer": ({"n": 2.5}, "parameter `n` of model `decay` must be an integer, got 2.5"),
    "negative": ({"n": 3, "rate": -1}, "parameter `rate` of model `decay` must be nonnegative, got -1"),
    "above its domain": ({"n": 3, "share": "3/2"}, "`share` of model `decay` must be at most 1, got 1.5"),
    "infinite": ({"n": 3, "rate": "inf"}, "`rate` of model `decay` must be finite, got inf"),
    "not a number": ({"n": 3, "rate": float("nan")}, "parameter `rate` takes a number, got nan"),
    "a list": ({"n": [3, 4]}, "`n` of model `decay` takes one value, got [3, 4]"),
    "a truth value": ({"n": True}, "parameter `n` takes a number, got True"),
    "a symbol": ({"n": sympy.Symbol("k")}, "parameter `n` takes a real number, got `k`"),
    "a complex number": ({"n": sympy.I}, "parameter `n` takes a real number, got `I`"),
    "a condition": ({"n": 2}, "model `decay` holds for n > 2 only (test_binding.py:", "got n=2"),
    "a law for a number": ({"n": "Bernoulli(0.1)"}, "`n` takes a number, got the law Bernoulli(1/10)"),
    "a number for a law": ({"n": 3, "x": 0.3}, "`x` is random and takes a law, got the number 0.3",
        "a fixed value is Point(0.3)"),
    "a joint law": ({"n": 3, "x": "Product(Point(0), Point(1))"}, "`x` takes the law of one variable"),
    "a law out of range": ({"n": 3, "x": "Bernoulli(2)"}, "law of `x`: law Bernoulli(2): the probability"),
    "another name": ({"n": 3, "x": "Gauss(0, 1)"}, "no law or function `Gauss`; it is called `Normal` here"),
    "a misspelt law": ({"n": 3, "x": "Bernouli(0.1)"}, "`Bernouli`; did you mean `Bernoulli`?"),
    "wrong arguments": ({"n": 3, "x": "Bernoulli()"}, "wrong arguments in 'Bernoulli()'; usage: Bernoulli"),
}
# fmt: on


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings(name):
    settings, *says = WRONG[name]
    with pytest.raises(ParameterError) as caught:
        bind(MODEL, settings)
    for words in says:
        assert words in str(caught.value)


HOSTILE = [
    "__import__('os').system('x')",
    "(lambda: 1)()",
    "().__class__.__bases__[0]",
    "Bernoulli(\"__import__('os').system('x')\")",
    "Discrete(['__import__'], [1])",
    "open('secret')",
    "[x for x in (1,)]",
    "f'{1}'",
    "1 if True else 2",
    "x := 3",
    "9**9**9",
    "9**9**9**9",
    "10**400",
    "2**((-1)**0.5)",
    "1/0",
    "0**-1",
    "0*inf",
    "exp(1e9)",
    "sqrt(-1)",
    "log(0)",
    "nan",
    "1j",
    "True",
    "",
    "\0",
    "1" * 2001,
    "(" * 500 + "1" + ")" * 500,
    "-" * 1900 + "1",
    "+".join(["1"] * 900) + "+",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:30]))
def test_hostile_text_is_refused(text):
    with pytest.raises(ParameterError) as caught:
        read_value(text, what="parameter `n`")
    assert str(caught.value).startswith("parameter `n`")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["1e-999999999", "((((0.1**64)**64)**64)**64)**64", "0." + "1" * 1900])
def test_extreme_but_honest_numbers_are_read(text):
    assert 0 <= float(read_value(text)) < 1


# fmt: off
READ = {
    "0.1": Rational(1, 10), "1/3": Rational(1, 3), "-2e-3": Rational(-1, 500), "2**3": 8, "1_000": 1000,
    "(1 + 2) * 3": 9, "inf": sympy.oo, "pi": sympy.pi,
    "Bernoulli(1/3)": Bernoulli(Rational(1, 3)),
    "Mixture((0.5, Normal(0, 1)), (0.5, Point(2)))": Mixture((0.5, Normal(0, 1)), (0.5, Point(2))),
}
# fmt: on


@pytest.mark.parametrize("text", READ)
def test_text_is_read_exactly(text):
    assert read_value(text) == READ[text]


@pytest.mark.parametrize("number", [0.1, np.float64(0.1), "0.1", Rational(1, 10)])
def test_decimals_are_what_they_spell(number):
    assert read_value(number) == Rational(1, 10)


def test_defaults_laws_and_settings():
    binding = bind(MODEL, {"n": np.int64(3), "rate": "1/2"})
    assert {item.name: value for item, value in binding.values.items()} == {
        "n": 3,
        "share": Rational(1, 2),
        "rate": Rational(1, 2),
    }
    assert binding.laws == {x: Normal(0, Rational(1, 2))}
    assert binding.settings() == {"n": 3.0, "share": 0.5, "rate": 0.5, "x": "Normal(0, 0.5)"}


@pytest.mark.parametrize(
    ("typed", "recorded"),
    [
        ("Bernoulli(0.1)", "Bernoulli(0.1)"),
        ("Bernoulli(1/3)", "Bernoulli(1/3)"),
        ("Discrete([-1, 0.5], [0.25, 0.75])", "Discrete([-1, 0.5], [0.25, 0.75])"),
        ("Mixture((0.3, Normal(0, 1)), (0.7, Point(0.25)))", "Mixture((0.3, Normal(0, 1)), (0.7, Point(0.25)))"),
    ],
)
def test_laws_are_recorded_as_typed_and_read_back(typed, recorded):
    binding = bind(eqsolve.load("dln"), {"w_star": typed})
    assert binding.settings()["w_star"] == recorded
    assert bind(eqsolve.load("dln"), binding.settings()) == binding


def test_moments_in_laws_are_recorded_without_rounding_digits():
    assert bind(eqsolve.load("dln_search"), {}).settings()["z0"] == "Normal(0, 0.05)"


def test_a_model_of_the_collection_reads_the_same_way():
    binding = bind(eqsolve.load("dln"), {"alpha": 0.2, "w_star": "Point(1)"})
    assert binding.settings()["w_star"] == "Point(1)"
