"""Exact polynomials with integer coefficients, lowest first: greatest common divisors, resultants, roots.

Multiple roots are told from close ones without a tolerance. The resultant is interpolated from
determinants at whole numbers (fraction-free elimination, Bareiss 1968,
doi:10.1090/S0025-5718-1968-0226829-0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

Polynomial = list[int]
_PRIME = 2**61 - 1


def _trimmed(a: Sequence[int]) -> Polynomial:
    count = len(a)
    while count and a[count - 1] == 0:
        count -= 1
    return list(a[:count])


def _primitive(a: Sequence[int]) -> Polynomial:
    made = _trimmed(a)
    share = math.gcd(*made) if made else 1
    return [value // share for value in made]


def as_integers(rows: Sequence[Sequence[Fraction]]) -> list[Polynomial]:
    """Return polynomials times one common number that makes all their coefficients whole."""
    below = math.lcm(*(value.denominator for row in rows for value in row))
    return [_trimmed([int(value * below) for value in row]) for row in rows]


def common_divisor(a: Sequence[int], b: Sequence[int]) -> Polynomial:
    """Return the greatest common divisor, by a sequence of primitive pseudo-remainders."""
    a, b = _primitive(a), _primitive(b)
    while b:
        rest = list(a)
        while len(rest) >= len(b):
            top, shift = rest[-1], len(rest) - len(b)
            rest = [value * b[-1] for value in rest]
            for place, value in enumerate(b):
                rest[place + shift] -= top * value
            rest = _trimmed(rest)
        a, b = b, _primitive(rest)
    return a


def quotient(a: Sequence[int], b: Sequence[int]) -> Polynomial:
    """Return a/b, which must be a polynomial with integer coefficients."""
    rest, made = list(a), [0] * max(len(a) - len(b) + 1, 0)
    for shift in reversed(range(len(made))):
        made[shift] = rest[shift + len(b) - 1] // b[-1]
        for place, value in enumerate(b):
            rest[place + shift] -= made[shift] * value
    return _trimmed(made)


def _derivative(a: Sequence[int]) -> Polynomial:
    return [power * value for power, value in enumerate(a)][1:]


def square_free(a: Sequence[int]) -> Polynomial:
    """Return the polynomial with the same roots, each of them once."""
    made = _primitive(a)
    slope = _derivative(made)
    if made[-1] % _PRIME and _coprime_modulo(made, slope):  # then they are coprime as integers, which takes long to see
        return made
    return quotient(made, common_divisor(made, slope))


def _coprime_modulo(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two polynomials have no common divisor modulo a prime."""
    a, b = ([value % _PRIME for value in polynomial] for polynomial in (a, b))
    b = _trimmed(b)
    while b:
        inverse = pow(b[-1], -1, _PRIME)
        while len(a) >= len(b):
            share, shift = a[-1] * inverse % _PRIME, len(a) - len(b)
            a = _trimmed([(v - share * b[k - shift]) % _PRIME if k >= shift else v for k, v in enumerate(a)])
        a, b = b, a
    return len(a) == 1


def _determinant(matrix: list[list[int]]) -> int:
    """Return the determinant by elimination without fractions: every division is exact."""
    size, before, sign = len(matrix), 1, 1
    for k in range(size - 1):
        pivot = next((row for row in range(k, size) if matrix[row][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            matrix[k], matrix[pivot], sign = matrix[pivot], matrix[k], -sign
        top = matrix[k]
        for row in matrix[k + 1 :]:
            first = row[k]
            for column in range(k + 1, size):
                row[column] = (row[column] * top[k] - first * top[column]) // before
        before = top[k]
    return sign * matrix[-1][-1]


def discriminant_times_leading(rows: Sequence[Sequence[int]]) -> Polynomial:
    """Return the resultant of P and dP/dR as a polynomial in p, up to a number, for P = Σ rows[i](p) Rⁱ.

    It vanishes where two of the roots R(p) meet, and where one of them diverges.
    """
    n, degree = len(rows) - 1, max(map(len, rows)) - 1
    if n == 1:
        return _primitive(rows[1])
    most = (2 * n - 1) * degree
    points = [place - most // 2 for place in range(most + 1)]
    values = [_determinant(_sylvester([_value(row, at) for row in rows])) for at in points]
    differences = []  # Newton's form Σ Δᵏ/k! (p − p₀)…(p − p_{k−1})
    for order in range(most + 1):
        differences.append(Fraction(values[0], math.factorial(order)))
        values = [after - here for here, after in pairwise(values)]
    made: list[Fraction] = []
    for coefficient, at in zip(reversed(differences), reversed(points), strict=True):
        shifted = [Fraction(0), *made]
        made = [low - at * high for low, high in zip_longest(shifted, made, fillvalue=Fraction(0))]
        made[0] += coefficient
    return _primitive(as_integers([made])[0])


def _value(a: Sequence[int], at: int) -> int:
    total = 0
    for value in reversed(a):
        total = total * at + value
    return total


def _sylvester(a: list[int]) -> list[list[int]]:
    """Return the matrix whose determinant is the resultant of a polynomial and its derivative."""
    n = len(a) - 1
    high, slope = a[::-1], [power * value for power, value in enumerate(a)][:0:-1]
    return [[0] * k + high + [0] * (n - 2 - k) for k in range(n - 1)] + [[0] * k + slope + [0] * (n - 1 - k) for k in range(n)]


def roots(a: Sequence[int], digits: int) -> list[Any]:
    """Return the roots of a square-free polynomial in mpmath's numbers; those that are real are real numbers.

    Newton's method starts at the eigenvalues of the companion matrix. A disc of radius n |f/f'| holds a root (Henrici,
    Applied and Computational Complex Analysis 1, 1974, section 6.4), and n disjoint discs hold all.
    """
    import mpmath

    if len(a) < 2:
        return []
    largest, n = max(map(abs, a)), len(a) - 1
    guesses: list[Any] = list(np.roots([float(Fraction(value, largest)) for value in reversed(a)]))
    for work in (digits, 2 * digits, 4 * digits, 8 * digits):  # terms of size |a_k x^k| may cancel to many digits
        with mpmath.workdps(work):
            f = [mpmath.mpf(value) / largest for value in reversed(a)]
            if len(guesses) < n or work > 2 * digits:
                guesses = mpmath.polyroots(f, maxsteps=2000, extraprec=20 * n + 400)
            made, radii = [], []
            for guess in guesses:
                x = mpmath.mpc(guess)
                for _ in range(digits):
                    value, slope = mpmath.polyval(f, x, derivative=True)
                    step = value / slope if slope else mpmath.mpf("inf")
                    if not abs(step) < abs(x) + 1:
                        break
                    x -= step
                    if abs(step) <= mpmath.eps * 100 * abs(x):
                        break
                value, slope = mpmath.polyval(f, x, derivative=True)
                noise = 2 * n * mpmath.eps * mpmath.polyval([abs(c) for c in f], abs(x))
                made.append(x)
                radii.append(n * (abs(value) + noise) / abs(slope) if slope else mpmath.mpf("inf"))
            apart = all(abs(made[i] - made[j]) > 4 * (radii[i] + radii[j]) for i in range(n) for j in range(i))
            sharp = all(r <= mpmath.mpf(10) ** (-digits // 2) * (abs(x) or 1) for x, r in zip(made, radii, strict=True))
            if apart and sharp:
                return [x.real if abs(x.imag) <= 2 * r else x for x, r in zip(made, radii, strict=True)]
            guesses = made
    raise ArithmeticError(f"the roots of a polynomial of degree {n} are too close to each other")
