"""Closed relations as data: terms that hold the unknown itself, sums with a coefficient, the order of definitions."""

import pytest

from eqsolve import Eq, Int, function, param, times
from eqsolve.compile.relations import Relations, in_order
from eqsolve.errors import ModelError
from eqsolve.language.model import Equation
from eqsolve.numerics.relations import DiagonalPart, ScaledPart
from eqsolve.passes.forms.path_form import ROW

s = times("s")
x, y, z = function("x y z")
a, b = param("a b", positive=True)


def equation(left, right) -> Equation:
    return Equation(left, right, None)


def test_a_sum_with_a_coefficient_is_multiplied_out() -> None:
    """a (y − x) holds −a x, whether a is a number or an argument."""
    item = equation(x(ROW).diff(ROW), a * (y(ROW) - b * (x(ROW) + y(ROW))))
    made = Relations((a, b), {}).definition(item, start=a)
    (own,) = made.own
    assert isinstance(own, DiagonalPart)
    assert own.values.function.at({"a": 2.0, "b": 3.0})() == [-6.0]


def test_an_integral_over_the_unknown_is_a_part_of_it() -> None:
    made = Relations((a,), {}).definition(equation(x(ROW), 1 + a * Int(x(s), (s, 0, ROW))))
    (own,) = made.own
    assert isinstance(own, ScaledPart)


def test_what_is_not_linear_in_the_unknown_is_refused() -> None:
    with pytest.raises(ModelError, match="cannot be solved for"):
        Relations((), {}).definition(equation(x(ROW), y(ROW) + x(ROW) ** 2))


def test_definitions_follow_what_they_read() -> None:
    chain = [equation(x(ROW), y(ROW)), equation(y(ROW), z(ROW)), equation(z(ROW), 1 + Int(z(s), (s, 0, ROW)))]
    assert [item.key for item in in_order(chain)] == ["z", "y", "x"]
    with pytest.raises(ModelError, match="define each other"):
        in_order([equation(x(ROW), y(ROW)), equation(y(ROW), x(ROW))])
    assert Eq(x(s), 1).key == "x"
