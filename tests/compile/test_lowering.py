"""Expressions as functions of arrays: parameters as arguments, text that pickles, programs bound as a whole."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sympy import Max, Symbol, besselj, erf, exp, sqrt, symbols

from eqsolve import E, ModelError, param, process, times
from eqsolve.compile.lowering import Lowered, at, lower

x, y = symbols("x y", real=True)
a, b = param("a b", positive=True)


def test_values_and_shared_parts():
    function = lower([exp(x) * a, exp(x) + y], [x, y], [a, b])
    assert function.parameters == ("a",)
    first, second = function.at({"a": 2.0, "b": 5.0})(np.array([0.0, 1.0]), 3.0)
    np.testing.assert_allclose(first, 2 * np.exp([0.0, 1.0]))
    np.testing.assert_allclose(second, np.exp([0.0, 1.0]) + 3)
    assert function.text.count("exp(") == 1


def test_a_lowered_function_pickles_and_is_the_same():
    function = lower([erf(x) + besselj(0, x) * sqrt(b)], [x], [b])
    again = pickle.loads(pickle.dumps(function))
    assert (again.text, again.parameters, again.module) == (function.text, function.parameters, function.module)
    assert again.at({"b": 4.0})(0.7)[0] == function.at({"b": 4.0})(0.7)[0]


def test_nodes_may_be_arguments_and_may_not_be_left_over():
    t, w = times("t"), process("w")
    node = E(w(t) ** 2)
    assert lower([2 * node + x], [node, x])(3.0, 1.0)[0] == 7.0
    with pytest.raises(ModelError, match="cannot be computed pointwise"):
        lower([2 * node + x], [x])


@dataclass(frozen=True)
class Piece:
    function: Lowered
    name: str


@dataclass(frozen=True)
class Program:
    pieces: tuple[Piece, ...]
    table: dict[str, Lowered]


def test_a_program_is_bound_as_a_whole_and_shared_pieces_stay_shared():
    piece = Piece(lower([a * x], [x], [a]), "one")
    bound = at(Program((piece, piece), {"f": lower([x + a], [x], [a])}), {"a": 3.0})
    assert bound.pieces[0] is bound.pieces[1]
    assert bound.pieces[0].function(2.0)[0] == 6.0
    assert bound.table["f"](2.0)[0] == 5.0
    assert bound.pieces[0].name == "one"


def test_a_symbol_of_another_kind_with_the_name_of_a_stand_in():
    assert lower([Symbol("x0") + Symbol("p0") + a], [Symbol("p0"), Symbol("x0")], [a]).at({"a": 1.0})(10.0, 100.0)[0] == 111.0


def test_the_largest_of_three_is_taken():
    np.testing.assert_allclose(lower([Max(x, y, a)], [x, y], [a]).at({"a": 0.5})(np.array([0.0, 1.0]), 0.2)[0], [0.5, 1.0])
