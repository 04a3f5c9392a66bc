"""One integration of all paths in time, by DOP853 or Radau IIA, with steps shorter than another integration's.

References: Hairer, Nørsett & Wanner, Solving Ordinary Differential Equations I, II.5 (DOP853, order 8); Hairer & Wanner,
Solving Ordinary Differential Equations II, IV.8 (Radau IIA, order 5). Both are scipy's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import Paths
from eqsolve.numerics.memory import memory
from eqsolve.solvers.ode.system import OdeSystem
from eqsolve.solvers.options import Options
from eqsolve.solvers.pace import Pace

_RUNS = 4  # over the whole time that a solve takes at least: a scout, a choice of nodes, and two to compare
__all__ = ["Integrator", "Run", "StoppedError"]

logger = logging.getLogger("eqsolve")

_CALLS = 15_000  # of the explicit method, before it is asked whether stiffness makes them so many
_STIFF = 1.0  # step times the fastest decay rate beyond which that decay, not accuracy, holds the steps down
_PATIENCE, _MOST_CALLS = 10_000, 10_000_000  # calls after which the pace is looked at, and that are too many for the rest
_MOST_STEPS = 5_000_000
_KEPT = 1500, 60  # bytes kept of a step, and of a state in it

_SMALLEST = 1e-200  # of a state's size; what is smaller leaves the range of numbers when a tolerance is applied to it


class StoppedError(SolverError):
    """A path cannot be continued; ``time`` is where."""

    def __init__(self, message: str, time: float) -> None:
        super().__init__(message)
        self.time = time


class _StiffError(Exception):
    """Stability makes the explicit method's steps too short."""


@dataclass(frozen=True, eq=False)
class Run:
    """One integration: the ends of its steps, the states at any times (one column each), and how it was made."""

    paths: Paths
    ends: Array
    states: Callable[[Array], Array]
    method: str
    calls: int

    def longest(self, moment: float, factor: float) -> float:
        """Return the longest step from a moment that is nowhere longer than ``factor`` times the steps taken here."""
        place = int(np.searchsorted(self.ends[1:-1], moment, side="right"))
        steps = np.diff(self.ends[place : place + 3])
        rest = self.ends[place + 1] - moment
        return float(min(factor * steps[0], rest + factor * steps[1]) if len(steps) > 1 else factor * steps[0])


class Integrator:
    """Integrates one system over one span of time; remembers that it is stiff once it has turned out to be."""

    def __init__(self, system: OdeSystem, options: Options) -> None:
        self.system, self.begin, self.options = system, system.begin, options
        self.method = "DOP853"
        self.runs = 0  # that are done

    def run(self, paths: Paths, tolerance: float, finer_than: Run | None = None, by: float = 0.8) -> Run:
        """Integrate once, with steps at most ``by`` times another run's; raise StoppedError where a path ends."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.method == "DOP853":
                try:
                    made = self._march(paths, tolerance, finer_than, by)
                    self.runs += 1
                    return made
                except _StiffError:
                    logger.info("the system is stiff: Radau IIA instead of DOP853")
                    self.method = "Radau"
            made = self._march(paths, tolerance, finer_than, by)
            self.runs += 1
            return made

    def _march(self, paths: Paths, tolerance: float, finer_than: Run | None, by: float) -> Run:
        from scipy.integrate import DOP853, OdeSolution, Radau

        slope = _Slope(self.system, paths, raises=self.method == "Radau")
        start = self.system.initial(paths)
        end = self.options.t_max
        atol = 1e-3 * tolerance * _sizes(slope, self.begin, start, end, paths.count)
        kind: Any = DOP853 if self.method == "DOP853" else Radau
        solver = kind(slope, self.begin, start, end, rtol=tolerance, atol=atol, **self._structure(paths))
        ends, pieces = [self.begin], []
        next_look = _CALLS
        pace = Pace(self.begin, end, _PATIENCE, _MOST_CALLS)
        most = min(_MOST_STEPS, 0.5 * memory() / (_KEPT[0] + _KEPT[1] * len(start)))
        while solver.status == "running":
            if finer_than is not None:
                solver.max_step = finer_than.longest(solver.t, by)
            try:
                reason = solver.step()
            except ValueError as error:  # scipy's linear algebra on numbers that overflowed
                raise slope.stopped(solver.t, str(error)) from None
            if solver.status == "failed":
                raise slope.stopped(solver.t, reason)
            ends.append(solver.t)
            pieces.append(solver.dense_output())
            here = (solver.t - self.begin) / (end - self.begin)
            self.options.report_share(
                (self.runs + here) / max(_RUNS, self.runs + 2), f"{paths.count} paths, t = {solver.t:.4g}"
            )
            if little := pace.stalled(solver.t, slope.calls):
                raise slope.stopped(solver.t, f"the last {_PATIENCE} evaluations {little}")
            if len(pieces) > most:
                raise slope.stopped(solver.t, f"{len(pieces)} steps were needed to get there, more are not kept")
            if self.method == "DOP853" and finer_than is None and slope.calls > next_look:
                if solver.step_size * slope.fastest_decay(solver.t, solver.y) > _STIFF:
                    raise _StiffError
                next_look *= 2
        return Run(paths, np.array(ends), OdeSolution(ends, pieces), self.method, slope.calls)

    def _structure(self, paths: Paths) -> dict[str, Any]:
        """Tell the implicit method how to differentiate: paths that share no mean do not see each other."""
        if self.method == "DOP853":
            return {}
        if self.system.program.coupled or paths.count < 20:
            return {"vectorized": True}
        from scipy.sparse import eye, kron

        kinds = len(self.system.program.states)
        return {"vectorized": True, "jac_sparsity": kron(np.ones((kinds, kinds)), eye(paths.count), format="csc")}


def _sizes(slope: _Slope, begin: float, start: Array, end: float, count: int) -> Array:
    """Return the natural size of every state: its start, or how far its first slope carries it.

    Growth from a tiny start must be followed in relative terms: its errors grow with it. A path that does not move at
    first takes the size of the others.
    """
    first = slope(begin, start)
    if not np.isfinite(first).all():
        raise slope.stopped(begin, "")
    ahead = 1e-6 * (end - begin)
    bend = np.abs(slope(begin + ahead, start + ahead * first) - first) / ahead
    reach = np.abs(first) * (end - begin)
    reach = np.minimum(reach, np.divide(first**2, bend, out=reach.copy(), where=np.isfinite(bend) & (bend > 0)))
    sizes = np.maximum(np.abs(start), reach)
    for row in sizes.reshape(-1, count):
        row[row == 0] = row.max()
    sizes[sizes == 0] = sizes.max() or 1.0
    return np.maximum(sizes, _SMALLEST)


class _Slope:
    """The right-hand side on given paths, counting its calls and remembering where it was not finite."""

    def __init__(self, system: OdeSystem, paths: Paths, raises: bool) -> None:
        self.system, self.paths, self.raises = system, paths, raises
        self.calls = 0
        self.trouble: tuple[float, str] | None = None

    def __call__(self, moment: float, state: Array) -> Array:
        self.calls += 1
        slope = self.system.slope(moment, state, self.paths)
        if not np.isfinite(slope).all() and np.isfinite(state).all():
            self.trouble = (moment, self._describe(moment, slope))
            if self.raises:
                raise StoppedError(self.trouble[1], moment)
        return slope

    def _describe(self, moment: float, slope: Array) -> str:
        bad = ~np.isfinite(slope.reshape(len(slope), -1))
        row = int(np.argmax(bad.any(axis=1)))
        equation = self.system.program.states[row // self.paths.count]
        value = slope.reshape(len(slope), -1)[row][bad[row]][0]
        return (
            f"the {equation.label} gives {value} at t = {moment:.6g}; "
            f"a function in it{equation.doubtful} is not defined there, or the solution blows up"
        )

    def stopped(self, moment: float, reason: str | None) -> StoppedError:
        """Return the error that says why no path goes on from a moment."""
        if self.trouble is not None and abs(self.trouble[0] - moment) <= 1e-6 * max(abs(moment), 1e-300):
            return StoppedError(self.trouble[1], moment)
        labels = ", ".join(equation.label for equation in self.system.program.states)
        return StoppedError(
            f"the solution of the {labels} cannot be continued past t = {moment:.6g} "
            f"({(reason or '').rstrip('.').lower()}); it may blow up, or meet a pole or a jump; end before it",
            moment,
        )

    def fastest_decay(self, moment: float, state: Array) -> float:
        """Estimate the fastest rate of decay of the linearised system by a power iteration; 0 if it oscillates."""
        here = self(moment, state)
        largest = float(np.abs(here).max())
        begin = here / largest if 0 < largest < np.inf else np.zeros_like(here)  # (all of it may have decayed to nothing)
        direction = begin + 1e-3 * np.cos(np.arange(len(here)))
        probe = 1e-7 * max(float(np.abs(state).max()), 1e-6)
        decay = 0.0
        for _ in range(15):
            length = float(np.abs(direction).max())
            if length == 0.0 or not np.isfinite(length):
                break
            direction = direction / length
            image = (self(moment, state + probe * direction) - here) / probe
            size = float(direction @ direction)
            decay = -float(image @ direction) / size
            rate = float(np.linalg.norm(image)) / np.sqrt(size)
            decay = decay if decay > 0.5 * rate else 0.0
            direction = image
        return decay
