"""Solutions on the edge of a closed domain are found, and listed after those inside."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from sympy import exp, sqrt, tanh

import eqsolve
from eqsolve import E, Eq, FixedPoint, normal, param, unknown

beta, c, J0 = param("beta c J0", positive=True)
h = param("h")
q = unknown("q", domain=(0, 1))
m = unknown("m", domain=(-1, 1))
u = unknown("u", domain=(0, 1))
M = unknown("M", nonnegative=True)
P = unknown("P", positive=True)
z = normal("z")
spin = tanh(beta * (sqrt(q) * z + J0 * m))

GLASS = FixedPoint("glass", eqs=[Eq(q, E(tanh(beta * sqrt(q) * z + h) ** 2))], defaults={h: 0})
MAGNET = FixedPoint("magnet", eqs=[Eq(q, E(spin**2)), Eq(m, E(spin))])
COMPONENT = FixedPoint("component", eqs=[Eq(u, 1 - exp(-c * u))])
EXTINCTION = FixedPoint("extinction", eqs=[Eq(u, exp(c * (u - 1)))])
MEAN_FIELD = FixedPoint("mean_field", eqs=[Eq(M, tanh(beta * M))])


def glass(beta: float, h: float = 0.0) -> float:
    def gap(q: float) -> float:
        density = lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
        value = quad(lambda z: density(z) * math.tanh(beta * math.sqrt(q) * z + h) ** 2, -12, 12, epsabs=1e-13, limit=300)[0]
        return value - q

    return float(brentq(gap, 1e-6, 1.0, xtol=1e-13))


def others(result: eqsolve.Result) -> list[dict[str, float]]:
    return list(result.stats.get("other_solutions", []))


@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.0])
def test_only_the_edge_solves(temperature: float) -> None:
    result = eqsolve.solve(GLASS, beta=temperature)
    assert float(result["q"]) == 0
    assert float(result.error["q"]) == 0
    assert not others(result)


def test_interior_solutions_come_first() -> None:
    result = eqsolve.solve(GLASS, beta=2)
    assert float(result["q"]) == pytest.approx(glass(2), rel=1e-10)
    assert others(result) == [{"q": 0.0}]


def test_an_edge_that_is_no_solution_is_not_listed() -> None:
    result = eqsolve.solve(GLASS, beta=0.8, h=0.3)
    assert float(result["q"]) == pytest.approx(glass(0.8, 0.3), rel=1e-10)
    assert not others(result)


def test_upper_edge() -> None:
    assert float(eqsolve.solve(EXTINCTION, c=0.7)["u"]) == 1
    result = eqsolve.solve(EXTINCTION, c=2)
    assert float(result["u"]) == pytest.approx(0.20318786997997992, rel=1e-13)
    assert others(result) == [{"u": 1.0}]


def test_lower_edge_without_expectations() -> None:
    assert float(eqsolve.solve(COMPONENT, c=0.9)["u"]) == 0
    result = eqsolve.solve(COMPONENT, c=2)
    assert float(result["u"]) == pytest.approx(1 - 0.20318786997997992, rel=1e-13)
    assert others(result) == [{"u": 0.0}]


def test_zero_of_a_nonnegative_unknown() -> None:
    assert float(eqsolve.solve(MEAN_FIELD, beta=0.5)["M"]) == 0


def test_one_unknown_on_the_edge_and_one_inside() -> None:
    assert {name: float(eqsolve.solve(MAGNET, beta=0.8, J0=0.5)[name]) for name in "qm"} == {"q": 0, "m": 0}
    cold = eqsolve.solve(MAGNET, beta=2, J0=2)
    found = [(float(cold["q"]), float(cold["m"])), *((other["q"], other["m"]) for other in others(cold))]
    assert [value for value, _ in found].index(0) == len(found) - 1
    assert sorted(round(m, 6) for _, m in found) == pytest.approx([-0.916511, 0, 0, 0.916511], abs=2e-6)


def test_start_on_the_edge_stays_there() -> None:
    result = eqsolve.solve(GLASS, beta=2, start={"q": 0.0})
    assert float(result["q"]) == 0


def test_edge_solution_answers_further_questions() -> None:
    result = eqsolve.solve(GLASS, beta=0.8, precision=25)
    assert result.source.values["q"] == 0
    solution = eqsolve.solve(GLASS, beta=0.8).source
    assert solution.derivative("q", "beta") == 0
    mean, error = solution.expect(q + z**2)
    assert mean == pytest.approx(1, abs=1e-14)
    assert error < 1e-13


def test_positive_unknowns_have_no_edge() -> None:
    model = FixedPoint("open", eqs=[Eq(P, tanh(beta * P))])
    with pytest.raises(
        eqsolve.errors.SolverError, match=r"no solution found; .*Values 0 were left out, of `P`: declare nonnegative=True"
    ):
        eqsolve.solve(model, beta=0.5)
    assert np.isfinite(float(eqsolve.solve(model, beta=2)["P"]))


def test_further_solutions_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="eqsolve"):
        eqsolve.solve(EXTINCTION, c=2)
    assert "u = 1" in caplog.text
