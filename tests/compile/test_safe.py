"""Safe forms of expressions: equal to what was written, finite and accurate where the plain form is not."""

import pickle

import mpmath as mp
import numpy as np
import pytest
from sympy import (
    Abs,
    Expr,
    Piecewise,
    Rational,
    S,
    Symbol,
    besseli,
    besselk,
    cos,
    cosh,
    coth,
    erf,
    erfc,
    erfi,
    exp,
    gamma,
    lambdify,
    log,
    sech,
    sin,
    sinh,
    sqrt,
    tanh,
)

from eqsolve.compile.lowering import as_function
from eqsolve.compile.safe import safe

x, y = Symbol("x", real=True), Symbol("y", real=True)

FAR = (-40.0, -30.0, -5.0, -1e-9, 1e-9, 0.5, 5.0, 30.0, 40.0)
RIGHT = (1e-9, 0.5, 5.0, 30.0, 600.0)
EVERYWHERE = (*FAR, -1e3, 1e3)

OVERFLOW_AND_UNDERFLOW = {
    "density over tail": (exp(-(x**2)) / erfc(x / sqrt(2)) ** 2, (-20.0, 0.3, 5.0, 30.0, 40.0)),
    "density over tail written with erf": (exp(-(x**2) / 2) / (1 + erf(x / sqrt(2))), (-40.0, -30.0, 0.0, 5.0)),
    "its slope": ((exp(-(x**2)) / erfc(x)).diff(x), (-20.0, 0.3, 3.0)),
    "squared difference of two points": (exp(-((x - 3) ** 2)) / erfc(x - 3), (0.3, 5.0, 40.0)),
    "growing exponential and tail": (exp(x**2) * erfc(x), (-3.0, 0.1, 5.0, 40.0)),
    "erfi": (exp(-(x**2)) * erfi(x), FAR),
    "logistic": (exp(x) / (1 + exp(x)), EVERYWHERE),
    "slope of the logistic function": (log(1 + exp(x)).diff(x, 2), FAR),
    "two exponentials": (exp(-x) / (3 * exp(-x) + exp(x)), FAR),
    "three exponentials": ((exp(2 * x) - exp(x)) / (exp(2 * x) + exp(x) + 1), EVERYWHERE),
    "hyperbolic ratio": (sinh(3 * x) / cosh(2 * x) ** 2 * exp(x / 3), FAR),
    "cosh over sinh": (cosh(x) / sinh(x), EVERYWHERE),
    "coth, sech": (coth(x) * sech(x) * cosh(x), EVERYWHERE),
    "weight decay": (exp(-3 * x) * sinh(3 * x), (1e-9, 0.5, 5.0, 300.0)),
    "one over 1 - tanh²": (exp(-2 * x) / (1 - tanh(x) ** 2), RIGHT[:-1]),
    "Bessel functions": (besseli(1, x) / besseli(0, x), RIGHT),
    "Bessel functions that decay": (besselk(1, x) / besselk(0, x), RIGHT),
    "gamma functions": (gamma(x + Rational(1, 2)) / gamma(x), (0.5, 3.0, 30.0, 200.0)),
    "slope of a smooth step": ((1 / (1 + exp(1 / x - 1 / (1 - x)))).diff(x), (1e-3, 0.01, 0.5, 0.99)),
    "inside a branch": (Piecewise((exp(-(x**2)) / erfc(x), x > 0), (1, True)), (-5.0, 5.0, 40.0)),
}

CANCELLATION = {
    "1 - exp": (1 - exp(-x), RIGHT),
    "(exp - 1)/x": ((exp(x) - 1) / x, (-40.0, -1e-9, 1e-12, 3.0)),
    "difference of exponentials": (exp(-x) - exp(-2 * x), (1e-12, 0.5, 30.0)),
    "x/(exp - 1)": (x / (exp(x) - 1), (-40.0, 1e-12, 40.0, 600.0)),
    "1 - erf": (1 - erf(x), (-5.0, 0.1, 5.0, 20.0)),
    "1 + erf": (2 + 2 * erf(x), (-20.0, -5.0, 0.1)),
    "2 - erfc": (2 - erfc(x), (-20.0, -5.0, 0.1)),
    "difference of erf": (erf(x + 1) - erf(x), (-20.0, -0.5, 0.1, 20.0)),
    "1 - tanh": (1 - tanh(x), (-30.0, 0.1, 30.0, 300.0)),
    "1 - tanh²": (1 - tanh(x) ** 2, (0.1, 30.0, 300.0)),
    "cosh - 1": (cosh(x) - 1, (1e-9, 1.0, 30.0)),
    "cosh - sinh": (cosh(x) - sinh(x), (0.1, 30.0, 600.0)),
    "1 - cos": (1 - cos(x), (1e-9, 1.0)),
    "1 - sin²": (1 - sin(x) ** 2, (1.0, 1.5707963)),
    "root minus its argument": (sqrt(x**2 + 3) - x, (-1e9, 0.1, 1e3, 1e9)),
    "1 - root": (1 - sqrt(1 - x), (1e-14, 0.5)),
    "difference of roots": (sqrt(x + 1) - sqrt(x), (0.1, 1e12)),
    "difference of reciprocals": (1 / (1 + x) - 1 / (1 + 2 * x), (1e-12, 0.5, 1e9)),
    "share of a whole": (1 - x / (x + 2), (1e-12, 0.5, 1e15)),
    "difference of powers": ((1 + x) ** Rational(1, 3) - (1 - x) ** Rational(1, 3), (1e-12, 0.5)),
    "difference of inverse powers": ((1 - x) ** -4 - (1 + x) ** -4, (1e-12, 0.5)),
}

LOGARITHMS = {
    "softplus": (log(1 + exp(x)), EVERYWHERE),
    "log 1 + x": (log(1 + x), (1e-14, 0.5, 1e9)),
    "log-sum": (log(exp(x) + exp(-2 * x) + 3), EVERYWHERE),
    "log cosh": (log(cosh(x)), EVERYWHERE),
    "log 2 cosh": (log(2 * cosh(x)), EVERYWHERE),
    "log sinh": (log(sinh(x)), (0.5, 5.0, 1e3)),
    "log of a tail": (log(erfc(x) / 2), FAR),
    "log of a probability": (log((1 - erf(x)) / 2), FAR),
    "log 1 - exp": (log(1 - exp(-x)), (1e-12, 0.5, 30.0, 300.0)),
    "log 1 - tanh²": (log(1 - tanh(x) ** 2), (1e-6, 0.5, 30.0, 300.0)),
    "difference of logarithms": (log(x + 1) - log(x), (1e-9, 1.0, 1e12)),
    "log of a quotient": (log(exp(-(x**2)) / erfc(x)), (0.1, 5.0, 40.0)),
}


def truth(expr: Expr, at: float) -> mp.mpf:
    with mp.workdps(60 if expr.has(besseli, besselk, gamma, erfi) else 800 if expr.has(erf, erfc) else 1000):
        return lambdify([x], expr, "mpmath")(mp.mpf(at))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("expr", "points"),
    [pytest.param(*case, id=name) for name, case in {**OVERFLOW_AND_UNDERFLOW, **CANCELLATION, **LOGARITHMS}.items()],
)
def test_accurate_where_the_plain_form_overflows_underflows_or_cancels(expr: Expr, points: tuple[float, ...]) -> None:
    (values,) = as_function([x], [expr])(np.array(points))
    precise = as_function([x], [expr], "mpmath")
    for at, value in zip(points, np.broadcast_to(values, (len(points),)), strict=True):
        exact = truth(expr, at)
        assert abs(value - exact) <= 2e-13 * abs(exact) + 1e-307, at
        with mp.workdps(40):
            assert abs(precise(mp.mpf(at))[0] - exact) <= mp.mpf(10) ** -34 * abs(exact) + mp.mpf(10) ** -300, at


@pytest.mark.parametrize(
    ("expr", "limit"),
    [
        (sin(x) / x, 1), (sinh(3 * x) / x, 3), ((exp(x) - 1) / x, 1), (log(1 + x) / x, 1), (tanh(x * y) / x, y),
        (x / tanh(x), 1), (x / (exp(2 * x) - 1), Rational(1, 2)), (x * log(x), 0), (x**2 * log(x), 0),
    ],
)  # fmt: skip
def test_quotients_that_are_0_by_0_at_one_point_have_their_limit_there(expr: Expr, limit: Expr) -> None:
    (value,) = as_function([x, y], [expr])(np.array([0.0]), np.array([0.7]))
    assert value == pytest.approx(float(S(limit).subs(y, 0.7)), rel=1e-15)


def test_what_is_not_in_danger_stays_as_it_is() -> None:
    for expr in (x * exp(-x), tanh(x) ** 2 * y, x**2 + y**2, sqrt(x**2 + y), exp(x) + exp(y), 1 / (x**2 + 1), sin(x) + cos(y)):
        assert safe(expr) == expr


def test_safe_forms_pickle() -> None:
    made = safe(exp(-(x**2)) / erfc(x) + sqrt(x**2 + 1) - x)
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 15))])
def test_random_expressions_keep_their_value(seed: int) -> None:
    """Sums, products, powers and logarithms of everything that has a rule, against plain evaluation with many digits."""
    rng = np.random.default_rng(seed)
    expr = _random(rng, 4)
    given = {x: rng.normal() * 2, y: rng.normal() * 2}
    with mp.workdps(60):
        numbers = [mp.mpf(float(value)) for value in given.values()]
        try:
            exact = lambdify([x, y], expr, "mpmath")(*numbers)
        except (ZeroDivisionError, OverflowError):
            return
        if not isinstance(exact, mp.mpf) or not mp.isfinite(exact):
            return  # outside the domain of a root or a logarithm
        precise = as_function([x, y], [expr], "mpmath")(*numbers)[0]
        complex_safe = as_function([x, y], [expr], "mpmath", real=False)(*numbers)[0]
        assert abs(precise - exact) <= mp.mpf(10) ** -40 * abs(exact), expr
        assert abs(complex_safe - exact) <= mp.mpf(10) ** -40 * abs(exact), expr


def _random(rng: np.random.Generator, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        return [x, y, S.One, x - y, 2 * x, x * y, -x / 2][rng.integers(7)]
    a, b = _random(rng, depth - 1), _random(rng, depth - 1)
    functions = (exp, erfc, erf, tanh, cosh, sinh, log, Abs, sin, cos)
    f = functions[rng.integers(len(functions))]
    inner = [x, y, x + y, -x, 2 * y, x / sqrt(2)][rng.integers(6)]
    if f is log:
        inner = 1 + inner**2 if rng.random() < 0.5 else 1 + exp(inner)
    match rng.integers(8):
        case 0:
            return a - b
        case 1:
            return a + f(inner)
        case 2:
            return a * f(inner)
        case 3:
            return a / f(inner)
        case 4:
            return 1 - f(inner) ** int(rng.integers(1, 3)) + a
        case 5:
            return a * f(inner) - f(inner + 1) * a
        case 6:
            return sqrt(a**2 + f(inner) ** 2) - a
    return a / (1 + f(inner) ** 2) - b * exp(inner)


def test_complex_values_keep_their_branch() -> None:
    z = 0.3 + 2.0j
    logistic = (exp(x) - 1) / (exp(x) + 1)
    for expr in (exp(-(x**2)) / erfc(x), sqrt(x**2 + 1) - x, logistic, log(x * exp(5 * x)), cosh(x) / sinh(x)):
        (value,) = as_function([x], [expr], real=False)(np.complex128(z))
        assert complex(value) == pytest.approx(complex(lambdify([x], expr, "mpmath")(mp.mpmathify(z))), rel=1e-12)
