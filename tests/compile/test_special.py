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
    hyper,
    legendre,
    loggamma,
    meijerg,
    polylog,
    sign,
    stieltjes,
    zeta,
)

import eqsolve
from eqsolve.compile.lowering import lower
from eqsolve.compile.polylogarithm import polylogarithm
from eqsolve.compile.zeta_slope import zeta_slope
from eqsolve.errors import ModelError
from eqsolve.language.functions import PLAIN, SPECIAL, why_not_computed

x, y = (Symbol(name, real=True) for name in "xy")
POINTS = [(0.31, 1.7), (0.83, 2.4), (0.52, 0.9)]

# arguments, in x and y, at which a function is real near the points
ARGUMENTS = {
    "LambertW": (x,), "jn": (2, x), "yn": (2, x), "marcumq": (2, y, x), "elliptic_k": (x,), "elliptic_f": (y, x),
    "elliptic_e": (x,), "elliptic_pi": (x / 3, y / 3, x), "erfinv": (x,), "erfcinv": (x,), "erf2inv": (x / 5, x / 3),
    "betainc": (x, y, 0, x), "betainc_regularized": (x, y, 0, x), "acosh": (1 + x,), "acoth": (1 + x,), "asec": (1 + x,),
    "acsc": (1 + x,), "polygamma": (2, x), "stieltjes": (1, x), "hyper": ([x, y], [y + 1], x / 2),
    "meijerg": ([], [1, 1], [0, 0, y], [], x), "appellf1": (x, y, x, y, x / 3, x / 4), "lerchphi": (x, y, x),
    "jacobi": (x, y, y, x), "assoc_legendre": (3, 1, x), "gegenbauer": (x, y, x), "bernoulli": (12, x), "euler": (12, x),
    "factorial2": (y,), "assoc_laguerre": (x, y, x), "polylog": (y, x),
    "harmonic": (x,), "fibonacci": (y,), "catalan": (y,), "beta": (x, y), "Piecewise": ((x, True),),
    "expint": (y, x), "zeta": (y, x), "Heaviside": (x,),
}  # fmt: skip


def _marcum(a, b):
    return mpmath.quad(lambda r: r * r / a * mpmath.exp(-(r * r + a * a) / 2) * mpmath.besseli(1, a * r), [b, 4, 9, 30])


def _jacobi(n, a, b, z):
    return mpmath.binomial(n + a, n) * mpmath.hyp2f1(-n, 1 + a + b + n, a + 1, (1 - z) / 2)


# where sympy has no value at real arguments: another formula, as a function of x and y
EXACT = {
    "marcumq": lambda x, y: _marcum(y, x),
    "polylog": lambda x, y: mpmath.nsum(lambda k: x**k / k**y, [1, mpmath.inf]),
    "erf2": lambda x, y: mpmath.quad(lambda r: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(r**2)), [x, y]),
    "erf2inv": lambda x, y: mpmath.findroot(lambda r: mpmath.erf(r) - mpmath.erf(x / 5) - x / 3, x / 2),
    "erfcinv": lambda x, y: mpmath.findroot(lambda r: mpmath.erfc(r) - x, 0.5),
    "factorial2": lambda x, y: 2 ** (y / 2) * mpmath.gamma(y / 2 + 1) * (2 / mpmath.pi) ** ((1 - mpmath.cospi(y)) / 4),
    "hermite_prob": lambda x, y: 2 ** (x / 2) * mpmath.hyperu(-x / 2, 0.5, y**2 / 2),
    "laguerre": lambda x, y: mpmath.hyp1f1(-x, 1, y),
    "assoc_laguerre": lambda x, y: mpmath.binomial(x + y, x) * mpmath.hyp1f1(-x, y + 1, x),
    "jacobi": lambda x, y: _jacobi(x, y, y, x),
    "gegenbauer": lambda x, y: mpmath.binomial(2 * y + x - 1, x) * mpmath.hyp2f1(-x, 2 * y + x, y + 0.5, (1 - x) / 2),
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


@pytest.mark.parametrize(
    "name", ["legendre", "chebyshevt", "chebyshevu", "hermite", "hermite_prob", "laguerre", "jn", "yn", "polygamma", "expint"]
)
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
        (zeta(x + 2), x), (polylog(y, x), y), (besselj(y, x), y), (besselj(x, x), x), (hyper([1, y], [2], x / 3), y),
        (legendre(y, x), y), (expint(y, x), y), (stieltjes(1, x), x), (zeta(y, x), y), (meijerg([], [1], [0, y], [], x), y),
        (Abs(LambertW(x) - 1), x), (LambertW(3 * x), x), (polylog(2, 0.5 * x), x),
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


@pytest.mark.parametrize("order", [-1.5, -1, 0.5, 1, 1.5, 2, 2.5, 3, 7.3])
def test_polylogarithms_to_rounding(order):
    arguments = np.array([0.999999, 0.9, 0.6, 0.3, 1e-9, -0.3] + ([-0.7, -1.0, -30.0, -1e6] if order > 0 else []))
    exact = [float(mpmath.re(mpmath.polylog(order, z))) for z in arguments]
    assert polylogarithm(np.array(order), arguments) == pytest.approx(exact, rel=1e-14)


def test_the_slope_of_zeta_to_rounding():
    arguments = np.array([-20.3, -8, -4.5, -2, -0.6, -1e-3, 0, 0.3, 0.5, 0.999, 1.001, 2, 5, 20])
    exact = [float(mpmath.zeta(s, 1, 1)) if s else -float(mpmath.log(2 * mpmath.pi)) / 2 for s in arguments]
    assert zeta_slope(arguments) == pytest.approx(exact, rel=1e-13)


def test_the_slope_of_a_jump_is_refused_where_it_stands():
    with pytest.raises(ModelError, match="the derivative of a jump at the zeros of `x - 1`"):
        lower([sign(x - 1).diff(x)], [x])
    assert sign(x).diff(x).has(DiracDelta)


@pytest.mark.parametrize("expression", [besselj(x, y), polylog(x, y / 2)], ids=str)
def test_a_derivative_without_a_formula_pickles(expression):
    """Along an order, where mpmath differentiates."""
    made = pickle.loads(pickle.dumps(lower([expression.diff(x)], [x, y])))
    value = sympy.lambdify((x, y), expression, "mpmath")
    expected = float(mpmath.diff(lambda order: value(order, mpmath.mpf(0.7)), 1.3))
    assert made(np.array([1.3]), np.array([0.7]))[0] == pytest.approx([expected], rel=1e-12)


def test_a_plan_with_such_a_derivative_pickles():
    t, tp = eqsolve.times("t t'")
    w, z = eqsolve.process("w z")
    R, C = eqsolve.response("R"), eqsolve.correlation("C")
    system = eqsolve.System(
        "orders",
        eqs=[
            eqsolve.Eq(w(t).diff(t), -besselj(2 + w(t), 1) + z(t)),
            eqsolve.Eq(C(t, tp), eqsolve.E(w(t) * w(tp))),
            eqsolve.Eq(R(t, tp), eqsolve.E(eqsolve.Resp(w(t), z(tp)))),
        ],
        laws={z: eqsolve.GP(sympy.exp(-((t - tp) ** 2)))},
        init={w: 0},
    )
    plan = eqsolve.compile(system)
    program = plan.program("stochastic")
    other = pickle.loads(pickle.dumps(plan)).program("stochastic")
    (ensemble,), (copy,) = program.ensembles, other.ensembles
    inputs = [np.linspace(0, 1, 5)] * 3
    for values, again in zip(ensemble.signals(*inputs), copy.signals(*inputs), strict=True):
        np.testing.assert_array_equal(values, again)
    slope = float(mpmath.diff(lambda order: mpmath.besselj(2 + order, 1), 0.5))
    assert abs(ensemble.signals(*inputs)[-1][2]) == pytest.approx(abs(slope), rel=1e-12)
