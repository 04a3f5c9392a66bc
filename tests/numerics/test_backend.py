"""Where arrays live: the CPU, a card, and the strict stand-in for one that tests the same code on every machine."""

import functools
import pickle
from unittest import mock

import numpy as np
import pytest
import sympy as sp

import eqsolve
from eqsolve.compile.lowering import lower
from eqsolve.errors import MissingExtraError, UsageError
from eqsolve.numerics import backend
from eqsolve.numerics.backend import CPU, anywhere, arrays_of, choose_backend
from tests.strict_arrays import STRICT, StrictArray, strict_card

X, Y = sp.symbols("x y", real=True)
EXPRESSIONS = [
    sp.tanh(X) * Y, sp.Max(X, Y, 0), sp.Min(X, 2), sp.Piecewise((X, X > 0), (Y, X < -1), (1, True)), sp.Heaviside(X),
    sp.Abs(X),
    sp.Piecewise((1, (X > 0) & (Y > 0)), (0, True)), sp.log(1 + sp.exp(X)), 1 / (1 + sp.exp(-X)), sp.cosh(X) ** -2,
    sp.erf(X) - sp.erf(Y), sp.erfc(X) * sp.exp(X**2), sp.exp(-1 / X**2), sp.besseli(0, X), sp.sqrt(1 + X**2) - 1,
    sp.Integer(3),
    sp.erfi(X) * sp.exp(-(X**2)), sp.log(sp.cosh(X)), X**3 - 2 * X, sp.Mod(X, 1), sp.Abs(X) ** sp.Rational(1, 3),
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_lowered_functions_take_arrays_of_a_card(expression: sp.Expr) -> None:
    """One function of one text: on arrays behind the wall, and mixed with numbers, it gives what mpmath gives."""
    points, other = np.array([-2.0, -0.5, 0.3, 1.0, 2.5]), 0.7
    made = STRICT.get(STRICT.full(lower([expression], [X, Y])(STRICT.put(points), other)[0], points.shape))
    truth = [float(expression.subs({X: sp.Float(x, 40), Y: sp.Float(other, 40)}).evalf(30)) for x in points]
    assert np.allclose(made, truth, rtol=1e-12, atol=1e-14)


def test_the_stand_in_refuses_what_a_card_refuses() -> None:
    array = STRICT.put(np.ones(3))
    for mixed in (lambda: np.asarray(array), lambda: np.ones(3) * array, lambda: np.ones((3, 3)) @ array):
        with pytest.raises(TypeError):
            mixed()
    with pytest.raises(TypeError):
        array[:2] = np.ones(2)
    with pytest.raises((TypeError, AttributeError)):
        np.where(True, array, 0.0)
    assert arrays_of(array) is STRICT.arrays
    assert arrays_of(1.0) is np
    assert isinstance(np.float64(2) * array, StrictArray)


def test_a_function_without_a_twin_on_the_card_is_computed_on_the_cpu() -> None:
    calls = []

    def cube(values: np.ndarray) -> np.ndarray:
        calls.append(type(values))
        return values**3

    made = anywhere(cube)(STRICT.put(np.array([2.0])))
    assert isinstance(made, StrictArray)
    assert float(made[0]) == 8.0
    assert calls == [np.ndarray]


def test_auto_takes_the_card_where_there_is_one_and_the_work_is_worth_it() -> None:
    assert choose_backend("cpu", 1e20) is CPU
    with strict_card():
        assert choose_backend("auto", 1e3) is CPU
        assert choose_backend("auto", 1e15) is STRICT
        assert choose_backend("gpu") is STRICT
        assert pickle.loads(pickle.dumps(STRICT)) is STRICT
    with mock.patch.object(backend, "card_problem", functools.cache(lambda: "CuPy is not installed; get it")):
        assert choose_backend("auto", 1e15) is CPU
        with pytest.raises(MissingExtraError, match="not installed"):
            choose_backend("gpu")


def test_a_card_that_is_missing_or_of_no_use_is_said() -> None:
    with pytest.raises(UsageError, match="takes 'cpu' or 'gpu' or 'auto'"):
        eqsolve.solve("pspin", t_max=1, device="tpu")
    with pytest.raises(UsageError, match=r"solver `two_time`.* runs on the CPU"):
        eqsolve.solve("pspin", t_max=1, device="gpu")


@pytest.mark.gpu
def test_the_card_computes_as_the_cpu_does(rng: np.random.Generator) -> None:
    card = choose_backend("gpu")
    matrix, vector = rng.standard_normal((300, 200)), rng.standard_normal(200)
    made = card.get(card.put(matrix) @ card.put(vector))
    assert np.allclose(made, matrix @ vector, rtol=1e-12, atol=1e-12)
    assert card.memory() > 0


@pytest.mark.gpu
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_lowered_functions_on_the_card(expression: sp.Expr) -> None:
    card, points, other = choose_backend("gpu"), np.array([-2.0, -0.5, 0.3, 1.0, 2.5]), 0.7
    made = card.get(card.full(lower([expression], [X, Y])(card.put(points), other)[0], points.shape))
    truth = [float(expression.subs({X: sp.Float(x, 40), Y: sp.Float(other, 40)}).evalf(30)) for x in points]
    assert np.allclose(made, truth, rtol=1e-12, atol=1e-14)
