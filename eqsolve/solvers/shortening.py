"""How far a solver gets that solves for a whole window of time at once, and the solution up to there."""

import contextlib
from collections.abc import Callable

from eqsolve.errors import SolverError
from eqsolve.results.result import Result

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
