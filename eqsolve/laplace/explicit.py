"""Singularities of an explicit transform R(p) = −b(p)/a(p) by its Laurent coefficients on circles.

Around a circle the coefficients c_k of R = Σ c_k ((p − p_0)/r)^k with k < 0 vanish exactly when R
is analytic inside. A pole shows as finitely many of them about its own place; a branch point as a
value that does not come back. Roots and logarithms are continued around the circle from its
rightmost point, so that the cuts of their principal values are not seen. Poles of several orders,
or several of them, are told apart by the ranks of Hankel matrices of the coefficients (P. Kravanja,
M. Van Barel, Computing the Zeros of Analytic Functions, 2000, doi:10.1007/BFb0103927).

The plane is cut into squares, from the right. One passes when the transform is analytic inside the
circle around it. Poles found are taken out, so that what remains passes; squares around a branch
point are cut down to its place. Cost: about a thousand squares, 64 values each.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.laplace.controls import CONTROLS, TINY
from eqsolve.laplace.half_plane import Candidate, Found, Region
from eqsolve.laplace.implicit import Prepared
from eqsolve.laplace.real_axis import far_right
from eqsolve.numerics.arrays import EPSILON, Array, richardson

POINTS = CONTROLS.circle
_ANGLES = -np.pi + (np.arange(POINTS) + 0.5) * 2 * np.pi / POINTS
_UNIT = np.exp(1j * _ANGLES)
_MODES = np.exp(1j * np.arange(1, POINTS // 2)[:, None] * _ANGLES) / POINTS  # of negative index
_TURN = np.exp(1e-7j)  # around a circle turned by so little all coefficients are the same, but for rounding
_BACK = _TURN ** np.arange(1, POINTS // 2)
_START = POINTS // 2  # the rightmost point


@dataclass(frozen=True)
class Pole:
    """Where, and the coefficients of 1/(p − p_c), 1/(p − p_c)², …"""

    p: complex
    parts: tuple[complex, ...]
    error: float

    def __call__(self, p: Array) -> Array:
        inverse = 1 / (p - self.p)
        total = np.zeros_like(inverse)
        for part in reversed(self.parts):
            total = (total + part) * inverse
        return total


class Explicit:
    """R(p) = −b(p)/a(p) of an equation that is linear in R, with its logarithms and roots as continuous functions."""

    def __init__(self, prepared: Prepared) -> None:
        form = prepared.transform.explicit
        self._means, self._inner, self._outer = form.means, form.inner, form.outer
        self._weights, self._floats = prepared.rule.weights, prepared.floats
        self._statics: list[Array] = []
        if form.means is not None:
            self._statics = form.means.static_values(prepared.rule.values, prepared.floats)
        self.points = len(self._weights) if self._means is not None else 0  # of a law, that every value takes
        self.roots = len(self._inner)  # different expressions under roots and logarithms

    @np.errstate(all="ignore")
    def __call__(self, p: Array, insides: bool = False) -> Array:
        """Return R at rows of points, each a way along which roots and logarithms are continuous, principal at its middle."""
        p = np.asarray(p, dtype=complex)
        flat = p.reshape(-1)
        given: list[Any] = list(self._floats)
        if self._means is not None:
            means = self._means.evaluate(np.zeros_like(flat), flat, self._floats, self._statics, self._weights)
            given += [np.broadcast_to(mean, flat.shape).reshape(p.shape) for mean in means]
        insides_found = []
        for function in self._inner:
            inside = np.broadcast_to(np.asarray(function(p, *given)[0], dtype=complex), p.shape)
            insides_found.append(inside)
            angle = np.angle(inside)
            if p.shape[-1] == POINTS:
                along = np.unwrap(angle, axis=-1)
                angle = along - (along - angle)[..., _START, None]
            given.append(np.log(np.abs(inside)) + 1j * angle)
        if insides:
            return np.array(insides_found)
        a, b = self._outer(p, *given)
        return np.broadcast_to(np.asarray(-b / a, dtype=complex), p.shape)

    @np.errstate(all="ignore")
    def around(self, centres: Array, radii: Array, without: list[Pole]) -> tuple[Array, Array, Array, Array]:
        """Return values around circles, with poles that are known already taken out, coefficients of negative index, which
        circles have a singularity inside or close by, and the rounding of the coefficients relative to the values."""
        middle, arm = np.asarray(centres, dtype=complex)[:, None], np.asarray(radii)[:, None] * _UNIT
        values, known = self._without(middle + arm, without)
        turned, _ = self._without(middle + arm * _TURN, without)  # the same coefficients, but for rounding
        modes = values @ _MODES.T
        noise = np.abs(turned @ (_MODES * _BACK[:, None]).T - modes).max(axis=1)
        size = np.abs(values).max(axis=1)
        small = 0.1 * CONTROLS.enough * size + _START * noise + CONTROLS.close * np.abs(known).max(axis=1)
        clean = (np.abs(modes).max(axis=1) <= small) & np.isfinite(size)
        return values, modes, ~clean, noise / (size + TINY)

    @np.errstate(all="ignore")
    def reach(self, far: float) -> float:
        """Return the point of the real axis from which on, to the right, R is a power of p; where it is lost in rounding, or
        underflows, nothing is said."""
        p = far / CONTROLS.stride ** np.arange(40)
        p = p[p > 1e-12]
        here, twice, shaken = (self(point[:, None])[:, 0] for point in (p, 2 * p, p * (1 + 4 * EPSILON)))
        power = (np.log(twice / here) / np.log(2)).real
        places = np.flatnonzero(np.isfinite(power) & (here != 0) & (np.abs(shaken - here) <= 1e-5 * np.abs(here)))
        changes = np.flatnonzero(np.abs(np.diff(power[places])) > CONTROLS.rough)
        return float(p[places[changes[0] if len(changes) else -1]]) if len(places) else float(far)

    def _without(self, p: Array, poles: list[Pole]) -> tuple[Array, Array]:
        """Return R with some poles taken out, and what was taken."""
        known = np.zeros(p.shape, dtype=complex)
        for pole in poles:
            known += pole(p) + np.conj(pole(np.conj(p))) * (pole.p.imag != 0)
        return self(p) - known, known

    def zero_inside(self, index: int, p: complex, reach: float) -> complex | None:
        """Return where the expression under a root or logarithm vanishes or diverges, near a point."""
        from scipy.optimize import newton

        def inside(p: complex) -> complex:
            return complex(self(np.array([p]), insides=True)[index][0])

        for function in (inside, lambda p: 1 / (inside(p) or TINY)):  # by the secant method
            at, result = newton(function, p, x1=p + 0.1 * reach, tol=EPSILON * abs(p), full_output=True, disp=False)
            if result.converged and abs(at - p) <= 4 * reach and abs(function(at)) <= 1e-6 * abs(function(p + reach)):
                return complex(at)
        return None


def poles_inside(circle: Array, centre: complex, radius: float) -> list[complex]:
    """Return the poles inside a circle by the ranks of Hankel matrices of its coefficients; none if there are too many."""
    modes = circle / np.abs(circle).max() if np.abs(circle).max() > 0 else circle
    if not np.isfinite(modes).all():
        return []
    places = np.add.outer(np.arange(CONTROLS.hankel), np.arange(CONTROLS.hankel))
    left, sizes, right = np.linalg.svd(modes[places])
    rank = int((sizes > 10 * CONTROLS.enough * sizes[0]).sum()) if sizes[0] > 0 else 0
    if not 0 < rank < CONTROLS.hankel:
        return []
    small = left[:, :rank].conj().T @ modes[places + 1] @ right[:rank].conj().T / sizes[:rank]
    return [centre + radius * complex(x) for x in np.linalg.eigvals(small) if abs(x) < 1]


def refine_pole(function: Explicit, p: complex, radius: float, known: list[Pole]) -> Pole | None:
    """Return the pole near a point, alone within a radius, with its order and coefficients; None if it is none."""
    estimates = []
    # the first three radii give the place and its error; poles that are close to each other look like one from afar, so that
    # the order has to be the same on smaller circles, down to where rounding hides it
    for halving in range(CONTROLS.rounds):
        r = radius / 2**halving
        for _ in range(6 if halving < 3 else 2):
            values, modes, singular, noise = (part[0] for part in function.around(np.array([p]), np.array([r]), known))
            sizes = np.abs(modes)
            if not np.isfinite(sizes).all() or not singular:
                return None
            if halving >= 3 and noise > 1e-4:
                break
            order = 1 + int(np.flatnonzero(sizes > 1e-3 * sizes.max())[-1])
            if order > CONTROLS.hankel + 1:
                return None
            step = complex(r * modes[order] / (order * modes[order - 1]))
            if abs(step) > r:
                return None
            p = p + step
            if abs(step) <= 1e-14 * abs(p) + 1e-16 * r:
                break
        if halving >= 3 and noise > 1e-4:
            break
        if sizes[order + 1 :].max() > 1e-6 * sizes.max() + _START * noise * np.abs(values).max():
            return None
        estimates.append((p, order, [complex(modes[k] * r ** (k + 1)) for k in range(order)]))
        if halving >= 3 and r <= 1e-5 * abs(p):
            break
    place, order, parts = estimates[1]
    if any(estimate[1] != order for estimate in estimates):
        return None
    error = 4 * abs(estimates[1][0] - estimates[0][0]) + abs(estimates[2][0] - estimates[1][0]) + 2 * EPSILON * abs(place)
    return Pole(place, tuple(parts), float(error))


def _at_end(values: Array, part: slice, angle: float) -> Array:
    """Return values on circles extrapolated to an angle."""
    fits = np.polyfit(_ANGLES[part], values[:, part].T, 5)
    return np.array([np.polyval(fit, angle) for fit in fits.T])


def branch_power(function: Explicit, p: complex, radius: float, known: list[Pole]) -> tuple[float, complex] | None:
    """Return μ and the factor A of the decay A t^{−1−μ} of a branch point R ≈ … + c (p − p_c)^μ; None if R comes back.

    The jump J behind a way around it has the size r^μ, and A = c/Γ(−μ) = −Γ(1 + μ) J/(2πi r^μ), for a logarithm (μ = 0) too.
    """
    best = None
    for _ in range(CONTROLS.rounds):
        radii = radius * np.array([1.0, 0.5, 0.25])
        values = function.around(np.full(3, p), radii, known)[0]
        jumps = _at_end(values, slice(-6, None), np.pi) - _at_end(values, slice(6), -np.pi)
        spread = np.abs(values - values.mean(axis=1, keepdims=True)).max(axis=1)
        if not np.isfinite(jumps).all() or (np.abs(jumps) <= 1e-7 * spread + 1e-12 * np.abs(values).max(axis=1)).any():
            break
        powers = np.log(np.abs(jumps[:-1] / jumps[1:])) / np.log(2)
        best = float(2 * powers[1] - powers[0]), jumps, radii
        if abs(powers[1] - powers[0]) < 1e-3:
            break
        radius /= 4
    if best is None:
        return None
    power, jumps, radii = best
    near = round(12 * power) / 12  # powers of models are fractions of small numbers
    power = near if abs(power - near) < 5e-3 else power
    if power < 0 and power == round(power):  # it comes back
        return None
    return power, complex(richardson(list(-math.gamma(1 + power) * jumps / (2j * np.pi * radii**power)))[0])


class PlaneSearch:
    """Searches a region from the right, or the real axis only.

    Squares right around ``known``, a singularity on the axis that is known already, are left out.
    """

    def __init__(self, function: Explicit, region: Region, *, known: float | None = None, axis_only: bool = False) -> None:
        self.function, self.region, self.axis_only = function, region, axis_only
        self.poles: list[Pole] = []
        self.branches: list[tuple[complex, float, float]] = [] if known is None else [(complex(known), 0.0, 0.0)]
        self.known = known
        self.scale = region.high - region.low

    def run(self) -> Found:
        region = self.region
        side = min(region.high - region.low, region.height)
        columns = int(np.ceil((region.high - region.low) / side))
        rows = 1 if self.axis_only else int(np.ceil(region.height / side))
        cells = np.array([(region.high - (i + 1) * side, j * side, side) for i in range(columns) for j in range(rows)])
        looked, clean = 0, True
        while len(cells):
            cells = cells[(cells[:, 0] + cells[:, 2]) > self._stop()]
            cells = cells[~self._settled(cells)] if len(cells) else cells
            if not len(cells):
                break
            if looked > CONTROLS.work / (1 + self.function.points / 10):
                clean = False
                break
            order = np.argsort(-(cells[:, 0] + cells[:, 2]), kind="stable")
            batch, cells = np.split(cells[order], [len(cells) // 2 + 1])  # the right half
            looked += len(batch)
            cells = np.concatenate([cells, self._look(batch)])
        return Found(self._candidates(), clean, region, self.scale)

    def _stop(self) -> float:
        """Return the real part up to which the search goes."""
        best = max(
            [pole.p.real for pole in self.poles if self._counts(pole.p)] + [at.real for at, *_ in self.branches],
            default=self.region.low,
        )
        return best - 1e-8 * max(abs(best), 1e-3 * self.scale)

    def _counts(self, at: complex) -> bool:
        return at.real >= self.region.low and at.imag <= self.region.height and not (self.axis_only and at.imag != 0)

    def _smallest(self, at: Any) -> Any:
        return 10 * CONTROLS.enough * np.maximum(np.abs(at), 1e-9 * self.scale)

    def _settled(self, cells: Array) -> Array:
        """Return which squares lie right at a branch point, or, of those off the axis, do not matter."""
        middle = cells[:, 0] + cells[:, 2] / 2 + 1j * (cells[:, 1] + cells[:, 2] / 2)
        done = np.zeros(len(cells), dtype=bool)
        for at, *_ in self.branches:
            small = cells[:, 2] <= 1e3 * self._smallest(at)
            done |= small & (np.abs(middle - at) <= 3 * cells[:, 2])
        return done | (self.axis_only & (cells[:, 1] > 0))

    def _look(self, batch: Array) -> Array:
        """Return what of some squares is to be searched further: nothing, themselves once more, or their quarters."""
        sides = batch[:, 2]
        centres = batch[:, 0] + sides / 2 + 1j * (batch[:, 1] + sides / 2)
        if self.axis_only:
            centres = centres.real + 0j
        radii = 0.75 * sides
        _, modes, singular, _ = self.function.around(centres, radii, self.poles)
        remaining = []
        before = len(self.poles)
        for k in np.flatnonzero(singular):
            if len(self.poles) > before + 3:  # look again with these taken out
                remaining.append(batch[k : k + 1])
                continue
            if self._take_poles(modes[k], complex(centres[k]), float(radii[k])):
                remaining.append(batch[k : k + 1])
            elif sides[k] <= self._smallest(centres[k]):
                centre, side = complex(centres[k]), float(sides[k])  # known by its place alone
                if not any(abs(centre - at) <= 10 * side for at, *_ in self.branches):
                    place = complex(centre.real) if abs(centre.imag) <= side else centre
                    self.branches.append((place, side, 1e3 * side))
            else:
                if sides[k] < 0.3 * self.scale:
                    self._take_branch(complex(centres[k]), float(sides[k]))
                x, y, side = batch[k]
                half = side / 2
                remaining.append(np.array([(x + i * half, y + j * half, half) for i in (1, 0) for j in (0, 1)]))
        return np.concatenate(remaining) if remaining else batch[:0]

    def _take_poles(self, modes: Array, centre: complex, radius: float) -> bool:
        places = [p for p in poles_inside(modes, centre, radius) if p.real > self._stop()]  # the others do not matter
        taken = False
        while places:
            first = places.pop()
            group = [first, *(p for p in places if abs(p - first) < 5 * CONTROLS.rough * radius)]
            places = [p for p in places if p not in group]
            at = complex(np.mean(group))
            others = [abs(at - p) for p in places] + [abs(at - p) for p, *_ in self.branches]
            for pole in self.poles:  # taken out already, and found again as what rounding left of it
                if abs(at - pole.p) <= 1e-6 * radius:
                    break
            else:
                radius_alone = min([0.2 * radius, *(0.4 * d for d in others if d > 0)])
                pole_there = refine_pole(self.function, at, radius_alone, self.poles)
                taken |= pole_there is not None and self._add(pole_there, radius)
        return taken

    def _add(self, pole: Pole, radius: float) -> bool:
        """Keep a pole, in the upper half plane."""
        at = pole.p
        if abs(at.imag) <= 4 * pole.error + 1e-12 * radius:
            pole = Pole(complex(at.real), tuple(complex(part.real) for part in pole.parts), pole.error)
        elif at.imag < 0:
            pole = Pole(at.conjugate(), tuple(part.conjugate() for part in pole.parts), pole.error)
        if any(abs(pole.p - other.p) <= 1e-9 * (radius + abs(pole.p)) for other in self.poles):
            return False
        self.poles.append(pole)
        return True

    def _take_branch(self, centre: complex, side: float) -> None:
        """Look for a branch point in a square: where what stands under a root or a logarithm vanishes or diverges."""
        for index in range(self.function.roots):
            at = self.function.zero_inside(index, centre, side)
            if at is None or max(abs(at.real - centre.real), abs(at.imag - centre.imag)) > 0.51 * side:
                continue
            at = complex(*(0.0 if abs(part) <= 1e-13 * side else part for part in (at.real, abs(at.imag))))
            if any(abs(at - item) <= 1e-9 * (side + abs(at)) for item, *_ in self.branches):
                continue
            if branch_power(self.function, at, self._alone(at, side), self.poles) is not None:
                self.branches.append((at, 1e-15 * abs(at) + 1e-16 * side, side))

    def _alone(self, at: complex, side: float) -> float:
        """Return a radius within which no other singularity is known."""
        others = [abs(at - pole.p) for pole in self.poles] + [abs(at - item) for item, *_ in self.branches if item != at]
        others += [2 * at.imag] if at.imag > 0 else []
        return 1e-2 * min([side, *others])

    def _candidates(self) -> list[Candidate]:
        candidates = []
        words = "{} around it shows it, and the squares to its right, each with a circle around it, hold none"
        for pole in self.poles:
            if self._counts(pole.p):
                order = len(pole.parts)
                amplitude = pole.parts[-1] / math.factorial(order - 1)
                real = pole.p.imag == 0
                candidates.append(Candidate(
                    pole.p.real if real else pole.p, np.inf, "pole", float(order - 1), amplitude.real if real else amplitude,
                    pole.error, words.format("a circle"),
                ))  # fmt: skip
        for at, error, side in self.branches:
            if at == self.known or not self._counts(at):
                continue
            power_and_factor = branch_power(self.function, at, self._alone(at, side), self.poles)
            power, factor = power_and_factor if power_and_factor is not None else (None, None)
            value = complex(np.inf)
            if power is not None and power > 0:
                value = complex(self.function(np.array([at + 1e-14 * (abs(at) + side)]))[0])
            real = at.imag == 0
            candidates.append(Candidate(
                at.real if real else at, value.real if real or np.isinf(value) else value,
                "branch point" if power_and_factor is not None else "singularity", None if power is None else -1.0 - power,
                factor.real if real and factor is not None else factor, error, words.format("a way"),
            ))  # fmt: skip
        return candidates


def search_explicit(prepared: Prepared, region: tuple[float, float] | None, start: float | None, certify: bool) -> Found:
    """Search the plane for the singularities of a transform that is given explicitly."""
    function = Explicit(prepared)
    high = function.reach(far_right(prepared, start)[1])
    low, height = (-4 * high, 3 * high) if region is None else (float(region[0]), float(region[1]))
    result = PlaneSearch(function, Region(low, max(high, low + height), height), axis_only=not certify).run()
    return replace(result, clean=result.clean and certify, scale=high)
