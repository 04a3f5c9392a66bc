"""Scrambled Sobol points: a quasi-random sequence whose every scrambling is an unbiased, independent set.

Direction numbers of Joe & Kuo (SIAM J. Sci. Comput. 30, 2008); scrambled by a random linear map of the digits and a random
digital shift (Matoušek, J. Complexity 14, 1998). The first points of a power of two in number are balanced in every dimension.
"""

from __future__ import annotations

import functools

import numpy as np

from eqsolve.numerics.arrays import Array

_BITS = 30
_TABLE = (  # degree and coefficients of the primitive polynomial, first direction numbers; the first dimension has none
    (1, 0, (1,)), (2, 1, (1, 3)), (3, 1, (1, 3, 1)), (3, 2, (1, 1, 1)), (4, 1, (1, 1, 3, 3)), (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)), (5, 4, (1, 1, 5, 5, 5)), (5, 7, (1, 1, 7, 11, 19)), (5, 11, (1, 1, 5, 1, 1)),
    (5, 13, (1, 1, 1, 3, 11)),
)  # fmt: skip
DIMENSIONS = 1 + len(_TABLE)
_BELOW, _DIAGONAL = np.tri(_BITS, k=-1, dtype=bool), np.eye(_BITS, dtype=int)
_PLACES = 1 << (_BITS - 1 - np.arange(_BITS))  # what the digits stand for


def sobol_normals(count: int, dimension: int, seed: int) -> Array:
    """Return ``count`` scrambled points of ``dimension`` standard normals, shape (dimension, count).

    In the order of Gray's code the second half of 2ᵏ⁺¹ points is the first, mirrored, with one more direction number in it.
    """
    from scipy.special import ndtri

    rng = np.random.default_rng((seed, 3))
    bits = max(count - 1, 0).bit_length()
    made = np.empty((dimension, 1 << bits), dtype=np.int64)
    directions = np.empty((dimension, bits), dtype=np.int64)
    for axis in range(dimension):
        made[axis, 0] = rng.integers(1 << _BITS)
        directions[axis] = _scramble(_digits(axis)[:, :bits], rng)
    for bit in range(bits):
        half = 1 << bit
        made[:, half : 2 * half] = made[:, half - 1 :: -1] ^ directions[:, bit : bit + 1]
    return np.asarray(ndtri((made[:, :count] + 0.5) / (1 << _BITS)))


@functools.cache
def _digits(axis: int) -> Array:
    """Return the binary digits of an axis' direction numbers, one column each."""
    values = np.array(_directions(axis))
    return np.asarray((values[None, :] >> (_BITS - 1 - np.arange(_BITS))[:, None]) & 1, dtype=float)


def _directions(axis: int) -> list[int]:
    if axis == 0:
        return [1 << (_BITS - 1 - bit) for bit in range(_BITS)]
    degree, coefficients, first = _TABLE[axis - 1]
    made = [value << (_BITS - 1 - bit) for bit, value in enumerate(first)]
    for bit in range(degree, _BITS):
        value = made[bit - degree] ^ (made[bit - degree] >> degree)
        for place in range(1, degree):
            if (coefficients >> (degree - 1 - place)) & 1:
                value ^= made[bit - place]
        made.append(value)
    return made


def _scramble(digits: Array, rng: np.random.Generator) -> Array:
    """Apply a random lower triangular matrix over the digits, its diagonal ones, to direction numbers."""
    matrix = np.where(_BELOW, rng.integers(2, size=(_BITS, _BITS)), _DIAGONAL).astype(float)
    return np.asarray(_PLACES @ ((matrix @ digits) % 2).astype(np.int64))
