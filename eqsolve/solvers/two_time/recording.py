"""The panels of a march in a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqsolve.files.codec import Codec

if TYPE_CHECKING:
    from eqsolve.files.checkpoint import Checkpoint
    from eqsolve.solvers.two_time.panel import Panel

__all__ = ["solve_panel"]


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
