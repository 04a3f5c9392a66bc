"""Singularities of an algebraic transform, P(p, R) = 0 with a polynomial P: exact places, and continuation to each of them.

Two of the roots R(p) meet, or one diverges, only where the resultant of P and dP/dR vanishes. Its
roots are the critical points of all sheets; the physical sheet, that of the root which stays
bounded for p → +∞, is singular at some of them only. From the right, each is reached along a ray on
which the critical points passed are known to be regular on this sheet, and is then circled: after
how many turns R comes back, and its Puiseux series, say what is there. (Deconinck & van Hoeij 2001,
doi:10.1016/S0167-2789(01)00156-7, for the continuation.)
"""

import functools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
from sympy import ZZ, I, Poly, Rational, symbols

from eqsolve.laplace.controls import CONTROLS, GUARD
from eqsolve.laplace.half_plane import Candidate, Found, Region
from eqsolve.laplace.implicit import Prepared
from eqsolve.laplace.real_axis import no_bounded_solution
from eqsolve.numerics.arrays import EPSILON, Array

_P, _R = symbols("p R")
# of critical points: twice those of floats, for the distance between two of them
_DIGITS = 2 * sys.float_info.dig + GUARD
_SLANTS = (0.0, *(sign * 2.0**k for k in range(-3, 2) for sign in (1, -1)))  # of rays, in units of their length


class Lost(ArithmeticError):
    """A continuation that cannot be told from a jump to another sheet."""


@dataclass(frozen=True)
class Critical:
    """A singular point of a sheet."""

    p: Any  # where it is, in mpmath's numbers
    turns: int  # after how many turns R comes back: 1 at a pole, k at a branch point of k sheets
    power: float  # μ of the leading term c (p − p_c)^μ that is singular
    factor: complex  # c
    value: complex  # R there, inf where it diverges


def _poly(row: Sequence[int]) -> Any:
    """Return the polynomial in p with integer coefficients, lowest first."""
    return Poly(list(reversed(row)) or [0], _P, domain=ZZ)


def _coefficients(polynomial: Any) -> list[int]:
    return [] if polynomial.is_zero else [int(value) for value in reversed(polynomial.all_coeffs())]


def _critical_polynomial(table: list[list[int]]) -> Any:
    """Return the resultant of P and dP/dR in p: it vanishes where two roots R(p) meet, and where one diverges."""
    if len(table) == 2:
        return _poly(table[1])
    whole = Poly({(i, j): value for i, row in enumerate(table) for j, value in enumerate(row)}, _R, _P, domain=ZZ)
    return Poly(whole.resultant(whole.diff(_R)), _P, domain=ZZ)


def _roots(coefficients: Sequence[int], digits: int) -> list[Any]:
    """Return the roots of a square-free polynomial in mpmath's numbers; those that are real are real numbers."""
    if len(coefficients) < 2:
        return []
    largest, n = max(map(abs, coefficients)), len(coefficients) - 1
    starts = [complex(x) for x in np.roots([float(Fraction(value, largest)) for value in reversed(coefficients)])]
    guess = starts if len(starts) == n and np.isfinite(starts).all() else None
    with mpmath.workdps(digits):
        try:  # terms of size |a_k x^k| may cancel to many digits
            roots = mpmath.polyroots(list(reversed(coefficients)), maxsteps=2000, extraprec=20 * n + 100, roots_init=guess)
        except mpmath.libmp.NoConvergence:
            raise ArithmeticError(f"the roots of a polynomial of degree {n} are too close to each other") from None
        sharp = mpmath.mpf(10) ** (-digits // 2)
        return [mpmath.re(x) if abs(mpmath.im(x)) <= sharp * abs(x) else x for x in roots]


class Roots:
    """The roots R of P(p, R) = 0 as functions of q = (p − centre)/scale; coefficients in q are exact up to one rounding."""

    def __init__(self, table: list[list[int]], centre: complex, scale: float) -> None:
        numbers, width = [Rational(float(part)) for part in (centre.real, centre.imag, scale)], max(map(len, table))
        line = Poly([numbers[2], numbers[0] + I * numbers[1]], _P, domain="QQ<I>")
        rows = [Poly(list(reversed(row)) or [0], _P, domain="QQ<I>").compose(line).all_coeffs()[::-1] for row in table]
        largest = max(max(map(abs, value.as_real_imag())) for row in rows for value in row)
        self.table = np.array([[complex(value / largest) for value in row] + [0j] * (width - len(row)) for row in rows])
        self._slopes = self.table[:, 1:] * np.arange(1, width)

    def __call__(self, q: Any) -> tuple[Array, Array]:
        """Return R at some points, in no order, and dR/dq: eigenvalues of companion matrices, and a Newton step."""
        q = np.asarray(q, dtype=complex)
        powers = q[..., None] ** np.arange(self.table.shape[1])
        coefficients, along = powers @ self.table.T, powers[..., :-1] @ self._slopes.T
        n = coefficients.shape[-1] - 1
        matrix = np.zeros((*q.shape, n, n), dtype=complex)
        matrix[..., range(1, n), range(n - 1)] = 1.0
        matrix[..., :, -1] = -coefficients[..., :-1] / coefficients[..., -1:]
        roots = np.linalg.eigvals(matrix)
        value, slope = _horner(coefficients, roots)
        step = value / np.where(slope == 0, np.inf, slope)
        roots = roots - np.where(np.abs(step) < CONTROLS.rough * np.abs(roots), step, 0.0)
        return roots, -_horner(along, roots)[0] / _horner(coefficients, roots)[1]


class Sheets:
    """All sheets of P(p, R) = Σ rows[i](p) Rⁱ = 0, in the coordinate q = (p − centre)/scale of the critical points.

    Raises ``ArithmeticError`` when P has a double factor, so that two sheets agree everywhere, or is too large.
    """

    def __init__(self, rows: Sequence[Sequence[Fraction]]) -> None:
        # polynomials times one common number that makes all their coefficients whole
        denominator = math.lcm(*(value.denominator for row in rows for value in row))
        table = [_coefficients(_poly([int(value * denominator) for value in row])) for row in rows]
        while table and not table[-1]:
            table.pop()
        while table and not table[0]:  # R = 0 is no transform
            table.pop(0)
        if table:
            content = functools.reduce(Poly.gcd, map(_poly, table))
            table = [_coefficients(_poly(row).exquo(content)) for row in table]
        if (2 * len(table) - 3) * max(map(len, table)) > CONTROLS.critical:
            raise ArithmeticError("the polynomial has too many critical points")
        critical = _critical_polynomial(table) if len(table) > 1 else _poly([])
        if critical.is_zero:
            raise ArithmeticError("the polynomial has a factor that does not contain the unknown, or one that is double")
        self.degrees = [len(row) - 1 for row in table]
        self.points = _roots(_coefficients(critical.sqf_part()), _DIGITS)
        self.diverging = [_vanishes(table[-1], point) for point in self.points]
        places = np.array([complex(point) for point in self.points] or [0j])
        self.centre = float(np.median(places.real))
        away = np.abs(places - self.centre)
        self.scale = _binary(float(np.median(away)) or float(away.max()) or 1.0)
        self._exact = table
        self.values = Roots(table, self.centre, self.scale)
        self.q = np.array([complex((point - self.centre) / self.scale) for point in self.points])
        self.right = float(self.q.real.max()) + 1.0 if len(self.q) else 1.0

    def follow(self, R: complex, start: complex, end: complex) -> complex:
        """Continue one sheet along a straight line."""
        here, share = complex(start), 1.0
        values, slopes = self.values(here)
        place = int(np.argmin(np.abs(values - R)))
        for _ in range(4 * CONTROLS.pieces):
            if here == end:
                return complex(values[place])
            gap = float(np.abs(self.q - here).min()) if len(self.q) else 1.0
            step = share * CONTROLS.length * gap
            there = end if abs(end - here) <= step else here + step * (end - here) / abs(end - here)
            roots, slopes_there = self.values(there)
            after = _nearest(values[place] + slopes[place] * (there - here), roots)
            if after is None:
                share /= 2
                if share < CONTROLS.enough:
                    break
                continue
            values, slopes, place, here, share = roots, slopes_there, after, there, min(1.0, 2 * share)
        raise Lost(f"two sheets cannot be told apart near p = {self.centre + self.scale * here:.6g}")

    def circle(self, R: complex, q: complex, arm: complex) -> tuple[Array, int]:
        """Continue one sheet around a point, until it comes back; return its values, and after how many turns."""
        at, size = self.centre + self.scale * q, _binary(abs(arm) * self.scale)
        here = Roots(self._exact, at, size)  # exact coefficients around the point: nothing cancels
        circle = arm * self.scale / size * np.exp(2j * np.pi * np.arange(CONTROLS.circle) / CONTROLS.circle)
        values, slopes = here(circle)
        first = place = _nearest(R, values[0])
        if place is None:
            raise Lost("two sheets are too close")
        along: list[complex] = []
        for turns in range(1, values.shape[1] + 1):
            for k in range(CONTROLS.circle):
                along.append(complex(values[k, place]))
                after = (k + 1) % CONTROLS.circle
                next_place = _nearest(values[k, place] + slopes[k, place] * (circle[after] - circle[k]), values[after])
                if next_place is None:
                    ends = [q + x * size / self.scale for x in (circle[k], circle[after])]
                    next_place = _nearest(self.follow(along[-1], *ends), values[after])
                if next_place is None:
                    raise Lost("two sheets are too close")
                place = next_place
            if place == first:
                return np.array(along), turns
        raise Lost("a sheet does not come back")

    # the sheets at infinity

    def bounded(self, start: float | None = None) -> list[complex]:
        """Return the real sheets that may be meant: those nearest to ``start`` as p → +∞; else those that vanish there, or,
        if there are none, those that stay bounded. The one with R ~ c/p comes first."""
        far = self.right + 0.01 / CONTROLS.enough * (1.0 + float(np.abs(self.q).max(initial=0.0)))
        left, near = list(self.values(far)[0]), self.values(self.right)[0]
        real_sheets = []
        for power, factor in self._asymptotes():
            R = left.pop(int(np.argmin([abs(value / (factor * far**power) - 1) for value in left])))
            if abs(R.imag) <= 10 * CONTROLS.enough * abs(R):
                real_sheets.append((float(R.real), power, factor.real))
        ordered = np.sort(near.real[np.abs(near.imag) <= 10 * CONTROLS.enough * np.abs(near)])
        if len(ordered) != len(real_sheets):
            raise Lost("sheets that are nearly real")
        # no two sheets meet on the axis between the two points, so that the order of the real ones
        # is the same
        meant = [
            (power, factor, complex(R))
            for R, (_, power, factor) in zip(ordered, sorted(real_sheets), strict=True)
            if power <= 0
        ]
        if start is not None:
            away = [abs((factor if power == 0 else 0.0) - start) for power, factor, _ in meant]
            meant = [sheet for sheet, gap in zip(meant, away, strict=True) if gap <= min(away) + 10 * CONTROLS.enough]
        else:
            meant = [sheet for sheet in meant if sheet[0] < 0] or meant
        return [R for _, _, R in sorted(meant, key=lambda sheet: (sheet[0] != -1, -sheet[1]))]

    def _asymptotes(self) -> list[tuple[float, complex]]:
        """Return s and c of R ~ c q^s as q → ∞ for every sheet: the edges of the Newton polygon."""
        corners: list[tuple[int, int]] = []
        for i, degree in enumerate(self.degrees):
            while len(corners) > 1 and (corners[-1][0] - corners[-2][0]) * (degree - corners[-2][1]) >= (
                (i - corners[-2][0]) * (corners[-1][1] - corners[-2][1])
            ):
                corners.pop()
            if degree >= 0:
                corners.append((i, degree))
        asymptotes = []
        for (i, top), (k, bottom) in pairwise(corners):
            on_edge = [(d - top) * (k - i) == (bottom - top) * (m - i) for m, d in enumerate(self.degrees)]
            edge = [self.values.table[m, self.degrees[m]] if on_edge[m] else 0.0 for m in range(k, i - 1, -1)]
            asymptotes += [((top - bottom) / (k - i), complex(c)) for c in np.roots(edge)]
        return asymptotes

    # singular points

    def rightmost(self, R: complex, low: float, height: float, slack: float) -> tuple[list[Critical], bool]:
        """Return the rightmost singular points of a sheet, and whether all was decided.

        R is the sheet at ``right``. Looked at are Re p ≥ low and 0 ≤ Im p ≤ height; up to ``slack``
        left of the rightmost one others count as of equal real part.
        """
        singular: list[Critical] = []
        decided, best = True, -np.inf
        for k in np.argsort(-self.q.real):
            at = complex(self.points[k])
            if at.imag < 0 or at.imag > height or at.real < low:
                continue
            if at.real < best - slack:
                break
            try:
                critical = self._examine(int(k), R, height / self.scale)
            except Lost:
                decided = False
                continue
            if critical is not None:
                singular.append(critical)
                best = max(best, at.real)
        return singular, decided

    def _examine(self, k: int, R: complex, height: float) -> Critical | None:
        """Say what a sheet is at a critical point; None if it is regular there."""
        q, others = complex(self.q[k]), np.sort(np.abs(np.delete(self.q, k) - self.q[k]))
        if len(others) > 1 and others[0] < 100 * CONTROLS.enough * others[1]:
            neighbour = complex(self.q[np.argsort(np.abs(self.q - q))[1]])
            radius = min(CONTROLS.radius * others[1], math.sqrt(others[0] * others[1]))
            if self._series(R, (q + neighbour) / 2, radius, height, True) is None:
                raise Lost("from afar it is regular: one double point that rounding has split, or two branch points")
        critical = self._series(R, q, CONTROLS.radius * (others[0] if len(others) else 1.0), height, self.diverging[k])
        if critical is None:
            return None
        return replace(critical, p=self.points[k], factor=critical.factor / self.scale**critical.power)

    def _series(self, R: complex, q: complex, radius: float, height: float, diverging: bool) -> Critical | None:
        """Return what a sheet is at a point; None if R is analytic around it.

        ``diverging`` says whether one of the sheets diverges there: a pole elsewhere would be rounding.
        """
        from_ = self._clear_start(q, height, radius)
        angle = float(np.angle(from_ - q))
        arm = radius * np.exp(1j * angle)
        R = self.follow(self.follow(R, self.right, from_), from_, q + arm)
        values, turns = self.circle(R, q, arm)
        if turns == 1 and not diverging:
            return None
        size = float(np.abs(values).max())
        angles = angle + 2 * np.pi * np.arange(len(values)) / CONTROLS.circle
        for j in range(-CONTROLS.rounds * turns, 6 * turns):
            if j >= 0 and j % turns == 0:
                continue
            share = complex(np.mean(values * np.exp(-1j * j * angles / turns)))
            if abs(share) > 0.1 * CONTROLS.enough * size:
                value = complex(np.mean(values)) if j > 0 else complex(np.inf)
                return Critical(q, turns, j / turns, share / radius ** (j / turns), value)
            if abs(share) > 0.1 * CONTROLS.close * size:
                raise Lost("a term that may be rounding")
        if turns > 1:
            raise Lost("a branch point without a term that shows it")
        return None

    def _clear_start(self, q: complex, height: float, radius: float) -> complex:
        """Return the point right of everything from which the ray to a point keeps farthest from critical points."""
        reach = self.right - q.real
        away = self.q[np.abs(self.q - q) > 2.01 * radius]  # the others are inside the circle, or where it begins
        best, clear = complex(self.right, q.imag), -1.0
        for share in _SLANTS:
            start = complex(self.right, float(np.clip(q.imag + share * reach, -height, height)))
            along = (start - q) / abs(start - q)
            t = np.clip(((away - q) * along.conjugate()).real, 0.0, abs(start - q))
            gap = float((np.abs(away - q - t * along) / np.abs(away - q)).min()) if len(away) else 1.0
            if gap > clear:
                best, clear = start, gap
        return best


def _horner(a: Array, R: Array) -> tuple[Array, Array]:
    """Return polynomials in R with coefficients a[..., k], and their derivatives."""
    value = slope = np.zeros_like(R)
    for k in reversed(range(a.shape[-1])):
        value, slope = value * R + a[..., k, None], slope * R + value
    return value, slope


def _nearest(guess: complex, roots: Array) -> int | None:
    """Return which of the roots is predicted, None where another one is nearly as close."""
    away = np.abs(roots - guess)
    place = int(away.argmin())
    if not np.isfinite(away[place]):
        return None
    nearest, away[place] = away[place], np.inf
    return place if nearest <= 10 * CONTROLS.rough * away.min() else None


def _vanishes(a: list[int], point: Any) -> bool:
    with mpmath.workdps(_DIGITS):
        terms = [value * point**power for power, value in enumerate(a)]
        return bool(abs(sum(terms)) <= mpmath.mpf(10) ** (-_DIGITS // 2) * max(map(abs, terms)))


def _binary(size: float) -> float:
    """Return the power of two next to a number."""
    return float(2.0 ** round(math.log2(size)))


def search_algebraic(
    prepared: Prepared, rows: list[list[Fraction]], region: tuple[float, float] | None, start: float | None, certify: bool
) -> Found:
    """Return the rightmost singularities of a transform that solves a polynomial equation.

    Several sheets may be meant, as with R² = 1/p; the answer is decided when they agree.
    """
    sheets = Sheets(rows)
    sides = sheets.bounded(start)
    if not sides:
        raise no_bounded_solution(prepared)
    low, height = (-np.inf, np.inf) if region is None else (float(region[0]), float(region[1]))
    if not certify:  # the real axis, with a strip around it that holds no other critical points
        height = 0.5 * min((abs(complex(at).imag) for at in sheets.points if complex(at).imag), default=np.inf)
    size = max(abs(sheets.centre), sheets.scale)
    answers = [sheets.rightmost(R, low, height, 1e-9 * size) for R in sides]
    singular, decided = answers[0]
    for other, other_decided in answers[1:]:
        places, same = ({complex(critical.p) for critical in each} for each in (singular, other))
        decided = decided and other_decided and places == same
    if not singular and not decided:
        raise Lost("nothing could be decided")
    box = Region(low, sheets.centre + sheets.scale * sheets.right, height)
    floats = [[float(value) for value in row] for row in rows]
    return Found([_candidate(prepared, floats, critical, box) for critical in singular], decided and certify, box, size)


def _candidate(prepared: Prepared, rows: list[list[float]], critical: Critical, box: Region) -> Candidate:
    real = isinstance(critical.p, mpmath.mpf)
    p: Any = float(critical.p) if real else complex(critical.p)
    R: Any = np.inf if np.isinf(critical.value) else critical.value.real if real else critical.value
    kind = "pole" if critical.turns == 1 else "branch point"
    times = "once" if critical.turns == 1 else f"{critical.turns} times"
    certificate = (
        f"continued from p = {box.high:.3g} along a ray to it and {times} around it, on the sheet that is bounded for p → ∞; "
        "at every critical point further right that sheet is regular"
    )
    factor = critical.factor
    if critical.turns == 2 and critical.power == 0.5:  # a simple fold: c² = −2 h_p/h_RR to all digits
        for _ in range(3):
            d = prepared(R, p)
            step = d.h_R / d.h_RR
            R = R - step if np.isfinite(step) and abs(step) < 1e-6 * abs(R) else R
        d = prepared(R, p)
        root = complex(-2 * d.h_p / d.h_RR) ** 0.5
        near = root if abs(root - critical.factor) < abs(root + critical.factor) else -root
        factor = near if abs(near - critical.factor) < 1e-6 * abs(near) else critical.factor
    amplitude = factor / math.gamma(-critical.power)
    columns = np.array([np.pad(row, (0, max(map(len, rows)) - len(row))) for row in rows])
    polynomial = columns[-1] if np.isinf(R) else R ** np.arange(len(rows)) @ columns
    sizes = np.abs(columns[-1]) if np.isinf(R) else np.abs(R) ** np.arange(len(rows)) @ np.abs(columns)
    error = 2 * EPSILON * abs(p) + _root_error(polynomial, sizes, p)
    return Candidate(p, R, kind, -1.0 - critical.power, amplitude.real if real else amplitude, error, certificate)


def _root_error(a: Array, sizes: Array, p: Any) -> float:
    """Return how far the root p of a polynomial moves with the rounding of its coefficients."""
    noise = EPSILON * float(np.abs(p) ** np.arange(len(a)) @ sizes)
    slope, scale, factorial = np.asarray(a), np.asarray(sizes), 1
    for order in range(1, len(a)):
        slope, scale = (part[1:] * np.arange(1, len(part)) for part in (slope, scale))
        factorial *= order
        value = abs(np.polynomial.polynomial.polyval(p, slope))
        if value > 1e-6 * float(np.abs(p) ** np.arange(len(slope)) @ scale):
            return float((noise * factorial / value) ** (1 / order))
    return 0.0
