"""What a tolerance means, and the part of a solution that is there when it ends early: shared by all solvers."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options

# --- What a tolerance means: one rule for all solvers.
NOT_SMOOTH = "rounding or a solution that is not smooth limits it: raise rtol, or give an atol"
DEVIATIONS = 2.0  # number of standard errors that are stated as an error
FLOOR = 1e-3  # of the largest value: below it the tolerance is absolute, rtol * FLOOR * largest
KERNEL_FLOOR = 0.1  # the same for kernels and means


def allowance(values: Array, options: Options, floor: float = FLOOR, *, scale: float = 0.0) -> Array:
    """Return the largest error allowed, value by value.

    It is rtol times the value, or times ``floor`` of the largest value where the value is smaller, plus atol. A solver
    may pass a natural ``scale``, the size of the terms that were averaged or added up to give the values: where they
    cancel, as in a mean that vanishes by symmetry, ``floor`` of that scale counts, not what the cancellation leaves.
    """
    sizes = np.abs(values)
    largest = max(float(np.max(sizes)), scale)
    return options.rtol * np.maximum(sizes, floor * largest) + (options.atol or 0.0)


def excess(values: Array, errors: Array, options: Options, floor: float = FLOOR, *, scale: float = 0.0) -> float:
    """Return the largest error in units of what is allowed; 0 for values that all vanish."""
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
    floor: float = FLOOR,
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


# How far a solver gets that solves for a whole window of time at once, and the solution up to
# there.


def stop_early(
    error: SolverError, begin: float, end: float, reach: Callable[[float], object], solve: Callable[[float], Result]
) -> SolverError:
    """Return the error that says between which times the solution ends, with the solution up to the first of them.

    ``reach`` makes a rough solution up to a time and raises SolverError where there is none; ``solve`` makes the one that
    is reported.
    """
    good, bad, why = begin, end, str(error)
    while bad - begin > 1e-5 * (end - begin) and bad - good > 0.05 * (bad - begin):
        middle = begin + (bad - begin) / 4 if good == begin else (good + bad) / 2
        try:
            reach(middle)
            good = middle
        except SolverError as failure:
            bad, why = middle, str(failure)
    if good == begin:
        return error
    text = f"not up to t = {bad:.6g}: {why}"
    return with_partial(error, begin, good, solve, lambda last: f"the solution is found up to t = {last:.6g}, but {text}")


def with_partial(
    error: SolverError, begin: float, end: float, solve: Callable[[float], Result], say: Callable[[float], str]
) -> SolverError:
    """Return the error with the solution up to the end or, where that fails, less far."""
    for share in (0.999, 0.99, 0.9, 0.5) if end > begin else ():
        last = begin + share * (end - begin)
        stopped = SolverError(say(last))
        with contextlib.suppress(SolverError):
            stopped.partial = solve(last).with_status(f"stopped at t = {last:.8g}", str(stopped))
            return stopped
    return error
