"""A compiled law is the bound law: same numbers at any parameters, with moments of other constants inside."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sympy import exp, sqrt

from eqsolve import E, param, random
from eqsolve.compile.lowering import compile_law
from eqsolve.errors import ParameterError
from eqsolve.laws import (
    Bernoulli,
    Discrete,
    Empirical,
    GaussBernoulli,
    Laplace,
    MarchenkoPastur,
    Mixture,
    Normal,
    Point,
    Rademacher,
    StudentT,
    Uniform,
)

a, b = param("a b", positive=True)
VALUES = {"a": 0.3, "b": 1.7}
LAWS = {
    "point": Point(a * b),
    "bernoulli": Bernoulli(a),
    "rademacher": Rademacher(a**2),
    "discrete": Discrete([0, b], [1 - a, a]),
    "normal": Normal(a, exp(b)),
    "gauss_bernoulli": GaussBernoulli(a, b),
    "uniform": Uniform(-a, b),
    "laplace": Laplace(sqrt(b)),
    "student": StudentT(3 * b),
    "marchenko_pastur": MarchenkoPastur(a),
    "mixture": Mixture((a, Normal(0, b)), (1 - a, Mixture((a, Point(b)), (1 - a, Uniform(0, 1))))),
    "empirical": Empirical([1.0, 2.0, 2.0]),
    "numbers": Normal(0, 2),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_compiled_law_is_the_bound_one(name: str) -> None:
    law = LAWS[name]
    bound: Any = law.xreplace({a: Point(VALUES["a"]).args[0], b: Point(VALUES["b"]).args[0]}).numeric()
    made = pickle.loads(pickle.dumps(compile_law(law, (a, b)))).at(VALUES)
    for one, other in zip(made.rule(12), bound.rule(12), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
    rngs = [np.random.default_rng(0) for _ in range(2)]
    np.testing.assert_allclose(made.sample(rngs[0], 50), bound.sample(rngs[1], 50), rtol=1e-13)


def test_moments_of_other_constants() -> None:
    w = random("w", Normal(0, a))
    z = random("z", Normal(0, b * E(w**4)))  # E w⁴ = 3 a²
    v = random("v", Normal(E(z**2 + w), 1))
    laws = {item: item.law for item in (w, z, v)}
    made = compile_law(v.law, (a, b), laws).at(VALUES)
    assert made.moments() == pytest.approx((3 * VALUES["a"] ** 2 * VALUES["b"], 1.0), rel=1e-13)
    given = compile_law(v.law, (a, b), {**laws, w: Point(2)}).at(VALUES)
    assert given.moments()[0] == pytest.approx(16 * VALUES["b"] + 2, rel=1e-13)


def test_numbers_out_of_range_are_refused() -> None:
    plan = compile_law(Normal(0, a - 1), (a, b))
    assert plan.at({"a": 1.5}).moments() == pytest.approx((0.0, 0.5))
    with pytest.raises(ParameterError, match=r"variance must be >= 0, got -0\.5.*usage: Normal"):
        plan.at({"a": 0.5})
    with pytest.raises(ParameterError, match="finite"):
        plan.at({"a": float("inf")})


def test_a_moment_in_a_law_is_that_of_the_law_which_holds_now() -> None:
    constant = random("w", Normal(0, 1))
    plan = compile_law(Normal(0, E(constant**2)), ())
    assert plan.at({}).rule(8)[0] == pytest.approx(Normal(0, 1).numeric().rule(8)[0])
    changed = plan.at({}, {"w": Normal(1, 4).numeric()})
    assert changed.rule(8)[0] == pytest.approx(Normal(0, 5).numeric().rule(8)[0])
