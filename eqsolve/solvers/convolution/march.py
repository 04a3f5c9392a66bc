"""A march over panels, each as wide as the resolution allows: the last Legendre coefficients of every unknown tell."""

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram, Integrand, Reading, Terms
from eqsolve.errors import ParameterError, SolverError
from eqsolve.files.checkpoint import Codec
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.panel_functions import PanelFunctions, Samples, break_points, folded_points
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import NoConvergenceError, NotFiniteError, Pace, Stop, cannot_go_on

# --- One panel: collocation at its nodes, all unknowns together, by Newton's method with exact slopes.
_SHRINKS = 4.0  # the least factor by which a Newton step is shorter than the one before it, near a solution


class MemoryPanel:
    """A panel behind the functions known so far, and what its unknown values enter.

    Parameters
    ----------
    program
        The system with its numbers.
    past
        The functions on the panels before.
    width
        Of this panel.
    delays
        Lengths of the delays.
    """

    def __init__(self, program: ConvolutionProgram, past: PanelFunctions, width: float, delays: Sequence[float]) -> None:
        self.program, self.past, self.width = program, past, width
        self.begin = float(past.edges[-1])
        self.basis = past.basis
        self.nodes = self.begin + width * self.basis.nodes
        self.places = len(self.nodes)
        self.unknowns = len(program.equations)
        self._identity = np.eye(self.places)
        self._delayed = [self._at_delay(delay) for delay in delays]
        self._folded: tuple[Array, Array, Samples, Samples] | None = None

    # --- readings
    def _at_delay(self, delay: float) -> Samples:
        """Return all functions a delay before the nodes, the given past before the start."""
        moments = self.nodes - delay
        side = np.where(self.basis.nodes == 0.0, 1.0, -1.0)  # a panel reads its own side of a break point
        before = moments + 1e-9 * self.width * side < 0
        inside = np.where(before, 0.0, moments)
        made = self.past.sample(inside, self.basis.nodes - delay / self.width, self.width, False, side)
        for number, equation in enumerate(self.program.equations):
            if equation.past is not None and before.any():
                made.known[number, before] = _filled(equation.past(moments[before])[0], int(before.sum()))
        if made.rows is not None:
            made.rows[before] = 0.0
        return made

    def _memory(self) -> tuple[Array, Array, Samples, Samples]:
        """Return points v and weights of the folded integrals, and all functions there and at t − v."""
        if self._folded is None:
            readings = [item for integrand in self.program.integrals for item in integrand.readings]
            rates = any(item.rate for item in readings)
            points, weights = folded_points(np.append(self.past.edges, self.begin + self.width), self.nodes, self.basis)
            late = self.nodes[:, None] - points
            early = self.past.sample(points, (points - self.begin) / self.width, self.width, rates)
            later = self.past.sample(late, self.basis.nodes[:, None] - points / self.width, self.width, rates)
            self._folded = points, weights, early, later
        return self._folded

    def integrals(self, wanted: Sequence[int], table: Array, slopes: bool) -> tuple[list[Array], list[dict[int, Array]]]:
        """Return integrals at the nodes, and their derivatives (nodes, nodes) by the values of each unknown on the panel."""
        values: list[Array] = []
        derivatives: list[dict[int, Array]] = []
        for number in wanted:
            value, found = self._integral(self.program.integrals[number], table, slopes)
            values.append(value)
            derivatives.append(found)
        return values, derivatives

    def _integral(self, integrand: Integrand, table: Array, slopes: bool) -> tuple[Array, dict[int, Array]]:
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
                    arguments.append(places[reading.where].values(reading.unknown, reading.rate, table))
            total += np.sum(weights * integrand.function(*arguments)[0], axis=1)
            if not slopes:
                continue
            for reading, change in zip(integrand.readings, integrand.slopes(*arguments), strict=True):
                weighted = weights * change
                if reading.where == "now":
                    part = np.diag(weighted.sum(axis=1))
                else:
                    rows = places[reading.where].rate_rows if reading.rate else places[reading.where].rows
                    if rows is None:
                        continue
                    part = np.matmul(weighted[:, None, :], rows)[:, 0, :]
                found[reading.unknown] = found.get(reading.unknown, 0.0) + part
        return total, found

    def _read(self, reading: Reading, table: Array) -> Array:
        if reading.where == "delay":
            return self._delayed[reading.delay].values(reading.unknown, False, table)
        return table[reading.unknown]

    def _entering(self, reading: Reading) -> Array | None:
        """Return how the panel's values enter a reading, (nodes, nodes)."""
        return self._delayed[reading.delay].rows if reading.where == "delay" else self._identity

    # --- expressions
    def evaluate(self, terms: Terms, table: Array) -> list[Array]:
        """Return expressions at the nodes."""
        return self._expressions(terms, table, False)[0]

    def _expressions(self, terms: Terms, table: Array, slopes: bool) -> tuple[list[Array], list[tuple[int, int, Array]]]:
        """Return expressions at the nodes, and (expression, unknown, matrix) of their derivatives."""
        integrals, changes = self.integrals(terms.integrals, table, slopes)
        arguments = [self.nodes, *(self._read(item, table) for item in terms.readings), *integrals]
        values = [_filled(value, self.places) for value in terms.function(*arguments)]
        found: list[tuple[int, int, Array]] = []
        if slopes:
            for (row, column), change in zip(terms.partials, terms.slopes(*arguments), strict=True):
                factor = _filled(change, self.places)[:, None]
                if column < len(terms.readings):
                    reading = terms.readings[column]
                    rows = self._entering(reading)
                    if rows is not None:
                        found.append((row, reading.unknown, factor * rows))
                else:
                    found.extend((row, key, factor * part) for key, part in changes[column - len(terms.readings)].items())
        return values, found

    # --- Newton
    def solve(self, guess: Array, tolerance: float, sizes: Array) -> tuple[Array, int]:
        """Return the values of all unknowns on the nodes, and the number of Newton steps.

        ``sizes`` are those of the unknowns; ``tolerance`` is relative to them.
        """
        table, before = guess.copy(), np.inf
        for step in range(1, 26):
            residual, matrix = self._system(table)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    change = np.linalg.solve(matrix, residual.ravel()).reshape(table.shape)
                except (np.linalg.LinAlgError, RuntimeWarning):
                    raise NoConvergenceError from None
            if not np.all(np.isfinite(change)):
                raise NoConvergenceError
            table -= change
            scale = np.maximum(sizes, np.abs(table).max(axis=1))
            moved = float(np.max(np.abs(change).max(axis=1) / np.where(scale > 0, scale, 1.0)))
            if moved <= tolerance or (moved < 1e-10 and moved > before / _SHRINKS):
                return table, step
            if step > 6 and moved > before:
                raise NoConvergenceError
            before = moved
        raise NoConvergenceError

    def _system(self, table: Array) -> tuple[Array, Array]:
        """Return residuals (unknowns, nodes) and their Jacobian."""
        values, changes = self._expressions(self.program.bodies, table, True)
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
                residual[number] = self.basis.slopes @ table[number] - self.width * value
                own += self.basis.slopes
                residual[number, 0], own[0] = table[number, 0] - self._left(number), self._identity[0]
            elif equation.kind == "defined":
                residual[number] = table[number] - value
                own += self._identity
            else:
                residual[number] = value
                residual[number, 0] = table[number, 0] - self.basis.first @ table[number, 1:]
                own[0, 0], own[0, 1:] = 1.0, -self.basis.first
        for row, column, part in changes:
            kind = self.program.equations[row].kind
            if kind == "defined":
                matrix[row, :, column] -= part
            else:
                matrix[row, 1:, column] += part[1:] if kind == "constraint" else -self.width * part[1:]
        return residual, matrix.reshape(count * places, -1)

    def _left(self, number: int) -> float:
        """Return the value at the left end of an unknown that has a derivative."""
        if self.past.panels:
            return float(self.past.tables[-1, number, -1])
        past = self.program.equations[number].past
        assert past is not None
        return float(np.ravel(past(np.zeros(1))[0])[0])


def _filled(value: Any, count: int) -> Array:
    array = np.asarray(value, dtype=float)
    return array if array.shape == (count,) else np.broadcast_to(array, (count,)).copy()


# --- A march over panels, each as wide as the resolution allows: the last Legendre coefficients of every unknown tell.
_GROWTH = 3.0  # the most by which a panel is wider than the one before: tails then show in time what comes
_CAUTION = 0.85  # the part of the width that the tail would allow
_LEAST = 64 * np.finfo(float).eps  # the smallest width, relative to the time
_FAILED = 0.3  # the factor after a panel on which Newton's method fails
_FIRST = 0.3  # of the time in which the fastest unknown changes by its own size: the first width tried
FINER = 0.7
"""The width of panels in units of those of a guide: break points and tails alone might give the same ones again."""
# A tail below the noise that falls by less than this when the panel is narrower is rounding, amplified by Newton's
# matrix: 1e-16 times its condition, which is 1e4 at a distance of 1e-4 from the transition of a glass. Narrower panels
# do not mend it, so it is accepted; a resolved tail would fall like width^m.
_NOISE, _FALLS = 1e-11, 0.3


@dataclass(frozen=True, eq=False)
class MemoryMarch:
    """All unknowns and observables on panels; times are counted from the start."""

    functions: PanelFunctions
    outputs: Array
    program: ConvolutionProgram
    m: int
    steps: int
    tries: int
    complete: bool = True

    @property
    def panels(self) -> int:
        return self.functions.panels

    @property
    def end(self) -> float:
        return float(self.functions.edges[-1])

    def grid(self, begin: float) -> PanelGrid:
        """Return the panels; a jump has a very narrow one to itself."""
        return PanelGrid(begin + self._panels[0], self.m)

    def curves(self) -> dict[str, Array]:
        """Return unknowns and observables on the grid's nodes, by name."""
        names = [*(equation.key for equation in self.program.equations), *self.program.observables]
        tables = self._panels[1]
        return {name: np.append(tables[0, row, :1], tables[:, row, 1:]) for row, name in enumerate(names)}

    @property
    def bridges(self) -> Array:
        """Which of the grid's panels hold jumps."""
        edges = self._panels[0]
        narrow: Array = np.diff(edges) < 2 * _BRIDGE * edges[1:]
        return narrow

    @functools.cached_property
    def _panels(self) -> tuple[Array, Array]:
        """Edges and values of the panels to report."""
        edges, tables = self.functions.edges, np.concatenate([self.functions.tables, self.outputs], axis=1)
        sizes = np.abs(tables).max(axis=(0, 2))
        jumps = np.abs(tables[1:, :, 0] - tables[:-1, :, -1]) > _JUMP * sizes
        made_edges, made = [edges[0]], []
        for place, table in enumerate(tables):
            if place and jumps[place - 1].any():
                before = tables[place - 1, :, -1:]
                made.append(before + (table[:, :1] - before) * self.functions.basis.nodes)
                made_edges.append(edges[place] * (1 + _BRIDGE))
            made.append(table)
            made_edges.append(edges[place + 1])
        return np.array(made_edges), np.array(made)

    def at(self, times: Array, grid: PanelGrid) -> dict[str, Array]:
        """Return the same at other times."""
        return {name: grid.interpolate(values, times) for name, values in self.curves().items()}


def march(
    program: ConvolutionProgram, m: int, delays: Sequence[float], end: float, resolution: float, options: Options,
    guide: MemoryMarch | None = None,
) -> tuple[MemoryMarch, Stop | None]:  # fmt: skip
    """March to ``end`` with tails of at most ``resolution`` times the size of each unknown.

    Panels are nowhere wider than ``FINER`` times those of a ``guide``.
    """
    state = _State(program, m, delays, end, resolution, options, guide)
    stop = state.run()
    outputs = np.array(state.outputs).reshape(len(state.outputs), len(program.observables), m + 1)
    return MemoryMarch(state.past, outputs, program, m, state.steps, state.tries, stop is None), stop


class _State:
    """The march while it runs."""

    def __init__(
        self, program: ConvolutionProgram, m: int, delays: Sequence[float], end: float, resolution: float, options: Options,
        guide: MemoryMarch | None,
    ) -> None:  # fmt: skip
        self.program, self.m, self.delays, self.end = program, m, delays, end
        self.resolution, self.options, self.guide = resolution, options, guide
        self.past = PanelFunctions(len(program.equations), m)
        self.outputs: list[Array] = []
        self.breaks = np.append(break_points(delays, end, m + 1), end)
        self.sizes = np.zeros(len(program.equations))
        if guide is not None and guide.complete:
            self.sizes = np.abs(guide.functions.tables).max(axis=(0, 2))
        self.guess = np.zeros(len(program.equations))
        self.gauge_sizes = self._weights = self._summed = np.zeros(0)
        self.steps = self.tries = 0

    def run(self) -> Stop | None:
        width, reason, before = self._first_width(), "", math.inf
        pace = Pace(0.0, self.end)
        while (now := float(self.past.edges[-1])) < self.end * (1 - 1e-13):
            target = float(self.breaks[np.searchsorted(self.breaks, now * (1 + 1e-13), side="right")])
            left = target - now
            width = min(width, self._guided(now))
            width = left if width >= 0.999 * left else left / 2 if 1.6 * width > left else width
            self.tries += 1
            if width < _LEAST * max(now, 1e-280) or (little := pace.stalled(now, self.tries)):
                found = reason or f"the last {pace.patience} panels tried {little}"
                return Stop(now, self._blow_up(now, found))
            try:
                table, tail = self._try(width)
            except NotFiniteError as failure:
                reason, width = str(failure), _FAILED * width
                continue
            except NoConvergenceError:
                reason, width = reason or "Newton's method on a panel does not converge", _FAILED * width
                continue
            factor = _CAUTION * max(tail, 1e-30) ** (-1 / self.m)
            noisy = tail * self.resolution < _NOISE and tail > _FALLS * before
            if not tail <= 1.0 and not noisy:
                before = tail
                reason = reason or "the solution varies faster and faster"
                width *= min(0.7, max(0.1, factor)) if math.isfinite(factor) else 0.1
                continue
            self._accept(target if width == left else now + width, width, table)
            reason, before = "", math.inf
            width *= min(_GROWTH, factor)
        return None

    def _guided(self, now: float) -> float:
        """Return the widest panel from a time on that is finer than the guide's."""
        if self.guide is None:
            return math.inf
        edges = self.guide.functions.edges
        place = min(int(np.searchsorted(edges, now * (1 + 1e-12), side="right")), len(edges) - 1)
        width = FINER * float(edges[place] - edges[place - 1])
        rest = float(edges[place]) - now
        if width > rest > 0 and place + 1 < len(edges):
            width = min(width, rest + FINER * float(edges[place + 1] - edges[place]))
        return width

    def _first_width(self) -> float:
        """Return a width for the first panel from the derivatives at the start."""
        panel = MemoryPanel(self.program, self.past, 1e-12 * self.end, self.delays)
        equations = self.program.equations
        guess = np.array([self._start(number) for number in range(panel.unknowns)])
        for _ in equations:  # definitions may rest on definitions
            table = np.repeat(guess[:, None], panel.places, axis=1)
            bodies = [float(body[0]) for body in panel.evaluate(self.program.bodies, table)]
            for number, item in enumerate(equations):
                if item.kind == "defined" and math.isfinite(bodies[number]):
                    guess[number] = bodies[number]
        self._demand_constraints(bodies, guess)
        self.guess = guess
        times = [
            max(abs(value), 1e-3) / abs(rate)
            for value, rate, item in zip(guess, bodies, equations, strict=True)
            if item.kind == "differential" and math.isfinite(rate) and rate != 0.0
        ]
        width = min([_FIRST * time for time in times] + [0.1 * self.end])
        self._weigh_gauges(panel, width)
        wide = MemoryPanel(self.program, self.past, width, self.delays)
        for number, body in enumerate(wide.evaluate(self.program.bodies, np.repeat(guess[:, None], wide.places, axis=1))):
            if equations[number].kind == "defined":  # its first panel may hold a root or a power of the time
                self.sizes[number] = np.max(np.abs(body[np.isfinite(body)]), initial=self.sizes[number])
        return width

    def _weigh_gauges(self, panel: MemoryPanel, width: float) -> None:
        """Integrate the given functions over the first width, on panels that shrink towards the start."""
        pieces = width * 0.5 ** np.arange(1, 60)
        points = pieces[:, None] * (1 + panel.basis.points)
        found = [np.broadcast_to(item, points.shape) for item in self.program.gauges(points)]
        weights = pieces[:, None] * panel.basis.weights
        self.gauge_sizes = np.array([np.nansum(np.abs(values) * weights) for values in found])

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
                if abs(bodies[number]) > _HOLDS * scale:
                    raise ParameterError(
                        f"the {item.label} does not hold at the start with these parameters: it is off by "
                        f"{bodies[number]:.6g}; change init= or them"
                    )

    def _start(self, number: int) -> float:
        past = self.program.equations[number].past
        return 0.0 if past is None else float(np.ravel(past(np.zeros(1))[0])[0])

    def _try(self, width: float) -> tuple[Array, float]:
        """Solve one panel; return its values and its tail in units of the resolution."""
        panel = MemoryPanel(self.program, self.past, width, self.delays)
        self.panel = panel
        if self.past.panels:
            begin = self.past.tables[-1, :, -1]
        else:
            begin = self.guess
        guess = np.repeat(begin[:, None], panel.places, axis=1)
        tolerance = max(1e-3 * self.resolution, 1e-14)
        if (checkpoint := self.options.checkpoint) is None:
            table, steps = panel.solve(guess, tolerance, self.sizes)
        else:
            label = f"panel of {guess.size} unknowns"
            table, steps = checkpoint.step(label, lambda: panel.solve(guess, tolerance, self.sizes), Codec())
        self.steps += steps
        coefficients = np.abs(table @ panel.basis.legendre.T)
        scale = np.maximum(self.sizes, np.abs(table).max(axis=1))
        tails = coefficients[:, -2:].max(axis=1) / np.where(scale > 0, scale, 1.0)
        return table, max(float(tails.max()), self._gauge_tail(panel)) / self.resolution

    def _gauge_tail(self, panel: MemoryPanel) -> float:
        """Return what is unresolved of the given functions under integrals, relative to these integrals."""
        basis = panel.basis
        found = self.program.gauges(panel.begin + panel.width * basis.points)
        if not found:
            return 0.0
        values = np.array([np.broadcast_to(item, basis.points.shape) for item in found], dtype=float)
        if not np.all(np.isfinite(values)):
            return math.inf
        tails = np.abs(values @ basis.gauges.T)[:, -2:].max(axis=1) * panel.width
        self._weights = (self._summed if self._summed.size else 0.0) + np.abs(values) @ basis.weights * panel.width
        weights = np.maximum(self._weights, self.gauge_sizes)
        return float(np.max(tails / np.where(weights > 0, weights, 1.0)))

    def _accept(self, end: float, width: float, table: Array) -> None:
        self.outputs.append(np.array(self.panel.evaluate(self.program.outputs, table)).reshape(-1, self.panel.places))
        self.sizes = np.maximum(self.sizes, np.abs(table).max(axis=1))
        self._summed = self._weights
        self.past.add(end, table)
        self.options.report(end, f"{self.past.panels} panels")

    def _blow_up(self, now: float, reason: str) -> str:
        largest = int(np.argmax(self.sizes))
        equation = self.program.equations[largest]
        if not self.past.panels:
            raise SolverError(f"the solution cannot be started: {reason}")
        return cannot_go_on(now, reason, equation, self.sizes[largest])


_HOLDS = 1e-9  # of the unknowns in a constraint: what it may be off by at the start
_JUMP = 1e-6  # of a function's size: what is smaller between two panels is an error, not a jump
_BRIDGE = 1e-12  # of the time: the width of the panel that holds a jump
