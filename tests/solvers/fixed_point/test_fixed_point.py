"""The solver of fixed points: reference values, corners of the parameter space, limits, errors, laws."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import erf
from sympy import Abs, Heaviside, Max, Min, Symbol, cosh, exp, sinh, sqrt, tanh

import eqsolve
from eqsolve import E, Eq, FixedPoint, Inverse, normal, param, random, symbol, unknown
from eqsolve.errors import ParameterError, SolverError, UsageError
from eqsolve.laws import Bernoulli, Normal

# independent values: trapezoid in asinh(w/α²) with two numbers of nodes; closed forms of soft thresholding in mpmath
L1 = {
    (0.5, 0.1, 0.0): {
        "C_w": 0.00253437874938661, "C_f": 0.00128629323956758, "chi_w": 0.4036724163364444,
        "E_train": 0.00128629323956758, "E_test": 0.00253437874938661, "P_w_zero": 0.8562084672896754,
    },
    (2.0, 0.5, 0.1): {
        "C_w": 0.03516306494713289, "C_f": 0.117929770526129, "chi_w": 0.07057547166758691,
        "E_train": 0.117929770526129, "E_test": 0.1351630649471329, "P_w_zero": 0.8681541403939422,
    },
}  # fmt: skip
MIN_NORM = {
    (2, 0.1, 0.0): {"C_w": 0.008172995145875977, "R_w": 0.037156744488808305, "Cf_tilde": 5.919784932497247},
    (2, 1.0, 0.0): {"C_w": 0.04870471680333148, "R_w": 1.0227601777430715, "Cf_tilde": 0.04656111829140268},
    (2, 10.0, 0.0): {"C_w": 0.04999985416861544, "R_w": 100.00024999734379, "Cf_tilde": 4.999960417293827e-06},
    (2, 0.3, 0.05): {"C_w": 0.0947787730428534, "R_w": 0.1966492351802881, "Cf_tilde": 3.7438666235388434},
    (3, 1.0, 0.0): {"C_w": 0.0450090880764153, "R_w": 1.093074254839391, "Cf_tilde": 0.03767045647681482},
}


def assert_values(result: eqsolve.Result, expected: dict[str, float], rel: float = 1e-11) -> None:
    for name, value in expected.items():
        assert float(result[name]) == pytest.approx(value, rel=rel)
        assert float(result.error[name]) < 1e-12 * abs(value)


@pytest.mark.parametrize("key", L1)
def test_l1_box(key: tuple[float, float, float]) -> None:
    delta, lam, sigma2 = key
    result = eqsolve.solve("dln_fixed_point_l1", delta=delta, lam=lam, sigma2=sigma2)
    assert_values(result, L1[key])
    assert result.stats["residual"] < 1e-12


@pytest.mark.parametrize("key", MIN_NORM)
def test_minimum_norm_box_at_any_depth(key: tuple[int, float, float]) -> None:
    depth, alpha, sigma2 = key
    result = eqsolve.solve("dln_fixed_point_min_norm", L=depth, alpha=alpha, sigma2=sigma2)
    assert_values(result, {**MIN_NORM[key], "E_test": MIN_NORM[key]["C_w"] + sigma2})


@pytest.mark.parametrize(("delta", "sigma2"), [(2.0, 0.1), (4.0, 0.1), (1.01, 1.0)])
def test_ridgeless_box(delta: float, sigma2: float) -> None:
    result = eqsolve.solve("dln_fixed_point_ridgeless", delta=delta, sigma2=sigma2)
    expected = {"C_w": sigma2 / (delta - 1), "chi_w": 1 / (delta - 1), "C_f": (delta - 1) / delta * sigma2}
    assert_values(result, {**expected, "E_test": sigma2 + sigma2 / (delta - 1)})


def test_zeros_of_ridgeless_regression_are_those_of_the_target() -> None:
    assert float(eqsolve.solve("dln_fixed_point_ridgeless", sigma2=0)["P_w_zero"]) == pytest.approx(0.9, abs=1e-14)
    assert float(eqsolve.solve("dln_fixed_point_ridgeless", sigma2=0.1)["P_w_zero"]) == 0


corner = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "fixed_points.py"))["corner"]


def check_corners(seed: int, count: int) -> None:
    """Residual, positivity, one solution, and agreement of two quadratures: the reported error is their difference."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        name, settings = corner(rng)
        result = eqsolve.solve(name, params=settings)
        assert result.stats["residual"] < 1e-11, (name, settings)
        assert "other_solutions" not in result.stats, (name, settings)
        for value in result.names:
            size, error = float(result[value]), float(result.error[value])
            assert size >= 0, (name, settings, value)
            assert error <= max(1e-10 * abs(size), 1e-14), (name, settings, value)


def test_corners_of_the_parameter_space() -> None:
    check_corners(seed=5, count=12)


@pytest.mark.slow
def test_many_corners_of_the_parameter_space() -> None:
    check_corners(seed=0, count=50)


# --- limits ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("delta", "sigma2"), [(0.5, 0.0), (0.3, 0.2), (0.9, 1.0)])
def test_wide_start_gives_least_squares_norm(delta: float, sigma2: float) -> None:
    """α → ∞: C_w → ρ²(1−δ) + σ²δ/(1−δ), with a correction of order α⁻⁴."""
    expected = 0.1 * (1 - delta) + sigma2 * delta / (1 - delta)
    gaps = [
        float(eqsolve.solve("dln_fixed_point_min_norm", alpha=alpha, delta=delta, sigma2=sigma2)["C_w"]) - expected
        for alpha in (40, 80)
    ]
    assert abs(gaps[1]) < 1e-7 * expected
    assert gaps[0] / gaps[1] == pytest.approx(16, rel=0.05)  # rounding is 1e-3 of the second gap at most


@pytest.mark.slow
def test_small_start_approaches_least_l1_norm_logarithmically() -> None:
    """The relative deviation of E_test times log(1/α²) tends to a constant; the limit is that of λ → 0 in case (i)."""
    limit = float(eqsolve.solve("dln_fixed_point_l1", lam=1e-9, sigma2=0.05)["E_test"])
    path = eqsolve.follow("dln_fixed_point_min_norm", "alpha", np.geomspace(1e-2, 1e-20, 19), sigma2=0.05)
    logs = np.log(1 / path["alpha"].values ** 2)
    scaled = (path["E_test"].values / limit - 1) * logs
    assert np.abs(np.diff(scaled))[-1] < 2e-3
    assert (np.diff(np.abs(np.diff(scaled))) < 0).all()
    constant = np.polynomial.Polynomial.fit(1 / logs[-8:], scaled[-8:], 2)(0.0)  # corrections in powers of 1/log
    assert constant == pytest.approx(-0.95, abs=0.03)


def test_weak_penalty_gives_ridgeless_regression() -> None:
    ridgeless = eqsolve.solve("dln_fixed_point_ridgeless", delta=2, sigma2=0.1)
    gaps = []
    for lam in (1e-4, 1e-5):
        weak = eqsolve.solve("dln_fixed_point_l1", delta=2, sigma2=0.1, lam=lam)
        gaps.append(abs(float(weak["C_w"]) / float(ridgeless["C_w"]) - 1))
    assert gaps[1] < 1e-3
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05)


def test_double_descent_peaks_at_one() -> None:
    below = eqsolve.follow("dln_fixed_point", "delta", [0.5, 0.9, 0.99, 0.999], sigma2=0.1, alpha=1)["E_test"].values
    above = eqsolve.follow("dln_fixed_point", "delta", [1.001, 1.01, 1.1, 2], sigma2=0.1)["E_test"].values
    assert (np.diff(below) > 0).all()
    assert (np.diff(above) < 0).all()
    assert below[-1] == pytest.approx(0.1 + 0.1 * 0.999 / 0.001, rel=0.01)
    assert above[0] == pytest.approx(0.1 + 0.1 / 0.001, rel=1e-12)


@pytest.mark.slow
def test_with_noise_the_best_start_is_neither_small_nor_large() -> None:
    """σ² = 0.05, δ = 0.5: E_test is least at α = 0.345; without noise it grows with α."""
    from scipy.optimize import brentq

    def slope(alpha: float) -> float:
        return eqsolve.solve("dln_fixed_point_min_norm", alpha=alpha, sigma2=0.05).derivative("E_test", "alpha")

    best = brentq(slope, 0.2, 0.6, xtol=1e-6)
    assert best == pytest.approx(0.345, abs=0.002)
    least = float(eqsolve.solve("dln_fixed_point_min_norm", alpha=best, sigma2=0.05)["E_test"])
    assert least == pytest.approx(0.144676, abs=1e-6)
    clean = eqsolve.follow("dln_fixed_point_min_norm", "alpha", np.geomspace(0.01, 10, 20), sigma2=0)["E_test"].values
    assert (np.diff(clean) > 0).all()


# --- further questions -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [("dln_fixed_point_min_norm", "alpha", 0.1), ("dln_fixed_point_l1", "delta", 0.5), ("state_evolution", "lam", 0.1)],
)
def test_derivatives_agree_with_differences(name: str, parameter: str, value: float) -> None:
    result = eqsolve.solve(name, params={parameter: value, "sigma2": 0.05})
    step = 1e-4 * value
    near = [eqsolve.solve(name, params={parameter: value + k * step, "sigma2": 0.05}) for k in (-2, -1, 1, 2)]
    for quantity in result.names:
        a, b, c, d = (float(other[quantity]) for other in near)
        difference = (a - 8 * b + 8 * c - d) / (12 * step)
        # fourth-order differences: truncation ~1e-14 relative, rounding 1e-15/1e-4
        assert result.derivative(quantity, parameter) == pytest.approx(difference, rel=1e-8, abs=1e-9)


@pytest.mark.slow
def test_expectations_over_the_law_and_their_derivatives() -> None:
    """E[x/(u + x)] and E[(x/(u + x))²] = δ at the edge of the spectrum of the linearised flow."""
    w, alpha, u = Symbol("w"), Symbol("alpha"), Symbol("u")
    x = sqrt(w**2 + alpha**4)
    edge = 0.01444832958544858
    result = eqsolve.solve("dln_fixed_point_min_norm", alpha=0.1)
    value, error = result.expect(x / (u + x), u=edge)
    assert value == pytest.approx(0.6820833186036759, rel=1e-12)
    assert error < 1e-13
    assert result.expect((x / (u + x)) ** 2, u=edge)[0] == pytest.approx(0.5, rel=1e-11)
    near = [eqsolve.solve("dln_fixed_point_min_norm", alpha=0.1 + k * 1e-5).expect(x / (u + x), u=edge)[0] for k in (-1, 1)]
    slope = result.derivative(x / (u + x), "alpha", u=edge)
    assert slope == pytest.approx((near[1] - near[0]) / 2e-5, rel=1e-6)
    law = result.law("w")
    assert law.expect(lambda w: np.sqrt(w**2 + 1e-4) / (edge + np.sqrt(w**2 + 1e-4))) == pytest.approx(value, rel=1e-13)


@pytest.mark.slow
def test_any_number_of_digits() -> None:
    """18 and 26 digits agree where both have them, and with the double result where it has them."""
    few, many = (eqsolve.solve("dln_fixed_point_l1", precision=digits) for digits in (18, 26))
    plain = eqsolve.solve("dln_fixed_point_l1")
    for name in plain.names:
        assert few.source.errors[name] < 1e-17
        assert abs(few.source.values[name] - many.source.values[name]) < 1e-17
        assert float(many.source.values[name]) == pytest.approx(float(plain[name]), rel=1e-13)
    assert str(many.stats["digits"]["chi_w"]).startswith("0.403672416336444368840216")
    law = few.law("w")
    assert abs(law.expect(lambda w, w_star: (w - w_star) ** 2) - few.source.values["C_w"]) < 1e-18


# --- the solver on models of its own -----------------------------------------------------------------------
m = unknown("m")
m_positive = unknown("m", positive=True)
beta = param("beta", positive=True)


def test_several_solutions_are_reported() -> None:
    """m = tanh(βm) has one solution for β < 1, three for β > 1."""
    model = FixedPoint("magnet", eqs=[Eq(m, tanh(beta * m))], defaults={beta: 2})
    result = eqsolve.solve(model)
    others = [other["m"] for other in result.stats["other_solutions"]]
    found = sorted([float(result["m"]), *others])
    assert found == pytest.approx([-0.9575040240772687, 0, 0.9575040240772687], abs=1e-12)
    assert "other_solutions" not in eqsolve.solve(model, beta=0.5).stats
    near = eqsolve.solve(model, start={"m": -0.9})
    assert float(near["m"]) == pytest.approx(-0.9575040240772687, rel=1e-13)


def test_solutions_close_to_each_other_are_kept_apart() -> None:
    """Right above β = 1 the three solutions are close: m² ≈ 3(β − 1)."""
    model = FixedPoint("magnet", eqs=[Eq(m, tanh(beta * m))])
    result = eqsolve.solve(model, beta=1.01)
    others = [other["m"] for other in result.stats["other_solutions"]]
    found = sorted([float(result["m"]), *others])
    root = brentq(lambda y: np.tanh(1.01 * y) - y, 0.05, 0.5, xtol=1e-15)
    assert found == pytest.approx([-root, 0, root], abs=1e-12)


def test_no_solution_is_said_with_the_domain_searched() -> None:
    model = FixedPoint("none", eqs=[Eq(m_positive, m_positive + exp(-m_positive) + 1)])
    with pytest.raises(SolverError, match=r"no solution found; searched m from 1e-55 to 1e30"):
        eqsolve.solve(model)


def test_an_eliminated_unknown_outside_its_domain_is_no_solution() -> None:
    r, s = unknown("r s", positive=True)
    model = FixedPoint("outside", eqs=[Eq(r**2, 4), Eq(s, 1 - r)])
    with pytest.raises(SolverError, match=r"hold only for r = 2, s = -1, which lies outside the domains"):
        eqsolve.solve(model)


def test_expectations_with_kinks_against_closed_forms() -> None:
    """Means of |g|, max(g, 1/2) and a cubic over a Gaussian whose variance is an unknown."""
    v, a, b, c = unknown("v a b c", positive=True)
    g = normal("g", variance=v)
    model = FixedPoint(
        "moments", eqs=[Eq(v, beta), Eq(a, E(Abs(g))), Eq(b, E(Max(g, 0.5))), Eq(c, E(g**4))], defaults={beta: 2}
    )
    result = eqsolve.solve(model)
    from scipy.special import ndtr

    deviation, t = np.sqrt(2), 0.5 / np.sqrt(2)
    density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    assert float(result["a"]) == pytest.approx(np.sqrt(4 / np.pi), rel=1e-14)
    assert float(result["b"]) == pytest.approx(deviation * density + 0.5 * ndtr(t), rel=1e-14)
    assert float(result["c"]) == pytest.approx(12, rel=1e-14)


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("centre", [0.0, 0.3, 1.234])
def test_narrow_functions_are_not_passed_over(centre: float, width: float) -> None:
    """Bells of any width, alone, on a background and with a factor that vanishes at their middle, written out and not."""
    eps, c = param("eps", positive=True), param("c")
    p, q, r, s = unknown("p q r s")
    x = normal("x", variance=1)
    bell = exp(-((x - c) ** 2) / (2 * eps**2))
    written_out = exp(-(x**2 - 2 * c * x + c**2) / (2 * eps**2))
    eqs = [Eq(p, E(bell)), Eq(q, E(x**2 + bell)), Eq(r, E((x - c) ** 2 * bell)), Eq(s, E(x**2 + written_out))]
    found = eqsolve.solve(FixedPoint("narrow", eqs), eps=width, c=centre)
    total = 1 + width**2
    mass = width / total**0.5 * np.exp(-(centre**2) / (2 * total))
    second = mass * (width**2 / total + (centre * width**2 / total) ** 2)
    rounding = 1e-16 * centre / width
    for name, truth in (("p", mass), ("q", 1 + mass), ("r", second), ("s", 1 + mass)):
        allowed = 3 * float(found.error[name]) + (1e-13 + rounding + (name == "s") * rounding / width) * truth
        assert abs(float(found[name]) - truth) <= allowed, name


def test_spin_glasses_at_low_temperature() -> None:
    """q = E tanh²(βz√q): 1 − q is E sech², of a width 1/β, and β(1 − q) tends to √(2/π) (Sherrington & Kirkpatrick 1975)."""
    beta, q, x = param("beta", positive=True), unknown("q", domain=(0, 1)), normal("x", variance=1)
    glass = FixedPoint("glass", [Eq(q, E(tanh(beta * sqrt(q) * x) ** 2))], observables={"chi": beta * (1 - q)})
    for value in (1e3, 1e5):
        found = eqsolve.solve(glass, beta=value)
        assert float(found["chi"]) == pytest.approx((2 / np.pi) ** 0.5 + 1 / np.pi / value, abs=1 / value**2 + 1e-10)


def test_two_gaussians_against_mpmath() -> None:
    """E[tanh(a + b)²] of independent a ~ N(0, 1), b ~ N(0, m) is that of one Gaussian of variance 1 + m."""
    import mpmath

    a = random("a", Normal(0, 1))
    b = normal("b", variance=m_positive)
    model = FixedPoint("sum", eqs=[Eq(m_positive, E(tanh(a + b) ** 2))])
    value = float(eqsolve.solve(model)["m"])
    direct = mpmath.quad(lambda x: mpmath.tanh(mpmath.sqrt(1 + value) * x) ** 2 * mpmath.npdf(x), mpmath.linspace(-12, 12, 25))
    assert value == pytest.approx(float(direct), rel=1e-13)


def test_inverse_functions_per_node() -> None:
    """The y with y + sinh y = x has E[(y + sinh y)²] = E[x²] and the slope 1/(1 + cosh y)."""
    y = symbol("y")
    s, d = unknown("s d", positive=True)
    g = normal("g", variance=beta)
    root = Inverse(y + sinh(y), y)(g)
    slope = root.diff(g)
    model = FixedPoint(
        "inverse", eqs=[Eq(s, E((root + sinh(root)) ** 2)), Eq(d, E(slope * (1 + cosh(root))))], defaults={beta: 3}
    )
    result = eqsolve.solve(model)
    assert float(result["s"]) == pytest.approx(3, rel=1e-14)
    assert float(result["d"]) == pytest.approx(1, rel=1e-14)


# --- choosing the box --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "case"),
    [
        ({"lam": 0.1}, "dln_fixed_point_l1"),
        ({"delta": 2, "sigma2": 0.1}, "dln_fixed_point_ridgeless"),
        ({"alpha": 0.2}, "dln_fixed_point_min_norm"),
        ({"lam": 0.1, "delta": 2, "alpha": 3}, "dln_fixed_point_l1"),
    ],
)
def test_the_box_is_chosen_from_the_parameters(settings: dict[str, float], case: str) -> None:
    result = eqsolve.solve("dln_fixed_point", params=settings)
    own = {name: value for name, value in settings.items() if name in {p.name for p in eqsolve.load(case).parameters}}
    same = eqsolve.solve(case, params=own)
    assert result.stats["case"] == case
    assert case in result.message
    assert float(result["C_w"]) == pytest.approx(float(same["C_w"]), rel=1e-13)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("dln_fixed_point", {"delta": 1}, "no case for .*delta=1.*needs delta > 1"),
        ("dln_fixed_point", {"alpah": 1}, "did you mean `alpha`"),
        ("dln_fixed_point_ridgeless", {"delta": 1}, "delta > 1"),
        ("dln_fixed_point_min_norm", {"delta": 1}, "delta < 1"),
        ("dln_fixed_point_min_norm", {"alpha": 0}, "must be positive"),
        ("dln_fixed_point_l1", {"sigma2": -0.1}, "must be nonnegative"),
        ("dln_fixed_point_l1", {"w_star": "Normal(0, -1)"}, "variance must be >= 0"),
        ("dln_fixed_point_l1", {"w_star": "StudentT(2)"}, "no second moment"),
        ("dln_fixed_point_min_norm", {"w_star": "Mixture((0.5, StudentT(1)), (0.5, Point(0)))"}, "no second moment"),
    ],
)
def test_bad_input_is_refused(name: str, settings: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        eqsolve.solve(name, params=settings)


# --- following ---------------------------------------------------------------------------------------------
def test_following_gives_what_single_solves_give() -> None:
    path = eqsolve.follow("dln_fixed_point_l1", "lam", np.geomspace(2, 1e-4, 30), sigma2=0.05)
    assert path.stats["searches"] == 1
    for place in (0, 13, 29):
        single = eqsolve.solve("dln_fixed_point_l1", lam=float(path["lam"][place]), sigma2=0.05)
        for name in single.names:
            assert float(path[name][place]) == pytest.approx(float(single[name]), rel=1e-11)


def test_following_says_what_is_wrong() -> None:
    with pytest.raises(UsageError, match="cannot be fixed too"):
        eqsolve.follow("dln_fixed_point_l1", "lam", [0.1], lam=0.2)
    with pytest.raises(UsageError, match="follow takes a FixedPoint"):
        eqsolve.follow("dln", "alpha", [0.1])
    with pytest.raises(ParameterError, match="lam > 0"):
        eqsolve.follow("dln_fixed_point_l1", "lam", [0.1, 0.0])


def test_laws_that_are_neither_points_nor_gaussians() -> None:
    """A uniform target: the error estimate of the rule is below the gap to a much finer atomic approximation."""
    result = eqsolve.solve("dln_fixed_point_l1", w_star="Uniform(0, 1)")
    nodes, weights = np.polynomial.legendre.leggauss(130)
    values = [round(float(x), 14) for x in (nodes + 1) / 2]
    shares = [round(float(w), 16) for w in weights / 2]
    shares[0] += 1 - sum(shares)
    fine = eqsolve.solve("dln_fixed_point_l1", w_star=eqsolve.laws.Discrete(values, shares))
    assert float(result["C_w"]) == pytest.approx(float(fine["C_w"]), rel=1e-9)
    assert Bernoulli(0.1).numeric().atoms_of() == [(0.0, 0.9), (1.0, 0.1)]


def test_an_inverse_function_with_several_roots_is_refused() -> None:
    """y − 3/2 tanh y = g has three roots for small g: none of them is meant."""
    y, g, q = symbol("y"), normal("g"), unknown("q", positive=True)
    root = Inverse(y - 1.5 * tanh(y), y)(q * g)
    model = FixedPoint("several", eqs=[Eq(q, E(tanh(root) ** 2))], observables={"q2": q})
    with pytest.raises(SolverError, match=r"`root\[y: y - 1.5\*tanh\(y\) = .*\]` had no root, or several"):
        eqsolve.solve(model)


def _hopfield() -> FixedPoint:
    """A network with many stored patterns (Amit, Gutfreund & Sompolinsky 1985)."""
    load, temperature = param("load", nonnegative=True), param("temperature", positive=True)
    m, q, r = unknown("m", domain=(0, 1)), unknown("q", domain=(0, 1)), unknown("r", nonnegative=True)
    z = normal("z", variance=1)
    f = tanh((m + sqrt(load * r) * z) / temperature)
    eqs = [Eq(m, E(f)), Eq(q, E(f**2)), Eq(r, q / (1 - (1 - q) / temperature) ** 2)]
    return FixedPoint("hopfield", eqs=eqs, defaults={load: 0.05, temperature: 0.2})


@pytest.mark.parametrize(
    ("temperature", "start", "where"),
    [
        (0.6, None, {"m": (0, 0), "q": (0.5, 0.53)}),  # a glass: one equation holds everywhere on the edge m = 0
        (0.02, None, {"m": (0.9999, 1)}),  # retrieval: beyond the ends of a scan, and stable where another is not
        (0.02, {"m": 0.7}, {"m": (0.7, 0.75)}),  # the nearest in what is given
    ],
)
def test_every_branch_is_found(temperature: float, start: Any, where: dict[str, tuple[float, float]]) -> None:
    """Equations hold by quadrature on a fine grid, and the branch is the one expected."""
    found = eqsolve.solve(_hopfield(), temperature=temperature, start=start)
    m, q, r = (float(found[name]) for name in ("m", "q", "r"))
    x = np.linspace(-9, 9, 400_001)
    weights = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    f = np.tanh((m + np.sqrt(0.05 * r) * x) / temperature)
    assert abs(f @ weights - m) < 1e-10
    assert abs(f**2 @ weights - q) < 1e-10
    assert abs(q / (1 - (1 - q) / temperature) ** 2 - r) < 1e-8
    assert all(low <= float(found[name]) <= high for name, (low, high) in where.items())


def test_a_jump_and_a_kink_at_one_place() -> None:
    """The transition of the minority game (Challet, Marsili & Zecchina 2000): two switches turn at g = ±k, with one jump."""
    k, q, a = unknown("k q a", positive=True)
    g = normal("g", variance=1)
    played = Max(-1, Min(1, g / k))
    eqs = [Eq(q, E(played**2)), Eq(a, k**2 * (1 + q)), Eq(a, E(Heaviside(k - Abs(g))))]
    found = eqsolve.solve(FixedPoint("minority_game", eqs=eqs))

    def off(b: float) -> float:
        share = erf(b / 2**0.5)
        square = 1 - share + (share - (2 / np.pi) ** 0.5 * b * np.exp(-(b**2) / 2)) / b**2
        return share - b**2 * (1 + square)

    truth = brentq(off, 0.1, 2, xtol=1e-15)
    assert abs(float(found["k"]) - truth) < 1e-14
    assert float(found.error["k"]) < 1e-14
