"""The Marchenko-Pastur law: density, distribution, moments, quadrature, sampling.

Compared with mpmath at 30 and more digits, with other closed forms, and with random matrices.
"""

import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from eqsolve.errors import EqsolveError, SolverError
from eqsolve.spectra import MarchenkoPastur, SpectrumError

relative = partial(pytest.approx, abs=0.0)  # its default abs=1e-12 would decide everything here

DELTAS = [1e-3, 0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 2.0, 10.0, 1e3]
NEAR_ONE = [1 - 1e-9, 1 + 1e-9, 1 + 1e-6]
FRACTIONS = [1e-12, 1e-6, 0.01, 0.3, 0.7, 0.99, 1 - 1e-6, 1 - 1e-12]

# computed independently at 18 digits
REFERENCE = {
    0.5: {
        "edges": (0.171572875253809902, 5.82842712474619010),
        "atom": 0.5,
        "moments": [1.0, 1.0, 3.0, 11.0, 45.0],
        "laplace": {1.0: 0.633795373758926215, 5.0: 0.516452025492138496},
        "stieltjes": {-0.3: 2.0, -1 + 0.5j: 0.593649395464180559 + 0.247595881654621708j},
    },
    2.0: {
        "edges": (0.0857864376269049512, 2.91421356237309505),
        "atom": 0.0,
        "moments": [1.0, 1.0, 1.5, 2.75, 5.625],
        "laplace": {1.0: 0.452510166118859947, 5.0: 0.0983322489811371410},
        "stieltjes": {-0.3: 1.04517624188668128, -1 + 0.5j: 0.509658667513993392 + 0.156084577609478563j},
    },
}


# The law itself


@pytest.mark.parametrize("delta", REFERENCE)
def test_reference_numbers(delta: float) -> None:
    law, known = MarchenkoPastur(delta), REFERENCE[delta]
    assert law.edges == relative(known["edges"], rel=1e-15)
    assert law.atom == known["atom"]
    assert [law.moment(k) for k in range(5)] == known["moments"]
    for t, value in known["laplace"].items():
        assert law.laplace(t) == relative(value, rel=1e-14)
    for z, value in known["stieltjes"].items():
        assert law.stieltjes(z) == relative(value, rel=1e-14)


@pytest.mark.parametrize(
    ("delta", "t", "s", "known"),
    [
        (
            0.5,
            1.0,
            0.5,
            (0.0815191189340354799, 0.0244018889233702315, 1.45251016611885995, 0.567519716942883717),
        ),
        (2.0, 2.0, 2.0, (0.0452102051433483467, 0.0604256982661504450, 0.5, 0.5)),
    ],
)
def test_ridgeless_gradient_flow(delta: float, t: float, s: float, known: tuple[float, ...]) -> None:
    """Two-time functions of linear regression by gradient flow, computed independently at 18 digits."""
    law = MarchenkoPastur(delta)
    total = law.laplace(t + s)
    weights = 0.1 * total + 0.1 / delta * law.laplace_integrated_pair(t, s)
    residuals = 0.1 * law.laplace(t + s, 1) + 0.1 * (1 + (total - 1) / delta)
    responses = law.laplace(t - s) / delta, law.laplace(t - s, 1) / delta
    assert (weights, residuals, *responses) == relative(known, rel=1e-14)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_edges_keep_relative_accuracy(delta: float, exact: SimpleNamespace) -> None:
    law = MarchenkoPastur(delta)
    for value, truth in zip(law.edges, exact.edges(delta), strict=True):
        assert abs(value - truth) <= 1e-15 * truth
    assert law.edges == (law.lambda_minus, law.lambda_plus)
    assert law.atom == max(0, 1 - delta)


def test_is_a_value() -> None:
    law = MarchenkoPastur(2)
    assert law == MarchenkoPastur(2.0) == pickle.loads(pickle.dumps(law))
    assert len({law, MarchenkoPastur(2.0), MarchenkoPastur(3.0)}) == 2
    assert isinstance(law.delta, float)
    with pytest.raises(AttributeError):
        law.delta = 3.0  # type: ignore[misc]


@pytest.mark.parametrize("delta", [0, -1.0, np.nan, np.inf, "2", 1j, None, True, np.array([1.0])])
def test_refuses_a_bad_delta(delta: Any) -> None:
    with pytest.raises(ValueError, match=r"`delta` is not usable: got .*, expected a positive finite real number") as e:
        MarchenkoPastur(delta)
    assert isinstance(e.value, EqsolveError)


@pytest.mark.parametrize("method", ["density", "cdf", "sf", "laplace", "laplace_integrated", "stieltjes", "r_transform"])
def test_scalars_give_scalars_and_arrays_keep_their_shape(method: str) -> None:
    function = getattr(MarchenkoPastur(0.5), method)
    points = np.array([[0.2, 0.7, 1.0], [3.0, 5.0, 9.0]])
    values = function(points)
    assert values.shape == points.shape
    assert type(function(0.2)) is (complex if method == "stieltjes" else float)
    assert [function(x) for x in points.ravel().tolist()] == relative(values.ravel().tolist(), rel=1e-15)
    assert function(np.zeros((0, 2))).shape == (0, 2)
    assert function(1) == function(1.0)


# Density, distribution, moments


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_density(delta: float, exact: SimpleNamespace) -> None:
    law, (lower, upper) = MarchenkoPastur(delta), exact.edges(delta)
    for fraction in FRACTIONS:
        x = law.lambda_minus + fraction * (law.lambda_plus - law.lambda_minus)
        if lower < x < upper:
            truth = delta * mp.sqrt((upper - x) * (x - lower)) / (2 * mp.pi * x)
            exact.assert_close(law.density(x), truth, x / (x - lower) + x / (upper - x))
    outside = np.array([-1.0, law.lambda_minus / 2 if delta != 1 else -0.1, law.lambda_plus * 1.01])
    assert not law.density(outside).any()
    assert law.density(law.lambda_plus) == 0
    assert law.density(law.lambda_minus) == (np.inf if delta == 1 else 0)


@pytest.mark.parametrize("delta", [*DELTAS, 1 + 1e-6])
def test_distribution_in_both_tails(delta: float, exact: SimpleNamespace) -> None:
    law, (lower, upper) = MarchenkoPastur(delta), exact.edges(delta)
    mass = min(mp.mpf(1), mp.mpf(delta))
    for fraction in [1e-12, 0.03, 0.6, 1 - 1e-5]:
        x = law.lambda_minus + fraction * (law.lambda_plus - law.lambda_minus)
        if not lower < x < upper:
            continue
        with mp.workdps(40):
            left = exact.bulk(delta, lambda x, _: 1, upper=x)
        slope = x * law.density(x)
        exact.assert_close(law.cdf(x), 1 - mass + left, slope / (1 - mass + left))
        exact.assert_close(law.sf(x), mass - left, slope / (mass - left))


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_distribution_at_the_ends_and_off_the_support(delta: float) -> None:
    law = MarchenkoPastur(delta)
    points = np.array([-np.inf, -1e-300, 0.0, law.lambda_minus, law.lambda_plus, np.inf])
    assert law.cdf(points).tolist() == [0.0, 0.0, law.atom, law.atom, 1.0, 1.0]
    assert law.sf(points).tolist() == [1.0, 1.0, min(delta, 1.0), min(delta, 1.0), 0.0, 0.0]
    assert np.isnan(law.cdf(np.nan))
    grid = np.linspace(law.lambda_minus, law.lambda_plus, 2001)
    assert np.all(np.diff(law.cdf(grid)) > 0)
    np.testing.assert_allclose(law.cdf(grid) + law.sf(grid), 1.0, rtol=0, atol=1e-15)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_tails_vanish_like_the_power_three_halves(delta: float) -> None:
    """At distance h of an edge the mass is 2/3 h density, with no noise from cancellation."""
    law = MarchenkoPastur(delta)
    if delta > 1:
        x = law.lambda_minus * (1 + 1e-10)
        assert law.cdf(x) == relative(2 / 3 * (x - law.lambda_minus) * law.density(x), rel=1e-8)
    x = law.lambda_plus * (1 - 1e-10)
    assert law.sf(x) == relative(2 / 3 * (law.lambda_plus - x) * law.density(x), rel=1e-7)


def test_distribution_of_a_narrow_bulk(exact: SimpleNamespace) -> None:
    """The closed form would lose a factor delta here."""
    for x in (0.999, 1.0, 1.001):
        truth = exact.bulk(1e6, lambda x, _: 1, upper=x)
        assert abs(MarchenkoPastur(1e6).cdf(x) - truth) <= 1e-13


def test_distribution_where_it_has_a_simpler_form() -> None:
    """delta = 1: x = 4 sin^2(phi/2) has the distribution (phi + sin(phi))/pi."""
    phi = np.array([1e-9, 1e-4, 0.1, 1.0, 2.0, 3.0])
    x = 4 * np.sin(phi / 2) ** 2
    np.testing.assert_allclose(MarchenkoPastur(1).cdf(x), (phi + np.sin(phi)) / np.pi, rtol=1e-14)


@pytest.mark.parametrize("delta", DELTAS)
def test_moments_follow_their_recurrence(delta: float, exact: SimpleNamespace) -> None:
    """(k + 1) m_k = (2k - 1)(1 + c) m_{k-1} - (k - 2)(1 - c)^2 m_{k-2}, in exact arithmetic."""
    law, c = MarchenkoPastur(delta), 1 / Fraction(delta)
    exact = [Fraction(1), Fraction(1)]
    for k in range(2, 80):
        exact.append(((2 * k - 1) * (1 + c) * exact[-1] - (k - 2) * (1 - c) ** 2 * exact[-2]) / (k + 1))
    assert law.moment(np.arange(80)).tolist() == [float(value) for value in exact]


@pytest.mark.parametrize("delta", [1.001, 2.0, 10.0, 1e3])
def test_negative_moments(delta: float, exact: SimpleNamespace) -> None:
    law = MarchenkoPastur(delta)
    for k in (-1, -2, -3):
        assert law.moment(k) == relative(float(exact.bulk(delta, lambda x, _, k=k: x**k)), rel=1e-15)
    assert law.moment(-1) == relative(delta / (delta - 1), rel=1e-15)


def test_moments_at_the_limits() -> None:
    assert MarchenkoPastur(1).moment(np.array([-1, -2, 0])).tolist() == [np.inf, np.inf, 1.0]
    assert MarchenkoPastur(0.5).moment(-1) == np.inf
    assert MarchenkoPastur(0.5).moment(2000) == np.inf  # overflows
    law = MarchenkoPastur(1)  # Catalan numbers
    assert law.moment(500) == float(mp.binomial(1000, 500) / 501)
    with pytest.raises(SpectrumError, match=r"`k` is not usable: got 1.5, expected integers"):
        law.moment(1.5)  # type: ignore[call-overload]


# Quadrature, expectations, sampling


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 25])
def test_quadrature_is_exact_up_to_its_degree(delta: float, n: int) -> None:
    law = MarchenkoPastur(delta)
    nodes, weights = law.quadrature(n)
    assert nodes.size == weights.size == n + (delta < 1)
    assert np.all(np.diff(nodes) > 0)
    assert np.all(weights > 0)
    powers = nodes ** np.arange(2 * n)[:, None]
    np.testing.assert_allclose(powers @ weights, law.moment(np.arange(2 * n)), rtol=1e-14 * (1 + n))
    if delta >= 1 and n <= 3:  # the first error of a Gauss rule is the squared norm of p_n, here delta^-n
        assert law.moment(2 * n) - nodes ** (2 * n) @ weights == pytest.approx(
            delta**-n, rel=0.0, abs=1e-13 * law.moment(2 * n)
        )


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_quadrature_is_that_of_the_jacobi_matrix(delta: float, exact: SimpleNamespace) -> None:
    n, c = 6, min(mp.mpf(delta), 1 / mp.mpf(delta))
    jacobi = mp.matrix(n, n)
    for i in range(n):
        jacobi[i, i] = 1 + c if i else 1
        if i:
            jacobi[i, i - 1] = jacobi[i - 1, i] = mp.sqrt(c)
    values, vectors = mp.eigsy(jacobi)
    nodes, weights = MarchenkoPastur(delta).quadrature(n)
    stretch, mass = (1, 1) if delta >= 1 else (c**-1, c)
    if delta < 1:
        assert (nodes[0], weights[0]) == (0.0, 1 - delta)
        nodes, weights = nodes[1:], weights[1:]
    for i in range(n):
        exact.assert_close(nodes[i], stretch * values[i])
        exact.assert_close(weights[i], mass * vectors[0, i] ** 2)


def test_quadrature_with_many_nodes_keeps_small_nodes_accurate() -> None:
    """delta = 1: x_k = 4 sin^2((2k - 1) pi / (4n + 2))."""
    n = 3000
    nodes, weights = MarchenkoPastur(1).quadrature(n)
    angles = (2 * np.arange(1, n + 1) - 1) * np.pi / (4 * n + 2)
    np.testing.assert_allclose(nodes, 4 * np.sin(angles) ** 2, rtol=1e-14)
    np.testing.assert_allclose(weights, np.cos(angles) ** 2 * 4 / (2 * n + 1), rtol=0, atol=1e-17)
    with pytest.raises(SpectrumError, match="`n` is not usable: got 0, expected an integer >= 1"):
        MarchenkoPastur(1).quadrature(0)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_expect_knows_its_error(delta: float) -> None:
    law = MarchenkoPastur(delta)
    cases: list[tuple[Callable[[Any], Any], complex]] = [
        (lambda x: np.exp(-3 * x), law.laplace(3.0)),
        (lambda x: 1 / (x + 0.1), law.stieltjes(-0.1).real),
        (lambda x: 1 / (x - 2j), law.stieltjes(2j)),
        (lambda x: x**3, law.moment(3)),
        (lambda x: np.exp(-2000 * x), law.laplace(2000.0)),
    ]
    for f, truth in cases:
        for tol in (1e-12, 1e-4):
            result = law.expect(f, tol)
            size = law.expect(lambda x, f=f: np.abs(f(x)), 1e-4).value
            assert abs(result.value - truth) <= result.error + 1e-13 * abs(truth)
            assert result.error <= 1.1 * tol * size


def test_expect_of_several_functions_and_of_rough_ones() -> None:
    law = MarchenkoPastur(2)
    t = np.array([0.0, 1.0, 5.0])
    result = law.expect(lambda x: np.exp(-np.outer(t, x)))
    np.testing.assert_allclose(result.value, law.laplace(t), rtol=1e-14)
    assert result.error.shape == t.shape
    with pytest.raises(SolverError, match=r"`expect` did not settle: got a difference of .* with 16384 nodes, expected"):
        law.expect(lambda x: np.sign(x - 1))
    with pytest.raises(SpectrumError, match=r"`f` is not usable: got values of shape \(\)"):
        law.expect(lambda x: 1.0)
    # zero at every node of the first rules
    assert MarchenkoPastur(1).expect(lambda x: np.exp(-1e6 * x)).value == relative(MarchenkoPastur(1).laplace(1e6), rel=1e-12)
    assert law.expect(np.zeros_like).value == 0


@pytest.mark.parametrize("delta", [0.1, 0.9, 1.0, 1.001, 10.0, 1e3])
def test_sample_follows_the_distribution(delta: float, rng: np.random.Generator) -> None:
    law, size = MarchenkoPastur(delta), 40_000
    draws = law.sample(size, rng)
    assert np.all((draws == 0) | ((draws >= law.lambda_minus) & (draws <= law.lambda_plus)))
    levels = np.linspace(law.lambda_minus, law.lambda_plus, 12)[:-1]
    expected = law.cdf(levels)
    observed = np.mean(draws[:, None] <= levels, axis=0)
    assert np.all(np.abs(observed - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / size) + 1e-12)
    for k in (1, 2, 3):
        spread = np.sqrt((law.moment(2 * k) - law.moment(k) ** 2) / size)
        assert abs(np.mean(draws**k) - law.moment(k)) <= 4.5 * spread


def test_sample_takes_shapes_and_seeds() -> None:
    law = MarchenkoPastur(0.7)
    assert law.sample((3, 4), 1).shape == (3, 4)
    assert law.sample(0, 1).shape == (0,)
    np.testing.assert_array_equal(law.sample(5, 1), law.sample(5, np.random.default_rng(1)))


@pytest.mark.parametrize("delta", [0.5, 1.0, 2.0])
def test_random_matrices_have_this_law(delta: float, rng: np.random.Generator) -> None:
    """X^T X / delta with X of size n x d and variance 1/d; corrections at finite d are of order 1/d."""
    law, d, repeats = MarchenkoPastur(delta), 200, 12
    n = int(delta * d)
    statistics = []
    for _ in range(repeats):
        x = rng.standard_normal((n, d)) / np.sqrt(d)
        eigenvalues = np.maximum(np.linalg.eigvalsh(x.T @ x / delta), 0.0)
        assert np.count_nonzero(eigenvalues < 1e-10) == max(d - n, 0)
        assert eigenvalues[-1] == relative(law.lambda_plus, rel=0.1)
        resolvent = np.mean(1 / (eigenvalues + 0.3))
        statistics.append([eigenvalues.mean(), np.mean(eigenvalues**2), np.exp(-eigenvalues).mean(), resolvent])
    mean, error = np.mean(statistics, axis=0), np.std(statistics, axis=0) / np.sqrt(repeats - 1)
    expected = [law.moment(1), law.moment(2), law.laplace(1.0), law.stieltjes(-0.3).real]
    assert np.all(np.abs(mean - expected) <= 4.5 * error + 2 / d)
