"""A march over panels, each as wide as the resolution allows: the last Legendre coefficients of every unknown tell.

On a panel the functions are polynomials of degree m through the left end and m Radau nodes. For a
target t in the newest panel the range of ∫_0^t H(s, t − s) ds is folded at t/2: with v from 0 to
t/2 the integrand is H(v, t − v) + H(t − v, v). Between the edges of the panels, and t minus these,
both functions are polynomials, and a Gauss rule is exact up to their tails. Panels that grow like t
are O(log t) many, and so are the pieces. Small times are small numbers in both halves.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram, MemoryEquation, Reading, Terms
from eqsolve.compile.families import over_points
from eqsolve.errors import ParameterError
from eqsolve.files.checkpoint import Checkpoint, recorded
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array, member_names
from eqsolve.numerics.grids import PanelGrid, lagrange, radau
from eqsolve.numerics.secants import linear_solver
from eqsolve.solvers.marching import RATIO, NoConvergenceError, NotFiniteError, newton


def break_points(delays: Sequence[float], end: float, levels: int) -> Array:
    """Return the sums of up to ``levels`` delays below ``end``, sorted.

    A solution that starts with a jump in its first derivative has one in derivative k + 1 at sums
    of k delays; with panels of degree below ``levels`` the later ones do not count (Bellen &
    Zennaro, Numerical Methods for Delay Differential Equations, 2003,
    doi:10.1093/acprof:oso/9780198506546.001.0001).
    """
    lengths = np.array(sorted({float(delay) for delay in delays if 0 < delay < end}))
    points = reached = np.zeros(1)
    for _ in range(levels):
        sums = (reached[:, None] + lengths).ravel()
        reached = _distinct(sums[sums < end], end)
        points = _distinct(np.concatenate([points, reached]), end)
    return points[points > 0]


def _distinct(points: Array, end: float) -> Array:
    """Return points in order, those that differ by rounding alone once."""
    points = np.sort(points)
    return points[np.diff(points, prepend=-np.inf) > 1e-12 * end]


@functools.lru_cache(maxsize=16)
def gauss(m: int) -> tuple[Array, Array, Array]:
    """Return a Gauss rule on [0, 1], and the map from values at its points to Legendre coefficients up to degree m.

    It has three points more than a polynomial of that degree: a product of two resolved polynomials
    then errs by the square of their tails.
    """
    nodes, weights = np.polynomial.legendre.leggauss(m + 3)
    table = np.polynomial.legendre.legvander(nodes, m) * weights[:, None] * (np.arange(m + 1) + 0.5)
    return (nodes + 1) / 2, weights / 2, table.T


class PointValues:
    """All functions at many points, affine in the newest panel's values: constant part and matrix.

    ``rows`` is (*points, nodes), zero outside the newest panel, or None where no point lies in it; ``rates`` the same for
    derivatives. ``before`` marks points before the start, where nothing is known here.
    """

    def __init__(self, past: "PanelFunctions", points: Array, newest: Array, width: float, side: Array | float = 0.0) -> None:
        self.past, self.shape = past, points.shape
        inside = newest + 1e-9 * side > 0 if past.panels else np.ones(points.shape, dtype=bool)
        self.rows, self.width = None, width
        rule = past.rule
        if inside.any():
            self.rows = np.zeros((*points.shape, len(rule.with_start)))
            self.rows[inside] = lagrange(rule.with_start, newest[inside])
        outside = ~inside
        self.places = np.flatnonzero(outside)
        if len(self.places):
            moments = points[outside]
            shifted = np.clip(moments + np.broadcast_to(1e-9 * width * side, points.shape)[outside], 0, past.edges[-1])
            self.panel = np.clip(np.searchsorted(past.edges, shifted, side="left") - 1, 0, past.panels - 1)
            self.steps = past.edges[self.panel + 1] - past.edges[self.panel]
            self.weights = lagrange(rule.with_start, (moments - past.edges[self.panel]) / self.steps)
        self._known: dict[tuple[int, bool], Array] = {}

    def known(self, members: slice, rate: bool) -> Array:
        """Return what is known of some functions, or of their derivatives, (members, *points); zero in the newest panel."""
        key = (members.start, rate)
        if key not in self._known:
            values = np.zeros((members.stop - members.start, math.prod(self.shape)))
            if len(self.places):
                weights = self.weights @ self.past.rule.slopes / self.steps[:, None] if rate else self.weights
                values[:, self.places] = np.einsum("pfn,pn->fp", self.past.tables[self.panel, members], weights)
            self._known[key] = values.reshape(-1, *self.shape)
        return self._known[key]

    def entering(self, rate: bool) -> Array | None:
        """Return how the newest panel's values enter."""
        return self.rows @ self.past.rule.slopes / self.width if rate and self.rows is not None else self.rows

    def values(self, members: slice, rate: bool, table: Array) -> Array:
        """Return functions at the points, given the values on the newest panel."""
        rows, known = self.entering(rate), self.known(members, rate)
        if rows is None:
            return known
        if len(known) == 1:
            return known + rows @ table[members.start]
        return known + np.tensordot(table[members], rows, axes=(1, -1))


class PanelFunctions:
    """Several functions on the panels so far; ``add`` appends one."""

    def __init__(self, count: int, m: int) -> None:
        self.rule = radau(m)
        self.edges = np.zeros(1)
        self.tables = np.empty((0, count, m + 1))

    @property
    def panels(self) -> int:
        return len(self.tables)

    def add(self, end: float, table: Array) -> None:
        """Append a panel that ends at a time, with the functions' values on its nodes."""
        self.edges = np.append(self.edges, end)
        self.tables = np.concatenate([self.tables, table[None]])


def folded_points(edges: Array, targets: Array, m: int, power: int = 1) -> tuple[Array, Array]:
    """Return points v in (0, t/2) and their weights, (targets, points), for integrals folded at half of each target time.

    ``edges`` are those of all panels; pieces end at them and at each target minus them. On the first piece v is a ``power`` of
    the variable of the rule, in which a singular kernel is smooth.
    """
    last = targets.max()
    early = edges[edges <= last / 2]
    late = edges[edges >= targets.min() / 2]
    half = targets[:, None] / 2
    parts = [np.broadcast_to(early, (len(targets), len(early))), targets[:, None] - late, half]
    if power > 1:  # and pieces grow from zero on, by a factor
        first = np.where(targets > edges[-2], targets - edges[-2], targets)[:, None]
        least = float(np.min(first[first > 0], initial=last))
        parts.append(first * 3.0 ** np.arange(1, 1 + math.ceil(math.log(max(last / least, 1.0), 3.0))))
    ends = np.concatenate(parts, axis=1)
    ends = np.sort(np.clip(ends, 0.0, half), axis=1)
    widths = np.diff(ends, axis=1)
    used = widths.max(axis=0) > 0
    starts, widths = ends[:, :-1][:, used], widths[:, used]
    nodes, masses, _ = gauss(m)
    points, weights = starts[:, :, None] + widths[:, :, None] * nodes, widths[:, :, None] * masses
    if power > 1:
        # the first piece of each target is the one that starts at zero and has a width
        near = (starts == 0.0) & (widths > 0.0)
        weights[near] = 0.0
        length = np.where(near, widths, 0.0).max(axis=1)[:, None]
        inside, own, _ = gauss(power * (m + 3) // 2)
        points = np.concatenate([length * inside**power, points.reshape(len(targets), -1)], axis=1)
        weights = np.concatenate([length * own * power * inside ** (power - 1), weights.reshape(len(targets), -1)], axis=1)
    return points.reshape(len(targets), -1), weights.reshape(len(targets), -1)


# --- One panel: collocation at its nodes, all unknowns together, by Newton's method with exact
# slopes.


Solve = Callable[[Array], Array]
Block = tuple[Array, Array, Array]  # members; columns; derivatives, node by node
Entry = tuple[int, Array, Array, Array]  # family of the row; members; columns; derivatives by the panel's values


class MemoryPanel:
    """A panel of a ``width`` behind the functions known so far, ``past``, and what its unknown values enter."""

    def __init__(
        self, program: ConvolutionProgram, past: PanelFunctions, width: float, delays: Sequence[float], constants: list[Array],
        power: int = 1, breaks: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.program, self.past, self.width, self.constants, self.power = program, past, width, constants, power
        self.begin = float(past.edges[-1])
        self.rule = past.rule
        self.nodes = self.begin + width * self.rule.with_start
        # a break has the value of before, and the panel behind it reads what follows
        self.times = self.nodes + 1e-9 * width * ((self.rule.with_start == 0.0) & (self.begin in breaks))
        self.places = len(self.nodes)
        self.members = member_slices(program)
        self.unknowns = self.members[-1].stop if self.members else 0
        self._identity = np.eye(self.places)
        # how an unknown's own values enter its equation: rows of nodes, by its kind
        first = np.append(1.0, -self.rule.back) * (np.arange(self.places) == 0)[:, None]
        start = np.vstack([self._identity[:1], self.rule.slopes[1:]])
        self._own = {"differential": start, "defined": self._identity, "constraint": first}
        self._delayed = [self._at_delay(delay) for delay in delays]
        self._groups: list[tuple[Array, Array, PointValues, PointValues]] | None = None
        self._old: dict[int, Array] = {}

    # --- readings
    def _shaped(self, unknown: int, values: Array) -> Array:
        """Return values of members along the axes of their family."""
        return values.reshape(*self.program.equations[unknown].shape, *values.shape[1:])

    def _at_delay(self, delay: float) -> tuple[PointValues, Array, Array]:
        """Return all functions a delay before the nodes, which of these lie before the start, and the given past there."""
        moments = self.nodes - delay
        side = np.where(self.rule.with_start == 0.0, 1.0, -1.0)  # a panel reads its own side of a break point
        before = moments + 1e-9 * self.width * side < 0
        inside = np.where(before, 0.0, moments)
        samples = PointValues(self.past, inside, self.rule.with_start - delay / self.width, self.width, side)
        given = np.zeros((self.unknowns, self.places))
        for members, equation in zip(self.members, self.program.equations, strict=True):
            if equation.past is not None and before.any():
                values = equation.past([moments[before], *self.constants])[0]
                count = int(before.sum())
                given[members, before] = over_points(values, equation.shape, (count,)).reshape(-1, count)
        if samples.rows is not None:
            samples.rows[before] = 0.0
        return samples, before, given

    def _read(self, item: Reading, table: Array) -> Array:
        """Return a value outside integrals."""
        members = self.members[item.unknown]
        if item.where != "delay":
            return self._shaped(item.unknown, table[members])
        samples, before, given = self._delayed[item.delay]
        values = np.where(before, given[members], samples.values(members, False, table))
        return self._shaped(item.unknown, values)

    def _memory(self) -> list[tuple[Array, Array, PointValues, PointValues]]:
        """Return points v and weights of the folded integrals, and all functions there and at t − v.

        Points at which the newest panel's values enter come first, apart from the others, where nothing changes.
        """
        if self._groups is None:
            edges = np.append(self.past.edges, self.begin + self.width)
            points, weights = folded_points(edges, self.nodes, self.places - 1, self.power)
            early, late = points - self.begin, self.width * self.rule.with_start[:, None] - points
            new = (np.maximum(early, late) > 0).any(axis=0) if self.past.panels else np.ones(points.shape[1], dtype=bool)
            self._groups = []
            for chosen in (new, ~new):
                if chosen.any():
                    v, mass, later = points[:, chosen], weights[:, chosen], self.nodes[:, None] - points[:, chosen]
                    first = PointValues(self.past, v, (v - self.begin) / self.width, self.width)
                    last = PointValues(self.past, later, late[:, chosen] / self.width, self.width)
                    self._groups.append((v, mass, first, last))
        return self._groups

    def _integral(self, number: int, table: Array, slopes: bool) -> tuple[Array, list[tuple[int, Array, Array, Array]]]:
        """Return an integral at the nodes, and (unknown, members of it, columns, derivatives by the values here)."""
        integrand = self.program.integrals[number]
        groups = self._memory()
        still = not any(item.where == "now" for item in integrand.readings)
        total: Any = 0.0
        entries: list[tuple[int, Array, Array, Array]] = []
        for place, group in enumerate(groups):
            if still and place == 1:
                if number not in self._old:
                    self._old[number] = self._summed(integrand, group, table, None)
                total = total + self._old[number]
            else:
                total = total + self._summed(integrand, group, table, entries if slopes else None)
        return total, entries

    def _summed(
        self, integrand: Terms, group: tuple[Array, Array, PointValues, PointValues], table: Array,
        entries: list[tuple[int, Array, Array, Array]] | None,
    ) -> Array:  # fmt: skip
        """Return an integral over a group of points; its derivatives are added to those ``found``."""
        points, weights, early, late = group
        later = self.nodes[:, None] - points
        total: Any = 0.0
        for first, lag, at_first, at_lag in ((points, later, early, late), (later, points, late, early)):
            places = {"early": at_first, "lag": at_lag}
            arguments: list[Any] = [first, lag]
            for item in integrand.readings:
                members = self.members[item.unknown]
                if item.where == "now":
                    values = table[members][:, :, None]
                else:
                    values = places[item.where].values(members, item.rate, table)
                arguments.append(self._shaped(item.unknown, values))
            arguments += self.constants
            value = over_points(integrand.function(arguments)[0], integrand.shapes[0], points.shape)
            total = total + np.einsum("...tp,tp->...t", _counting(value, weights), weights)
            if entries is None:
                continue
            for _, argument, rows, columns, change in integrand.slopes(arguments, 2):
                item = integrand.readings[argument - 2]
                weighted = weights * _counting(change, weights)
                if item.where == "now":
                    part = weighted.sum(axis=-1)[:, :, None] * self._identity
                else:
                    entering = places[item.where].entering(item.rate)
                    if entering is None:
                        continue
                    part = np.matmul(weighted.transpose(1, 0, 2), entering).transpose(1, 0, 2)
                entries.append((item.unknown, rows, columns, part))
        return total

    # --- expressions
    def evaluate(self, terms: Terms, table: Array) -> list[Array]:
        """Return expressions at the nodes, (members, nodes) each."""
        return self._expressions(terms, table, False)[0]

    def _expressions(self, terms: Terms, table: Array, slopes: bool) -> tuple[list[Array], list[Entry]]:
        """Return expressions at the nodes, and their derivatives, (entries, nodes) where nodes do not mix."""
        made = [self._integral(number, table, slopes) for number in terms.integrals]
        arguments: list[Any] = [self.times, *(self._read(item, table) for item in terms.readings)]
        arguments += [value for value, _ in made]
        arguments += self.constants
        made_values = zip(terms.function(arguments), terms.shapes, strict=True)
        values = [np.array(over_points(value, shape, (self.places,))).reshape(-1, self.places) for value, shape in made_values]
        found: list[Entry] = []
        if not slopes:
            return values, found
        for row, argument, rows, columns, change in terms.slopes(arguments, 1):
            if change.shape[1] != self.places or len(change) != len(rows):
                change = np.broadcast_to(change, (len(rows), self.places))
            if argument <= len(terms.readings):
                item = terms.readings[argument - 1]
                at = self.members[item.unknown].start
                if item.where != "delay":
                    found.append((row, rows, at + columns, change))
                elif (entering := self._delayed[item.delay][0].rows) is not None:
                    found.append((row, rows, at + columns, change[:, :, None] * entering))
                continue
            for unknown, inner, by, part in made[argument - 1 - len(terms.readings)][1]:
                outer, entry = _joined(columns, inner)
                at = self.members[unknown].start
                found.append((row, rows[outer], at + by[entry], change[outer][:, :, None] * part[entry]))
        return values, found

    # --- Newton
    def solve(self, guess: Array, tolerance: float, sizes: Array) -> tuple[Array, int]:
        """Return the values of all unknowns on the nodes, and the number of Newton steps.

        ``sizes`` are those of the unknowns; ``tolerance`` is relative to them.
        """
        table = guess.copy()

        def add(move: Array) -> float:
            change = self._all_moves(move)
            table[...] += change
            return float(np.max(np.abs(change).max(axis=1) / _scale(table, sizes)))

        return table, newton(
            lambda slopes: self._system(table, slopes, sizes), add, tolerance, 25, self.unknowns * self.places > _SMALL
        )

    def _system(self, table: Array, slopes: bool, sizes: Array) -> tuple[Array, Solve | None]:
        """Return residuals and, if asked for, a solver for their Jacobian; what is defined pointwise is eliminated."""
        values, changes = self._expressions(self.program.bodies, table, slopes)
        equations = self.program.equations
        residual = np.zeros((self.unknowns, self.places))
        for number, (equation, value) in enumerate(zip(equations, values, strict=True)):
            members = self.members[number]
            finite: Array = np.all(np.isfinite(value), axis=0)
            finite[0] |= equation.kind != "defined"
            if not finite.all():
                raise NotFiniteError(equation, float(self.nodes[int(np.argmin(finite))]))
            own = table[members]
            if equation.kind == "differential":
                residual[members] = own @ self.rule.slopes.T - self.width * value
                residual[members, 0] = own[:, 0] - self._left(number)
            elif equation.kind == "defined":
                residual[members] = own - value
            else:
                residual[members] = value
                residual[members, 0] = own[:, 0] - own[:, 1:] @ self.rule.back
        solve = self._linearise(changes, _scale(table, sizes)) if slopes else None
        kept, self._eliminated_residual = residual[self._kept].ravel(), residual[self._eliminated].ravel()
        return kept - self._through @ self._eliminated_residual if len(self._eliminated) else kept, solve

    def _pointwise(self, changes: list[Entry]) -> list[int]:
        """Return the families that are left out of large systems: each defined, node by node, by those that stay."""
        if self.unknowns * self.places <= _SMALL:
            return []
        defined = [number for number, item in enumerate(self.program.equations) if item.kind == "defined"]
        mixing = {row for row, _, _, change in changes if change.ndim == 3}
        chosen = [number for number in defined if number not in mixing]
        inside = np.zeros(self.unknowns, dtype=bool)
        for number in chosen:
            inside[self.members[number]] = True
        return [number for number in chosen if not any(row == number and inside[by].any() for row, _, by, _ in changes)]

    def _linearise(self, changes: list[Entry], scale: Array) -> Solve:
        """Return a solver for the Schur complement A₁₁ − A₁₂ A₂₂⁻¹ A₂₁ of the unknowns kept.

        Large ones stay sparse, and are divided by the block of each unknown before they go to GMRES or LAPACK.
        """
        gone, eliminable = np.zeros(self.unknowns, dtype=bool), self._pointwise(changes)
        for number in eliminable:
            gone[self.members[number]] = True
        self._kept, self._eliminated = np.flatnonzero(~gone), np.flatnonzero(gone)
        place = np.where(gone, np.cumsum(gone), np.cumsum(~gone)) - 1
        count, lost, nodes = len(self._kept), len(self._eliminated), self.places
        size = count * nodes
        self._follow = follow = np.zeros((nodes, lost, count))
        none = np.zeros(0, dtype=int)
        found: list[list[Block]] = [[(none, none, np.zeros((0, nodes, nodes)))] for _ in range(2)]  # direct, through
        for number, equation in enumerate(self.program.equations):
            if number not in eliminable:
                at = place[self.members[number]]
                found[0].append((at, at, np.broadcast_to(self._own[equation.kind], (len(at), nodes, nodes))))
        for row, rows, columns, change in changes:
            used = np.flatnonzero(change.reshape(len(change), -1).any(axis=1))  # of sparse tables few
            if not len(used):
                continue
            rows, columns, change = rows[used], columns[used], change[used]
            kind, members = self.program.equations[row].kind, place[rows + self.members[row].start]
            if row in eliminable:
                flat = (members * count + place[columns])[:, None] + lost * count * np.arange(nodes)
                np.add.at(follow.ravel(), flat.ravel(), change.ravel())
                continue
            full = change if change.ndim == 3 else change[:, :, None] * self._identity
            full = full * {"defined": -1.0, "constraint": 1.0}.get(kind, -self.width)
            if kind != "defined":
                full[:, 0] = 0.0
            found[int(gone[columns[0]])].append((members, place[columns], full))
        if self.unknowns * nodes <= _SMALL:
            table = np.zeros((count, nodes, count, nodes))
            for rows, columns, full in found[0]:
                np.add.at(table.transpose(0, 2, 1, 3), (rows, columns), full)
            return linear_solver(lambda: table.reshape(size, size))
        own: Array = np.zeros((count, nodes, nodes))
        (rows, columns, full), (others, by, through) = (tuple(map(np.concatenate, zip(*part, strict=True))) for part in found)
        np.add.at(own, rows[rows == columns], full[rows == columns])
        np.add.at(own, others, through * follow[:, by, others].T[:, None, :])
        own = np.linalg.inv(own) if np.linalg.cond(own, 1).max(initial=1.0) < 1 / EPSILON else np.array(self._identity)
        first, second = _sparse(rows, columns, full, count, count), _sparse(others, by, through, count, lost)
        self._through = second

        def preconditioned(vector: Array) -> Array:
            return np.asarray(np.matmul(own, vector.reshape(count, nodes, -1)).reshape(vector.shape))

        def matrix() -> Array:
            whole = np.zeros((lost, nodes, count, nodes))
            whole[:, range(nodes), :, range(nodes)] = follow
            return preconditioned(first.toarray() + second @ whole.reshape(lost * nodes, size))

        def apply(vector: Array) -> Array:
            return preconditioned(first @ vector + second @ _followed(follow, vector))

        entries, weights = full.size + through.size + follow.size, np.repeat(1 / scale[self._kept], nodes)
        solve = linear_solver(matrix, apply, size, entries, weights=weights, tolerance=1 / RATIO**3)
        return lambda right: solve(preconditioned(right))

    def _all_moves(self, move: Array) -> Array:
        """Return how all unknowns move when those that stay do."""
        change = np.empty((self.unknowns, self.places))
        change[self._kept] = move.reshape(-1, self.places)
        if len(self._eliminated):
            change[self._eliminated] = (_followed(self._follow, move) - self._eliminated_residual).reshape(-1, self.places)
        return change

    def _left(self, number: int) -> Array:
        """Return the values at the left end of unknowns that have a derivative."""
        if self.past.panels:
            return self.past.tables[-1, self.members[number], -1]
        return start_of(self.program.equations[number], self.constants)


# Measured on two correlators, 8 and 16 wave numbers: 100 to 200 is fastest. Small systems take a new matrix in every step:
# with older ones panels that begin like a power of t at t = 1e-200 do not converge to rounding.
_SMALL = 200  # unknowns on the nodes of a panel up to which one Jacobian holds them all


def _sparse(rows: Array, columns: Array, blocks: Array, height: int, width: int) -> Any:
    """Return the matrix of blocks at places."""
    from scipy.sparse import bsr_array

    order, nodes = np.argsort(rows, kind="stable"), blocks.shape[1]
    starts = np.searchsorted(rows[order], np.arange(height + 1))
    return bsr_array((blocks[order], columns[order], starts), shape=(height * nodes, width * nodes))


def _followed(follow: Array, move: Array) -> Array:
    """Return how the unknowns that are left out move when those that stay do, node by node."""
    return np.matmul(follow, move.reshape(-1, len(follow)).T[:, :, None])[:, :, 0].T.ravel()


def _scale(table: Array, sizes: Array) -> Array:
    """Return the sizes of unknowns, with the present values; of those that vanish 1."""
    scale = np.maximum(sizes, np.abs(table).max(axis=1))
    return np.where(scale > 0, scale, 1.0)


def _counting(values: Array, weights: Array) -> Array:
    """Return values of an integrand; those without weight, at which a kernel may be infinite, are zero."""
    return values if np.isfinite(values).all() else np.where(weights == 0.0, 0.0, values)


def _joined(left: Array, right: Array) -> tuple[Array, Array]:
    """Return all pairs of places at which two lists of numbers agree."""
    if len(left) == len(right) == 1:
        return left * 0, right * 0
    order = np.argsort(right, kind="stable")
    first, last = (np.searchsorted(right[order], left, side=side) for side in ("left", "right"))
    counts = last - first
    outer = np.repeat(np.arange(len(left)), counts)
    inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return outer, order[np.repeat(first, counts) + inside]


def member_slices(program: ConvolutionProgram) -> list[slice]:
    """Return where the members of each family lie among all unknowns."""
    ends = np.cumsum([0, *(math.prod(item.shape) for item in program.equations)]).tolist()
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def start_of(equation: MemoryEquation, constants: list[Array]) -> Array:
    """Return the values at the start."""
    count = math.prod(equation.shape)
    if equation.past is None:
        return np.zeros(count)
    return over_points(equation.past([np.zeros(1), *constants])[0], equation.shape, (1,)).reshape(count)


_JUMP = math.sqrt(ROUNDING)  # of a function's size: less between panels is an error, not a jump


class MemoryMarch:
    """All unknowns and observables on panels of m nodes, one more after the other; times are counted from the start.

    ``tolerance`` is that of Newton's method on a panel, relative to the size of each unknown,
    ``end`` the last time that will be asked for; ``sizes`` of the unknowns may be known from a
    rougher solution.
    """

    growth = math.sqrt(RATIO)  # of the next panel, at most, so that tails see a change in time

    def __init__(
        self, program: ConvolutionProgram, m: int, delays: Sequence[float], tolerance: float, end: float,
        sizes: Array | None = None, checkpoint: Checkpoint | None = None, breaks: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.breaks = breaks
        self.program, self.m, self.delays, self.tolerance, self.checkpoint = program, m, delays, tolerance, checkpoint
        self.constants: list[Any] = list(program.constants)  # tables, their numbers put in
        self.members = member_slices(program)
        count = self.members[-1].stop
        self.functions = PanelFunctions(count, m)
        self.outputs: list[Array] = []
        self.tails: list[float] = []
        self.sizes = np.zeros(count) if sizes is None else sizes
        self.steps = self.tries = 0
        self._weights = self._summed = np.zeros(1)
        self.order = m + 1  # the power of its width that the tail of a panel falls with
        self.resolved: Array | None = None  # which of the given functions under integrals panels resolve; all without
        self._begin(end)

    @property
    def panels(self) -> int:
        return self.functions.panels

    @property
    def end(self) -> float:
        return float(self.functions.edges[-1])

    # --- the start
    def _begin(self, end: float) -> None:
        """Find the values at the start and, from the derivatives there, a width for the first panel."""
        self.power = self._power(end)
        panel = self._panel(1e-12 * end)
        equations = self.program.equations
        guess = np.concatenate([start_of(item, self.constants) for item in equations])
        for _ in equations:  # definitions may rest on definitions
            table = np.repeat(guess[:, None], panel.places, axis=1)
            pairs = zip(self.members, panel.evaluate(self.program.bodies, table), strict=True)
            bodies = np.concatenate([np.broadcast_to(it[:, 0], part.stop - part.start) for part, it in pairs])
            for members, item in zip(self.members, equations, strict=True):
                if item.kind == "defined":
                    guess[members] = np.where(np.isfinite(bodies[members]), bodies[members], guess[members])
        self._demand_constraints(bodies, guess)
        counts = [part.stop - part.start for part in self.members]
        kinds = np.repeat([item.kind for item in equations], counts)
        moving = (kinds == "differential") & np.isfinite(bodies) & (bodies != 0.0)
        times = np.maximum(np.abs(guess[moving]), 1e-3) / np.abs(bodies[moving])
        self.guess, self.width = guess, min([0.3 * float(times.min(initial=math.inf)), 0.1 * end])
        # the given functions under integrals, summed over the first width on panels that shrink
        # towards the start
        pieces = self.width * 0.5 ** np.arange(1, 60)
        inside, masses, _ = gauss(self.m)
        found = self._kernel_factors(pieces[:, None] * (1 + inside))
        weights = pieces[:, None] * masses
        self.gauge_sizes = np.nansum(np.abs(found) * weights, axis=(1, 2))
        wide = self._panel(self.width)
        # what starts like a power of the time has the same relative error on first panels of any width: its size is taken
        # on the widest one
        flat = (kinds != "differential") | ((guess == 0.0) & (bodies == 0.0))
        with contextlib.suppress(NoConvergenceError, NotFiniteError):
            if flat.any():
                first = np.repeat(guess[:, None], wide.places, axis=1)
                found = np.abs(wide.solve(first, 1e-3, self.sizes)[0]).max(axis=1)
                self.sizes = np.maximum(self.sizes, np.where(flat, found, 0.0))

    def _panel(self, width: float) -> MemoryPanel:
        return MemoryPanel(self.program, self.functions, width, self.delays, self.constants, self.power, self.breaks)

    def _power(self, end: float) -> int:
        """Return the power k for which kernels with singularities v^−α are smooth in u, v = uᵏ."""
        values = np.abs(self._kernel_factors(end * np.array([1e-30, 1e-28])))
        slopes = np.log(values[:, 0] / values[:, 1]) / math.log(100.0) if len(values) else np.zeros(0)
        weak = np.isfinite(slopes) & (slopes > 0.01) & (slopes < 0.8)
        if not weak.any():
            return 1
        self.resolved, self.order = ~weak, 4  # behind a singular start tails depend on the ratio of width and time
        return math.ceil(3 / (1 - float(slopes[weak].max())))

    def _kernel_factors(self, points: Array) -> Array:
        """Return the given functions under integrals, (functions, *points)."""
        pairs = zip(self.program.gauges([points, *self.constants]), self.program.gauge_shapes, strict=True)
        rows = [over_points(value, shape, points.shape).reshape(-1, *points.shape) for value, shape in pairs]
        values = np.concatenate(rows) if rows else np.zeros((0, *points.shape))
        return values if self.resolved is None else values[self.resolved]

    def _demand_constraints(self, bodies: Array, guess: Array) -> None:
        """Raise when a constraint on unknowns that have a start does not hold there."""
        kinds = [item.kind for item in self.program.equations]
        terms, pairs = self.program.bodies, self.program.bodies.slopes
        arguments = [*pairs.partials, *((row, item.argument) for row, item in pairs.indexed)]
        for number, item in enumerate(self.program.equations):
            if item.kind != "constraint":
                continue
            read = [terms.readings[k - 1].unknown for row, k in arguments if row == number and k <= len(terms.readings)]
            if all(kinds[unknown] == "differential" for unknown in read):
                scale = max([1e-300, *(float(np.abs(guess[self.members[unknown]]).max()) for unknown in read)])
                if (off := float(np.abs(bodies[self.members[number]]).max())) > 1e4 * ROUNDING * scale:
                    raise ParameterError(
                        f"the {item.label} does not hold at the start with these parameters: it is off by "
                        f"{off:.6g}; change init= or them"
                    )

    # --- one panel
    def add_panel(self, width: float) -> float:
        """Solve one panel; return its tail relative to the sizes of what has one. Nothing is kept before ``accept``."""
        self.tries += 1
        self.panel = panel = self._panel(width)
        begin = self.functions.tables[-1, :, -1] if self.panels else self.guess
        guess = np.repeat(begin[:, None], panel.places, axis=1)
        label = f"panel of {guess.size} unknowns"
        solution = recorded(self.checkpoint, label, lambda: panel.solve(guess, self.tolerance, self.sizes))
        self.table, steps = solution
        self.steps += steps
        coefficients = np.abs(self.table @ panel.rule.legendre.T)
        scale = np.maximum(self.sizes, np.abs(self.table).max(axis=1))
        tails = coefficients[:, -2:].max(axis=1) / np.where(scale > 0, scale, 1.0)
        return max(float(tails.max()), self._gauge_tail(panel))

    def _gauge_tail(self, panel: MemoryPanel) -> float:
        """Return what is unresolved of the given functions under integrals, relative to these integrals."""
        points, masses, coefficients = gauss(self.m)
        values = self._kernel_factors(panel.begin + panel.width * points)
        if not len(values):
            return 0.0
        if not np.all(np.isfinite(values)):
            return math.inf
        tails = np.abs(values @ coefficients.T)[:, -2:].max(axis=1) * panel.width
        self._weights = self._summed + np.abs(values) @ masses * panel.width
        weights = np.maximum(self._weights, self.gauge_sizes)
        return float(np.max(tails / np.where(weights > 0, weights, 1.0)))

    def accept(self, end: float) -> None:
        """Keep the panel just solved."""
        outputs = self.panel.evaluate(self.program.outputs, self.table)
        self.outputs.append(np.concatenate(outputs) if outputs else np.zeros((0, self.panel.places)))
        self.sizes = np.maximum(self.sizes, np.abs(self.table).max(axis=1))
        self._summed = self._weights
        self.functions.add(end, self.table)

    # --- the solution
    def curves(self, begin: float) -> tuple[PanelGrid, dict[str, Array], Array]:
        """Return the panels, unknowns and observables on their nodes by name, and which of the panels hold jumps.

        A jump has a very narrow panel to itself.
        """
        edges, outputs = self.functions.edges, np.array(self.outputs).reshape(self.panels, -1, self.m + 1)
        tables = np.concatenate([self.functions.tables, outputs], axis=1)
        sizes = np.abs(tables).max(axis=(0, 2))
        jumps = (np.abs(tables[1:, :, 0] - tables[:-1, :, -1]) > _JUMP * sizes).any(axis=1)
        before, after = tables[:-1, :, -1:][jumps], tables[1:, :, :1][jumps]
        places = np.flatnonzero(jumps) + 1
        tables = np.insert(tables, places, before + (after - before) * self.functions.rule.with_start, axis=0)
        bridges = np.insert(np.zeros(self.panels, dtype=bool), places, True)
        edges = np.insert(edges, places + 1, edges[places] * (1 + 10 * ROUNDING))
        names = [*(name for item in self.program.equations for name in member_names(item.key, item.shape)),
                 *(name for item in self.program.observables for name in member_names(*item))]  # fmt: skip
        curves = {name: np.append(tables[0, row, :1], tables[:, row, 1:]) for row, name in enumerate(names)}
        return PanelGrid(begin + edges, self.m), curves, bridges
