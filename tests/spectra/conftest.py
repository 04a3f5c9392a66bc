"""The Marchenko-Pastur law in mpmath, straight from its definition: the truth the tests compare with."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import pytest

BOUND = 1e-13


def edges(delta: float) -> tuple[Any, Any]:
    root = mp.sqrt(mp.mpf(delta))
    return (1 - 1 / root) ** 2, (1 + 1 / root) ** 2


def bulk(delta: float, g: Callable[[Any, Any], Any], t: float = 0.0, upper: Any = None) -> Any:
    """``int g(x, x - lambda_-) density(x) dx`` up to x = upper, split at the integrand's scales."""
    lower, end = edges(delta)
    width = end - lower
    stop = mp.mpf(1) if upper is None else mp.sqrt((mp.mpf(upper) - lower) / width)

    def integrand(v: Any) -> Any:  # x = lower + width v^2
        below = width * v * v
        x = lower + below
        density_dx = delta * width**2 * v * v * mp.sqrt(1 - v * v) / (mp.pi * x) if x else mp.mpf(0)
        return g(x, below) * density_dx if x else mp.mpf(0)

    scales = [mp.sqrt(lower / width) * factor for factor in (0.3, 1, 4, 20)]
    if t > 0:
        scales += [factor / mp.sqrt(width * t) for factor in (0.5, 1.5, 3, 5.5, 10)]
    inner = {scale for scale in [*scales, mp.mpf("0.3")] if 0 < scale < stop}
    return mp.quad(integrand, [0, *sorted(inner), stop])


def stieltjes(z: complex, delta: float) -> Any:
    """The root of the quadratic as textbooks print it; its cancellations are left to the working digits."""
    c, (lower, end) = 1 / mp.mpf(delta), edges(delta)
    z = mp.mpmathify(z)
    return (1 - c - z + mp.sqrt(z - lower) * mp.sqrt(z - end)) / (2 * c * z)


def assert_close(value: complex, truth: Any, condition: Any = 0.0) -> None:
    """Demand 1e-13 (1 + condition number), relative, or absolute where the truth is zero."""
    error = abs(mp.mpmathify(value) - truth)
    scale = abs(truth) or 1
    assert error <= BOUND * (1 + abs(condition)) * scale, f"got {value}, expected {truth}, {condition=}"


@pytest.fixture
def exact() -> Iterator[SimpleNamespace]:
    """The functions above, at 30 digits."""
    with mp.workdps(30):
        yield SimpleNamespace(edges=edges, bulk=bulk, stieltjes=stieltjes, assert_close=assert_close)
