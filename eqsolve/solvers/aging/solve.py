"""Closed systems of one- and two-time functions over many decades, where they age: the cost is a power of log t.

Method. The beginning is marched as by ``two_time``, with panels that follow the fastest scale. From there row panels grow
with t. On each, kernels are polynomials in coordinates that suit both ends of a row (see ``eqsolve.numerics.rows``):
fixed lag near the diagonal, fixed t' near the start, fixed ratio between. All unknowns of a row panel are found together by
Newton's method with exact slopes; integrals run over panels graded from both ends, the past is read in its own coordinates.

Order m in t and n on a row; with t/τ = e^L for the fastest scale τ there are L/ln 1.4 row panels of m (2L/ln 2 + 3) n unknowns
for each kernel, whose dense matrices are factorised: cost L (m n L)³, memory L² m n. Reference for the coordinates: Lang,
Sachdev & Diehl, Numerical renormalization of glassy dynamics, Phys. Rev. Lett. 135, 247101 (2025), doi:10.1103/z64g-nqs6,
which steps explicitly along the fastest scale.

Error. Two resolutions are compared. Where a solution does not become slow at fixed lag they do not
agree, and the status says so; where Newton's method fails, ``two_time`` goes on. Chosen instead of
``two_time`` where that would need very many panels.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_matrix, diags, hstack, identity, kron

from eqsolve.compile.two_time import CompiledContraction, CompiledEquation, PointwiseTerm, Slot, TwoTimeProgram
from eqsolve.errors import logger
from eqsolve.files.checkpoint import recorded
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array
from eqsolve.numerics.grids import PanelGrid, over_panels, radau
from eqsolve.numerics.rows import AgingRows, Layout, Solved
from eqsolve.numerics.secants import linear_solver
from eqsolve.solver_kit import TWO_TIME, TWO_TIME_GRADIENTS, HandOver, Options, Plan, Result, Solver, Values
from eqsolve.solvers.marching import (
    LARGEST_SHARE,
    RATIO,
    Compared,
    NoConvergenceError,
    Stop,
    best_of,
    bind_program,
    newton,
    nodes_per_panel,
)
from eqsolve.solvers.tolerance import FLOOR, find_worst
from eqsolve.solvers.two_time.march import March, begin_march
from eqsolve.solvers.two_time.solve import TwoTimeSolver

# Pairs of times at which factors are evaluated: a value there is a number where its first time lies
# in the past, and linear in the unknowns of the newest panel where it lies on that: a sparse matrix
# for each kind of time. Right-hand sides and their derivatives follow from these.


@dataclass(frozen=True, eq=False)
class Past:
    """The solved past: kernels, and the curves of the beginning with their grid. Times are counted from the start."""

    rows: AgingRows
    grid: PanelGrid
    functions: Mapping[str, Array]

    @property
    def end(self) -> float:
        return float(self.rows.ends[-1])

    def function(self, name: str, times: Array) -> Array:
        out = np.empty(len(times))
        for panel, chosen in self.rows.by_panel(times):
            if panel is not None:
                out[chosen] = panel.function(name, times[chosen])
            else:
                out[chosen] = self.grid.interpolate(self.functions[name], self.rows.start + times[chosen])
        return out


class AgingPoints:
    """Pairs of ``times`` t and ``columns`` t' ≤ t, counted from the start, with their ``lags`` t − t'.

    Where the times are nodes of the newest panel, whose ``unknowns`` are sought, ``rows`` are their
    numbers; else the times may lie anywhere.
    """

    def __init__(
        self, past: Past, unknowns: Solved, times: Array, columns: Array, lags: Array, rows: Array | None = None
    ) -> None:
        self.past, self.unknowns, self.layout = past, unknowns, unknowns.layout
        self.times, self.columns, self.lags, self.rows = times, columns, lags, rows
        self.count = len(times)
        self._operators: dict[tuple[str, bool], csr_matrix] = {}
        self._known: dict[Slot, Array] = {}

    def read(self, slot: Slot) -> Any:
        """Return the values of a slot; patterns of times are explained at ``PointwiseTerm``."""
        name, pattern = slot
        if not name:
            return self.past.rows.start + self._times(pattern)
        if slot not in self._known:
            self._known[slot] = self._of_the_past(slot)
        return self.operator(slot) @ self.unknowns.flat(name) + self._known[slot]

    def operator(self, slot: Slot) -> csr_matrix:
        """Return the matrix from the unknowns of the newest panel to the values of a slot."""
        name, pattern = slot
        key = (pattern, name in self.unknowns.kernels)
        if key not in self._operators:
            self._operators[key] = self._operator(*key)
        return self._operators[key]

    def block(self, slot: Slot, coefficients: Array, starts: Array) -> Array:
        """Return the sums over groups of points of coefficients times the values' derivatives by the unknowns."""
        matrix = self.operator(slot)
        data = matrix.data * np.repeat(coefficients, np.diff(matrix.indptr))
        places = np.append(matrix.indptr[starts], matrix.indptr[-1])
        return np.asarray(csr_matrix((data, matrix.indices, places), shape=(len(starts), matrix.shape[1])).toarray())

    def value(self, function: PointwiseTerm, integrals: Mapping[str, Any]) -> Array:
        return self._spread(function(self.read, integrals))

    def slopes(self, function: PointwiseTerm, integrals: Mapping[str, Any]) -> tuple[dict[Slot, Array], dict[str, Array]]:
        """Return the derivatives of a function by the slots it reads and by its integrals."""
        by_slot, by_integral = function.slopes(self.read, integrals)
        return {slot: self._spread(v) for slot, v in by_slot.items()}, {k: self._spread(v) for k, v in by_integral.items()}

    def _spread(self, values: Any) -> Array:
        return np.broadcast_to(np.asarray(values, float), (self.count,))

    def _times(self, letter: str) -> Array:
        return {"r": self.times, "c": self.columns, "0": np.zeros(self.count)}[letter]

    def _pairs(self, pattern: str) -> tuple[Array, Array, Array]:
        """Return both times of a kernel, K(s, s) and K(s, start) among them, and the lag."""
        first, second = map(self._times, pattern)
        return first, second, self.lags if pattern == "rc" else first - second

    def _on_newest(self, letter: str) -> Array:
        """Return the places at which a kind of time lies on the newest panel."""
        if letter == "r" and self.rows is not None:
            return np.arange(self.count)
        return np.flatnonzero(self._times(letter) > self.layout.begin)

    def _operator(self, pattern: str, kernel: bool) -> csr_matrix:
        layout, here = self.layout, self._on_newest(pattern[0])
        if pattern[0] == "r" and self.rows is not None:
            places, weights = self.rows[:, None], np.ones((self.count, 1))
        else:
            places = np.broadcast_to(np.arange(layout.rows + 1), (len(here), layout.rows + 1))
            weights = layout.in_time(self._times(pattern[0])[here])
        width = 1
        if kernel:
            width = layout.width
            columns, on_row = layout.stencil(*(item[here] for item in self._pairs(pattern)))
            places = (places[:, :, None] * width + columns[:, None, :]).reshape(len(here), -1)
            weights = (weights[:, :, None] * on_row[:, None, :]).reshape(len(here), -1)
        lengths = np.zeros(self.count, int)
        lengths[here] = places.shape[1]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        shape = (self.count, (layout.rows + 1) * width)
        return csr_matrix((weights.ravel(), places.ravel().astype(np.int32), ends), shape=shape)

    def _of_the_past(self, slot: Slot) -> Array:
        """Return the values at times of the past, and zeros elsewhere."""
        name, pattern = slot
        before = np.delete(np.arange(self.count), self._on_newest(pattern[0]))
        values = np.zeros(self.count)
        if name in self.unknowns.functions:
            values[before] = self.past.function(name, self._times(pattern)[before])
        else:
            values[before] = self.past.rows.pairs(name, *(item[before] for item in self._pairs(pattern)))
        return values


class Span:
    """The points of one kind of integral: graded from both ends of its range, where one of the factors is fast.

    ``span`` is ``"low"`` (start to column), ``"high"`` (column to row) or ``"all"`` (start to row),
    for the pairs that the integral is wanted for. Panels of ``count`` Gauss points have the length
    ``finest`` at both ends, and each is ``ratio`` times as long as the one before.
    """

    def __init__(
        self, past: Past, unknowns: Solved, span: str, times: Array, columns: Array, lags: Array, rows: Array,
        finest: float, ratio: float, count: int,
    ) -> None:  # fmt: skip
        whole = {"all": times, "low": columns, "high": lags}[span]
        self.wanted = np.flatnonzero(whole > 0)
        times, columns, lags, rows, whole = (item[self.wanted] for item in (times, columns, lags, rows, whole))
        owner, distance, weights = graded(whole, finest, ratio, count)
        owner, weights = np.concatenate([owner, owner]), np.concatenate([weights, weights])
        from_end, distance = np.repeat([False, True], len(distance)), np.concatenate([distance, distance])
        order = np.argsort(owner, kind="stable")
        owner, self.weights, from_end, distance = owner[order], weights[order], from_end[order], distance[order]
        self.starts = np.searchsorted(owner, np.arange(len(whole)))
        t, column, lag = times[owner], columns[owner], lags[owner]
        rest = whole[owner] - distance
        if span == "high":
            middle = np.where(from_end, t - distance, column + distance)
            to_row, to_column = np.where(from_end, distance, rest), np.where(from_end, rest, distance)
        else:
            middle = np.where(from_end, rest, distance)
            behind = distance + (lag if span == "low" else 0.0)
            to_row, to_column = np.where(from_end, behind, t - distance), np.where(from_end, distance, rest)
        self.left = AgingPoints(past, unknowns, t, middle, to_row, rows[owner])
        if span == "low":
            self.right = AgingPoints(past, unknowns, column, middle, to_column)
        else:
            self.right = AgingPoints(past, unknowns, middle, column, to_column)

    def sums(self, values: Array) -> Array:
        return np.asarray(np.add.reduceat(self.weights * values, self.starts))


def graded(lengths: Array, finest: float, ratio: float, count: int) -> tuple[Array, Array, Array]:
    """Return Gauss points of the first half of each length: which length, distance from its end, and weight.

    Panels grow from the end: ``finest``, then ``ratio`` times as long.
    """
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = (nodes + 1) / 2, weights / 2
    full = np.maximum(np.floor(np.log(lengths / 2 / finest) / np.log(ratio)).astype(int) + 1, 0)
    owner = np.repeat(np.arange(len(lengths)), full + 1)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(full + 1) - full - 1, full + 1)
    low = np.where(place == 0, 0.0, finest * ratio ** (place - 1.0))
    high = np.where(place == full[owner], lengths[owner] / 2, finest * ratio ** place.astype(float))
    steps = (high - low)[:, None]
    return np.repeat(owner, count), (low[:, None] + steps * nodes).ravel(), (steps * weights).ravel()


# One row panel: all its unknowns found together by Newton's method. With x the place on a row, ∂_t
# at fixed t' is ∂_t|_x + v ∂_x; both are collocated, at Radau nodes in t and on each column panel.
# At late times ∂_t is small, as memory terms cancel the others at leading order: explicit ones would lose these digits, and so
# all terms of a panel are in one linear system.


Blocks = dict[Slot, Array]


class Panel:
    """The equations of one row panel, with their gradients, behind a solved ``past``; ``unknowns`` are guessed to begin with.

    ``finest`` is the shortest panel of the integrals, the next ones are longer by a ``ratio``.
    """

    def __init__(self, plan: TwoTimeProgram, past: Past, unknowns: Solved, finest: float, ratio: float) -> None:
        self.plan, self.unknowns, layout = plan, unknowns, unknowns.layout
        self.layout, m, width = layout, layout.rows, layout.width
        times = layout.times[1:]
        lag, column, rate, by_place = (np.array(item) for item in zip(*map(layout.places, times), strict=True))
        rows = np.arange(1, m + 1)
        each, moments = np.repeat(rows, width), np.repeat(times, width)
        pairs = moments, column.ravel(), lag.ravel(), each
        alone = times, np.zeros(m), times, rows
        self.nodes, self.moments = AgingPoints(past, unknowns, *pairs), AgingPoints(past, unknowns, *alone)
        make = functools.partial(Span, past, unknowns, finest=finest, ratio=ratio, count=layout.nodes)
        kinds = {entry.span for equation in plan.kernels for entry in equation.contractions}
        self.spans = {kind: make(kind, *pairs) for kind in sorted(kinds)}
        self.spans["all"] = make("all", *alone)
        self._in_time = radau(m).slopes[1:] / (layout.end - layout.begin)
        self._speed = (1 - rate) / by_place
        self._slopes = {False: csr_matrix(self._in_time), True: self._derivative()}  # of functions, of kernels
        names = [(equation.name, m * width) for equation in plan.kernels] + [(eq.name, m) for eq in plan.functions]
        ends = np.cumsum([length for _, length in names]).tolist()
        self.places = {name: slice(end - length, end) for (name, length), end in zip(names, ends, strict=True)}
        self.size = ends[-1]

    def add(self, move: Array) -> float:
        """Add to the unknowns; return the largest change, relative to the unknown's size on each column panel."""
        worst, n = 0.0, self.layout.nodes
        every = (*self.unknowns.kernels.values(), *self.unknowns.functions.values())
        least = max(10 * ROUNDING * max(float(np.abs(values).max()) for values in every), 1e-300)  # an unknown may vanish
        for name, values in self.unknowns.kernels.items():
            step = move[self.places[name]].reshape(self.layout.rows, -1)
            values[1:] += step
            sizes, largest = np.abs(values).max(axis=0), float(np.abs(values).max())
            local = np.maximum(np.maximum(sizes[1:].reshape(-1, n).max(axis=1), 10 * ROUNDING * largest), least)
            worst = max(worst, float((np.abs(step[:, 1:]).max(axis=0).reshape(-1, n).max(axis=1) / local).max()))
        for name, values in self.unknowns.functions.items():
            step = move[self.places[name]]
            values[1:] += step
            worst = max(worst, float(np.abs(step).max() / max(np.abs(values).max(), least)))
        return worst

    # --- the equations
    def equations(self, slopes: bool) -> tuple[Array, Callable[[Array], Array] | None]:
        """Return the residuals at the nodes and, if asked for, a solver for their Jacobian."""
        residual = np.empty(self.size)
        matrix = np.zeros((self.size, self.size)) if slopes else None
        integrals: dict[Any, tuple[Array, Blocks]] = {}
        for equation in (*self.plan.kernels, *self.plan.functions):
            self._equation(equation, residual, matrix, integrals)
        return residual, None if matrix is None else linear_solver(functools.partial(np.asarray, matrix))

    def _equation(
        self, equation: CompiledEquation, residual: Array, matrix: Array | None, known: dict[Any, tuple[Array, Blocks]]
    ) -> None:
        name = equation.name
        place, points = self.places[name], self.nodes if name in self.unknowns.kernels else self.moments
        integrals: dict[str, Array] = {}
        for entry in equation.contractions:
            key = (entry.span, entry.left, entry.right)
            if key not in known:
                known[key] = self._integral(entry, slopes=matrix is not None)
            integrals[entry.symbol] = np.zeros(points.count)
            integrals[entry.symbol][self.spans[entry.span].wanted] = known[key][0]
        right = points.value(equation.body, integrals)
        values = self.unknowns.kernels[name] if points is self.nodes else self.unknowns.functions[name][:, None]
        left = self._slopes[points is self.nodes] @ values.ravel() if equation.differential else values[1:].ravel()
        residual[place] = left - right
        rows = np.arange(points.count)
        if matrix is not None:
            own = matrix[place, place]
            if equation.differential:
                own += self._slopes[points is self.nodes][:, values.shape[1] :].toarray()
            else:
                own[rows, rows] += 1.0
            by_slot, by_integral = points.slopes(equation.body, integrals)
            for slot, slope in by_slot.items():
                self._add(matrix[place], slot, points.block(slot, slope, rows), -1.0)
            for entry in equation.contractions:
                if entry.symbol in by_integral:
                    wanted = self.spans[entry.span].wanted
                    factor = -by_integral[entry.symbol][wanted, None]
                    for slot, block in known[entry.span, entry.left, entry.right][1].items():
                        self._add(matrix[place], slot, block, factor, wanted)
        if equation.diagonal is not None and points is self.nodes:
            self._on_diagonal(equation, residual[place], None if matrix is None else matrix[place])

    def _on_diagonal(self, equation: CompiledEquation, residual: Array, matrix: Array | None) -> None:
        """Replace the equations at the nodes on the diagonal by the values given there."""
        assert equation.diagonal is not None
        rows = np.arange(self.layout.rows) * self.layout.width
        residual[rows] = self.unknowns.kernels[equation.name][1:, 0] - self.moments.value(equation.diagonal, {})
        if matrix is not None:
            matrix[rows] = 0.0
            matrix[rows, self.places[equation.name].start + rows] = 1.0
            for slot, slope in self.moments.slopes(equation.diagonal, {})[0].items():
                block = self.moments.block(slot, slope, np.arange(self.layout.rows))
                self._add(matrix, slot, block, -1.0, rows)

    def _integral(self, entry: CompiledContraction, *, slopes: bool) -> tuple[Array, Blocks]:
        """Return an integral wherever it is wanted, and its derivatives by the unknowns."""
        span = self.spans[entry.span]
        first = self.plan.factors[entry.left]
        left, right = span.left.value(first, {}), np.ones(1)
        second = None if entry.right is None else self.plan.factors[entry.right]
        if second is not None:
            right = span.right.value(second, {})
        blocks: Blocks = {}
        if slopes:
            for slot, slope in span.left.slopes(first, {})[0].items():
                blocks[slot] = span.left.block(slot, span.weights * slope * right, span.starts)
            if second is not None:
                for slot, slope in span.right.slopes(second, {})[0].items():
                    block = span.right.block(slot, span.weights * slope * left, span.starts)
                    blocks[slot] = blocks[slot] + block if slot in blocks else block
        return span.sums(left * right), blocks

    def _derivative(self) -> csr_matrix:
        """Return ∂_t at fixed t' on the panel's nodes, as a matrix on the values at the left end and the nodes."""
        m, n, width = self.layout.rows, self.layout.nodes, self.layout.width
        # along a row the place moves too: every column panel reads the last node of the one before
        # it
        along = np.zeros((width, width))
        for first in range(0, width - 1, n):
            along[first + 1 : first + n + 1, first : first + n + 1] = radau(n).slopes[1:]
        moving = diags(self._speed.ravel()) @ block_diag([along] * m)
        return csr_matrix(kron(self._in_time, identity(width)) + hstack([csr_matrix((m * width, width)), moving]))

    def _add(self, matrix: Array, slot: Slot, block: Array, factor: Any, rows: Array | None = None) -> None:
        """Add derivatives by one unknown; those by its values at the left end, which are known, are left out."""
        name = slot[0]
        known = self.layout.width if name in self.unknowns.kernels else 1
        matrix[slice(None) if rows is None else rows, self.places[name]] += factor * block[:, known:]

    def observe(self, equation: CompiledEquation) -> Array:
        """Return an observable on the panel's nodes."""
        integrals = {entry.symbol: self._integral(entry, slopes=False)[0] for entry in equation.contractions}
        return self.moments.value(equation.body, integrals).copy()


@dataclass(frozen=True)
class Resolution:
    """One resolution."""

    rows: int  # Radau nodes in t
    nodes: int  # and on each column panel
    growth: float  # the ratio of a row panel's two ends

    @property
    def error(self) -> float:
        """Of interpolation, relative: 3 ρ^(−n − 1), ρ of the ellipse up to t = t' or the start, as of 1/t."""
        pairs = ((_RATIO, self.nodes), (self.growth, self.rows))
        return 3 * sum(((math.sqrt(ratio) + 1) / (math.sqrt(ratio) - 1)) ** -(count + 1) for ratio, count in pairs)


LEVELS = tuple(
    Resolution(*item) for item in ((3, 5, 1.5), (4, 6, 1.4), (5, 8, 1.4), (6, 9, 1.25), (6, 10, 1.18), (7, 12, 1.15))
)


# --- How panels are laid out.
_RATIO = 2.0  # of the lengths of neighbouring panels that are fixed in the lag, in t', or under an integral
_MIDDLE = 3  # how many panels stretch between them, up to this part of the time from either end
_NEXT = np.array([3.0, -3.0, 1.0])[:, None]  # weights that continue a quadratic by one step, the newest value first
_REACH = 30.0  # finest panels: lags well below stay as they are in it, longer ones keep their ratio to t


@dataclass(frozen=True, eq=False)
class Long:
    """A solution at one resolution, observables among the functions of its past, and the number of Newton steps."""

    level: Resolution
    past: Past
    steps: int

    def at(self, name: str, times: Array) -> Array:
        """Return a function or an observable at times of the model."""
        return self.past.function(name, times - self.past.rows.start)


def go_on(
    plan: TwoTimeProgram, begun: March, level: Resolution, options: Options, share: tuple[float, float]
) -> tuple[Long, Stop | None]:
    """Go on from a march's end to the last time with growing panels; report progress between two shares of the work."""
    early, steps = begun.rows(), np.diff(begun.history.row_edges)
    assert early is not None
    start = float(begun.history.row_edges[0])
    finest, earliest = float(steps[-1]), float(steps.min())
    past = Past(AgingRows(start, early, ()), begun.grid(), begun.curves() | begun.functions())
    begin, end = past.end, options.t_max - start
    usual = length = math.log(level.growth)
    count, stalled = 0, None
    while (left := math.log(end / past.end)) > 1e-12:
        pieces = math.ceil(left / length - 1e-9)
        until = end if pieces == 1 else past.end * math.exp(left / pieces)
        near, far = (_edges(past.end / _MIDDLE, first) for first in (finest, earliest))
        unknowns = _guess(plan, past, Layout(past.end, until, level.rows, level.nodes, near, far, _MIDDLE), finest)
        panel = Panel(plan, past, unknowns, finest, _RATIO)
        try:
            taken, values = _solve(panel, plan, options)
        except NoConvergenceError:
            length /= 2
            if length < usual / RATIO:
                stalled = Stop(start + past.end, "Newton's method does not converge on panels however short")
                break
            continue
        count += taken
        now = np.array([past.end])
        observed = {name: np.append(past.function(name, now), after) for name, after in values.items()}
        solved = replace(unknowns, functions=unknowns.functions | observed)
        past = replace(past, rows=replace(past.rows, panels=(*past.rows.panels, solved)))
        length = min(usual, 1.5 * length)
        done = math.log(past.end / begin) / math.log(end / begin)
        options.report_share(share[0] + (share[1] - share[0]) * done**2, f"t = {start + past.end:.4g}, {panel.size} unknowns")
    return Long(level, past, count), stalled


def _solve(panel: Panel, plan: TwoTimeProgram, options: Options) -> tuple[int, dict[str, Array]]:
    """Solve a panel, or take its solution from the checkpoint; return the number of steps, and the observables."""
    unknowns = panel.unknowns

    def compute() -> tuple[int, dict[str, Array], dict[str, Array]]:
        return newton(panel.equations, panel.add, 1e-9, 12, keep=True), unknowns.kernels, unknowns.functions

    steps, kernels, functions = recorded(options.checkpoint, f"rows of {panel.size} unknowns", compute)
    for name, values in (*kernels.items(), *functions.items()):
        (unknowns.kernels if name in kernels else unknowns.functions)[name][:] = values
    observed = {equation.name: panel.observe(equation) for equation in plan.observables}
    if not all(np.isfinite(values).all() for values in observed.values()):
        raise NoConvergenceError
    return steps, observed


def _edges(top: float, first: float) -> Array:
    """Return edges that grow from ``first`` to ``top``, each at most ``_RATIO`` times the one before."""
    count = max(0, math.ceil(math.log(top / first, _RATIO)))
    return np.append(0.0, np.geomspace(first, top, count + 1) if count else top)


def _guess(plan: TwoTimeProgram, past: Past, layout: Layout, finest: float) -> Solved:
    """Return the row at the left end, and rows extrapolated in ln t: at fixed lag and column where these are short, at a fixed
    ratio to t where they are not. A power of t is continued exactly, as long as there is no change of sign."""
    width, times = layout.width, layout.times[1:]
    lag, column = (np.concatenate(item) for item in list(zip(*map(layout.places, times), strict=True))[:2])
    moments, back = np.repeat(times, width), layout.begin / layout.end
    first = layout.places(layout.begin)
    near, before, earlier = lag < column, range(1, len(_NEXT) + 1), []
    for k in before:
        then = np.minimum(moments * back**k, layout.begin)
        short = np.where(near, lag, column)
        short = short * back ** (k * short / (short + _REACH * finest))
        earlier.append((then, np.where(near, then - short, short), np.where(near, short, then - short)))
    kernels, functions = {}, {}
    for name in (equation.name for equation in plan.kernels):
        values = np.array([past.rows.pairs(name, *pairs) for pairs in earlier])
        row = past.rows.pairs(name, np.full(width, layout.begin), first[1], first[0])
        kernels[name] = np.vstack([row, _extrapolate(values).reshape(layout.rows, width)])
    for name in (equation.name for equation in plan.functions):
        values = np.array([past.function(name, np.minimum(times * back**k, layout.begin)) for k in before])
        functions[name] = np.append(past.function(name, np.array([layout.begin])), _extrapolate(values))
    return Solved(layout, kernels, functions)


def _extrapolate(values: Array) -> Array:
    plain = np.sum(_NEXT * values, axis=0)
    alike = (np.sign(values) == np.sign(values[0])).all(axis=0) & (values != 0).all(axis=0)
    with np.errstate(all="ignore"):
        powers = np.sign(values[0]) * np.exp(np.sum(_NEXT * np.log(np.abs(values)), axis=0))
    sane = alike & (np.abs(powers) < 10 * np.abs(values[0]))
    return np.where(sane, powers, np.where(np.abs(plain) < 10 * np.abs(values[0]) + 1e-300, plain, values[0]))


# Errors, from the difference to the next coarser resolution, looked at between the output times and
# near the diagonal at lags of all scales. Both have the same beginning, whose own error is added.


def _compare(plan: TwoTimeProgram, fine: Long, coarse: Long, beginning: float, options: Options) -> Compared:
    """Return the finer of two solutions with its errors; ``beginning`` is the relative error of what both go on from."""
    grid = fine.past.rows.grid(fine.past.grid.order)
    names = [eq.name for eq in plan.functions if not eq.hidden] + [eq.name for eq in plan.observables]
    curves, errors = {}, {}
    for name in names:
        curves[name] = fine.at(name, grid.nodes)
        change = over_panels(np.abs(curves[name] - coarse.at(name, grid.nodes)), grid.order, beside=True)
        errors[name] = LARGEST_SHARE * change + beginning * np.abs(curves[name]).max()
    controlled = [eq.name for eq in plan.observables] or names
    solution = Compared(fine, grid, curves, errors, find_worst(controlled, curves, errors, grid.nodes, options))
    return solution.with_kernels(
        plan.kernels, fine.past.rows, coarse.past.rows, grid.edges, lambda change, size: LARGEST_SHARE * change,
        lambda name, values: float(beginning * np.abs(values).max()), options,
    )  # fmt: skip


class AgingSolver(Solver):
    __doc__ = __doc__
    name = "aging"

    def why_not(self, plan: Plan) -> str:
        if unfit := TwoTimeSolver().why_not(plan):
            return unfit
        if not plan.facts.kernels:
            return "it has no function of two times"
        if not plan.facts.memory:
            return "it has no memory"
        if not plan.program(TWO_TIME).separable:
            return "an integrand does not separate into factors of two times each"
        return ""

    def why(self, plan: Plan) -> str:
        return "closed equations of two times with memory over a long time: row panels that grow with time"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result | HandOver:
        """Solve to the tolerance asked for; handed over to ``two_time`` where panels cannot grow."""
        program: TwoTimeProgram = plan.program(TWO_TIME_GRADIENTS)
        compiled, begin = bind_program(program, values)
        options.demand_after(begin)
        resolution = min(FLOOR * options.rtol, math.sqrt(EPSILON))  # of the beginning, which both solutions share
        with np.errstate(all="ignore"):
            order = nodes_per_panel(replace(options, order=None))  # of the beginning
            beginning = begin_march(
                compiled, order, begin, options.t_max, resolution, order**2, options.checkpoint, options.breaks
            )
            if beginning is None:
                return HandOver("its beginning cannot be solved", "two_time")
            if options.breaks and options.breaks[-1] >= beginning.end:
                return HandOver(f"a coefficient breaks at t = {options.breaks[-1]:.4g}, where panels are long", "two_time")
            if options.t_max - begin < 2.0 * (beginning.end - begin):  # too near the beginning's end to tell a drift
                return HandOver(f"the horizon is short: {beginning.panels} panels reach t = {beginning.end:.4g}", "two_time")
            failed: list[str] = []
            solution = best_of(_solutions(compiled, beginning, resolution, options, failed), options)
        if solution is None:
            return HandOver(failed[-1], "two_time")
        long = solution.march
        stats = {
            "panels": beginning.panels + len(long.past.rows.panels),
            "row panels that grow": len(long.past.rows.panels),
            "nodes of the last row": long.past.rows.panels[-1].layout.width,
            "nodes per panel": long.level.nodes,
            "Newton steps": long.steps,
        }
        hint = "no resolution is finer; raise rtol, shorten t_max, or give an atol"
        return solution.result(plan.name, values, options, stats, hint)


def _solutions(
    compiled: TwoTimeProgram, begun: March, resolution: float, options: Options, failed: list[str]
) -> Iterator[Compared]:
    """Solve at finer and finer resolutions, each solution compared with the one before; say why those that fail do."""
    age = (options.t_max - begun.history.row_edges[0]) / (begun.history.row_edges[-1] - begun.history.row_edges[-2])
    rough = min(options.rtol, 1 / age)  # slow drifts are of order 1/t, forces of order 1
    level = next((place for place, item in enumerate(LEVELS[:-2]) if item.error <= rough), len(LEVELS) - 2)
    before: Long | None = None
    for place in range(level, len(LEVELS)):
        share = (0.0, 0.3) if before is None else (0.3, 1.0)
        long, stalled = go_on(compiled, begun, LEVELS[place], options, share)
        if stalled is not None:  # a rough solution may fail where a better one does not
            logger.info("resolution %d: the solution stops at t = %.4g; trying a finer one", place, stalled.time)
            failed.append(f"at t = {stalled.time:.4g}: {stalled.message}")
            before = None
            continue
        if before is not None:
            # the error of the beginning is about ten times its resolution
            made = _compare(compiled, long, before, 10 * resolution, options)
            logger.info("resolution %d: %d panels; against the rougher one before, the error is %.2g times the tolerance",
                        place, len(long.past.rows.panels), made.worst.excess)  # fmt: skip
            yield made
        before = long
