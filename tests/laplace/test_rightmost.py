"""`rightmost_singularity` against transforms whose singularities are known in closed form."""

import cmath
import math

import mpmath
import numpy as np
import pytest
from sympy import Rational, exp, sqrt

from eqsolve import E, Eq, SolverError, UsageError, random, spectra, unknown
from eqsolve.laplace import rightmost_singularity
from eqsolve.laws import Bernoulli, Discrete, MarchenkoPastur, Mixture, Normal, Uniform

p, R = unknown("p R")
w, x = random("w"), random("x")


def find(h, laws=None, **options):
    return rightmost_singularity(h, variable=p, unknown=R, laws=laws, **options)


def test_semicircle() -> None:
    found = find(Eq(R, 1 / (p - R)))
    assert (found.kind, found.exponent, found.certified) == ("branch point", -1.5, True)
    assert found.p == pytest.approx(2, abs=4e-15)
    # G = (p − √(p²−4))/2 ≈ 1 − √(p − 2): the moments' generating function decays with −c/(2√π), c = −1
    assert found.amplitude == pytest.approx(1 / (2 * math.sqrt(math.pi)), rel=1e-12)


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.95, 1.05, 2, 10])
def test_marchenko_pastur_edge(delta) -> None:
    found = find(R - (p + R) / (delta * (p + R + 1)))
    assert found.rate == pytest.approx((1 - delta**-0.5) ** 2, rel=2e-14)
    assert found.certified


def test_a_response_that_does_not_decay_has_a_pole_with_its_final_value() -> None:
    found = find(R - (1 + R) / (0.5 * (p * (1 + R) + 1)))  # linear regression, δ = ½: R_w(∞) = (1 − δ)/δ
    assert (found.kind, found.exponent) == ("pole", 0)
    assert found.p == pytest.approx(0, abs=1e-14)
    assert found.amplitude == pytest.approx(1, rel=1e-9)


def test_delay_equation_with_a_real_root() -> None:
    found = find(R * (p + exp(-p) / 4) - 1)  # y' = −y(t−1)/4
    assert found.p == pytest.approx(float(mpmath.lambertw(-0.25).real), rel=1e-14)
    assert found.kind == "pole"
    assert not found.ties
    assert found.certified


def test_delay_equation_with_a_complex_pair() -> None:
    found = find(R * (p + exp(-p)) - 1, region=(-3, 20))  # y' = −y(t−1)
    exact = complex(mpmath.lambertw(-1))
    assert complex(found.p) == pytest.approx(exact, rel=1e-13)
    assert complex(found.amplitude) == pytest.approx(1 / (1 + exact), rel=1e-12)
    assert [complex(item.p) for item in found.ties] == [pytest.approx(exact.conjugate(), rel=1e-13)]
    assert found.certified
    assert "oscillating" in found.decay


def test_equal_real_parts_are_said() -> None:
    found = find(R * (1 - exp(-p)) - 1, region=(-1, 15))  # a renewal process that renews at whole times
    assert complex(found.p) == pytest.approx(0, abs=1e-13)
    heights = sorted({round(abs(complex(item.p).imag) / (2 * math.pi), 9) for item in found.ties})
    assert heights == [1, 2]
    assert "equal real part" in found.decay


def test_complex_branch_points() -> None:
    found = find(R - 1 / (p**2 + 1 - R / 4), region=(-2, 5))  # R = 2(p²+1) − 2√((p²+1)²−1), no branch point at p = 0
    assert found.kind == "branch point"
    assert complex(found.p) == pytest.approx(1j * math.sqrt(2), abs=1e-12)
    assert len(found.ties) == 1


def test_sheets_that_cross_on_the_axis_are_passed_without_a_polynomial() -> None:
    """The same with an expectation in it: at p = 0 both sheets meet, and the walk along the axis steps over the place."""
    found = find(R - E(1 / (p**2 + 1 - x * R / 4)), {x: Discrete([1], [1])})
    assert (found.kind, found.certified) == ("branch point", True)
    assert complex(found.p) == pytest.approx(1j * math.sqrt(2), abs=1e-12)
    assert len(found.ties) == 1


def test_no_singularity_is_said() -> None:
    with pytest.raises(SolverError, match=r"no singularity in the searched region Re p ≥ -2, \|Im p\| ≤ 2"):
        find(R * exp(p**2) - 1, region=(-2, 2))


def test_no_bounded_solution_is_said() -> None:
    with pytest.raises(SolverError, match="no bounded solution"):
        find(R - p**2)


@pytest.mark.parametrize(
    ("law", "kind", "place"),
    [
        (Uniform(1, 2), "edge", -1),
        (MarchenkoPastur(2), "edge", -((1 - 2**-0.5) ** 2)),
        (Bernoulli(0.5), "pole", 0),
        (Discrete([0.5, 2], [0.3, 0.7]), "pole", -0.5),
    ],
)
def test_the_law_sets_the_singularity_of_its_own_transform(law, kind, place) -> None:
    found = find(R - E(1 / (p + x)), {x: law})
    assert found.kind == kind
    assert found.p == pytest.approx(place, abs=1e-10)
    if law == Discrete([0.5, 2], [0.3, 0.7]):
        assert found.amplitude == pytest.approx(0.3, rel=1e-8)


def gaussian(alpha):
    preconditioner = sqrt(w**2 + alpha**4)
    law = {w: Mixture((0.9, Normal(0, 0.1)), (0.1, Normal(1, 0.1)))}
    return R - (p + R) / 2 * E(preconditioner / (p + R + preconditioner)), law


def test_densities_to_rounding() -> None:
    found = find(*gaussian(0.1))
    assert found.rate == pytest.approx(0.0036017735285996558, rel=1e-13)
    assert found.R + found.p == pytest.approx(-0.008932188761354999, rel=1e-13)
    assert found.certified
    assert found.residual < 1e-13


@pytest.mark.slow
def test_densities_to_many_digits() -> None:
    precise = find(*gaussian(0.1), precision=30)
    assert abs(float(precise.p) + 0.0036017735285996558) < 1e-17
    # independent: mpmath's own quadrature of the two equations at the point found
    with mpmath.workdps(30):
        u = precise.p + precise.R
        a4 = mpmath.mpf(0.1**4)  # the float that the model holds

        def mean(function):
            def integrand(y):
                total = mpmath.mpf(0)
                for weight, centre in ((mpmath.mpf(9) / 10, 0), (mpmath.mpf(1) / 10, 1)):
                    z = centre + y / mpmath.sqrt(10)
                    total += weight * function(mpmath.sqrt(z * z + a4))
                return total * mpmath.exp(-y * y / 2) / mpmath.sqrt(2 * mpmath.pi)

            kink = -mpmath.sqrt(10)
            steps = [mpmath.mpf(step) for step in ("-1", "-0.1", "-0.01", "0", "0.01", "0.1", "1")]
            return mpmath.quad(integrand, sorted([-12, *(kink + step for step in steps), *steps, 12]))

        assert abs(mean(lambda v: (v / (u + v)) ** 2) - 2) < 1e-28


def test_precision_of_closed_forms() -> None:
    found = find(R - (p + R) / (2 * (p + R + 1)), precision=50)
    with mpmath.workdps(50):
        assert abs(found.p + (1 - 1 / mpmath.sqrt(2)) ** 2) < mpmath.mpf(10) ** -50
    pole = find(R * (p + exp(-p) / 4) - 1, precision=40)
    with mpmath.workdps(45):
        assert abs(pole.p - mpmath.lambertw(mpmath.mpf(-1) / 4).real) < mpmath.mpf(10) ** -40


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: find(R - 1 / (p - R - w)), "random variable `w`, which has no law"),
        (lambda: find(R - 1), "does not contain its variable"),
        (lambda: rightmost_singularity(R - 1 / (p - R) + unknown("c"), variable=p, unknown=R), "has no value"),
        (lambda: find(R - E(1 / (p + x)), {x: 3}), "must be a law"),
    ],
)
def test_wrong_calls_are_refused(call, words) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def test_the_certificate_sees_a_singularity_off_the_axis() -> None:
    found = find(R * (p + 1) * ((p + 0.5) ** 2 + 9) - p)
    assert complex(found.p) == pytest.approx(-0.5 + 3j, rel=1e-13)
    real_only = find(R * (p + 1) * ((p + 0.5) ** 2 + 9) - p, certify=False)
    assert real_only.p == pytest.approx(-1)
    assert not real_only.certified


def test_amplitudes_give_the_decay() -> None:
    found = find(Eq(R, 1 / (p + 2 - R)))  # e^{−2t} I_1(2t)/t
    assert found.p == pytest.approx(0, abs=1e-13)
    t = 4000.0
    exact = float(mpmath.exp(-2 * t) * mpmath.besseli(1, 2 * t) / t)
    assert found.amplitude * t**-1.5 == pytest.approx(exact, rel=2e-4)
    assert np.isreal(found.amplitude)
    assert cmath.isfinite(complex(found.R))


def test_a_complex_pole_of_a_transform_that_is_not_linear_in_it() -> None:
    """(R q − 1)(R − p − 10) = g has R ≈ 1/q where q = 0; the sheets meet near q (p + 10) = 1, further left."""
    q = p**2 + Rational(2, 5) * p + 4
    found = find((R * q - 1) * (R - p - 10) - Rational(1, 100))
    root = -0.2 + 1j * 3.96**0.5
    assert found.kind == "pole"
    assert found.certified
    assert abs(complex(found.p) - root) <= max(found.error, 1e-12)
    assert abs(found.amplitude - 1 / (2 * root + 0.4)) < 1e-7


def test_branch_points_in_front_of_a_complex_pole() -> None:
    """R (q − g/(1 + R)) = 1 is quadratic in R, with the discriminant (q − 1 − g)² + 4 q: its zeros lie right of q = 0."""
    q, g = p**2 + Rational(2, 5) * p + 4, 0.01
    found = find(R * (q - Rational(1, 100) / (1 + R)) - 1)
    there = -(1 - g) + 2j * math.sqrt(g)
    root = -0.2 + cmath.sqrt(there - 3.96)
    assert (found.kind, found.certified) == ("branch point", True)
    assert complex(found.p) == pytest.approx(root, rel=1e-13)


def test_two_close_branch_points_are_not_taken_for_a_pole() -> None:
    """g R² − q R + 1 = 0 has branch points where q² = 4g, and no pole; here all of them have the same real part."""
    w, z, g = 2.8990446012944475, 0.4900015356181789, 0.007614100824299492
    found = find(g * R**2 - (p**2 + 2 * z * w * p + w**2) * R + 1)
    heights = sorted(abs(complex(item.p).imag) for item in (found, *found.ties))
    expected = [np.sqrt(w**2 - sign * 2 * np.sqrt(g) - (z * w) ** 2) for sign in (1, 1, -1, -1)]
    assert found.kind == "branch point"
    assert heights == pytest.approx(expected, rel=1e-12)
    assert complex(found.p).real == pytest.approx(-z * w, rel=1e-12)


def test_the_decay_of_the_inverse_is_that_of_the_singularity() -> None:
    delta = 2.0
    point = find(Eq(R, (1 + R) / (delta * (p * (1 + R) + 1))))
    t = 3000.0
    exact = spectra.MarchenkoPastur(delta).laplace(t, scaled=True) / delta  # e^{λ₋ t} times the integral
    assert point.amplitude * t**-1.5 == pytest.approx(exact, rel=1e-2)  # corrections of order 1/(λ₋ t) = 4e-3
