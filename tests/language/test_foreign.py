"""Mistakes in a model file that numpy, Python or sympy would report: told in our words, with a fix that works."""

import re

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.errors import ModelError

HEAD = '''"""A model."""
import cmath
import math

import mpmath
import numpy as np
import scipy.special
import scipy.stats
import sympy
from scipy.special import erf as error_function
from sympy import sin
from eqsolve import E, Eq, System, correlation, function, param, random, times
from eqsolve.laws import Normal

t, tp = times("t t'")
k = param("k", positive=True)
y = function("y")
c = random("c", Normal(0, 1))
'''
LINE = HEAD.count("\n") + 1


def write(folder, right, head=HEAD):
    (folder / "m.py").write_text(
        f"{head}right = {right}\nmodel = System('m', eqs=[Eq(y(t).diff(t), right)], init={{y: 1}}, defaults={{k: 1}})\n"
    )
    return str(folder / "m.py")


FIXES = {
    "np.tanh(y(t))": "sympy.tanh(y(t))",
    "np.exp(-k * y(t))": "sympy.exp(-k * y(t))",
    "np.sqrt(k)": "sympy.sqrt(k)",
    "math.tanh(y(t))": "sympy.tanh(y(t))",
    "math.sin(t)": "sympy.sin(t)",
    "cmath.exp(y(t))": "sympy.exp(y(t))",
    "mpmath.tanh(y(t))": "sympy.tanh(y(t))",
    "np.arctan(y(t))": "sympy.atan(y(t))",
    "np.maximum(y(t), 0)": "sympy.Max(y(t), 0)",
    "max(y(t), 0)": "sympy.Max(y(t), 0)",
    "np.sign(y(t))": "sympy.sign(y(t))",
    "np.heaviside(y(t), 0)": "sympy.Heaviside(y(t), 0)",
    "np.where(y(t) > 0, 1, 0)": "sympy.Piecewise((1, y(t) > 0), (0, True))",
    "np.clip(y(t), 0, 1)": "sympy.Min(sympy.Max(y(t), 0), 1)",
    "np.log1p(y(t))": "sympy.log(1 + y(t))",
    "np.log10(y(t))": "sympy.log(y(t), 10)",
    "scipy.special.erf(y(t))": "sympy.erf(y(t))",
    "error_function(y(t))": "sympy.erf(y(t))",
    "scipy.special.gamma(y(t))": "sympy.gamma(y(t))",
    "scipy.special.expit(y(t))": "1/(1 + sympy.exp(-(y(t))))",
    "scipy.stats.norm.cdf(y(t))": "(1 + sympy.erf((y(t))/sympy.sqrt(2)))/2",
    "scipy.stats.norm.pdf(y(t))": "sympy.exp(-(y(t))**2/2)/sympy.sqrt(2*sympy.pi)",
    "-np.tanh(np.exp(y(t)))": "sympy.exp(y(t))",
    "y(t)^2": "y(t) ** 2",
    "float(y(t))": "y(t)",
}


@pytest.mark.parametrize("wrong", FIXES)
def test_a_numerical_function_of_an_expression_names_its_line_and_a_fix_that_works(wrong, tmp_path):
    with pytest.raises(ModelError) as caught:
        eqsolve.load(write(tmp_path, wrong))
    message = str(caught.value)
    assert message.startswith(f"m.py:{LINE}: ")
    assert message.endswith(f"    right = {wrong}")
    fix = re.search(r"write `(.*?)`", message)[1]
    assert fix == FIXES[wrong]
    eqsolve.load(write(tmp_path, fix))


def test_the_fix_says_what_to_import(tmp_path):
    head = HEAD.replace("import sympy\n", "")
    with pytest.raises(ModelError, match=r"write `sympy\.tanh\(y\(t\)\)`, after `import sympy`"):
        eqsolve.load(write(tmp_path, "np.tanh(y(t))", head))
    with pytest.raises(ModelError, match=r"write `sp\.tanh\(y\(t\)\)`\n"):
        eqsolve.load(write(tmp_path, "np.tanh(y(t))", head.replace("import mpmath\n", "import mpmath\nimport sympy as sp\n")))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("-y(t) if y(t) > 0 else y(t)", "write `sympy.Piecewise((a, y(t) > 0), (b, True))`"),
        ("y[t]", "the one-time function `y` stands without its times; write `y(t)`"),
        ("sympy.tanh(y)", "the one-time function `y` stands without its times; write `y(t)`"),
        ("tanh(y(t))", "the name `tanh` is not defined; write `from sympy import tanh`"),
        ("Uniform(0, 1)", "the name `Uniform` is not defined; write `from eqsolve.laws import Uniform`"),
        ("Int(y(t), (t, 0, t))", "the name `Int` is not defined; write `from eqsolve import Int`"),
        ("-kk * y(t)", "the name `kk` is not defined; did you mean `k`?"),
        ("Sin(y(t))", "the name `Sin` is not defined; did you mean `sin`?"),
        ("-friction * y(t)", "the name `friction` is not defined; declare it, for example by param('friction')"),
        ("np.vectorize(math.tanh)(y(t))", "an expression stands where a number is needed"),
        ("round(y(t))", "`round` is Python's and takes numbers, not expressions"),
        ("E(c > 0)", "its probability is E(sympy.Piecewise((1, c > 0), (0, True)))"),
        ("System('q', equations=[])", "System takes no `equations=` (it takes: name, eqs, laws"),
        ("System('q', eqs=[], inits={})", "System takes no `inits=`; did you mean `init`?"),
        ("System('q')", "System needs eqs=..."),
        ("__import__('numpyy')", "there is no module `numpyy` here"),
    ],
)
def test_other_mistakes_are_told_in_our_words(wrong, said, tmp_path):
    with pytest.raises(ModelError) as caught:
        eqsolve.load(write(tmp_path, wrong))
    assert str(caught.value).startswith(f"m.py:{LINE}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from eqsolve import Sytem", "`eqsolve` has no `Sytem`; did you mean `System`?"),
        ("from eqsolve import Normal", "`eqsolve` has no `Normal`; write `from eqsolve.laws import Normal`"),
        ("from eqsolve import tanh", "`eqsolve` has no `tanh`; write `from sympy import tanh`"),
    ],
)
def test_imports(line, said, tmp_path):
    with pytest.raises(ModelError) as caught:
        eqsolve.load(write(tmp_path, "-y(t)", f"{line}\n{HEAD}"))
    assert said in str(caught.value)


@pytest.mark.parametrize("right", ["np.pi * y(t)", "np.exp(1) * y(t)", "abs(y(t))", "np.float64(2) * y(t)", "np.square(y(t))"])
def test_numbers_of_numpy_stay_welcome(right, tmp_path):
    eqsolve.check(eqsolve.load(write(tmp_path, right)))


@pytest.mark.parametrize("right", ["-y(t) * 1j", "sympy.I * y(t)"])
def test_a_model_is_of_real_numbers(right, tmp_path):
    with pytest.raises(ModelError, match="contains the imaginary unit"):
        eqsolve.check(eqsolve.load(write(tmp_path, right)))


def test_the_command_line_exits_with_2(tmp_path, capsys):
    assert main(["solve", write(tmp_path, "np.tanh(y(t))")]) == 2
    assert "write `sympy.tanh(y(t))`" in capsys.readouterr().err
