"""What the user asked of a solve, read and checked once."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from eqsolve.arguments import Reader, flag, names, number, numbers, pairs, whole
from eqsolve.errors import BudgetSpentError, UsageError
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.numerics.backend import read_device
from eqsolve.progress import roughly
from eqsolve.solvers.cluster import Cluster
from eqsolve.solvers.contract import Solver

Progress = Callable[[float, float, str], None]
_OVERRUN = 10.0  # CPU seconds beyond the budget, in which most first solutions end: better than none
_APART = 1e-9  # of the whole time, between steps' ends at a break: less than the tolerances that steps meet
# numerical results do not depend on these, and a checkpoint does not compare them
_AROUND = ("progress", "checkpoint", "threads", "sensitivity", "budget", "deadline", "started", "cluster", "given")


@dataclass(frozen=True)
class Options:
    """Times, tolerances and the rest, as ``solve`` was given them; every solver reads them from here.

    What they mean stands in ``eqsolve.options``. ``start`` is an initial guess of unknowns,
    ``warm_start`` the data of another solve to start from; without ``paths`` the result keeps no
    sample paths. ``sensitivity`` is the plan of the system with its derivatives, and its values.
    ``breaks`` are times at which coefficients jump or have a kink, where panels end.
    ``given`` are the names of the options that were set. A solver that refines asks
    ``is_short_of_time()`` before another round.
    """

    t_max: float
    rtol: float
    atol: float | None = None
    at: tuple[float, ...] = ()
    at2: tuple[tuple[float, float], ...] = ()
    kernels: bool | None = None
    order: int | None = None
    seed: int = 0
    progress: Progress | None = None
    step: float | None = None
    precision: int | None = None
    start: Mapping[str, float] | None = None
    checkpoint: Checkpoint | None = None
    region: tuple[float, float] | None = None
    warm_start: Any = None
    paths: bool = True
    device: str = "cpu"
    threads: int | None = None
    sensitivity: Any = None
    budget: float | None = None
    deadline: float = math.inf
    started: float = 0.0
    cluster: Cluster = field(default_factory=Cluster)
    solver: str | Solver | None = None
    observables: tuple[str, ...] | None = None
    derivatives: tuple[str, ...] = ()
    breaks: tuple[float, ...] = ()
    given: frozenset[str] = frozenset()

    @property
    def asked_times(self) -> set[float]:
        return {*self.at, *(moment for pair in self.at2 for moment in pair)}

    def step_ends(self, begin: float) -> set[float]:
        """Return times at which steps end: those asked for, and two at every break, so that none goes across."""
        return {*self.asked_times, *self.breaks, *(moment + _APART * (self.t_max - begin) for moment in self.breaks)}

    @classmethod
    def make(cls, *, step: Any = None, **asked: Any) -> Options:
        """Read and check the options that are given, not None; a clear error names the one that is wrong."""
        read = {name: _READERS[name](value, name) for name, value in asked.items() if value is not None}
        times = [*read.get("at", ()), *(moment for pair in read.get("at2", ()) for moment in pair)]
        given = frozenset(read) | ({"step"} if step is not None else set())
        usual = {"t_max": max(times, default=10.0), "rtol": 1e-3, "kernels": True if read.get("at2") else None}
        options = cls(**{**usual, **read, "given": given})
        if times and max(times) > options.t_max:
            raise UsageError(f"time {max(times):g} is asked for but t_max is {options.t_max:g}; raise t_max")
        if not 1e-14 <= options.rtol < 1:
            raise UsageError(f"rtol must lie between 1e-14 and 1, got {options.rtol:g}")
        if options.atol is not None and options.atol < 0:
            raise UsageError(f"atol must not be negative, got {options.atol:g}")
        return options.in_steps_of(step)

    def in_steps_of(self, step: Any) -> Options:
        """Return the same in discrete time, with this length of a step; None: in continuous time."""
        width = None if step is None else number(step, "step")
        if width is not None and not 0 < width <= self.t_max:
            raise UsageError(f"step must lie between 0 and t_max = {self.t_max:g}, got {width:g}")
        return replace(self, step=width)

    def begun(self) -> Options:
        """Return the same with the time of the budget running."""
        deadline = math.inf if self.budget is None else time.process_time() + self.budget
        return replace(self, deadline=deadline, started=time.perf_counter())

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the numbers, by name."""
        named = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _AROUND}
        return named | {"solver": self.solver if isinstance(self.solver, str | None) else self.solver.name}

    def time_left(self) -> float:
        """Return the CPU seconds that are left of the budget; infinity without one, never less than zero."""
        return max(0.0, self.deadline - time.process_time())

    def is_short_of_time(self) -> bool:
        """Return whether another round of refinement should not be begun: it costs about as much as all before it."""
        return self.budget is not None and self.time_left() < 0.5 * self.budget

    def demand_time(self, doing: str) -> None:
        """Stop a computation, which is ``doing`` something, where the budget was spent a while ago."""
        if time.process_time() > self.deadline + _OVERRUN:
            raise BudgetSpentError(f"the budget of {self.budget:g} s is spent {doing}; give more, or a larger rtol")

    def demand_after(self, begin: float) -> None:
        """Refuse a last time that does not lie after the start."""
        if self.t_max <= begin:
            raise UsageError(f"t_max = {self.t_max:g} does not lie after the start, {begin:g}")

    def report(self, done: float, text: str) -> None:
        """Tell the progress callback how far in time the solve is."""
        if self.progress is not None:
            self.progress(done, self.t_max, text)

    def report_share(self, share: float, text: str) -> None:
        """Tell the progress callback which share of the work is done, of all that is predicted by now."""
        self.report(share * self.t_max, text)

    def foresee(self, seconds: float, text: str) -> None:
        """Tell the progress callback how many seconds are predicted to be left."""
        if (expect := getattr(self.progress, "expect", None)) is not None:
            expect(seconds)
        elif seconds > 60:
            text = f"{text}, about {roughly(seconds)} left"
        spent = time.perf_counter() - self.started
        self.report_share(spent / (spent + seconds), text)


def read_seconds(value: Any, what: str) -> float:
    """Return a time in seconds: a number, or a text such as "30s", "5min" or "2h"."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(s|min|h|)\s*", value) if isinstance(value, str) else None
    try:
        seconds = float(match[1]) * {"": 1, "s": 1, "min": 60, "h": 3600}[match[2]] if match else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{what}: expected seconds, such as 60, or '30s', '5min', '2h'; got {value!r}")
    return seconds


def read_region(value: Any, what: str = "region") -> tuple[float, float] | None:
    """Return (low, height) of the part Re p ≥ low, |Im p| ≤ height of the plane in which a transform is searched."""
    if value is None:
        return None
    try:
        low, height = value
    except (TypeError, ValueError):
        raise UsageError(f"region takes two numbers (LOW, HEIGHT): Re p >= LOW and |Im p| <= HEIGHT; got {value!r}") from None
    low, height = number(low, f"LOW of {what}"), number(height, f"HEIGHT of {what}")
    if height <= 0:
        raise UsageError(f"{what}: HEIGHT must be positive, got {height:g}; LOW, HEIGHT are Re p >= LOW, |Im p| <= HEIGHT")
    return low, height


_READERS: dict[str, Reader] = {
    "t_max": number, "rtol": number, "atol": number, "at": lambda value, what: tuple(numbers(value, what)),
    "at2": lambda value, what: tuple(pairs(value, what)), "kernels": flag, "order": whole(1, 12), "seed": whole(0),
    "precision": whole(16, 1000), "region": read_region, "device": read_device, "threads": whole(1), "budget": read_seconds,
    "observables": lambda value, what: tuple(names(value, what)),
    "derivatives": lambda value, what: tuple(dict.fromkeys(names(value, what))),
    **dict.fromkeys(("progress", "solver", "cluster"), lambda value, what: value),
}  # fmt: skip
