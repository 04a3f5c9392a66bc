"""A march over panels, each as wide as the resolution allows: the last Legendre coefficients of every unknown tell.

On a panel the functions are polynomials of degree m through the left end and m Radau nodes. For a
target t in the newest panel the range of ∫_0^t H(s, t − s) ds is folded at t/2: with v from 0 to
t/2 the integrand is H(v, t − v) + H(t − v, v). Between the edges of the panels, and t minus these,
both functions are polynomials, and a Gauss rule is exact up to their tails. Panels that grow like t
are O(log t) many, and so are the pieces. Small times are small numbers in both halves.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram, Integrand, Terms
from eqsolve.errors import ParameterError
from eqsolve.files.checkpoint import Checkpoint, recorded
from eqsolve.numerics.arrays import ROUNDING, Array, filled
from eqsolve.numerics.grids import PanelGrid, lagrange, radau
from eqsolve.solvers.marching import NotFiniteError, newton


def break_points(delays: Sequence[float], end: float, levels: int) -> Array:
    """Return the sums of up to ``levels`` delays below ``end``, sorted.

    A solution that starts with a jump in its first derivative has one in derivative k + 1 at sums
    of k delays; with panels of degree below ``levels`` the later ones do not count (Bellen &
    Zennaro, Numerical Methods for Delay Differential Equations, 2003,
    doi:10.1093/acprof:oso/9780198506546.001.0001).
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


@functools.lru_cache(maxsize=16)
def gauss(m: int) -> tuple[Array, Array, Array]:
    """Return a Gauss rule on [0, 1], and the map from values at its points to Legendre coefficients up to degree m.

    It has three points more than a polynomial of that degree: a product of two resolved polynomials
    then errs by the square of their tails.
    """
    nodes, weights = np.polynomial.legendre.leggauss(m + 3)
    table = np.polynomial.legendre.legvander(nodes, m) * weights[:, None] * (np.arange(m + 1) + 0.5)
    return (nodes + 1) / 2, weights / 2, table.T


@dataclass(frozen=True, eq=False)
class Samples:
    """All functions at many points: what is known of them, and how the newest panel's values enter.

    ``known`` is (functions, *points), zero inside the newest panel; ``rows`` is (*points, nodes), zero
    outside it, or None where no point lies in it. ``rates`` are the derivatives, where they are wanted.
    """

    known: Array
    rows: Array | None
    rates: "Samples | None" = None

    def of(self, rate: bool) -> "Samples":
        """Return the derivatives, or the functions themselves."""
        return self.rates if rate and self.rates is not None else self

    def values(self, function: int, panel: Array) -> Array:
        """Return one function, given the values on the newest panel."""
        return self.known[function] if self.rows is None else self.known[function] + self.rows @ panel[function]


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

    def sample(self, points: Array, newest: Array, width: float, rates: bool, side: Array | float = 0.0) -> Samples:
        """Return the functions at ``points`` ≥ 0; ``newest`` is the place of each point in the newest panel, from 0 to 1.

        Points beyond the last edge lie in the newest panel, which has a ``width``. ``side`` (±1, or
        0) says to which panel a point on an edge belongs.
        """
        inside = newest + 1e-9 * side > 0 if self.panels else np.ones(points.shape, dtype=bool)
        rows, past = None, ~inside
        if inside.any():
            rows = np.zeros((*points.shape, len(self.rule.with_start)))
            rows[inside] = lagrange(self.rule.with_start, newest[inside])
        known = np.zeros((self.tables.shape[1], *points.shape))
        slopes = np.zeros_like(known) if rates else known
        if past.any():
            moments = points[past]
            shifted = np.clip(moments + np.broadcast_to(1e-9 * width * side, points.shape)[past], 0, self.edges[-1])
            place = np.clip(np.searchsorted(self.edges, shifted, side="left") - 1, 0, self.panels - 1)
            steps = self.edges[place + 1] - self.edges[place]
            weights = lagrange(self.rule.with_start, (moments - self.edges[place]) / steps)
            tables = self.tables[place]
            known[:, past] = np.einsum("pfn,pn->fp", tables, weights)
            if rates:
                slopes[:, past] = np.einsum("pfn,pn->fp", tables, weights @ self.rule.slopes / steps[:, None])
        made = Samples(slopes, None if rows is None else rows @ self.rule.slopes / width) if rates else None
        return Samples(known, rows, made)


def folded_points(edges: Array, targets: Array, m: int) -> tuple[Array, Array]:
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
    nodes, masses, _ = gauss(m)
    points, weights = starts[:, :, None] + widths[:, :, None] * nodes, widths[:, :, None] * masses
    return points.reshape(len(targets), -1), weights.reshape(len(targets), -1)


# --- One panel: collocation at its nodes, all unknowns together, by Newton's method with exact
# slopes.


class MemoryPanel:
    """A panel of a ``width`` behind the functions known so far, ``past``, and what its unknown values enter."""

    def __init__(self, program: ConvolutionProgram, past: PanelFunctions, width: float, delays: Sequence[float]) -> None:
        self.program, self.past, self.width = program, past, width
        self.begin = float(past.edges[-1])
        self.rule = past.rule
        self.nodes = self.begin + width * self.rule.with_start
        self.places = len(self.nodes)
        self.unknowns = len(program.equations)
        self._identity = np.eye(self.places)
        self._delayed = [self._at_delay(delay) for delay in delays]
        self._folded: tuple[Array, Array, Samples, Samples] | None = None

    # --- readings
    def _at_delay(self, delay: float) -> Samples:
        """Return all functions a delay before the nodes, the given past before the start."""
        moments = self.nodes - delay
        side = np.where(self.rule.with_start == 0.0, 1.0, -1.0)  # a panel reads its own side of a break point
        before = moments + 1e-9 * self.width * side < 0
        inside = np.where(before, 0.0, moments)
        made = self.past.sample(inside, self.rule.with_start - delay / self.width, self.width, False, side)
        for number, equation in enumerate(self.program.equations):
            if equation.past is not None and before.any():
                made.known[number, before] = filled(equation.past(moments[before])[0], (int(before.sum()),))
        if made.rows is not None:
            made.rows[before] = 0.0
        return made

    def _memory(self) -> tuple[Array, Array, Samples, Samples]:
        """Return points v and weights of the folded integrals, and all functions there and at t − v."""
        if self._folded is None:
            readings = [item for integrand in self.program.integrals for item in integrand.readings]
            rates = any(item.rate for item in readings)
            points, weights = folded_points(np.append(self.past.edges, self.begin + self.width), self.nodes, self.places - 1)
            late = self.nodes[:, None] - points
            early = self.past.sample(points, (points - self.begin) / self.width, self.width, rates)
            later = self.past.sample(late, self.rule.with_start[:, None] - points / self.width, self.width, rates)
            self._folded = points, weights, early, later
        return self._folded

    def _integral(self, integrand: Integrand, table: Array, slopes: bool) -> tuple[Array, dict[int, Array]]:
        """Return an integral at the nodes, and its derivatives by each unknown's values here."""
        points, weights, early, late = self._memory()
        later = self.nodes[:, None] - points
        total = np.zeros(self.places)
        found: dict[int, Array] = {}
        for first, lag, at_first, at_lag in ((points, later, early, late), (later, points, late, early)):
            places = {"early": at_first, "lag": at_lag}
            arguments: list[Any] = [first, lag]
            for reading in integrand.readings:
                if reading.where == "now":
                    arguments.append(table[reading.unknown][:, None])
                else:
                    arguments.append(places[reading.where].of(reading.rate).values(reading.unknown, table))
            total += np.sum(weights * integrand.function(*arguments)[0], axis=1)
            if not slopes:
                continue
            for reading, change in zip(integrand.readings, integrand.slopes(*arguments), strict=True):
                weighted = weights * change
                if reading.where == "now":
                    part = np.diag(weighted.sum(axis=1))
                else:
                    rows = places[reading.where].of(reading.rate).rows
                    if rows is None:
                        continue
                    part = np.matmul(weighted[:, None, :], rows)[:, 0, :]
                found[reading.unknown] = found.get(reading.unknown, 0.0) + part
        return total, found

    # --- expressions
    def evaluate(self, terms: Terms, table: Array) -> list[Array]:
        """Return expressions at the nodes."""
        return self._expressions(terms, table, False)[0]

    def _expressions(self, terms: Terms, table: Array, slopes: bool) -> tuple[list[Array], list[tuple[int, int, Array]]]:
        """Return expressions at the nodes, and (expression, unknown, matrix) of their derivatives."""
        made = [self._integral(self.program.integrals[number], table, slopes) for number in terms.integrals]
        arguments = [self.nodes]
        for item in terms.readings:
            late = item.where == "delay"
            arguments.append(self._delayed[item.delay].values(item.unknown, table) if late else table[item.unknown])
        arguments += [value for value, _ in made]
        values = [filled(value, (self.places,)).copy() for value in terms.function(*arguments)]
        found: list[tuple[int, int, Array]] = []
        if slopes:
            for (row, column), change in zip(terms.partials, terms.slopes(*arguments), strict=True):
                factor = filled(change, (self.places,))[:, None]
                if column < len(terms.readings):
                    reading = terms.readings[column]
                    # how the panel's values enter a reading, (nodes, nodes)
                    rows = self._delayed[reading.delay].rows if reading.where == "delay" else self._identity
                    if rows is not None:
                        found.append((row, reading.unknown, factor * rows))
                else:
                    found.extend((row, key, factor * part) for key, part in made[column - len(terms.readings)][1].items())
        return values, found

    # --- Newton
    def solve(self, guess: Array, tolerance: float, sizes: Array) -> tuple[Array, int]:
        """Return the values of all unknowns on the nodes, and the number of Newton steps.

        ``sizes`` are those of the unknowns; ``tolerance`` is relative to them.
        """
        table = guess.copy()

        def add(move: Array) -> float:
            change = move.reshape(table.shape)
            table[...] += change
            scale = np.maximum(sizes, np.abs(table).max(axis=1))
            return float(np.max(np.abs(change).max(axis=1) / np.where(scale > 0, scale, 1.0)))

        return table, newton(lambda slopes: self._system(table, slopes), add, tolerance, 25)

    def _system(self, table: Array, slopes: bool) -> tuple[Array, Array | None]:
        """Return residuals, unknown after unknown, and their Jacobian."""
        values, changes = self._expressions(self.program.bodies, table, slopes)
        count, places = self.unknowns, self.places
        residual = np.zeros((count, places))
        matrix = np.zeros((count, places, count, places))
        for number, (equation, value) in enumerate(zip(self.program.equations, values, strict=True)):
            own = matrix[number, :, number]
            finite = np.isfinite(value)
            finite[0] |= equation.kind != "defined"
            if not finite.all():
                place = int(np.argmin(finite))
                raise NotFiniteError(equation, float(self.nodes[place]))
            if equation.kind == "differential":
                residual[number] = self.rule.slopes @ table[number] - self.width * value
                own += self.rule.slopes
                residual[number, 0], own[0] = table[number, 0] - self._left(number), self._identity[0]
            elif equation.kind == "defined":
                residual[number] = table[number] - value
                own += self._identity
            else:
                residual[number] = value
                residual[number, 0] = table[number, 0] - self.rule.back @ table[number, 1:]
                own[0, 0], own[0, 1:] = 1.0, -self.rule.back
        for row, column, part in changes:
            kind = self.program.equations[row].kind
            if kind == "defined":
                matrix[row, :, column] -= part
            else:
                matrix[row, 1:, column] += part[1:] if kind == "constraint" else -self.width * part[1:]
        return residual.ravel(), matrix.reshape(residual.size, -1) if slopes else None

    def _left(self, number: int) -> float:
        """Return the value at the left end of an unknown that has a derivative."""
        if self.past.panels:
            return float(self.past.tables[-1, number, -1])
        past = self.program.equations[number].past
        assert past is not None
        return float(np.ravel(past(np.zeros(1))[0])[0])


_JUMP = 1e-6  # of a function's size: what is smaller between two panels is an error, not a jump


class MemoryMarch:
    """All unknowns and observables on panels of m nodes, one more after the other; times are counted from the start.

    ``tolerance`` is that of Newton's method on a panel, relative to the size of each unknown,
    ``end`` the last time that will be asked for; ``sizes`` of the unknowns may be known from a
    rougher solution.
    """

    growth = 3.0  # the most by which a panel is wider than the one before: tails then show in time what comes

    def __init__(
        self, program: ConvolutionProgram, m: int, delays: Sequence[float], tolerance: float, end: float,
        sizes: Array | None = None, checkpoint: Checkpoint | None = None,
    ) -> None:  # fmt: skip
        self.program, self.m, self.delays, self.tolerance, self.checkpoint = program, m, delays, tolerance, checkpoint
        self.functions = PanelFunctions(len(program.equations), m)
        self.outputs: list[Array] = []
        self.tails: list[float] = []
        self.sizes = np.zeros(len(program.equations)) if sizes is None else sizes
        self.steps = self.tries = 0
        self._weights = self._summed = np.zeros(1)
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
        panel = MemoryPanel(self.program, self.functions, 1e-12 * end, self.delays)
        equations = self.program.equations
        guess = np.array([0.0 if item.past is None else float(np.ravel(item.past(np.zeros(1))[0])[0]) for item in equations])
        for _ in equations:  # definitions may rest on definitions
            table = np.repeat(guess[:, None], panel.places, axis=1)
            bodies = [float(body[0]) for body in panel.evaluate(self.program.bodies, table)]
            for number, item in enumerate(equations):
                if item.kind == "defined" and math.isfinite(bodies[number]):
                    guess[number] = bodies[number]
        self._demand_constraints(bodies, guess)
        times = [
            max(abs(value), 1e-3) / abs(rate)
            for value, rate, item in zip(guess, bodies, equations, strict=True)
            if item.kind == "differential" and math.isfinite(rate) and rate != 0.0
        ]
        self.guess, self.width = guess, min([0.3 * time for time in times] + [0.1 * end])
        # the given functions under integrals, summed over the first width on panels that shrink
        # towards the start
        pieces = self.width * 0.5 ** np.arange(1, 60)
        inside, masses, _ = gauss(self.m)
        points = pieces[:, None] * (1 + inside)
        found = [np.broadcast_to(item, points.shape) for item in self.program.gauges(points)]
        weights = pieces[:, None] * masses
        self.gauge_sizes = np.array([np.nansum(np.abs(values) * weights) for values in found])
        wide = MemoryPanel(self.program, self.functions, self.width, self.delays)
        for number, body in enumerate(wide.evaluate(self.program.bodies, np.repeat(guess[:, None], wide.places, axis=1))):
            if equations[number].kind == "defined":  # its first panel may hold a root or a power of the time
                self.sizes[number] = np.max(np.abs(body[np.isfinite(body)]), initial=self.sizes[number])

    def _demand_constraints(self, bodies: list[float], guess: Array) -> None:
        """Raise when a constraint on unknowns that have a start does not hold there."""
        kinds = [item.kind for item in self.program.equations]
        terms = self.program.bodies
        for number, item in enumerate(self.program.equations):
            if item.kind != "constraint":
                continue
            read = [column for row, column in terms.partials if row == number and column < len(terms.readings)]
            if all(kinds[terms.readings[column].unknown] == "differential" for column in read):
                scale = max([1e-300, *(abs(guess[terms.readings[column].unknown]) for column in read)])
                if abs(bodies[number]) > 1e4 * ROUNDING * scale:
                    raise ParameterError(
                        f"the {item.label} does not hold at the start with these parameters: it is off by "
                        f"{bodies[number]:.6g}; change init= or them"
                    )

    # --- one panel
    def add_panel(self, width: float) -> float:
        """Solve one panel; return its tail relative to the sizes of what has one. Nothing is kept before ``accept``."""
        self.tries += 1
        self.panel = panel = MemoryPanel(self.program, self.functions, width, self.delays)
        begin = self.functions.tables[-1, :, -1] if self.panels else self.guess
        guess = np.repeat(begin[:, None], panel.places, axis=1)
        label = f"panel of {guess.size} unknowns"
        found = recorded(self.checkpoint, label, lambda: panel.solve(guess, self.tolerance, self.sizes))
        self.table, steps = found
        self.steps += steps
        coefficients = np.abs(self.table @ panel.rule.legendre.T)
        scale = np.maximum(self.sizes, np.abs(self.table).max(axis=1))
        tails = coefficients[:, -2:].max(axis=1) / np.where(scale > 0, scale, 1.0)
        return max(float(tails.max()), self._gauge_tail(panel))

    def _gauge_tail(self, panel: MemoryPanel) -> float:
        """Return what is unresolved of the given functions under integrals, relative to these integrals."""
        points, masses, coefficients = gauss(self.m)
        found = self.program.gauges(panel.begin + panel.width * points)
        if not found:
            return 0.0
        values = np.array([np.broadcast_to(item, points.shape) for item in found], dtype=float)
        if not np.all(np.isfinite(values)):
            return math.inf
        tails = np.abs(values @ coefficients.T)[:, -2:].max(axis=1) * panel.width
        self._weights = self._summed + np.abs(values) @ masses * panel.width
        weights = np.maximum(self._weights, self.gauge_sizes)
        return float(np.max(tails / np.where(weights > 0, weights, 1.0)))

    def accept(self, end: float) -> None:
        """Keep the panel just solved."""
        self.outputs.append(np.array(self.panel.evaluate(self.program.outputs, self.table)).reshape(-1, self.panel.places))
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
        names = [*(equation.key for equation in self.program.equations), *self.program.observables]
        curves = {name: np.append(tables[0, row, :1], tables[:, row, 1:]) for row, name in enumerate(names)}
        return PanelGrid(begin + edges, self.m), curves, bridges
