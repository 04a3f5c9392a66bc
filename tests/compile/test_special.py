"""Special functions in expressions: every one of sympy's is computed, along every argument, or refused by name."""

import inspect
import pickle

import mpmath
import numpy as np
import pytest
import sympy
from sympy import (
    Abs,
    DiracDelta,
    LambertW,
    Symbol,
    besselj,
    bessely,
    elliptic_k,
    erfinv,
    expint,
    loggamma,
    polylog,
    sign,
    zeta,
)

from eqsolve.compile.lowering import lower
from eqsolve.errors import ModelError
from eqsolve.language.functions import PLAIN, SPECIAL, why_not_computed

x, y = (Symbol(name, real=True) for name in "xy")
POINTS = [(0.31, 1.7), (0.83, 2.4), (0.52, 0.9)]

# arguments, in x and y, at which a function is real near the points
ARGUMENTS = {
    "LambertW": (x,), "elliptic_k": (x,), "elliptic_f": (y, x), "elliptic_e": (x,), "erfinv": (x,), "erfcinv": (x,),
    "acosh": (1 + x,), "acoth": (1 + x,), "asec": (1 + x,), "acsc": (1 + x,), "polygamma": (2, x), "polylog": (y, x),
    "harmonic": (x,), "beta": (x, y), "Piecewise": ((x, True),), "expint": (y, x), "zeta": (y, x), "Heaviside": (x,),
}  # fmt: skip

# where sympy has no value at real arguments: another formula, as a function of x and y
EXACT = {
    "polylog": lambda x, y: mpmath.nsum(lambda k: x**k / k**y, [1, mpmath.inf]),
    "erf2": lambda x, y: mpmath.quad(lambda r: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(r**2)), [x, y]),
    "erfcinv": lambda x, y: mpmath.findroot(lambda r: mpmath.erfc(r) - x, 0.5),
    "laguerre": lambda x, y: mpmath.hyp1f1(-x, 1, y),
}


def _all_functions():
    found = {}
    for name in dir(sympy):
        item = getattr(sympy, name)
        if inspect.isclass(item) and issubclass(item, sympy.Function) and item.__module__.startswith("sympy.functions"):
            found[item.__name__] = item
    return found


FUNCTIONS = _all_functions()


def _truth(expr, at):
    """Return mpmath's value, through sympy's own evaluation."""
    with mpmath.workdps(30):
        numbers = {symbol: sympy.Float(number, 30) for symbol, number in at.items()}
        return float(expr.subs(numbers).doit().evalf(20))


@pytest.mark.parametrize("name", sorted(SPECIAL & set(FUNCTIONS)))
def test_every_special_function_has_its_value(name):
    function = FUNCTIONS[name]
    given = ARGUMENTS.get(name) or (x, y)[: max(arity for arity in function.nargs)]
    expr = function(*given)
    for point in POINTS:
        (value,) = lower([expr], [x, y])(*(np.full(2, number) for number in point))
        if name in EXACT:
            with mpmath.workdps(25):
                exact = float(EXACT[name](*map(mpmath.mpf, point)))
        else:
            exact = _truth(expr, dict(zip((x, y), point, strict=True)))
        assert np.asarray(value) == pytest.approx(exact, rel=1e-12, abs=1e-14), (name, point)


@pytest.mark.parametrize("name", ["legendre", "chebyshevt", "chebyshevu", "hermite", "laguerre", "polygamma", "expint"])
def test_whole_orders_that_are_variables(name):
    function = FUNCTIONS[name]
    (value,) = lower([function(y, x)], [x, y])(np.array([0.31, 0.83]), np.array([3.0, 3.0]))
    exact = [float(function(3, sympy.Float(str(at), 30)).evalf(20)) for at in (0.31, 0.83)]
    assert np.asarray(value) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("name", sorted(PLAIN & set(FUNCTIONS)))
def test_every_plain_function_has_its_value(name):
    function = FUNCTIONS[name]
    given = ARGUMENTS.get(name) or (x, y)[: min(arity for arity in function.nargs)]
    expr = function(*given)
    for point in POINTS:
        (value,) = lower([expr], [x, y])(*(np.full(2, number) for number in point))
        exact = _truth(expr, dict(zip((x, y), point, strict=True)))
        assert np.asarray(value) == pytest.approx(exact, rel=1e-13, abs=1e-14), (name, point)


def test_a_function_without_evaluator_is_refused_by_name():
    refused = {name for name, item in FUNCTIONS.items() if name not in PLAIN | SPECIAL}
    assert {"mathieus", "hankel1", "DiracDelta", "Ynm", "primepi"} <= refused
    assert "no numerical evaluator" in why_not_computed(sympy.mathieus(x, y, x))
    assert "complex" in why_not_computed(sympy.hankel1(0, x))
    assert "branch without real values" in why_not_computed(LambertW(x, 1))
    assert why_not_computed(LambertW(x, -1)) == why_not_computed(x + y) == ""


@pytest.mark.parametrize(
    ("expr", "along"),
    [
        (Abs(LambertW(x) - 1), x), (LambertW(3 * x), x), (polylog(2, 0.5 * x), x), (besselj(y, x), x),
        (zeta(x + 2), x), (besselj(y, x), y), (polylog(y, x), y),
    ],
)  # fmt: skip
def test_derivatives_are_known_along_every_argument(expr, along):
    slope = expr.diff(along)
    for point in POINTS[:2]:
        at = dict(zip((x, y), point, strict=True))

        def value(number, at=at):
            with mpmath.extradps(15):
                put = {s: sympy.Float(str(mpmath.mpf(v)), 40) for s, v in {**at, along: number}.items()}
                return mpmath.mpmathify(expr.subs(put).evalf(35))

        with mpmath.workdps(25):
            exact = float(mpmath.diff(value, at[along], h=mpmath.mpf("1e-8")))
        (found,) = lower([slope], [x, y])(*point)
        assert float(found) == pytest.approx(exact, rel=1e-7)


def test_a_removable_singularity_of_a_derivative_is_removed():
    for expr, exact in ((LambertW(2 * x).diff(x), 2.0), (polylog(2, x).diff(x), 1.0), (polylog(2.5, 3 * x).diff(x), 3.0)):
        assert float(lower([expr], [x])(0.0)[0]) == pytest.approx(exact, rel=1e-15)


@pytest.mark.parametrize(
    ("expr", "outside"),
    [
        (LambertW(x), -0.5), (LambertW(x, -1), 0.1), (loggamma(x), -0.5), (bessely(0, x), -1.0), (erfinv(x), 2.0),
        (polylog(2, x), 3.0), (elliptic_k(x), 2.0), (besselj(0.5, x), -1.0), (expint(2, x), -1.0), (sympy.Ci(x), -1.0),
    ],
)  # fmt: skip
def test_values_that_are_not_real_are_nan(expr, outside):
    assert np.isnan(np.asarray(lower([expr], [x])(np.array([outside]))[0])).all()


def test_the_edge_of_the_real_branches_belongs_to_them():
    edge = np.array([-np.exp(-1.0), np.nextafter(-np.exp(-1.0), -1)])
    for branch in (0, -1):
        assert np.asarray(lower([LambertW(x, branch)], [x])(edge)[0]) == pytest.approx(-1.0, abs=1e-7)


def test_the_slope_of_a_jump_is_refused_where_it_stands():
    with pytest.raises(ModelError, match="the derivative of a jump at the zeros of `x - 1`"):
        lower([sign(x - 1).diff(x)], [x])
    assert sign(x).diff(x).has(DiracDelta)


def test_a_special_function_pickles():
    made = pickle.loads(pickle.dumps(lower([besselj(2, x)], [x])))
    assert made(np.array([1.3]))[0] == pytest.approx([float(mpmath.besselj(2, 1.3))], rel=1e-12)
