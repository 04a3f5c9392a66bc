"""Laws with unbounded support in a transform: no rate where there is none, and edges however improbable they are."""

import mpmath
import pytest
from sympy import Abs, Rational, cos, exp, log, sqrt, tanh

from eqsolve import E, SolverError, random, unknown
from eqsolve.laplace import rightmost_singularity
from eqsolve.laws import Discrete, GaussBernoulli, Laplace, Mixture, Normal, StudentT, Uniform

p, R = unknown("p R")
k, x = random("k"), random("x")


def find(h, certify=True, **laws):
    named = {item: laws[item.name] for item in (k, x) if item.name in laws}
    return rightmost_singularity(h, variable=p, unknown=R, laws=named, certify=certify)


UNBOUNDED = [
    Normal(0, 1),
    Normal(5, Rational(1, 100)),
    Laplace(1),
    StudentT(3),
    GaussBernoulli(Rational(3, 10), 1),
    Mixture((0.5, Uniform(0, 1)), (0.5, Normal(3, 0.01))),
]


@pytest.mark.parametrize("law", UNBOUNDED)
@pytest.mark.parametrize("self_energy", [0, R / 4])
def test_unbounded_support_in_a_denominator_has_no_finite_rate(law, self_energy) -> None:
    with pytest.raises(SolverError, match=r"no finite rate: over the support of `k` ~ .* the denominator `.*` vanishes"):
        find(R - E(1 / (p + k - self_energy)), k=law)


@pytest.mark.parametrize(
    "mean",
    [
        E(1 / (p - k**2 - R / 4)),
        E(1 / (p - exp(k))),
        E(1 / (1 + p * k)),
        E(1 / (p + k) ** 2),
        E(1 / sqrt(p + k)),
        E(1 / ((p - k) ** 2 + 1)),  # it vanishes off the real axis only
        E(1 / (p**2 + k * p + 1)),
        E(1 / (p + k * R)),
        E(1 / (p + k * exp(-p))),  # no polynomial in p
    ],
)
def test_wherever_the_variable_enters_a_denominator(mean) -> None:
    with pytest.raises(SolverError, match="no finite rate"):
        find(R - mean, k=Normal(0, 1))


@pytest.mark.parametrize(("shift", "strength", "near"), [(2, 1, -0.65), (-1, 1, 1.35), (5, 3, -0.69)])
def test_a_pole_to_the_right_of_the_edge_of_a_law(shift, strength, near) -> None:
    """The mean of 1/(p + k) with k uniform on [1, 2] is ln((p + 2)/(p + 1)); the zero further left is behind the edge."""
    found = find(R * (p + shift - strength * E(1 / (p + k))) - 1, k=Uniform(1, 2))
    with mpmath.workdps(25):
        exact = mpmath.findroot(lambda q: q + shift - strength * mpmath.log((q + 2) / (q + 1)), near)
        residue = 1 / (1 + strength / ((exact + 1) * (exact + 2)))
    assert (found.kind, found.exponent, found.certified) == ("pole", 0, True)
    assert abs(found.p - exact) < 1e-14
    assert found.amplitude == pytest.approx(float(residue), rel=1e-8)


@pytest.mark.parametrize("inside", [1 / k, log(k**2)])
def test_bounded_support_on_which_the_denominator_has_no_bound(inside) -> None:
    with pytest.raises(SolverError, match="no finite rate"):
        find(R - E(1 / (p + inside)), k=Uniform(-1, 1))


def test_two_variables_one_of_them_unbounded() -> None:
    with pytest.raises(SolverError, match=r"no finite rate.*`x` ~ Normal\(0, 1\)"):
        find(R - E(1 / (p + k + x)), k=Discrete([1, 2], [0.5, 0.5]), x=Normal(0, 1))


@pytest.mark.parametrize(
    ("inside", "law", "edge"),
    [
        (exp(k), Normal(0, 0.01), 0),  # the smallest value on the rule's points is e^{−4}
        (tanh(k), Normal(0, 0.0001), 1),
        (5 * cos(k), Normal(0, 1), 5),
        (Abs(k) + 1, StudentT(3), -1),
        pytest.param(k**2 / (1 + k**2) - 1, Laplace(Rational(1, 10)), 1, marks=pytest.mark.slow),
        pytest.param(1 / (1 + k**2), Normal(0, Rational(1, 100)), 0, marks=pytest.mark.slow),
    ],
)
def test_the_edge_is_that_of_the_whole_support(inside, law, edge) -> None:
    found = find(R - E(1 / (p + inside)), k=law)
    assert abs(float(found.p) - edge) <= 3 * found.error + 1e-14
    assert found.error < 1e-6


def test_the_error_of_an_edge_counts_how_far_the_walk_came() -> None:
    found = find(R - E(1 / (p**2 + k)), k=Uniform(0, 1), certify=False)  # log(1 + 1/p²): it vanishes doubly at p = 0
    assert abs(float(found.p)) <= found.error


@pytest.mark.slow
def test_an_expectation_that_diverges_is_said() -> None:
    with pytest.raises(SolverError, match=r"expectation over `k` ~ Laplace\(1\) diverges to the left of about p = -0\.\d+"):
        find(R - E(exp(-p * Abs(k))), k=Laplace(1))  # 1/(1 + p), from p > −1


def test_means_without_p_are_numbers() -> None:
    found = find(R - E(k**2) / (p + 1), k=Normal(0, 4))
    assert (found.kind, float(found.p)) == ("pole", pytest.approx(-1, abs=1e-12))
    assert found.amplitude == pytest.approx(4, rel=1e-9)
