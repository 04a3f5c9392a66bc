"""Marches over panels of time: how long the steps are, Newton's method on a panel, and two solutions compared.

Shared by the solvers that collocate on panels. A march offers its ``end``, its nodes per panel ``m``, the ``growth`` that
the next step may have at most, ``add_panel(step)``, which solves a panel and returns the size of the first neglected
coefficient relative to each unknown, ``accept(end)``, which keeps it, and the ``tails`` kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Values
from eqsolve.errors import SolverError, UsageError
from eqsolve.numerics.arrays import EPSILON, SAFETY, Array
from eqsolve.numerics.grids import PanelGrid, radau
from eqsolve.numerics.rows import differences, mirrored, spread_to_times
from eqsolve.results.result import Kernel, Result, dynamics_result
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import KERNEL_FLOOR, Worst, find_worst

# --- Whether time still goes on: at a pole, or a jump that attracts from both sides, a step-size
# control accepts steps that get nowhere. A stall is a pace far below what it has been, at which the
# time that is left would take too much work.


@dataclass
class Pace:
    """Detects that a march from ``begin`` to ``end`` has stalled.

    It is tested after every ``patience`` units of work, panels or calls: it has where, at the pace since the last test,
    ``patience`` more tests would not reach the end.
    """

    begin: float
    end: float
    patience: int = 200
    work: int = 0
    time: float | None = None

    def stalled(self, moment: float, work: int) -> str:
        """Return how little the last work has brought if time has stalled, else nothing."""
        before = self.begin if self.time is None else self.time
        done = work - self.work
        if done < self.patience:
            return ""
        gained = moment - before
        slow = gained * self.work < 1e-3 * (before - self.begin) * done  # against its own mean
        if slow and (self.end - moment) * done > gained * self.patience**2:
            return f"advanced t by only {gained:.1g}"
        self.work, self.time = work, moment
        return ""


# --- Why a march ended.
class NoConvergenceError(Exception):
    """The iteration on a panel does not converge; a shorter panel may help."""


class NotFiniteError(Exception):
    """The right-hand side of an equation is not finite at a time."""

    def __init__(self, equation: Any, time: float) -> None:
        super().__init__(
            f"the {equation.label} is not finite at t = {time:.6g}; a function in it{equation.doubtful} is not defined "
            "there or the solution blows up"
        )


@dataclass(frozen=True)
class Stop:
    """Why a march ended early, and when."""

    time: float
    message: str

    @classmethod
    def blow_up(cls, time: float, reason: object, sizes: Mapping[Any, float]) -> Stop:
        """Return why a march ended, with the equation of the largest unknown there."""
        largest = max(sizes, key=lambda equation: sizes[equation])
        return cls(
            time,
            f"the solution cannot be continued past t = {time:.8g}: {reason}. Largest unknown there: `{largest.key}`, "
            f"of size {sizes[largest]:.3g} ({largest.label}). If it blows up, end before that time",
        )


# --- One march: panels as long as the resolution allows.
def longest_step(edges: Array, factor: float, moment: float) -> float:
    """Return the longest step that is nowhere longer than ``factor`` times any panel it touches."""
    place = int(np.searchsorted(edges[1:-1], moment, side="right"))
    steps, rest = factor * np.diff(edges[place : place + 3]), edges[place + 1] - moment
    return float(min(steps[0], max(rest, steps[1])) if len(steps) > 1 else steps[0])


def advance(
    march: Any, stops: Sequence[float] | Array, resolution: float, step: float, *, smallest: float,
    noise: float = 0.0, longest: Callable[[float], float] | None = None,
    after: Callable[[float], object] = lambda step: False,
) -> str:  # fmt: skip
    """Add panels whose neglected coefficients are below the resolution; return why they end early, or nothing.

    Parameters
    ----------
    march
        See the module.
    stops
        Times at which a panel ends, the last one among them.
    step, smallest
        The first step to try; and the one below which a panel that fails is not made shorter.
    noise
        Round-off level: a tail below it that a shorter panel does not reduce is round-off, amplified
        by the condition number of the panel's matrix; a resolved tail would fall like step^m.
    longest
        The longest step allowed from a time.
    after
        Called with the next step after each panel; the march pauses where that is true.
    """
    begin, reason, before, tries = march.end, "", math.inf, 0
    pace = Pace(begin, stops[-1])
    while (now := march.end) < stops[-1] - (rounding := 1e-13 * max(abs(now), abs(begin))):
        target = stops[int(np.searchsorted(stops, now + rounding, side="right"))]
        left = target - now
        step = step if longest is None else min(step, longest(now))
        step = left if step >= 0.999 * left else left / 2 if 1.6 * step > left else step
        tries += 1
        if reason and step < max(smallest, 64 * np.finfo(float).eps * abs(now)):
            return reason
        if little := pace.stalled(now, tries):
            return f"the last {pace.patience} panels tried {little}"
        try:
            tail = march.add_panel(step)
        except (NoConvergenceError, NotFiniteError) as failure:
            reason = str(failure) or reason or "the iteration on a panel does not converge"
            step *= 0.3  # there is no tail to tell how much shorter
            continue
        # the usual step-size control: a resolved tail falls like step^order, 0.85 leaves a margin (Hairer et al. 1993, II.4)
        factor = 0.85 * max(tail / resolution, 1e-30) ** (-1 / getattr(march, "order", march.m + 1))
        if not (tail <= resolution or 0.3 * before < tail < noise):
            reason, before = reason or "the solution varies faster and faster", tail
            step *= min(0.7, max(0.1, factor)) if math.isfinite(factor) else 0.1
            continue
        march.tails.append(tail)
        march.accept(target if step == left else now + step)
        reason, before = "", math.inf
        step *= min(march.growth, factor)
        if after(step):
            break
    return ""


def newton(
    equations: Callable[[bool], tuple[Array, Callable[[Array], Array] | None]], add: Callable[[Array], float],
    tolerance: float, most: int, keep: bool = False,
) -> int:  # fmt: skip
    """Solve the equations of a panel by Newton's method; return the number of steps.

    ``equations(slopes)`` gives the residuals and, where asked for, a solver for the Jacobian; ``add``
    changes the unknowns and returns by how much, relative to their sizes. With ``keep`` a matrix serves as long
    as steps shrink by a factor of ten (simplified Newton; Hairer & Wanner 1996, section IV.8).
    """
    from scipy.linalg import LinAlgError, LinAlgWarning

    solve_jacobian, least, last = None, math.inf, math.inf
    for step in range(1, most + 1):
        residual, new_solver = equations(solve_jacobian is None)
        solve_jacobian = new_solver or solve_jacobian
        assert solve_jacobian is not None
        try:
            change = add(-solve_jacobian(residual))
        except (LinAlgError, LinAlgWarning, ValueError):
            raise NoConvergenceError from None
        if not math.isfinite(change) or change > 30.0 * least:
            raise NoConvergenceError
        rounding = new_solver is not None and last / 4 < change < 1e-10
        if change <= tolerance or rounding:
            return step
        if not keep or not change < last / RATIO:
            solve_jacobian = None
        least, last = min(least, change), change
    raise NoConvergenceError


# --- Two solutions compared, and the finer one as a result.
#
# Its error between nodes is what the polynomial of a panel leaves out, from how its last
# coefficients fall. At nodes it is 1.5 ρ/(1 − ρ) times the difference, ρ the measured ratio of the
# tails: the asymptotic order would be too optimistic on long panels. Errors carried on from panels
# before are the whole difference at the rougher one's panel ends, where either may happen to err
# less. Merges, which both may have made alike, are added.
RATIO = 10.0  # of the tails, or tolerances, of two solutions that are compared
DENSER = math.sqrt(2.0)  # panels that a solution is compared with, at least
LARGEST_SHARE = 0.5  # left of the tails: beyond it a difference shows nothing but its own size
Sources = tuple[PanelGrid, Array, Array]  # panels, their tails; times, effects and steps of merges


class DifferenceError:
    """Errors from the difference to a rougher solution, by the ratio of their tails on each panel."""

    def __init__(self, fine: Sources, coarse: Sources) -> None:
        (self.grid, self.tails, self.merges), (self.other, rough, _) = fine, coarse
        places = np.searchsorted(self.other.edges, self.grid.edges) - 1
        places = np.clip(places, 0, len(rough) - 1)
        self.under = [slice(low, high + 1) for low, high in pairwise(places)]  # the rougher panels
        left = (self.tails + EPSILON) / [rough[part].max() + EPSILON for part in self.under]
        self.shares = SAFETY / (1 / np.minimum(left, LARGEST_SHARE) - 1)

    def errors(self, values: Array, rough: Array, sizes: Array) -> Array:
        """Return the errors of values of natural sizes, on the nodes."""
        grid, other, m = self.grid, self.other, self.grid.order
        inside = (np.minimum(grid.nodes, other.edges[-1]), np.minimum(other.edges, grid.edges[-1]))
        change = np.abs(values - other.interpolate(rough, inside[0]))
        ends = np.abs(rough[::m] - grid.interpolate(values, inside[1]))
        largest, size = (item[1:].reshape(-1, m).max(axis=1) for item in (change, sizes))
        errors = np.minimum(self.shares * largest, RATIO * self.tails * size)
        errors += [ends[part.start : part.stop + 1].max() for part in self.under]
        errors += self.drift(grid.edges[1:], np.interp(self.merges[:, 0], grid.nodes, sizes))
        return np.append(change[0], np.repeat(errors + neglected(grid, values), m))

    def of_rows(self, times: Array, change: Array, size: float, share: float) -> Array:
        """Return the errors of a kernel in rows of times, by changes around them; a share at least."""
        shares = np.maximum(share, self.shares)[self.grid.locate(times)]
        return shares[:, None] * change + self.drift(times, size)[:, None]

    def drift(self, times: Array, sizes: Array | float) -> Array:
        """Return how far merges of columns move a solution: each changes its slope for all later times."""
        since, (_, effects, steps) = times[:, None] - self.merges[:, 0], self.merges.T
        return np.sum((since > 0) * sizes * effects * (1 + since / steps), axis=1)


def next_coefficient(sizes: Array) -> tuple[Array, Array]:
    """Return the coefficient after the last, on the last axis, and the ratio by which four fall.

    They are taken in pairs: every other coefficient of an even or odd function vanishes.
    """
    before, last = sizes[..., -4:-2].max(axis=-1, initial=1e-300), sizes[..., -2:].max(axis=-1)
    ratio = np.sqrt(np.minimum(last / before, 1.0))
    return np.maximum(sizes[..., -1], ratio * sizes[..., -2]) * ratio, ratio


def neglected(grid: PanelGrid, values: Array) -> Array:
    """Return, per panel, the sum of the coefficients that its polynomial leaves out; nodes are on the last axis."""
    columns = np.arange(grid.panels)[:, None] * grid.order + np.arange(grid.order + 1)
    sizes, inner = np.abs(values[..., columns] @ radau(grid.order).legendre.T), radau(grid.order).legendre_inside
    for panel, jumps, own in grid.behind_jumps(values):
        sizes[..., panel, 1:] = np.where(jumps[..., None], np.abs(own @ inner.T), sizes[..., panel, 1:])
    following, ratio = next_coefficient(sizes)
    return following / (1 - np.minimum(ratio, 0.9))


@dataclass(frozen=True, eq=False)
class Compared:
    """A solution with error estimates from its difference to a rougher one.

    ``worst`` is the estimate farthest from its tolerance, ``least`` what rounding alone would make
    of it; ``stop`` says why the solution ends early, ``rounds`` how often it was refined.
    """

    march: Any
    grid: PanelGrid
    curves: Any  # values by name
    errors: dict[str, Array]
    worst: Worst
    times: Array | None = None
    kernels: dict[str, Kernel] = field(default_factory=dict)
    rows: Any = None
    least: float = 0.0
    stop: Stop | None = None
    rounds: int = 1

    def with_kernels(
        self, equations: Iterable[Any], fine: Any, coarse: Any, times: Array,
        share: Callable[[Array, float], Array], unseen: Callable[[str, Array], float], options: Options,
    ) -> Compared:  # fmt: skip
        """Return the solution with its kernels on all pairs of times, from two stores of rows.

        Their errors are a share of the largest difference seen around a pair, and what a difference does not show.
        """
        tables, changes, kernels = fine.tables(times), differences(fine, coarse, times), dict[str, Kernel]()
        mirrors = {equation.name: equation.mirror for equation in equations if not equation.hidden}
        gaps = {
            name: share(spread_to_times(changes[name]), float(np.abs(tables[name]).max())) + unseen(name, tables[name])
            for name in mirrors
        }
        for name, other in mirrors.items():
            whole = [part[name] if other is None else mirrored(part[name], part[other]) for part in (tables, gaps)]
            kernels[name] = Kernel(whole[0], whole[1], other is not None)
        errors, worst = {name: kernel.errors for name, kernel in kernels.items()}, self.worst
        if options.kernels:
            worst = max(worst, find_worst(errors, tables, errors, times, options, KERNEL_FLOOR))
        return replace(self, kernels=kernels, times=times, rows=fine, worst=worst)

    def result(
        self, name: str, values: Values, options: Options, stats: dict[str, Any], hint: str,
        labels: Mapping[str, str] | None = None,
    ) -> Result:  # fmt: skip
        """Return the result of a model, or raise what stopped the solution with the result up to there."""
        failure = self.worst.failure(options, hint, labels)
        if self.stop is not None:
            failure = (f"stopped at t = {self.stop.time:.8g}", self.stop.message)
        result = dynamics_result(
            model=name, params=values.settings, grid=self.grid, curves=self.curves, errors=self.errors, stats=stats,
            kernels=self.kernels, times=self.times, rows=self.rows, failure=failure,
        )  # fmt: skip
        if self.stop is not None:
            raise SolverError(self.stop.message, partial=result)
        return result


def best_of(solutions: Iterable[Compared], options: Options, enough: float = 1.0) -> Compared | None:
    """Take finer and finer solutions until one has errors that are small ``enough``, in tolerances, or stops early, two
    gain little, or time is short."""
    best, stalled = None, 0
    for solution in solutions:
        if solution.stop is not None:
            return solution
        excess = solution.worst.excess
        stalled = stalled + 1 if best is not None and excess >= 0.7 * best.worst.excess else 0
        best = solution if best is None or excess < best.worst.excess else best
        if best.worst.excess <= max(enough, 10 * best.least) or stalled == 2 or options.is_short_of_time():
            break
    return best


def nodes_per_panel(options: Options) -> int:
    """Return the number of collocation nodes asked for, or that suits the tolerance."""
    if options.order == 1:
        raise UsageError("order=1 is too low to control the error of a system with memory; use 2 to 12")
    return options.order or (8 if options.rtol > 1e-4 else 10 if options.rtol > 1e-7 else 12)


def bind_program(program: Any, values: Values) -> tuple[Any, float]:
    """Return a program with its numbers, the moments of laws among them, and its start."""
    moments = {name: moment.at(values.numbers, values.laws) for name, moment in program.moments}
    bound = at(program, {**values.numbers, **moments})
    return bound, float(bound.begin()[0])
