"""One step of x' = a + f x + √(S x) ξ, births and deaths, that keeps x from becoming negative.

The law after a step of length h has the exact mean and variance, and is a shifted square where the
variance is below 3/2 of the mean squared, else zero with some probability and an exponential
(Andersen, J. Comput. Finance 11, 1 (2008), doi:10.21314/JCF.2008.189). Its third cumulant is then
that of the equation to leading order, as is the probability of zero.
"""

from typing import Any

import numpy as np
from scipy.special import erfcx


def positive_step(which: int, x: Any, growth: Any, inflow: Any, spread: Any, normal: Any) -> Any:
    """Return x after a step, ``which`` = 0, or its derivative by the first, second, ... of the following arguments.

    These are x, f h, a h, S h and a standard normal variable, of which the result is a function.
    """
    x, growth, inflow, spread, z = np.broadcast_arrays(*(np.asarray(v, float) for v in (x, growth, inflow, spread, normal)))
    small = np.abs(growth) < 1e-4
    safe = np.where(small, 1.0, growth)
    gain, ratio = np.exp(growth), np.where(small, 1 + growth / 2 + growth**2 / 6, np.expm1(growth) / safe)
    second_ratio = np.where(small, 0.5 + growth / 3, (gain - ratio) / safe)
    mean, rate = x * gain + inflow * ratio, x * gain + inflow * ratio / 2
    alive = mean > 0
    mean = np.where(alive, mean, 1.0)
    r = np.where(alive, np.maximum(spread * ratio * rate, 0.0) / (2 * mean**2), 0.0)
    square = r <= 0.75
    w = np.sqrt(np.where(square, 1 - r, 1.0))
    shift = np.sqrt(w + w**2) + np.sqrt(np.where(square, r, 0.0)) * z
    # erfc(y) = e^{−y²} erfcx(y), and erfcx overflows for y < −26 only
    y = np.maximum(z / np.sqrt(2.0), -26.0)
    tail = np.maximum(np.log(4 / (2 * r + 1)) + y**2 - np.log(erfcx(y)), 0.0)
    if which == 0:
        return np.where(alive, np.where(square, mean / (1 + w) * shift**2, mean * (0.5 + r) * tail), 0.0)
    if which == 5:
        on_tail = mean * (0.5 + r) * np.where(tail > 0, np.sqrt(2 / np.pi) / erfcx(y), 0.0)
        return np.where(alive, np.where(square, 2 * mean / (1 + w) * shift * np.sqrt(r), on_tail), 0.0)
    slopes = {  # of the mean, and of the variance
        1: (gain, spread * ratio * gain),
        2: (x * gain + inflow * second_ratio, spread * (second_ratio * rate + ratio * (x * gain + inflow * second_ratio / 2))),
        3: (ratio, spread * ratio**2 / 2),
        4: (0.0, ratio * rate),
    }
    of_mean, of_variance = slopes[which]
    by_mean = np.where(square, shift**2 / (1 + w), (0.5 + r) * tail)
    inner = np.where(r > 0, z / (2 * np.sqrt(np.where(r > 0, r, 1.0))), 0.0) - (1 + 2 * w) / (4 * w * np.sqrt(w + w**2))
    by_r = mean * np.where(square, shift**2 / (2 * w * (1 + w) ** 2) + 2 * shift / (1 + w) * inner, tail - (tail > 0))
    moved = of_variance / (2 * mean**2) - 2 * r / mean * of_mean
    return np.where(alive, by_mean * of_mean + by_r * moved, 0.0)
