"""Scrambled Sobol points: a quasi-random sequence whose every scrambling is an unbiased, independent set.

Direction numbers of Joe & Kuo (SIAM J. Sci. Comput. 30, 2008); scrambled by a random linear map of the digits and a random
digital shift (Matoušek, J. Complexity 14, 1998). The first points of a power of two in number are balanced in every dimension.
"""

import functools
from pathlib import Path

import numpy as np
import scipy

from eqsolve.numerics.arrays import Array

_BITS = 30
DIMENSIONS = 64  # further ones are drawn at random: so many points would be needed for them to be balanced
_BELOW, _DIAGONAL = np.tri(_BITS, k=-1, dtype=bool), np.eye(_BITS, dtype=int)
_SHIFTS = _BITS - 1 - np.arange(_BITS)


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
        # a random lower triangular matrix over the digits, its diagonal ones
        matrix = np.where(_BELOW, rng.integers(2, size=(_BITS, _BITS)), _DIAGONAL).astype(float)
        directions[axis] = np.asarray((1 << _SHIFTS) @ ((matrix @ _digits()[axis][:, :bits]) % 2).astype(np.int64))
    for bit in range(bits):
        half = 1 << bit
        made[:, half : 2 * half] = made[:, half - 1 :: -1] ^ directions[:, bit : bit + 1]
    return np.asarray(ndtri((made[:, :count] + 0.5) / (1 << _BITS)))


@functools.cache
def _digits() -> list[Array]:
    """Return the binary digits of the direction numbers of every axis, one column each, from scipy's table."""
    with np.load(Path(scipy.__path__[0]) / "stats" / "_sobol_direction_numbers.npz") as table:
        found = [table[name][:DIMENSIONS].tolist() for name in ("poly", "vinit")]
    made = []
    for axis, (polynomial, first) in enumerate(zip(*found, strict=True)):
        degree = polynomial.bit_length() - 1
        values = first[:degree] if axis else [1] * _BITS  # the first axis has no recurrence
        for bit in range(len(values), _BITS):
            terms = [values[bit - place] << place for place in range(1, degree + 1) if (polynomial >> (degree - place)) & 1]
            values.append(functools.reduce(int.__xor__, terms, values[bit - degree]))
        shifted = np.array([value << int(shift) for value, shift in zip(values, _SHIFTS, strict=True)])
        made.append(np.asarray((shifted[None, :] >> _SHIFTS[:, None]) & 1, dtype=float))
    return made
