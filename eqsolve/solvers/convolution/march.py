"""A march over panels, each as wide as the resolution allows: the last Legendre coefficients of every unknown tell."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsolve.compile.convolution import ConvolutionProgram
from eqsolve.errors import ParameterError, SolverError
from eqsolve.files.codec import Codec
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.delays import break_points
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.panel_functions import PanelFunctions
from eqsolve.solvers.convolution.panel import NoConvergenceError, NotFiniteError, Panel
from eqsolve.solvers.options import Options
from eqsolve.solvers.pace import Pace

__all__ = ["March", "Stop", "Widths", "march"]


@dataclass(frozen=True)
class Widths:
    """How wide panels are chosen.

    Attributes
    ----------
    growth
        The most by which a panel is wider than the one before. Tails then show in time what comes.
    caution
        The part of the width that the tail would allow.
    least
        The smallest width, in units of the rounding of the time.
    failed
        The factor after a panel on which Newton's method fails.
    first
        Of the time in which the fastest unknown changes by its own size: the first width tried.
    finer
        The width of panels in units of those of a guide: break points and tails alone might give the same ones again, and the
        same error.
    noise, falls
        A tail below ``noise`` that falls by less than ``falls`` when the panel is narrower is rounding, amplified by Newton's
        matrix: 1e-16 times its condition, which is 1e4 at a distance of 1e-4 from the transition of a glass. Narrower panels
        do not mend it, so it is accepted; a resolved tail would fall like width^m.
    """

    growth: float = 3.0
    caution: float = 0.85
    least: float = 64 * np.finfo(float).eps
    failed: float = 0.3
    first: float = 0.3
    finer: float = 0.7
    noise: float = 1e-11
    falls: float = 0.3


USUAL = Widths()


@dataclass(frozen=True)
class Stop:
    """Why a march ended early, and when."""

    time: float
    message: str


@dataclass(frozen=True, eq=False)
class March:
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
    widths: Widths = USUAL, guide: March | None = None,
) -> tuple[March, Stop | None]:  # fmt: skip
    """March to ``end`` with tails of at most ``resolution`` times the size of each unknown.

    Panels are nowhere wider than ``widths.finer`` times those of a ``guide``.
    """
    state = _State(program, m, delays, end, resolution, widths, options, guide)
    stop = state.run()
    outputs = np.array(state.outputs).reshape(len(state.outputs), len(program.observables), m + 1)
    return March(state.past, outputs, program, m, state.steps, state.tries, stop is None), stop


class _State:
    """The march while it runs."""

    def __init__(
        self, program: ConvolutionProgram, m: int, delays: Sequence[float], end: float, resolution: float, widths: Widths,
        options: Options, guide: March | None,
    ) -> None:  # fmt: skip
        self.program, self.m, self.delays, self.end = program, m, delays, end
        self.resolution, self.widths, self.options, self.guide = resolution, widths, options, guide
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
        pace = Pace(0.0, self.end, _PATIENCE, _MOST_TRIES)
        while (now := float(self.past.edges[-1])) < self.end * (1 - 1e-13):
            target = float(self.breaks[np.searchsorted(self.breaks, now * (1 + 1e-13), side="right")])
            left = target - now
            width = min(width, self._guided(now))
            width = left if width >= 0.999 * left else left / 2 if 1.6 * width > left else width
            self.tries += 1
            if width < self.widths.least * max(now, 1e-280) or (little := pace.stalled(now, self.tries)):
                found = reason or f"the last {_PATIENCE} panels tried {little}"
                return Stop(now, self._blow_up(now, found))
            try:
                table, tail = self._try(width)
            except NotFiniteError as failure:
                reason, width = _not_finite(failure), self.widths.failed * width
                continue
            except NoConvergenceError:
                reason, width = reason or "Newton's method on a panel does not converge", self.widths.failed * width
                continue
            factor = self.widths.caution * max(tail, 1e-30) ** (-1 / self.m)
            noisy = tail * self.resolution < self.widths.noise and tail > self.widths.falls * before
            if not tail <= 1.0 and not noisy:
                before = tail
                reason = reason or "the solution varies faster and faster"
                width *= min(0.7, max(0.1, factor)) if math.isfinite(factor) else 0.1
                continue
            self._accept(target if width == left else now + width, width, table)
            reason, before = "", math.inf
            width *= min(self.widths.growth, factor)
        return None

    def _guided(self, now: float) -> float:
        """Return the widest panel from a time on that is finer than the guide's."""
        if self.guide is None:
            return math.inf
        edges = self.guide.functions.edges
        place = min(int(np.searchsorted(edges, now * (1 + 1e-12), side="right")), len(edges) - 1)
        width = self.widths.finer * float(edges[place] - edges[place - 1])
        rest = float(edges[place]) - now
        if width > rest > 0 and place + 1 < len(edges):
            width = min(width, rest + self.widths.finer * float(edges[place + 1] - edges[place]))
        return width

    def _first_width(self) -> float:
        """Return a width for the first panel from the derivatives at the start."""
        panel = Panel(self.program, self.past, 1e-12 * self.end, self.delays)
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
        width = min([self.widths.first * time for time in times] + [0.1 * self.end])
        self._weigh_gauges(panel, width)
        wide = Panel(self.program, self.past, width, self.delays)
        for number, body in enumerate(wide.evaluate(self.program.bodies, np.repeat(guess[:, None], wide.places, axis=1))):
            if equations[number].kind == "defined":  # its first panel may hold a root or a power of the time
                self.sizes[number] = np.max(np.abs(body[np.isfinite(body)]), initial=self.sizes[number])
        return width

    def _weigh_gauges(self, panel: Panel, width: float) -> None:
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
        panel = Panel(self.program, self.past, width, self.delays)
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

    def _gauge_tail(self, panel: Panel) -> float:
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
        return (
            f"the solution cannot be continued past t = {now:.8g}: {reason}. Largest unknown there: `{equation.key}`, of size "
            f"{self.sizes[largest]:.3g} ({equation.label}). If it blows up, end before that time"
        )


_HOLDS = 1e-9  # of the unknowns in a constraint: what it may be off by at the start
_JUMP = 1e-6  # of a function's size: what is smaller between two panels is an error, not a jump
_BRIDGE = 1e-12  # of the time: the width of the panel that holds a jump
_PATIENCE, _MOST_TRIES = 200, 100_000  # panels tried after which the pace is looked at, and too many for the rest


def _not_finite(failure: NotFiniteError) -> str:
    parts = failure.equation.doubtful
    return (
        f"the {failure.equation.label} is not finite at t = {failure.time:.6g}; a function in it{parts} is not defined there "
        "or the solution blows up"
    )
