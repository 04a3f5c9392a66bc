"""Whatever `solve` takes for a model, every other verb takes too: settings of the models behind it included."""

import numpy as np
import pytest
from sympy import Rational, sqrt

import eqsolve
from eqsolve import E, ParameterError, UsageError, random, unknown
from eqsolve.laplace import rightmost_singularity
from eqsolve.laws import Normal
from eqsolve.passes.forms.structure import settable

SETTINGS = {"delta": 2, "sigma2": 0.2, "w_star": "Normal(0,1)"}


def exact_rate(sigma2, alpha=0.3):
    """Return γ for δ = 2 and a Gaussian target: σ² and w* enter through one Gaussian of variance 1 + σ²/(δ − 1)."""
    w, R, p = random("w"), *unknown("R p")
    x = sqrt(w**2 + Rational(str(alpha)) ** 4)
    return rightmost_singularity(
        R - (p + R) / 2 * E(x / (p + R + x)), variable=p, unknown=R, laws={w: Normal(0, Rational(str(1 + sigma2)))}
    ).rate


def test_settings_of_the_law_reach_every_verb() -> None:
    exact = [exact_rate(0.2), exact_rate(0.5)]
    assert float(eqsolve.solve("dln_rate", alpha=0.3, **SETTINGS)["gamma"]) == pytest.approx(exact[0], rel=1e-11)
    swept = eqsolve.sweep("dln_rate", {"alpha": [0.3]}, **SETTINGS)
    assert swept["gamma"].values == pytest.approx(exact[:1], rel=1e-11)
    assert swept.params["sigma2"] == 0.2
    others = {**SETTINGS, "alpha": 0.3}
    del others["sigma2"]
    axis = eqsolve.sweep("dln_rate", {"sigma2": "0.2,0.5"}, **others)
    curve = eqsolve.rate_curve("dln_rate", "sigma2", ["1/5", 0.5], params=others)
    followed = eqsolve.follow("dln_rate", "sigma2", [0.2, "1/2"], **others)
    for values in (axis["gamma"].values, curve["gamma"], followed["gamma"].values):
        assert values == pytest.approx(exact, rel=1e-11)


def test_laws_of_the_law_are_axes() -> None:
    made = eqsolve.sweep("dln_rate", {"w_star": ["Normal(0,1)", "Bernoulli(0.1)"]}, alpha=0.3, delta=2, sigma2=0.2)
    assert made.status == "ok"
    assert float(made["gamma"][0]) == pytest.approx(exact_rate(0.2), rel=1e-11)


def test_settings_of_the_cases_are_settings_and_axes() -> None:
    made = eqsolve.sweep("dln_fixed_point", {"delta": [2, 4]}, sigma2=0.3, w_star="Normal(0,1)")
    assert made["C_w"].values == pytest.approx([0.3, 0.1], rel=1e-10)  # σ²/(δ − 1)
    assert made.params["w_star"] == "Normal(0, 1)"
    axis = eqsolve.sweep("dln_fixed_point", {"w_star": ["Normal(0,1)", "Point(1)"]}, delta=2, sigma2=0.3)
    assert axis["C_w"].values == pytest.approx([0.3, 0.3], rel=1e-10)


@pytest.mark.slow
def test_validate_solves_the_theory_with_the_settings_of_its_law() -> None:
    made = eqsolve.validate("dln_rate", d=20, seeds=2, alpha=0.3, **SETTINGS)
    assert made.observables["gamma"].theory[0] == pytest.approx(exact_rate(0.2), rel=1e-11)
    assert made.params["sigma2"] == 0.2


def test_a_rate_is_followed_from_one_law_to_another() -> None:
    deltas = [0.5, 0.8, 1.25, 2]
    curve = eqsolve.rate_curve("dln_rate", "delta", deltas, sigma2=0.1)
    single = [float(eqsolve.solve("dln_rate", delta=value, sigma2=0.1)["gamma"]) for value in deltas]
    assert np.allclose(curve["gamma"], single, rtol=1e-10)


@pytest.mark.parametrize(
    "call",
    [
        lambda **given: eqsolve.solve("dln_rate", **given),
        lambda **given: eqsolve.sweep("dln_rate", {"alpha": [0.1]}, **given),
        lambda **given: eqsolve.validate("dln_rate", d=40, seeds=2, **given),
        lambda **given: eqsolve.follow("dln_rate", "alpha", [0.1], **given),
        lambda **given: eqsolve.rate_curve("dln_rate", "alpha", [0.1], **given),
    ],
)
def test_what_nobody_knows_is_refused_alike(call) -> None:
    with pytest.raises(ParameterError, match=r"`dln_rate` has no parameter `sigma3`; did you mean `sigma2`\?"):
        call(sigma3=1)
    with pytest.raises(ParameterError, match=r"`sigma2` of model `dln_fixed_point_min_norm` must be nonnegative, got -1"):
        call(sigma2=-1)


def test_laws_cannot_be_followed() -> None:
    for call in (eqsolve.follow, eqsolve.rate_curve):
        with pytest.raises(UsageError, match=r"along the numbers of a parameter, got the law Normal\(0, 1\) .*; use sweep"):
            call("dln_rate", "w_star", ["Normal(0,1)"])
    with pytest.raises(UsageError, match="varies along the curve and cannot be fixed too"):
        eqsolve.rate_curve("dln_rate", "alpha", [0.1], params={"alpha": 1})


def test_what_may_be_set() -> None:
    assert {"alpha", "delta", "L", "sigma2", "w_star"} <= settable(eqsolve.load("dln_rate"))
    assert {"alpha", "lam", "w_star"} <= settable(eqsolve.load("dln_fixed_point"))
