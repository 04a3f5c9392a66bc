"""Coefficients that are singular at the start, such as 3/t, 1/√t or log t: the solution that is finite there.

On a first panel it is a polynomial that satisfies the equation at Radau nodes: none is the start, and where a coefficient is
k/t it is the solution that is finite there (de Hoog & Weiss, SIAM J. Math. Anal. 16, 775 (1985), doi:10.1137/0516058). Where
that is not smooth, as √t, the panel is so short that this does not count, and the integrator's steps grow from there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import lagrange, radau
from eqsolve.numerics.secants import solve_krylov

_RULE = radau(8)  # of a first panel


class StoppedError(SolverError):
    """A path cannot be continued; ``time`` is where."""

    def __init__(self, message: str, time: float) -> None:
        super().__init__(message)
        self.time = time


@dataclass(frozen=True, eq=False)
class StartPanel:
    """A first panel: its ends, values at the start and at its nodes; of one node, the start alone."""

    begin: float
    end: float
    start: Array
    values: Array

    def __call__(self, places: Array) -> Array:
        weights = lagrange(_RULE.with_start, (np.atleast_1d(places) - self.begin) / (self.end - self.begin))
        made = np.vstack([self.start, self.values]).T @ weights.T
        return made if np.ndim(places) else made[:, 0]


def _refuse(slope: Any, why: str) -> StoppedError:
    said = f"at the start, t = {slope.begin:.6g}, coefficients of the {slope.labels} are singular, and {why}"
    return StoppedError(said, slope.begin)


def start_panel(slope: Any, start: Array, length: float) -> StartPanel:
    """Return the first panel; raise where no finite solution starts there, or more than one."""
    long, short = (_collocate(slope, start, part * length) for part in (1.0, 0.5))
    if long is None or short is None or _is_free(slope, start, length):
        raise _refuse(slope, "the start determines no solution, or more than one")
    moved = [float(np.abs(panel.values - start).max()) for panel in (long, short)]
    if moved[1] > 0.97 * moved[0] and moved[1] > 1e-9 * float(np.abs(start).max()):
        raise _refuse(slope, "no finite solution starts from the values given")
    return long


def start_length(slope: Any, start: Array, span: float) -> float:
    """Return the length of a first panel: one on which the solution is a polynomial, if there is one."""
    for length in (share * span for share in (0.03, 1e-2, 1e-3, 1e-4, 1e-6)):
        long, short = (_collocate(slope, start, part * length) for part in (1.0, 0.5))
        if long is not None and short is not None:
            gap = np.abs(long(slope.begin + length / 2 * _RULE.nodes).T - short.values)
            if float(np.max(gap / (np.abs(start) + np.abs(short.values).max(axis=0) + 1e-300))) < 1e-12:
                return length
    if slope.begin != 0:
        raise _refuse(slope, "the solution is not smooth there; count the time from the start")
    return 1e-30 * span  # even of a cube root nothing is left


def _is_free(slope: Any, start: Array, length: float) -> bool:
    """Whether t ∂y'/∂y has a limit with a positive eigenvalue: solutions apart by that power of t start together."""
    found = []
    steps = np.diag(1e-7 * (np.abs(start) + 1e-3 * (float(np.abs(start).max()) or 1.0)))[: 64 if len(start) <= 64 else 0]
    early = 1e-6 * length if length > 1e-9 else length  # so early that what is not singular counts for nothing
    for t in (early, early / 2):
        here = slope(slope.begin + t, start)
        found.append(t * np.array([(slope(slope.begin + t, start + row) - here) / row.max() for row in steps]).T)
    first, second = (float(np.abs(matrix).max(initial=0.0)) for matrix in found)
    limited = len(steps) > 0 and np.isfinite(first + second) and second <= 1.5 * first
    return bool(limited and np.linalg.eigvals(found[1]).real.max() > 1e-2)


def _collocate(slope: Any, start: Array, length: float) -> StartPanel | None:
    """Return the collocation polynomial of a panel by Newton's method; None where its linear equations are singular."""
    begin, values = slope.begin, np.tile(start, (len(_RULE.nodes), 1))
    scale = np.maximum(np.abs(start), 1e-3 * float(np.abs(start).max()) or 1.0)

    def residual(moves: Array) -> Array:
        table = values + moves.reshape(values.shape) * scale
        rates = np.array([slope(begin + length * c, row) for c, row in zip(_RULE.nodes, table, strict=True)])
        return np.asarray(((table - start - length * _RULE.integrals @ rates) / scale).ravel())

    for _ in range(20):
        miss = residual(np.zeros(values.size))
        slopes = functools.partial(lambda miss, move: (residual(1e-7 * move) - miss) / 1e-7, miss)
        if values.size <= 256:
            matrix = np.array([slopes(unit) for unit in np.eye(values.size)]).T
            if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1e13:
                return None
            step = np.linalg.solve(matrix, -miss)
        else:
            step = solve_krylov(slopes, -miss, np.ones(values.size), most=80, tolerance=1e-8)
        values = values + step.reshape(values.shape) * scale
        if not np.isfinite(values).all():
            return None
        if float(np.abs(step).max()) <= 1e-13 * max(1.0, float(np.abs(values / scale).max())):
            break
    return StartPanel(begin, begin + length, start, values)
