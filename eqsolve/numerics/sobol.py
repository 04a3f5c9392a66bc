"""Scrambled Sobol points: a quasi-random sequence whose every scrambling is an unbiased, independent set.

Direction numbers of Joe & Kuo (SIAM J. Sci. Comput. 30, 2008); scrambled by a random linear map of
the digits and a random digital shift (Matoušek, J. Complexity 14, 1998). The first points of a
power of two in number are balanced in every dimension.
"""

import functools

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend

_BITS = 30
_TABLE = (  # degree and coefficients of the primitive polynomial, first direction numbers; the first dimension has none
    (1, 0, (1,)), (2, 1, (1, 3)), (3, 1, (1, 3, 1)), (3, 2, (1, 1, 1)), (4, 1, (1, 1, 3, 3)), (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)), (5, 4, (1, 1, 5, 5, 5)), (5, 7, (1, 1, 7, 11, 19)), (5, 11, (1, 1, 5, 1, 1)),
    (5, 13, (1, 1, 1, 3, 11)), (5, 14, (1, 3, 5, 5, 31)), (6, 1, (1, 3, 3, 9, 7, 49)), (6, 13, (1, 1, 1, 15, 21, 21)),
    (6, 16, (1, 3, 1, 13, 27, 49)), (6, 19, (1, 1, 1, 15, 7, 5)), (6, 22, (1, 3, 1, 15, 13, 25)),
    (6, 25, (1, 1, 5, 5, 19, 61)), (7, 1, (1, 3, 7, 11, 23, 15, 103)), (7, 4, (1, 3, 7, 13, 13, 15, 69)),
    (7, 7, (1, 1, 3, 13, 7, 35, 63)), (7, 8, (1, 3, 5, 9, 1, 25, 53)), (7, 14, (1, 3, 1, 13, 9, 35, 107)),
    (7, 19, (1, 3, 1, 5, 27, 61, 31)), (7, 21, (1, 1, 5, 11, 19, 41, 61)), (7, 28, (1, 3, 5, 3, 3, 13, 69)),
    (7, 31, (1, 1, 7, 13, 1, 19, 1)), (7, 32, (1, 3, 7, 5, 13, 19, 59)), (7, 37, (1, 1, 3, 9, 25, 29, 41)),
    (7, 41, (1, 3, 5, 13, 23, 1, 55)), (7, 42, (1, 3, 7, 3, 13, 59, 17)), (7, 50, (1, 3, 1, 3, 5, 53, 69)),
    (7, 55, (1, 1, 5, 5, 23, 33, 13)), (7, 56, (1, 1, 7, 7, 1, 61, 123)), (7, 59, (1, 1, 7, 9, 13, 61, 49)),
    (7, 62, (1, 3, 3, 5, 3, 55, 33)), (8, 14, (1, 3, 1, 15, 31, 13, 49, 245)), (8, 21, (1, 3, 5, 15, 31, 59, 63, 97)),
    (8, 22, (1, 3, 1, 11, 11, 11, 77, 249)), (8, 38, (1, 3, 1, 11, 27, 43, 71, 9)),
    (8, 47, (1, 1, 7, 15, 21, 11, 81, 45)), (8, 49, (1, 3, 7, 3, 25, 31, 65, 79)),
    (8, 50, (1, 3, 1, 1, 19, 11, 3, 205)), (8, 52, (1, 1, 5, 9, 19, 21, 29, 157)),
    (8, 56, (1, 3, 7, 11, 1, 33, 89, 185)), (8, 67, (1, 3, 3, 3, 15, 9, 79, 71)),
    (8, 70, (1, 3, 7, 11, 15, 39, 119, 27)), (8, 84, (1, 1, 3, 1, 11, 31, 97, 225)),
    (8, 97, (1, 1, 1, 3, 23, 43, 57, 177)), (8, 103, (1, 3, 7, 7, 17, 17, 37, 71)),
    (8, 115, (1, 3, 1, 5, 27, 63, 123, 213)), (8, 122, (1, 1, 3, 5, 11, 43, 53, 133)),
    (9, 8, (1, 3, 5, 5, 29, 17, 47, 173, 479)), (9, 13, (1, 3, 3, 11, 3, 1, 109, 9, 69)),
    (9, 16, (1, 1, 1, 5, 17, 39, 23, 5, 343)), (9, 22, (1, 3, 1, 5, 25, 15, 31, 103, 499)),
    (9, 25, (1, 1, 1, 11, 11, 17, 63, 105, 183)), (9, 44, (1, 1, 5, 11, 9, 29, 97, 231, 363)),
    (9, 47, (1, 1, 5, 15, 19, 45, 41, 7, 383)), (9, 52, (1, 3, 7, 7, 31, 19, 83, 137, 221)),
    (9, 55, (1, 1, 1, 3, 23, 15, 111, 223, 83)), (9, 59, (1, 1, 5, 13, 31, 15, 55, 25, 161)),
    (9, 62, (1, 1, 3, 13, 25, 47, 39, 87, 257)),
)  # fmt: skip
DIMENSIONS = 1 + len(_TABLE)
_BELOW, _DIAGONAL = np.tri(_BITS, k=-1, dtype=bool), np.eye(_BITS, dtype=int)
_PLACES = 1 << (_BITS - 1 - np.arange(_BITS))  # what the digits stand for


def sobol_normals(count: int, dimension: int, seed: int, backend: Backend = CPU) -> Array:
    """Return ``count`` scrambled points of ``dimension`` standard normals, shape (dimension, count), where the backend is.

    In the order of Gray's code the second half of 2ᵏ⁺¹ points is the first, mirrored, with one more
    direction number in it.
    """
    from scipy.special import ndtri

    rng = np.random.default_rng((seed, 3))
    bits = max(count - 1, 0).bit_length()
    first = np.empty(dimension, dtype=np.int64)
    directions = np.empty((dimension, bits), dtype=np.int64)
    for axis in range(dimension):
        first[axis] = rng.integers(1 << _BITS)
        # a random lower triangular matrix over the digits, its diagonal ones
        matrix = np.where(_BELOW, rng.integers(2, size=(_BITS, _BITS)), _DIAGONAL).astype(float)
        directions[axis] = np.asarray(_PLACES @ ((matrix @ _digits(axis)[:, :bits]) % 2).astype(np.int64))
    made = backend.arrays.empty((dimension, 1 << bits), dtype=np.int64)
    made[:, 0], turned = backend.arrays.asarray(first), backend.arrays.asarray(directions)
    for bit in range(bits):
        half = 1 << bit
        made[:, half : 2 * half] = made[:, half - 1 :: -1] ^ turned[:, bit : bit + 1]
    normals: Array = ndtri((made[:, :count] + 0.5) / (1 << _BITS))
    return normals


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
