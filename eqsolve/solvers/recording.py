"""What the solvers put into a checkpoint: the long steps of a solve, with all that later steps read of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from eqsolve.files.codec import Codec

if TYPE_CHECKING:
    from eqsolve.files.checkpoint import Checkpoint
    from eqsolve.solvers.stochastic.sweeps import Sweeper
    from eqsolve.solvers.two_time.panel import Panel

__all__ = ["recorded", "solve_panel"]

Method = TypeVar("Method", bound=Callable[..., Any])


def recorded(method: Method) -> Method:
    """Make a method of a sweeper, or of what has one, a step of the sweeper's checkpoint, if it has one."""

    @functools.wraps(method)
    def step(self: Any, *args: Any, **named: Any) -> Any:
        sweeper: Sweeper = getattr(self, "sweeper", self)
        if sweeper.checkpoint is None:
            return method(self, *args, **named)

        def compute() -> Any:
            return method(self, *args, **named), sweeper.total_sweeps, sweeper.trusting

        made = sweeper.checkpoint.step(method.__name__, compute, sweeper.codec)
        result, sweeper.total_sweeps, sweeper.trusting = made
        return result

    return step  # type: ignore[return-value]


def solve_panel(panel: Panel, tolerance: float, checkpoint: Checkpoint | None) -> int:
    """Solve a panel of a march, or take its solution from the checkpoint; return the number of sweeps."""
    if checkpoint is None:
        return panel.solve(tolerance)

    def compute() -> tuple[Any, ...]:
        sweeps = panel.solve(tolerance)
        return sweeps, panel.state, panel.sizes, panel.errors, panel.rights

    sweeps, state, panel.sizes, panel.errors, panel.rights = checkpoint.step(
        f"panel of {panel.state.size} unknowns", compute, Codec()
    )
    if state is not panel.state:
        panel.state[:] = state
        panel.refresh()
    return int(sweeps)
