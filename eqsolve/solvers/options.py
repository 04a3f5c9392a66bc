"""What the user asked of a solve, read and checked once."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eqsolve.arguments import whole
from eqsolve.errors import UsageError
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.numerics.backend import read_device

__all__ = ["Options", "read_region"]

Progress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Options:
    """Times, tolerances and the rest; every solver reads them from here.

    ``start`` are values of unknowns to begin with, ``neighbour`` what the solution at neighbouring parameters handed on;
    without ``paths`` no sample of them is kept. ``device`` is where arrays live, see ``eqsolve.numerics.backend``; ``threads``
    is how many may be used, all cores where that pays by default; ``beside`` is the plan of the system with its derivatives,
    and its values. ``budget`` are the CPU seconds that a solve may take: a solver asks ``is_short_of_time()`` before it
    refines again, or ``time_left()``, and returns the best so far with the status "tolerance not met".
    """

    t_max: float
    rtol: float
    atol: float | None
    at: tuple[float, ...]
    at2: tuple[tuple[float, float], ...]
    kernels: bool
    order: int | None
    seed: int
    progress: Progress | None
    step: float | None = None
    precision: int | None = None
    start: Mapping[str, float] | None = None
    checkpoint: Checkpoint | None = None
    region: tuple[float, float] | None = None
    neighbour: Any = None
    paths: bool = True
    device: str = "cpu"
    threads: int | None = None
    beside: Any = None
    budget: float | None = None
    deadline: float = math.inf

    @classmethod
    def make(
        cls,
        *,
        t_max: Any,
        rtol: Any,
        atol: Any,
        at: Any,
        at2: Iterable[Any] | None,
        kernels: bool | None,
        order: Any,
        seed: Any,
        progress: Progress | None,
        step: Any = None,
        precision: Any = None,
        start: Mapping[str, float] | None = None,
        checkpoint: Checkpoint | None = None,
        region: Any = None,
        neighbour: Any = None,
        paths: bool = True,
        device: Any = "cpu",
        threads: Any = None,
        budget: Any = None,
    ) -> Options:
        """Read and check the options; a clear error names the one that is wrong."""
        moments = () if at is None else at if isinstance(at, Iterable) else (at,)
        times = tuple(_time(value, "at") for value in moments)
        pairs = tuple(_pair(value) for value in (at2 if at2 is not None else ()))
        asked = [*times, *(moment for pair in pairs for moment in pair)]
        last = _time(t_max, "t_max") if t_max is not None else max(asked, default=10.0)
        if asked and max(asked) > last:
            raise UsageError(f"time {max(asked):g} is asked for but t_max is {last:g}; raise t_max")
        relative = _number(rtol, "rtol")
        if not 1e-14 <= relative < 1:
            raise UsageError(f"rtol must lie between 1e-14 and 1, got {relative:g}")
        absolute = None if atol is None else _number(atol, "atol")
        if absolute is not None and absolute < 0:
            raise UsageError(f"atol must not be negative, got {absolute:g}")
        order = None if order is None else whole(1, 12)(order, "order")
        seed = whole(0)(seed, "seed")
        wants = bool(pairs) if kernels is None else kernels
        width = None if step is None else _number(step, "step")
        if width is not None and not 0 < width <= last:
            raise UsageError(f"step must lie between 0 and t_max = {last:g}, got {width:g}")
        precision = None if precision is None else whole(16, 1000)(precision, "precision")
        seconds = None if budget is None else read_seconds(budget, "budget")
        return cls(
            last, relative, absolute, times, pairs, wants, order, seed, progress, width, precision, start, checkpoint,
            read_region(region), neighbour, paths, read_device(device),
            None if threads is None else whole(1)(threads, "threads"),
            budget=seconds, deadline=math.inf if seconds is None else time.process_time() + seconds,
        )  # fmt: skip

    def time_left(self) -> float:
        """Return the CPU seconds that are left of the budget; infinity without one, never less than zero."""
        return max(0.0, self.deadline - time.process_time())

    def is_short_of_time(self) -> bool:
        """Return whether another round of refinement should not be begun: it costs about as much as all before it."""
        return self.budget is not None and self.time_left() < 0.5 * self.budget

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


def read_seconds(value: Any, what: str) -> float:
    """Return a time in seconds: a number, or a text such as "30s", "5min" or "2h"."""
    found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(s|min|h|)\s*", value) if isinstance(value, str) else None
    try:
        seconds = float(found[1]) * {"": 1, "s": 1, "min": 60, "h": 3600}[found[2]] if found else _number(value, what)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"{what} takes a time in seconds, such as 30, '30s', '5min' or '2h'; got {value!r}")
    return seconds


def read_region(value: Any) -> tuple[float, float] | None:
    """Return (low, height) of the part Re p ≥ low, |Im p| ≤ height of the plane in which a transform is searched."""
    if value is None:
        return None
    try:
        low, height = value
    except (TypeError, ValueError):
        raise UsageError(f"region takes two numbers (LOW, HEIGHT): Re p >= LOW and |Im p| <= HEIGHT; got {value!r}") from None
    low, height = _number(low, "LOW of region"), _number(height, "HEIGHT of region")
    if height <= 0:
        raise UsageError(f"region=(LOW, HEIGHT) searches |Im p| <= HEIGHT: HEIGHT must be positive, got {height:g}")
    return low, height


def _number(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{what} must be a number, got {value!r}") from None
    if math.isnan(number) or math.isinf(number):
        raise UsageError(f"{what} must be a finite number, got {number}")
    return number


def _time(value: Any, what: str) -> float:
    return _number(value, what)


def _pair(value: Any) -> tuple[float, float]:
    try:
        first, second = value
    except (TypeError, ValueError):
        raise UsageError(f"at2 takes pairs (t, t'), got {value!r}") from None
    return (_time(first, "at2"), _time(second, "at2"))
