"""The Stieltjes, free-probability and Laplace transforms of the Marchenko-Pastur law.

Compared with mpmath at 30 and more digits: the textbook formula, the integral, Bessel and Kummer functions.
"""

from functools import partial
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from eqsolve.spectra import MarchenkoPastur, SpectrumError

relative = partial(pytest.approx, abs=0.0)  # its default abs=1e-12 would decide everything here

DELTAS = [1e-3, 0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 2.0, 10.0, 1e3]
NEAR_ONE = [1 - 1e-9, 1 + 1e-9, 1 + 1e-6]
TIMES = [1e-8, 1e-3, 1.0, 5.0, 100.0, 1e4, 1e8]


# Transforms


def probes(law: MarchenkoPastur) -> list[complex]:
    lower, upper = law.edges
    real = [-1e8, -10.0, -0.3, -1e-3, -1e-12, upper * (1 + 1e-9), upper * 1.01, upper * 3, 1e12]
    real += [lower + fraction * (upper - lower) for fraction in (1e-9, 0.01, 0.5, 0.99)]
    if lower > 0:
        real += [lower * 1e-6, lower / 2, lower * (1 - 1e-9)]
    return [*real, *(complex(x, y) for x in real for y in (1e-6, 1.0, -1e-3))]


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_stieltjes_and_derivatives(delta: float, exact: SimpleNamespace) -> None:
    law = MarchenkoPastur(delta)
    with mp.workdps(100):
        for z in probes(law):
            point = mp.mpc(z)
            step = mp.mpf(10) ** -30 * abs(point)
            near = [exact.stieltjes(point + j * step, delta) for j in range(-2, 3)]
            first = (near[3] - near[1]) / (2 * step)
            second = (near[3] - 2 * near[2] + near[1]) / step**2
            third = (near[4] - 2 * near[3] + 2 * near[1] - near[0]) / (2 * step**3)
            for order, (truth, slope) in enumerate([(near[2], first), (first, second), (second, third)]):
                exact.assert_close(law.stieltjes(z, order), truth, point * slope / truth)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_stieltjes_is_on_the_right_branch(delta: float) -> None:
    law = MarchenkoPastur(delta)
    lower, upper = law.edges
    z = np.array([z for z in probes(law) if isinstance(z, complex)])
    assert np.all(law.stieltjes(z).imag * z.imag > 0)
    np.testing.assert_allclose(law.stieltjes(z.conj()), law.stieltjes(z).conj(), rtol=1e-15)
    far = np.array([1e9, -1e9, 1e9j, -1e9j])
    np.testing.assert_allclose(law.stieltjes(far) * -far, 1.0, rtol=1e-5)
    inside = np.linspace(lower, upper, 9)[1:-1]
    np.testing.assert_allclose(law.stieltjes(inside).imag, np.pi * law.density(inside), rtol=1e-13)
    np.testing.assert_array_equal(law.stieltjes(inside + 0j), law.stieltjes(inside))
    np.testing.assert_array_equal(law.stieltjes((inside + 0j).conj()), law.stieltjes(inside).conj())
    off_support = np.array([-5.0, -1e-9, lower * 0.9, upper * 1.1])[[True, True, delta != 1, True]]
    assert not law.stieltjes(off_support).imag.any()


@pytest.mark.parametrize("delta", [0.1, 0.999, 1.0, 10.0])
def test_stieltjes_is_the_integral(delta: float, exact: SimpleNamespace) -> None:
    law = MarchenkoPastur(delta)
    for z in (-0.3, -1 + 0.5j, 1 - 2j, law.lambda_plus + 1):
        bulk = exact.bulk(delta, lambda x, _, z=z: 1 / (x - mp.mpmathify(z)))
        exact.assert_close(law.stieltjes(z), bulk - law.atom / mp.mpmathify(z))


def test_stieltjes_where_the_integral_diverges() -> None:
    assert MarchenkoPastur(0.5).stieltjes(0) == MarchenkoPastur(1).stieltjes(0.0) == np.inf
    assert MarchenkoPastur(4).stieltjes(0) == relative(MarchenkoPastur(4).moment(-1), rel=1e-15)
    assert MarchenkoPastur(4).stieltjes(0, 1) == relative(MarchenkoPastur(4).moment(-2), rel=1e-15)
    assert MarchenkoPastur(4).stieltjes(0, 2) == relative(2 * MarchenkoPastur(4).moment(-3), rel=1e-15)
    law = MarchenkoPastur(4)
    assert law.stieltjes(np.array(law.edges), 1).tolist() == [np.inf, np.inf]
    assert law.stieltjes(np.array(law.edges), 2).tolist() == [np.inf, -np.inf]
    with pytest.raises(SpectrumError, match="`derivative` is not usable: got 3, expected 0, 1 or 2"):
        law.stieltjes(1.0, 3)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_inverse_stieltjes(delta: float, exact: SimpleNamespace) -> None:
    law, (lower, upper) = MarchenkoPastur(delta), exact.edges(delta)
    for z in probes(law):
        s: complex = law.stieltjes(z)
        if isinstance(z, float) and not lower <= z <= upper:
            s = s.real
        with mp.workdps(60):
            point = mp.mpmathify(s)
            truth = -1 / point + 1 / (1 + point / mp.mpf(delta))
            slope = 1 / point**2 - delta / (delta + point) ** 2
            value = law.inverse_stieltjes(s)
            assert type(value) is type(s)
            exact.assert_close(value, truth, point * slope / truth if truth else 0)
            # and back: the same point on the same sheet, up to what rounding of s can do
            assert abs(value - z) <= 1e-12 * (abs(z) + abs(point * slope))


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_inverse_stieltjes_at_the_edges(delta: float) -> None:
    law = MarchenkoPastur(delta)
    for s, edge in zip(law.stieltjes_edges, law.edges, strict=True):
        if np.isfinite(s):
            assert law.stieltjes(edge) == relative(s, rel=1e-13)
            assert law.inverse_stieltjes(s) == relative(edge, rel=1e-13)
    assert (law.stieltjes_edges[0] == np.inf) == (delta == 1)


@pytest.mark.parametrize(
    ("delta", "s"),
    [
        (2.0, 4.9),
        (2.0, -0.83),
        (2.0, 0.0),
        (0.5, -0.5),
        (1.0, -0.6),
        (2.0, -1 + 0.1j),
        (2.0, np.nan),
        (0.5, np.inf),
    ],
)
def test_inverse_stieltjes_refuses_what_is_no_value(delta: float, s: complex) -> None:
    with pytest.raises(SpectrumError, match=r"not a value of the Stieltjes transform for delta = .*: got .*, expected"):
        MarchenkoPastur(delta).inverse_stieltjes(np.array([0.1, s]))


@pytest.mark.parametrize("delta", DELTAS)
def test_free_probability_transforms(delta: float) -> None:
    law = MarchenkoPastur(delta)
    z = np.array([-0.2, 0.1, 0.1 + 0.2j, -0.3j]) * min(delta, 1.0)
    np.testing.assert_allclose(law.stieltjes(law.r_transform(z) + 1 / z), -z, rtol=1e-13)
    chi = law.s_transform(z) * z / (1 + z)
    np.testing.assert_allclose(-1 - law.stieltjes(1 / chi) / chi, z, rtol=1e-13 / min(delta, 1.0))


# Exponential integrals


def check_laplace(delta: float, t: float, exact: SimpleNamespace) -> None:
    law, lower = MarchenkoPastur(delta), exact.edges(delta)[0]
    truth = exact.bulk(delta, lambda x, below: mp.exp(-below * t), t)
    exact.assert_close(law.laplace(t, scaled=True), truth)
    plain = truth * mp.exp(-lower * t) + max(0, 1 - mp.mpf(delta))
    if plain > 1e-300:
        exact.assert_close(law.laplace(t), plain, lower * t)


def check_integrated(delta: float, t: float, exact: SimpleNamespace) -> None:
    law, atom = MarchenkoPastur(delta), max(0, 1 - mp.mpf(delta))
    time = mp.mpf(t)
    truth = exact.bulk(delta, lambda x, _: -mp.expm1(-x * time) / x, t)
    exact.assert_close(law.laplace_integrated(t), truth + atom * t)
    pair = exact.bulk(delta, lambda x, _: mp.expm1(-x * time) * mp.expm1(-x * time / 8) / x, t)
    exact.assert_close(law.laplace_integrated_pair(t, t / 8), pair)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("t", TIMES[::3])  # all of them below
def test_laplace(delta: float, t: float, exact: SimpleNamespace) -> None:
    check_laplace(delta, t, exact)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("t", [1.0, 1e8])
def test_laplace_integrated(delta: float, t: float, exact: SimpleNamespace) -> None:
    check_integrated(delta, t, exact)


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
@pytest.mark.parametrize("t", [*TIMES, 0.3, 1e12])
def test_laplace_sweep(delta: float, t: float, exact: SimpleNamespace) -> None:
    check_laplace(delta, t, exact)
    check_integrated(delta, t, exact)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_laplace_of_higher_powers_are_bessel_functions(delta: float, exact: SimpleNamespace) -> None:
    """k = 1: 2 e^{-(1 + c) t} I_1(z)/z with z = 2 sqrt(c) t; k = 2 and 3 are its derivatives."""
    law, lower = MarchenkoPastur(delta), exact.edges(delta)[0]
    c = 1 / mp.mpf(delta)
    for t in [*TIMES, 1e12]:
        with mp.workdps(80):
            z, width = 2 * mp.sqrt(c) * t, 2 * mp.sqrt(c)
            scaled = [mp.besseli(n, z) * mp.exp(-z) for n in (1, 2, 3)]
            first, second, third = (2 * value / z for value in scaled)
            shift = 1 + c  # d/dz (I_n / z^n) = I_{n+1} / z^n
            truths = [first, shift * first - width * second]
            truths.append(shift**2 * first - 2 * shift * width * second + width**2 * (third + second / z))
        for k, truth in enumerate(truths, start=1):
            exact.assert_close(law.laplace(t, k, scaled=True), truth)
            if lower * t < 600:
                exact.assert_close(law.laplace(t, k), truth * mp.exp(-lower * t), lower * t)


@pytest.mark.parametrize("k", [0, 1, 2, 5, 12, 20])
def test_laplace_at_delta_one_decays_like_a_power(k: int, exact: SimpleNamespace) -> None:
    """delta = 1: Kummer functions 1F1(k + 1/2; k + 2; -4t)."""
    law = MarchenkoPastur(1)
    for t in [*TIMES, 1e12]:
        half = mp.mpf(1) / 2
        truth = law.moment(k) * mp.hyp1f1(k + half, k + 2, -4 * mp.mpf(t))
        if truth > 1e-300:
            exact.assert_close(law.laplace(t, k), truth)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_laplace_at_zero_and_its_relations(delta: float) -> None:
    law = MarchenkoPastur(delta)
    for k in (0, 1, 2, 6, 15):
        assert law.laplace(0.0, k) == relative(law.moment(k), rel=1e-14)
    assert law.laplace_integrated(0.0) == law.laplace_integrated_pair(0.0, 3.0) == 0.0
    t = np.array([1e-3, 0.1, 1.0, 7.0])
    # the two kinds of quadrature agree: D(t) + D(s) - D(t + s), and D as the integral of laplace
    grid = law.laplace_integrated_pair(t[:, None], t[None, :])
    total = law.laplace_integrated(t)[:, None] + law.laplace_integrated(t)[None, :]
    np.testing.assert_allclose(grid, total - law.laplace_integrated(t[:, None] + t[None, :]), atol=1e-14 * total.max())
    np.testing.assert_allclose(grid, grid.T, rtol=1e-15)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = 0.5 / (1 + law.lambda_minus)
    integral = half * weights @ law.laplace(half * (1 + nodes))
    assert integral == relative(law.laplace_integrated(2 * half), rel=1e-13)


@pytest.mark.parametrize("delta", [0.3, 1.0, 1 + 1e-6, 3.0])
def test_laplace_in_bulk_is_the_same_as_one_by_one(delta: float) -> None:
    law = MarchenkoPastur(delta)
    t = np.concatenate([[0.0], np.logspace(-9, 9, 30)])
    np.testing.assert_allclose(law.laplace(t), [law.laplace(u) for u in t.tolist()], rtol=1e-14)
    np.testing.assert_allclose(law.laplace_integrated(t), [law.laplace_integrated(u) for u in t.tolist()], rtol=1e-14)
    pairs = [law.laplace_integrated_pair(u, v) for u, v in zip(t.tolist(), t[::-1].tolist(), strict=True)]
    np.testing.assert_allclose(law.laplace_integrated_pair(t, t[::-1]), pairs, rtol=1e-14)


def test_laplace_integrated_saturates() -> None:
    assert MarchenkoPastur(2).laplace_integrated(1e8) == relative(MarchenkoPastur(2).moment(-1), rel=1e-14)
    # delta = 1: int_0^t du / sqrt(pi u) at long times
    assert MarchenkoPastur(1).laplace_integrated(1e12) == relative(2e6 / np.sqrt(np.pi), rel=1e-6)


@pytest.mark.parametrize("t", [-1.0, np.nan, np.inf])
def test_laplace_refuses_bad_times(t: float) -> None:
    law = MarchenkoPastur(2)
    for method in (law.laplace, law.laplace_integrated):
        with pytest.raises(SpectrumError, match=r"`t` is not usable: got .*, expected finite values >= 0"):
            method(np.array([1.0, t]))
    with pytest.raises(SpectrumError, match="`k` is not usable: got -1, expected an integer >= 0"):
        law.laplace(1.0, -1)
