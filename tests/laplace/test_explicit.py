"""Transforms that are given explicitly, R = f(p): their poles and branch points against places known in closed form."""

import math

import numpy as np
import pytest
from scipy.special import lambertw
from sympy import Float, Rational, exp, expand, log, prod, sqrt, tanh

from eqsolve import SolverError, unknown
from eqsolve.laplace import rightmost_singularity

p, R = unknown("p R")


def find(transform, **options):
    return rightmost_singularity(R - transform, variable=p, unknown=R, **options)


def number(value):
    return Float(float(value), 17)


def factor(z):
    """Return the real factor with the roots z and its conjugate."""
    return (p - number(z.real)) ** 2 + number(z.imag**2) if z.imag else p - number(z.real)


def place(rng, spread=2.0):
    return complex(spread * rng.normal() - 1, 3 * abs(rng.normal()) if rng.random() < 0.6 else 0.0)


@pytest.mark.parametrize("a", [1.2, 3.0, -0.7])
def test_poles_of_a_delay_equation_written_explicitly(a) -> None:
    b, tau = 0.3, 0.8
    roots = [complex(lambertw(-a * tau * math.exp(b * tau), k)) / tau - b for k in range(-3, 4)]
    exact = max(roots, key=lambda root: (root.real, root.imag))
    found = find(1 / (p + b + a * exp(-p * tau)))
    assert (found.kind, found.exponent, found.certified) == ("pole", 0, True)
    assert abs(complex(found.p) - exact) <= max(found.error, 1e-14)
    assert found.amplitude == pytest.approx(1 / (1 - a * tau * np.exp(-exact * tau)), rel=1e-12)
    same = rightmost_singularity(R * (p + b + a * exp(-p * tau)) - 1, variable=p, unknown=R)
    assert complex(same.p) == pytest.approx(complex(found.p), abs=1e-13)


@pytest.mark.parametrize(
    ("transform", "kind", "where", "exponent", "amplitude"),
    [
        (1 / ((p + Rational(1, 2)) ** 2 + 9) ** 2, "pole", -0.5 + 3j, 1, -1 / 36),
        (1 / (p + 2) ** 3, "pole", -2, 2, 0.5),
        (tanh(sqrt(p)) / sqrt(p), "pole", -(math.pi**2) / 4, 0, 2),  # no branch point: it is even in the root
        (1 / (sqrt(p + 1) - Rational(1, 2)), "pole", -0.75, 0, 1),
        (1 / sqrt(p + 1), "branch point", -1, -0.5, 1 / math.sqrt(math.pi)),
        (1 / sqrt(p**2 + 1), "branch point", 1j, -0.5, (1 - 1j) / (2 * math.sqrt(math.pi))),  # J_0
        (sqrt(p**2 + 1) - p, "branch point", 1j, -1.5, -(1 + 1j) / (2 * math.sqrt(math.pi))),  # J_1(t)/t
        (1 / (1 + sqrt(p)), "branch point", 0, -1.5, 1 / (2 * math.sqrt(math.pi))),
        (log(1 + 1 / p), "branch point", 0, -1, 1),  # (1 − e^{−t})/t
        (((p + 1) ** 2 + 4) ** Rational(-1, 3), "branch point", -1 + 2j, -2 / 3, (4j) ** (-1 / 3) / math.gamma(1 / 3)),
    ],
)
def test_kinds_of_singularities(transform, kind, where, exponent, amplitude) -> None:
    found = find(transform)
    assert found.kind == kind
    assert abs(complex(found.p) - where) <= found.error + 1e-14
    assert found.error < 1e-12
    assert found.exponent == pytest.approx(exponent, abs=1e-12)
    assert complex(found.amplitude) == pytest.approx(amplitude, rel=1e-6)
    assert found.certified


def test_poles_without_a_denominator_are_all_found() -> None:
    found = find(tanh(p) / p, region=(-1, 12))
    heights = sorted(abs(complex(item.p).imag) for item in (found, *found.ties))
    assert heights == pytest.approx([k * math.pi / 2 for k in (1, 1, 3, 3, 5, 5, 7, 7)], rel=1e-12)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("numerator", [p + 1, p**2 + 1, (p**2 + 1) * (p + 1)])
def test_a_zero_that_a_numerator_cancels_is_no_pole(explicit, numerator) -> None:
    below = expand(numerator * (p + 2))
    h = R - numerator / below if explicit else R * below - numerator
    found = rightmost_singularity(h, variable=p, unknown=R)
    assert (found.kind, found.certified) == ("pole", True)
    assert found.p == pytest.approx(-2, abs=1e-11)
    assert found.amplitude == pytest.approx(1, rel=1e-9)


def test_an_infinite_branch_point_of_an_implicit_transform_is_no_pole() -> None:
    found = rightmost_singularity(R**2 * (p**2 + 1) - 1, variable=p, unknown=R)
    assert (found.kind, found.exponent) == ("branch point", -0.5)
    assert complex(found.p) == pytest.approx(1j, abs=1e-10)


def test_a_small_residue_is_seen() -> None:
    found = find(1 / (p + 1) + Rational(1, 10**6) / ((p + Rational(1, 2)) ** 2 + 9))
    assert complex(found.p) == pytest.approx(-0.5 + 3j, abs=1e-9)
    assert complex(found.amplitude) == pytest.approx(1e-6 / 6j, rel=1e-6)


def test_poles_that_look_like_one_from_afar() -> None:
    """The scale of the search is set by a weak pole at p = −1000; the others lie close together."""
    found = find(1 / ((p + 1) ** 2 + Rational(1, 100)) + Rational(1, 10) / (p + Rational(9, 10)) + 50 / (p + 1000))
    assert found.p == pytest.approx(-0.9, abs=1e-12)
    assert found.amplitude == pytest.approx(0.1, rel=1e-9)


def test_digits_of_a_pole_given_explicitly() -> None:
    import mpmath

    found = find(1 / (p + exp(-p) / 4), precision=40)
    with mpmath.workdps(45):
        assert abs(found.p - mpmath.lambertw(mpmath.mpf(-1) / 4).real) < mpmath.mpf(10) ** -40
    with pytest.raises(SolverError, match="known in double precision only; leave out precision="):
        find(1 / sqrt(p + 1), precision=30)


def random_transform(kind, rng):
    """Return a transform, the real part of its rightmost singularity, and which kind that is."""
    if kind == "rational":
        poles = [place(rng) for _ in range(rng.integers(1, 5))]
        return 1 / prod([factor(z) for z in poles]), max(z.real for z in poles), "pole"
    if kind == "partial fractions":
        poles = [place(rng) for _ in range(rng.integers(2, 6))]
        return sum(number(10 ** rng.uniform(-4, 0)) / factor(z) for z in poles), max(z.real for z in poles), "pole"
    if kind == "delay":
        a, b, tau = 2 * rng.normal(), rng.normal(), abs(rng.normal()) + 0.2
        roots = [complex(lambertw(-a * tau * np.exp(b * tau), k)) / tau - b for k in range(-3, 4)]
        return 1 / (p + number(b) + number(a) * exp(-number(tau) * p)), max(z.real for z in roots), "pole"
    if kind == "cancelled":
        poles = [place(rng) for _ in range(3)]
        below = expand(prod([factor(z) for z in poles]))
        return expand(factor(poles[0])) / below, max(z.real for z in poles[1:]), "pole"
    root, pole = place(rng, 1.0), place(rng, 1.0)
    power = Rational(int(rng.choice([-5, -3, -1, 1, 3])), 2)
    grows = math.ceil(max(float(power) * (2 if root.imag else 1), 0))
    branch = factor(root) ** power / (p + 7) ** (grows + 1)
    kind = "pole" if pole.real > root.real else "branch point"
    return number(10 ** rng.uniform(-2, 0)) / factor(pole) + branch, max(root.real, pole.real), kind


KINDS = ["rational", "partial fractions", "delay", "cancelled", "pole and branch point"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 104))])
def test_random_transforms_with_known_singularities(kind, seed) -> None:
    transform, exact, expected = random_transform(kind, np.random.default_rng(seed))
    found = find(transform)
    assert found.kind == expected
    assert found.certified
    tolerance = 1e-6 if kind == "cancelled" else 3 * found.error + 1e-13  # expanded coefficients move the roots
    assert abs(complex(found.p).real - exact) <= tolerance * (1 + abs(exact))
    assert found.error < 1e-7 * (1 + abs(exact))


def test_a_pole_around_which_rounding_is_large() -> None:
    """A renewal process with ages uniform between 1 and 3: its density cancels at p = 0, where the rate ½ is the residue."""
    density = (exp(-p) - exp(-3 * p)) / (2 * p)
    found = find(density / (1 - density), region=(-1, 6))
    assert (found.kind, found.exponent) == ("pole", 0)
    assert abs(complex(found.p)) < 1e-9
    assert found.amplitude == pytest.approx(0.5, rel=1e-9)
