"""The Stieltjes and Laplace transforms of the Marchenko-Pastur law.

Compared with mpmath at 30 and more digits: the textbook formula, the integral, Bessel and Kummer functions.
"""

from functools import partial
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from eqsolve.spectra import MarchenkoPastur, SpectrumError
from tests.spectra.test_marchenko_pastur import moment

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
    assert MarchenkoPastur(4).stieltjes(0) == relative(4 / 3, rel=1e-15)
    assert MarchenkoPastur(4).stieltjes(0, 1) == relative((4 / 3) ** 3, rel=1e-15)
    assert MarchenkoPastur(4).stieltjes(0, 2) == relative(2 * 1.25 * (4 / 3) ** 5, rel=1e-15)
    law = MarchenkoPastur(4)
    assert law.stieltjes(np.array(law.edges), 1).tolist() == [np.inf, np.inf]
    assert law.stieltjes(np.array(law.edges), 2).tolist() == [np.inf, -np.inf]
    with pytest.raises(SpectrumError, match="`derivative` is not usable: got 3, expected 0, 1 or 2"):
        law.stieltjes(1.0, 3)


# Exponential integrals


def check_laplace(delta: float, t: float, exact: SimpleNamespace) -> None:
    law, lower = MarchenkoPastur(delta), exact.edges(delta)[0]
    truth = exact.bulk(delta, lambda x, below: mp.exp(-below * t), t)
    exact.assert_close(law.laplace(t, scaled=True), truth)
    plain = truth * mp.exp(-lower * t) + max(0, 1 - mp.mpf(delta))
    if plain > 1e-300:
        exact.assert_close(law.laplace(t), plain, lower * t)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("t", [pytest.param(t, marks=[pytest.mark.slow] * (t != 5)) for t in TIMES[::3]])  # others below
def test_laplace(delta: float, t: float, exact: SimpleNamespace) -> None:
    check_laplace(delta, t, exact)


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
@pytest.mark.parametrize("t", [1e-3, 0.3, 100.0, 1e12])
def test_laplace_sweep(delta: float, t: float, exact: SimpleNamespace) -> None:
    check_laplace(delta, t, exact)


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
        truth = moment(1, k) * mp.hyp1f1(k + half, k + 2, -4 * mp.mpf(t))
        if truth > 1e-300:
            exact.assert_close(law.laplace(t, k), truth)


@pytest.mark.parametrize("delta", DELTAS + NEAR_ONE)
def test_laplace_at_zero(delta: float) -> None:
    law = MarchenkoPastur(delta)
    for k in (0, 1, 2, 6, 15):
        assert law.laplace(0.0, k) == relative(moment(delta, k), rel=1e-14)


@pytest.mark.parametrize("delta", [0.3, 1.0, 1 + 1e-6, 3.0])
def test_laplace_in_bulk_is_the_same_as_one_by_one(delta: float) -> None:
    law = MarchenkoPastur(delta)
    t = np.concatenate([[0.0], np.logspace(-9, 9, 30)])
    np.testing.assert_allclose(law.laplace(t), [law.laplace(u) for u in t.tolist()], rtol=1e-14)


@pytest.mark.parametrize("t", [-1.0, np.nan, np.inf])
def test_laplace_refuses_bad_times(t: float) -> None:
    law = MarchenkoPastur(2)
    with pytest.raises(SpectrumError, match=r"`t` is not usable: got .*, expected finite values >= 0"):
        law.laplace(np.array([1.0, t]))
    with pytest.raises(SpectrumError, match="`k` is not usable: got -1, expected an integer >= 0"):
        law.laplace(1.0, -1)
