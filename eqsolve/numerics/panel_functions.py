"""Functions on panels that grow with time: a polynomial on each, and integrals of what joins s and t − s.

On a panel the functions are polynomials of degree m through the left end and m Radau nodes. For a target t in the newest panel
the range of ∫_0^t H(s, t − s) ds is folded at t/2: with v from 0 to t/2 the integrand is H(v, t − v) + H(t − v, v). Between
the edges of the panels, and t minus these, both functions are polynomials, and a Gauss rule is exact up to their tails. Panels
that grow like t are O(log t) many, and so are the pieces. Small times are small numbers in both halves, so that nothing is
lost by subtracting them from large ones.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import lagrange, radau

# --- Break points of delay equations: where a solution is less smooth than elsewhere.


def break_points(delays: Sequence[float], end: float, levels: int) -> Array:
    """Return the sums of up to ``levels`` delays below ``end``, sorted.

    A solution that starts with a jump in its first derivative has one in derivative k + 1 at sums of k delays; with panels of
    degree below ``levels`` the later ones do not count (Bellen & Zennaro, Numerical Methods for Delay Differential
    Equations, 2003, doi:10.1093/acprof:oso/9780198506546.001.0001).
    """
    lengths = np.array(sorted({float(delay) for delay in delays if 0 < delay < end}))
    found = reached = np.zeros(1)
    for _ in range(levels if len(lengths) else 0):
        sums = (reached[:, None] + lengths).ravel()
        reached = _distinct(sums[sums < end], end)
        if not len(reached):
            break
        found = _distinct(np.concatenate([found, reached]), end)
    return found[found > 0]


def _distinct(points: Array, end: float) -> Array:
    points = np.sort(points)
    if not len(points):
        return points
    # of the last time: points closer than this are one
    kept: Array = points[np.concatenate([[True], np.diff(points) > 1e-12 * end])]
    return kept


# --- Functions on panels that grow with time: a polynomial on each, and integrals of what joins s
# and t − s.
@dataclass(frozen=True, eq=False)
class Basis:
    """Polynomials of degree m on [0, 1] by their values at the left end and m Radau nodes.

    ``slopes`` gives the derivative at the nodes, ``legendre`` the Legendre coefficients, ``points`` and ``weights`` are a
    Gauss rule on [0, 1], ``gauges`` the Legendre coefficients of a function given at its points.
    """

    nodes: Array
    slopes: Array
    legendre: Array
    points: Array
    weights: Array
    gauges: Array
    first: Array  # weights of the other nodes in the value at the left end of the polynomial through them


_MORE = 3  # Gauss points beyond the degree: a product of two resolved polynomials then errs by the square of their tails


@functools.lru_cache(maxsize=16)
def basis(m: int) -> Basis:
    """Return the polynomials of degree m."""
    nodes, slopes = radau(m).with_start, radau(m).slopes
    legendre = np.linalg.inv(np.polynomial.legendre.legvander(2 * nodes - 1, m))
    gauss, weights = np.polynomial.legendre.leggauss(m + _MORE)
    degrees = np.arange(m + 1)
    table = np.polynomial.legendre.legvander(gauss, m) * weights[:, None]
    return Basis(nodes, slopes, legendre, (gauss + 1) / 2, weights / 2, (table * (degrees + 0.5)).T, radau(m).back)


@dataclass(frozen=True, eq=False)
class Samples:
    """All functions at many points: what is known of them, and how the newest panel's values enter.

    ``known`` and ``known_rates`` are (functions, *points), zero inside the newest panel; ``rows`` and ``rate_rows`` are
    (*points, nodes), zero outside it, or None where no point lies in it.
    """

    known: Array
    known_rates: Array | None
    rows: Array | None
    rate_rows: Array | None

    def values(self, function: int, rate: bool, panel: Array) -> Array:
        """Return one function, or its derivative, given the values on the newest panel."""
        known = self.known_rates if rate else self.known
        assert known is not None
        rows = self.rate_rows if rate else self.rows
        return known[function] if rows is None else known[function] + rows @ panel[function]


class PanelFunctions:
    """Several functions on the panels so far; ``add`` appends one."""

    def __init__(self, count: int, m: int) -> None:
        self.basis = basis(m)
        self.edges = np.zeros(1)
        self.tables = np.empty((0, count, m + 1))

    @property
    def panels(self) -> int:
        return len(self.tables)

    def add(self, end: float, table: Array) -> None:
        """Append a panel that ends at a time, with the functions' values on its nodes."""
        self.edges = np.append(self.edges, end)
        self.tables = np.concatenate([self.tables, table[None]])

    def sample(self, points: Array, newest: Array, width: float, rates: bool, side: Array | float = 0.0) -> Samples:
        """Return the functions at ``points`` ≥ 0; ``newest`` is the place of each point in the newest panel, from 0 to 1.

        Points beyond the last edge lie in the newest panel, which has a ``width``. ``side`` (±1, or 0) says to which panel a
        point on an edge belongs.
        """
        begin = self.edges[-1]
        nudge = 1e-9 * width * side
        inside = newest + 1e-9 * side > 0 if self.panels else np.ones(points.shape, dtype=bool)
        count = len(self.basis.nodes)
        rows = rate_rows = None
        if inside.any():
            rows = np.zeros((*points.shape, count))
            rows[inside] = lagrange(self.basis.nodes, newest[inside])
            rate_rows = rows @ self.basis.slopes / width if rates else None
        functions = self.tables.shape[1]
        known = np.zeros((functions, *points.shape))
        known_rates = np.zeros_like(known) if rates else None
        past = ~inside
        if past.any():
            moments = points[past]
            shifted = np.clip(
                moments + (nudge if np.ndim(nudge) == 0 else np.broadcast_to(nudge, points.shape)[past]), 0, begin
            )
            place = np.clip(np.searchsorted(self.edges, shifted, side="left") - 1, 0, self.panels - 1)
            steps = self.edges[place + 1] - self.edges[place]
            weights = lagrange(self.basis.nodes, (moments - self.edges[place]) / steps)
            tables = self.tables[place]
            known[:, past] = np.einsum("pfn,pn->fp", tables, weights)
            if known_rates is not None:
                known_rates[:, past] = np.einsum("pfn,pn->fp", tables, weights @ self.basis.slopes / steps[:, None])
        return Samples(known, known_rates, rows, rate_rows)


def folded_points(edges: Array, targets: Array, rule: Basis) -> tuple[Array, Array]:
    """Return points v in (0, t/2) and their weights, (targets, points), for integrals folded at half of each target time.

    ``edges`` are those of all panels; pieces end at them and at each target minus them.
    """
    last = targets.max()
    early = edges[edges <= last / 2]
    late = edges[edges >= targets.min() / 2]
    half = targets[:, None] / 2
    ends = np.concatenate([np.broadcast_to(early, (len(targets), len(early))), targets[:, None] - late, half], axis=1)
    ends = np.sort(np.clip(ends, 0.0, half), axis=1)
    widths = np.diff(ends, axis=1)
    used = widths.max(axis=0) > 0
    starts, widths = ends[:, :-1][:, used], widths[:, used]
    points = starts[:, :, None] + widths[:, :, None] * rule.points
    weights = widths[:, :, None] * rule.weights
    return points.reshape(len(targets), -1), weights.reshape(len(targets), -1)
