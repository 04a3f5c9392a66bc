"""The Marchenko-Pastur law: density, quadrature, sampling.

Compared with mpmath at 30 and more digits, with other closed forms, and with random matrices.
"""

import pickle
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from eqsolve.errors import EqsolveError
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


def moment(delta: float, k: int) -> float:
    """The k-th moment: (k + 1) m_k = (2k - 1)(1 + c) m_{k-1} - (k - 2)(1 - c)^2 m_{k-2}, in exact arithmetic."""
    c, found = 1 / Fraction(delta), [Fraction(1), Fraction(1)]
    for j in range(2, k + 1):
        found.append(((2 * j - 1) * (1 + c) * found[-1] - (j - 2) * (1 - c) ** 2 * found[-2]) / (j + 1))
    return float(found[k])


# The law itself


@pytest.mark.parametrize("delta", REFERENCE)
def test_reference_numbers(delta: float) -> None:
    law, known = MarchenkoPastur(delta), REFERENCE[delta]
    assert law.edges == relative(known["edges"], rel=1e-15)
    assert law.atom == known["atom"]
    nodes, masses = law.quadrature(5)
    assert [masses @ nodes**k for k in range(5)] == relative(known["moments"], rel=1e-14)
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
    x, masses = (column[int(delta < 1) :] for column in law.quadrature(40))  # without the atom
    total = law.laplace(t + s)
    weights = 0.1 * total + 0.1 / delta * (np.expm1(-t * x) * np.expm1(-s * x) / x @ masses)
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


@pytest.mark.parametrize("method", ["density", "laplace", "stieltjes"])
def test_scalars_give_scalars_and_arrays_keep_their_shape(method: str) -> None:
    function = getattr(MarchenkoPastur(0.5), method)
    points = np.array([[0.2, 0.7, 1.0], [3.0, 5.0, 9.0]])
    values = function(points)
    assert values.shape == points.shape
    assert type(function(0.2)) is (complex if method == "stieltjes" else float)
    assert [function(x) for x in points.ravel().tolist()] == relative(values.ravel().tolist(), rel=1e-15)
    assert function(np.zeros((0, 2))).shape == (0, 2)
    assert function(1) == function(1.0)


# Density


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


# Quadrature, sampling


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 25])
def test_quadrature_is_exact_up_to_its_degree(delta: float, n: int) -> None:
    law = MarchenkoPastur(delta)
    nodes, weights = law.quadrature(n)
    assert nodes.size == weights.size == n + (delta < 1)
    assert np.all(np.diff(nodes) > 0)
    assert np.all(weights > 0)
    powers = nodes ** np.arange(2 * n)[:, None]
    np.testing.assert_allclose(powers @ weights, [moment(delta, k) for k in range(2 * n)], rtol=1e-14 * (1 + n))
    if delta >= 1 and n <= 3:  # the first error of a Gauss rule is the squared norm of p_n, here delta^-n
        top = moment(delta, 2 * n)
        assert top - nodes ** (2 * n) @ weights == pytest.approx(delta**-n, rel=0.0, abs=1e-13 * top)


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


@pytest.mark.parametrize("delta", [0.1, 0.9, 1.0, 1.001, 10.0, 1e3])
def test_sample_follows_the_distribution(delta: float, rng: np.random.Generator) -> None:
    law, size = MarchenkoPastur(delta), 40_000
    draws = law.sample(size, rng)
    assert np.all((draws == 0) | ((draws >= law.lambda_minus) & (draws <= law.lambda_plus)))
    levels = np.linspace(law.lambda_minus, law.lambda_plus, 12)[:-1]
    width = law.lambda_plus - law.lambda_minus  # x = λ₋ + width v²: the density is smooth in v

    def mass(v: float) -> float:
        return 2 * width * v * law.density(law.lambda_minus + width * v * v) if v else 0.0

    ends = np.sqrt((levels - law.lambda_minus) / width)
    expected = law.atom + np.array([quad(mass, 0.0, end, epsabs=1e-9)[0] for end in ends])
    observed = np.mean(draws[:, None] <= levels, axis=0)
    assert np.all(np.abs(observed - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / size) + 1e-12)
    for k in (1, 2, 3):
        spread = np.sqrt((moment(delta, 2 * k) - moment(delta, k) ** 2) / size)
        assert abs(np.mean(draws**k) - moment(delta, k)) <= 4.5 * spread


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
    expected = [moment(delta, 1), moment(delta, 2), law.laplace(1.0), law.stieltjes(-0.3).real]
    assert np.all(np.abs(mean - expected) <= 4.5 * error + 2 / d)
