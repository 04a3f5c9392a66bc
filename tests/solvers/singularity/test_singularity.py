"""Rates of declared singularities: reference values, limits known in closed form, derivatives, routing of settings."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.special import lambertw
from sympy import Expr, Integer, Rational, exp, sqrt

import eqsolve
from eqsolve import E, Eq, ModelError, ParameterError, Singularity, UsageError, param, random, unknown
from eqsolve.cli import main
from eqsolve.laws import Normal, Point

REFERENCE = [  # γ, u, A with relative error below 1e-13, computed independently
    ({"alpha": 0.1, "delta": 0.5, "sigma2": 0}, 0.0052615995983963, 0.01444832958544858, 0.6820833186036759),
    ({"alpha": 1, "delta": 0.5, "sigma2": 0}, 0.17541757508222677, 0.4235957088240347, 0.7070577810729154),
    ({"alpha": 0.1, "delta": 2, "sigma2": 0.1}, 0.0036017735285996558, -0.008932188761354999, 1.1935294640922316),
    ({"alpha": 10, "delta": 2, "sigma2": 0.1}, 8.578729542542261, -29.28961474980443, 1.4142135623276135),
    pytest.param(
        {"alpha": 1, "delta": 0.5, "sigma2": 0, "L": 3},
        0.18672856435801982,
        0.4520832014316549,
        0.7065201314345332,
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("settings", "gamma", "u", "A"), REFERENCE)
def test_reference_values(settings, gamma, u, A) -> None:
    found = eqsolve.solve("dln_rate", **settings)
    for name, exact in (("gamma", gamma), ("u", u), ("A", A)):
        assert float(found[name]) == pytest.approx(exact, rel=2e-13)
        assert 0 < float(found.error[name]) < 1e-12 * abs(exact)
    assert found.stats["residual"] < 1e-12
    assert found.stats["certified"]
    assert found.stats["exponent"] == -1.5


@pytest.mark.slow
def test_total_and_partial_derivative() -> None:
    found = eqsolve.solve("dln_rate", alpha=0.1, delta=0.5, sigma2=0)
    assert found.derivative("gamma", "alpha", fixed_law=True) == pytest.approx(0.03759817838940491, rel=1e-12)
    step = 1e-4
    up, down = (float(eqsolve.solve("dln_rate", alpha=0.1 + s, delta=0.5, sigma2=0)["gamma"]) for s in (step, -step))
    far, near = (float(eqsolve.solve("dln_rate", alpha=0.1 + s, delta=0.5, sigma2=0)["gamma"]) for s in (2 * step, -2 * step))
    slope = (8 * (up - down) - (far - near)) / (12 * step)  # error of the difference: step⁴ and rounding 1e-15/step
    assert found.derivative("gamma", "alpha") == pytest.approx(slope, rel=1e-8)
    above = eqsolve.solve("dln_rate", alpha=0.1, delta=2, sigma2=0.1)
    assert above.derivative("gamma", "alpha") == pytest.approx(0.05662595545822194, rel=1e-12)
    assert above.derivative("gamma", "alpha", fixed_law=True) == pytest.approx(0.05662595545822194, rel=1e-12)


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.95, 1.05, 2, 10])
@pytest.mark.parametrize("lam", [0, 0.3])
def test_linear_regression_has_the_marchenko_pastur_edge(delta, lam) -> None:
    found = eqsolve.solve("linear_regression_rate", delta=delta, lam=lam)
    assert float(found["gamma"]) == pytest.approx(lam + (1 - delta**-0.5) ** 2, rel=1e-13)


@pytest.mark.parametrize("delta", [0.5, 2])
def test_large_initialization(delta) -> None:
    found = eqsolve.solve("dln_rate", alpha=30, delta=delta, sigma2=0.1)
    assert float(found["gamma"]) / (30**2 * (1 - delta**-0.5) ** 2) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "sigma2"), [(2, 0.1), (0.5, 0)])
def test_correction_to_large_initialization_with_many_digits(delta, sigma2) -> None:
    from mpmath import mpf, sqrt, workdps

    with workdps(40):
        rho2, d, s2 = mpf(1) / 10, mpf(delta), mpf(str(sigma2))
        limit = (d * rho2 + s2 * d / (1 - d)) / 2 if delta < 1 else (rho2 + s2 / (d - 1)) / 2
        gaps = []
        for alpha in (30, 100):
            found = eqsolve.solve("dln_rate", alpha=alpha, delta=delta, sigma2=sigma2, precision=22)
            gamma = found.source.values["gamma"]
            ratio = gamma / (mpf(alpha) ** 2 * (1 - 1 / sqrt(d)) ** 2)
            gaps.append(abs((ratio - 1) * mpf(alpha) ** 4 - limit))
        # the next term is of order α⁻⁴
        assert gaps[0] < 2e-7
        assert float(gaps[1] / gaps[0]) == pytest.approx(0.3**4, rel=0.02)


def test_small_initialization() -> None:
    rates = [float(eqsolve.solve("dln_rate", alpha=a, delta=0.5, sigma2=0)["gamma"]) for a in (0.1, 0.03, 0.01)]
    assert rates[0] > rates[1] > rates[2] > 0
    assert rates[2] < 1e-3
    bounded = eqsolve.solve("dln_rate", alpha=0.01, delta=2, sigma2=0, w_star=Point(1))
    assert float(bounded["gamma"]) == pytest.approx((1 - 2**-0.5) ** 2, rel=1e-7)  # γ does not vanish: x ≥ 1


def test_settings_reach_the_fixed_point_behind() -> None:
    found = eqsolve.solve("dln_rate", alpha=0.3, delta=2, sigma2=0.2, w_star=Normal(0, 1))
    assert found.params["sigma2"] == 0.2
    assert found.params["w_star"] == "Normal(0, 1)"
    assert found.stats["law_of"] == "dln_fixed_point_ridgeless"
    # σ² and the target enter through one Gaussian of variance 1 + σ²/(δ − 1)
    w, R, p = random("w"), *unknown("R p")
    from eqsolve.laplace import rightmost_singularity

    x = sqrt(w**2 + Rational(3, 10) ** 4)
    direct = rightmost_singularity(R - (p + R) / 2 * E(x / (p + R + x)), variable=p, unknown=R, laws={w: Normal(0, 1.2)})
    assert float(found["gamma"]) == pytest.approx(direct.rate, rel=1e-12)
    assert found.law("w").var() == pytest.approx(1.2, rel=1e-12)


def test_what_nobody_knows_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"no parameter `sigma3`; did you mean `sigma2`\? \(it has: L, alpha"):
        eqsolve.solve("dln_rate", sigma3=1)
    with pytest.raises(ParameterError, match=r"has a law for delta < 1 or delta > 1 only.*got delta=1"):
        eqsolve.solve("dln_rate", delta=1)
    with pytest.raises(UsageError, match="no observable `gama`; did you mean `gamma`"):
        eqsolve.solve("linear_regression_rate").derivative("gama", "delta")


def test_a_law_that_is_not_there_is_named() -> None:
    a = param("a", positive=True)
    p, R = unknown("p R")
    y = random("y")
    model = Singularity(
        "lost", transform=Eq(R, E(a / (p + R + y**2 + 1))), variable=p, unknown=R, law_of="dln_fixed_point_l1",
        defaults={a: 1}, observables={"gamma": -p},
    )  # fmt: skip
    with pytest.raises(ModelError, match="needs the law of `y`"):
        eqsolve.solve(model)


def test_declared_laws_need_no_fixed_point() -> None:
    p, G = unknown("p G")
    model = Singularity("semicircle", transform=Eq(G, 1 / (p - G)), variable=p, unknown=G, observables={"edge": p})
    found = eqsolve.solve(model)
    assert float(found["edge"]) == pytest.approx(2, rel=1e-14)
    assert found.kind == "singularity"


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "dln_rate", "--set", "alpha=0.1", "delta=0.5", "sigma2=0", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["status"] == "ok"
    assert made["values"]["gamma"] == pytest.approx(0.0052615995983963, rel=1e-12)
    assert set(made["values"]) == set(made["errors"]) == {"gamma", "u", "A"}
    assert made["stats"]["singularity"] == "branch point"


@pytest.mark.slow
def test_the_rate_curve_agrees_with_single_solves() -> None:
    alphas = np.geomspace(0.2, 2, 3)
    curve = eqsolve.rate_curve("dln_rate", "alpha", alphas, delta=0.5, sigma2=0.05, derivatives=["gamma"])
    assert (curve.slopes["gamma"] > 0).all()
    assert curve.certified.all()
    single = eqsolve.solve("dln_rate", alpha=float(alphas[1]), delta=0.5, sigma2=0.05)
    assert curve["gamma"][1] == pytest.approx(float(single["gamma"]), rel=1e-12)
    assert math.isclose(curve["gamma"][0], float(eqsolve.solve("dln_rate", alpha=0.2, delta=0.5, sigma2=0.05)["gamma"]))


q, R = unknown("q R")
K, tau = param("K tau", positive=True)


@pytest.mark.parametrize("shift", [exp(-q * tau), Integer(1)])
def test_a_complex_pair_is_found_all_along_a_curve(shift: Expr) -> None:
    """R = 1/((q + 1)² + 2 e^(−q tau)): poles where q + 1 = ±i √2 e^(−q tau/2), by Lambert's function."""
    model = Singularity(
        "delayed", transform=Eq(R, 1 / ((q + 1) ** 2 + K * shift)), variable=q, unknown=R, defaults={K: 2, tau: 1},
        observables={"rate": -q},
    )  # fmt: skip
    places = [0.5, 1.0, 1.5]
    found = eqsolve.follow(model, "tau" if shift.has(tau) else "K", places)
    truth = [
        -max((-1 + 2 / u * lambertw(1j * 2**0.5 * u / 2 * np.exp(u / 2), k)).real for k in (-1, 0, 1))
        if shift.has(tau)
        else 1.0
        for u in places
    ]
    assert found.stats["certified"]
    assert found["rate"].values == pytest.approx(truth, abs=1e-10)


def test_atoms_of_the_target_without_noise_all_count() -> None:
    """Two atoms: with u = p + R the branch point is where d/du of p = u (1 − E[x/(u + x)]/δ) vanishes, nearest below 0."""
    from scipy.optimize import brentq

    x, share, delta = np.sqrt(np.array([0.0, 1.0]) + 0.3**4), np.array([0.5, 0.5]), 10

    def slope(u: float) -> float:
        return float(1 - share @ (x / (u + x)) / delta + u * (share @ (x / (u + x) ** 2)) / delta)

    u = brentq(slope, -x[0] * (1 - 1e-9), 0, xtol=1e-16, rtol=1e-15)
    found = eqsolve.solve("dln_rate", alpha=0.3, delta=delta, sigma2=0, w_star="Rademacher(0.5)")
    assert float(found["gamma"]) == pytest.approx(-u * (1 - share @ (x / (u + x)) / delta), rel=1e-13)
    assert found.stats["certified"]


@pytest.mark.parametrize(
    ("alpha", "gamma"),
    [(0.3, 0.080101693514866251), (0.1, 0.0089897808905945636), (0.03, 0.00080991799267698152), (1e-3, 8.9999989884951234e-7)],
)
def test_the_edge_of_a_law_counts_where_it_has_nearly_no_weight(alpha: float, gamma: float) -> None:
    """w ~ N(1, 1/90): the smallest x, at w = 0, has a density of 1e-19, and the rate is still that of the branch point by it.

    Values by quadrature in 60 digits of E[x²/(u + x)²] = δ, whose root lies 1e-14 to 1e-17 of α² from the end of the support;
    in floats the two cannot be told apart.
    """
    found = eqsolve.solve("dln_rate", alpha=alpha, delta=10, sigma2=0.1, w_star="Point(1)")
    assert found.stats["singularity"] == "edge"
    assert float(found["gamma"]) == pytest.approx(gamma, rel=1e-11)
    assert float(found.error["gamma"]) == pytest.approx(1e-11 * gamma, rel=0.5)


@pytest.mark.slow
def test_rates_increase_with_alpha_over_laws_sizes_and_noise() -> None:
    """32 points, ends of the ranges among them: solved, certified, residual below 1e-12, total derivative positive.

    At the edge of a law, where there is no derivative, the difference of two rates known to 1e-11 has the sign. The
    benchmark of rates does the same on 540 points.
    """
    model, edges = eqsolve.load("dln_rate"), 0
    laws = ("Bernoulli(0.1)", "Point(1)")
    for law, sigma2, delta, alpha in itertools.product(laws, (0, 0.1), (0.1, 0.95, 1.05, 10), (1e-3, 1e2)):
        settings = {"w_star": law, "sigma2": sigma2, "delta": delta}
        found = eqsolve.solve(model, alpha=alpha, **settings)
        assert found.stats["certified"], (settings, alpha)
        assert found.stats["residual"] <= 1e-12, (settings, alpha)
        if found.stats["singularity"] == "branch point":
            assert found.derivative("gamma", "alpha") > 0, (settings, alpha)
            continue
        edges += 1
        assert float(eqsolve.solve(model, alpha=1.001 * alpha, **settings)["gamma"]) > 1.0001 * float(found["gamma"])
    assert edges == 1  # w* = 1 with noise at δ = 10: α = 1e-3


def delayed(form: str) -> Singularity:
    p, R = unknown("p R")
    a, tau, b = param("a tau b")
    below = p + b + a * exp(-p * tau)
    equation = Eq(R, 1 / below) if form == "explicit" else Eq(R * below, 1)
    return Singularity(
        "dde", transform=equation, variable=p, unknown=R, defaults={a: 1.2, tau: 0.8, b: 0.3}, observables={"gamma": -p}
    )


@pytest.mark.parametrize("form", ["explicit", "implicit"])
@pytest.mark.parametrize("a", [1.2, 3])
def test_a_declared_transform_may_be_explicit(form, a) -> None:
    exact = complex(lambertw(-a * 0.8 * math.exp(0.3 * 0.8))) / 0.8 - 0.3
    found = eqsolve.solve(delayed(form), a=a)
    assert float(found["gamma"]) == pytest.approx(-exact.real, abs=1e-13)
    assert found.stats["p"] == pytest.approx([exact.real, exact.imag], abs=1e-13)
    assert found.stats["certified"]


def test_a_region_is_searched_as_the_message_advises() -> None:
    p, R = unknown("p R")
    far = Singularity(
        "far",
        transform=Eq(R, 1 / (p + 1) + 1 / ((p + Rational(1, 2)) ** 2 + 10**8)),
        variable=p,
        unknown=R,
        observables={"gamma": -p},
    )
    near = eqsolve.solve(far, region=(-3, 5))
    assert float(near["gamma"]) == pytest.approx(1, abs=1e-12)
    wide = eqsolve.solve(far, region=(-3, 2e4))
    assert abs(complex(*wide.stats["p"]) - (-0.5 + 1e4j)) <= 3 * float(wide.error["gamma"]) < 1e-6
    with pytest.raises(eqsolve.SolverError, match=r"region=\(LOW, HEIGHT\), on the command line --region LOW,HEIGHT"):
        eqsolve.solve(far, region=(-0.3, 5))
    curve = eqsolve.rate_curve(delayed("implicit"), "a", [1.2, 3], region=(-2, 5))
    assert curve["gamma"] == pytest.approx([0.5232582380551527, -0.29917331374294437], abs=1e-12)
    swept = eqsolve.sweep(delayed("implicit"), {"a": [1.2, 3]}, region=(-2, 5))
    assert swept["gamma"].values == pytest.approx([0.5232582380551527, -0.29917331374294437], abs=1e-12)


@pytest.mark.parametrize(
    ("region", "words"),
    [
        (3, r"region takes two numbers \(LOW, HEIGHT\)"),
        ((-3, 0), "HEIGHT must be positive, got 0"),
        ((-3, "high"), "HEIGHT of region= takes a finite number"),
        ((float("-inf"), 1), "LOW of region= takes a finite number"),
    ],
)
def test_a_region_that_is_none_is_refused(region, words) -> None:
    with pytest.raises(UsageError, match=words):
        eqsolve.solve(delayed("explicit"), region=region)


def test_a_region_is_for_a_singularity() -> None:
    for call in (eqsolve.solve, eqsolve.validate, lambda model, **given: eqsolve.sweep(model, {"delta": [2]}, **given)):
        with pytest.raises(UsageError, match="region= is where a Singularity is searched, and model `lasso` is a FixedPoint"):
            call("lasso", region=(-1, 1))


def test_the_branch_of_the_transform_is_chosen_as_the_message_advises() -> None:
    p, R = unknown("p R")
    model = Singularity("two", transform=Eq(R**2 - R, -1 / p), variable=p, unknown=R, observables={"gamma": -p})
    for start, side in ((0, -1), (1, 1)):  # R = (1 ± √(1 − 4/p))/2, with the decay −c/(2√π) of R ≈ ½ + c √(p − 4)
        point = eqsolve.solve(model, start={"R": start}).source.point
        assert (point.p, point.amplitude) == pytest.approx((4, -side / (8 * math.sqrt(math.pi))), rel=1e-9)
    with pytest.raises(eqsolve.SolverError, match=r'solve\(\.\.\., start={"R": value}\)'):
        eqsolve.solve(Singularity("grows", transform=Eq(R, p**2), variable=p, unknown=R, observables={"gamma": -p}))


def test_an_unbounded_law_of_a_solved_fixed_point_has_no_finite_rate() -> None:
    p, R = unknown("p R")
    w = random("w")
    h = Eq(R, E(1 / (p + w - R / 4)))
    model = Singularity(
        "unbounded", transform=h, variable=p, unknown=R, law_of="dln_fixed_point_min_norm", observables={"gamma": -p}
    )
    with pytest.raises(eqsolve.SolverError, match=r"`unbounded`: equation for `R` .*no finite rate: over the support of `w`"):
        eqsolve.solve(model)
    from eqsolve.laplace import rightmost_singularity

    law = eqsolve.solve("dln_fixed_point_min_norm", sigma2=0.1).law("w")
    with pytest.raises(eqsolve.SolverError, match="no finite rate"):
        rightmost_singularity(h, variable=p, unknown=R, laws=law)
    x = sqrt(w**2 + Rational(1, 10) ** 4)
    same = rightmost_singularity(Eq(R, 2 * (p + R) * E(x / (p + R + x))), variable=p, unknown=R, laws=law)
    assert same.rate == pytest.approx(float(eqsolve.solve("dln_rate", sigma2=0.1)["gamma"]), rel=1e-11)
