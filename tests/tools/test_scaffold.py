"""The Python source of expressions and of variants says exactly what the original says."""

import keyword

import pytest
import sympy
from sympy import Abs, Equality, Max, Ne, Piecewise, Rational, asinh, exp, oo, pi, sign, sinh, sqrt

import eqsolve
from eqsolve import (
    E,
    Eq,
    Int,
    Inverse,
    Resp,
    System,
    correlation,
    function,
    param,
    process,
    random,
    symbol,
    times,
)
from eqsolve.language.loading import list_models, load
from eqsolve.laws import Normal
from eqsolve.tools.scaffold import expression_source, python_names, variant_source, write_variant

t, tp, s = times("t t' s")
a, L = param("a L", positive=True)
x = random("x", Normal(0, 1))
y = symbol("y")
w, z = process("w z")
C = correlation("C")
SYMBOLS = {"t": t, "tp": tp, "s": s, "a": a, "L": L, "x": x, "y": y, "w": w, "z": z, "C": C}

EXPRESSIONS = [
    w(t).diff(t),
    E((w(t) - x) * (w(tp) - x)),
    -E(Resp(w(t), z(tp))),
    Int(C(tp, s) * (w(s) - a), (s, tp, t)) / 2 - a * Int(w(s) ** 2, (s, 0, t)),
    sqrt(w(t) ** 2 + a**4 * exp(-2 * L * t)) / (1 + a) ** Rational(3, 2),
    Inverse(y + a * asinh(y / a**2), y)(x - a / 3),
    Inverse(y**3 + y, y, domain=(-1, oo))(x),
    Piecewise((sinh(a), L < 3), (Abs(x), Equality(L, 4)), (sign(x), Ne(a, 1) & (L > 5)), (Max(a, 0), True)),
    exp(1) * pi * a - Rational(1, 3),
    0.25 * a + x ** Rational(-1, 2),
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_source_makes_the_expression_again(expr):
    names = (
        {name: getattr(sympy, name) for name in dir(sympy)}
        | {name: getattr(eqsolve, name) for name in ("E", "Int", "Inverse", "Resp")}
        | SYMBOLS
    )
    assert eval(expression_source(expr, {"t'": "tp"}), {"__builtins__": {}}, names) == expr


def test_names_hide_nothing_a_file_imports():
    v = function("exp")
    clash = param("E lambda base", positive=True)
    model = System("m", eqs=[Eq(v(t).diff(t), sum(clash) * v(t))], init={v: 1})
    names = python_names(model)
    assert names == {"t": "t", "exp": "exp_", "E": "E_", "lambda": "lambda_", "base": "base_"}
    assert not any(keyword.iskeyword(name) for name in names.values())


@pytest.mark.parametrize("name", [item.name for item in list_models()])
def test_every_model_has_a_variant(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original = load(name)
    if isinstance(original, eqsolve.Cases):
        with pytest.raises(eqsolve.UsageError, match=f"start from one of: {original.cases[0][1]}"):
            write_variant("a_variant", name)
        return
    made = load(str(write_variant("a_variant", name)[0]))
    eqsolve.check(made)
    assert made.equations == original.equations
    assert type(made) is type(original)
    assert not getattr(made, "exact", None)


def test_long_equations_are_broken_at_their_terms():
    terms = [function(f"a_rather_long_name_{number}") for number in range(8)]
    v = function("v")
    equations = [Eq(item(t).diff(t), -item(t)) for item in terms]
    total = terms[0](t) - terms[1](t) + 2 * terms[2](t) - terms[3](t) / 3 + sum(item(t) for item in terms[4:])
    last = Eq(v(t).diff(t), total)
    model = System("m", eqs=[*equations, last], init={item: 0 for item in (*terms, v)})
    text = variant_source("other", model, "m")
    code = text[text.index("eqs=[") + 5 : text.index("    ],")]
    assert max(map(len, code.splitlines())) <= 110
    names = {item.name: item for item in (*terms, v, t)} | {"Eq": Eq}
    (again,) = eval(f"({code.strip()})", {}, names)
    assert again == last
