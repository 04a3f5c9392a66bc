"""Coefficients that are singular at the start, such as 3/t, 1/√t or log t: the solution that is finite there.

On a first panel it is a polynomial that satisfies the equation at Radau nodes: none is the start, and where a coefficient is
k/t it is the solution that is finite there (de Hoog & Weiss, SIAM J. Math. Anal. 16, 775 (1985), doi:10.1137/0516058). Where
that is not smooth in time, t = uᵖ: powers of the p-th root of time are smooth in u, and logarithms nearly so; the first panel
is then 1e-12 of the whole time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import lagrange, radau
from eqsolve.numerics.secants import solve_krylov

_POWER = 12  # p: square, cube and fourth roots
_LATER = 4  # where the start is not zero, and differences from it lose digits
FIRST = 0.1  # of the whole in u
_LENGTHS = (0.03, 1e-2, 1e-3, 1e-4, 1e-6)  # of the whole: first panels that are tried in time itself, t = u
_SMOOTH = 1e-12  # relative change between two of them, where the solution is smooth
_COLLOCATED = 8  # nodes of the first panel
_SETTLED = 1e-13  # relative change that ends the iteration on it


class StartError(Exception):
    """No solution, or more than one, is finite at the start."""


class Slope(Protocol):
    """dy/du by the place u, with the clock that gives its time, and the labels of the equations."""

    clock: Clock

    @property
    def labels(self) -> list[str]: ...

    def __call__(self, moment: float, state: Array) -> Array: ...


@dataclass(frozen=True)
class Clock:
    """The variable u of an integration, t = begin + uᵖ; time itself for p = 1."""

    begin: float
    power: int = 1

    @classmethod
    def at_singular(cls, begin: float) -> Clock:
        """Return the clock for a solution that is not smooth in time."""
        return cls(begin, _POWER if begin == 0 else _LATER)

    @property
    def first(self) -> float:
        """The start."""
        return self.begin if self.power == 1 else 0.0

    def time(self, place: Any) -> Any:
        return place if self.power == 1 else self.begin + place**self.power

    def place(self, time: Any) -> Any:
        return time if self.power == 1 else np.maximum(time - self.begin, 0.0) ** (1 / self.power)

    def rate(self, place: float) -> float:
        """Return dt/du."""
        return 1.0 if self.power == 1 else self.power * place ** (self.power - 1)


@dataclass(frozen=True, eq=False)
class StartPanel:
    """A first panel in u: its ends, values at the start and at its nodes; of one node, the start alone."""

    begin: float
    end: float
    start: Array
    values: Array

    @property
    def state(self) -> Array:
        return np.asarray(self.values[-1])

    def __call__(self, places: Array) -> Array:
        weights = lagrange(radau(_COLLOCATED).with_start, (np.atleast_1d(places) - self.begin) / (self.end - self.begin))
        made = np.vstack([self.start, self.values]).T @ weights.T
        return made if np.ndim(places) else made[:, 0]


def start_panel(slope: Slope, start: Array, length: float) -> StartPanel:
    """Return the first panel; raise where no finite solution starts there, or more than one."""
    long, short = (None if _is_free(slope, start, length) else _collocate(slope, start, part * length) for part in (1.0, 0.5))
    label = ", ".join(slope.labels)
    where = f"at the start, t = {slope.clock.begin:.6g}, coefficients of the {label} are singular"
    if long is None or short is None:
        raise StartError(f"{where}, and the start determines no solution, or more than one")
    moved = [float(np.abs(panel.values - start).max()) for panel in (long, short)]
    if moved[1] > 0.97 * moved[0] and moved[1] > 1e-9 * float(np.abs(start).max()):
        raise StartError(f"{where}, and no finite solution starts from the values given")
    return long


def smooth_length(slope: Slope, start: Array, span: float) -> float:
    """Return the length of a first panel on which the solution is a polynomial in time, to rounding; 0 if there is none."""
    for length in (share * span for share in _LENGTHS):
        long, short = (_collocate(slope, start, part * length) for part in (1.0, 0.5))
        if long is not None and short is not None:
            gap = np.abs(long(slope.clock.first + length / 2 * radau(_COLLOCATED).nodes).T - short.values)
            if float(np.max(gap / (np.abs(start) + np.abs(short.values).max(axis=0) + 1e-300))) < _SMOOTH:
                return length
    return 0.0


def _is_free(slope: Slope, start: Array, length: float) -> bool:
    """Whether u ∂(dy/du)/∂y has a limit with a positive eigenvalue λ: solutions that differ by uᵝ, β = λ, start together."""
    if len(start) > 64:
        return False
    scale = 1e-7 * (np.abs(start) + 1e-3 * (float(np.abs(start).max()) or 1.0))
    found = []
    for place in (slope.clock.first + part * length for part in (1.0, 0.5)):
        here = slope(place, start)
        columns = [(slope(place, start + row) - here) / row.max() for row in np.diag(scale)]
        found.append((place - slope.clock.first) * np.array(columns).T)
    sizes = [float(np.abs(matrix).max()) for matrix in found]
    if not np.isfinite(sizes).all() or sizes[1] > 1.5 * sizes[0]:
        return False
    return bool(np.linalg.eigvals(found[1]).real.max() > 1e-2)


def _slope_along(residual: Callable[[Array], Array], values: Array, miss: Array, scale: Array, direction: Array) -> Array:
    part = 1e-7 * direction.reshape(values.shape) * scale
    return np.asarray(((residual(values + part) - miss) / (1e-7 * scale)).ravel())


def _balanced(matrix: Array) -> tuple[Array, Array, Array]:
    """Return a matrix with rows and columns scaled to a largest entry of one, and the scales."""
    rows, columns = np.ones(len(matrix)), np.ones(len(matrix))
    for _ in range(30):
        made = np.abs(matrix) * rows[:, None] * columns
        rows /= np.sqrt(np.maximum(made.max(axis=1), 1e-300))
        columns /= np.sqrt(np.maximum(made.max(axis=0), 1e-300))
    return matrix * rows[:, None] * columns, rows, columns


def _collocate(slope: Slope, start: Array, length: float) -> StartPanel | None:
    """Return the collocation polynomial of a panel by Newton's method; None where its linear equations are singular."""
    rule, size = radau(_COLLOCATED), len(start)
    places, count = slope.clock.first + length * rule.nodes, _COLLOCATED * size
    values = np.tile(start, (_COLLOCATED, 1))

    def residual(values: Array) -> Array:
        rates = np.array([slope(float(place), row) for place, row in zip(places, values, strict=True)])
        return np.asarray(values - start - length * rule.integrals @ rates)

    scale = np.maximum(np.abs(start), 1e-3 * float(np.abs(start).max()) or 1.0)
    for _ in range(20):
        miss = residual(values)
        if not np.isfinite(miss).all():
            return None
        change = functools.partial(_slope_along, residual, values, miss, scale)
        right = -(miss / scale).ravel()
        if count <= 256:
            matrix = np.array([change(unit) for unit in np.eye(count)]).T
            if not np.isfinite(matrix).all():
                return None
            matrix, rows, columns = _balanced(matrix)
            if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1e11:
                return None
            step = columns * np.linalg.solve(matrix, rows * right)
        else:
            step = solve_krylov(change, right, np.ones(count), most=80, tolerance=1e-8)
        values = values + step.reshape(values.shape) * scale
        if float(np.abs(step).max()) <= _SETTLED * max(1.0, float(np.abs(values / scale).max())) + 1e-15:
            break
    begin = slope.clock.first
    return StartPanel(begin, begin + length, start, values) if np.isfinite(values).all() else None
