"""Gauss–Legendre rules to any precision."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


@functools.lru_cache(maxsize=8)
def precise_legendre(order: int, digits: int) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of nodes and weights on [−1, 1] in mpmath's numbers, by Newton's method from the double ones.

    With P the Legendre polynomial of the order, the nodes are its zeros and the weights 2 / ((1 − x²) P'(x)²).
    """
    from mpmath import mp, mpf

    made = []
    with mp.workdps(digits):
        for start in np.polynomial.legendre.leggauss(order)[0]:
            x, slope = mpf(float(start)), mpf(1)
            for _ in range(3 + digits.bit_length()):
                before, now = mpf(1), x
                for degree in range(2, order + 1):
                    before, now = now, ((2 * degree - 1) * x * now - (degree - 1) * before) / degree
                slope = order * (before - x * now) / (1 - x * x)
                step = now / slope
                x -= step
                if abs(step) < mpf(10) ** (5 - digits):
                    break
            made.append((x, 2 / ((1 - x * x) * slope * slope)))
    return tuple(made)
