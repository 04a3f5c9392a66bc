"""The rightmost singularities of a transform that is given explicitly: squares of the plane, from the right, cut where needed.

A square passes when the transform is analytic inside the circle around it. Poles found are taken out, so that what remains
passes; squares around a branch point are cut down to its place. Cost: about a thousand squares, 64 values each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.laplace.candidates import Candidate
from eqsolve.laplace.explicit import Explicit, Pole, branch_power, poles_inside, refine_pole
from eqsolve.laplace.half_plane import Region
from eqsolve.numerics.arrays import Array

__all__ = ["Found", "search_explicit"]

_MOST = 60_000  # squares
_BATCH = 96
_AROUND = 0.75  # radius of the circle around a square of side 1; its corners are 0.71 away
_SMALLEST = 1e-7  # side of a square that is cut no further, relative to where it lies
_MERGED = 0.05  # poles so close to each other, in units of the circle, are looked at as one


@dataclass(frozen=True)
class Found:
    """Singularities in the upper half plane and on the axis, and whether everything to their right passed."""

    candidates: tuple[Candidate, ...]
    clean: bool


def search_explicit(function: Explicit, region: Region, *, known: float | None = None, axis_only: bool = False) -> Found:
    """Search a region from the right.

    Parameters
    ----------
    known
        A singularity on the axis that is known already: squares right around it are left out.
    axis_only
        Follow the real axis only.
    """
    return _Search(function, region, known, axis_only).run()


class _Search:
    def __init__(self, function: Explicit, region: Region, known: float | None, axis_only: bool) -> None:
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
            right = cells[:, 0] + cells[:, 2]
            cells = cells[right > self._stop()]
            cells = cells[~self._settled(cells)] if len(cells) else cells
            if not len(cells):
                break
            if looked > _MOST / (1 + self.function.points / 10):
                clean = False
                break
            order = np.argsort(-(cells[:, 0] + cells[:, 2]), kind="stable")
            batch, cells = cells[order[:_BATCH]], cells[order[_BATCH:]]
            looked += len(batch)
            cells = np.concatenate([cells, self._look(batch)])
        return Found(tuple(self._candidates()), clean)

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
        return _SMALLEST * np.maximum(np.abs(at), 1e-9 * self.scale)

    def _settled(self, cells: Array) -> Array:
        """Return which squares lie right at a branch point, or, of those off the axis, do not matter."""
        middle = cells[:, 0] + cells[:, 2] / 2 + 1j * (cells[:, 1] + cells[:, 2] / 2)
        done = np.zeros(len(cells), dtype=bool)
        for at, *_ in self.branches:
            small = cells[:, 2] <= 1e3 * self._smallest(at)
            done |= small & (np.abs(middle - at) <= 3 * cells[:, 2])
        return done | (self.axis_only & (cells[:, 1] > 0))

    def _look(self, batch: Array) -> Array:
        """Return what is left of some squares: nothing, themselves once more, or their quarters."""
        sides = batch[:, 2]
        centres = batch[:, 0] + sides / 2 + 1j * (batch[:, 1] + sides / 2)
        if self.axis_only:
            centres = centres.real + 0j
        radii = _AROUND * sides
        circles = self.function.around(centres, radii, self.poles)
        left = []
        before = len(self.poles)
        for k in np.flatnonzero(circles.singular):
            if len(self.poles) > before + 3:  # look again with these taken out
                left.append(batch[k : k + 1])
                continue
            if self._take_poles(circles.modes[k], complex(centres[k]), float(radii[k])):
                left.append(batch[k : k + 1])
            elif sides[k] <= self._smallest(centres[k]):
                self._take_rest(complex(centres[k]), float(sides[k]))
            else:
                if sides[k] < 0.3 * self.scale:
                    self._take_branch(complex(centres[k]), float(sides[k]))
                left.append(_quarters(batch[k]))
        return np.concatenate(left) if left else batch[:0]

    def _take_poles(self, modes: Array, centre: complex, radius: float) -> bool:
        places = [p for p in poles_inside(modes, centre, radius) if p.real > self._stop()]  # the others do not matter
        taken = False
        while places:
            first = places.pop()
            group = [first, *(p for p in places if abs(p - first) < _MERGED * radius)]
            places = [p for p in places if p not in group]
            at = complex(np.mean(group))
            others = [abs(at - p) for p in places] + [abs(at - p) for p, *_ in self.branches]
            for pole in self.poles:  # taken out already, and found again as what rounding left of it
                if abs(at - pole.p) <= 1e-6 * radius:
                    break
            else:
                made = refine_pole(self.function, at, min([0.2 * radius, *(0.4 * d for d in others if d > 0)]), self.poles)
                taken |= made is not None and self._add(made, radius)
        return taken

    def _add(self, pole: Pole, radius: float) -> bool:
        """Keep a pole, in the upper half plane."""
        at = pole.p
        if abs(at.imag) <= 4 * pole.error + 1e-12 * radius:
            pole = Pole(complex(at.real), tuple(complex(part.real) for part in pole.parts), pole.error)
        elif at.imag < 0:
            pole = Pole(at.conjugate(), tuple(part.conjugate() for part in pole.parts), pole.error)
        if any(abs(pole.p - item.p) <= 1e-9 * (radius + abs(pole.p)) for item in self.poles):
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

    def _take_rest(self, centre: complex, side: float) -> None:
        """Take note of a singularity of which nothing is known but its place."""
        if not any(abs(centre - at) <= 10 * side for at, *_ in self.branches):
            at = complex(centre.real) if abs(centre.imag) <= side else centre
            self.branches.append((at, side, 1e3 * side))

    def _candidates(self) -> list[Candidate]:
        made = []
        words = "{} around it shows it, and the squares to its right, each with a circle around it, hold none"
        for pole in self.poles:
            if self._counts(pole.p):
                order = len(pole.parts)
                amplitude = pole.parts[-1] / float(np.prod(np.arange(1, order)))
                real = pole.p.imag == 0
                made.append(Candidate(
                    pole.p.real if real else pole.p, np.inf, "pole", float(order - 1), amplitude.real if real else amplitude,
                    pole.error, words.format("a circle"),
                ))  # fmt: skip
        for at, error, side in self.branches:
            if at == self.known or not self._counts(at):
                continue
            found = branch_power(self.function, at, self._alone(at, side), self.poles)
            power, factor = found if found is not None else (None, None)
            value = complex(np.inf)
            if power is not None and power > 0:
                value = complex(self.function(np.array([at + 1e-14 * (abs(at) + side)]))[0])
            real = at.imag == 0
            made.append(Candidate(
                at.real if real else at, value.real if real or np.isinf(value) else value,
                "branch point" if found is not None else "singularity", None if power is None else -1.0 - power,
                factor.real if real and factor is not None else factor, error, words.format("a way"),
            ))  # fmt: skip
        return made


def _quarters(cell: Array) -> Array:
    x, y, side = cell
    half = side / 2
    return np.array([(x + i * half, y + j * half, half) for i in (1, 0) for j in (0, 1)])
