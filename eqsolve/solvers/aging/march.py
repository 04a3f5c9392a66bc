"""A solution over many decades: a beginning that follows the fastest scale, then row panels that grow with t."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.two_time import CompiledPlan
from eqsolve.files.codec import Codec
from eqsolve.numerics.aging_rows import AgingRows, Layout, Solved
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.solvers.aging.panel import NewtonError, Panel
from eqsolve.solvers.aging.points import Past, Unknowns
from eqsolve.solvers.options import Options
from eqsolve.solvers.two_time.march import March


@dataclass(frozen=True)
class Level:
    """One resolution."""

    # radau nodes in t and on each column panel
    rows: int
    nodes: int
    growth: float  # the ratio of a row panel's two ends
    # of interpolation, relative: with ρ that of the ellipse up to the nearest singular point, at t
    # = t' or at the start, ρ^(−nodes − 1) on column panels (ρ = 5.8) plus ρ^(−rows − 1) in t
    error: float


LEVELS = (
    Level(3, 5, 1.5, 4e-4),
    Level(4, 6, 1.4, 3e-5),
    Level(5, 8, 1.4, 3e-6),
    Level(6, 9, 1.25, 4e-8),
    Level(6, 10, 1.18, 7e-9),
    Level(7, 12, 1.15, 3e-10),
)


@dataclass(frozen=True)
class Growth:
    """How panels are laid out."""

    # of the lengths of neighbouring panels that are fixed in the lag, in t', or under an integral
    ratio: float = 2.0
    share: float = 1 / 3  # of the time, up to which they are fixed
    # if the last of them would be less than this times as far as the one before, they are one
    least: float = 1.3
    middle: int = 3  # how many panels stretch between them
    orders: int = 3  # of the extrapolation from which Newton's method starts, at most
    # lags well below this many finest panels stay as they are in it; longer ones keep their ratio
    # to t
    reach: float = 30.0
    tolerance: float = 1e-9  # of Newton's method
    # ln of the ratio of a row panel's ends below which the march is given up
    shortest: float = 0.02


USUAL = Growth()


@dataclass(frozen=True)
class Stalled:
    """Where and why a march ended early."""

    time: float
    message: str


@dataclass(frozen=True, eq=False)
class Long:
    """A solution: its past, the curves of the beginning, and the observables on each row panel's nodes."""

    level: Level
    past: Past
    curves: dict[str, Array]
    observed: tuple[dict[str, Array], ...]
    steps: int

    @property
    def panels(self) -> int:
        return len(self.past.rows.panels)

    def grid(self) -> PanelGrid:
        return self.past.rows.grid(self.past.grid.order)

    def at(self, name: str, times: Array) -> Array:
        """Return a function or an observable at times of the model."""
        rows = self.past.rows
        moments = times - rows.start
        out = np.empty(len(times))
        where = np.minimum(np.searchsorted(rows.ends, moments), len(rows.panels))
        for place in np.unique(where):
            chosen = np.flatnonzero(where == place)
            if not place:
                out[chosen] = self.past.grid.interpolate(self.curves[name], times[chosen])
                continue
            solved = rows.panels[place - 1]
            values = solved.functions.get(name)
            if values is None:
                values = self._whole(name, place - 1)
            out[chosen] = solved.layout.in_time(moments[chosen]) @ values
        return out

    def _whole(self, name: str, place: int) -> Array:
        before = self.curves[name][-1] if place == 0 else self.observed[place - 1][name][-1]
        return np.concatenate([[before], self.observed[place][name]])


def go_on(
    plan: CompiledPlan, begun: March, level: Level, options: Options, share: tuple[float, float]
) -> tuple[Long, Stalled | None]:
    """Go on from a march's end to the last time with growing panels; report progress between two shares of the work."""
    rule = USUAL
    guide, steps = begun.as_guide(), np.diff(begun.history.row_edges)
    assert guide.rows is not None
    start = float(begun.history.row_edges[0])
    finest, earliest = float(steps[-1]), float(steps.min())
    rows = AgingRows(start, guide.rows, ())
    past = Past(rows, guide.grid, guide.functions, tuple(equation.name for equation in plan.kernels))
    begin, end = past.end, options.t_max - start
    usual = length = math.log(level.growth)
    observed: list[dict[str, Array]] = []
    count, stalled = 0, None
    while (left := math.log(end / past.end)) > 1e-12:
        pieces = math.ceil(left / length - 1e-9)
        until = end if pieces == 1 else past.end * math.exp(left / pieces)
        unknowns = _guess(past, _layout(past.end, until, level, finest, earliest, rule), finest, rule)
        panel = Panel(plan, past, unknowns, finest, rule.ratio)
        try:
            taken, values = _solve(panel, plan, rule, options)
        except NewtonError:
            length /= 2
            if length < rule.shortest:
                stalled = Stalled(start + past.end, "Newton's method does not converge on panels however short")
                break
            continue
        count += taken
        observed.append(values)
        past = replace(past, rows=past.rows.with_panel(Solved(unknowns.layout, unknowns.kernels, unknowns.functions)))
        length = min(usual, 1.5 * length)
        done = math.log(past.end / begin) / math.log(end / begin)
        options.report_share(share[0] + (share[1] - share[0]) * done**2, f"t = {start + past.end:.4g}, {panel.size} unknowns")
    return Long(level, past, begun.curves() | _hidden(begun), tuple(observed), count), stalled


def _hidden(begun: March) -> dict[str, Array]:
    return begun.as_guide().functions


def _solve(panel: Panel, plan: CompiledPlan, rule: Growth, options: Options) -> tuple[int, dict[str, Array]]:
    """Solve a panel, or take its solution from the checkpoint."""
    found = panel.unknowns

    def compute() -> tuple[int, dict[str, Array], dict[str, Array]]:
        try:
            steps = panel.solve(rule.tolerance)
        except NewtonError:
            steps = 0
        return steps, found.kernels, found.functions

    if options.checkpoint is None:
        steps, kernels, functions = compute()
    else:
        steps, kernels, functions = options.checkpoint.step(f"rows of {panel.size} unknowns", compute, Codec())
    if not steps:
        raise NewtonError
    for name, values in kernels.items():
        found.kernels[name][:] = values
    for name, values in functions.items():
        found.functions[name][:] = values
    observed = {equation.name: panel.observe(equation) for equation in plan.observables}
    if not all(np.isfinite(values).all() for values in observed.values()):
        raise NewtonError
    return steps, observed


def _layout(begin: float, end: float, level: Level, finest: float, earliest: float, rule: Growth) -> Layout:
    edges = functools.partial(_edges, begin * rule.share, rule=rule)
    return Layout(begin, end, level.rows, level.nodes, edges(finest), edges(earliest), rule.middle)


def _edges(top: float, first: float, *, rule: Growth) -> Array:
    """Return edges that grow by a ratio from ``first``; the last is ``top``."""
    made, edge = [0.0], min(first, top)
    while edge < top:
        made.append(edge)
        edge *= rule.ratio
    if top > rule.least * made[-1]:
        made.append(top)
    else:
        made[-1] = top
    return np.array(made)


def _guess(past: Past, layout: Layout, finest: float, rule: Growth) -> Unknowns:
    """Return the row at the left end, and rows extrapolated in ln t: at fixed lag and column where these are short, at a fixed
    ratio to t where they are not. A power of t is continued exactly, as long as there is no change of sign."""
    width, times = layout.width, layout.times[1:]
    lag, column = (np.concatenate(item) for item in list(zip(*map(layout.places, times), strict=True))[:2])
    moments, back = np.repeat(times, width), layout.begin / layout.end
    first = layout.places(layout.begin)
    near, signs = lag < column, [(-1) ** (k + 1) * math.comb(rule.orders, k) for k in range(1, rule.orders + 1)]
    earlier = []
    for k in range(1, rule.orders + 1):
        then = np.minimum(moments * back**k, layout.begin)
        short = np.where(near, lag, column)
        short = short * back ** (k * short / (short + rule.reach * finest))
        earlier.append((then, np.where(near, then - short, short), np.where(near, short, then - short)))
    kernels, functions = {}, {}
    for name in past.kernels:
        values = np.array([past.rows.pairs(name, *pairs) for pairs in earlier])
        row = past.rows.pairs(name, np.full(width, layout.begin), first[1], first[0])
        kernels[name] = np.vstack([row, _extrapolate(values, signs).reshape(layout.rows, width)])
    for name in past.functions:
        values = np.array([past.function(name, np.minimum(times * back**k, layout.begin)) for k in range(1, rule.orders + 1)])
        functions[name] = np.append(past.function(name, np.array([layout.begin])), _extrapolate(values, signs))
    return Unknowns(layout, kernels, functions)


def _extrapolate(values: Array, signs: list[int]) -> Array:
    weights = np.array(signs, float)[:, None]
    plain = np.sum(weights * values, axis=0)
    alike = (np.sign(values) == np.sign(values[0])).all(axis=0) & (values != 0).all(axis=0)
    with np.errstate(all="ignore"):
        powers = np.sign(values[0]) * np.exp(np.sum(weights * np.log(np.abs(values)), axis=0))
    sane = alike & (np.abs(powers) < 10 * np.abs(values[0]))
    return np.where(sane, powers, np.where(np.abs(plain) < 10 * np.abs(values[0]) + 1e-300, plain, values[0]))
