"""Densities in smooth coordinates: masses and moments against closed forms, in floats and in 25 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from eqsolve.laplace.expectation import LawSource, density_parts
from eqsolve.numerics import laws
from eqsolve.numerics.laws import NumericLaw

KNOWN: dict[str, tuple[NumericLaw, str]] = {  # the mean of x²
    "normal": (laws.NormalLaw(0.5, 2.0), "9/4"),
    "gauss_bernoulli": (laws.gauss_bernoulli(0.3, 2.0), "3/5"),
    "uniform": (laws.UniformLaw(-1.0, 3.0), "7/3"),
    "laplace": (laws.LaplaceLaw(0.5), "1/2"),
    "student": (laws.StudentTLaw(8.0), "4/3"),
    "marchenko_pastur": (laws.MarchenkoPasturLaw(2.0), "3/2"),
    "hard_edge": (laws.MarchenkoPasturLaw(1.0), "2"),
    "with_atom": (laws.MarchenkoPasturLaw(0.5), "3"),
    "mixture": (laws.mixture(0.5, 0.5, laws.NormalLaw(0.0, 1.0), laws.point(1.0)), "1"),
    "atoms": (laws.bernoulli(0.3), "3/10"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_rules_resolve_the_law(name: str) -> None:
    law, text = KNOWN[name]
    top, _, bottom = text.partition("/")
    source = LawSource({"x": law})
    probe = lambda values: np.stack([np.ones_like(values["x"]), values["x"] ** 2])  # noqa: E731
    rule = source.rule(probe)
    assert probe(rule.values) @ rule.weights == pytest.approx([1.0, int(top) / int(bottom or 1)], rel=3e-15)
    with mpmath.workdps(40):
        precise = source.rule(probe, 25)
        mass = mpmath.fsum(precise.weights)
        second = mpmath.fsum(w * x**2 for x, w in zip(precise.values["x"], precise.weights, strict=True))
        exact = mpmath.mpf(int(top)) / int(bottom or 1)
        tiny = mpmath.mpf(10) ** -14 if name == "atoms" else mpmath.mpf(10) ** -22  # its 1 − p was rounded
        assert abs(mass - 1) < tiny
        assert abs(second - exact) < tiny


def test_a_law_of_points_has_no_part() -> None:
    assert density_parts(laws.NormalLaw(1.0, 0.0)) == []
    assert density_parts(laws.gauss_bernoulli(0.0, 1.0)) == []
    assert density_parts(laws.rademacher(0.5)) == []
