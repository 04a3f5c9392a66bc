"""What a tolerance means, when a march through panels has stalled, and why one ended: shared by all solvers."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.lowering import at
from eqsolve.compile.values import Values
from eqsolve.errors import SolverError, UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options

# --- Whether time still goes on: what every solver that steps through time asks, so that each of them ends.
#
# At a pole or a jump that attracts from both sides a step-size control goes on for ever: it accepts steps that get nowhere.
# Such a stall is a pace far below what it has been, at which the time that is left would take too much work.


@dataclass
class Pace:
    """Watches one march from ``begin`` to ``end``.

    ``patience`` is the work (panels tried, or calls) after which the pace is looked at, ``most`` the work beyond which what
    is left is too much.
    """

    begin: float
    end: float
    patience: int = 200
    most: float = 100_000
    work: int = 0
    time: float | None = None

    def stalled(self, moment: float, work: int) -> str:
        """Return how little the last work has brought if time has stalled, else nothing."""
        before = self.begin if self.time is None else self.time
        done = work - self.work
        if done < self.patience:
            return ""
        gained = moment - before
        # than on average before
        if (self.end - moment) * done > gained * self.most and gained * self.work < 1e-3 * (before - self.begin) * done:
            return f"brought it on by {gained:.1g} only"
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


def cannot_go_on(time: float, reason: object, largest: Any, size: float) -> str:
    """Return why a march ended, with the equation of the largest unknown there."""
    return (
        f"the solution cannot be continued past t = {time:.8g}: {reason}. Largest unknown there: `{largest.key}`, "
        f"of size {size:.3g} ({largest.label}). If it blows up, end before that time"
    )


@dataclass(frozen=True)
class Stop:
    """Why a march ended early, and when."""

    time: float
    message: str


# --- What a tolerance means: one rule for all solvers.
NOT_SMOOTH = "rounding or a solution that is not smooth limits it: raise rtol, or give an atol"
KERNEL_FLOOR = 0.1  # kernels are asked for relative to their largest value, down to this fraction of it


def allowance(values: Array, options: Options, floor: float = 1e-3, *, scale: float = 0.0) -> Array:
    """Return the largest error allowed, value by value.

    It is rtol times the value, or times ``floor`` of the largest value where the value is smaller, plus atol. A solver
    may pass a natural ``scale``, the size of the terms that were averaged or added up to give the values: where they
    cancel, as in a mean that vanishes by symmetry, ``floor`` of that scale counts, not what the cancellation leaves.
    """
    sizes = np.abs(values)
    largest = max(float(np.max(sizes)), scale)
    return options.rtol * np.maximum(sizes, floor * largest) + (options.atol or 0.0)


def excess(values: Array, errors: Array, options: Options, floor: float = 1e-3, *, scale: float = 0.0) -> float:
    """Return the largest error in units of what is allowed; 0 for values that vanish identically."""
    if not np.any(values):
        return 0.0
    return float(np.max(errors / allowance(values, options, floor, scale=scale)))


@dataclass(frozen=True, order=True)
class Worst:
    """The error farthest from its tolerance: in units of that, of what it is, and where."""

    excess: float = 0.0
    name: str = ""
    where: str = ""

    def failure(self, options: Options, hint: str, labels: Mapping[str, str] | None = None) -> tuple[str, str] | None:
        """Return the status of a solve with this error and the reason; None if the tolerance is met."""
        if self.excess <= 1.0:
            return None
        what = f"{(labels or {}).get(self.name, f'`{self.name}`')} at {self.where}"
        said = f"the error estimate of {what} is {self.excess:.3g} times the tolerance rtol={options.rtol:g}; {hint}"
        return "tolerance not met", said


def find_worst(
    names: Iterable[str], values: Mapping[str, Array], errors: Mapping[str, Array], times: Array, options: Options,
    floor: float = 1e-3,
) -> Worst:  # fmt: skip
    """Return the worst error of functions of one time, or of two."""
    worst = Worst()
    for name in names:
        if np.any(values[name]):
            ratios = np.nan_to_num(errors[name] / allowance(values[name], options, floor), nan=np.inf)
            ratios = np.tril(ratios) if ratios.ndim > 1 else ratios
            place = np.unravel_index(ratios.argmax(), ratios.shape)
            moments = ", ".join(f"{times[item]:.6g}" for item in place)
            where = f"t = {moments}" if len(place) == 1 else f"(t, t') = ({moments})"
            worst = max(worst, Worst(float(ratios[place]), name, where))
    return worst


def nodes_per_panel(options: Options) -> int:
    """Return the number of collocation nodes asked for, or that suits the tolerance."""
    if options.order == 1:
        raise UsageError("order=1 is too low to control the error of a system with memory; use 2 to 12")
    return options.order or (8 if options.rtol > 1e-4 else 10 if options.rtol > 1e-7 else 12)


def with_numbers(program: Any, values: Values) -> tuple[Any, float]:
    """Return a program with its numbers, the moments of laws among them, and its start."""
    moments = {name: moment.at(values.numbers, values.laws) for name, moment in program.moments}
    bound = at(program, {**values.numbers, **moments})
    return bound, float(bound.begin()[0])


# How far a solver gets that solves for a whole window of time at once, and the solution up to
# there.


_SHORTER, _QUARTERS, _HALVINGS = 0.25, 8, 5


def stop_early(
    error: SolverError, begin: float, end: float, reach: Callable[[float], object], solve: Callable[[float], Result]
) -> SolverError:
    """Return the error that says between which times the solution ends, with the solution up to the first of them.

    ``reach`` makes a rough solution up to a time and raises SolverError where there is none; ``solve`` makes the one that
    is reported.
    """
    good, bad, why = begin, end, str(error)
    for number in range(_QUARTERS + _HALVINGS):
        if good == begin and number >= _QUARTERS:
            break
        middle = begin + _SHORTER * (bad - begin) if good == begin else (good + bad) / 2
        try:
            reach(middle)
            good = middle
        except SolverError as failure:
            bad, why = middle, str(failure)
    if good == begin:
        return error
    for last in (good, begin + 0.9 * (good - begin), begin + 0.5 * (good - begin)):
        stopped = SolverError(f"the solution is found up to t = {last:.6g}, but not up to t = {bad:.6g}: {why}")
        with contextlib.suppress(SolverError):
            stopped.partial = solve(last).stopped(f"stopped at t = {last:.8g}", str(stopped))
            return stopped
    return error
