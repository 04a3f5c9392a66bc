"""Paths of random constants: product rules, joint samples, parts that do not meet."""

from __future__ import annotations

import numpy as np
import pytest

from eqsolve.errors import UsageError
from eqsolve.numerics.constants import find_parts, make_paths
from eqsolve.numerics.laws import Component, NormalLaw, UniformLaw, bernoulli

TABLE = np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])


def test_independent_constants_factor() -> None:
    paths = make_paths({"x": NormalLaw(1.0, 2.0), "b": bernoulli(0.25)}, [{"x": 6}])
    x, b = paths.values["x"], paths.values["b"]
    assert paths.count == 12
    assert paths.weights.sum() == pytest.approx(1)
    assert paths.weights @ (x**2 * b) == pytest.approx(3.0 * 0.25, rel=1e-13)


def test_a_joint_sample_moves_together() -> None:
    laws = {"u": Component(TABLE, 0, ("u", "v")), "b": bernoulli(0.5), "v": Component(TABLE, 1, ("u", "v"))}
    paths = make_paths(laws, [{}])
    assert paths.count == 6
    pairs = {(float(u), float(v)) for u, v in zip(paths.values["u"], paths.values["v"], strict=True)}
    assert pairs == {tuple(row) for row in TABLE.tolist()}
    assert paths.weights @ (paths.values["u"] * paths.values["v"]) == pytest.approx(TABLE.prod(axis=1).mean())


def test_atoms_without_mass_have_no_path() -> None:
    assert make_paths({"b": bernoulli(1.0)}, [{}]).values["b"].tolist() == [1.0]


def test_without_constants_there_is_one_path() -> None:
    paths = make_paths({}, [{}])
    assert paths.count == 1
    assert paths.mean(np.array([[2.0, 3.0]])).tolist() == [[2.0, 3.0]]


def test_rules_stand_side_by_side() -> None:
    paths = make_paths({"x": UniformLaw(0.0, 1.0)}, [{"x": 1}, {"x": 4}])
    square = paths.values["x"][:, None] ** 2
    means = paths.per_rule(paths.mean(square))
    assert means[:, 0] == pytest.approx([0.25, 1 / 3], rel=1e-14)
    assert paths.rules == (slice(0, 1), slice(1, 5))
    assert paths.best == (slice(1, 5),)


def test_parts_that_do_not_meet_are_not_combined() -> None:
    laws = {"x": NormalLaw(0.0, 1.0), "y": UniformLaw(0.0, 1.0)}
    paths = make_paths(laws, [{"x": 5, "y": 3}], [["x"], ["y"]])
    assert paths.count == 8
    assert paths.mean(paths.values["x"][:, None] ** 2, 0)[0, 0] == pytest.approx(1.0, rel=1e-13)
    assert paths.mean(paths.values["y"][:, None] ** 2, 1)[0, 0] == pytest.approx(1 / 3, rel=1e-13)
    assert len(set(paths.values["y"][paths.best[0]])) == 1


def test_too_many_paths_are_refused() -> None:
    laws = {name: NormalLaw(0.0, 1.0) for name in "abcd"}
    with pytest.raises(UsageError, match="paths are needed"):
        make_paths(laws, [dict.fromkeys(laws, 30)])


def test_constants_that_meet_are_in_one_part() -> None:
    laws = {name: NormalLaw(0.0, 1.0) for name in ("a", "b", "c", "d")}
    parts = find_parts([("x", "c", "a"), ("y", "d"), ("z",)], laws)
    assert parts.constants == (("a", "c"), ("b",), ("d",))
    assert [parts.of(("x",)), parts.of(("b",)), parts.of(("y", "d"))] == [0, 1, 2]
    assert parts.of(("z",)) == parts.of(()) == 0
    assert find_parts([("x", "a"), ("x", "y"), ("y", "d")], laws).constants == (("a", "d"), ("b",), ("c",))
    assert find_parts([("x",)], {}).constants == ((),)


def test_columns_of_one_table_are_in_one_part() -> None:
    one, other = (Component(TABLE, place, ("p", "q")) for place in (0, 1))
    assert find_parts([], {"p": one, "m": NormalLaw(0.0, 1.0), "q": other}).constants == (("p", "q"), ("m",))
